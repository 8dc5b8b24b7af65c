package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// update runs a transaction that must succeed.
func update(t testing.TB, s *Store, run func(*Tx) error) (seq uint64) {
	t.Helper()
	seq, err := s.Update(background, "tester", run)
	require.NoError(t, err)
	return seq
}

func stateRoot(t testing.TB, s *Store, asOf uint64) (root id.ID) {
	t.Helper()
	require.NoError(t, s.View(background, asOf, func(v *Snapshot) (err error) {
		root, err = v.StateRoot(background)
		return err
	}))
	return root
}

// remove deletes or restores a subtree and returns the number of paths.
func remove(t testing.TB, s *Store, path string, deleted bool) (n int) {
	t.Helper()
	update(t, s, func(tx *Tx) error {
		list, err := tx.mark(path, "test", deleted)
		n = len(list)
		return err
	})
	return n
}

// WS-013: the root of the frames of a node is the Merkle root of their ids at
// every number, whatever other transactions of the batch did, and also after the
// index was rebuilt.
func TestFrameSets(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
	type at struct {
		seq  uint64
		path string
	}
	all, node := map[string][]id.ID{}, map[string]id.ID{}
	want := map[at]id.ID{}
	for i := range 40 {
		path := []string{"a", "b"}[i%2]
		if i == 20 {
			putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2", "b": "1"}))
			all["a"] = nil
		}
		p, seq, err := putFrame(t, s.Store, path, "note", fmt.Sprint(i/3))
		require.NoError(t, err)
		if !p.Existing {
			all[path] = append(all[path], p.Frame.ID)
		}
		node[path] = p.Frame.Node
		want[at{seq, path}] = id.B3.FrameSet(all[path])
	}
	check := func(s *Store) {
		for x, root := range want {
			require.NoError(t, s.View(background, x.seq, func(v *Snapshot) error {
				now, err := v.Lineage(background, x.path)
				require.NoError(t, err)
				got, err := v.FrameSet(background, x.path, now[0].Node)
				assert.Equal(t, root, got, "%s at %d", x.path, x.seq)
				return err
			}))
		}
		require.NoError(t, s.View(background, 2, func(v *Snapshot) error {
			got, err := v.FrameSet(background, "a", node["a"])
			assert.Equal(t, id.B3.FrameSet(nil), got)
			return err
		}))
	}
	check(s.Store)
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	check(open(t, dir).Store)
}

// WS-014: two stores with equal state have equal state roots whatever the order
// of writes; each kind of change gives another root, and undoing it the first
// one again.
func TestStateRoot(t *testing.T) {
	files := map[string]string{"a": "1", "d/b": "2", "d/c": "3"}
	type put struct{ path, typ, text string }
	puts := []put{{"a", "note", "x"}, {"a", "digest", "y"}, {"d/b", "note", "x"}, {"d", "note", "z"}, {"", "note", ""}}
	roots := map[id.ID]bool{}
	for seed := range 5 {
		now := int64(seed) * 1000
		s := open(t, createAs(t, id.B3, fmt.Sprint("w", seed)), func(o *Options) { o.Now = func() int64 { now++; return now } })
		if seed%2 == 1 { // states that came and went
			putTree(t, s.Store, grow(id.B3, map[string]string{"a": "other"}))
		}
		putTree(t, s.Store, grow(id.B3, files))
		rand.New(rand.NewPCG(uint64(seed), 14)).Shuffle(len(puts), func(i, j int) { puts[i], puts[j] = puts[j], puts[i] })
		for _, p := range puts {
			mustPut(t, s.Store, p.path, p.typ, p.text)
		}
		roots[stateRoot(t, s.Store, Latest)] = true
	}
	require.Len(t, roots, 1)

	s := open(t, create(t, id.B3))
	seen := map[id.ID]string{}
	step := func(what string) {
		root := stateRoot(t, s.Store, Latest)
		require.Empty(t, seen[root], what)
		seen[root] = what
	}
	step("empty")
	putTree(t, s.Store, grow(id.B3, files))
	step("scanned")
	mustPut(t, s.Store, "a", "note", "x")
	step("a frame")
	first := stateRoot(t, s.Store, Latest)
	mustPut(t, s.Store, "a", "note", "y")
	step("another head")
	head := stateRoot(t, s.Store, Latest)
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "other", "d/b": "2", "d/c": "3"}))
	step("another state")
	putTree(t, s.Store, grow(id.B3, files))
	assert.Equal(t, head, stateRoot(t, s.Store, Latest), "back in the earlier state")
	remove(t, s.Store, "d", true)
	step("deleted paths")
	remove(t, s.Store, "d/b", false)
	step("one restored")
	remove(t, s.Store, "d", false)
	assert.Equal(t, head, stateRoot(t, s.Store, Latest))
	assert.Equal(t, first, stateRoot(t, s.Store, 3), "WS-048")
}

