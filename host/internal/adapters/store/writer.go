package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Limits of a record and of a run.
const (
	maxRecord  = 4 << 20 // bytes of a record; the details of errors and warnings are part of it
	maxRecords = 100_000
	// closingRecords of them are for the records with which a run ends.
	closingRecords = 1_000
)

// writer owns the writing connection. Its methods run in the goroutine of its loop.
type writer struct {
	s       *Store
	sql     *statements
	lastRun int64
	lastN   int64            // number of the last stored value
	known   map[sum]location // cache of the locations of values that are stored
	stored  int              // bytes added by the current transaction
	touched []*liveRun       // runs changed by the current transaction
	term    int64            // term of the reservations of this host
	host    hostEnd          // end of the host stream
	commits int64            // number of transactions, for tests
	// Batches since keepUp was last woken, and their bytes.
	unseenBatches, unseenBytes int

	ahead *ahead // the part of the next batch that was executed early; nil: none
}

// location is the number of a stored value and of the run that stored it first.
type location struct{ n, owner int64 }

// maxKnown is the maximum number of values in known.
const maxKnown = 1 << 16

func newWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{s: s, sql: s.write, known: map[sum]location{}}
	if err := w.sql.one(ctx, "last_run", nil, []any{&w.lastRun}); err != nil {
		return nil, err
	}
	return w, w.sql.one(ctx, "last_content", nil, []any{&w.lastN})
}

// loop commits batches until the store is closed, then the remaining work.
func (w *writer) loop() {
	defer w.s.done.Done()
	for {
		b := w.s.queue.take(false)
		if b != nil {
			w.batch(b)
			continue
		}
		if items := w.s.queue.hinted(); len(items) > 0 {
			w.execute(context.Background(), items)
			continue
		}
		select {
		case <-w.s.queue.wake:
		case <-w.s.failed:
			return
		case <-w.s.stop:
			w.s.queue.readmit() // a last time
			if b := w.s.queue.take(true); b != nil {
				w.batch(b)
			}
			return
		}
	}
}

// batch commits a batch and wakes its waiters. Then it executes its jobs, each in its own
// transaction.
func (w *writer) batch(b *batch) {
	ctx := context.Background()
	if !b.idle() {
		begun := time.Now()
		err := w.writeRecords(ctx, b)
		if n := b.records(); err == nil && n > 0 {
			w.s.queue.learn(w.stored, n)
			if w.s.opts.Committed != nil {
				w.s.opts.Committed(n, w.stored, time.Since(begun))
			}
		}
		w.settle(b, err)
	} else {
		b.finish(nil)
	}
	for _, j := range b.jobs {
		if err := w.s.Err(); err != nil {
			j.finish(unwritten(err))
			continue
		}
		j.finish(j.do(ctx))
	}
	w.noteBatch(b)
}

// settle publishes the records of a committed batch to readers. If err is not nil, it makes the
// store fail.
func (w *writer) settle(b *batch, err error) {
	if err != nil {
		w.s.fail(err)
		b.finish(unwritten(err))
		return
	}
	for _, r := range w.touched {
		w.s.memory.Show(r.id, r.row.Records)
	}
	w.observe(b)
	if len(b.host)+len(b.ended) > 0 {
		w.s.queue.written(b)
		w.s.wakeHost(nil)
	}
	b.finish(nil)
	for _, r := range w.touched {
		w.s.settleDrop(r, b)
	}
}

// observe calls the observer with the records of a batch before the waiting callers are woken, so
// that an answer is counted when it is returned. Records of a run from the first one that could not
// be written on are omitted.
func (w *writer) observe(b *batch) {
	if w.s.opts.Observer == nil {
		return
	}
	for _, it := range b.items {
		id := it.run.id
		if it.rec.Seq > it.run.row.Records {
			continue
		}
		w.s.opts.Observer.Observe(it.rec, func() []journal.Record {
			records, _ := w.s.memory.Records(id) // a live run is in memory
			return records
		})
	}
	for _, it := range b.host {
		w.s.opts.Observer.Observe(it.rec, nil)
	}
}

