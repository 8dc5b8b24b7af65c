package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

func export(t testing.TB, s *Store, sel ExportRange) ([]byte, *Exported) {
	t.Helper()
	var b bytes.Buffer
	var e *Exported
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) (err error) {
		e, err = v.Export(background, &b, sel)
		return err
	}))
	assert.Equal(t, int64(b.Len()), e.Bytes)
	return b.Bytes(), e
}

func importInto(t testing.TB, s *Store, data []byte, on OnConflict) (done *Imported, seq uint64, err error) {
	t.Helper()
	b, err := ReadExport(bytes.NewReader(data))
	require.NoError(t, err)
	seq, err = s.Update(background, "importer", func(tx *Tx) (err error) {
		done, err = tx.Import(b, on)
		return err
	})
	return done, seq, err
}

// treeOf returns the current tree.
func treeOf(t testing.TB, s *Store) (tr *tree.Tree) {
	t.Helper()
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) (err error) {
		tr, err = v.Tree(background)
		return err
	}))
	return tr
}

// randomStore has a random history of trees and frames, which is replayed by
// equal seeds.
func randomStore(t testing.TB, r *rand.Rand, name string) *opened {
	now := int64(0)
	s := open(t, createAs(t, id.B3, name), func(o *Options) { o.Now = func() int64 { now++; return now } })
	paths := []string{"a", "b", "d/c", "d/e/f", "\xff"}
	files := map[string]string{"a": "1"}
	putTree(t, s.Store, grow(id.B3, files))
	var frames []id.ID
	for range 25 {
		if r.IntN(2) == 0 {
			path := paths[r.IntN(len(paths))]
			if r.IntN(4) == 0 && len(files) > 1 {
				delete(files, path)
			} else {
				files[path] = fmt.Sprint(r.IntN(3))
			}
			putTree(t, s.Store, grow(id.B3, files))
			continue
		}
		path := []string{"", "a", "b", "d", "d/c", "d/e/f"}[r.IntN(6)]
		if r.IntN(6) == 0 && slices.Contains([]string{"a", "d", "d/e", "\xff"}, path) {
			update(t, s.Store, func(tx *Tx) error {
				_, err := tx.mark(path, "test", r.IntN(3) > 0)
				if isType(err, "path/not-in-tree") {
					err = nil
				}
				return err
			})
			continue
		}
		if r.IntN(6) == 0 {
			update(t, s.Store, func(tx *Tx) error { return second(tx.Invalidate(path, r.IntN(2) == 0, nil)) })
			continue
		}
		p, _, err := putFrame(t, s.Store, path, []string{"t", "u"}[r.IntN(2)], fmt.Sprint(r.IntN(5)), func(n *NewFrame) {
			n.Agent = []string{"x", "y"}[r.IntN(2)]
			if len(frames) > 0 && r.IntN(2) == 0 {
				n.Inputs = append(n.Inputs, Input{Kind: id.InputFrame, ID: frames[r.IntN(len(frames))]})
			}
			n.Sample = uint64(r.IntN(2))
		})
		if err == nil {
			frames = append(frames, p.Frame.ID)
		}
	}
	return s
}

