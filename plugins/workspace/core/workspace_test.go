package core

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/workspace/core/coretest"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func open(t testing.TB, root string, change ...func(*Options)) *Workspace {
	t.Helper()
	o := Options{
		Allowed: []string{root},
		NewID:   func() string { return "w1" },
		Store:   store.Options{Now: func() int64 { return 1 }, Unsynced: true},
	}
	for _, c := range change {
		c(&o)
	}
	w, err := Open(background, root, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func write(t testing.TB, root string, files ...string) {
	for _, f := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, f), []byte(f), 0o644))
	}
}

// later is a clock at which the files of a test are old enough to be trusted.
func later() time.Time { return time.Now().Add(time.Hour) }

func (w *Workspace) mustScan(t testing.TB, o scan.Options) *Scanned {
	t.Helper()
	o.Now = later
	s, err := w.Scan(background, o)
	require.NoError(t, err)
	return s
}

// WS-025, WS-040: the first scan creates a store that is not part of the tree, a
// scan without changes commits nothing, and another process goes on with what
// the first one learned.
func TestScanCommits(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b")
	w := open(t, root)
	first := w.mustScan(t, scan.Options{})
	assert.Len(t, first.Changes.Added, 4)
	assert.Nil(t, first.Result.Tree.Lookup(store.DataParent))
	again := w.mustScan(t, scan.Options{})
	assert.Equal(t, first.Seq, again.Seq)
	assert.True(t, again.Changes.Empty())
	assert.Zero(t, again.Result.Opened)
	require.NoError(t, w.Close())

	w = open(t, root)
	warm := w.mustScan(t, scan.Options{})
	assert.Equal(t, first.Seq, warm.Seq)
	assert.Zero(t, warm.Result.Opened, "the stat cache says what is known")
	write(t, root, "d/c")
	part := w.mustScan(t, scan.Options{Paths: []string{"d/c"}})
	assert.Equal(t, first.Seq+1, part.Seq)
	assert.Equal(t, part.Result.Tree.Root.ID, w.mustScan(t, scan.Options{Force: true}).Result.Tree.Root.ID)
	require.NoError(t, w.Store.View(background, first.Seq, func(v *store.Snapshot) error {
		tr, err := v.Tree(background)
		require.NoError(t, err)
		assert.Equal(t, first.Result.Tree.Root.ID, tr.Root.ID)
		return nil
	}))
}

// WS-001: a tree has the same ids with a store inside, outside and without one.
func TestStoreDoesNotChangeIDs(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b")
	bare, err := scan.Run(background, scan.Options{Root: root, Scheme: id.B3})
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), "data")
	below := filepath.Join(root, "d", "data")
	for _, dir := range []string{elsewhere, below, ""} {
		w := open(t, root, func(o *Options) { o.DataDir = dir })
		assert.Equal(t, bare.Tree.Root.ID, w.mustScan(t, scan.Options{}).Result.Tree.Root.ID, dir)
		require.NoError(t, w.Close())
		require.NoError(t, os.RemoveAll(below))
	}
}

// WS-025: a scan that fails leaves the tree, and the next one finds the change.
func TestFailedScanLeavesTheTree(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a")
	w := open(t, root)
	first := w.mustScan(t, scan.Options{})
	write(t, root, "b")
	canceled, cancel := context.WithCancel(background)
	cancel()
	_, err := w.Scan(canceled, scan.Options{})
	require.ErrorIs(t, err, contract.OfType("canceled"))
	_, err = w.Scan(background, scan.Options{MaxNodes: 1})
	require.ErrorIs(t, err, contract.OfType("limit/exceeded"))
	require.NoError(t, w.Store.View(background, store.Latest, func(v *store.Snapshot) error {
		assert.Equal(t, first.Seq, v.Seq())
		return nil
	}))
	assert.Len(t, w.mustScan(t, scan.Options{}).Changes.Added, 1)
}

