package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Limits of writing.
const (
	maxQueue = 1024 // calls that wait
	maxBatch = 128  // transactions that share an fsync
)

// Operations of Faults besides those of the log.
const (
	opIndex = "index/commit"
	opSeal  = "seal"
)

func (s *Store) fault(op string, run func() error) error {
	if b := s.o.Faults.Before; b != nil {
		if err := b(op); err != nil {
			return err
		}
	}
	err := run()
	if a := s.o.Faults.After; a != nil && err == nil {
		a(op)
	}
	return err
}

// request is a call of Update that waits for the writer.
type request struct {
	ctx   context.Context
	actor string
	run   func(*Tx) error
	// alone runs in place of a transaction, while none is prepared.
	alone func() error
	seq   uint64
	err   error
	done  chan struct{}
	// taken is set by the writer when it begins, or by a caller that gives up
	// before: a transaction is either not run, or its outcome is awaited.
	taken atomic.Bool
}

// Update runs a function in a transaction and returns its sequence number once
// it is durable. A function that writes nothing commits nothing; the result is
// then the current number. If the function or the commit fails, the transaction
// is rolled back.
func (s *Store) Update(ctx context.Context, actor string, run func(*Tx) error) (seq uint64, err error) {
	return s.wait(&request{ctx: ctx, actor: actor, run: run})
}

// wait passes a request to the writer, blocks until it is done or canceled, and returns its result.
func (s *Store) wait(r *request) (seq uint64, err error) {
	if s.follows {
		return 0, locked(s.dir, otherWrites)
	}
	if damage := s.Damage(); damage != nil {
		if !s.InPlace() {
			return 0, errReplaced(s.dir)
		}
		return 0, contract.Errorf("store/read-only", "the log is damaged: %w", damage).WithOp("store", s.dir).
			WithHint("run `ferment workspace validate` and `ferment workspace repair`")
	}
	defer func() { s.notice(err) }()
	r.done = make(chan struct{})
	select {
	case <-s.closed:
		return 0, errClosed(s.dir)
	default:
	}
	select {
	case s.queue <- r:
	default:
		return 0, contract.Errorf("runtime/overloaded", "%d transactions are queued, which is the limit", maxQueue).
			WithOp("store", s.dir)
	}
	select {
	case <-r.done:
		return r.seq, r.err
	case <-r.ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return 0, contract.AsError(context.Cause(r.ctx))
		}
		select {
		case <-r.done:
			return r.seq, r.err
		case <-s.closed:
		}
	case <-s.closed:
	}
	s.writer.Wait() // it finishes what it has begun
	select {
	case <-r.done:
		return r.seq, r.err
	default:
		return 0, errClosed(s.dir)
	}
}

// Preview runs a function in a transaction that is always rolled back, to find
// what it would do.
func (s *Store) Preview(ctx context.Context, run func(*Tx) error) error {
	undone := errors.New("undone")
	_, err := s.Update(ctx, "", func(tx *Tx) error {
		if err := run(tx); err != nil {
			return err
		}
		return undone
	})
	if errors.Is(err, undone) {
		return nil
	}
	return err
}

func errClosed(dir string) error {
	return contract.Errorf("store/io", "the store is closed").WithOp("store", dir).WithHint("send the request again")
}

// write runs transactions until the store is closed.
func (s *Store) write() {
	for {
		select {
		case <-s.closed:
			return
		case r := <-s.queue:
			for r != nil {
				r = s.serve(r)
			}
		}
	}
}

// serve runs a request, together with the waiting requests that can share its fsync. If it finds a
// request that must run alone, it returns that request.
func (s *Store) serve(r *request) (next *request) {
	if r.alone != nil {
		if r.taken.CompareAndSwap(false, true) {
			r.err = r.alone()
		}
		close(r.done)
		return nil
	}
	batch := []*request{r}
	for len(batch) < maxBatch && s.more() {
		if next = <-s.queue; next.alone != nil {
			break
		}
		batch, next = append(batch, next), nil
	}
	s.crowded = len(batch) > 1
	s.commit(batch)
	for _, r := range batch {
		close(r.done)
	}
	return next
}

// more reports whether another request waits. If the last batch had several, those that it
// has just answered get the processor first: their next requests then share an fsync.
func (s *Store) more() bool {
	for seen := -1; s.crowded && len(s.queue) > seen; {
		seen = len(s.queue)
		runtime.Gosched()
	}
	return len(s.queue) > 0
}

