package store

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// ahead is the part of the next batch that the writer has executed early, in a transaction that is
// still open. While a plugin works on a call, the writer executes the records that led to the call,
// so the caller that later waits for the batch waits less. Only the commit makes them durable.
// Hosts that share a database do not do this: the open transaction of one would delay the others.
type ahead struct {
	items             int // of the batch: the first ones are executed
	counted, reserved counters
	ended             []hostItem // rows of the runs that end in these items
}

func newAhead() *ahead { return &ahead{counted: counters{}, reserved: counters{}} }

// pauses reports whether the run of rec appends nothing for a while after it, because it waits for
// a plugin.
func pauses(rec journal.Record) bool {
	_, ok := rec.Body.(*journal.AttemptStarted)
	return ok
}

// hint makes the writer execute the queued records before their commit is due.
func (q *queue) hint() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.early = true
	q.signal()
}

// hinted returns the queued records if a hint asked to execute them early, else nil.
func (q *queue) hinted() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.early {
		return nil
	}
	q.early = false
	return q.next.items[:len(q.next.items):len(q.next.items)]
}

// execute executes the first records of the next batch in an open transaction. After an error it
// rolls back; the commit of the batch then executes all records again and returns the error.
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
