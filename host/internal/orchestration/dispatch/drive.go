package dispatch

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Observer sees an operation as its machine does: its rules, and then each event
// with the commands that are open afterwards. From the rules and the first
// events another machine gets into the same state. It is called on the goroutine
// of the operation and must not keep or change open.
type Observer func(flow.Rules) func(e flow.Event, open []flow.Command)

// drive carries out the commands of the machine until the operation has ended.
func (o *operation) drive(ctx context.Context) {
	rules := o.rules()
	if o.strategy.name != policy.Cascade {
		o.besides = &besides{clock: o.d.Clock, arrivals: make(chan *attempt, o.strategy.candidates)}
		defer o.stopAll()
	}
	observe := func(flow.Event, []flow.Command) {}
	if o.d.Observer != nil {
		observe = o.d.Observer(rules)
	}
	commands, events := o.machine.Begin(rules), o.scratch.events[:0]
	for {
		for i := range commands {
			c := &commands[i]
			if c.Kind == flow.Finish {
				o.end(c)
				return
			}
			events = o.perform(ctx, c, events)
			if o.failed != nil { // what cannot be recorded does not go on
				o.result.Err = contract.AsError(o.failed)
				return
			}
		}
		if len(events) == 0 {
			events = o.arrivals(events)
		}
		commands = o.machine.Apply(events[0])
		observe(events[0], o.machine.Open())
		if events = events[1:]; len(events) == 0 {
			events = o.scratch.events[:0]
		}
	}
}

// rules returns what this operation may do.
func (o *operation) rules() flow.Rules {
	s := o.strategy
	return flow.Rules{
		Node: o.w.Node, Strategy: s.name, Width: s.width, Joining: s.max, After: s.after, MaxCandidates: s.candidates,
		Limits: (*limitsOf)(o), SwitchOn: o.w.Policy.SwitchOn,
	}
}

// perform carries out a command and adds the event that answers it, unless that
// comes later.
func (o *operation) perform(ctx context.Context, c *flow.Command, events []flow.Event) []flow.Event {
	e := flow.Event{Of: c.ID}
	switch c.Kind {
	case flow.Find:
		o.find(ctx, c, &e)
	case flow.Start:
		o.start(ctx, c, &e)
	case flow.Call:
		a := o.attempt(c.Attempt)
		if c.Beside {
			a.command = c.ID
			o.besides.call(ctx, a, o.invoke)
			return events
		}
		o.shadow(a)
		a.answer, a.err = o.invoke(ctx, a)
		a.ended = o.d.Clock.Now()
	case flow.Judge:
		o.evaluate(ctx, o.attempt(c.Attempt), &e)
	case flow.Discard:
		o.recordLoser(o.attempt(c.Attempt))
	case flow.Refuse:
		o.recordVerdict(c.Attempt, o.owed[c.Attempt], false, quality.Perfect)
	case flow.Look:
		if c.Failure != nil && c.Failure.Undelivered || !o.machine.Exhausted() {
			o.binding = o.bind()
		}
		e.Situation = o.situation(c.CapID)
	case flow.Ready:
		o.awaitRetry(ctx, c, &e)
	case flow.Timer:
		o.timer = startTimer(ctx, o.d.Clock, c.ID, c.After)
		return events
	case flow.Stop:
		if c.Attempt > 0 {
			o.besides.stop(o.attempt(c.Attempt))
			return events
		}
		o.timer.end()
		o.timer, e.Of = nil, c.Target
	}
	return append(events, e)
}

// arrivals waits for the calls and the timer that are in progress.
func (o *operation) arrivals(events []flow.Event) []flow.Event {
	batch := o.besides.wait(o.timer.fired())
	if batch == nil {
		o.timer.end()
		events = append(events, flow.Event{Of: o.timer.id, Committed: o.committed()})
		o.timer = nil
		return events
	}
	for _, a := range batch {
		events = append(events, flow.Event{Of: a.command, Committed: o.committed()})
	}
	return events
}

// committed returns the attempt whose text cannot be retracted; 0: none, -1: one
// of another operation.
func (o *operation) committed() int {
	if !o.w.Stream.Committed() {
		return 0
	}
	for _, a := range o.attempts {
		if a.stream.Committed() {
			return a.number
		}
	}
	return -1
}

// find looks for a candidate that was not tried.
func (o *operation) find(ctx context.Context, c *flow.Command, e *flow.Event) {
	o.joins = c.Joins
	if c.Wait {
		o.awaitRespawn(ctx)
	} else {
		o.next()
	}
	o.joins = false
	e.Situation.Accepted = o.binding.Accepted
}