// WS-174, WS-014: a store that imports the whole history of another one with the
// same tree has the same state root and exports the same bytes; importing again
// changes nothing; the heads of earlier states are heads again when the tree
// returns to them.
func TestExportAndImport(t *testing.T) {
	for seed := range proof.Size(t, "exports", 10, 1000) {
		r := rand.New(rand.NewPCG(uint64(seed), 174))
		from := randomStore(t, r, "from")
		data, e := export(t, from.Store, ExportRange{History: true})
		again, _ := export(t, from.Store, ExportRange{History: true})
		require.Equal(t, data, again)
		require.Equal(t, stateRoot(t, from.Store, Latest), e.StateRoot)

		to := open(t, createAs(t, id.B3, "to"))
		putTree(t, to.Store, treeOf(t, from.Store))
		done, seq, err := importInto(t, to.Store, data, ConflictFail)
		require.NoError(t, err)
		require.Equal(t, e.Frames, done.Imported)
		require.Equal(t, deletedPaths(t, from.Store), deletedPaths(t, to.Store), "seed %d", seed)
		require.Equal(t, e.StateRoot, stateRoot(t, to.Store, Latest), "seed %d", seed)
		again, _ = export(t, to.Store, ExportRange{History: true})
		require.Equal(t, data, again, "seed %d", seed)
		done, same, err := importInto(t, to.Store, data, ConflictFail)
		require.NoError(t, err)
		require.Equal(t, &Imported{Existing: e.Frames}, done)
		require.Equal(t, seq, same, "nothing is committed")
		require.True(t, validate(t, to.Store, Check{}).Valid)

		// Every state that the one store has had gives the same fresh heads in the other.
		for at := uint64(2); ; at++ {
			var old *tree.Tree
			err := from.View(background, at, func(v *Snapshot) (err error) {
				old, err = v.Tree(background)
				return err
			})
			if contract.AsError(err) != nil {
				break
			}
			putTree(t, from.Store, old)
			putTree(t, to.Store, old)
			for path := range ids(old) {
				for _, typ := range []string{"t", "u"} {
					a, b := head(t, from.Store, Latest, path, typ), head(t, to.Store, Latest, path, typ)
					if bytes.HasSuffix([]byte(a), []byte("fresh")) {
						require.Equal(t, a, b, "seed %d: %q", seed, path)
					}
				}
			}
			if at > 8 {
				break
			}
		}
	}
}

func deletedPaths(t testing.TB, s *Store) (list []string) {
	t.Helper()
	require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
		all, err := v.Deleted(background, 0)
		for _, d := range all {
			list = append(list, d.Path)
		}
		return err
	}))
	return list
}

// WS-174, WS-175: an export of history has the frames of deleted paths, and that these are
// deleted; an import deletes them, so that Restore brings the frames back. It hides no frame of
// the store that it imports into, and does not undo a Restore.
func TestExportOfDeletedPaths(t *testing.T) {
	files := map[string]string{"a": "1", "d/b": "1", "gone": "1"}
	from := open(t, createAs(t, id.B3, "from"))
	putTree(t, from.Store, grow(id.B3, files))
	kept := mustPut(t, from.Store, "d/b", "note", "precious")
	lost := mustPut(t, from.Store, "gone", "note", "of a path that is gone")
	remove(t, from.Store, "d", true)
	remove(t, from.Store, "gone", true)
	delete(files, "gone")
	putTree(t, from.Store, grow(id.B3, files))
	data, e := export(t, from.Store, ExportRange{History: true})
	assert.Equal(t, 2, e.Frames)
	heads, e := export(t, from.Store, ExportRange{})
	assert.Zero(t, e.Frames)

	to := open(t, createAs(t, id.B3, "to"))
	putTree(t, to.Store, grow(id.B3, files))
	_, _, err := importInto(t, to.Store, heads, ConflictFail)
	require.NoError(t, err)
	assert.Empty(t, deletedPaths(t, to.Store), "without history it has no deletions")
	done, _, err := importInto(t, to.Store, data, ConflictFail)
	require.NoError(t, err)
	assert.Equal(t, 3, done.Deleted)
	assert.Equal(t, []string{"d", "d/b", "gone"}, deletedPaths(t, to.Store))
	assert.Equal(t, stateRoot(t, from.Store, Latest), stateRoot(t, to.Store, Latest))
	assert.True(t, validate(t, to.Store, Check{}).Valid)
	assert.Equal(t, 2, remove(t, to.Store, "d", false))
	assert.Equal(t, 1, remove(t, to.Store, "gone", false), "also of a path that was never in the tree of this store")
	assert.Equal(t, kept.ID.String()+" fresh", head(t, to.Store, Latest, "d/b", "note"))
	files["gone"] = "1"
	putTree(t, to.Store, grow(id.B3, files))
	assert.Equal(t, lost.ID.String()+" fresh", head(t, to.Store, Latest, "gone", "note"))
	done, _, err = importInto(t, to.Store, data, ConflictFail)
	require.NoError(t, err)
	assert.Equal(t, &Imported{Existing: 2}, done, "the paths stay restored")

	own := open(t, createAs(t, id.B3, "own"))
	putTree(t, own.Store, grow(id.B3, files))
	mine := mustPut(t, own.Store, "d/b", "digest", "my own")
	_, _, err = importInto(t, own.Store, data, ConflictFail)
	require.NoError(t, err)
	assert.Equal(t, []string{"d", "gone"}, deletedPaths(t, own.Store))
	assert.Equal(t, mine.ID.String()+" fresh", head(t, own.Store, Latest, "d/b", "digest"))
}

