package log

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-047: after a failed write the log is as before, and the next one succeeds.
func TestFailedWrites(t *testing.T) {
	for _, op := range []string{OpWrite, OpCreate} {
		for after := range 4 {
			t.Run(fmt.Sprint(op, after), func(t *testing.T) {
				w := newWorld(t)
				r := rand.New(rand.NewPCG(uint64(after), 47))
				l, _, _ := w.open()
				kept := w.fill(l, r, 2)
				before := w.files()
				left := after
				l.o.Faults.Before = func(at string) error {
					if at != op {
						return nil
					}
					if left--; left >= 0 {
						return nil
					}
					return &Partial{Bytes: r.IntN(200), Err: unix.ENOSPC}
				}
				for { // until the batch is large enough to fail
					n := total(w.files())
					done, err := l.Append(slices.Concat(drafts(r), drafts(r), drafts(r))...)
					if err == nil {
						kept = append(kept, done...)
						before = w.files()
						continue
					}
					typed(t, err, "store/io")
					require.ErrorIs(t, err, unix.ENOSPC)
					assert.True(t, contract.AsError(err).Retryable)
					require.Equal(t, n, total(w.files()))
					break
				}
				require.Equal(t, before, w.files(), "no trace")
				l.o.Faults.Before = nil
				kept = append(kept, w.fill(l, r, 2)...)
				_, replayed, damage := w.open()
				require.Nil(t, damage)
				require.Equal(t, kept, replayed)
			})
		}
	}
}

// WS-047: after a failed fsync nothing is written until the log is opened again.
// What was acknowledged before is there then.
func TestFailedSync(t *testing.T) {
	for _, op := range []string{OpSync, OpSyncDir} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			r := rand.New(rand.NewPCG(1, 48))
			l, _, _ := w.open()
			kept := w.fill(l, r, 2)
			l.o.Faults.Before = func(at string) error {
				if at == op {
					return unix.EIO
				}
				return nil
			}
			var err error
			for err == nil {
				var done []Transaction
				done, err = l.Append(drafts(r)...)
				kept = append(kept, done...)
			}
			typed(t, err, "store/io")
			l.o.Faults.Before = nil
			_, err = l.Append(drafts(r)...)
			typed(t, err, "store/read-only")
			require.NoError(t, l.Close())
			w.known = kept[len(kept)-1].Commit.Seq
			l, replayed, damage := w.open()
			require.Nil(t, damage)
			require.Equal(t, kept, replayed[:len(kept)])
			w.fill(l, r, 1)
		})
	}
}

// A log that cannot be cut back after a failed write takes no more writes: its
// end is unknown.
func TestFailedCut(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 49))
	l, _, _ := w.open()
	kept := w.fill(l, r, 2)
	l.o.Faults.Before = func(op string) error {
		if op == OpWrite || op == OpTruncate {
			return &Partial{Bytes: 50, Err: unix.EIO}
		}
		return nil
	}
	_, err := l.Append(drafts(r)...)
	typed(t, err, "store/io")
	_, err = l.Append(drafts(r)...)
	typed(t, err, "store/read-only")
	_, replayed, damage := w.open()
	require.Nil(t, damage)
	require.Equal(t, kept, replayed)
}

// WS-043: power loss. A disk that keeps what was synchronized and any part of
// what was not, sector by sector, never loses an acknowledged transaction, and
// recovery never mistakes an unacknowledged batch for damage.
func TestPowerLoss(t *testing.T) {
	for seed := range proof.Size(t, "losses of power", 50, 5000) {
		r := rand.New(rand.NewPCG(uint64(seed), 43))
		w := newWorld(t)
		l, _, _ := w.open()
		var acknowledged []Transaction
		for range r.IntN(4) {
			acknowledged = append(acknowledged, w.fill(l, r, 1)...)
		}
		disk := w.files() // what is durable
		// The next batch is written and not synchronized.
		l.o.Faults.Before = func(op string) error {
			if op == OpSync {
				return unix.EIO
			}
			return nil
		}
		batch := drafts(r)
		_, err := l.Append(batch...)
		require.Error(t, err)
		require.NoError(t, l.Close())
		lost := map[string][]byte{}
		for name, b := range w.files() {
			durable, inDirectory := disk[name]
			if !inDirectory && r.IntN(3) == 0 {
				continue // the directory was not synchronized either
			}
			b = b[:len(durable)+r.IntN(len(b)-len(durable)+1)]
			for at := len(durable); at < len(b); at += 64 {
				if r.IntN(3) == 0 {
					clear(b[at:min(at+64, len(b))])
				}
			}
			lost[name] = b
		}
		w.restore(lost)
		if len(acknowledged) > 0 {
			w.known = acknowledged[len(acknowledged)-1].Commit.Seq
		}
		l, replayed, damage := w.open()
		require.Nil(t, damage, "seed %d", seed)
		require.GreaterOrEqual(t, len(replayed), len(acknowledged))
		require.Equal(t, acknowledged, slices.Concat([]Transaction(nil), replayed[:len(acknowledged)]))
		require.LessOrEqual(t, len(replayed), len(acknowledged)+len(batch))
		w.fill(l, r, 1)
		_, damage, err = Verify(w.dir, id.BLAKE3, func(*Transaction) error { return nil })
		require.NoError(t, err)
		require.Nil(t, damage)
	}
}

// WS-252: one fsync for a batch, two if it begins a segment.
func TestSyncsPerBatch(t *testing.T) {
	w := newWorld(t)
	syncs := map[string]int{}
	w.hooks.Before = func(op string) error {
		syncs[op]++
		return nil
	}
	w.size = SegmentSize
	l, _, _ := w.open()
	w.fill(l, rand.New(rand.NewPCG(1, 1)), 10)
	assert.Equal(t, 10, syncs[OpSync])
	assert.Equal(t, 1, syncs[OpSyncDir])
}
