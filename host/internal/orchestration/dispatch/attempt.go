package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// attempt makes one call and judges its answer. Nil means that the answer was
// accepted and the result is complete.
func (o *operation) attempt(ctx context.Context, capID string) *Failure {
	e := &o.scratch.entrant
	if failure := o.begin(ctx, e, capID, ""); failure != nil || o.failed != nil {
		return failure
	}
	o.shadow(e)
	e.answer, e.err = o.invoke(ctx, e)
	e.ended = o.d.Clock.Now()
	return o.finish(ctx, e, &o.scratch.tried)
}

// entrant is one attempt from its start to its answer.
type entrant struct {
	capability *registry.Capability
	recovery   contract.RecoveryClass
	number     int
	call       Call
	asked      prompt.Composed // of a language model
	limits     limits
	started    time.Time
	page       *page // nil without a book
	ticket     breaker.Ticket
	voice      *voice // nil unless the run streams this node
	expense    expense

	answer Answer
	err    error
	spoke  time.Time // its first piece; zero: nobody listened, or there was none
	ended  time.Time

	// Of an attempt that runs beside others.
	rank     int // among the candidates
	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed when another answer was accepted
	drained  bool          // stop is closed
	lost     bool          // stop was closed before the call ended
	panicked any           // a defect, for the goroutine that serves
}

// begin records the start of an attempt. The strategy under which it may run
// beside others is empty for a step of a cascade.
func (o *operation) begin(ctx context.Context, e *entrant, capID, strategy string) *Failure {
	c, ok := o.d.Registry.Capability(capID)
	if !ok {
		return o.failure(ctx, nil, contract.Errorf("runtime/internal", "dispatch %s: candidate :%s left the registry", o.w.Node, capID))
	}
	st := o.d.Executor.State(capID)
	scopes, err := o.scopes(c)
	if err != nil {
		return o.failure(ctx, nil, err)
	}
	page := o.page(capID)
	ticket, err := o.admitted(page, c)
	for err != nil && strategy == "" && o.lastHope(ctx, page) {
		ticket, err = o.admitted(page, c)
	}
	if err != nil {
		return o.keptOut(ctx, capID, err)
	}
	expense, err := o.reserve(ctx, c, o.purpose(strategy), o.number+1, !o.beside)
	if err != nil {
		if page != nil { // it was let in and does not come
			page.report(o.d.Clock.Now(), ticket, breaker.Ignored, 0, 0)
		}
		return o.tooDear(ctx, err)
	}
	o.number++
	limits := o.limits(c)
	asked := o.asks(c)
	*e = entrant{asked: asked,
		page: page, ticket: ticket, capability: c, recovery: recoveryOf(c, o.w.Input, scopes),
		number: o.number, limits: limits, call: o.call(c, limits.end, scopes, &expense, asked), expense: expense,
		voice: o.w.Flow.speak(o.mode, o.number),
	}
	if how, ok := o.w.Terms.cleaning(c); ok {
		e.voice.cleaned(how)
	}
	begin := o.startedRecord()
	*begin = journal.AttemptStarted{
		Attempt:     o.number,
		CapID:       capID,
		CapVersion:  c.Version,
		Request:     journal.RefTo(e.call.Request),
		Effects:     c.Effects,
		Recovery:    e.recovery.String(),
		EffectKey:   e.call.EffectKey,
		Binary:      st.Binary,
		Generation:  st.Generation,
		Enforcement: st.Enforcement,
		Round:       o.round,
		Entrant:     strategy,
		Budget:      expense.amount(),
		Waited:      o.waited,
	}
	o.waited = 0
	o.record(begin)
	if o.failed != nil {
		return nil
	}
	if o.number == 1 && o.w.Begun != nil {
		o.w.Begun()
	}
	e.started = o.d.Clock.Now()
	return nil
}

// lastHope waits for the breaker of a candidate behind which nobody is left, if
// that is in time.
func (o *operation) lastHope(ctx context.Context, p *page) bool {
	if _, left := o.next(); left {
		return false
	}
	wait, ok := p.reopensIn(o.d.Clock.Now())
	return ok && o.inTime(ctx, wait) && o.d.Clock.Wait(ctx, wait) == nil
}

