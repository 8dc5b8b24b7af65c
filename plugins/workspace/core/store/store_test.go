package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

func TestMain(m *testing.M) {
	if killed() {
		return
	}
	goleak.VerifyTestMain(m)
}

func create(t testing.TB, scheme id.Scheme) string { return createAs(t, scheme, "w1") }

func createAs(t testing.TB, scheme id.Scheme, name string) string {
	t.Helper()
	dir := DataDir(t.TempDir())
	require.NoError(t, Create(dir, Identity{ID: name, Scheme: scheme.String()}))
	return dir
}

// opened is a store with the warnings that it gave.
type opened struct {
	*Store
	warnings []string
}

func open(t testing.TB, dir string, change ...func(*Options)) *opened {
	t.Helper()
	s := &opened{}
	o := Options{Now: func() int64 { return 1 }, Unsynced: true, Warn: func(m string) { s.warnings = append(s.warnings, m) }}
	for _, c := range change {
		c(&o)
	}
	var err error
	s.Store, err = Open(background, dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// verifyDir returns the errors in a data directory.
func verifyDir(dir string) ([]Finding, error) {
	r, err := Verify(background, dir, Check{})
	if err != nil {
		return nil, err
	}
	return r.Errors, nil
}

func typed(t testing.TB, err error, typ string) {
	t.Helper()
	require.ErrorIs(t, err, contract.OfType(typ))
}

// put stores text and returns its id and the number of the transaction.
func put(t testing.TB, s *Store, text string) (content id.ID, seq uint64) {
	t.Helper()
	seq, err := s.Update(background, "tester", func(tx *Tx) (err error) {
		content, err = tx.PutContent([]byte(text))
		return err
	})
	require.NoError(t, err)
	return content, seq
}

// grow returns a tree with files, by path and text.
func grow(scheme id.Scheme, files map[string]string) *tree.Tree {
	t := &tree.Tree{Scheme: scheme, Root: &tree.Node{Mode: id.Dir}}
	for path, text := range files {
		at := t.Root
		parts := strings.Split(path, "/")
		for _, name := range parts[:len(parts)-1] {
			next := at.Child(name)
			if next == nil {
				next = &tree.Node{Name: name, Mode: id.Dir}
				at.Children = append(at.Children, next)
				at.Sort()
			}
			at = next
		}
		content := scheme.Bytes([]byte(text))
		at.Children = append(at.Children, &tree.Node{Name: parts[len(parts)-1], Mode: id.File, Size: int64(len(text)), Content: content, ID: scheme.Node(path, id.File, content)})
		at.Sort()
	}
	var seal func(path string, n *tree.Node)
	seal = func(path string, n *tree.Node) {
		for _, c := range n.Children {
			if c.Mode == id.Dir {
				seal(tree.Join(path, c.Name), c)
			}
		}
		t.Seal(path, n)
	}
	seal("", t.Root)
	return t
}

func putTree(t testing.TB, s *Store, tr *tree.Tree) (changes *tree.Changes, seq uint64) {
	t.Helper()
	seq, err := s.Update(background, "tester", func(tx *Tx) (err error) {
		changes, err = tx.PutTree(tr)
		return err
	})
	require.NoError(t, err)
	return changes, seq
}

// ids returns the node id of every path.
func ids(tr *tree.Tree) map[string]string {
	all := map[string]string{}
	if tr != nil {
		tr.Walk(func(path string, n *tree.Node) bool {
			all[path] = fmt.Sprint(n.ID, n.Mode, n.Size)
			return true
		})
	}
	return all
}

// treeAt reads the tree at a number.
func treeAt(t testing.TB, s *Store, seq uint64) (all map[string]string) {
	t.Helper()
	require.NoError(t, s.View(background, seq, func(v *Snapshot) error {
		tr, err := v.Tree(background)
		all = ids(tr)
		return err
	}))
	return all
}

// WS-025, WS-048: every state is read back at its number; a tree without
// changes commits nothing; removed and added again are versions of one lineage.
func TestTrees(t *testing.T) {
	for _, scheme := range []id.Scheme{id.B3, id.S2, id.GitSHA1, id.GitSHA256} {
		dir := create(t, scheme)
		s := open(t, dir)
		_, err := os.Stat(filepath.Join(filepath.Dir(dir), ".gitignore"))
		require.NoError(t, err)
		states := []map[string]string{{}, {"a": "1", "d/b": "2"}, {"a": "1"}, {"a": "3", "d/b": "2", "d/e/\xff": ""}, {"a": "1", "d/b": "2"}}
		want := map[uint64]map[string]string{1: {}}
		for i, files := range states {
			tr := grow(scheme, files)
			changes, seq := putTree(t, s.Store, tr)
			assert.Equal(t, uint64(i+2), seq)
			assert.False(t, changes.Empty())
			want[seq] = ids(tr)
			changes, again := putTree(t, s.Store, grow(scheme, files))
			assert.Equal(t, seq, again)
			assert.True(t, changes.Empty())
		}
		check := func(s *Store) {
			for seq, nodes := range want {
				require.Equal(t, nodes, treeAt(t, s, seq), "%s at %d", scheme, seq)
			}
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				list, err := v.Lineage(background, "a")
				require.NoError(t, err)
				require.Len(t, list, 3)
				assert.Equal(t, []uint64{6, 5, 3, 6, 5}, []uint64{list[0].Since, list[1].Since, list[2].Since, list[1].Until, list[2].Until})
				assert.Equal(t, list[0].Node, list[2].Node, "an earlier state has the earlier id")
				c, err := v.Commit(background, 3)
				require.NoError(t, err)
				assert.Equal(t, "tester", c.Actor)
				_, err = v.Commit(background, 7)
				typed(t, err, "seq/unknown")
				return nil
			}))
			require.NoError(t, s.View(background, 4, func(v *Snapshot) error {
				list, err := v.Lineage(background, "a")
				require.Len(t, list, 1)
				assert.Zero(t, list[0].Until, "it was current then")
				return err
			}))
		}
		check(s.Store)
		typed(t, s.View(background, 99, nil), "seq/unknown")
		require.NoError(t, s.Close())
		check(open(t, dir).Store)
	}
}

