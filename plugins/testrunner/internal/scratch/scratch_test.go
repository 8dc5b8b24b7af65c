package scratch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func open(t testing.TB, base string, limits Limits) *Store {
	t.Helper()
	s, err := Open(base, limits)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// listing returns every path of a tree with its content.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || rel == ".":
			return err
		case e.IsDir():
			out[rel+"/"] = ""
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			out[rel+"@"] = target
			return err
		default:
			text, err := os.ReadFile(path)
			out[rel] = string(text)
			return err
		}
		return nil
	}))
	return out
}

// plugins.md 7.0: a copy has the contents of a tree and nothing that leads out.
func TestCopy(t *testing.T) {
	src := t.TempDir()
	write(t, src, "a.txt", "a")
	write(t, src, "d/e/b.txt", "b")
	write(t, src, ".git/config", "history")
	write(t, src, "sub/.git", "gitdir: elsewhere")
	require.NoError(t, os.Mkdir(filepath.Join(src, "empty"), 0o500))
	require.NoError(t, os.Chmod(filepath.Join(src, "a.txt"), 0o555))
	for name, target := range map[string]string{
		"in": "d/e/b.txt", "d/up": "../a.txt", "dangling": "missing", "dirlink": "d/e",
		"out": "../outside", "abs": "/etc/passwd", "self": filepath.Join(src, "a.txt"), "d/sneaky": "../../x", "tricky": "dirlink/../../../x", "crossing": "dirlink/../b",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(src, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(src, "pipe"), 0o600))

	s := open(t, t.TempDir(), Limits{})
	c, err := s.Copy(context.Background(), "run", src)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{
		"a.txt": "a", "d/": "", "d/e/": "", "d/e/b.txt": "b", "sub/": "", "empty/": "",
		"in@": "d/e/b.txt", "d/up@": "../a.txt", "dangling@": "missing", "dirlink@": "d/e",
	}, listing(t, c.Dir))
	assert.ElementsMatch(t, []string{"out", "abs", "self", "d/sneaky", "tricky", "crossing", "pipe"}, c.LeftOut)
	info, err := os.Stat(filepath.Join(c.Dir, "a.txt"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), info.Mode().Perm()|0o200, "executables stay so, and the owner may write")
	assert.NoError(t, os.WriteFile(filepath.Join(c.Dir, "empty", "x"), nil, 0o600), "directories of the copy can be written")
}

func TestCopyLimits(t *testing.T) {
	src := t.TempDir()
	write(t, src, "a", "12345")
	write(t, src, "b", "12345")
	base := t.TempDir()
	for _, c := range []struct {
		limits Limits
		what   string
	}{{Limits{Files: 1}, "files"}, {Limits{Bytes: 9}, "bytes"}} {
		s := open(t, base, c.limits)
		_, err := s.Copy(context.Background(), "run", src)
		var le *LimitError
		require.ErrorAs(t, err, &le)
		assert.Equal(t, c.what, le.What)
		assert.NotEmpty(t, le.Error())
		assert.Equal(t, map[string]string{".lock": ""}, listing(t, s.dir), "a copy that failed leaves nothing")
	}
	s := open(t, base, Limits{Files: 2, Bytes: 10})
	_, err := s.Copy(context.Background(), "run", src)
	assert.NoError(t, err, "the limits are inside")
}

func TestCopyFails(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	for _, dir := range []string{filepath.Join(t.TempDir(), "missing"), writeFile(t)} {
		_, err := s.Copy(context.Background(), "run", dir)
		var te *TreeError
		require.ErrorAs(t, err, &te)
		assert.Contains(t, te.Error(), "read .")
		assert.NotNil(t, errors.Unwrap(te))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Copy(ctx, "run", t.TempDir())
	assert.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, s.runs)
}