// commit writes a batch: all records, one fsync, then the index.
func (s *Store) commit(batch []*request) {
	ctx := context.Background()
	fail := func(err error) {
		for _, r := range batch {
			if r.err == nil {
				r.seq, r.err = 0, asStoreError("commit", err)
			}
		}
	}
	if err := s.writable(); err != nil {
		fail(err)
		return
	}
	if err := s.index.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		fail(err)
		return
	}
	end, before := s.log.End(), s.tree
	s.drafts, s.cursor, s.index.batch = map[id.ID][]byte{}, s.log.Cursor(), batchCache{}
	var drafts []log.Draft
	var lost error
	for _, r := range batch {
		if !r.taken.CompareAndSwap(false, true) {
			continue // its caller gave up
		}
		var draft log.Draft
		var err error
		draft, err, lost = s.draft(r, end.Seq+uint64(len(drafts))+1, end.Seq+1, len(batch) > 1)
		if lost != nil {
			break
		}
		if err != nil {
			if r.err = err; errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				r.err = contract.AsError(err)
			}
			continue
		}
		r.seq = end.Seq + uint64(len(drafts))
		if len(draft.Records) > 0 {
			r.seq++
			drafts = append(drafts, draft)
		}
	}
	if lost == nil {
		lost = s.append(ctx, end, drafts)
	}
	if lost != nil {
		s.tree, s.index.sets = before, frameSets{}
		_ = s.index.exec(ctx, "ROLLBACK")
		fail(lost)
		return
	}
	if len(drafts) > 0 {
		s.news.publish(s.log.End().Seq)
	}
}

// writable returns why no transaction can be written, nil if one can.
func (s *Store) writable() error {
	if !s.InPlace() {
		return errReplaced(s.dir)
	}
	if err := s.log.Failed(); err != nil {
		return readOnly(s.dir, err)
	}
	return nil
}

func readOnly(dir string, err error) error {
	return contract.Errorf("store/read-only",
		"the store is read-only until it is opened again, because a write failed: %w", err).WithOp("store", dir)
}

// draft runs the function of a request, which a failure undoes: within a savepoint of
// the index if other requests are in the transaction of the index. batch is the number of
// the first transaction of the batch. lost means that the transaction of the index has ended, with
// the rows of all requests: SQLite rolls it back if the disk is full while it spills its cache.
func (s *Store) draft(r *request, seq, batch uint64, shared bool) (d log.Draft, err, lost error) {
	ctx := context.Background()
	live, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.abandon, func() { cancel(context.Cause(s.abandon)) })()
	if err := live.Err(); err != nil {
		return d, context.Cause(live), nil
	}
	if shared {
		if err := s.index.exec(ctx, "SAVEPOINT request"); err != nil {
			return d, err, err
		}
	}
	cache := &readCache{anyMarks: &s.index.marks, anyGone: &s.index.gone}
	tx, before, cursor := &Tx{store: s, ctx: live, seq: seq, cache: cache}, s.tree, s.cursor
	if err = run(r.run, tx); err == nil {
		err = tx.err
	}
	if err == nil {
		err = context.Cause(live)
	}
	d = log.Draft{Actor: r.actor, Time: s.o.Now(), Records: tx.records}
	if err == nil && len(d.Records) > 0 {
		s.cursor.Commit(d, seq, batch)
		if err = s.index.applied(ctx, log.Commit{Seq: seq, Time: d.Time, Records: len(d.Records), Actor: d.Actor}); err != nil {
			s.index.sets = frameSets{} // some have frames that are undone
		}
	}
	if err != nil {
		s.tree, s.cursor, s.index.batch = before, cursor, batchCache{}
		clear(s.index.sets.changed)
		undo := []string{"ROLLBACK", "BEGIN IMMEDIATE"}
		if shared {
			undo = []string{"ROLLBACK TO request", "RELEASE request"}
		}
		if s.index.exec(ctx, undo...) != nil {
			lost = err
		}
		return d, err, lost
	}
	if shared {
		lost = s.index.exec(ctx, "RELEASE request")
	}
	return d, lost, lost
}

// run calls a function and makes a panic an error: one request must not end the
// writer of all others.
func run(f func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = contract.Errorf("runtime/internal", "a transaction panicked: %v", p)
		}
	}()
	return f(tx)
}

// append makes drafts durable and then visible. The index has their rows already.
func (s *Store) append(ctx context.Context, end log.Checkpoint, drafts []log.Draft) error {
	if len(drafts) == 0 {
		return s.index.exec(ctx, "COMMIT")
	}
	_, err := s.log.Append(drafts...)
	if replaced := s.checkWritten(); replaced != nil {
		return replaced
	}
	if err != nil {
		return err
	}
	uncertain := false
	err = s.fault(opIndex, func() error {
		if found := s.log.Cursor(); found != s.cursor {
			return fmt.Errorf("the log ends at %v, the index expects %v", found, s.cursor)
		}
		if err := s.index.mark(ctx, s.log.End()); err != nil {
			return err
		}
		err := s.index.exec(ctx, "COMMIT")
		uncertain = err != nil && !isFull(err)
		return err
	})
	switch {
	case err == nil:
		return nil
	case uncertain: // if the index has it, the log must
		s.failBehind(err)
		return err
	}
	return errors.Join(err, s.log.Revert(end))
}

// failBehind makes the store reject writes, because the index may lack the end of the log. The next
// open applies it.
func (s *Store) failBehind(err error) {
	s.log.Fail(fmt.Errorf("the index was not updated with the log: %w", err))
	s.behind.Store(true)
}

// Behind reports whether the index may lack the end of the log, because writing it failed. The
// store is read-only until it is opened again.
func (s *Store) Behind() bool { return s.behind.Load() }
