package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of a run.
const (
	maxRecord  = 4 << 20 // details of errors and warnings are in the record itself
	maxRecords = 100_000
)

// writer owns the writing connection.
type writer struct {
	s       *Store
	sql     *statements
	lastRun int64
	lastN   int64            // of content
	known   map[sum]location // values that are stored for certain
	stored  int              // bytes that the current transaction added
	touched []*liveRun       // runs of the current batch
	term    int64            // of what this host has reserved
	commits int64            // transactions so far, for tests
}

// location is where a value is.
type location struct{ n, owner int64 }

// maxKnown bounds the memory of known.
const maxKnown = 1 << 16

func newWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{s: s, sql: s.write, known: map[sum]location{}}
	if err := w.sql.one(ctx, "last_run", nil, []any{&w.lastRun}); err != nil {
		return nil, err
	}
	return w, w.sql.one(ctx, "last_content", nil, []any{&w.lastN})
}

// loop commits what is queued until the store stops, then what is left.
func (w *writer) loop() {
	defer w.s.done.Done()
	for {
		b := w.s.queue.take(false)
		if b != nil {
			w.batch(b)
			continue
		}
		select {
		case <-w.s.queue.wake:
		case <-w.s.failed:
			return
		case <-w.s.stop:
			if b := w.s.queue.take(true); b != nil {
				w.batch(b)
			}
			return
		}
	}
}

