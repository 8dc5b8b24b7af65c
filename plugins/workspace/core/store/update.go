package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
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
// leaves no trace.
func (s *Store) Update(ctx context.Context, actor string, run func(*Tx) error) (seq uint64, err error) {
	return s.wait(&request{ctx: ctx, actor: actor, run: run})
}

// wait hands a request to the writer and returns its result.
func (s *Store) wait(r *request) (seq uint64, err error) {
	if s.damage != nil {
		return 0, contract.Errorf("store/read-only", "the log is damaged: %w", s.damage).WithOp("store", s.dir)
	}
	r.done = make(chan struct{})
	select {
	case <-s.closed:
		return 0, errClosed(s.dir)
	default:
	}
	select {
	case s.queue <- r:
	default:
		return 0, contract.Errorf("runtime/overloaded", "%d transactions wait already", maxQueue).WithOp("store", s.dir)
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

// Preview runs a function in a transaction that is undone: what it would do.
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
	return contract.Errorf("store/io", "the store is closed").WithOp("store", dir)
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

// serve carries out a request, and those behind it that share its fsync. It
// returns the next one if that must be alone.
func (s *Store) serve(r *request) (next *request) {
	if r.alone != nil {
		if r.taken.CompareAndSwap(false, true) {
			r.err = r.alone()
		}
		close(r.done)
		return nil
	}
	batch := []*request{r}
	for len(batch) < maxBatch && len(s.queue) > 0 {
		if next = <-s.queue; next.alone != nil {
			break
		}
		batch, next = append(batch, next), nil
	}
	s.commit(batch)
	for _, r := range batch {
		close(r.done)
	}
	return next
}

// commit writes a batch: all records, one fsync, then the index.
func (s *Store) commit(batch []*request) {
	ctx := context.Background()
	fail := func(rs []*request, err error) {
		for _, r := range rs {
			if r.err == nil {
				r.seq, r.err = 0, asStoreError("commit", err)
			}
		}
	}
	if err := s.log.Failed(); err != nil {
		fail(batch, readOnly(s.dir, err))
		return
	}
	if err := s.index.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		fail(batch, err)
		return
	}
	end, before := s.log.End(), s.tree
	s.drafts = map[id.ID][]byte{}
	var drafts []log.Draft
	var places [][]unplaced
	var written []*request
	for _, r := range batch {
		if !r.taken.CompareAndSwap(false, true) {
			continue // its caller gave up
		}
		draft, wait, err := s.draft(r, end.Seq+uint64(len(drafts))+1)
		if err != nil {
			if r.err = err; errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				r.err = contract.AsError(err)
			}
			continue
		}
		r.seq = end.Seq + uint64(len(drafts))
		written = append(written, r)
		if len(draft.Records) > 0 {
			r.seq++
			drafts, places = append(drafts, draft), append(places, wait)
		}
	}
	if err := s.append(ctx, end, drafts, places); err != nil {
		s.tree = before
		_ = s.index.exec(ctx, "ROLLBACK")
		fail(written, err)
		return
	}
	if len(drafts) > 0 {
		s.news.publish(s.log.End().Seq)
	}
}

func readOnly(dir string, err error) error {
	return contract.Errorf("store/read-only", "the store must be opened again: %w", err).WithOp("store", dir)
}

// draft runs the function of a request within a savepoint of the index. It also
// returns what is in the index without its place in the log.
func (s *Store) draft(r *request, seq uint64) (d log.Draft, wait []unplaced, err error) {
	ctx := context.Background()
	live, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.abandon, func() { cancel(context.Cause(s.abandon)) })()
	if err := live.Err(); err != nil {
		return d, nil, context.Cause(live)
	}
	if _, err := s.index.stmt.savepoint.ExecContext(ctx); err != nil {
		return d, nil, err
	}
	s.index.suspected = nil // what an abandoned request did is undone
	tx, before := &Tx{store: s, ctx: live, seq: seq, cache: &readCache{}}, s.tree
	if err = run(r.run, tx); err == nil {
		err = tx.err
	}
	if err == nil {
		err = context.Cause(live)
	}
	if err != nil {
		s.tree = before
		return d, nil, errors.Join(err, s.index.exec(ctx, "ROLLBACK TO request", "RELEASE request"))
	}
	_, err = s.index.stmt.release.ExecContext(ctx)
	return log.Draft{Actor: r.actor, Time: s.o.Now(), Records: tx.records}, tx.unplaced, err
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