// WS-014: the state root of a large workspace, in which every file has a frame
// and half of them a stale one, is computed in one pass.
func TestStateRootOfALargeTree(t *testing.T) {
	files := proof.Size(t, "files of a state root", 2000, 50000)
	s := open(t, create(t, id.B3))
	texts := map[string]string{}
	for i := range files {
		texts[fmt.Sprintf("d%d/f%d", i%(files/20), i)] = "1"
	}
	putTree(t, s.Store, grow(id.B3, texts))
	update(t, s.Store, func(tx *Tx) error {
		for path := range texts {
			now, err := tx.frames().current(background, path)
			if err == nil {
				_, err = tx.PutFrame(NewFrame{Path: path, Type: "note", Agent: "writer", Origin: Authored, Text: []byte(path), Inputs: []Input{{Kind: id.InputNode, ID: now.Node}}})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	i := 0
	for path := range texts {
		if i++; i%2 == 0 {
			texts[path] = "2"
		}
	}
	putTree(t, s.Store, grow(id.B3, texts))
	before := proof.Spent()
	stateRoot(t, s.Store, Latest)
	t.Logf("%d files: %s of processor time", files, proof.Spent()-before)
	assert.Less(t, proof.Spent()-before, 30*time.Second, "one query for each path would take minutes")
}

// WS-175: deletion covers what is and what was below a path, is undone by
// restoring, and both do nothing the second time.
func TestDeleteAndRestore(t *testing.T) {
	dir := create(t, id.B3)
	now := int64(100)
	s := open(t, dir, func(o *Options) { o.Now = func() int64 { return now } })
	putTree(t, s.Store, grow(id.B3, map[string]string{"d/a": "1", "d/e/b": "1", "d-x": "1", "d0": "1", "d/gone": "1"}))
	f := mustPut(t, s.Store, "d/a", "note", "text")
	mustPut(t, s.Store, "d/gone", "note", "text")
	files := map[string]string{"d/a": "1", "d/e/b": "1", "d-x": "1", "d0": "1"}
	_, before := putTree(t, s.Store, grow(id.B3, files))
	now = 200
	assert.Equal(t, 5, remove(t, s.Store, "d", true))
	assert.Equal(t, 0, remove(t, s.Store, "d", true))
	assert.Equal(t, f.ID.String()+" deleted", head(t, s.Store, Latest, "d/a", "note"))
	assert.Equal(t, f.ID.String()+" fresh", head(t, s.Store, before, "d/a", "note"), "WS-048")
	_, _, err := putFrame(t, s.Store, "d/a", "note", "more")
	require.Error(t, err, "a deleted path takes no frames")
	putTree(t, s.Store, grow(id.B3, map[string]string{"d/a": "2", "d/e/b": "1", "d-x": "1", "d0": "1"}))
	assert.Equal(t, f.ID.String()+" deleted", head(t, s.Store, Latest, "d/a", "note"), "a scan restores nothing")
	putTree(t, s.Store, grow(id.B3, files))

	deleted := func(before int64) (paths []string) {
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			list, err := v.Deleted(background, before)
			for _, d := range list {
				paths = append(paths, fmt.Sprint(d.Path, " ", d.At.UnixNano(), " ", d.Frames))
			}
			return err
		}))
		return paths
	}
	assert.Equal(t, []string{"d 200 0", "d/a 200 1", "d/e 200 0", "d/e/b 200 0", "d/gone 200 1"}, deleted(0))
	assert.Empty(t, deleted(200))
	assert.Len(t, deleted(201), 5)
	for range 2 { // also after the index was rebuilt
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(filepath.Join(dir, indexFile)))
		s = open(t, dir)
		assert.Len(t, deleted(0), 5)
	}
	assert.Equal(t, 2, remove(t, s.Store, "d/e", false))
	assert.Equal(t, 3, remove(t, s.Store, "", false))
	assert.Equal(t, 0, remove(t, s.Store, "", false))
	assert.Equal(t, f.ID.String()+" fresh", head(t, s.Store, Latest, "d/a", "note"))
	_, err = s.Update(background, "", func(tx *Tx) error { _, err := tx.Delete("none"); return err })
	typed(t, err, "path/not-in-tree")
	require.NoError(t, s.Preview(background, func(tx *Tx) error {
		list, err := tx.Delete("d")
		assert.Len(t, list, 5)
		return err
	}))
	assert.Empty(t, deleted(0), "a preview changes nothing")
}

// WS-175, WS-230: a snapshot names a state; naming it again changes nothing,
// naming another state is an error, and there is a limit.
func TestSnapshots(t *testing.T) {
	s := open(t, create(t, id.B3))
	_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1"}))
	set := func(name string, at uint64) (named uint64, err error) {
		_, err = s.Update(background, "tester", func(tx *Tx) (err error) {
			named, err = tx.SetSnapshot(name, at)
			return err
		})
		return named, err
	}
	for range 2 {
		named, err := set("one", 0)
		require.NoError(t, err)
		assert.Equal(t, seq, named)
	}
	named, err := set("two", 0)
	require.NoError(t, err)
	assert.Equal(t, seq, named, "the transactions that give names are no states")
	_, later := putTree(t, s.Store, grow(id.B3, map[string]string{"a": "2"}))
	_, err = set("one", 0)
	typed(t, err, "input/invalid")
	_, err = set("three", later+1)
	typed(t, err, "seq/unknown")
	for _, name := range []string{"", "7", "a b", "-x", ":current"} {
		_, err = set(name, 0)
		typed(t, err, "input/invalid")
	}
	list := func() (names string) {
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			list, err := v.Snapshots(background)
			for _, x := range list {
				names += fmt.Sprint(x.Name, "=", x.Seq, " ")
			}
			return err
		}))
		return names
	}
	assert.Equal(t, fmt.Sprintf("one=%d two=%d ", seq, seq), list())
	removed := false
	for _, want := range []bool{true, false} {
		update(t, s.Store, func(tx *Tx) (err error) {
			removed, err = tx.RemoveSnapshot("one")
			return err
		})
		assert.Equal(t, want, removed)
	}
	named, err = set("one", 0)
	require.NoError(t, err)
	assert.Equal(t, later, named)
	update(t, s.Store, func(tx *Tx) error {
		for i := range MaxSnapshots - 2 {
			if _, err := tx.SetSnapshot(fmt.Sprint("n", i), seq); err != nil {
				return err
			}
		}
		return nil
	})
	_, err = set("more", 0)
	typed(t, err, "limit/exceeded")
}