// start records the start of an attempt.
func (o *operation) start(ctx context.Context, c *flow.Command, e *flow.Event) {
	a, entrant := &o.scratch.attempt, ""
	if c.Beside {
		a, entrant = &attempt{}, o.strategy.name
		o.attempts = append(o.attempts, a)
	}
	o.setRound(c.Round, c.Repair)
	o.joins = c.Joins
	e.Failure = o.begin(ctx, a, c.CapID, entrant)
	o.joins = false
	if e.Failure != nil {
		o.afterFailure(e)
	}
	e.Attempt = a.number
}

// setRound sets the repair round; each has an effect key of its own.
func (o *operation) setRound(round int, repair edn.Value) {
	if o.round != round {
		o.round, o.repairContext, o.key = round, repair, ""
	}
}

// attempt returns an attempt by its number: one that runs beside others, or the
// one that runs alone.
func (o *operation) attempt(number int) *attempt {
	for _, a := range o.attempts {
		if a.number == number {
			return a
		}
	}
	return &o.scratch.attempt
}

// evaluate evaluates the answer of an attempt or its absence.
func (o *operation) evaluate(ctx context.Context, a *attempt, e *flow.Event) {
	r := &o.scratch.result
	if o.besides != nil {
		r = new(attemptResult)
	}
	e.Failure = o.finish(ctx, a, r)
	if o.besides != nil {
		e.Committed = o.committed()
	}
	if e.Failure != nil {
		o.afterFailure(e)
		return
	}
	e.Score, e.Cost = o.result.Verdict.Score.Value(), o.result.Usage.Key("cost-usd")
	if o.strategy.name == policy.Tournament {
		o.accepted = append(o.accepted, o.result)
	}
}

// afterFailure ends the repair round of a failed attempt, and adds what the
// budget leaves.
func (o *operation) afterFailure(e *flow.Event) {
	o.setRound(0, edn.Nil())
	if o.limited() {
		o.next()
		e.Situation = o.situation("")
	}
}

// limited reports whether a budget limits the number of calls.
func (o *operation) limited() bool {
	return o.w.Budget.Bounds(policy.Roundtrips) || o.w.Budget.Bounds(policy.Attempts)
}

// situation describes the candidates at this moment; capID is the one that
// failed.
func (o *operation) situation(capID string) flow.Situation {
	s := flow.Situation{Accepted: o.binding.Accepted, Returning: o.returning()}
	if capID != "" {
		s.ComesBack = o.d.Executor.State(capID).willReturn()
	}
	if !o.limited() {
		return s
	}
	left, err := o.run.Account.Left(o.run.Base, o.w.Budget)
	if err != nil {
		return s
	}
	for _, d := range []policy.Dimension{policy.Roundtrips, policy.Attempts} {
		if n := left.Amounts().Count(d); o.w.Budget.Bounds(d) && (!s.Limited || n < s.Left) {
			s.Limited, s.Left = true, n
		}
	}
	return s
}

// awaitRetry waits until a candidate may be called again: for the backoff, and
// after a crash for its process.
func (o *operation) awaitRetry(ctx context.Context, c *flow.Command, e *flow.Event) {
	f := c.Failure
	if wait := o.backoff(c.Try, f.Err); wait > 0 && !f.Undelivered {
		if !o.inTime(ctx, wait) || o.d.Clock.Wait(ctx, wait) != nil {
			e.Late, e.Expired = true, o.expired(ctx)
			return
		}
	}
	if c.Wait {
		begun := o.d.Clock.Now()
		err := o.awaitReady(ctx, c.CapID)
		o.waited += o.d.Clock.Now().Sub(begun)
		e.Ready = err == nil
	} else {
		reason := o.unavailability(c.CapID).Reason
		if e.Ready = reason == ""; reason == policy.ReasonBudget {
			e.Failure = o.overBudget(ctx, o.shortfall)
		}
	}
	if !e.Ready {
		e.Expired = o.expired(ctx)
		o.next()
		e.Situation = o.situation(c.CapID)
	}
}

// end completes the result.
func (o *operation) end(c *flow.Command) {
	switch f := c.Failure; {
	case c.Attempt > 0:
		if i := slices.IndexFunc(o.accepted, func(r Result) bool { return r.Attempt == c.Attempt }); i >= 0 {
			attempts, once := o.result.Attempts, o.result.DoneOnce
			o.result = o.accepted[i]
			o.result.Attempts, o.result.DoneOnce = attempts, once
		}
		o.result.Outscored = c.Outscored
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

// stopAll ends what still runs when the operation ends early.
func (o *operation) stopAll() {
	o.timer.end()
	o.besides.stopAll(func(a *attempt) {
		usage := mapOrNil(a.answer.Response.Key("result").Key("usage"))
		o.settle(&a.reservation, settlement{usage: usage, unknown: usage.IsNil()})
	})
}

// limitsOf are the limits of the candidates of an operation.
type limitsOf operation

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
