package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Observer is called with the rules of an operation. The function that it returns is
// called with each event and the commands that are open afterwards; another machine
// that gets these rules and events has the same commands open. Both are called on the
// goroutine of the operation and must not keep or change open.
type Observer func(flow.Rules) func(e flow.Event, open []flow.Command)

// drive carries out the commands of the machine until the operation has ended.
func (o *operation) drive(ctx context.Context) {
	rules := o.rules()
	defer o.attempts.returnPermits()
	if o.strategy.name != policy.Cascade {
		o.parallel = &parallelCalls{clock: o.node.d.Clock, arrivals: make(chan *attempt, min(o.strategy.candidates, maxParallel))}
		defer o.stopAll()
	}
	var observe func(flow.Event, []flow.Command)
	if o.node.d.Observer != nil {
		observe = o.node.d.Observer(rules)
	}
	var room [1]flow.Event
	commands, events := o.machine.Begin(rules), room[:0]
	for {
		for i := range commands {
			c := &commands[i]
			if c.Kind == flow.Finish {
				o.end(c)
				return
			}
			events = o.perform(ctx, c, events)
			if o.node.failed != nil { // an operation that cannot be recorded stops
				o.attempts.result.Err = o.node.failedError()
				return
			}
		}
		if len(events) == 0 {
			if events = o.arrivals(events); o.node.failed != nil {
				o.attempts.result.Err = o.node.failedError()
				return
			}
		}
		commands = o.machine.Apply(&events[0])
		if observe != nil {
			observe(events[0], o.machine.Open())
		}
		if events = events[1:]; len(events) == 0 {
			events = room[:0]
		}
	}
}

// maxParallel bounds the parallel attempts of a call.
const maxParallel = 256

// rules returns the rules of this operation for its machine.
func (o *operation) rules() flow.Rules {
	s := o.strategy
	return flow.Rules{
		Node: o.node.w.Node, Strategy: s.name, Width: s.width, Joining: s.max, After: s.after, MaxCandidates: s.candidates,
		Limits: (*limitsOf)(&o.node), SwitchOn: o.node.w.Policy.SwitchOn,
	}
}

// perform carries out a command and adds the event that answers it, unless that
// comes later.
func (o *operation) perform(ctx context.Context, c *flow.Command, events []flow.Event) []flow.Event {
	queue := append(events, flow.Event{Of: c.ID})
	e := &queue[len(events)]
	switch c.Kind {
	case flow.Find:
		o.find(ctx, c, e)
	case flow.Start:
		o.start(ctx, c, e)
	case flow.Call:
		a := o.attempts.get(c.Attempt)
		if c.Parallel {
			a.command = c.ID
			o.parallel.call(ctx, a)
			return events
		}
		if a.past == nil {
			o.attempts.shadow(a)
		}
		o.callAlone(ctx, a)
	case flow.Judge:
		o.evaluate(ctx, o.attempts.get(c.Attempt), e)
	case flow.Discard:
		o.attempts.discard(o.attempts.get(c.Attempt))
	case flow.Refuse:
		a := o.attempts.owed[c.Attempt]
		o.attempts.recordVerdict(c.Attempt, a.sample(), false, quality.Perfect)
		o.candidates.learn(a, false)
	case flow.Look:
		if c.Failure != nil && c.Failure.Undelivered || !o.machine.Exhausted() {
			o.candidates.bind()
		}
		e.Situation = o.situation(c.CapID)
	case flow.Ready:
		o.awaitRetry(ctx, c, e)
	case flow.Timer:
		if o.attempts.past.replays() {
			o.timer = timerWithoutTime(c.ID)
			return events
		}
		o.timer = startTimer(ctx, o.node.d.Clock, c.ID, c.After)
		return events
	case flow.Stop:
		if c.Attempt > 0 {
			o.parallel.stop(o.attempts.get(c.Attempt))
			return events
		}
		o.timer.end()
		o.timer, e.Of = nil, c.Target
	}
	return queue
}

// errShare is the cause of the end of a call that used its share of the time. It is not typed: for the
// plugin the call is canceled.
var errShare = errors.New("the share of the time that is left for this attempt has passed")

// lateShare is the failure of such a call, for the question whether the operation would go on.
var lateShare = contract.Errorf("timeout/soft", "%w", errShare)

