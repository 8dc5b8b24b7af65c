//go:build unix

package scan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes files with their path as text.
func write(t testing.TB, root string, paths ...string) {
	for _, p := range paths {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, p)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, p), []byte(p), 0o644))
	}
}

func refused(t testing.TB, typ string, o Options) *contract.Error {
	t.Helper()
	r, err := Run(context.Background(), o)
	require.Nil(t, r)
	require.ErrorIs(t, err, contract.OfType(typ))
	return contract.AsError(err)
}

// WS-020: links are stored as links, whatever they point to; what is neither
// file, link nor directory is counted.
func TestLinksAndSpecialFiles(t *testing.T) {
	root := t.TempDir()
	write(t, root, "d/f")
	for name, target := range map[string]string{"self": "self", "up": "..", "dir": "d", "out": "/etc", "cycle": "d/../cycle", "gone": "nowhere"} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(socket) }()
	wd, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.Chdir(root)) // the path of a socket is short
	err = unix.Bind(socket, &unix.SockaddrUnix{Name: "socket"})
	require.NoError(t, os.Chdir(wd))
	require.NoError(t, err)

	r := run(t, Options{Root: root, Scheme: id.B3})
	assert.Equal(t, 2, r.Skipped)
	for _, name := range []string{"self", "up", "dir", "out", "cycle", "gone"} {
		n := r.Tree.Lookup(name)
		require.NotNil(t, n, name)
		assert.Equal(t, id.Link, n.Mode)
		assert.Empty(t, n.Children)
	}
	assert.Equal(t, id.B3.Bytes([]byte("/etc")), r.Tree.Lookup("out").Content)
}

// WS-021: a directory that is swapped for a link to another place again and
// again is never left: what lies there is not found in any scan.
func TestSwappedDirectoryIsNotLeft(t *testing.T) {
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	write(t, root, "d/mine", "d/deep/mine")
	write(t, outside, "secret", "deep/secret")
	require.NoError(t, os.Symlink(outside, filepath.Join(base, "link")))
	dir, link := filepath.Join(root, "d"), filepath.Join(base, "link")
	var stop atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for !stop.Load() {
			_ = exchange(dir, link)
		}
	})
	defer swapping.Wait()
	defer stop.Store(true)
	links, dirs := 0, 0
	for range 400 {
		r := run(t, Options{Root: root, Scheme: id.B3, Workers: 2})
		r.Tree.Walk(func(path string, n *tree.Node) bool {
			require.False(t, strings.HasSuffix(path, "secret"), "%q lies outside of the root", path)
			if path == "d" && n.Mode == id.Link {
				links++
			} else if path == "d" {
				dirs++
			}
			return true
		})
	}
	assert.Positive(t, links)
	assert.Positive(t, dirs)
}

// exchange swaps two names atomically, where the system can.
func exchange(a, b string) error {
	tmp := a + ".swap"
	return errors.Join(os.Rename(a, tmp), os.Rename(b, a), os.Rename(tmp, b))
}

// WS-185: without a file descriptor, a scan fails with that cause; it takes no entry for
// unreadable.
func TestNoDescriptorLeft(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b")
	for _, path := range []string{"a", "d", "d/b"} {
		_, err := Run(context.Background(), Options{Root: root, Scheme: id.B3, SkipUnreadable: true, before: func(_, at string) error {
			if at == path {
				return unix.EMFILE
			}
			return nil
		}})
		require.ErrorIs(t, err, contract.OfType("store/io"), path)
		assert.Contains(t, contract.AsError(err).Hint, "open_files")
	}
}

