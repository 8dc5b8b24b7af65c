package act

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The shipped classes of runs (RUN-011).
const (
	ClassSync        = "sync"        // a caller waits
	ClassInteractive = "interactive" // a person waits
	ClassBatch       = "batch"
)

// Classes holds the queue classes and chooses the class of a run whose request names
// none: that of its intent, else Accepted if the act is answered before it runs, else
// ClassSync.
type Classes struct {
	Names    []string          // of all classes
	Accepted string            // of acts that are answered before they run
	Intents  map[string]string // by intent
}

// ShippedClasses returns the classes of a host that configures no others.
func ShippedClasses() Classes {
	return Classes{Names: []string{ClassSync, ClassInteractive, ClassBatch}, Accepted: ClassBatch}
}

// of returns the class of a request.
func (c *Classes) of(r *request.Request) string {
	switch class, found := c.Intents[r.Intent]; {
	case r.QueueClass != "":
		return r.QueueClass
	case found:
		return class
	case r.ResponseType == "accepted":
		return c.Accepted
	}
	return ClassSync
}

// enter is the step that takes a place in the queue.
func enter(f *flight) (err *contract.Error) {
	c := &f.service.config
	f.class = c.Classes.of(&f.request)
	switch {
	case c.Queue == nil, f.cache.answer != nil:
	case f.cache.spared():
		f.place = c.Queue.Reserve(f.queueEntry())
	default:
		f.place, err = c.Queue.Enter(f.queueEntry())
	}
	return err
}

// queueEntry returns the entry of the act for the queue.
func (f *flight) queueEntry() queue.Entry {
	return queue.Entry{Class: f.class, Priority: f.request.Priority, Principal: f.act.Principal}
}

// await blocks until the queue has a worker for the run. It returns the error of unbegun
// if the context of the run ends first.
func (f *flight) await() *contract.Error {
	if f.place == nil {
		return nil
	}
	select {
	case <-f.place.Turn():
	case <-f.ctx.Done():
	}
	return f.unbegun()
}

// unbegun returns the error of a run whose context ended before the run began; nil if
// the context has not ended.
func (f *flight) unbegun() *contract.Error {
	if f.ctx.Err() == nil {
		return nil
	}
	var draining *contract.Error
	switch {
	case errors.As(context.Cause(f.ctx), &draining):
		return draining
	case f.unknown != "":
		return f.canceledUnknown()
	}
	verb := "began"
	if f.past != nil && f.past.Active {
		verb = "went on"
	}
	if errors.Is(f.ctx.Err(), context.DeadlineExceeded) {
		return contract.Errorf("queue/deadline-exceeded", "the deadline passed before the run %s", verb)
	}
	return contract.Errorf("canceled", "the run was canceled before it %s", verb)
}

// canceledUnknown returns the error of a canceled run whose calls may have had an
// effect.
func (f *flight) canceledUnknown() *contract.Error {
	return contract.Errorf("canceled", "the run was canceled; it is not known whether %s", f.unknown)
}

// leave gives the place in the queue back.
func (f *flight) leave() {
	if f.place != nil {
		f.place.Leave()
	}
}

// Submit accepts an act that is answered before it runs. Its acceptance is durable when
// Submit returns (RUN-010). The run waits in the queue: call AwaitTurn, then Begin. If
// another run has the idempotency key of the act, Submit returns that run: Attached is
// true, and Begin must not be called.
func (s *Service) Submit(a Act) (*Run, *contract.Error) {
	f, err := s.accept(a, false)
	switch {
	case err != nil:
		return nil, err
	case f.attached != nil:
		return f.shared(), nil
	}
	// The prepared state is dropped: thousands of runs may wait, and the run uses the
	// configuration that is in force when it begins. The reservation for the whole run stays
	// open.
	if f.budget.account != nil { // else the run is reopened, and has none yet
		f.budget.account.Leave(context.Background())
	}
	s.config.Journal.Drop(f.id)
	return s.waiting(context.Background(), &flight{id: f.id, key: f.key, holds: f.holds, place: f.place, deadline: f.deadline, act: Act{Principal: f.act.Principal}, also: f.also, mask: f.mask}), nil
}

