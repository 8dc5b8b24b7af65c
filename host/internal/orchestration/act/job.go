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

// Classes chooses the class of a run whose request names none.
type Classes struct {
	Names    []string          // of all classes
	Accepted string            // of acts that are answered before they run
	Intents  map[string]string // by intent
}

// ShippedClasses are those of a host without further classes.
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

// queueEntry is what the queue knows of the act.
func (f *flight) queueEntry() queue.Entry {
	return queue.Entry{Class: f.class, Priority: f.request.Priority, Principal: f.act.Principal}
}

// await waits for the turn of the run.
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

// unbegun returns the error of a run whose context has ended before it began, nil if it
// has not.
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
	return contract.Errorf("canceled", "the run was canceled before it %s", verb)
}

// canceledUnknown is the error of a canceled run whose calls may have had their effect.
func (f *flight) canceledUnknown() *contract.Error {
	return contract.Errorf("canceled", "the run was canceled; it is not known whether %s", f.unknown)
}

// leave gives the place in the queue back.
func (f *flight) leave() {
	if f.place != nil {
		f.place.Leave()
	}
}

// Submit accepts an act that is answered before it runs. Its acceptance is durable
// when Submit returns (RUN-010). The run waits for its turn: Begin starts it. With
// the idempotency key of another run it is that run, which must not be begun.
func (s *Service) Submit(a Act) (*Run, *contract.Error) {
	f, err := s.accept(a, false)
	switch {
	case err != nil:
		return nil, err
	case f.attached != nil:
		return f.shared(), nil
	}
	// What was prepared is not kept: thousands of runs may wait, and the
	// configuration that is in force at its turn binds the run. What is reserved for
	// the whole run stays reserved.
	if f.budget.account != nil { // else the run is reopened, and has none yet
		f.budget.account.Leave(context.Background())
	}
	s.config.Journal.Drop(f.id)
	return s.waiting(context.Background(), &flight{id: f.id, key: f.key, holds: f.holds, place: f.place, deadline: f.deadline, act: Act{Principal: f.act.Principal}, mask: f.mask}), nil
}

// Recall puts a run of an earlier host back into the queue, with the place, priority
// and deadline that it has. The end of ctx cancels it. Runs must be recalled in the
// order of their acceptance. reopened is the last record of a run that failed and has
// not gone on since; else nil. A job enters the queue when it is to be retried.
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
		f.holds, _ = c.Keys.hold(f.key, accepted.Fingerprint.Hash()) // nil: an act that came before waits for the next try
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

// waiting returns a run that waits for its turn.
func (s *Service) waiting(ctx context.Context, f *flight) *Run {
	f.service = s
	r := newRun(ctx, f)
	if f.holds != nil {
		s.config.Keys.settle(f.key, f.holds, r)
	}
	return r
}

// AwaitTurn waits until the run may begin, also because its deadline has passed or
// it was canceled. It reports false if the run was interrupted: it is over.
func (r *Run) AwaitTurn() bool {
	f := r.flight()
	if !f.after.IsZero() { // the end of the wait, by a cancellation too, is seen below
		c := &f.service.config
		_ = c.Clock.Wait(r.ctx, f.after.Sub(c.Clock.Now()))
		_ = f.queueUp(c) // a run that was accepted before gets a place
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

// Abandon ends a run that waits for its turn. It stays open in the journal.
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

// Begin executes a run that Submit or Recall returned, to its end; records are all of
// its records. The configuration of this service binds it. Why says what has
// interrupted it, if it was under way. An error is that of Resume: the run is over,
// and stays open in the journal.
func (s *Service) Begin(r *Run, records []journal.Record, why string) *contract.Error {
	past := journal.NewHistory(records)
	how := Resumption{Why: why}
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

// begin replaces the flight of a run that waited. A cancellation that was asked for
// until then is recorded when it starts, and one that was interrupted records
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
