//go:build unix

package scan

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

var schemes = []id.Scheme{id.B3, id.S2, id.GitSHA1, id.GitSHA256}

// later is a clock at which the files of a test are old enough to be trusted.
func later() time.Time { return time.Now().Add(time.Hour) }

// nodes returns mode, content and node id of every path.
func nodes(t *tree.Tree) map[string][3]string {
	all := map[string][3]string{}
	t.Walk(func(path string, n *tree.Node) bool {
		all[path] = [3]string{n.Mode.String(), n.Content.String(), n.ID.String()}
		return true
	})
	return all
}

// WS-001, WS-020: ids do not depend on where the tree lies, on the number of
// workers, or on whether files were read or known.
func TestIDsDependOnTheTreeOnly(t *testing.T) {
	for seed := range proof.Size(t, "trees at two places", 12, 500) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		scheme := schemes[seed%len(schemes)]
		a, b := t.TempDir(), filepath.Join(t.TempDir(), "else\nwhere")
		coretest.Grow(t, r, a, coretest.Tree{Depth: 3, Width: 7, Ignore: true, Special: true})
		copyTree(t, a, b)
		first := run(t, Options{Root: a, Scheme: scheme, Workers: 1, Now: later})
		want := nodes(first.Tree)
		for _, o := range []Options{
			{Root: b, Workers: 1},
			{Root: b, Workers: 7},
			{Root: a, Workers: 3, Previous: first},
			{Root: a, Workers: 3, Previous: first, Force: true},
			{Root: b, Workers: 2, Previous: first}, // whatever is wrongly reused shows
		} {
			o.Scheme, o.Now = scheme, later
			require.Equal(t, want, nodes(run(t, o).Tree), "seed %d, %d workers", seed, o.Workers)
		}
	}
}

// copyTree copies files, directories and links with their permissions.
func copyTree(t testing.TB, from, to string) {
	require.NoError(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := e.Info()
		require.NoError(t, err)
		switch {
		case e.IsDir():
			copyTree(t, src, dst)
		case info.Mode().IsRegular():
			text, err := os.ReadFile(src)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(dst, text, 0o600))
			require.NoError(t, os.Chmod(dst, info.Mode()))
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(src)
			require.NoError(t, err)
			require.NoError(t, os.Symlink(target, dst))
		}
	}
}

// WS-007: equal files at two paths share the content id and differ in node id.
func TestEqualFilesHaveTwoNodes(t *testing.T) {
	for _, scheme := range schemes {
		root := t.TempDir()
		for _, name := range []string{"a", "b"} {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("equal"), 0o644))
		}
		tr := run(t, Options{Root: root, Scheme: scheme}).Tree
		assert.Equal(t, tr.Lookup("a").Content, tr.Lookup("b").Content)
		assert.NotEqual(t, tr.Lookup("a").ID, tr.Lookup("b").ID)
	}
}

// WS-008, WS-025, WS-026: one edit changes the ids of the node and of its
// ancestors, of what lies below a renamed directory, and of no other node. A
// scan of that path alone finds the same as a full one.
func TestAnEditChangesItsAncestorsOnly(t *testing.T) {
	steps := proof.Size(t, "edits", 80, 5000)
	for seed := uint64(0); steps > 0; seed++ {
		r := rand.New(rand.NewPCG(seed, 8))
		scheme := schemes[seed%4]
		root := t.TempDir()
		coretest.Grow(t, r, root, coretest.Tree{Depth: 4, Width: 7})
		previous := run(t, Options{Root: root, Scheme: scheme, Now: later})
		for range 15 {
			steps--
			touched := edit(t, r, root, previous.Tree)
			o := Options{Root: root, Scheme: scheme, Previous: previous, Now: later}
			now := run(t, o)
			require.Equal(t, nodes(run(t, Options{Root: root, Scheme: scheme}).Tree), nodes(now.Tree), "a warm scan equals a cold one")
			if o.Paths = touched; len(touched) > 0 {
				require.Equal(t, nodes(now.Tree), nodes(run(t, o).Tree), "a scan of %q equals a full one", touched)
			}
			changedBySource(t, scheme, previous.Tree, now.Tree, touched)
			previous = now
		}
	}
}