// Recall puts a run of an earlier host process back into the queue with its recorded
// class, priority and deadline. Canceling ctx cancels the run. Runs must be recalled in
// the order of their acceptance. reopened is the last record of a failed run that was
// reopened and has not been executed since; else nil. A job with a retry time enters the
// queue only at that time, in AwaitTurn.
func (s *Service) Recall(ctx context.Context, run string, accepted *journal.RunAccepted, reopened *journal.RunResumed) (*Run, *contract.Error) {
	c := &s.config
	class := accepted.Class
	if !slices.Contains(c.Classes.Names, class) && accepted.ResponseType == "accepted" {
		class = c.Classes.Accepted // its class is gone
	}
	f := &flight{id: run, deadline: accepted.DeadlineAt, act: Act{Principal: accepted.Principal}}
	f.entry = queue.Entry{Class: class, Priority: accepted.Priority, Principal: accepted.Principal, Accepted: true}
	if reopened != nil && reopened.Reopens() {
		f.deadline, f.after = reopened.DeadlineAt, reopened.RetryAt
	}
	if f.after.IsZero() {
		if err := f.queueUp(c); err != nil {
			return nil, err
		}
	}
	if accepted.Key != "" && c.Keys != nil {
		f.key = accepted.Key
		// nil: another act holds the key; its caller has to try again
		f.holds, _ = c.Keys.hold(f.key, accepted.Fingerprint.Hash())
	}
	return s.waiting(ctx, f), nil
}

// queueUp takes the place of a waiting run in the queue.
func (f *flight) queueUp(c *Config) (err *contract.Error) {
	if c.Queue != nil {
		f.place, err = c.Queue.Enter(f.entry)
	}
	return err
}

// waiting returns the Run of a flight that waits for its turn, and releases the acts
// that wait for its idempotency key.
func (s *Service) waiting(ctx context.Context, f *flight) *Run {
	f.service = s
	r := newRun(ctx, f)
	if f.holds != nil {
		s.config.Keys.settle(f.key, f.holds, r)
	}
	return r
}

// AwaitTurn blocks until the run may begin: it has a worker, its deadline has passed, or
// its cancellation was requested. It returns false if the run was interrupted; the run
// is then abandoned, and Begin must not be called.
func (r *Run) AwaitTurn() bool {
	f := r.flight()
	if !f.after.IsZero() { // an error of Wait is that of r.ctx, which is checked below
		c := &f.service.config
		_ = c.Clock.Wait(r.ctx, f.after.Sub(c.Clock.Now()))
		_ = f.queueUp(c) // the queue admits every run that was accepted before
	}
	late := time.NewTimer(time.Until(f.deadline))
	defer late.Stop()
	turn := (<-chan struct{})(nil)
	if f.place != nil {
		turn = f.place.Turn()
	} else {
		late.Reset(0)
	}
	select {
	case <-turn:
	case <-late.C:
	case <-r.ctx.Done():
	}
	var asked *cancellation
	cause := context.Cause(r.ctx)
	if cause == nil || errors.As(cause, &asked) {
		return true
	}
	r.Abandon(contract.AsError(cause))
	return false
}

// Abandon closes a run that waits for its turn; err is the error for its callers. The
// run stays open in the journal and can be resumed.
func (r *Run) Abandon(err *contract.Error) {
	f := r.flight()
	f.err, f.response, f.cut = err, f.service.Refusal(Act{}, err), true
	f.leave()
	r.end(f.service.config.Keys)
}

// Waiting reports whether the run has not begun.
func (r *Run) Waiting() bool {
	f := r.flight()
	return !r.Attached() && (f.recorder == nil || f.place != nil && !f.place.Running())
}

// Begin executes a run that Submit or Recall returned, under the configuration of this
// service, and returns when it has ended. records are all records of the run. why is the
// reason of the resumption, see Resumption; it is ignored if the run never started.
// Begin fails with the errors of Resume; the run is then abandoned.
func (s *Service) Begin(r *Run, records []journal.Record, why string) *contract.Error {
	past := journal.NewHistory(records)
	how := Resumption{Why: why, Also: r.flight().also}
	if !past.Active {
		how.Why = ""
	}
	f, err := s.reenter(r.ID(), past, how, r.flight().mask)
	if err != nil {
		r.Abandon(err)
		return err
	}
	r.begin(f)
	s.launch(r)
	return nil
}

// begin replaces the flight of a run that waited by f. A cancellation that was requested
// during the wait is recorded when f starts. If the run was interrupted, f records
// nothing.
func (r *Run) begin(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.key, f.holds, f.place = r.f.key, r.f.holds, r.f.place
	var asked *cancellation
	cause := context.Cause(r.ctx)
	switch before := f.past.Canceled; {
	case errors.As(cause, &asked) && before == nil:
		f.asked = &journal.CancelRequested{By: asked.by, Why: asked.why}
	case cause != nil && asked == nil:
		f.recorder.Stop(contract.AsError(cause))
	case before != nil:
		r.cancel(&cancellation{before.By, before.Why})
	}
	r.f = f
}

// flight returns the state of the run.
func (r *Run) flight() *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.f
}
