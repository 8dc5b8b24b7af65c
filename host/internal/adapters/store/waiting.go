package store

import (
	"context"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Records of the host itself on a full disk (JRN-006). Any caller causes some: an operator
// who lists runs, a request without rights. They must neither end the store nor take the
// space that running runs need to finish, so they wait in memory until there is space.

// maxWaiting bounds the records of the host that wait for space.
const maxWaiting = 1024

// waiting holds the records of the host that wait for space, the oldest first. The lock
// is that of the queue.
type waiting struct {
	short   bool // the disk is full: records of the host are kept here, not in the queue
	records []hostItem
	trying  int // records that are queued again and not written yet
	lost    int // records that were too many
}

// shortage is what the caller of a record of the host learns of a full disk.
type shortage struct{ err *contract.Error } // nil: it did not keep the record from being written

// admit tells the callers of records what becomes of these, and returns those that are to
// wait. Records that have waited before are among the maxWaiting already.
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

// setAside makes the records of the host in a batch wait: the disk was full when they were
// written.
func (q *queue) setAside(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.records = append(q.waiting.admit(b.host), q.waiting.records...) // those are later ones
	b.host = nil
	q.holdHost()
}

// setShort makes the records of the host wait.
func (q *queue) setShort() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holdHost()
}

// holdHost makes the records of the host that are queued and all later ones wait. The
// caller holds the lock.
func (q *queue) holdHost() {
	q.waiting.short = true
	if q.next == nil || len(q.next.host) == 0 {
		return
	}
	q.waiting.records = append(q.waiting.records, q.waiting.admit(q.next.host)...)
	q.next.host, q.next.aside = nil, true
	q.notify() // their callers wait for the batch
}

// readmit queues the records that wait, before later ones.
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

// written notes that the records of the host in a batch are on disk.
func (q *queue) written(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range b.host {
		if it.caller == nil {
			q.waiting.trying--
		}
	}
}

// readmit tries again to write the records of the host that wait, unless only the rest of
// the reserve is left. It is called from time to time, not after each commit, because the
// next attempt may fail as well.
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

// writeRecords commits a batch. Without space for it, the records of the host wait and the
// others are tried again: without space for them the store ends.
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

// noRoom returns the error of a change for which the disk has no space.
func (s *Store) noRoom(err error) *contract.Error {
	return contract.Errorf("journal/full", "journal: change %s: %w", s.db.name(), err).
		WithHint("free space on the file system of the journal")
}

// errWaits is the error of a record of the host that waits for space.
func errWaits() *contract.Error {
	return contract.Errorf("journal/full", "journal: the disk is full: the record waits in memory for space")
}

// errDropped is the error of a record of the host that cannot wait for space.
func errDropped() *contract.Error {
	return contract.Errorf("journal/full",
		"journal: the disk is full: the record is dropped, because %d others wait for space", maxWaiting).
		WithHint("free space on the file system of the journal")
}
