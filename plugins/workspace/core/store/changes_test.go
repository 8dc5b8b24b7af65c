package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// listed returns changes as text, for comparison.
func listed(c *tree.Changes) (out []string) {
	for kind, list := range map[string][]tree.Change{"added": c.Added, "modified": c.Modified, "removed": c.Removed} {
		for _, x := range list {
			line := kind + " " + x.Path
			for _, n := range []*tree.Node{x.Old, x.New} {
				if n != nil {
					line += fmt.Sprint(" ", n.Name, n.ID, n.Content, n.Mode, n.Size)
				}
			}
			out = append(out, line)
		}
	}
	for _, r := range c.Renamed {
		out = append(out, "renamed "+r.From+" "+r.To)
	}
	return out
}

// WS-163: the changes between any two states, which are read from what the log
// recorded, are those between their trees. Steps lists the transactions that
// changed it, and only these.
func TestChangesBetweenStates(t *testing.T) {
	for seed := range proof.Size(t, "histories", 8, 100) {
		r := rand.New(rand.NewPCG(uint64(seed), 163))
		s := open(t, create(t, []id.Scheme{id.B3, id.GitSHA1}[seed%2]))
		trees := map[uint64]*tree.Tree{1: nil}
		seqs := []uint64{1}
		var steps []Step
		files := map[string]string{}
		for range 12 {
			for range r.IntN(6) {
				path := fmt.Sprintf("%s%c", []string{"", "d/", "d/e/", "f/"}[r.IntN(4)], 'p'+rune(r.IntN(5)))
				if files[path] = fmt.Sprint(r.IntN(40)); r.IntN(3) == 0 {
					delete(files, path)
				}
			}
			tr := grow(s.Scheme, files)
			changes, seq := putTree(t, s.Store, tr)
			if !changes.Empty() {
				seqs = append(seqs, seq)
				steps = append(steps, Step{Seq: seq, Paths: len(changes.Added) + len(changes.Modified) + len(changes.Removed)})
			}
			trees[seq] = tr
			put(t, s.Store, fmt.Sprint(seed, len(seqs), r.IntN(3)))
		}
		require.NoError(t, s.View(background, Latest, func(v *Snapshot) error {
			for i, from := range seqs {
				for _, to := range seqs[i:] {
					got, err := v.Changes(background, from, to)
					require.NoError(t, err)
					require.ElementsMatch(t, listed(tree.Diff(trees[from], trees[to])), listed(got), "seed %d, %d to %d", seed, from, to)
				}
				got, err := v.Steps(background, from, 100)
				require.NoError(t, err)
				require.Equal(t, len(steps)-i, len(got))
				require.ElementsMatch(t, steps[i:], got)
			}
			some, err := v.Steps(background, 1, 2)
			require.NoError(t, err)
			assert.Equal(t, steps[:2], some)
			_, err = v.Changes(background, 1, v.Seq()+1)
			typed(t, err, "seq/unknown")
			return nil
		}))
	}
}

// WS-163: one who waits for a transaction is woken by it, also if it is
// committed before the wait begins, and not by an earlier one.
func TestCommitted(t *testing.T) {
	s := open(t, create(t, id.B3))
	woken := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	before := s.Committed(1)
	assert.False(t, woken(before))
	assert.True(t, woken(s.Committed(0)), "the first transaction is that of the store itself")
	_, seq := put(t, s.Store, "a")
	assert.True(t, woken(before))
	assert.True(t, woken(s.Committed(seq-1)))
	later := s.Committed(seq)
	_, again := put(t, s.Store, "a")
	assert.Equal(t, seq, again, "nothing is written")
	assert.False(t, woken(later))
	_, err := s.Update(background, "tester", func(*Tx) error { return contract.Errorf("input/invalid", "no") })
	require.Error(t, err)
	assert.False(t, woken(later))
}

