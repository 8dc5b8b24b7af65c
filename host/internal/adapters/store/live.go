package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// liveRun is a run that this process appends to.
type liveRun struct {
	id  string
	log journal.Journal // the records of the run in memory

	// Guarded by the lock of the queue.
	last    *batch          // the batch with the last record
	fault   *contract.Error // set if a record could not be written; the error of later appends
	dropped bool

	mu    sync.Mutex // of appends
	epoch int        // of the last appended record

	// Of the writer.
	rowState
	before  rowState // the state before the current transaction
	touched bool     // changed by the current transaction
	broken  bool
}

// rowState is the row of a run as the writer last read or wrote it.
type rowState struct {
	row   runRow
	saved string // state of the row in the database; empty: the row does not exist
}

func (r *liveRun) touch() { r.before, r.touched = r.rowState, true }

// undo restores the state from before a transaction that was rolled back.
func (r *liveRun) undo() { r.rowState, r.touched = r.before, false }

// Append implements journal.Journal. It returns when the record is queued; Sync
// waits until it is durable.
func (s *Store) Append(ctx context.Context, rec journal.Record) error {
	return (&runLog{s: s, id: rec.Run}).Append(ctx, rec)
}

// Open implements journal.Opener.
func (s *Store) Open(run string) journal.Journal { return &runLog{s: s, id: run} }

// runLog appends to one run.
type runLog struct {
	s   *Store
	id  string
	run *liveRun
}

var _ journal.Syncer = (*runLog)(nil)

// Append implements journal.Journal.
func (l *runLog) Append(ctx context.Context, rec journal.Record) error {
	if err := rec.Check(); err != nil {
		return err
	}
	if err := l.s.Err(); err != nil {
		return unwritten(err)
	}
	if l.run == nil {
		run, err := l.s.runFor(ctx, rec)
		if err != nil {
			return err
		}
		l.run = run
	}
	return l.s.append(ctx, l.run, rec)
}

// Sync implements journal.Syncer.
func (l *runLog) Sync(ctx context.Context, run string) error { return l.s.Sync(ctx, run) }

func (s *Store) append(ctx context.Context, run *liveRun, rec journal.Record) error {
	run.mu.Lock()
	defer run.mu.Unlock()
	if rec.Epoch < run.epoch {
		return contract.Errorf("journal/fenced", "journal: append to %s: epoch %d of the caller is older than epoch %d of the run",
			run.id, rec.Epoch, run.epoch)
	}
	it := newItem(run, rec)
	if err := it.check(); err != nil {
		return err
	}
	if err := run.log.Append(ctx, rec); err != nil {
		return err
	}
	run.epoch = rec.Epoch
	err := s.queue.add(ctx, it)
	if err == nil && s.shared == nil && pauses(rec) {
		s.queue.hint()
	}
	return err
}

// runFor returns the live run of a record. A run that an earlier process left open is read back and
// continued. The error is journal/full for the first record of a run while space is low, and
// run/not-resumable for a finished run.
func (s *Store) runFor(ctx context.Context, rec journal.Record) (*liveRun, error) {
	if run := s.liveRun(rec.Run); run != nil {
		return run, nil
	}
	if rec.Seq > 1 {
		resumed, ok := rec.Body.(*journal.RunResumed)
		run, err := s.revive(ctx, rec.Run, ok && resumed.Reopens())
		if err == nil || !errors.Is(err, sql.ErrNoRows) {
			return run, err
		}
	} else if s.Full() {
		return nil, contract.Errorf("journal/full", "journal: append to %s: free space of %s is below %d bytes", rec.Run,
			s.db.name(), s.limits.Load().MinFree)
	}
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	return s.addLive(rec.Run), nil
}

// addLive makes a run live and returns it. The caller holds liveMu.
func (s *Store) addLive(id string) *liveRun {
	run := s.live[id]
	if run == nil {
		run = &liveRun{id: id, log: s.memory.Open(id)}
		s.live[id] = run
	}
	return run
}

func (s *Store) liveRun(id string) *liveRun {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	return s.live[id]
}

// revive makes a run live whose records are in the database. A finished run is revived only if
// reopens is set.
func (s *Store) revive(ctx context.Context, id string, reopens bool) (*liveRun, error) {
	row, err := readRun(ctx, s.read, id)
	if err != nil {
		return nil, err
	}
	switch {
	case !row.Ended():
	case !reopens:
		return nil, contract.Errorf("run/not-resumable", "journal: append to %s: the run is finished", id)
	default:
		if err := row.reopenable(); err != nil {
			return nil, err
		}
	}
	if row, err = s.claim(ctx, row); err != nil {
		return nil, err
	}
	records, err := s.Read(ctx, id, 0, maxRecords)
	if err != nil {
		return nil, err
	}
	return s.enliven(ctx, row, records)
}

