//go:build unix

package scan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-230: limits end the scan and are named.
func TestLimits(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "b", "d/c")
	run(t, Options{Root: root, Scheme: id.B3, MaxNodes: 5})
	e := refused(t, "limit/exceeded", Options{Root: root, Scheme: id.B3, MaxNodes: 4})
	assert.Contains(t, e.Details.String(), ":limit :nodes")

	deep := t.TempDir()
	under(t, deep, maxDepth+1, "d", func(int) {})
	run(t, Options{Root: deep, Scheme: id.B3})
	require.NoError(t, os.Rename(filepath.Join(deep, "d"), filepath.Join(root, "deep")))
	require.NoError(t, os.Mkdir(filepath.Join(deep, "d"), 0o755))
	require.NoError(t, os.Rename(filepath.Join(root, "deep"), filepath.Join(deep, "d", "d")))
	e = refused(t, "limit/exceeded", Options{Root: deep, Scheme: id.B3})
	assert.Contains(t, e.Details.String(), ":limit :depth")
	assert.Less(t, len(e.Error()), 400, "the limit is not lost behind the path")

	long := t.TempDir()
	under(t, long, 16, strings.Repeat("n", 254), func(dir int) { // 16 times 255 bytes with the slash
		require.NoError(t, unix.Mkdirat(dir, strings.Repeat("x", maxPath-16*255), 0o755))
	})
	run(t, Options{Root: long, Scheme: id.B3})
	under(t, long, 16, strings.Repeat("n", 254), func(dir int) {
		require.NoError(t, unix.Mkdirat(dir, strings.Repeat("x", maxPath-16*255+1), 0o755))
	})
	e = refused(t, "limit/exceeded", Options{Root: long, Scheme: id.B3})
	assert.Contains(t, e.Details.String(), ":limit :path")
}

// under makes a chain of directories with one name and runs a function in the
// last one: paths that are too long for the system are reached part by part.
func under(t testing.TB, root string, depth int, name string, run func(dir int)) {
	fd, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		if err := unix.Mkdirat(fd, name, 0o755); !errors.Is(err, unix.EEXIST) {
			require.NoError(t, err)
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, errors.Join(err, unix.Close(fd)))
		fd = next
	}
	run(fd)
	require.NoError(t, unix.Close(fd))
}

// WS-021, WS-220: the root is a directory inside of the allowed roots, after its
// own links.
func TestResolve(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write(t, base, "allowed/in/f", "other/f", "allowed2/f")
	allowed := []string{filepath.Join(base, "allowed")}
	for name, target := range map[string]string{"good": "allowed/in", "allowed/bad": "../other"} {
		require.NoError(t, os.Symlink(target, filepath.Join(base, name)))
	}
	for path, typ := range map[string]string{
		"allowed": "", "allowed/in": "", "good": "",
		"other": "workspace/root-denied", "allowed2": "workspace/root-denied", "allowed/bad": "workspace/root-denied", "": "workspace/root-denied",
		"allowed/in/f": "workspace/not-found", "allowed/none": "workspace/not-found",
	} {
		got, err := Resolve(filepath.Join(base, path), allowed)
		if typ == "" {
			require.NoError(t, err, path)
			assert.True(t, strings.HasPrefix(got, allowed[0]), got)
		} else {
			require.ErrorIs(t, err, contract.OfType(typ), path)
		}
	}
	_ = refused(t, "workspace/not-found", Options{Root: filepath.Join(base, "none"), Scheme: id.B3})
}

// WS-034: other file systems are left out if the workspace says so.
func TestOneFileSystem(t *testing.T) {
	mounted := mountPoint(t)
	r, err := Run(context.Background(), Options{
		Root: "/", Scheme: id.B3, OneFileSystem: true, SkipUnreadable: true,
		Patterns: ignore.Parse("", "", []byte("/*\n!/"+mounted+"/\n")),
	})
	require.NoError(t, err)
	assert.Nil(t, r.Tree.Lookup(mounted))
	assert.Equal(t, 1, r.Skipped)
}