// callAlone makes the call of a step of a cascade. The call is canceled at the end of its
// share, except if text of it was shown that cannot be retracted.
func (o *operation) callAlone(ctx context.Context, a *attempt) {
	own, share := ctx, o.share(ctx, a)
	if share > 0 {
		var cancel context.CancelCauseFunc
		own, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(share, func() {
			if !a.stream.Committed() {
				cancel(errShare)
			}
		})
		defer timer.Stop()
	}
	a.answer, a.failed = a.invoke(own)
	a.ended = o.node.now()
	if errors.Is(context.Cause(own), errShare) {
		a.limits.begun, a.limits.end = a.started, a.started.Add(share)
	}
}

// share returns how long an attempt may take so that the next candidate is reached before
// the deadline also if this one hangs (EMB-002): three quarters of the time left. It returns 0, no
// bound, without a deadline, if the capability has an earlier limit of its own, and if no
// other candidate could be tried afterwards.
func (o *operation) share(ctx context.Context, a *attempt) time.Duration {
	n, c := &o.node, a.capability
	end, bounded := ctx.Deadline()
	if d := n.w.Deadline; !d.IsZero() && (!bounded || d.Before(end)) {
		end, bounded = d, true
	}
	if own := a.limits.soft; !bounded || !c.External() || a.past != nil || !own.IsZero() && own.Before(end) {
		return 0
	}
	if _, left := o.machine.Next(flow.Situation{Accepted: o.candidates.binding.Accepted}); !left {
		return 0
	}
	if calls, limited := o.funds.CallsLeft(); limited && calls == 0 {
		return 0
	}
	late := o.attempts.failure(ctx, nil, lateShare)
	late.Outcome, late.Recovery = flow.Unknown, a.recovery
	if !o.machine.GoesOn(late) {
		return 0
	}
	return end.Sub(n.now()) / 4 * 3
}

// arrivals waits until a running call or the timer ends and adds the events of all that
// have ended. It adds none if the node failed.
func (o *operation) arrivals(events []flow.Event) []flow.Event {
	batch := o.recalledArrivals()
	if batch == nil {
		batch = o.parallel.wait(o.timer.fired())
	}
	if len(batch) == 0 && o.node.failed != nil {
		return events
	}
	if len(batch) == 0 {
		o.timer.end()
		events = append(events, flow.Event{Of: o.timer.id, Committed: o.attempts.committed()})
		o.timer = nil
		return events
	}
	for _, a := range batch {
		events = append(events, flow.Event{Of: a.command, Committed: o.attempts.committed()})
	}
	return events
}

// recalledArrivals returns the running attempt whose recorded end comes next. It returns
// an empty slice if the timer fired before that end or a strict replay lacks the record,
// and nil if no end of a running attempt is recorded.
func (o *operation) recalledArrivals() []*attempt {
	past, calls := o.attempts.past, o.parallel
	a, timer := past.next(calls.recalled, o.timer != nil)
	switch {
	case a != nil:
		calls.recalled = slices.DeleteFunc(calls.recalled, func(r *attempt) bool { return r == a })
		return []*attempt{a}
	case timer:
		return []*attempt{}
	case past.replays():
		o.node.Fail(replayMiss(&o.node, "the end of a parallel attempt is not recorded"))
		return []*attempt{}
	}
	return nil
}

// find looks for a candidate that was not tried.
func (o *operation) find(ctx context.Context, c *flow.Command, e *flow.Event) {
	o.funds.Joins = c.Joins
	if c.Wait {
		o.search.await(ctx)
	} else {
		o.search.next()
	}
	o.funds.Joins = false
	e.Situation.Accepted = o.candidates.binding.Accepted
}

// start starts an attempt.
func (o *operation) start(ctx context.Context, c *flow.Command, e *flow.Event) {
	entrant := ""
	if c.Parallel {
		entrant = o.strategy.name
	}
	o.request.setRound(c.Round, c.Repair)
	o.funds.Joins = c.Joins
	a, failure := o.attempts.start(ctx, c.CapID, entrant)
	o.funds.Joins = false
	if e.Failure = failure; failure != nil {
		o.afterFailure(e)
		return
	}
	e.Attempt = a.number
}

// evaluate evaluates an ended attempt (see attempts.finish) and sets the event.
func (o *operation) evaluate(ctx context.Context, a *attempt, e *flow.Event) {
	e.Failure = o.attempts.finish(ctx, a)
	if o.parallel != nil {
		e.Committed = o.attempts.committed()
	}
	if e.Failure != nil {
		o.afterFailure(e)
		return
	}
	if result := &o.attempts.result; o.strategy.name == policy.Tournament {
		e.Score, e.Cost = result.Verdict.Score.Value(), result.Usage.Key("cost-usd")
		o.accepted = append(o.accepted, *result)
	}
}