// changedBySource verifies that exactly the nodes on the way to the touched
// paths, and below them, have other ids.
func changedBySource(t *testing.T, scheme id.Scheme, older, newer *tree.Tree, touched []string) {
	t.Helper()
	before, after := nodes(older), nodes(newer)
	visible := false // whether any of the edits changes what git records
	for _, p := range touched {
		for _, side := range []*tree.Tree{older, newer} {
			n := side.Lookup(p)
			visible = visible || n != nil && (n.Mode != id.Dir || !scheme.EmptyTree(n.Content))
		}
	}
	for path, was := range before {
		is, there := after[path]
		if !there {
			require.True(t, onTheWay(path, touched, true), "%q is gone", path)
			continue
		}
		switch {
		case !onTheWay(path, touched, true):
			require.Equal(t, was, is, "%q is not on the way to %q", path, touched)
		case onTheWay(path, touched, false) && older.Lookup(path).Mode == id.Dir && len(touched) == 1 && visible:
			require.NotEqual(t, was[2], is[2], "%q is an ancestor of %q", path, touched)
		case len(touched) == 1 && !visible:
			require.Equal(t, was, is, "git does not record %q", touched)
		}
	}
}

// onTheWay reports whether path is an ancestor of one of the paths, or with
// below also one of them or below it.
func onTheWay(path string, touched []string, below bool) bool {
	for _, p := range touched {
		if path == "" || strings.HasPrefix(p, path+"/") || below && (path == p || strings.HasPrefix(path, p+"/")) {
			return true
		}
	}
	return false
}

// edit changes one thing in a tree and returns the paths that it touched.
func edit(t *testing.T, r *rand.Rand, root string, tr *tree.Tree) []string {
	var files, dirs []string
	tr.Walk(func(path string, n *tree.Node) bool {
		switch {
		case n.Mode == id.Dir:
			dirs = append(dirs, path)
		case n.Mode != id.Link:
			files = append(files, path)
		}
		return true
	})
	in := tree.Join(dirs[r.IntN(len(dirs))], "new"+string(rune('a'+r.IntN(26))))
	abs := filepath.Join(root, in)
	if _, err := os.Lstat(abs); err == nil {
		return nil
	}
	switch kind := r.IntN(6); {
	case kind == 0:
		require.NoError(t, os.Mkdir(abs, 0o755))
		return []string{in}
	case kind == 1 || len(files) == 0:
		require.NoError(t, os.WriteFile(abs, []byte{byte(r.IntN(256))}, 0o644))
		return []string{in}
	case kind == 2: // a byte
		f := files[r.IntN(len(files))]
		text, err := os.ReadFile(filepath.Join(root, f))
		require.NoError(t, err)
		if len(text) == 0 {
			text = []byte{0}
		} else {
			text[r.IntN(len(text))] ^= 1
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, f), text, 0o644))
		return []string{f}
	case kind == 3: // the permission to execute
		f := filepath.Join(root, files[r.IntN(len(files))])
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(f, info.Mode()^0o100))
		return []string{strings.TrimPrefix(f, root+"/")}
	case kind == 4: // the kind
		f := files[r.IntN(len(files))]
		require.NoError(t, os.Remove(filepath.Join(root, f)))
		require.NoError(t, os.Symlink("x", filepath.Join(root, f)))
		return []string{f}
	}
	all := append(files, dirs[1:]...)
	from := all[r.IntN(len(all))]
	if strings.HasPrefix(in, from+"/") {
		return nil
	}
	require.NoError(t, os.Rename(filepath.Join(root, from), abs))
	return []string{from, in}
}

