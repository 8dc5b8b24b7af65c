package store

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Host records on a full disk (JRN-006). Any caller can cause such records, for example an operator
// who lists runs, or a rejected request. They must neither make the store fail nor use the space
// that running runs need to finish, so they wait in memory until there is space.

// maxWaiting is the maximum number of host records that wait for space.
const maxWaiting = 1024

// waiting holds the host records that wait for space, the oldest first. It is guarded by the lock
// of the queue.
type waiting struct {
	short   bool // the disk is full: host records are added here, not to the batch
	records []hostItem
	trying  int // number of records that were queued again but are not written yet
	lost    int // number of records that were dropped
}

// shortage holds the error that the caller of a host record gets if the disk is full.
type shortage struct{ err *contract.Error } // nil: the record was not delayed

// admit sets the errors for the callers of items, and returns the items that should wait; the
// others are dropped. Items that have waited before are always admitted.
func (w *waiting) admit(items []hostItem) (kept []hostItem) {
	for _, it := range items {
		switch {
		case it.caller == nil:
			w.trying--
		case len(w.records)+w.trying+len(kept) >= maxWaiting:
			it.caller.err = errDropped()
			w.lost++
			continue
		default:
			it.caller.err = errWaits()
		}
		it.caller = nil
		kept = append(kept, it)
	}
	return kept
}

// Waiting returns the number of host records that wait in memory for disk space, and the number of
// those dropped since the store was opened because maxWaiting others waited.
func (s *Store) Waiting() (records, lost int) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting.records) + s.queue.waiting.trying, s.queue.waiting.lost
}

// Short reports whether the disk was full, so that host records now wait in memory.
func (s *Store) Short() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.waiting.short
}

// setAside moves the host records of a batch to the waiting ones, after the disk was full when the
// batch was written.
func (q *queue) setAside(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.records = append(q.waiting.admit(b.host), q.waiting.records...) // the records that already wait are newer
	b.host = nil
	q.holdHost()
}

// setShort makes host records wait from now on.
func (q *queue) setShort() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holdHost()
}

// holdHost makes the queued host records and all later ones wait. The caller holds the lock.
func (q *queue) holdHost() {
	q.waiting.short = true
	if q.next == nil || len(q.next.host) == 0 {
		return
	}
	q.waiting.records = append(q.waiting.records, q.waiting.admit(q.next.host)...)
	q.next.host, q.next.aside = nil, true
	q.notify() // their callers wait for the batch
}

// readmit moves the waiting records back into the batch, before newer ones.
func (q *queue) readmit() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.waiting.short || q.err != nil {
		return
	}
	q.next.host = append(q.waiting.records, q.next.host...)
	q.waiting = waiting{trying: len(q.waiting.records), lost: q.waiting.lost}
	q.notify()
}

// written updates the counts after the host records of a batch were written.
func (q *queue) written(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range b.host {
		if it.caller == nil {
			q.waiting.trying--
		}
	}
}

// readmit tries to write the waiting host records again, unless free space is low and the reserve
// is released. It is called periodically, not after each commit, because the attempt may fail
// again.
func (s *Store) readmit() {
	if s.reserve == nil || !s.Full() || s.reserve.holds() {
		s.queue.readmit()
	}
}

func (r *reserve) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// writeRecords commits a batch. If the disk is full, it sets the host records aside and commits the
// others again. If that fails too, the error makes the store fail.
func (w *writer) writeRecords(ctx context.Context, b *batch) error {
	write := func(ctx context.Context) error { return w.records(ctx, b) }
	err := w.transaction(ctx, write)
	if len(b.host) == 0 || !isFull(err) {
		return err
	}
	w.undo()
	w.s.queue.setAside(b)
	if b.idle() {
		return nil
	}
	return w.transaction(ctx, write)
}

// noRoom returns a journal/full error for a change of the database.
func (s *Store) noRoom(err error) *contract.Error {
	return contract.Errorf("journal/full", "journal: change %s: %w", s.db.name(), err).
		WithHint("free space on the file system of the journal")
}

// errWaits returns the error for a host record that waits for space.
func errWaits() *contract.Error {
	return contract.Errorf("journal/full", "journal: the disk is full: the record waits in memory for space")
}

// errDropped returns the error for a host record that was dropped.
func errDropped() *contract.Error {
	return contract.Errorf("journal/full",
		"journal: the disk is full: the record is dropped, because %d others wait for space", maxWaiting).
		WithHint("free space on the file system of the journal")
}