// WS-174: the heads of an export reach a workspace whose tree has moved on: they
// are stale there, and never replace a head of its own.
func TestImportIntoAnotherState(t *testing.T) {
	from := open(t, createAs(t, id.B3, "from"))
	putTree(t, from.Store, grow(id.B3, map[string]string{"a": "1", "b": "1", "gone": "1"}))
	a := mustPut(t, from.Store, "a", "note", "about a")
	root := mustPut(t, from.Store, "", "digest", "about all")
	mustPut(t, from.Store, "gone", "note", "about gone")
	b := mustPut(t, from.Store, "b", "note", "about b")
	data, e := export(t, from.Store, ExportRange{})
	assert.Equal(t, 4, e.Frames)

	to := open(t, createAs(t, id.B3, "to"))
	putTree(t, to.Store, grow(id.B3, map[string]string{"a": "2", "b": "2"}))
	mine := mustPut(t, to.Store, "b", "note", "my own")
	_, _, err := importInto(t, to.Store, data, ConflictFail)
	require.NoError(t, err)
	assert.Equal(t, a.ID.String()+" stale", head(t, to.Store, Latest, "a", "note"))
	assert.Equal(t, root.ID.String()+" stale", head(t, to.Store, Latest, "", "digest"))
	assert.Equal(t, mine.ID.String()+" fresh", head(t, to.Store, Latest, "b", "note"))
	assert.Equal(t, "path/not-in-tree", head(t, to.Store, Latest, "gone", "note"))
	own := mustPut(t, to.Store, "a", "note", "newer")
	assert.Equal(t, own.ID.String()+" fresh", head(t, to.Store, Latest, "a", "note"))
	putTree(t, to.Store, grow(id.B3, map[string]string{"a": "3", "b": "1", "gone": "1"}))
	assert.Equal(t, own.ID.String()+" stale", head(t, to.Store, Latest, "a", "note"), "states of its own come first")
	assert.Equal(t, b.ID.String()+" fresh", head(t, to.Store, Latest, "b", "note"), "WS-072")
	assert.Equal(t, "fresh", head(t, to.Store, Latest, "gone", "note")[len(own.ID.String())+1:])
}

// WS-174: of two heads for one state, the frame that was created later wins, in
// both directions.
func TestImportedHeadsAgree(t *testing.T) {
	tr := map[string]string{"a": "1", "b": "1"}
	stores, exports := make([]*opened, 2), make([][]byte, 2)
	for i := range stores {
		now := int64(i + 1)
		stores[i] = open(t, createAs(t, id.B3, fmt.Sprint(i)), func(o *Options) { o.Now = func() int64 { return now } })
		putTree(t, stores[i].Store, grow(id.B3, tr))
		mustPut(t, stores[i].Store, "a", "note", fmt.Sprint("of ", i))
		now = 5
		mustPut(t, stores[i].Store, "b", "note", fmt.Sprint("at the same time, of ", i))
		exports[i], _ = export(t, stores[i].Store, ExportRange{History: true})
	}
	for i := range stores {
		_, _, err := importInto(t, stores[i].Store, exports[1-i], ConflictFail)
		require.NoError(t, err)
	}
	assert.Equal(t, stateRoot(t, stores[0].Store, Latest), stateRoot(t, stores[1].Store, Latest))
}