// WS-015: the scheme follows the repository, and the root is what git writes.
func TestGitAuto(t *testing.T) {
	coretest.NeedGit(t)
	for _, format := range []string{"sha1", "sha256"} {
		root := t.TempDir()
		write(t, root, "a", "d/b")
		repo := coretest.Init(t, root, format)
		w := open(t, root, func(o *Options) { o.Scheme = GitAuto })
		assert.Equal(t, "git-"+format, w.Store.Scheme.String())
		s := w.mustScan(t, scan.Options{})
		want, _ := repo.WriteTree()
		assert.Equal(t, want, s.Result.Tree.Root.Content.Hex())
	}
	root := t.TempDir()
	w := open(t, root, func(o *Options) { o.Scheme = GitAuto })
	assert.Equal(t, id.GitSHA1, w.Store.Scheme, "a directory that is no repository")
	_, err := Open(background, t.TempDir(), Options{Allowed: []string{root}})
	require.ErrorIs(t, err, contract.OfType("workspace/root-denied"))
	bad := t.TempDir()
	_, err = Open(background, bad, Options{Allowed: []string{bad}, Scheme: "md5"})
	require.ErrorIs(t, err, contract.OfType("input/invalid"))
	assert.False(t, strings.Contains(strings.Join(names(t, bad), " "), store.DataParent), "nothing is created")
}

func names(t testing.TB, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// WS-031, WS-033: the workspace's own ignore list is part of the store; the scan
// after a change follows it, also one of a few paths, and also in another
// process.
func TestIgnoreListOfTheWorkspace(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a.log", "b.txt", "d/c.log")
	w := open(t, root)
	w.mustScan(t, scan.Options{})
	set := func(text string) (changed bool) {
		_, err := w.Store.Update(background, "tester", func(tx *store.Tx) (err error) {
			changed, err = tx.SetIgnore([]byte(text))
			return err
		})
		require.NoError(t, err)
		return changed
	}
	assert.True(t, set("*.log\n"))
	assert.False(t, set("*.log\n"), "the same list is no change")
	s := w.mustScan(t, scan.Options{Paths: []string{"b.txt"}})
	assert.Len(t, s.Changes.Removed, 2)
	require.NoError(t, w.Close())

	w = open(t, root)
	write(t, root, "e.log")
	assert.True(t, w.mustScan(t, scan.Options{}).Changes.Empty())
	assert.True(t, set(""))
	s = w.mustScan(t, scan.Options{Paths: []string{"b.txt"}})
	assert.Len(t, s.Changes.Added, 3)
	require.NoError(t, w.Store.View(background, s.Seq-1, func(v *store.Snapshot) error {
		text, err := v.Ignore(background)
		assert.Empty(t, text)
		return err
	}))
	_, err := w.Store.Update(background, "", func(tx *store.Tx) error {
		_, err := tx.SetIgnore(make([]byte, store.MaxIgnore+1))
		return err
	})
	require.ErrorIs(t, err, contract.OfType("limit/exceeded"))
}

// WS-033: patterns are added and removed; a dry run says what the next scan would
// change and commits nothing; what the list cannot have is an error.
func TestEditIgnore(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a.log", "d/b.log", "d/c")
	w := open(t, root)
	first := w.mustScan(t, scan.Options{})
	edit := func(add, remove []string, dry bool) *IgnoreChange {
		c, err := w.EditIgnore(background, "p", add, remove, dry, scan.Options{Now: later})
		require.NoError(t, err)
		return c
	}
	write(t, root, "not-scanned-yet")
	c := edit([]string{"*.log"}, nil, true)
	assert.Equal(t, first.Seq, c.Seq)
	assert.Equal(t, 1, c.Added)
	assert.Len(t, c.Tree.Removed, 2, "only what the list changes")
	assert.Empty(t, c.Tree.Added)
	list, err := w.IgnoreList(background)
	require.NoError(t, err)
	assert.Empty(t, list)

	c = edit([]string{"*.log", "!/a.log", "*.log"}, nil, false)
	assert.Equal(t, []string{"*.log", "!/a.log"}, c.Patterns)
	assert.Equal(t, 2, c.Added)
	assert.Equal(t, first.Seq+1, c.Seq)
	assert.Equal(t, c.Seq, edit([]string{"*.log"}, []string{"none"}, false).Seq, "nothing changes")
	second := w.mustScan(t, scan.Options{Paths: []string{"d/c"}})
	assert.NotNil(t, second.Result.Tree.Lookup("a.log"))
	assert.Nil(t, second.Result.Tree.Lookup("d/b.log"), "a scan of other paths follows the list too")
	assert.NotEqual(t, first.Result.IgnoreDigest, second.Result.IgnoreDigest)
	d, err := w.Explain(background, "d/b.log", false, nil)
	require.NoError(t, err)
	assert.Equal(t, scan.Decision{Ignored: true, Source: store.IgnoreSource, Line: 1, Pattern: "*.log", At: "d/b.log"}, *d)

	assert.Len(t, edit(nil, []string{"*.log"}, true).Tree.Added, 1)
	assert.Equal(t, 2, edit(nil, []string{"*.log", "!/a.log"}, false).Removed)
	assert.NotNil(t, w.mustScan(t, scan.Options{}).Result.Tree.Lookup("d/b.log"))
	for _, bad := range []string{"", "# x", "a\nb", "a\x00", "!"} {
		_, err := w.EditIgnore(background, "p", []string{bad}, nil, false, scan.Options{})
		require.ErrorIs(t, err, contract.OfType("input/invalid"), "%q", bad)
		assert.Equal(t, bad == "# x", strings.Contains(contract.AsError(err).Hint, "begins with #"), "%q", bad)
	}
}

// WS-033: a path in a nested repository that is one node is not ignored, but skipped.
func TestExplainNestedRepository(t *testing.T) {
	coretest.NeedGit(t)
	root := t.TempDir()
	write(t, root, "a", "n/d/b")
	coretest.Init(t, filepath.Join(root, "n"), "sha1").Run("commit", "--quiet", "--allow-empty", "--message", "first")
	w := open(t, root)
	w.mustScan(t, scan.Options{Boundaries: true})
	for path, want := range map[string]string{"a": "", "n": "", "n/d/b": "nested repository n", "n/none": "nested repository n"} {
		d, err := w.Explain(background, path, false, nil)
		require.NoError(t, err)
		assert.False(t, d.Ignored, path)
		if want == "" {
			assert.Empty(t, d.Skipped, path)
		} else {
			assert.Contains(t, d.Skipped, want, path)
		}
	}
}

// WS-185, WS-210: an error about a path that is ignored names the rule.
func TestNotInTreeNamesTheRule(t *testing.T) {
	root := t.TempDir()
	write(t, root, "src/x.go")
	require.NoError(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte("\n\n*.go\n"), 0o644))
	w := open(t, root)
	w.mustScan(t, scan.Options{})
	plain := contract.Errorf("path/not-in-tree", "the path was not scanned or is ignored").WithOp("get-node", "src/x.go")
	err := w.NotInTree(background, plain, "src/x.go")
	require.ErrorIs(t, err, contract.OfType("path/not-in-tree"))
	assert.Contains(t, err.Error(), `.gitignore:3 "*.go"`)
	assert.Equal(t, "get-node", contract.AsError(err).Op)
	assert.Equal(t, error(plain), w.NotInTree(background, plain, "src/none"), "no rule, no change")
	other := contract.Errorf("store/io", "x")
	assert.Equal(t, error(other), w.NotInTree(background, other, "src/x.go"))
	require.NoError(t, w.NotInTree(background, nil, "src/x.go"))
}

