//go:build unix

package rundir

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shortDir returns a directory whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fr")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// WIRE-001, SUP-008: private, short, locked, and removed only after the end of
// its host.
func TestOpen(t *testing.T) {
	base := filepath.Join(shortDir(t), "ferment")
	first, err := Open(base)
	require.NoError(t, err)
	assert.Regexp(t, `/ferment/[0-9a-f]{8}$`, first.Path())
	inst, err := first.Instance()
	require.NoError(t, err)
	for _, dir := range []string{base, first.Path(), inst} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), dir)
	}

	dead := filepath.Join(base, "deadbeef")
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "1", "plugin-dir1"), 0o700))
	foreign := filepath.Join(base, "notes")
	require.NoError(t, os.Mkdir(foreign, 0o700))

	second, err := Open(base)
	require.NoError(t, err)
	assert.NoDirExists(t, dead, "it is not locked")
	assert.DirExists(t, first.Path(), "its host lives")
	assert.DirExists(t, foreign, "no host made it")

	require.NoError(t, first.Close())
	assert.NoDirExists(t, first.Path())
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

// Hosts that start concurrently do not remove each other's directories.
func TestOpenConcurrently(t *testing.T) {
	base := filepath.Join(shortDir(t), "f")
	var wg sync.WaitGroup
	dirs := make([]*Dir, 16)
	for i := range dirs {
		wg.Go(func() {
			d, err := Open(base)
			if assert.NoError(t, err) {
				dirs[i] = d
			}
		})
	}
	wg.Wait()
	for _, d := range dirs {
		require.NotNil(t, d)
		assert.DirExists(t, d.Path())
		assert.NoError(t, d.Close())
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Run("too long", func(t *testing.T) { // WIRE-001
		base := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
		_, err := Open(base)
		var long *PathTooLongError
		require.ErrorAs(t, err, &long)
		assert.Equal(t, MaxSocketPath, long.Limit)
		assert.Equal(t, len(long.Path), long.Length)
		assert.True(t, strings.HasPrefix(long.Path, base))
		assert.Contains(t, err.Error(), strconv.Itoa(long.Length))
		assert.NoDirExists(t, base)
	})
	t.Run("open to others", func(t *testing.T) {
		base := filepath.Join(shortDir(t), "f")
		require.NoError(t, os.Mkdir(base, 0o700))
		require.NoError(t, os.Chmod(base, 0o777))
		_, err := Open(base)
		assert.ErrorContains(t, err, "open to others")
	})
	t.Run("a link", func(t *testing.T) {
		dir := shortDir(t)
		require.NoError(t, os.Symlink(dir, filepath.Join(dir, "f")))
		_, err := Open(filepath.Join(dir, "f"))
		assert.ErrorContains(t, err, "not a directory")
	})
}

func TestBase(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, dir+"/ferment", Base(dir, 7))
	assert.Equal(t, "/tmp/ferment-7", Base("", 7))
	assert.Equal(t, "/tmp/ferment-7", Base(dir+"/none", 7))
}