// keptOut is what happens when somebody else became the probe of a breaker in
// this moment: nobody was asked, and the next candidate is.
func (o *operation) keptOut(ctx context.Context, capID string, err *contract.Error) *Failure {
	o.remember(capID, answer{})
	f := o.failure(ctx, nil, err)
	f.Class, f.Matched, f.Over = contract.ClassSwitch, true, o.over(ctx)
	return f
}

// finish makes of an answer, or of its absence, a verdict. t is room for what is
// known on the way.
func (o *operation) finish(ctx context.Context, e *entrant, t *tried) *Failure {
	e.account(t)
	if e.err != nil {
		o.lost(ctx, t, contract.AsError(e.err), e.limits, e.ended)
	} else {
		o.read(t, e.answer)
	}
	failure := o.conclude(ctx, t)
	if e.err == nil && o.failed == nil {
		o.tell(e, t)
	}
	return failure
}

func (e *entrant) account(t *tried) {
	*t = tried{asked: e.asked, expense: e.expense, page: e.page, ticket: e.ticket, began: e.started, edition: e.answer.Edition, process: e.answer.Generation, capability: e.capability, recovery: e.recovery, latency: e.ended.Sub(e.started), attempt: e.number, voice: e.voice}
	if e.limits.extended && !e.limits.soft.IsZero() && e.ended.After(e.limits.soft) {
		t.extended = e.ended.Sub(e.limits.soft)
	}
	if !e.spoke.IsZero() {
		t.heard = max(e.spoke.Sub(e.started), 1)
	}
}

// tried is one attempt from its answer to its verdict.
type tried struct {
	capability *registry.Capability
	recovery   contract.RecoveryClass
	attempt    int
	latency    time.Duration
	extended   time.Duration

	response edn.Value // normalised envelope; nil without an answer
	raw      edn.Value // what clean-up made it of; nil if that changed nothing
	kind     string    // result type
	meta     edn.Value
	usage    edn.Value
	walk     func(context.Context) Child

	page    *page
	ticket  breaker.Ticket
	began   time.Time
	edition int           // that answered
	process int           // likewise its number; 0: nobody was asked
	heard   time.Duration // until its first piece; 0: there was none
	voice   *voice
	expense expense
	asked   prompt.Composed
	late    bool // the node ran out of time, whoever was asked

	err      *contract.Error
	outcome  Outcome
	label    string // of the record
	crashed  bool
	doneOnce bool
}

// conclude records how the attempt ended, walks a plan answer, asks the gates,
// and says what went wrong, if anything did.
func (o *operation) conclude(ctx context.Context, t *tried) *Failure {
	if t.outcome == Unknown && t.recovery == contract.RecoveryOnce {
		t.err = contract.Errorf("effects/outcome-unknown",
			"node %s: whether :%s did its work is not known: %s", o.w.Node, t.capability.ID, t.err.Message).
			WithCause(t.err).WithDetail("effect/key", edn.Text(o.effectKey()))
		t.doneOnce = true
	}
	t.voice.pause()
	o.recordEnd(t)
	o.settle(&t.expense, t.ending())
	o.count(t)
	o.result.DoneOnce = o.result.DoneOnce || t.doneOnce || (t.err == nil && t.recovery == contract.RecoveryOnce)
	var planRun, findings edn.Value
	out := t.response.Key("result").Key("out")
	if t.err == nil && t.walk != nil {
		child := o.walked(ctx, t.walk)
		out, planRun = child.Out, child.Run
		t.doneOnce = t.doneOnce || child.DoneOnce
		o.result.DoneOnce = o.result.DoneOnce || child.DoneOnce
		if child.Err != nil {
			t.err, t.outcome = asAttemptError(child.Err), answered(t.recovery)
		}
	}
	if t.err == nil && t.voice.contradicts(out) {
		t.err, t.outcome = contradiction(":"+t.capability.ID), answered(t.recovery)
	}
	if t.err == nil && o.failed == nil {
		o.unpaid = nil
		verdict, judged := o.judge(ctx, t, out)
		o.result.Verdict, o.result.Judged = verdict, judged
		if !verdict.Pass {
			findings = findingsValue(&verdict)
			t.err, t.outcome = o.gateError(t, &verdict, findings), Judged
			if o.unpaid != nil {
				t.err = o.unpaid // nobody knows whether the answer is good
			}
		}
		if judged && verdict.Pass && !o.inconclusive() {
			o.judged(t.sample(), true, verdict.Score)
		}
	}
	if t.err != nil {
		t.err = t.voice.fail(t.err, t.outcome == Judged, t.err.Class == contract.ClassFinal || o.over(ctx))
	}
	o.list(t)
	r := &o.result
	r.voice = t.voice
	r.CapID, r.Attempt, r.Response, r.Out = t.capability.ID, t.attempt, t.response, out
	r.Meta, r.Usage, r.PlanRun, r.Findings = t.meta, t.usage, planRun, findings
	if t.err != nil {
		f := o.failure(ctx, t, t.err)
		f.Out, f.Findings, f.Score = out, findings, t.err.Details.Key("score")
		if t.outcome == Judged && !o.inconclusive() {
			f.owed = t.sample()
		}
		return f
	}
	r.Degraded = o.degraded(t.capability.ID)
	return nil
}