// batch commits a batch and wakes its waiters. Its jobs follow, each in a
// transaction of its own.
func (w *writer) batch(b *batch) {
	ctx := context.Background()
	if !b.idle() {
		err := w.transaction(ctx, func(ctx context.Context) error { return w.records(ctx, b) })
		if err == nil && len(b.items) > 0 {
			w.s.queue.learn(w.stored, len(b.items))
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
	select {
	case w.s.upkeep <- struct{}{}:
	default:
	}
}

// settle shows the records of a batch to their readers, or ends the store.
func (w *writer) settle(b *batch, err error) {
	if err != nil {
		w.s.fail(err)
		b.finish(unwritten(err))
		return
	}
	for _, r := range w.touched {
		w.s.memory.Show(r.id, r.row.Records)
	}
	b.finish(nil)
	for _, r := range w.touched {
		w.s.settleDrop(r, b)
	}
}

// transaction runs do in a transaction. An error of type *contract.Error rolls
// it back; any other error ends the store.
func (w *writer) transaction(ctx context.Context, do func(ctx context.Context) error) error {
	w.touched = w.touched[:0]
	for {
		err := w.attempt(ctx, do)
		var refused *contract.Error
		if err == nil || errors.As(err, &refused) || !w.s.db.again(ctx, w, err) {
			return err
		}
	}
}

// attempt executes a transaction once. What an earlier attempt has changed in memory
// stays only if that was committed.
func (w *writer) attempt(ctx context.Context, do func(ctx context.Context) error) error {
	if err := w.s.opts.Faults.at("begin"); err != nil {
		return err
	}
	done, err := w.s.db.begin(ctx, w)
	if err != nil || done {
		_, _ = w.sql.exec(ctx, "rollback")
		return err
	}
	w.stored = 0
	for _, r := range w.touched {
		r.undo()
	}
	w.touched = w.touched[:0]
	if err = do(ctx); err == nil {
		err = w.s.opts.Faults.at("commit")
	}
	if err == nil {
		err = w.s.db.commit(ctx, w)
	}
	if err != nil {
		_, _ = w.sql.exec(ctx, "rollback")
		clear(w.known)
		return err
	}
	w.commits++
	return nil
}

// records writes the records of a batch, the rows of their runs and the counters
// of budgets. A record that cannot be written ends its run, not the batch.
func (w *writer) records(ctx context.Context, b *batch) error {
	counted, reserved := counters{}, counters{}
	for _, c := range b.changes {
		if c.Term != w.term { // the host has lost what it had reserved
			c.Reserved, c.Released = policy.Amounts{}, policy.Amounts{}
		}
		reserved.add([]budget.Window{c.Window}, budget.Counter{Reserved: c.Reserved, Released: c.Released})
		if !c.Used.IsZero() || !c.Granted.IsZero() || w.s.shared == nil {
			counted.add([]budget.Window{c.Window}, c)
		}
	}
	for _, it := range b.items {
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
			counted.apply(it.rec, r.row.Principal)
			reserved.release(it.rec, r.row.Principal)
			if err := w.addTurns(ctx, it.rec); err != nil {
				return err
			}
		}
		r.row.bytes += int64(w.stored - before)
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
	if err := w.saveCounters(ctx, counted); err != nil || w.s.shared == nil {
		return err
	}
	return w.saveReserved(ctx, reserved, b.asks)
}

// record appends one record to its run and stores the values that it names.
func (w *writer) record(ctx context.Context, it item) error {
	r, rec, body := it.run, it.rec, it.body
	if r.row.n == 0 {
		if err := w.newRun(ctx, r, rec); err != nil {
			return err
		}
	}
	err := w.reopen(ctx, r, rec)
	rec.Refs(func(ref journal.Ref) {
		if err == nil {
			err = w.keep(ctx, ref.Value(), r.row.n)
		}
	})
	if err != nil {
		return err
	}
	switch {
	case len(body) > maxRecord:
		return contract.Errorf("runtime/internal", "journal: append %s: the record has %d bytes, allowed are %d",
			rec.Body.Kind(), len(body), maxRecord)
	case rec.Seq > maxRecords && rec.Run != journal.HostRun:
		return contract.Errorf("runtime/internal", "journal: append %s: the run has %d records, the most that are allowed",
			rec.Body.Kind(), maxRecords)
	}
	r.row.apply(rec, chained(r.row.chain, body))
	return w.addRecord(ctx, &r.row, body)
}

// reopen checks that a run which is reopened was not purged or removed meanwhile.
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
	row.State = r.row.State // the end may not be in the database yet
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

// newRun gives a run its number. first is its first record.
func (w *writer) newRun(ctx context.Context, r *liveRun, first journal.Record) error {
	switch _, err := readRun(ctx, w.sql, r.id); {
	case err == nil:
		return contract.Errorf("journal/fenced", "journal: append to %s: the run was already recorded", r.id)
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

// checkAccepted rejects a run whose summary cannot be stored, or whose idempotency key
// is that of another run.
func (w *writer) checkAccepted(ctx context.Context, id string, accepted *journal.RunAccepted) error {
	if err := w.s.db.admit([]any{id, accepted.Intent, accepted.Principal}); err != nil || accepted.Key == "" {
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

// saveRun writes the row of a run, which has the state was in the database.
func (w *writer) saveRun(ctx context.Context, row *runRow, was string) error {
	var err error
	switch {
	case was == "":
		_, err = w.sql.exec(ctx, "add_run", row.n, row.ID, row.State, row.Epoch, row.Records, row.chain, row.bytes,
			nanos(row.Accepted), nanos(row.Finished), row.Latency, row.Intent, row.Principal, row.Cost, row.Error, row.key,
			row.Imported, row.Pinned, nanos(row.Purged), nanos(row.Removed))
	case row.State == stateOpen && was == stateOpen:
		_, err = w.sql.exec(ctx, "set_run", row.n, row.Epoch, row.Records, row.chain, row.bytes)
	default:
		_, err = w.sql.exec(ctx, "finish_run", row.n, row.Epoch, row.Records, row.chain, row.bytes, row.State,
			nanos(row.Finished), row.Latency, row.Cost, row.Error)
	}
	return err
}

// keep stores a value that a record of a run names.
func (w *writer) keep(ctx context.Context, v edn.Value, run int64) error {
	if longer(v, maxValue) {
		return contract.Errorf("runtime/internal", "journal: store value: it has more than %d MiB", maxValue>>20)
	}
	_, err := w.put(ctx, v, run)
	return err
}

// put stores a value with its parts and returns its number.
func (w *writer) put(ctx context.Context, v edn.Value, run int64) (int64, error) {
	hash := hashOf(v)
	if at, err := w.find(ctx, hash, longer(v, askAbove)); err != nil || at.n > 0 {
		return at.n, errors.Join(err, w.share(ctx, at, run))
	}
	form, body, err := layout(v, func(part edn.Value) (int64, error) { return w.put(ctx, part, run) })
	if err != nil {
		return 0, err
	}
	return w.add(ctx, content{hash: hash, owner: run, form: form, size: len(body), body: body})
}

// askAbove is the text of a value above which a look into the database is worth
// it: for a stored value it saves that its parts are laid out again.
const askAbove = 1 << 10

// find returns where a value is stored; zero if it is not known to be. ask looks
// into the database.
func (w *writer) find(ctx context.Context, hash sum, ask bool) (at location, err error) {
	if at := w.known[hash]; at.n > 0 || !ask {
		return at, nil
	}
	err = w.sql.one(ctx, "find_content", []any{hash}, []any{&at.n, &at.owner})
	if errors.Is(err, sql.ErrNoRows) {
		return location{}, nil
	}
	w.remember(hash, at)
	return at, err
}

func (w *writer) remember(hash sum, at location) {
	if len(w.known) >= maxKnown {
		clear(w.known)
	}
	w.known[hash] = at
}

// share notes that a run uses a value which another run stored.
func (w *writer) share(ctx context.Context, at location, run int64) error {
	if at.n == 0 || at.owner == run {
		return nil
	}
	_, err := w.sql.exec(ctx, "share", at.n, run)
	return err
}

// add writes a laid out value, unless it is stored already.
func (w *writer) add(ctx context.Context, c content) (int64, error) {
	row := any(c.body)
	if len(c.body) > maxRow && w.s.blobs != nil {
		if err := w.s.blobs.write(c.hash, c.body); err != nil {
			return 0, fmt.Errorf("write blob %s: %w", c.hash.hash(), err)
		}
		row = nil
	}
	added, err := w.sql.exec(ctx, "add_content", w.lastN+1, c.hash, c.owner, int(c.form), c.size, row)
	if err != nil {
		return 0, err
	}
	if added == 0 {
		at, err := w.find(ctx, c.hash, true)
		return at.n, errors.Join(err, w.share(ctx, at, c.owner))
	}
	w.lastN++
	w.stored += len(c.body) + len(c.hash)
	w.remember(c.hash, location{w.lastN, c.owner})
	return w.lastN, nil
}
