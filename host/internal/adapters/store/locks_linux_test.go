package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lock by which SQLite tells other programs that the log is in use survives
// the upkeep: a process that closes a file loses all its locks on it.
func TestUpkeepKeepsLocks(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing), sc.finished(nothing))
	syncRun(t, s, "run_1")
	require.True(t, locked(t, filepath.Join(dir, filepath.Base(s.opts.Path)+"-shm")))
	require.NoError(t, s.Close())

	s = openAt(t, dir)
	for range 3 {
		lite(s).walBehind()
	}
	assert.True(t, locked(t, s.opts.Path+"-shm"))
}

// locked reports whether this process has a POSIX lock on a file.
func locked(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	text, err := os.ReadFile("/proc/locks")
	require.NoError(t, err)
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "POSIX") && strings.Contains(line, inode) && strings.Contains(line, fmt.Sprintf(" %d ", os.Getpid())) {
			return true
		}
	}
	return false
}
