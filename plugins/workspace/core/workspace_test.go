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
