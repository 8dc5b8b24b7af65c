package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
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

// WS-050: Close lets a running transaction finish, and abandons one that does not
// end within the grace period.
func TestCloseAbandonsTransactions(t *testing.T) {
	dir := create(t, id.B3)
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(background, dir, Options{Now: func() int64 { return 1 }, Unsynced: true})
			require.NoError(t, err)
			began, running := time.Now(), make(chan struct{})
			var result error
			var call sync.WaitGroup
			call.Go(func() {
				_, result = s.Update(background, "x", func(tx *Tx) error {
					close(running)
					if ends {
						time.Sleep(closeGrace / 2)
					} else {
						<-tx.Context().Done()
					}
					_, err := tx.PutContent([]byte("text"))
					return err
				})
			})
			<-running
			require.NoError(t, s.Close())
			call.Wait()
			if ends {
				require.NoError(t, result)
				assert.Equal(t, closeGrace/2, time.Since(began))
			} else {
				require.ErrorIs(t, result, contract.OfType("store/io"))
				assert.Equal(t, closeGrace, time.Since(began))
			}
		})
	}
	s := open(t, dir)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, id.B3.Bytes([]byte("text")))
		assert.Equal(t, uint64(2), v.Seq())
		return err
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

// WS-043, WS-046, WS-252: concurrent writers share fsyncs; each reader sees one
// state, in which the head is a frame of the node and the state root is that of
// its number, and none waits for a writer.
func TestWritersAndReaders(t *testing.T) {
	var syncs atomic.Int64
	dir := create(t, id.B3)
	s := open(t, dir, func(o *Options) {
		o.Faults.Before = func(op string) error {
			if op == log.OpSync {
				syncs.Add(1)
			}
			return nil
		}
	})
	each := proof.Size(t, "writes of 16 writers", 8, 200)
	putTree(t, s.Store, grow(id.B3, map[string]string{"f": "0"}))
	var state, roots sync.Map // by seq
	var calls sync.WaitGroup
	for n := range 16 {
		calls.Go(func() {
			for i := range each {
				text := fmt.Sprint(n, i)
				seq, err := s.Update(background, "w", func(tx *Tx) error {
					if _, err := tx.PutTree(grow(id.B3, map[string]string{"f": text, "d/" + fmt.Sprint(n): text})); err != nil {
						return err
					}
					_, err := tx.PutFrame(NewFrame{Path: "f", Type: "note", Agent: "writer", Origin: Authored, Text: []byte(text)})
					return err
				})
				if assert.NoError(t, err) {
					state.Store(seq, text)
				}
			}
		})
	}
	for range 64 {
		calls.Go(func() {
			for range each / 2 {
				assert.NoError(t, s.View(background, Latest, func(v *Snapshot) error { return readTwice(t, v, &roots) }))
			}
		})
	}
	calls.Wait()
	state.Range(func(seq, text any) bool {
		at := treeAt(t, s.Store, seq.(uint64))
		f := id.B3.Node("f", id.File, id.B3.Bytes([]byte(text.(string))))
		return assert.Contains(t, at["f"], f.String(), "the state at %d is the one written there", seq)
	})
	roots.Range(func(seq, root any) bool {
		return assert.Equal(t, root, stateRoot(t, s.Store, seq.(uint64)), "at %d", seq)
	})
	assert.Less(t, syncs.Load(), int64(16*each), "writers share fsyncs")
}

// readTwice reads tree, head and state root of a snapshot twice, between which
// others write.
func readTwice(t *testing.T, v *Snapshot, roots *sync.Map) error {
	var trees [2]map[string]string
	for i := range trees {
		tr, err := v.Tree(background)
		if err != nil {
			return err
		}
		trees[i] = ids(tr)
		root, err := v.StateRoot(background)
		if err != nil {
			return err
		}
		known, _ := roots.LoadOrStore(v.Seq(), root)
		assert.Equal(t, known, root)
	}
	assert.Equal(t, trees[0], trees[1])
	h, err := v.Head(background, "f", "note")
	if contract.AsError(err) != nil && contract.AsError(err).Type == "frame/no-head" {
		return nil
	}
	if err != nil {
		return err
	}
	page, err := v.Frames(background, Filter{Path: "f", Limit: MaxPage})
	if err != nil {
		return err
	}
	assert.True(t, slices.ContainsFunc(page.Frames, func(f *Frame) bool { return f.ID == h.Frame.ID }), "the head is one of the frames")
	return nil
}

