package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

func compact(t testing.TB, s *Store, c Compaction) *Compacted {
	t.Helper()
	out, err := s.Compact(background, "tester", c)
	require.NoError(t, err)
	return out
}

// textOf returns the text of a frame at a state, or the type of the error.
func textOf(t testing.TB, s *Store, asOf uint64, frame id.ID) (text string) {
	t.Helper()
	err := s.View(background, asOf, func(v *Snapshot) error {
		f, err := v.Frame(background, frame)
		if err != nil {
			return err
		}
		b, err := v.Content(background, f.Content)
		text = string(b)
		return err
	})
	if err != nil {
		return contract.AsError(err).Type
	}
	return text
}

func logSize(t testing.TB, dir string) (n int64) {
	entries, err := os.ReadDir(filepath.Join(dir, logDir))
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		n += info.Size()
	}
	return n
}

// WS-175: the texts of frames whose path was deleted for longer than the time to
// live are dropped; the frames, their ids and all roots stay; what is younger,
// shared with another frame, or shown by a snapshot stays too; the second
// compaction does nothing.
func TestCompactDeleted(t *testing.T) {
	dir := create(t, id.B3)
	now := int64(0)
	change := func(o *Options) { o.Now = func() int64 { return now }; o.SegmentSize = 3000 }
	s := open(t, dir, change)
	_, seq := putTree(t, s.Store, grow(id.B3, map[string]string{"old": "1", "young": "1", "named": "1", "alive": "1"}))
	frames := map[string]*Frame{}
	for _, path := range []string{"old", "young", "named", "alive"} {
		frames[path] = mustPut(t, s.Store, path, "note", strings.Repeat("about "+path+". ", 100))
	}
	shared := mustPut(t, s.Store, "old", "other", strings.Repeat("about alive. ", 100))
	update(t, s.Store, func(tx *Tx) error { return second(tx.SetSnapshot("v1", 0)) })
	late := mustPut(t, s.Store, "named", "late", strings.Repeat("after the snapshot. ", 100))
	// The snapshot shows all of them: it protects them.
	now = 10
	remove(t, s.Store, "old", true)
	remove(t, s.Store, "named", true)
	now = 20
	remove(t, s.Store, "young", true)
	rooted := stateRoot(t, s.Store, Latest)
	c := Compaction{TTL: 15}
	now = 30
	size := logSize(t, dir)
	expect := compact(t, s.Store, Compaction{TTL: c.TTL, DryRun: true})
	assert.Equal(t, 1, expect.Purged, "only what came after the snapshot")
	assert.Equal(t, size, logSize(t, dir), "a dry run writes nothing")
	done := compact(t, s.Store, c)
	assert.Equal(t, []any{expect.Purged, expect.Bytes, expect.Seq + 1}, []any{done.Purged, done.Bytes, done.Seq})
	assert.Equal(t, "seq/compacted", textOf(t, s.Store, Latest, late.ID))
	assert.True(t, strings.HasPrefix(textOf(t, s.Store, Latest, frames["old"].ID), "about old"))

	update(t, s.Store, func(tx *Tx) error { return second(tx.RemoveSnapshot("v1")) })
	done = compact(t, s.Store, c)
	assert.Equal(t, 2, done.Purged, "old and named; the other text of old is shared")
	assert.Less(t, logSize(t, dir), size-2000)
	check := func(s *Store) {
		assert.Equal(t, "seq/compacted", textOf(t, s, Latest, frames["old"].ID))
		assert.Equal(t, "seq/compacted", textOf(t, s, Latest, frames["named"].ID))
		assert.True(t, strings.HasPrefix(textOf(t, s, Latest, shared.ID), "about alive"))
		assert.True(t, strings.HasPrefix(textOf(t, s, Latest, frames["young"].ID), "about young"))
		assert.Equal(t, rooted, stateRoot(t, s, Latest))
		err := s.View(background, seq+1, func(*Snapshot) error { return nil })
		typed(t, err, "seq/compacted") // WS-048
		require.NoError(t, s.View(background, done.Oldest, func(*Snapshot) error { return nil }))
		require.Empty(t, validate(t, s, Check{}).Errors)
	}
	check(s.Store)
	again := compact(t, s.Store, c)
	assert.Equal(t, []any{0, done.Seq}, []any{again.Purged, again.Seq}, "nothing is committed")
	mustPut(t, s.Store, "alive", "note", "goes on")
	rooted = stateRoot(t, s.Store, Latest)
	require.NoError(t, s.Close())
	findings, err := verifyDir(dir)
	require.NoError(t, err)
	require.Empty(t, findings)
	s = open(t, dir, change)
	require.Empty(t, s.Store.warnings())
	check(s.Store)
	require.NoError(t, s.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	s = open(t, dir, change)
	check(s.Store)
	// A text that is put again is there again.
	remove(t, s.Store, "", false)
	update(t, s.Store, func(tx *Tx) error { return second(tx.PutContent([]byte(strings.Repeat("about old. ", 100)))) })
	assert.True(t, strings.HasPrefix(textOf(t, s.Store, Latest, frames["old"].ID), "about old"))
	require.Empty(t, validate(t, s.Store, Check{}).Errors)
}

// WS-175: history beyond the newest transactions is dropped if asked: frames of
// states that the path does not have any more, unless they are its heads.
func TestCompactHistory(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir)
	frames := map[string]id.ID{}
	put := func(name, path, typ string) {
		frames[name] = mustPut(t, s.Store, path, typ, "text of "+name).ID
	}
	state := func(a, b string) { putTree(t, s.Store, grow(id.B3, map[string]string{"a": a, "b": b})) }
	state("1", "1")
	put("a1 replaced", "a", "note")
	put("a1", "a", "note")
	put("b1", "b", "note")
	state("2", "1")
	put("a2", "a", "note")
	put("a2 digest", "a", "digest")
	state("3", "1") // note and digest of a2 are stale heads now
	state("4", "1")
	put("a4", "a", "note")
	end := update(t, s.Store, func(*Tx) error { return nil })
	assert.Zero(t, compact(t, s.Store, Compaction{TTL: time.Hour}).Purged)
	assert.Zero(t, compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 100}).Purged)
	assert.Equal(t, 2, compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 3, DryRun: true}).Purged, "the note of a2 is the head of kept states")
	before, _ := export(t, s.Store, ExportRange{History: true})
	done := compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 1})
	assert.Equal(t, 3, done.Purged)
	assert.Equal(t, end, done.Oldest)
	for name, frame := range frames {
		want := "text of " + name
		if name == "a1" || name == "a1 replaced" || name == "a2" {
			want = "seq/compacted"
		}
		assert.Equal(t, want, textOf(t, s.Store, Latest, frame), name)
	}
	typed(t, s.View(background, end-1, func(*Snapshot) error { return nil }), "seq/compacted")
	require.NoError(t, s.View(background, end, func(v *Snapshot) error {
		list, _, err := v.History(background, "a", "", 10, "")
		assert.Len(t, list, 4, "states and ids of frames stay")
		assert.Len(t, list[3].Frames, 2)
		return err
	}))
	require.Empty(t, validate(t, s.Store, Check{}).Errors)
	data, e := export(t, s.Store, ExportRange{History: true})
	assert.Equal(t, 3, e.Frames)
	to := open(t, createAs(t, id.B3, "to"))
	_, _, err := importInto(t, to.Store, data, ConflictFail)
	require.NoError(t, err)
	for _, restored := range []int{3, 0} { // WS-174: texts that come back are counted, once
		again, _, err := importInto(t, s.Store, before, ConflictFail)
		require.NoError(t, err)
		assert.Equal(t, []int{0, 6, restored}, []int{again.Imported, again.Existing, again.Restored})
	}
	assert.Equal(t, "text of a1", textOf(t, s.Store, Latest, frames["a1"]))
}