// WS-027: a renamed file is linked to its earlier path; its lineage begins anew.
func TestRenames(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "text", "b": "twin", "c": "twin"}))
	_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"d/a": "text", "e": "twin", "f": "twin"}))
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		for path, from := range map[string]string{"d/a": "a", "d": "", "e": "", "f": ""} {
			list, err := v.Lineage(background, path)
			require.NoError(t, err)
			require.Len(t, list, 1)
			assert.Equal(t, []any{seq, from}, []any{list[0].Since, list[0].RenamedFrom}, path)
		}
		return nil
	}))
}

// WS-041, WS-012: content is stored once, and verified on every read.
func TestContents(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	a, first := put(t, s.Store, "text")
	_, again := put(t, s.Store, "text")
	assert.Equal(t, first, again, "nothing new")
	var got []byte
	read := func(v *Snapshot) (err error) {
		got, err = v.Content(background, a)
		return err
	}
	require.NoError(t, s.View(background, Latest, read))
	assert.Equal(t, "text", string(got))

	path := filepath.Join(dir, logDir, log.SegmentName(1))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[strings.Index(string(b), "text")] ^= 1
	require.NoError(t, os.WriteFile(path, b, 0o600))
	got = nil
	err = s.View(background, Latest, read)
	typed(t, err, "store/corrupt")
	assert.Contains(t, err.Error(), log.SegmentName(1))
	assert.Nil(t, got)
}

// WS-047: a transaction whose function fails, panics or is canceled leaves no
// trace, and those beside it in the same batch are not affected.
func TestFailedTransactions(t *testing.T) {
	s := open(t, create(t, id.B3))
	own := errors.New("own")
	_, before := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	canceled, cancel := context.WithCancel(background)
	for name, run := range map[string]func(*Tx) error{
		"error":    func(*Tx) error { return own },
		"panic":    func(*Tx) error { panic("own") },
		"canceled": func(*Tx) error { cancel(); return nil },
	} {
		ctx := background
		if name == "canceled" {
			ctx = canceled
		}
		_, err := s.Update(ctx, "x", func(tx *Tx) error {
			_, err := tx.PutContent([]byte("lost"))
			require.NoError(t, err)
			_, err = tx.PutTree(grow(id.B3, map[string]string{"b": "2"}))
			require.NoError(t, err)
			return run(tx)
		})
		require.Error(t, err, name)
		if name == "error" {
			require.ErrorIs(t, err, own)
		}
	}
	assert.Equal(t, ids(grow(id.B3, map[string]string{"a": "1"})), treeAt(t, s.Store, Latest))
	_, after := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2"}))
	assert.Equal(t, before+1, after)
	lost := id.B3.Bytes([]byte("lost"))
	typed(t, s.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, lost)
		return err
	}), "frame/not-found")
	_, err := s.Update(background, "x", func(tx *Tx) error {
		_, err := tx.PutTree(grow(id.S2, nil))
		return err
	})
	typed(t, err, "workspace/exists")
}