// WS-022: an entry that cannot be read fails the scan, with all such paths, or
// is left out if the caller wants that.
func TestUnreadable(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b", "e/c")
	for i := range 150 {
		write(t, root, fmt.Sprintf("many/%03d", i))
	}
	broken := func(bad ...string) func(op, path string) error {
		return func(_, path string) error {
			for _, b := range bad {
				if path == b || strings.HasSuffix(b, "/") && strings.HasPrefix(path, b) {
					return unix.EACCES
				}
			}
			return nil
		}
	}
	e := refused(t, "scan/unreadable", Options{Root: root, Scheme: id.B3, before: broken("d", "a")})
	assert.Contains(t, e.Hint, ":on-unreadable")
	assert.Contains(t, e.Details.String(), `"a" "d"`)
	e = refused(t, "scan/unreadable", Options{Root: root, Scheme: id.B3, before: broken("many/")})
	assert.Equal(t, 100, strings.Count(e.Details.String(), "many/"), "the first 100 are listed")
	assert.Contains(t, e.Details.String(), "150")

	r := run(t, Options{Root: root, Scheme: id.B3, SkipUnreadable: true, before: broken("d", "a")})
	assert.False(t, r.Complete)
	assert.Equal(t, []string{"a", "d"}, r.Unreadable)
	assert.Nil(t, r.Tree.Lookup("a"))
	assert.Nil(t, r.Tree.Lookup("d"))
	assert.NotNil(t, r.Tree.Lookup("e/c"))
}

// WS-220: what disappears between listing and reading is absent and reported.
func TestVanishing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b")
	r := run(t, Options{Root: root, Scheme: id.B3, before: func(_, path string) error {
		if path == "d" || path == "a" {
			return unix.ENOENT
		}
		return nil
	}})
	assert.Equal(t, []string{"a", "d"}, r.Unstable)
	assert.Empty(t, r.Tree.Root.Children)
	assert.True(t, r.Complete)
}

// WS-023: only a file whose size, times, inode and mode are equal is known, and
// only if its times were old enough when it was read.
func TestStatCache(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f", "g", "d/.gitignore")
	o := Options{Root: root, Scheme: id.B3, Now: later}
	o.Previous = run(t, o)
	o.Previous = run(t, o)
	assert.Zero(t, o.Previous.Opened, "nothing changed")
	assert.Zero(t, o.Previous.BytesHashed)

	info, err := os.Stat(filepath.Join(root, "f"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "f"), []byte("F"), 0o644))
	require.NoError(t, os.Chtimes(filepath.Join(root, "f"), info.ModTime(), info.ModTime()))
	r := run(t, o)
	assert.Equal(t, id.B3.Bytes([]byte("F")), r.Tree.Lookup("f").Content, "equal size and time of modification")
	assert.Equal(t, 1, r.Opened)

	o.Force = true
	forced := run(t, o)
	assert.Equal(t, nodes(r.Tree), nodes(forced.Tree))
	assert.Greater(t, forced.Opened, 2)

	// A scan at the time of the change trusts nothing.
	fresh := Options{Root: root, Scheme: id.B3, Now: func() time.Time { return info.ModTime().Add(racyWindow - time.Millisecond) }}
	fresh.Previous = run(t, fresh)
	assert.Equal(t, 4, run(t, fresh).Opened, "three files, one of them also for its rules")
	touched := filepath.Join(root, "g")
	require.NoError(t, os.Chtimes(touched, time.Time{}, time.Now().Add(2*time.Hour)))
	o.Force, o.Previous = false, run(t, o)
	assert.Equal(t, 1, run(t, o).Opened, "a time in the future is not trusted")
}

// WS-024: a file that changes while it is read is read again; one that changes
// each time is recorded, reported and not trusted.
func TestUnstable(t *testing.T) {
	for _, c := range []struct{ changes, reads int }{{0, 1}, {1, 2}, {2, 3}, {100, 3}} {
		t.Run(fmt.Sprint(c.changes), func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "f")
			reads := 0
			o := Options{Root: root, Scheme: id.GitSHA1, Now: later, Workers: 1, before: func(op, path string) error {
				if op != "read" {
					return nil
				}
				if reads++; reads <= c.changes {
					f, err := os.OpenFile(filepath.Join(root, path), os.O_APPEND|os.O_WRONLY, 0)
					require.NoError(t, err)
					_, err = f.WriteString("x")
					require.NoError(t, errors.Join(err, f.Close()))
				}
				return nil
			}}
			r := run(t, o)
			assert.Equal(t, c.reads, reads)
			n := r.Tree.Lookup("f")
			assert.Equal(t, id.GitSHA1.Bytes([]byte("f"+strings.Repeat("x", int(n.Size)-1))), n.Content, "what was read is one state")
			assert.Equal(t, c.changes < 3, len(r.Unstable) == 0)
			o.Previous, o.before = r, nil
			assert.Equal(t, c.changes >= 3, run(t, o).Opened == 1, "it is read again next time")
		})
	}
	root := t.TempDir()
	write(t, root, "f")
	require.NoError(t, os.Truncate(filepath.Join(root, "f"), 1<<20))
	size := int64(1 << 20)
	e := refused(t, "scan/unreadable", Options{Root: root, Scheme: id.B3, before: func(_, path string) error {
		size /= 2
		return os.Truncate(filepath.Join(root, path), size)
	}})
	assert.Contains(t, e.Error(), "f")
}