// transaction runs do in a transaction, and repeats it as the database requires. After a
// *contract.Error it is rolled back; the caller must make the store fail on any other error.
func (w *writer) transaction(ctx context.Context, do func(ctx context.Context) error) error {
	if w.ahead == nil {
		w.touched = w.touched[:0]
	}
	for {
		err := w.attempt(ctx, do)
		var refused *contract.Error
		if err == nil || errors.As(err, &refused) || !w.s.db.again(ctx, w, err) {
			return err
		}
	}
}

// attempt executes a transaction once. If it is not committed, its changes in memory are undone.
func (w *writer) attempt(ctx context.Context, do func(ctx context.Context) error) error {
	if w.ahead == nil {
		if done, err := w.begin(ctx); err != nil || done {
			return err
		}
	}
	err := do(ctx)
	w.ahead = nil
	if err == nil {
		err = w.s.opts.Faults.at("commit")
	}
	if err == nil {
		err = w.s.db.commit(ctx, w)
	}
	if err != nil {
		w.rollback(ctx)
		return err
	}
	w.commits++
	return nil
}

// begin begins a transaction. done reports that the previous transaction was committed and must not
// be executed again; no transaction is open then.
func (w *writer) begin(ctx context.Context) (done bool, err error) {
	if err := w.s.opts.Faults.at("begin"); err != nil {
		return false, err
	}
	done, err = w.s.db.begin(ctx, w)
	if err != nil || done {
		_, _ = w.sql.exec(ctx, "rollback")
		return done, err
	}
	w.stored = 0
	w.undo()
	return false, nil
}

// undo reverts the changes that the current transaction made in memory.
func (w *writer) undo() {
	for _, r := range w.touched {
		r.undo()
	}
	w.touched = w.touched[:0]
}

func (w *writer) rollback(ctx context.Context) {
	_, _ = w.sql.exec(ctx, "rollback")
	clear(w.known)
	w.host.known = false
}

// records writes the records of a batch, the rows of their runs, and the counters of budgets.
func (w *writer) records(ctx context.Context, b *batch) error {
	part := w.ahead
	if part == nil {
		part = newAhead()
	}
	for _, c := range b.changes {
		if c.Term != w.term { // the reservations of that term were dropped
			c.Reserved, c.Released = policy.Amounts{}, policy.Amounts{}
		}
		part.reserved.add([]budget.Window{c.Window}, budget.Counter{Reserved: c.Reserved, Released: c.Released})
		if !c.Used.IsZero() || !c.Granted.IsZero() || w.s.shared == nil {
			part.counted.add([]budget.Window{c.Window}, c)
		}
	}
	if err := w.items(ctx, b.items, part); err != nil {
		return err
	}
	b.ended = part.ended
	if err := w.hostRecords(ctx, b); err != nil {
		return err
	}
	for _, r := range w.touched {
		r.touched = false
		if r.row.Records == 0 {
			continue // its first record was rejected
		}
		if err := w.saveRun(ctx, &r.row, r.saved); err != nil {
			return err
		}
		r.saved = r.row.State
	}
	if err := w.saveCounters(ctx, part.counted); err != nil || w.s.shared == nil {
		return err
	}
	return w.saveReserved(ctx, part.reserved, b.asks)
}

// items writes the records of a batch that part does not include yet. A record that cannot be
// written breaks its run, not the batch.
func (w *writer) items(ctx context.Context, items []item, part *ahead) error {
	for _, it := range items[part.items:] {
		part.items++
		r := it.run
		if r.broken {
			continue
		}
		if !r.touched {
			r.touch()
			w.touched = append(w.touched, r)
		}
		before := w.stored
		err := w.record(ctx, it)
		var refused *contract.Error
		switch {
		case errors.As(err, &refused):
			r.broken = true
			w.s.breakRun(r, refused)
		case err != nil:
			return err
		default:
			part.counted.apply(it.rec, r.row.Principal)
			part.reserved.release(it.rec, r.row.Principal)
			if err := w.addTurns(ctx, it.rec); err != nil {
				return err
			}
			if row, ok := w.s.endOf(it.rec); ok {
				part.ended = append(part.ended, row)
			}
		}
		r.row.bytes += int64(w.stored - before)
	}
	return nil
}

