package log

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// again writes transactions as they are, without records of the kind dropped.
func again(list []Transaction, dropped byte) func(*Rewriter) error {
	return func(w *Rewriter) error {
		for _, t := range list {
			var kept []Record
			for _, r := range t.Records {
				if r.Kind != dropped {
					kept = append(kept, r)
				}
			}
			if _, err := w.Add(t.Commit, kept); err != nil {
				return err
			}
		}
		return nil
	}
}

var lastDraft = Draft{Actor: "compact", Time: 9, Records: []Record{{Kind: FirstKind, Payload: []byte("compacted")}}}

// plain drops what depends on the position.
func plain(list []Transaction) []Transaction {
	var out []Transaction
	for _, t := range list {
		t.Places, t.End = nil, Checkpoint{}
		out = append(out, t)
	}
	return out
}

// WS-175: a rewritten log has the same transactions with their numbers, without
// what was dropped; its chain begins with the end of the old one; old segments go;
// writing goes on; and a rewritten log can be rewritten.
func TestRewrite(t *testing.T) {
	for seed := range proof.Size(t, "rewritten logs", 10, 400) {
		r := rand.New(rand.NewPCG(uint64(seed), 175))
		w := newWorld(t)
		w.size = 200 + int64(r.IntN(2000))
		l, _, _ := w.open()
		all := w.fill(l, r, 3)
		for range 2 {
			before := w.files()
			end := l.End()
			done, err := l.Rewrite(again(all, FirstKind+1), lastDraft)
			require.NoError(t, err)
			for i, tr := range all {
				all[i].Records = slices.DeleteFunc(slices.Clone(tr.Records), func(r Record) bool { return r.Kind == FirstKind+1 })
				all[i].Commit.Records = len(all[i].Records)
				if len(all[i].Records) == 0 {
					all[i].Records = nil
				}
			}
			all = append(all, *done)
			assert.Equal(t, end.Seq+1, l.End().Seq)
			h, err := readHead(w.dir, end.Segment+1, id.BLAKE3)
			require.NoError(t, err)
			assert.Equal(t, end.Chain, h.before)
			require.NoError(t, l.Tidy())
			for name := range before {
				require.NoFileExists(t, filepath.Join(w.dir, name))
			}
			all = append(all, w.fill(l, r, 2)...)
			l2, replayed, damage := w.open()
			require.Nil(t, damage)
			require.Equal(t, plain(all), plain(replayed), "seed %d", seed)
			for _, tr := range replayed {
				for i, p := range tr.Places {
					b, err := l.Read(p)
					require.NoError(t, err)
					require.True(t, bytes.Equal(tr.Records[i].Payload, b))
				}
			}
			if len(all[0].Records) > 0 {
				first, _, err := First(l2.dir, l2.o.Alg, len(all[0].Records[0].Payload))
				require.NoError(t, err)
				require.Equal(t, all[0].Records[0].Payload, first)
			}
			_, rest, damage := w.open(replayed[len(replayed)-2].End)
			require.Nil(t, damage)
			require.Len(t, rest, 1)
			_, _, damage = w.open(end)
			require.NotNil(t, damage)
			require.True(t, damage.Other, "a position in the old log says that it was rewritten")
			require.NoError(t, l2.Close())
		}
	}
}

// WS-047, WS-175: a rewriting that fails, or is interrupted at a byte, any in the full
// size, leaves the log as it was; one that was interrupted behind its end is finished by the
// next open.
func TestInterruptedRewrite(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 175))
	step := proof.Of(12, 1) // bytes between interruptions, at most
	w := newWorld(t)
	w.size = 500
	l, _, _ := w.open()
	var all []Transaction
	for range 4 {
		done, err := l.Append(small(r)...)
		require.NoError(t, err)
		all = append(all, done...)
	}
	old := w.files()
	_, err := l.Rewrite(func(w *Rewriter) error { return errors.Join(again(all, 0)(w), unix.ENOSPC) }, lastDraft)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.Equal(t, old, w.files())
	done, err := l.Rewrite(again(all, 0), lastDraft)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	whole := w.files()
	var added []string
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if old[name] == nil {
			added = append(added, name)
		}
	}
	require.Greater(t, len(added), 2)
	check := func(files map[string][]byte, want []Transaction, name string, at int) {
		w.restore(files)
		l, replayed, damage := w.open()
		require.Nil(t, damage, "%s cut at %d", name, at)
		require.Equal(t, plain(want), plain(replayed), "%s cut at %d", name, at)
		w.fill(l, r, 1)
		require.NoError(t, l.Close())
		_, damage, err = Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
		require.NoError(t, err)
		require.Nil(t, damage)
	}
	for i, name := range added {
		for cut := r.IntN(step); cut < len(whole[name]); cut += 1 + r.IntN(step) {
			torn := maps.Clone(old)
			for _, earlier := range added[:i] {
				torn[earlier] = whole[earlier]
			}
			torn[name] = whole[name][:cut]
			check(torn, all, name, cut)
		}
	}
	finished := append(slices.Clone(all), *done)
	names := slices.Sorted(maps.Keys(old))
	for keep := range len(names) + 1 {
		some := maps.Clone(whole)
		for _, name := range names[:keep] {
			delete(some, name)
		}
		check(some, finished, "old segments", keep)
		for _, name := range names {
			require.NoFileExists(t, filepath.Join(w.dir, name))
		}
	}
	// Any flipped byte of the new log is found, with the name of its segment.
	for _, name := range names {
		delete(whole, name)
	}
	for name, b := range whole {
		for i := r.IntN(step); i < len(b); i += 1 + r.IntN(step) {
			flipped := maps.Clone(whole)
			flipped[name] = bytes.Clone(b)
			flipped[name][i] ^= 1 << r.IntN(8)
			w.restore(flipped)
			_, damage, err := Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
			require.NoError(t, err)
			require.NotNil(t, damage, "%s byte %d", name, i)
			require.Equal(t, name, damage.File, "byte %d", i)
			l, _, damage := w.open()
			if damage == nil { // the last transaction is not known to have been acknowledged
				require.Equal(t, added[len(added)-1], name)
			}
			require.NoError(t, l.Close())
		}
	}
}