// afterFailure ends the repair round of a failed attempt. If the budget limits the
// number of calls, it adds the situation to the event.
func (o *operation) afterFailure(e *flow.Event) {
	o.request.setRound(0, edn.Nil())
	if o.funds.Limited() {
		o.search.next()
		e.Situation = o.situation("")
	}
}

// situation describes the candidates at this moment; capID is the one that
// failed.
func (o *operation) situation(capID string) flow.Situation {
	s := flow.Situation{Accepted: o.candidates.binding.Accepted, Returning: o.candidates.returning()}
	if capID != "" {
		s.ComesBack = o.attempts.comesBack(capID)
	}
	s.Left, s.Limited = o.funds.CallsLeft()
	return s
}

// awaitRetry waits until a candidate may be called again: for the backoff, and
// after a crash for its process.
func (o *operation) awaitRetry(ctx context.Context, c *flow.Command, e *flow.Event) {
	if e.Ready = o.attempts.past.has(c.CapID); e.Ready {
		return
	} else if o.attempts.past.replays() || o.leftBefore() {
		o.search.next()
		e.Situation = o.situation(c.CapID)
		return
	}
	n, f := &o.node, c.Failure
	if wait := o.delays.backoff(c.Try, f.Err); wait > 0 && !f.Undelivered && !n.sleep(ctx, wait) {
		e.Late, e.Expired = true, n.expired(ctx)
		return
	}
	if c.Wait {
		begun := n.now()
		err := n.awaitReady(ctx, c.CapID)
		o.search.waited += n.now().Sub(begun)
		e.Ready = err == nil
	} else {
		reason := o.candidates.may.of(c.CapID).Reason
		if e.Ready = reason == ""; reason == policy.ReasonBudget {
			e.Failure = o.attempts.overBudget(ctx, o.funds.Shortfall())
		}
	}
	if !e.Ready {
		e.Expired = n.expired(ctx)
		o.search.next()
		e.Situation = o.situation(c.CapID)
	}
}

// leftBefore reports whether the record shows that the operation left the candidate that it now
// would call again: the next one, or another one that is to be retried, has a recorded attempt.
func (o *operation) leftBefore() bool {
	past := o.attempts.past
	if past == nil || past.fills() || len(past.ended) == 0 {
		return false
	}
	next, _ := o.search.next()
	return slices.ContainsFunc(past.ended, func(t *journal.Tried) bool {
		return t.Started.CapID == next || o.machine.Tried(t.Started.CapID)
	})
}

// end completes the result.
func (o *operation) end(c *flow.Command) {
	result := &o.attempts.result
	switch f := c.Failure; {
	case c.Attempt > 0:
		if i := slices.IndexFunc(o.accepted, func(r Result) bool { return r.Attempt == c.Attempt }); i >= 0 {
			attempts, once := result.Attempts, result.DoneOnce
			*result = o.accepted[i]
			result.Attempts, result.DoneOnce = attempts, once
		}
		result.Outscored = c.Outscored
		if a := o.attempts.get(c.Attempt); !a.inconclusive {
			o.candidates.learn(a, true)
		}
	case f == nil:
		o.fail(o.noCandidate())
	default:
		if err := o.stoppedAtBudget(f); err != nil {
			o.fail(err)
			return
		}
		o.fail(f.Err)
	}
}

// stoppedAtBudget returns the error of a node that would have continued with a
// larger budget, else nil.
func (o *operation) stoppedAtBudget(f *flow.Failure) *contract.Error {
	shortfall := o.funds.Shortfall()
	if shortfall == nil || f.OverBudget || !o.machine.GoesOn(f) {
		return nil
	}
	return flow.BudgetError(shortfall, f.Err)
}

// stopAll stops the timer and the calls that still run when the operation ends early,
// and settles their reservations.
func (o *operation) stopAll() {
	o.timer.end()
	o.parallel.stopAll(func(a *attempt) {
		usage := mapOrNil(a.answer.Response.Key("result").Key("usage"))
		o.funds.Settle(&a.reservation, funds.Settlement{Usage: usage, Unknown: usage.IsNil()})
	})
}

// limitsOf are the limits of the candidates of an operation.
type limitsOf node

var _ flow.Limits = (*limitsOf)(nil)

// Retries implements flow.Limits.
func (l *limitsOf) Retries(failureType string) int { return l.w.Policy.Retries(failureType) }

// Repairs implements flow.Limits.
func (l *limitsOf) Repairs(capID string) int {
	if c, ok := l.d.Registry.Capability(capID); ok && c.Repairs {
		return l.w.Policy.RepairMax
	}
	return 0
}
