package confine

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startInSession waits for a line and then starts a program in another session.
func startInSession(args []string) error {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.SysProcAttr = os.Stdin, os.Stdout, &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// A process that is marked while it runs passes the mark on to later children,
// also in another session.
func TestMarkRunning(t *testing.T) {
	require.True(t, canMark(), "this process carries a mark, so this test proves nothing here")
	cmd := exec.Command(executable(t), roleFlag+"start-in-session", "/bin/sh", "-c", "echo $$; read line")
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

	assert.True(t, Foreign(child))
	assert.True(t, Foreign(cmd.Process.Pid))
	assert.False(t, Foreign(os.Getpid()))
	assert.False(t, Foreign(os.Getppid()), "it has no mark")
	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.True(t, Foreign(cmd.Process.Pid), "it has ended")
}
