package confine

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that is marked while it runs passes the mark on to what it starts later,
// also in a session of its own.
func TestMarkRunning(t *testing.T) {
	if !canMark() {
		t.Skip("this process carries a mark")
	}
	cmd := exec.Command("/bin/sh", "-c", `read line; setsid /bin/sh -c 'echo $$; read line'; true`)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = in.Close() }()

	mark := MarkRunning(cmd.Process.Pid)
	require.NotZero(t, mark)
	assert.Equal(t, mark, Mark(cmd.Process.Pid))
	assert.NotEqual(t, mark, Mark(os.Getpid()))
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	var child int
	_, err = fmt.Fscan(out, &child)
	require.NoError(t, err)
	assert.NotEqual(t, cmd.Process.Pid, child)
	assert.Equal(t, mark, Mark(child))
}
