package store

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// ahead is what was executed of a batch that nothing waits for yet, in a transaction that
// is open: while a plugin works on a call, the records that led to the call are written,
// and the caller that waits for the batch finds less to do. Only the commit makes them
// durable. Hosts that share a database do not do this: an open transaction of one would
// delay those of the others.
type ahead struct {
	items             int // of the batch, in their order
	counted, reserved counters
	ended             []hostItem // rows of the runs that end in it
}

func newAhead() *ahead { return &ahead{counted: counters{}, reserved: counters{}} }

// pauses reports whether its run appends nothing for a while after a record.
func pauses(rec journal.Record) bool {
	_, ok := rec.Body.(*journal.AttemptStarted)
	return ok
}

// hint makes the writer execute what is queued ahead of its commit.
func (q *queue) hint() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.early = true
	q.signal()
}

// hinted returns the records that are to be executed ahead; nil: none are.
func (q *queue) hinted() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.early {
		return nil
	}
	q.early = false
	return q.next.items[:len(q.next.items):len(q.next.items)]
}

// execute executes the first records of the next batch. An error is left to the batch,
// which executes them again.
func (w *writer) execute(ctx context.Context, items []item) {
	if w.ahead == nil {
		w.touched = w.touched[:0]
		if _, err := w.begin(ctx); err != nil {
			return
		}
		w.ahead = newAhead()
	}
	if err := w.items(ctx, items, w.ahead); err != nil {
		w.rollback(ctx)
		w.undo()
		w.ahead = nil
	}
}