// append makes drafts durable and then visible. The index has their rows
// already, without the places of contents and frames.
func (s *Store) append(ctx context.Context, end log.Checkpoint, drafts []log.Draft, places [][]unplaced) error {
	if len(drafts) == 0 {
		return s.index.exec(ctx, "COMMIT")
	}
	done, err := s.log.Append(drafts...)
	if err != nil {
		return err
	}
	err = s.fault(opIndex, func() error {
		for i, t := range done {
			if err := s.place(ctx, &t, places[i]); err != nil {
				return err
			}
		}
		if err := s.index.mark(ctx, s.log.End()); err != nil {
			return err
		}
		return s.index.exec(ctx, "COMMIT")
	})
	if err != nil {
		// The log has what the index lacks; the next open applies it.
		s.log.Fail(fmt.Errorf("the index does not take what is in the log since %d: %w", end.Seq, err))
		return err
	}
	return nil
}

// unplaced is a content or a frame that is in the index without its place.
type unplaced struct {
	record  int // of the transaction
	content id.ID
	frame   *Frame // nil for a content
}

// place records the commit and where its contents and frames are.
func (s *Store) place(ctx context.Context, t *log.Transaction, wait []unplaced) error {
	for _, u := range wait {
		var err error
		if u.frame != nil {
			err = s.index.placeFrame(ctx, u.frame, t.Places[u.record])
		} else {
			err = s.index.applyContent(ctx, u.content, t.Places[u.record])
		}
		if err != nil {
			return err
		}
	}
	return s.index.applied(ctx, t.Commit)
}

// Tx is a transaction that is being prepared. It must not be used after its
// function returned.
type Tx struct {
	store   *Store
	ctx     context.Context
	seq     uint64
	records []log.Record
	// unplaced are the contents and frames among the records.
	unplaced []unplaced
	err      error
	cache    *readCache
}

// Context ends when the caller gives up, or the store is closed and has waited
// long enough.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Seq returns the sequence number that the transaction gets if it writes.
func (tx *Tx) Seq() uint64 { return tx.seq }

// PutContent stores text once and returns its content id.
func (tx *Tx) PutContent(text []byte) (id.ID, error) {
	content := contentOf(tx.store.Scheme, text)
	var found int
	err := tx.store.index.stmt.find.QueryRowContext(context.Background(), content.Sum()).Scan(&found)
	if err != nil || found > 0 {
		return content, err
	}
	tx.unplaced = append(tx.unplaced, unplaced{record: len(tx.records), content: content})
	return content, tx.addAs(log.Record{Kind: kindContent, Payload: text}, func(x *index) error {
		return x.applyContent(context.Background(), content, log.Place{})
	})
}

// add writes a record, which is neither a content nor a frame, to the transaction
// and to the index.
func (tx *Tx) add(r log.Record) error {
	return tx.addAs(r, func(x *index) error { return x.apply(context.Background(), tx.seq, r, log.Place{}) })
}

// addAs is add for a record whose effect on the index is a function.
func (tx *Tx) addAs(r log.Record, apply func(*index) error) error {
	if tx.err == nil { // else the index has a part of a record
		tx.err = apply(tx.store.index)
	}
	tx.records = append(tx.records, r)
	return tx.err
}

// PutTree makes a tree the current one and returns what changed.
func (tx *Tx) PutTree(t *tree.Tree) (*tree.Changes, error) {
	if t.Scheme != tx.store.Scheme {
		return nil, contract.Errorf("workspace/exists", "the store has the scheme %s, not %s", tx.store.Scheme, t.Scheme)
	}
	older, err := tx.Tree()
	if err != nil {
		return nil, err
	}
	changes := tree.Diff(older, t)
	for _, r := range encodeVersions(changes) {
		if err := tx.add(r); err != nil {
			return nil, err
		}
		if err := tx.ctx.Err(); err != nil {
			return nil, err
		}
	}
	tx.store.tree = t
	return changes, nil
}

// Tree returns the current tree, nil if nothing was scanned.
func (tx *Tx) Tree() (t *tree.Tree, err error) {
	s := tx.store
	if s.tree == nil {
		s.tree, err = loadTree(context.Background(), s.index.conn, s.Scheme, tx.seq)
	}
	return s.tree, err
}