// WS-025: a canceled scan ends in the middle of a file without end.
func TestCancel(t *testing.T) {
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, "endless"))
	require.NoError(t, err)
	require.NoError(t, errors.Join(f.Truncate(1<<42), f.Close()))
	ctx, cancel := context.WithCancel(context.Background())
	r, err := Run(ctx, Options{Root: root, Scheme: id.B3, Progress: func(int) { cancel() }})
	assert.Nil(t, r)
	require.ErrorIs(t, err, contract.OfType("canceled"))
}

// WS-028: .git and the excluded paths are left out, the preset only on request.
func TestAlwaysIgnored(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", ".ferment/workspace/x", "d/.git/HEAD", "d/b", "target/x", "d/node_modules/y")
	o := Options{Root: root, Scheme: id.B3, Exclude: []string{".ferment"}}
	r := run(t, o)
	for path, there := range map[string]bool{"a": true, "d/b": true, ".ferment": false, "d/.git": false, "target/x": true, "d/node_modules/y": true} {
		assert.Equal(t, there, r.Tree.Lookup(path) != nil, path)
	}
	o.Workspace = ignore.Parse("build-dirs", "", []byte(BuildDirs))
	preset := run(t, o)
	assert.Nil(t, preset.Tree.Lookup("target"))
	assert.Nil(t, preset.Tree.Lookup("d/node_modules"))
	assert.NotEqual(t, r.IgnoreDigest, preset.IgnoreDigest)
	o.Patterns = ignore.Parse("request", "", []byte("!target/"))
	assert.NotNil(t, run(t, o).Tree.Lookup("target/x"))
}

// WS-032: an ignore file is a node, and a change of it counts in the same scan.
func TestIgnoreFilesAreNodes(t *testing.T) {
	root := t.TempDir()
	write(t, root, "d/a.log", "d/.gitignore", "e/a.log")
	o := Options{Root: root, Scheme: id.B3, Now: later}
	before := run(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(root, "d/.gitignore"), []byte("*.log\n"), 0o644))
	o.Previous = before
	after := run(t, o)
	assert.NotNil(t, before.Tree.Lookup("d/a.log"))
	assert.Nil(t, after.Tree.Lookup("d/a.log"))
	assert.NotNil(t, after.Tree.Lookup("e/a.log"))
	assert.NotNil(t, after.Tree.Lookup("d/.gitignore"))
	assert.NotEqual(t, before.IgnoreDigest, after.IgnoreDigest)

	require.NoError(t, os.WriteFile(filepath.Join(root, "e/.fermentignore"), []byte("!a.log\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "e/.gitignore"), []byte("a.log\n"), 0o644))
	assert.NotNil(t, run(t, o).Tree.Lookup("e/a.log"), ".fermentignore takes precedence")

	require.NoError(t, os.Remove(filepath.Join(root, "e/.gitignore")))
	require.NoError(t, os.Symlink("../d/.gitignore", filepath.Join(root, "e/.gitignore")))
	require.NoError(t, os.Remove(filepath.Join(root, "e/.fermentignore")))
	assert.NotNil(t, run(t, o).Tree.Lookup("e/a.log"), "a link is not read")

	require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), make([]byte, maxRuleFile+1), 0o644))
	_ = refused(t, "ignore/invalid", o)
}