// WS-175: history is dropped also if all texts stay: because no frame was superseded, or
// because its text is that of a head. The second compaction does nothing.
func TestCompactHistoryWithoutTexts(t *testing.T) {
	s := open(t, create(t, id.B3))
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
	mustPut(t, s.Store, "a", "note", "shared")
	mustPut(t, s.Store, "b", "note", "shared")
	mustPut(t, s.Store, "b", "note", "other")
	end := update(t, s.Store, func(tx *Tx) error { return second(tx.SetSnapshot("v1", 3)) })
	readable := func(seq uint64) error { return s.View(background, seq, func(*Snapshot) error { return nil }) }
	for _, c := range []Compaction{{TTL: time.Hour, Keep: end}, {TTL: time.Hour, Keep: end + 1}} {
		assert.Zero(t, compact(t, s.Store, c).Oldest)
	}
	rooted := stateRoot(t, s.Store, Latest)
	expect := compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 2, DryRun: true})
	assert.Equal(t, []any{0, end - 1}, []any{expect.Purged, expect.Oldest})
	require.NoError(t, readable(end-2), "a dry run drops nothing")
	done := compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 2})
	assert.Equal(t, []any{0, end - 1, end + 1}, []any{done.Purged, done.Oldest, done.Seq})
	for seq := uint64(2); seq < end-1; seq++ {
		if err := readable(seq); seq == 3 {
			require.NoError(t, err, "it has a name")
		} else {
			typed(t, err, "seq/compacted")
		}
	}
	require.NoError(t, readable(end-1))
	assert.Equal(t, rooted, stateRoot(t, s.Store, Latest))
	again := compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 2})
	assert.Equal(t, []any{uint64(0), end + 1}, []any{again.Oldest, again.Seq}, "nothing is committed")
	mustPut(t, s.Store, "a", "note", "newer")
	assert.Equal(t, end+1, compact(t, s.Store, Compaction{TTL: time.Hour, Keep: 2}).Oldest)
	require.Empty(t, validate(t, s.Store, Check{}).Errors)
}