// WS-173: of a log with any damage, every transaction that verifies is found; of
// one with a flipped byte at most two are lost. The new log has them with their
// numbers, and the damaged segments are in quarantine.
func TestSalvageAndRestart(t *testing.T) {
	for seed := range proof.Size(t, "salvaged logs", 30, 4000) {
		r := rand.New(rand.NewPCG(uint64(seed), 173))
		w := newWorld(t)
		w.size = 300 + int64(r.IntN(3000))
		l, _, _ := w.open()
		all := w.fill(l, r, 6)
		require.NoError(t, l.Close())
		files := w.files()
		names := slices.Sorted(maps.Keys(files))
		name := names[r.IntN(len(names))]
		lost := 2
		switch b := bytes.Clone(files[name]); seed % 3 {
		case 0:
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			files[name] = b
		case 1: // a part is garbage
			at := r.IntN(len(b))
			for i := range b[at:min(at+300, len(b))] {
				b[at+i] = byte(r.IntN(256))
			}
			files[name], lost = b, 12
		case 2:
			delete(files, name)
			lost = len(all)
		}
		w.restore(files)
		var kept []Transaction
		s, err := Salvage(w.dir, id.BLAKE3, func(t *Transaction) error {
			kept = append(kept, *t)
			return nil
		})
		require.NoError(t, err)
		if name != names[len(names)-1] { // the end of a log can be missing without a trace in the log
			require.NotEmpty(t, s.Damages, "seed %d", seed)
		}
		for _, k := range kept {
			i := slices.IndexFunc(all, func(t Transaction) bool { return t.Commit.Seq == k.Commit.Seq })
			require.Equal(t, plain(all[i:i+1]), plain([]Transaction{k}))
		}
		require.LessOrEqual(t, len(all)-len(kept), lost, "seed %d: %s", seed, name)
		o := Options{Alg: id.BLAKE3, Unsynced: true, Quarantine: w.quarantine(), SegmentSize: w.size}
		last := all[len(all)-1].Commit.Seq
		require.NoError(t, Restart(w.dir, o, s.End, last, again(kept, 0), lastDraft))
		l, replayed, damage := w.open()
		require.Nil(t, damage, "seed %d", seed)
		require.Equal(t, plain(kept), plain(replayed[:len(replayed)-1]))
		require.Equal(t, last+1, replayed[len(replayed)-1].Commit.Seq)
		require.Equal(t, total(files), w.quarantined(), "nothing is discarded")
		w.fill(l, r, 1)
		entries, err := os.ReadDir(w.quarantine())
		require.NoError(t, err)
		for _, e := range entries {
			altered, err := Altered(filepath.Join(w.quarantine(), e.Name()))
			require.NoError(t, err)
			require.False(t, altered)
		}
	}
}

// WS-173: a disk that fills up while the new log is written leaves the damaged
// one as it was.
func TestFailedRestart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 173))
	w := newWorld(t)
	l, _, _ := w.open()
	all := w.fill(l, r, 4)
	require.NoError(t, l.Close())
	before := w.files()
	o := Options{Alg: id.BLAKE3, Unsynced: true, Quarantine: w.quarantine(), SegmentSize: w.size}
	o.Faults.Before = func(op string) error {
		if op == OpWrite {
			return &Partial{Bytes: 20, Err: unix.ENOSPC}
		}
		return nil
	}
	typed(t, Restart(w.dir, o, Checkpoint{}, 9, again(all, 0), lastDraft), "store/io")
	require.Equal(t, before, w.files())
}

// FuzzSalvage: any bytes give transactions that verify, never a panic.
func FuzzSalvage(f *testing.F) {
	w := newWorld(f)
	w.size = SegmentSize
	l, _, _ := w.open()
	all := w.fill(l, rand.New(rand.NewPCG(1, 1)), 2)
	_, err := l.Rewrite(again(all, 0), lastDraft)
	require.NoError(f, err)
	for _, b := range w.files() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(t)
		for _, n := range []int{1, 2} {
			w.restore(map[string][]byte{SegmentName(n): b})
			seq := uint64(0)
			_, err := Salvage(w.dir, id.BLAKE3, func(t *Transaction) error {
				if t.Commit.Seq <= seq {
					return errors.New("the numbers do not grow")
				}
				seq = t.Commit.Seq
				return nil
			})
			require.NoError(t, err)
		}
	})
}