// WS-174: an export is limited by path, type and agent, and to heads.
func TestSelection(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "d/b": "1", "d/c": "1", "d-x": "1"}))
	for _, path := range []string{"a", "d", "d/b", "d-x"} {
		for _, typ := range []string{"note", "digest"} {
			mustPut(t, s.Store, path, typ, "old")
			mustPut(t, s.Store, path, typ, "new", func(n *NewFrame) { n.Agent = map[string]string{"note": "x", "digest": "y"}[typ] })
		}
	}
	remove(t, s.Store, "a", true)
	for _, c := range []struct {
		sel           ExportRange
		frames, nodes int
	}{
		{ExportRange{}, 6, 6},
		{ExportRange{History: true}, 16, 6},
		{ExportRange{Path: "d"}, 4, 3},
		{ExportRange{Path: "a"}, 0, 1},
		{ExportRange{Path: "a", History: true}, 4, 1},
		{ExportRange{Types: []string{"note"}}, 3, 6},
		{ExportRange{Agents: []string{"x"}, History: true}, 4, 6},
		{ExportRange{Types: []string{"note", "digest"}, Agents: []string{"y"}}, 3, 6},
		{ExportRange{Path: "none"}, 0, 0},
	} {
		data, e := export(t, s.Store, c.sel)
		assert.Equal(t, []int{c.frames, c.nodes}, []int{e.Frames, e.Nodes}, "%v", c.sel)
		b, err := ReadExport(bytes.NewReader(data))
		require.NoError(t, err)
		assert.Len(t, b.Nodes, c.nodes)
		for _, f := range b.Frames {
			assert.Contains(t, []string{"old", "new"}, string(b.Text(f)))
			assert.Equal(t, f, b.Frame(f.ID))
		}
	}
	x, _ := export(t, s.Store, ExportRange{Types: []string{"note", "digest", "note"}})
	y, _ := export(t, s.Store, ExportRange{Types: []string{"digest", "note"}})
	assert.Equal(t, x, y, "equal selections give equal bytes")
}

// WS-174: a frame whose id exists with another text is an error, is left out, or
// gets the next free sample, and what was made from it follows.
func TestImportConflicts(t *testing.T) {
	build := func(name, text string, now int64) (*opened, *Frame) {
		s := open(t, createAs(t, id.B3, name), func(o *Options) { o.Now = func() int64 { return now } })
		putTree(t, s.Store, grow(id.B3, map[string]string{"d/a": "1"}))
		f := mustPut(t, s.Store, "d/a", "context", text, func(n *NewFrame) { n.Origin = Generated })
		return s, f
	}
	from, child := build("from", "their answer", 2)
	mustPut(t, from.Store, "d", "digest", "made from it", func(n *NewFrame) { n.Inputs = []Input{{Kind: id.InputFrame, ID: child.ID}} })
	data, _ := export(t, from.Store, ExportRange{History: true})

	to, mine := build("to", "my answer", 1)
	require.Equal(t, child.ID, mine.ID)
	seq := update(t, to.Store, func(*Tx) error { return nil })
	_, _, err := importInto(t, to.Store, data, ConflictFail)
	typed(t, err, "import/conflict")
	assert.Equal(t, seq, update(t, to.Store, func(*Tx) error { return nil }), "nothing is imported")
	_, _, err = importInto(t, to.Store, data, "perhaps")
	typed(t, err, "input/invalid")

	for _, on := range []OnConflict{KeepLocal, Resample} {
		to, _ := build("to "+string(on), "my answer", 1)
		var first id.ID
		var last uint64
		for range 2 {
			done, seq, err := importInto(t, to.Store, data, on)
			require.NoError(t, err)
			digest := head(t, to.Store, Latest, "d", "digest")
			if first.IsZero() {
				require.Len(t, done.Conflicts, 1)
			} else {
				assert.Zero(t, done.Imported)
				assert.Equal(t, last, seq, "nothing is committed")
			}
			last = seq
			require.NoError(t, to.View(background, seq, func(v *Snapshot) error {
				h, err := v.Head(background, "d", "digest")
				require.NoError(t, err)
				assert.Equal(t, Fresh, h.State, digest)
				input, err := v.Frame(background, h.Frame.Inputs[0].ID)
				require.NoError(t, err)
				text, err := v.Content(background, input.Content)
				require.NoError(t, err)
				if on == Resample {
					assert.Equal(t, "their answer", string(text))
					assert.Equal(t, uint64(1), input.Sample)
				} else {
					assert.Equal(t, "my answer", string(text))
				}
				first = h.Frame.ID
				return nil
			}))
		}
		require.True(t, validate(t, to.Store, Check{}).Valid)
	}
}