// WS-048, WS-175: after any compaction, every state that can be read has the same
// tree and heads as before, and every named one the same texts; all others are
// seq/compacted.
func TestCompactedStates(t *testing.T) {
	for seed := range proof.Size(t, "compactions", 8, 600) {
		r := rand.New(rand.NewPCG(uint64(seed), 48))
		s := randomStore(t, r, "w")
		named := map[uint64]bool{}
		var end uint64
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error { end = v.Seq(); return nil }))
		for i := range r.IntN(3) {
			seq := 2 + r.Uint64N(end-1)
			named[seq] = true
			update(t, s.Store, func(tx *Tx) error { return second(tx.SetSnapshot(fmt.Sprint("s", i), seq)) })
		}
		remove(t, s.Store, "a", true)
		read := func(seq uint64, texts bool) (all string, err error) {
			err = s.View(background, seq, func(v *Snapshot) error {
				root, err := v.StateRoot(background)
				all = root.String()
				if err != nil || !texts {
					return err
				}
				for _, path := range []string{"", "a", "b", "d", "d/c", "d/e/f"} {
					page, err := framesAt(v, path, Filter{Limit: MaxPage})
					if err != nil {
						return err
					}
					for _, f := range page.Frames {
						b, err := v.Content(background, f.Content)
						if err != nil {
							return err
						}
						all += fmt.Sprint(f.ID, string(b))
					}
				}
				return nil
			})
			return all, err
		}
		before := map[uint64]string{}
		for seq := uint64(2); seq <= end; seq++ {
			all, err := read(seq, named[seq])
			require.NoError(t, err)
			before[seq] = all
		}
		done := compact(t, s.Store, Compaction{Keep: []uint64{0, 5, 12}[r.IntN(3)]})
		for seq, want := range before {
			got, err := read(seq, named[seq])
			if seq < done.Oldest && !named[seq] {
				require.ErrorIs(t, err, contract.OfType("seq/compacted"), "seed %d at %d", seed, seq)
				continue
			}
			require.NoError(t, err, "seed %d at %d", seed, seq)
			require.Equal(t, want, got, "seed %d at %d", seed, seq)
		}
		require.Empty(t, validate(t, s.Store, Check{}).Errors, "seed %d", seed)
	}
}