// WS-046: a reader does not wait for a transaction that is running.
func TestReadersDoNotWait(t *testing.T) {
	s := open(t, create(t, id.B3))
	_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	update(t, s.Store, func(tx *Tx) error {
		if _, err := tx.PutTree(grow(id.B3, map[string]string{"a": "2"})); err != nil {
			return err
		}
		return s.View(background, Latest, func(v *Snapshot) error {
			assert.Equal(t, seq, v.Seq())
			_, err := v.StateRoot(background)
			return err
		})
	})
}

// WS-046: a second process is rejected; calls beyond the queue are too.
func TestLockAndQueue(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	_, err := Open(background, dir, Options{})
	typed(t, err, "store/locked")
	begun, release := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		_, err := s.Update(background, "", func(*Tx) error { close(begun); <-release; return nil })
		assert.NoError(t, err)
	})
	<-begun
	for range maxQueue {
		calls.Go(func() {
			_, err := s.Update(background, "", func(*Tx) error { return nil })
			assert.NoError(t, err)
		})
	}
	for len(s.queue) < maxQueue { // until all of them wait
		runtime.Gosched()
	}
	_, err = s.Update(background, "", func(*Tx) error { return nil })
	typed(t, err, "runtime/overloaded")
	close(release)
	calls.Wait()
	require.NoError(t, s.Close())
	_, err = s.Update(background, "", nil)
	typed(t, err, "store/io")
	typed(t, s.View(background, Latest, nil), "store/io")
	open(t, dir)
}

// WS-047: a full disk costs the transaction only; after a failed fsync the store
// reads, and writes again when it was opened anew.
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
			if op == log.OpWrite {
				_, next := putTree(t, s.Store, two)
				assert.Equal(t, seq+1, next)
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

// copyDir copies a data directory.
func copyDir(t testing.TB, from, to string) {
	require.NoError(t, os.RemoveAll(to))
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// filled is a closed store with a few transactions, and its last state.
func filled(t testing.TB, name string) (dir string, end uint64, nodes map[string]string) {
	dir = createAs(t, id.B3, name)
	s := open(t, dir, func(o *Options) { o.SegmentSize = 2000 })
	for i := range 8 {
		tr := grow(id.B3, map[string]string{"a": "1", "d/b": fmt.Sprint(i), fmt.Sprintf("e/%d", i): "x"})
		putTree(t, s.Store, tr)
		nodes = ids(tr)
		_, end = put(t, s.Store, strings.Repeat(fmt.Sprint(i), 100))
	}
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "f"), nil, 0o644))
	r, err := scan.Run(background, scan.Options{Root: root, Scheme: id.B3})
	require.NoError(t, err)
	require.NoError(t, s.SaveCache(r))
	require.NoError(t, s.Close())
	require.Empty(t, s.warnings)
	return dir, end, nodes
}

// WS-042, WS-045: index, cache and seal can be deleted, replaced or damaged: the
// next open rebuilds them, says so, and has the same state.
func TestDerivedFiles(t *testing.T) {
	dir, end, nodes := filled(t, "w1")
	other, _, _ := filled(t, "w2")
	write := func(path string, text string) func(dir string) {
		return func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600)) }
	}
	remove := func(paths ...string) func(dir string) {
		return func(dir string) {
			for _, p := range paths {
				require.NoError(t, os.Remove(filepath.Join(dir, p)))
			}
		}
	}
	for name, c := range map[string]struct {
		change func(dir string)
		warns  bool
	}{
		"none":             {func(string) {}, false},
		"no seal":          {remove(sealFile), false},
		"no index":         {remove(indexFile), true},
		"nothing derived":  {remove(indexFile, sealFile, cacheFile), false},
		"index is garbage": {write(indexFile, "garbage"), true},
		"garbage, no seal": {func(dir string) { write(indexFile, "garbage")(dir); remove(sealFile)(dir) }, true},
		"index is empty":   {write(indexFile, ""), true},
		"seal is garbage":  {write(sealFile, "garbage"), true},
		"seal is empty":    {write(sealFile, ""), true},
		"cache is garbage": {write(cacheFile, "garbage"), true},
		"index of another workspace": {func(dir string) {
			b, err := os.ReadFile(filepath.Join(other, indexFile))
			require.NoError(t, err)
			write(indexFile, string(b))(dir)
			remove(sealFile)(dir)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			work := filepath.Join(t.TempDir(), "w")
			copyDir(t, dir, work)
			c.change(work)
			s := open(t, work)
			require.Nil(t, s.Damage())
			assert.Equal(t, nodes, treeAt(t, s.Store, end))
			s.LoadCache()
			assert.Equal(t, c.warns, len(s.warnings) > 0, s.warnings)
			text := id.B3.Bytes([]byte(strings.Repeat("3", 100)))
			require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
				_, err := v.Content(background, text)
				return err
			}))
			_, next := put(t, s.Store, "new")
			assert.Equal(t, end+1, next)
			require.NoError(t, s.Close())
			findings, err := verifyDir(work)
			require.NoError(t, err)
			if name != "cache is garbage" {
				assert.Empty(t, findings)
			}
		})
	}
}