// enliven makes a run live whose row and records were read. The error is journal/fenced if the host
// lost the run in between: the writer breaks only lost runs that are live already.
func (s *Store) enliven(ctx context.Context, row runRow, records []journal.Record) (*liveRun, error) {
	id := row.ID
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	if run := s.live[id]; run != nil {
		return run, nil
	}
	if mine, err := s.owns(ctx, row); err != nil {
		return nil, err
	} else if !mine {
		return nil, takenOver(id)
	}
	run := s.addLive(id)
	for _, rec := range records {
		if err := run.log.Append(ctx, rec); err != nil {
			delete(s.live, id)
			s.memory.Drop(id)
			return nil, err
		}
	}
	s.memory.Show(id, len(records))
	run.row, run.saved, run.epoch = row, row.State, row.Epoch
	return run, nil
}

// Sync implements journal.Syncer. For a run that is not in memory it returns nil at once.
func (s *Store) Sync(ctx context.Context, run string) error {
	if r := s.liveRun(run); r != nil {
		return s.sync(ctx, r)
	}
	return nil
}

func (s *Store) sync(ctx context.Context, r *liveRun) error {
	last := s.queue.await(r)
	if last == nil {
		return nil
	}
	select {
	case <-last.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if last.err != nil {
		return last.err
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if r.fault != nil {
		return r.fault
	}
	return nil
}

// breakRun makes later appends to a run fail with err, because one of its records cannot be
// written.
func (s *Store) breakRun(r *liveRun, err *contract.Error) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	r.fault = err
}

// Records implements act.Journal. For a live run it returns all records, durable or not. For a
// stored run it also verifies that no record is missing and that the values are as they were
// stored. An unknown run has no records and no error.
func (s *Store) Records(run string) ([]journal.Record, error) {
	if s.liveRun(run) != nil {
		return s.memory.Records(run)
	}
	ctx := context.Background()
	row, err := readRun(ctx, s.read, run)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	records, err := s.Read(ctx, run, 0, maxRecords)
	for i, rec := range records {
		if rec.Seq != i+1 && err == nil {
			err = &Damage{Run: run, Seq: i + 1, What: "the record is missing"}
		}
	}
	if len(records) < row.Records && err == nil {
		err = &Damage{Run: run, Seq: len(records) + 1, What: "the record is missing"}
	}
	seen := map[string]bool{}
	for i := 0; i < len(records) && err == nil; i++ { // a Ref returns nil for an unreadable value
		err = s.verifyValues(ctx, row, records[i], seen)
	}
	return records, err
}

// Follow implements journal.Source. The records of a live run are delivered as they become durable.
func (s *Store) Follow(run string, seq int) *journal.Cursor {
	if c := s.followLive(run, seq); c != nil {
		return c
	}
	row, err := readRun(context.Background(), s.read, run)
	if err == nil && row.State == stateOpen {
		mine, err := s.owns(context.Background(), row)
		if err != nil {
			return journal.Unreadable(err)
		}
		if !mine {
			return s.followOther(run, seq)
		}
	}
	if err == nil && row.State == stateOpen {
		if _, err = s.revive(context.Background(), run, false); err == nil {
			if c := s.followLive(run, seq); c != nil {
				return c
			}
		}
		var failed error
		if row, failed = readRun(context.Background(), s.read, run); failed != nil || row.State != stateOpen {
			err = failed // the run has finished in between
		}
	}
	switch {
	case errors.Is(err, sql.ErrNoRows): // not recorded yet: wait for its first record
		return s.memory.Follow(run, seq)
	case err == nil && row.State != stateOpen:
		var records []journal.Record
		if records, err = s.Records(run); err == nil {
			return journal.Recorded(records[min(max(0, seq), len(records)):])
		}
	case err == nil:
		return s.memory.Follow(run, seq)
	}
	return journal.Unreadable(err)
}

// followLive returns a cursor on a live run, nil if the run is not live. It holds the lock so that
// Drop cannot remove the run in between: a cursor on a run that is not in memory would wait
// forever.
func (s *Store) followLive(run string, seq int) *journal.Cursor {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	if s.live[run] == nil {
		return nil
	}
	return s.memory.Follow(run, seq)
}

// Drop implements act.Journal: it removes a run from memory, at the latest when its queued records
// are durable.
func (s *Store) Drop(run string) {
	s.liveMu.Lock()
	r := s.live[run]
	delete(s.live, run)
	s.liveMu.Unlock()
	if r == nil {
		s.memory.Drop(run)
		return
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if r.last != nil && !r.last.finished() {
		r.dropped = true
		return
	}
	s.memory.Drop(run)
}

// settleDrop removes a dropped run from memory if b was its last batch.
func (s *Store) settleDrop(r *liveRun, b *batch) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if r.dropped && r.last == b {
		s.memory.Drop(r.id)
	}
}

func (b *batch) finished() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}