// WS-170: a new store is valid with a clock that moves: index and log have the
// same times.
func TestNewStoreIsValid(t *testing.T) {
	now := int64(0)
	s := open(t, create(t, id.B3), func(o *Options) { o.Now = func() int64 { now++; return now } })
	put(t, s.Store, "a")
	report, err := s.Validate(background, Check{Level: Full})
	require.NoError(t, err)
	assert.True(t, report.Valid, "%v", report.Errors)
}

// WS-025, WS-047: a caller that gives up while it waits for another transaction
// returns at once, and its transaction is not run. One that has begun ends when
// the context does.
func TestCanceledWhileWaiting(t *testing.T) {
	s := open(t, create(t, id.B3))
	running, goOn := make(chan struct{}), make(chan struct{})
	first := make(chan error)
	go func() {
		_, err := s.Update(background, "a", func(tx *Tx) error {
			close(running)
			<-goOn
			_, err := tx.PutContent([]byte("a"))
			return err
		})
		first <- err
	}()
	<-running
	ctx, cancel := context.WithCancel(background)
	queued := make(chan struct{})
	go func() {
		for len(s.queue) == 0 {
			runtime.Gosched()
		}
		close(queued)
		cancel()
	}()
	ran := false
	_, err := s.Update(ctx, "b", func(*Tx) error { ran = true; return nil })
	typed(t, err, "canceled")
	<-queued
	close(goOn)
	require.NoError(t, <-first)
	_, seq := put(t, s.Store, "c")
	assert.Equal(t, uint64(3), seq)
	assert.False(t, ran)

	ctx, cancel = context.WithCancel(background)
	_, err = s.Update(ctx, "d", func(tx *Tx) error {
		_, err := tx.PutContent([]byte("d"))
		cancel()
		<-tx.Context().Done()
		return err
	})
	typed(t, err, "canceled")
	_, seq = put(t, s.Store, "e")
	assert.Equal(t, uint64(4), seq, "nothing of it is there")
}

// WS-025: a canceled scan of one large directory ends between two records, and
// leaves nothing.
func TestCancelWhileATreeIsPut(t *testing.T) {
	s := open(t, create(t, id.B3))
	files := map[string]string{}
	for i := range 3 * maxVersions {
		files[fmt.Sprint("d/f", i)] = "x"
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	_, err := s.Update(ctx, "scan", func(tx *Tx) error {
		changes := tree.Diff(nil, grow(id.B3, files))
		records := encodeVersions(changes)
		assert.Greater(t, len(records), 3, "a large directory has several records")
		cancel()
		<-tx.Context().Done()
		_, err := tx.PutTree(grow(id.B3, files))
		return err
	})
	typed(t, err, "canceled")
	assert.Empty(t, treeAt(t, s.Store, Latest))
	putTree(t, s.Store, grow(id.B3, files))
	assert.Len(t, treeAt(t, s.Store, Latest), 3*maxVersions+2)
}

// WS-022, WS-032: a state knows the rules that its tree follows, and whether the scan
// skipped something. Both are recorded when they change.
func TestScanned(t *testing.T) {
	s := open(t, create(t, id.B3))
	set := func(text string, incomplete bool) uint64 {
		seq, err := s.Update(background, "scan", func(tx *Tx) error {
			return tx.SetScanned(Scanned{Rules: id.B3.Params(text), Incomplete: incomplete})
		})
		require.NoError(t, err)
		return seq
	}
	first := set("a", false)
	assert.Equal(t, first, set("a", false), "nothing is written")
	second := set("b", false)
	third := set("b", true)
	for seq, want := range map[uint64]Scanned{
		1: {}, first: {Rules: id.B3.Params("a")}, second: {Rules: id.B3.Params("b")}, third: {Rules: id.B3.Params("b"), Incomplete: true},
	} {
		require.NoError(t, s.View(background, seq, func(v *Snapshot) error {
			got, err := v.Scanned(background)
			assert.Equal(t, want, got)
			return err
		}))
	}
}