// WS-022: a tree is complete after a whole scan that skipped nothing; a scan of a part does
// not make it so.
func TestScannedIncompletely(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a", "d/b")
	w := open(t, root)
	whole, part := scan.Options{}, scan.Options{Paths: []string{"d"}}
	skipped, clean := &scan.Result{}, &scan.Result{Complete: true}
	incomplete := store.Scanned{Incomplete: true}
	assert.Equal(t, incomplete, scanned(store.Scanned{}, skipped, whole))
	assert.Equal(t, incomplete, scanned(store.Scanned{}, skipped, part))
	assert.Equal(t, incomplete, scanned(incomplete, clean, part))
	assert.Equal(t, store.Scanned{}, scanned(incomplete, clean, whole))
	assert.Equal(t, store.Scanned{}, scanned(store.Scanned{}, clean, part))

	first := w.mustScan(t, whole)
	_, err := w.Store.Update(background, "", func(tx *store.Tx) error {
		now, err := tx.Scanned()
		now.Incomplete = true
		require.NoError(t, err)
		return tx.SetScanned(now)
	})
	require.NoError(t, err)
	assert.Equal(t, first.Seq+1, w.mustScan(t, part).Seq, "nothing changed")
	assert.Equal(t, first.Seq+2, w.mustScan(t, whole).Seq, "it is complete again")
	assert.Equal(t, first.Seq+2, w.mustScan(t, whole).Seq)
}
