package lock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func put(p Plugin) func(File, bool, error) (File, error) {
	return func(old File, _ bool, err error) (File, error) { return old.With(p), err }
}

func named(name string) Plugin { return Plugin{Name: name, Version: "1", Protocol: "v1"} }

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "ferment.lock.hcl")
	f, there, err := Read("f", path)
	require.NoError(t, err)
	assert.False(t, there)
	assert.Empty(t, f.Plugins)
	require.NoError(t, Update("f", path, put(named("a"))))
	require.NoError(t, os.Chmod(path, 0o640))
	require.NoError(t, Update("f", path, put(named("b"))))
	f, there, err = Read("f", path)
	require.NoError(t, err)
	assert.True(t, there)
	assert.Len(t, f.Plugins, 2)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), "the mode stays")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing else is left")
}

// Writers wait for each other: none of twenty entries is lost.
func TestUpdatesWaitForEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ferment.lock.hcl")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { assert.NoError(t, Update("f", path, put(named(string(rune('a'+i)))))) })
	}
	all.Wait()
	f, _, err := Read("f", path)
	require.NoError(t, err)
	assert.Len(t, f.Plugins, 20)
}

func TestUpdateFollowsALink(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real.hcl")
	require.NoError(t, Update("f", real, put(named("a"))))
	link := filepath.Join(dir, "link.hcl")
	require.NoError(t, os.Symlink(real, link))
	require.NoError(t, Update("f", link, put(named("b"))))
	f, _, err := Read("f", real)
	require.NoError(t, err)
	assert.Len(t, f.Plugins, 2)
}

// change gets the error of a broken file, which stays as it is.
func TestUpdateOfABrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ferment.lock.hcl")
	require.NoError(t, os.WriteFile(path, []byte("broken"), 0o600))
	err := Update("f", path, put(named("a")))
	var d *DecodeError
	require.ErrorAs(t, err, &d)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "broken", string(text))
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	_, there, err := Read("f", t.TempDir())
	assert.True(t, there)
	assert.ErrorContains(t, err, "not a regular file")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, _, err = Read("f", pipe)
	assert.ErrorContains(t, err, "not a regular file")
	path := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 10<<20))
	_, _, err = Read("f", path)
	assert.ErrorContains(t, err, "over the limit")
}

// faulty fails at one step, like a faulty disk.
type faulty struct {
	newFile
	write, finish error
}

func (f faulty) Write(b []byte) (int, error) {
	if f.write != nil {
		n, _ := f.newFile.Write(b[:len(b)/2]) // a partial write, as on a full disk
		return n, f.write
	}
	return f.newFile.Write(b)
}

func (f faulty) CloseAtomicallyReplace() error {
	if f.finish != nil {
		return f.finish
	}
	return f.newFile.CloseAtomicallyReplace()
}

// HCL-010, HCL-041: a full or broken disk leaves the old file unchanged and no
// other file.
func TestDiskFaults(t *testing.T) {
	for name, fault := range map[string]faulty{
		"full":          {write: syscall.ENOSPC},
		"broken":        {write: syscall.EIO},
		"broken at end": {finish: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "ferment.lock.hcl")
			require.NoError(t, Update("f", path, put(named("old"))))
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			err = replace(path, []byte("new"), func(path string) (newFile, error) {
				t, err := pending(path)
				fault.newFile = t
				return fault, err
			})
			assert.True(t, errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO), "%v", err)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(before), string(after))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, left, 1)
		})
	}
}