// mountPoint returns a directory in / on which another file system is mounted, such as
// proc or dev. Every system has one.
func mountPoint(t testing.TB) string {
	var root, st unix.Stat_t
	require.NoError(t, unix.Lstat("/", &root))
	entries, err := os.ReadDir("/")
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && unix.Lstat("/"+e.Name(), &st) == nil && st.Dev != root.Dev {
			return e.Name()
		}
	}
	require.Fail(t, "no other file system is mounted in /")
	return ""
}

// WS-230: the nodes of branches that a partial scan does not read count too.
func TestNodeLimitOfBranches(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/1", "a/2", "b/1", "b/2")
	o := Options{Root: root, Scheme: id.B3, Now: later}
	o.Previous = run(t, o)
	write(t, root, "b/3")
	o.Dirs, o.MaxNodes = []string{"b"}, 8 // the root too
	run(t, o)
	o.MaxNodes = 7
	e := refused(t, "limit/exceeded", o)
	assert.Equal(t, "{:limit :nodes :maximum 7}", e.Details.String())
	o.Dirs = nil
	_ = refused(t, "limit/exceeded", o)
}

// WS-252: a scan that finds nothing opens no file; one after a change opens the
// file, and a new ignore file for its rules too, whatever the size of the tree.
func TestFilesOpened(t *testing.T) {
	for _, size := range []int{20, 1000} {
		root := t.TempDir()
		for i := range size {
			write(t, root, fmt.Sprintf("d%d/f%d", i%10, i))
		}
		for _, rules := range []string{".gitignore", "d3/.gitignore", "d4/.fermentignore"} {
			require.NoError(t, os.WriteFile(filepath.Join(root, rules), []byte("*.log\n"), 0o644))
		}
		o := Options{Root: root, Scheme: id.B3, Now: later}
		o.Previous = run(t, o)
		assert.Equal(t, size+3+3, o.Previous.Opened)
		assert.Zero(t, run(t, o).Opened)
		require.NoError(t, os.WriteFile(filepath.Join(root, "d1", "f1"), []byte("changed"), 0o644))
		for _, part := range [][]string{nil, {"d1"}} {
			o.Dirs = part
			assert.Equal(t, 1, run(t, o).Opened)
		}
		loaded := *o.Previous
		loaded.ruleFiles = nil // as another process begins
		o.Previous, o.Dirs = &loaded, nil
		assert.Equal(t, 1+3, run(t, o).Opened, "the ignore files are not in the stat cache")
	}
}

// WS-253: the heap during a scan is bounded by the number of nodes, and a large
// file adds no more than buffers.
func TestMemory(t *testing.T) {
	const nodes = 5000
	root := t.TempDir()
	for i := range nodes {
		write(t, root, fmt.Sprintf("d%d/file with a name %d", i%100, i))
	}
	largest := heapDuring(func() { run(t, Options{Root: root, Scheme: id.B3, Now: later}) })
	assert.Less(t, largest, uint64(32<<20+600*nodes))

	size := int64(proof.Size(t, "MiB of one file", 96, 4096)) << 20
	big := t.TempDir()
	write(t, big, "f")
	without := heapDuring(func() { run(t, Options{Root: big, Scheme: id.B3}) })
	require.NoError(t, os.Truncate(filepath.Join(big, "f"), size))
	with := heapDuring(func() { assert.Equal(t, size, run(t, Options{Root: big, Scheme: id.B3}).BytesHashed) })
	assert.Less(t, with, without+4<<20)
}

// heapDuring returns how far the heap grows while a function runs, with the
// objects that are not collected yet.
func heapDuring(run func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtime.GC()
	metrics.Read(sample)
	before, top := sample[0].Value.Uint64(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				top = max(top, sample[0].Value.Uint64())
			case <-done:
				return
			}
		}
	}()
	run()
	close(done)
	<-ended
	return top - min(top, before)
}