// record appends one record to its run and stores the values that it refers to.
func (w *writer) record(ctx context.Context, it item) error {
	r, rec := it.run, it.rec
	if r.row.n == 0 {
		if err := w.newRun(ctx, r, rec); err != nil {
			return err
		}
	}
	err := w.reopen(ctx, r, rec)
	rec.Refs(func(ref journal.Ref) {
		if err == nil {
			_, err = w.put(ctx, ref.Value(), r.row.n)
		}
	})
	if err != nil {
		return err
	}
	r.row.apply(rec, chained(r.row.chain, it.body))
	return w.addRecord(ctx, &r.row, it.body)
}

// reopen checks that a run that is being reopened was not purged or removed in the meantime.
func (w *writer) reopen(ctx context.Context, r *liveRun, rec journal.Record) error {
	if resumed, ok := rec.Body.(*journal.RunResumed); !ok || !resumed.Reopens() || !r.row.Ended() {
		return nil
	}
	row, err := readRun(ctx, w.sql, r.id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		row = r.row
	case err != nil:
		return err
	}
	row.State = r.row.State // the last record of the run may not be in the database yet
	return row.reopenable()
}

func (w *writer) addRecord(ctx context.Context, row *runRow, body []byte) error {
	w.stored += len(body) + len(row.chain)
	_, err := w.sql.exec(ctx, "add_record", row.n, row.Records, row.chain, body)
	return err
}

// chained returns the chain value of a record.
func chained(previous sum, body []byte) sum {
	return blake3.Sum256(append(append(make([]byte, 0, 32+len(body)), previous[:]...), body...))
}

// ErrRecorded is wrapped by the error for a new run whose id is already in the database.
var ErrRecorded = errors.New("the run was already recorded")

// newRun assigns a number to a run whose first record is first. The error wraps ErrRecorded if its
// id is already stored.
func (w *writer) newRun(ctx context.Context, r *liveRun, first journal.Record) error {
	switch _, err := readRun(ctx, w.sql, r.id); {
	case err == nil:
		return contract.Errorf("journal/fenced", "journal: append to %s: %w", r.id, ErrRecorded)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if accepted, ok := first.Body.(*journal.RunAccepted); ok {
		if err := w.checkAccepted(ctx, r.id, accepted); err != nil {
			return err
		}
	}
	w.lastRun++
	r.row = runRow{n: w.lastRun, Run: Run{ID: r.id, State: stateOpen}}
	return nil
}

// checkAccepted rejects a run whose summary cannot be stored, or whose idempotency key belongs to
// another run.
func (w *writer) checkAccepted(ctx context.Context, id string, accepted *journal.RunAccepted) error {
	if err := w.s.db.admit([]any{id, accepted.Intent, accepted.Principal, accepted.Tenant}); err != nil || accepted.Key == "" {
		return err
	}
	var run string
	switch err := w.sql.one(ctx, "run_by_key", []any{accepted.Key}, []any{&run}); {
	case err == nil:
		return contract.Errorf("journal/fenced", "journal: append to %s: %w: %s", id, act.ErrKeyTaken, run)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	return nil
}

// saveRun writes the row of a run. was is its state in the database; empty: the row does not exist.
func (w *writer) saveRun(ctx context.Context, row *runRow, was string) error {
	var err error
	switch {
	case was == "":
		_, err = w.sql.exec(ctx, "add_run", row.n, row.ID, row.State, row.Epoch, row.Records, row.chain, row.bytes,
			nanos(row.Accepted), nanos(row.Finished), row.Latency, row.Intent, row.Principal, row.Cost, row.Error, row.key,
			row.Imported, row.Pinned, nanos(row.Purged), nanos(row.Removed))
		if err == nil && row.session != "" {
			_, err = w.sql.exec(ctx, "add_run_session", row.session, row.n)
		}
		if err == nil && row.tenant != "" {
			_, err = w.sql.exec(ctx, "add_run_tenant", row.tenant, row.n)
		}
	case row.State == stateOpen && was == stateOpen:
		_, err = w.sql.exec(ctx, "set_run", row.n, row.Epoch, row.Records, row.chain, row.bytes)
	default:
		_, err = w.sql.exec(ctx, "finish_run", row.n, row.Epoch, row.Records, row.chain, row.bytes, row.State,
			nanos(row.Finished), row.Latency, row.Cost, row.Error)
	}
	return err
}