// sample is the verdict on the attempt, as the book takes it.
// An answer that is a plan is none: others have answered for it.
func (t *tried) sample() sample {
	if t.walk != nil {
		return sample{}
	}
	return sample{page: t.page, edition: t.edition, began: t.began, attempt: t.attempt}
}

// recordEnd writes how the attempt ended, before the gates judge the answer.
func (o *operation) recordEnd(t *tried) {
	end := o.finishedRecord()
	*end = journal.AttemptFinished{
		Attempt:    t.attempt,
		Outcome:    t.label,
		Latency:    t.latency,
		Usage:      t.usage,
		Result:     refOrNone(t.response),
		Raw:        refOrNone(t.raw),
		ResultType: t.kind,
		Meta:       t.meta,
		Err:        t.err,
		Extended:   t.extended,
	}
	o.record(end)
}

// list adds the attempt to the account of the node.
func (o *operation) list(t *tried) {
	failureType := ""
	if t.err != nil {
		failureType = t.err.Type
	}
	o.result.Attempts = append(o.result.Attempts, Attempt{
		CapID: t.capability.ID, Failure: failureType, Latency: t.latency, Cost: t.usage.Key("cost-usd"),
	})
}

// count tells the book how an attempt ended.
func (o *operation) count(t *tried) {
	if t.page == nil {
		return
	}
	outcome := outcomeOf(t.err)
	if t.late || t.label == journal.OutcomeCanceled {
		outcome = breaker.Ignored
	}
	if outcome == breaker.Failure && t.crashed && t.page.crashed(t.err) {
		outcome = breaker.Ignored
	}
	now := o.d.Clock.Now()
	outcome = o.bereaved(now, t.capability.ID, t.process, t.meta, t.err, outcome)
	u := 0.0
	if outcome == breaker.Failure {
		u = Rand(o.run.Seed, o.w.Path, -o.number).Float64()
	}
	if tripping(t.err) {
		t.page.trip(now, t.edition, t.err)
		return
	}
	t.page.report(now, t.ticket, outcome, retryAfter(t.err), u)
	if outcome == breaker.Success {
		t.page.served(t.latency, speedOf(t.usage, t.heard), t.usage.Key("cost-usd"))
	}
}

// inconclusive tells whether the last verdict says nothing about the answer: a
// check or the judge could not judge, or the judge is not well itself (BRK-007).
func (o *operation) inconclusive() bool {
	return o.unsound || !answeredByChecks(o.result.Verdict)
}

// refused counts a refused answer against its capability, once, when it is
// known that it was not repaired.
func (o *operation) refused(f *Failure) {
	if f != nil {
		o.judged(f.owed, false, quality.Perfect)
		f.owed = sample{}
	}
}

// asAttemptError makes the failure of a child plan the failure of the attempt
// that answered with it: another candidate may do better, unless the run itself
// is at its end.
func asAttemptError(e *contract.Error) *contract.Error {
	switch e.Type {
	case "canceled", "runtime/internal", "effects/outcome-unknown", "plan/too-deep", "plan/too-large":
		return e
	default:
		return e.WithClass(contract.ClassSwitch)
	}
}