// WS-046, WS-175: a reader that began before a compaction reads on from the old
// segments, new ones do not wait, and the old segments go when it has left.
func TestReadersDuringCompaction(t *testing.T) {
	dir := create(t, id.B3)
	s := open(t, dir, func(o *Options) { o.SegmentSize = 2000 })
	putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
	a, b := mustPut(t, s.Store, "a", "note", "about a"), mustPut(t, s.Store, "b", "note", "about b")
	remove(t, s.Store, "a", true)
	reading, release := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		assert.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			close(reading)
			<-release
			for _, f := range []*Frame{a, b} {
				_, err := v.Content(background, f.Content)
				assert.NoError(t, err, "the state before the compaction is whole")
			}
			return nil
		}))
	})
	<-reading
	var done atomic.Bool
	calls.Go(func() {
		compact(t, s.Store, Compaction{})
		done.Store(true)
	})
	for textOf(t, s.Store, Latest, a.ID) != "seq/compacted" { // until it is committed
		assert.Equal(t, "about b", textOf(t, s.Store, Latest, b.ID))
	}
	mustPut(t, s.Store, "b", "note", "more")
	assert.False(t, done.Load(), "the old segments are still read")
	assert.FileExists(t, filepath.Join(dir, logDir, log.SegmentName(1)))
	close(release)
	calls.Wait()
	assert.NoFileExists(t, filepath.Join(dir, logDir, log.SegmentName(1)))
	assert.Equal(t, "about b", textOf(t, s.Store, Latest, b.ID))
}

// WS-047, WS-175: a compaction that runs out of space, is canceled, or fails in
// the index leaves the store as it was, or compacted after the next open.
func TestFailedCompaction(t *testing.T) {
	for _, op := range []string{log.OpWrite, log.OpCreate, log.OpSync, log.OpRemove, opIndex, "canceled"} {
		t.Run(op, func(t *testing.T) {
			var broken atomic.Bool
			dir := create(t, id.B3)
			s := open(t, dir, func(o *Options) {
				o.SegmentSize = 1500
				o.Faults.Before = func(at string) error {
					if at == op && broken.Load() {
						return &log.Partial{Bytes: 30, Err: unix.ENOSPC}
					}
					return nil
				}
			})
			putTree(t, s.Store, grow(id.B3, map[string]string{"a": "1", "b": "1"}))
			a, b := mustPut(t, s.Store, "a", "note", "about a"), mustPut(t, s.Store, "b", "note", "about b")
			remove(t, s.Store, "a", true)
			root := stateRoot(t, s.Store, Latest)
			broken.Store(true)
			ctx, cancel := context.WithCancel(background)
			if op == "canceled" {
				cancel()
			}
			_, err := s.Compact(ctx, "tester", Compaction{})
			cancel()
			require.Error(t, err)
			broken.Store(false)
			assert.Equal(t, "about b", textOf(t, s.Store, Latest, b.ID), "reads go on")
			compacted := errors.Is(err, contract.OfType("store/io")) && (op == log.OpRemove || op == opIndex)
			if !compacted {
				assert.Equal(t, "about a", textOf(t, s.Store, Latest, a.ID))
			}
			if op == log.OpWrite || op == log.OpCreate || op == "canceled" {
				assert.Equal(t, 1, compact(t, s.Store, Compaction{}).Purged)
				compacted = true
			}
			require.NoError(t, s.Close())
			s = open(t, dir)
			require.Nil(t, s.Damage())
			want := "about a"
			if compacted || op == log.OpSync { // what was written but not synchronized can survive
				want = "seq/compacted"
			}
			assert.Equal(t, want, textOf(t, s.Store, Latest, a.ID))
			assert.Equal(t, "about b", textOf(t, s.Store, Latest, b.ID))
			assert.Equal(t, root, stateRoot(t, s.Store, Latest))
			mustPut(t, s.Store, "b", "note", "goes on")
			require.Empty(t, validate(t, s.Store, Check{}).Errors)
			require.NoError(t, s.Close())
			findings, err := verifyDir(dir)
			require.NoError(t, err)
			require.Empty(t, findings)
		})
	}
}