// WS-174, WS-220: an export that is cut, altered, of another scheme, or that
// names what it does not have or may not name, is rejected as a whole.
func TestImportInvalid(t *testing.T) {
	s := furnished(t, create(t, id.B3))
	data, _ := export(t, s.Store, ExportRange{History: true})
	bad := func(b []byte, what string, at int) {
		_, err := ReadExport(bytes.NewReader(b))
		require.ErrorIs(t, err, contract.OfType("import/invalid"), "%s %d", what, at)
	}
	step := proof.Of(7, 1) // bytes between two that are cut at or altered
	for i := 0; i < len(data); i += step {
		bad(data[:i], "cut at", i)
		b := slices.Clone(data)
		b[i] ^= 1 << (i % 8)
		bad(b, "flipped", i)
	}
	bad(append(slices.Clone(data), 0), "longer", 0)
	assert.NoError(t, CheckExportHead(data[:64]))
	typed(t, CheckExportHead(make([]byte, 64)), "import/invalid")

	records := func(change func(i int, r log.Record) []log.Record) []byte {
		var out bytes.Buffer
		w, err := log.NewBundle(&out, id.BLAKE3)
		require.NoError(t, err)
		i := 0
		require.NoError(t, log.ReadBundle(bytes.NewReader(data), func(r log.Record) error {
			for _, x := range change(i, r) {
				if err := w.Add(x); err != nil {
					return err
				}
			}
			i++
			return nil
		}))
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	same := records(func(_ int, r log.Record) []log.Record { return []log.Record{r} })
	require.Equal(t, data, same)
	without := func(kind byte) []byte {
		return records(func(_ int, r log.Record) []log.Record {
			if r.Kind == kind {
				return nil
			}
			return []log.Record{r}
		})
	}
	bad(without(kindExport), "no head", 0)
	bad(without(kindContent), "no texts", 0)
	bad(without(kindFrame), "no frames", 0)
	path := func(path string) []byte {
		return records(func(i int, r log.Record) []log.Record {
			if r.Kind != kindFrame {
				return []log.Record{r}
			}
			f, err := openFrame(id.B3, r.Payload)
			require.NoError(t, err)
			f.Path = path
			f.seal(id.B3)
			again, err := encodeRecord(kindFrame, frameRecord{Frame: *f, RawPath: []byte(path)})
			require.NoError(t, err)
			return []log.Record{again}
		})
	}
	bad(path("../a"), "path", 0)
	bad(path("/a"), "path", 0)
	bad(path("a//b"), "path", 0)
	for _, record := range []tombstoneRecord{
		{Paths: [][]byte{[]byte("a")}}, {Deleted: true, Paths: [][]byte{[]byte("../a")}},
	} {
		bad(records(func(_ int, r log.Record) []log.Record {
			added, err := encodeRecord(kindTombstones, record)
			require.NoError(t, err)
			return []log.Record{r, added}
		}), "tombstones", 0)
	}
	bad(records(func(_ int, r log.Record) []log.Record {
		return []log.Record{r, {Kind: kindSnapshot, Payload: r.Payload}}
	}), "kind", 0)

	other := open(t, createAs(t, id.S2, "other"))
	_, _, err := importInto(t, other.Store, data, ConflictFail)
	typed(t, err, "import/invalid")
}

// FuzzReadExport: any bytes are an error, or an export that can be imported.
func FuzzReadExport(f *testing.F) {
	s := furnished(f, create(f, id.B3))
	data, _ := export(f, s.Store, ExportRange{History: true})
	f.Add(data)
	empty, _ := export(f, s.Store, ExportRange{Path: "none"})
	f.Add(empty)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ReadExport(bytes.NewReader(data))
		if err != nil {
			require.ErrorIs(t, err, contract.OfType("import/invalid"))
			return
		}
		_, err = s.Update(background, "fuzz", func(tx *Tx) error {
			_, err := tx.Import(b, Resample)
			return err
		})
		require.NoError(t, err)
	})
}