// failure describes a failed attempt to the attempt table.
func (o *operation) failure(ctx context.Context, t *tried, err *contract.Error) *Failure {
	f := &Failure{Err: err, Class: err.Class}
	set := o.w.Terms.SwitchOn
	f.Matched = set.Matches(err)
	if t == nil {
		return f
	}
	f.Outcome, f.Recovery = t.outcome, t.recovery
	f.Deterministic = t.capability.Deterministic
	f.Crashed = t.crashed
	if f.Unasked = t.process == 0 && err.Type == policy.ReasonNotReady; f.Unasked {
		f.Class, f.Matched = contract.ClassSwitch, true // as if it had not been bound (BIND-005)
	}
	f.DoneOnce, f.Done = t.doneOnce, o.done
	o.done = o.done || t.outcome == Judged && t.recovery != contract.RecoveryNone
	f.Bound = t.voice.bound()
	f.RepairAsked = o.w.Terms.RepairAsked
	f.Over = o.over(ctx)
	if t.crashed {
		f.ComesBack = o.d.Executor.State(t.capability.ID).comesBack()
	}
	return f
}

// invoke makes the call under the deadline of the attempt. A call that must not
// happen twice is not cut off because a sibling failed: it is awaited under the
// life of the run.
func (o *operation) invoke(ctx context.Context, e *entrant) (Answer, error) {
	call, l := e.call, e.limits
	if e.recovery == contract.RecoveryOnce {
		ctx = o.run.Base
	}
	if !l.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.end)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, contract.AsError(err)
	}
	if e.voice.live() {
		own, stop := context.WithCancel(ctx)
		defer stop()
		ctx, call.OnDelta = own, func(piece edn.Value) {
			select {
			case <-e.stop:
				return // a loser is not heard any more
			default:
			}
			if e.spoke.IsZero() {
				e.spoke = o.d.Clock.Now()
			}
			e.voice.hear(own, piece, stop)
		}
	}
	answer, err := o.d.Executor.Invoke(ctx, call)
	if broken := e.voice.broken(); broken != nil {
		return Answer{}, broken
	}
	awaitOwnDeadline(ctx, err)
	return answer, err
}

// deadlineSkew is how much earlier than here a deadline may pass at the other
// end of a call.
const deadlineSkew = 50 * time.Millisecond

// awaitOwnDeadline waits for the deadline of a call that has passed at the
// plugin already: which of the two clocks is ahead must not decide whose
// deadline it was.
func awaitOwnDeadline(ctx context.Context, err error) {
	deadline, bounded := ctx.Deadline()
	if bounded && errors.Is(err, contract.OfType("timeout/hard")) && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
}

// lost explains a call that gave no answer. What the executor saw is overruled
// by what the host knows: whether somebody canceled, and which limit passed.
func (o *operation) lost(ctx context.Context, t *tried, err *contract.Error, l limits, now time.Time) {
	t.label, t.err = journal.OutcomeError, err
	late := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	base := o.run.Base.Err()
	switch {
	case errors.Is(base, context.Canceled), base == nil && ctx.Err() != nil && !late(o.w.Deadline) && t.recovery != contract.RecoveryOnce:
		t.err = contract.Errorf("canceled", "node %s: the call to :%s was canceled", o.w.Node, t.capability.ID)
		t.label, t.outcome = journal.OutcomeCanceled, Unknown
		return
	case o.w.Wall && base == nil && late(o.w.Deadline):
		t.err = o.wallSpent().WithCause(cause(err))
		t.label, t.outcome, t.late = journal.OutcomeUnknown, Unknown, true
		return
	case errors.Is(base, context.DeadlineExceeded), late(o.w.Deadline):
		t.err = contract.Errorf("timeout/hard", "node %s: the deadline passed while :%s worked", o.w.Node, t.capability.ID).WithCause(cause(err))
		t.label, t.outcome, t.late = journal.OutcomeUnknown, Unknown, true
		return
	case late(l.end):
		t.err = contract.Errorf("timeout/soft", "node %s: :%s did not answer within %s", o.w.Node, t.capability.ID, l.given()).WithCause(cause(err))
		t.label, t.outcome = journal.OutcomeUnknown, Unknown
		return
	}
	err = o.disowned(t, err)
	t.err = err
	if unknownOutcome(err) {
		t.label, t.outcome = journal.OutcomeUnknown, Unknown
		t.crashed = err.Type == "runtime/crashed" || err.Type == "runtime/unresponsive"
	}
}