// A tree may be in use while it is copied: what vanishes after it was listed is not copied.
func TestCopyOfTreeInUse(t *testing.T) {
	src := t.TempDir()
	write(t, src, "a", "a")
	write(t, src, "file.part", "x")
	write(t, src, "gone/inside", "x")
	write(t, src, "kept/b", "b")
	require.NoError(t, os.Symlink("a", filepath.Join(src, "link")))

	s := open(t, t.TempDir(), Limits{})
	ctx := &onCheck{Context: context.Background(), at: 2, do: func() { // the first check comes before the listing
		for _, name := range []string{"file.part", "gone", "link"} {
			assert.NoError(t, os.RemoveAll(filepath.Join(src, name)))
		}
	}}
	c, err := s.Copy(ctx, "run", src)
	require.NoError(t, err)
	assert.Less(t, ctx.at, 0, "the entries vanished while the tree was copied")
	out := listing(t, c.Dir)
	delete(out, "gone/") // a directory may be there without what it held
	assert.Equal(t, map[string]string{"a": "a", "kept/": "", "kept/b": "b"}, out)
}

// onCheck is a context that calls do when it is asked for its error for the at-th time.
type onCheck struct {
	context.Context
	at int
	do func()
}

func (c *onCheck) Err() error {
	if c.at--; c.at == 0 {
		c.do()
	}
	return c.Context.Err()
}

func writeFile(t testing.TB) string {
	dir := t.TempDir()
	write(t, dir, "file", "x")
	return filepath.Join(dir, "file")
}

// plugins.md 7.0: a scratch copy exists until its run ends.
func TestLifetime(t *testing.T) {
	src := t.TempDir()
	write(t, src, "a", "a")
	s := open(t, t.TempDir(), Limits{})
	one, err := s.Copy(context.Background(), "one", src)
	require.NoError(t, err)
	again, err := s.Copy(context.Background(), "one", src)
	require.NoError(t, err)
	two, err := s.Copy(context.Background(), "two", src)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(one.Dir, 0o500), "tests may leave what is hard to remove")

	require.NoError(t, s.Drop("one", again.Dir))
	assert.NoDirExists(t, again.Dir)
	require.NoError(t, s.End("one"))
	assert.NoDirExists(t, one.Dir)
	assert.DirExists(t, two.Dir)
	require.NoError(t, s.End("one"), "ending twice is no error")
	require.NoError(t, s.End("two"))
	assert.Empty(t, s.runs)
	require.NoError(t, s.Close())
	assert.NoDirExists(t, s.dir)
	_, err = s.Dir("three", "x")
	assert.ErrorContains(t, err, "shutting down")
}

// The directory of a killed process is removed by the next one; those of live
// processes are kept.
func TestAbandonedSpacesAreRemoved(t *testing.T) {
	base := t.TempDir()
	living := open(t, base, Limits{})
	dead, err := Open(base, Limits{})
	require.NoError(t, err)
	write(t, dead.dir, "tree-1/x", "x")
	require.NoError(t, dead.lock.Close()) // as the kernel does for a dead process
	require.NoError(t, os.Mkdir(filepath.Join(base, "other"), 0o755))

	open(t, base, Limits{})
	assert.NoDirExists(t, dead.dir)
	assert.DirExists(t, living.dir)
	assert.DirExists(t, filepath.Join(base, "other"))
}

// Processes that start together remove nothing of each other.
func TestConcurrentOpens(t *testing.T) {
	base := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s, err := Open(base, Limits{})
				if !assert.NoError(t, err) {
					return
				}
				_, err = s.Dir("run", "tree")
				assert.NoError(t, err)
				assert.NoError(t, s.Close())
			}
		})
	}
	wg.Wait()
}

func TestConcurrentRuns(t *testing.T) {
	src := t.TempDir()
	write(t, src, "a", strings.Repeat("a", 1000))
	s := open(t, t.TempDir(), Limits{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			run := string(rune('a' + i))
			c, err := s.Copy(context.Background(), run, src)
			if assert.NoError(t, err) {
				assert.FileExists(t, filepath.Join(c.Dir, "a"))
			}
			assert.NoError(t, s.End(run))
		})
	}
	wg.Wait()
	assert.Empty(t, s.runs)
}
