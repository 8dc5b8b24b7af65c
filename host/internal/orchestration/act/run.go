package act

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Run is a handle of an accepted act. It is safe for concurrent use, except for Watch,
// WatchPages and Follow, of which only one may be called, once.
type Run struct {
	mu     sync.Mutex
	f      *flight // of a run that waits for its turn: only its id and its key
	of     *Run    // the run itself, if another caller started it; else nil
	from   Journal // the journal of a run that another host executes; done is then never closed
	until  time.Time
	clock  dispatch.Clock // with until: the deadline of a caller that shares the run
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// cancellation is the cause of a canceled run's context.
type cancellation struct{ by, why string }

func (c *cancellation) Error() string { return "the run was canceled by " + c.by + ": " + c.why }

func newRun(ctx context.Context, f *flight) *Run {
	r := &Run{f: f, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// end releases the idempotency key and closes done.
func (r *Run) end(keys *Keys) {
	if r.f.holds != nil {
		keys.release(r.f.key)
	}
	r.cancel(nil)
	close(r.done)
}

// ID returns the id of the run.
func (r *Run) ID() string { return r.flight().id }

// Principal returns the caller of the run.
func (r *Run) Principal() string { return r.flight().act.Principal }

// Tenant returns the tenant of the caller; empty: the host itself. It is also empty while
// a run of Submit or Recall waits for its turn.
func (r *Run) Tenant() string { return r.flight().act.Tenant }

// Follow returns the cursor of the run, which reads its records from the start as they are
// written; nil while a run of Submit or Recall waits for its turn. All calls return the
// same cursor: use it in one goroutine, and not together with Watch.
func (r *Run) Follow() *journal.Cursor { return r.f.follow }

// Watch calls show with the events of the run, in order and one at a time, until
// the run is finished, ctx ends, or show fails; the error is that of ctx or of
// show. Events that are not recorded (see [stream.Live]) come after the first
// recorded one. It must be called at most once, and not together with Follow.
func (r *Run) Watch(ctx context.Context, show func(journal.Event) error) error {
	return r.WatchPages(ctx, func(events []journal.Event) error {
		for _, e := range events {
			if err := show(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// WatchPages is like Watch, but passes all events that are available at once to one call
// of show.
func (r *Run) WatchPages(ctx context.Context, show func([]journal.Event) error) error {
	f := r.flight()
	defer f.pace.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.untilCut(ctx, cancel)
	if r.shares() {
		go func() {
			if r.late(ctx) {
				cancel()
			}
		}()
	}
	w := watching{show: show, cancel: cancel}
	open := sync.OnceFunc(func() { f.live.Open(func(e journal.Event) { w.take([]journal.Event{e}) }) })
	defer f.live.Close()
	err := journal.WatchPages(ctx, f.follow, func(events []journal.Event) bool {
		goes := w.take(events)
		for _, e := range events {
			if e.Shown() {
				text, _ := e.Details.Key("text").AsString()
				f.pace.Read(len(text))
			}
		}
		open()
		return goes
	})
	if failed := w.failure(); failed != nil {
		return failed
	}
	return err
}

// watching is the reader of a run. It takes recorded events and others from
// different goroutines.
type watching struct {
	show   func([]journal.Event) error
	cancel func()

	mu     sync.Mutex
	failed error
}

// take passes events to show and returns false if show has failed, now or before.
func (w *watching) take(events []journal.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		if w.failed = w.show(events); w.failed != nil {
			w.cancel()
		}
	}
	return w.failed == nil
}

func (w *watching) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// untilCut calls cut if the run is interrupted: it then has no last record at which a
// reader would stop. It returns when the run has ended or ctx is done.
func (r *Run) untilCut(ctx context.Context, cut func()) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return
	}
	if r.of != nil {
		r = r.of
	}
	if r.flight().cut {
		cut()
	}
}

// Done returns a channel that is closed when the response is available. For a run that
// another host executes it is never closed.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait blocks until the run has ended and returns the response envelope and the error in
// it.
func (r *Run) Wait() (edn.Value, *contract.Error) { return r.Await(context.Background()) }

// Await is like Wait. If the run was started by another caller, Await waits no longer
// than the deadline of this caller and ctx, and the run continues: the error is then
// queue/deadline-exceeded, the cause of ctx if that is a *contract.Error, or canceled.
// For any other run ctx is ignored.
func (r *Run) Await(ctx context.Context) (edn.Value, *contract.Error) {
	if !r.shares() {
		<-r.done
		return r.f.response, r.f.err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if r.late(ctx) {
			cancel(contract.Errorf("queue/deadline-exceeded",
				"run %s of the idempotency key goes on beyond the deadline of this request", r.ID()).
				WithHint("send the request again with the same key to get its response"))
		}
	}()
	response, failure, err := r.response(ctx)
	if err == nil {
		return response, failure
	}
	if ctx.Err() != nil {
		if err = context.Cause(ctx); !errors.As(err, &failure) {
			err = contract.Errorf("canceled", "run %s of the idempotency key goes on without this caller", r.ID())
		}
	}
	failure = contract.AsError(err).WithWhere("run", edn.Text(r.ID()))
	return new(Service).Refusal(r.f.act, failure).AssocKey("run/id", edn.Text(r.ID())), failure
}

// response waits for the response of a run that another caller started, until ctx is
// done.
func (r *Run) response(ctx context.Context) (edn.Value, *contract.Error, error) {
	if r.from != nil {
		return recorded(ctx, r.from, r.ID())
	}
	select {
	case <-r.done:
		f := r.of.flight()
		return f.response, f.err, nil
	case <-ctx.Done():
		return edn.Nil(), nil, ctx.Err()
	}
}

// shares reports whether the run was started by another caller or host and continues
// without this caller. It is false for a stored run.
func (r *Run) shares() bool { return r.of != nil || r.from != nil }

// late waits until the deadline of the caller has passed; false: ctx ended before.
func (r *Run) late(ctx context.Context) bool {
	return r.clock.Wait(ctx, r.until.Sub(r.clock.Now())) == nil
}

// Records returns the records of the run after it has ended; nil before, and for a run
// that another host executes.
func (r *Run) Records() []journal.Record {
	select {
	case <-r.done:
		if r.of != nil {
			r = r.of
		}
		return r.f.records
	default:
		return nil
	}
}

// Answer answers an open interrupt of the run. The answer is durable when Answer
// returns nil. The error is interrupt/not-found, interrupt/answered,
// interrupt/answer-invalid or that of the recorder.
func (r *Run) Answer(id string, answer edn.Value, by string) *contract.Error {
	return r.flight().asks.Answer(id, answer, by)
}

// Asks reports whether the run waits for answers of people, whatever else it does.
func (r *Run) Asks() bool { return !r.Attached() && r.flight().asks.Asks() }

// AwaitsPeople reports whether the run does nothing but wait for answers of people.
func (r *Run) AwaitsPeople() bool { return !r.Attached() && r.flight().asks.Waits() }

// Interrupt stops the run at its next record, as a stop of the host would: the run stays
// open in the journal and can be resumed. Its caller gets the error runtime/draining. A
// new act without an idempotency key that still waits in the queue fails with that error
// instead, and its caller may send it again. Interrupt has no effect on a finished run
// and on a run that another act started.
func (r *Run) Interrupt() {
	if r.Attached() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel(r.f.interrupted())
}

// Lose stops the run after the journal failed: nothing more of it is recorded. err is the
// error for its caller. On a run that another act started it has no effect.
func (r *Run) Lose(err *contract.Error) {
	if r.Attached() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f.recorder != nil {
		r.f.recorder.Stop(err)
	}
	r.cancel(err)
}

// interrupted stops the recorder of a run that is interrupted, and returns the error for
// its caller. The error is not retryable without an idempotency key: the run will be
// resumed, so a second request would execute the act twice.
func (f *flight) interrupted() *contract.Error {
	if f.recorder != nil && f.past == nil && f.key == "" && f.place != nil && !f.place.Running() {
		return contract.Errorf("runtime/draining", "the host is going down; run %s has not begun", f.id).
			WithWhere("run", edn.Text(f.id))
	}
	err := contract.Errorf("runtime/draining", "the host is going down; run %s goes on when it is up again", f.id).
		WithWhere("run", edn.Text(f.id))
	if f.key == "" {
		err.Retryable = false
		err = err.WithHint(fmt.Sprintf("\"ferment runs watch %s\" follows it; sent again, the act would be executed twice", f.id))
	}
	if f.recorder != nil { // else it stops when the run begins
		f.recorder.Stop(err)
	}
	return err
}

// Cancel requests the cancellation of the run and does not wait for its end. It reports
// whether the request was recorded, or will be when a waiting run begins. It returns
// false, without effect, for a finished run and for a run that another act started.
func (r *Run) Cancel(by, why string) bool {
	select {
	case <-r.done:
		return false
	default:
	}
	if r.Attached() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := error(nil)
	if recorder := r.f.recorder; recorder != nil { // else it is recorded when the run begins
		// The recorder rejects the record if the run has just finished; then there
		// is nothing to cancel.
		err = recorder.Record(edn.Nil(), "", &journal.CancelRequested{By: by, Why: why})
	}
	r.cancel(&cancellation{by, why})
	return err == nil
}