// disowned takes from a capability what only the host can say: that the run was
// canceled, that the host has a defect, that a race was lost. A capability that
// says so while the run lives on has simply failed (ATT-003). What it could not
// spend says nothing about what another candidate needs.
func (o *operation) disowned(t *tried, err *contract.Error) *contract.Error {
	switch err.Type {
	case "canceled", "runtime/internal", "race/lost":
		return contract.Errorf("runtime/invoke-failed", "node %s: :%s returned the reserved error type :%s: %s", o.w.Node, t.capability.ID, err.Type, err.Message).WithCause(err)
	case "budget/exceeded":
		return err.WithClass(contract.ClassSwitch)
	}
	return err
}

// cause keeps what the executor reported unless it only repeats the timeout.
func cause(err *contract.Error) *contract.Error {
	if err.Type == "timeout/hard" || err.Type == "canceled" {
		return nil
	}
	return err
}

// unknownOutcome tells whether the work may have been done although no answer
// came. An error that the capability itself reports means "not done", unless it
// says otherwise.
func unknownOutcome(err *contract.Error) bool {
	if saysUnknown(err) {
		return true
	}
	switch err.Type {
	case "runtime/crashed", "runtime/unresponsive", "timeout/hard", "canceled", "stream/truncated", "runtime/protocol":
		return true
	default:
		return false
	}
}

func saysUnknown(err *contract.Error) bool {
	state, _ := err.Details.Key("effect/state").AsKeyword()
	return state == "unknown"
}

// answered is the outcome of an answer that is of no use: whatever effect the
// call had has happened.
func answered(recovery contract.RecoveryClass) Outcome {
	if recovery == contract.RecoveryNone {
		return Definite
	}
	return Judged
}

// read checks the form of an answer.
func (o *operation) read(t *tried, a Answer) {
	t.label = journal.OutcomeOK
	response, err := contract.CheckResponse(a.Response, o.wanted(t.capability))
	if err != nil {
		err = o.disowned(t, err)
		t.err, t.label = err, journal.OutcomeError
		t.usage = mapOrNil(a.Response.Key("result").Key("usage"))
		switch {
		case saysUnknown(err):
			t.outcome, t.label = Unknown, journal.OutcomeUnknown
		case err.Type == "runtime/invalid-result":
			t.outcome = answered(t.recovery)
		}
		return
	}
	result := response.Key("result")
	t.usage = mapOrNil(result.Key("usage"))
	t.meta = o.w.Terms.meta(response.Key("invoke/meta"), t.capability, &a)
	if t.asked.Hash != "" {
		t.meta = t.meta.AssocKey("prompt/hash", edn.Text(t.asked.Hash))
	}
	t.kind, _ = result.Key("type").AsKeyword()
	switch t.kind {
	case "plan":
		if o.w.Around == nil {
			t.err = contract.Errorf("plan/invalid", "node %s: a plan is no answer here", o.w.Node).WithSource(contract.SourcePlugin)
			break
		}
		t.walk, t.err = o.w.Around.Plan(PlanAnswer{Attempt: t.attempt, CapID: t.capability.ID, Plan: result.Key("plan"), Bindings: result.Key("bindings"), Flow: t.voice.flow})
	default:
		if response, t.err = o.clean(t, response); t.err != nil {
			t.outcome, t.kind = answered(t.recovery), ""
		} else if t.kind == "value" {
			response = o.coerce(response, response.Key("result"))
			if t.err = o.w.Terms.allowed(t.capability, response.Key("result").Key("out")); t.err != nil {
				t.outcome = answered(t.recovery)
			}
		}
	}
	if t.err != nil {
		t.label = journal.OutcomeError
	}
	t.response = response
}

// coerce gives an answer that came as JSON the kinds that its schema asks for.
func (o *operation) coerce(response, result edn.Value) edn.Value {
	sch := o.w.Terms.out
	out := result.Key("out")
	if sch == nil || sch.Valid(out) {
		return response
	}
	better := sch.CoerceJSON(out)
	if !sch.Valid(better) {
		return response
	}
	return response.AssocKey("result", result.AssocKey("out", better))
}

func refOrNone(v edn.Value) journal.Ref {
	if v.IsNil() {
		return journal.Ref{}
	}
	return journal.RefTo(v)
}

func mapOrNil(v edn.Value) edn.Value {
	if v.Kind() != edn.KindMap {
		return edn.Nil()
	}
	return v
}