// WS-042: an index of an older copy of the same store is brought up to date; one
// whose transactions the log does not have is rebuilt if the log is whole.
func TestIndexOfAnotherCopy(t *testing.T) {
	dir, end, nodes := filled(t, "w1")
	old, err := os.ReadFile(filepath.Join(dir, indexFile))
	require.NoError(t, err)
	work := filepath.Join(t.TempDir(), "w")
	copyDir(t, dir, work)
	s := open(t, work)
	put(t, s.Store, "newer")
	require.NoError(t, s.Close())
	newer, err := os.ReadFile(filepath.Join(work, indexFile))
	require.NoError(t, err)

	require.NoError(t, os.Remove(filepath.Join(work, sealFile)))
	require.NoError(t, os.WriteFile(filepath.Join(work, indexFile), old, 0o600))
	s = open(t, work)
	assert.Equal(t, nodes, treeAt(t, s.Store, end+1))
	require.NoError(t, s.Close())

	// Two copies went apart: same number, other transaction.
	apart := filepath.Join(t.TempDir(), "w")
	copyDir(t, dir, apart)
	s = open(t, apart)
	put(t, s.Store, "other")
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(apart, sealFile)))
	require.NoError(t, os.WriteFile(filepath.Join(apart, indexFile), newer, 0o600))
	s = open(t, apart)
	require.Nil(t, s.Damage())
	assert.NotEmpty(t, s.warnings)
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		_, err := v.Content(background, id.B3.Bytes([]byte("other")))
		return err
	}))
}

// WS-044: a log that lacks what seal or index know is damage: the store reads,
// takes no writes, and nothing is cut off or forgotten by opening it.
func TestLogIsShorterThanKnown(t *testing.T) {
	dir, end, _ := filled(t, "w1")
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	require.NoError(t, err)
	last := filepath.Join(logDir, entries[len(entries)-1].Name())
	for _, without := range [][]string{{}, {sealFile}, {indexFile}} {
		for what, change := range map[string]func(path string) error{
			"cut":     func(path string) error { return os.Truncate(path, 150) },
			"missing": os.Remove,
		} {
			work := filepath.Join(t.TempDir(), "w")
			copyDir(t, dir, work)
			require.NoError(t, change(filepath.Join(work, last)))
			for _, f := range without {
				require.NoError(t, os.Remove(filepath.Join(work, f)))
			}
			for range 2 { // the second open knows it too
				s := open(t, work)
				require.NotNil(t, s.Damage(), "%s without %s", what, without)
				assert.LessOrEqual(t, s.Damage().Seq, end)
				_, err := s.Update(background, "x", func(*Tx) error { return nil })
				typed(t, err, "store/read-only")
				treeAt(t, s.Store, 2)
				require.NoError(t, s.Close())
			}
			findings, err := verifyDir(work)
			require.NoError(t, err)
			assert.NotEmpty(t, findings)
		}
	}
}

// WS-171: any flipped byte in any file of a closed data directory is found, with
// the name of the file.
func TestFlippedBytesAreFound(t *testing.T) {
	dir, _, _ := filled(t, "w1")
	findings, err := verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings)
	// The index has many bytes that are read in one way: some are enough.
	step := proof.Size(t, "percent of the index", 1, 20)
	files, bytes := 0, 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		whole, err := io.ReadAll(f)
		require.NoError(t, err)
		every := proof.Of(23, 1) // the tests of the log flip each of its bytes
		if name == indexFile {
			every = 100 / step * 7
		}
		for i := 0; i < len(whole); i += every {
			_, err = f.WriteAt([]byte{whole[i] ^ 1<<(i%8)}, int64(i))
			require.NoError(t, err)
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			require.NotEmpty(t, findings, "%s byte %d", name, i)
			require.Equal(t, name, findings[0].File, "byte %d", i)
			_, err = f.WriteAt(whole[i:i+1], int64(i))
			require.NoError(t, err)
			bytes++
		}
		files++
		return nil
	}))
	assert.Greater(t, files, 6)
	assert.Greater(t, bytes, 300)
	findings, err = verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings, "nothing was changed by verifying")
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
		_, err := Open(background, work, Options{Now: func() int64 { return 1 }})
		typed(t, err, typ)
	}
	typed(t, Create(dir, Identity{ID: "w2", Scheme: "b3"}), "workspace/exists")
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