// WS-047: a full disk costs the transaction only, whether the log or the index meets it; after a
// failed fsync the store reads, and writes again when it was opened anew.
func TestDiskFaults(t *testing.T) {
	for _, op := range []string{log.OpWrite, log.OpSync, opIndex} {
		t.Run(op, func(t *testing.T) {
			var broken atomic.Bool
			dir := create(t, id.B3)
			s := open(t, dir, func(o *Options) {
				o.Faults.Before = func(at string) error {
					if at == op && broken.Load() {
						return &log.Partial{Bytes: 30, Err: unix.ENOSPC}
					}
					return nil
				}
			})
			one := grow(id.B3, map[string]string{"a": "1"})
			_, seq := putTree(t, s.Store, one)
			broken.Store(true)
			two := grow(id.B3, map[string]string{"a": "2"})
			_, err := s.Update(background, "x", func(tx *Tx) error { _, err := tx.PutTree(two); return err })
			typed(t, err, "store/io")
			require.ErrorIs(t, err, unix.ENOSPC)
			assert.Equal(t, ids(one), treeAt(t, s.Store, Latest), "reads go on")
			broken.Store(false)
			if op != log.OpSync {
				_, next := putTree(t, s.Store, two)
				assert.Equal(t, seq+1, next)
				require.NoError(t, s.Close())
				findings, err := verifyDir(dir)
				require.NoError(t, err)
				assert.Empty(t, findings)
				return
			}
			_, err = s.Update(background, "x", func(*Tx) error { return nil })
			typed(t, err, "store/read-only")
			require.NoError(t, s.Close())
			s = open(t, dir)
			require.Nil(t, s.Damage())
			putTree(t, s.Store, grow(id.B3, map[string]string{"a": "3"}))
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			for _, f := range findings {
				assert.NotContains(t, f.File, "seg")
			}
		})
	}
}

// WS-220, WS-050: a store of a newer version, without its identity, or with
// another one.
func TestIdentity(t *testing.T) {
	dir, _, _ := filled(t, "w1")
	for text, typ := range map[string]string{
		"":   "store/corrupt", // the log is there
		"{:": "store/corrupt",
		`{:format 1, :scheme "b4", :workspace/id "w1"}`: "store/corrupt",
		`{:format 2, :scheme "b3", :workspace/id "w1"}`: "store/version",
		`{:format 1, :scheme "b3", :workspace/id "w2"}`: "store/corrupt",
	} {
		work := filepath.Join(t.TempDir(), "w")
		copyDir(t, dir, work)
		path := filepath.Join(work, identityFile)
		if text == "" {
			require.NoError(t, os.Remove(path))
		} else {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		before := filesIn(t, work)
		_, err := Open(background, work, Options{Now: func() int64 { return 1 }})
		typed(t, err, typ)
		assert.Equal(t, before, filesIn(t, work), "a refused open changes nothing")
	}
	typed(t, Create(dir, Identity{ID: "w2", Scheme: "b3"}), "workspace/exists")
}

// WS-044: a damaged first record is damage of the log, not of workspace.edn, also if the
// index has all of the log.
func TestDamagedFirstRecord(t *testing.T) {
	dir, _, _ := filled(t, "w1")
	path := filepath.Join(dir, logFile(1))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	require.NoError(t, err)
	b[bytes.Index(b, text)-1] ^= 1 // the hash is before the text
	require.NoError(t, os.WriteFile(path, b, 0o600))
	s := open(t, dir)
	var damage *log.Damage
	require.ErrorAs(t, s.Damage(), &damage)
	assert.Equal(t, log.SegmentName(1), damage.File)
	refusesWrites(t, s)
}

// WS-049: two stores share nothing.
func TestStoresAreApart(t *testing.T) {
	a, b := open(t, create(t, id.B3)), open(t, create(t, id.GitSHA1))
	content, _ := put(t, a.Store, "of a")
	typed(t, b.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, content)
		return err
	}), "frame/not-found")
	require.NoError(t, a.Close())
	put(t, b.Store, "of b")
}
