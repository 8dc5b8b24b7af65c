//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-004: while a daemon goes down that no longer answers, an act waits for its end
// instead of running beside it; --local does not wait.
func TestActWaitsForADyingDaemon(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	w.serve().stop()
	lock, err := os.OpenFile(filepath.Join(w.dir, "var", "LOCK"), os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	require.NoError(t, lock.Truncate(0))
	_, err = lock.WriteAt([]byte(fmt.Sprintf("{:pid %d :boot \"this test\"}\n", os.Getpid())), 0)
	require.NoError(t, err)

	local := w.run("act", "mine/data", "{}", "--local")
	assert.Equal(t, 0, local.code, local.stderr)
	p := w.start("", "act", "mine/data", "{}")
	text, ok := p.line(0)
	require.True(t, ok)
	assert.Contains(t, text, "is held by")
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_UN))
	got := p.wait()
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, ":n 1")
}