// WS-027: the changes between two scans are what was done; a file that moved
// and has no equal is a rename.
func TestChanges(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	for _, p := range []string{"keep", "d/move", "d/gone", "twin1", "twin2"} {
		write(p, map[bool]string{true: "twin", false: p}[strings.HasPrefix(p, "twin")])
	}
	write("empty", "")
	before := run(t, Options{Root: root, Scheme: id.B3, Now: later})
	assert.Len(t, tree.Diff(nil, before.Tree).Added, 8)

	same := run(t, Options{Root: root, Scheme: id.B3, Now: later, Previous: before})
	assert.Same(t, before.Tree, same.Tree, "nothing changed, so it is the same tree")
	assert.Equal(t, 8, tree.Diff(before.Tree, same.Tree).Unchanged)

	for from, to := range map[string]string{"d/move": "e/moved", "twin1": "twin3", "empty": "empty2"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, to)), 0o755))
		require.NoError(t, os.Rename(filepath.Join(root, from), filepath.Join(root, to)))
	}
	require.NoError(t, os.Remove(filepath.Join(root, "d/gone")))
	require.NoError(t, os.Remove(filepath.Join(root, "twin2")))
	write("twin4", "twin")
	write("keep", "kept")
	c := tree.Diff(before.Tree, run(t, Options{Root: root, Scheme: id.B3, Now: later, Previous: before}).Tree)
	list := func(changes []tree.Change) (out []string) {
		for _, x := range changes {
			out = append(out, x.Path)
		}
		return out
	}
	assert.Equal(t, []string{"e", "e/moved", "empty2", "twin3", "twin4"}, list(c.Added))
	assert.Equal(t, []string{"", "d", "keep"}, list(c.Modified))
	assert.Equal(t, []string{"d/gone", "d/move", "empty", "twin1", "twin2"}, list(c.Removed))
	assert.Equal(t, []tree.Rename{{From: "d/move", To: "e/moved"}}, c.Renamed)
	assert.False(t, c.Empty())
}

// WS-002, WS-220: paths of nodes are accepted as the system gives them, all
// other forms are rejected.
func TestCheckPath(t *testing.T) {
	for _, good := range []string{"", "a", "a/b", "...", "a b", "\xff", "e\u0301", strings.Repeat("x", maxPath)} {
		assert.NoError(t, CheckPath(good), "%q", good)
	}
	for _, bad := range []string{"/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a\x00b", strings.Repeat("x", maxPath+1)} {
		assert.Error(t, CheckPath(bad), "%q", bad)
	}
}

// WS-002: names that differ in case or normal form only are two nodes.
func TestNamesAreBytes(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"A", "a", "\u00e9", "e\u0301", "\xff"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	r := run(t, Options{Root: root, Scheme: id.B3})
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, r.Tree.Root.Children, len(entries), "as many as the file system distinguishes")
}

func FuzzCheckPath(f *testing.F) {
	f.Add("a/b")
	f.Fuzz(func(t *testing.T, path string) {
		if CheckPath(path) == nil && path != "" && (!filepath.IsLocal(path) || filepath.Clean(path) != path) {
			t.Errorf("%q is accepted", path)
		}
	})
}

// WS-042: a stat cache gives back what was saved; with any byte changed it is
// rejected.
func TestCache(t *testing.T) {
	root, path := t.TempDir(), filepath.Join(t.TempDir(), "stat.cache")
	coretest.Grow(t, rand.New(rand.NewPCG(4, 4)), root, coretest.Tree{Depth: 2, Width: 5})
	r := run(t, Options{Root: root, Scheme: id.GitSHA1, Now: later})
	require.NoError(t, SaveCache(path, r))
	loaded, err := LoadCache(path, id.GitSHA1)
	require.NoError(t, err)
	assert.Equal(t, nodes(r.Tree), nodes(loaded.Tree))
	warm := run(t, Options{Root: root, Scheme: id.GitSHA1, Previous: loaded, Now: later})
	assert.Zero(t, warm.Opened)
	assert.Same(t, loaded.Tree, warm.Tree)

	_, err = LoadCache(path, id.B3)
	require.Error(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range whole {
		whole[i] ^= 0x10
		require.NoError(t, os.WriteFile(path, whole, 0o600))
		_, err := LoadCache(path, id.GitSHA1)
		require.Error(t, err, "byte %d", i)
		whole[i] ^= 0x10
	}
}

// FuzzCache: a cache with a correct hash and any content is an error or a tree.
func FuzzCache(f *testing.F) {
	node := appendNode(nil, &tree.Node{Mode: id.Dir, Content: id.B3.Directory(nil), ID: id.B3.Node("", id.Dir, id.B3.Directory(nil))})
	f.Add(node)
	cut := appendNode(nil, &tree.Node{Mode: id.Dir, Content: id.B3.Directory(nil), ID: id.B3.Node("", id.Dir, id.B3.Directory(nil)), Children: []*tree.Node{{}, {}}})
	f.Add(cut[:len(cut)-80])
	f.Fuzz(func(t *testing.T, body []byte) {
		d := decoder{b: body, scheme: id.B3}
		if n := d.node(0); !d.bad && n == nil {
			t.Error("neither a node nor an error")
		}
	})
}
