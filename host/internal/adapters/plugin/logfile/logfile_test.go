package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SUP-009: two files of a bounded size.
func TestFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log", "plugin.log")
	l, err := Open(path, 100, 2)
	require.NoError(t, err)
	line := strings.Repeat("x", 29) + "\n"
	for range 10 {
		n, err := l.Write([]byte(line))
		require.NoError(t, err)
		assert.Equal(t, 30, n)
	}
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Write([]byte(line))
	assert.ErrorIs(t, err, os.ErrClosed)

	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.LessOrEqual(t, info.Size(), int64(100))
		assert.Zero(t, info.Size()%30, "lines stay whole")
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	// A log that exists is continued.
	l, err = Open(path, 100, 1)
	require.NoError(t, err)
	for range 4 {
		_, err = l.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(100))
	_, err = Open(path, 0, 1)
	assert.Error(t, err)
}
