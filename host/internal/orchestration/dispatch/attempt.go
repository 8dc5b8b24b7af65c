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
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// attempt is one dispatch to one candidate, from its start to its answer.
type attempt struct {
	capability  *registry.Capability
	recovery    contract.RecoveryClass
	number      int
	call        Call
	prompt      prompt.Composed // of a language model, else zero
	limits      limits
	started     time.Time
	stats       *stats.Candidate // nil without statistics
	permit      breaker.Permit
	stream      *stream.Attempt // nil unless the run streams this node
	reservation reservation

	answer     Answer
	err        error
	firstPiece time.Time // when the first piece of text came; zero: none came or the node is not streamed
	ended      time.Time

	// Used by parallel attempts only.
	command  int // ID of the call
	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed when another answer was accepted
	lost     bool          // stop was closed before the call ended
	panicked any           // panic value, raised again on the goroutine of the operation
}

// begin records the start of an attempt. strategy names the parallel strategy;
// empty: a step of a cascade.
func (o *operation) begin(ctx context.Context, a *attempt, capID, strategy string) *flow.Failure {
	c, ok := o.d.Registry.Capability(capID)
	if !ok {
		return o.failure(ctx, nil, contract.Errorf("runtime/internal", "dispatch %s: candidate :%s left the registry",
			o.w.Node, capID))
	}
	st := o.d.Executor.State(capID)
	scopes, err := o.scopes(c)
	if err != nil {
		return o.failure(ctx, nil, err)
	}
	cs := o.stats(capID)
	permit, err := o.acquirePermit(cs, c)
	for err != nil && strategy == "" && o.awaitLastBreaker(ctx, cs) {
		permit, err = o.acquirePermit(cs, c)
	}
	if err != nil {
		return o.probeLost(ctx, capID, err)
	}
	reservation, err := o.reserve(ctx, c, o.purpose(strategy), o.number+1, !o.joins)
	if err != nil {
		cs.Return(o.d.Clock.Now(), permit)
		return o.overBudget(ctx, err)
	}
	o.number++
	limits := o.limits(c)
	asked := o.composePrompt(c)
	*a = attempt{
		capability:  c,
		recovery:    recoveryOf(c, o.w.Input, scopes),
		number:      o.number,
		call:        o.call(c, limits.end, scopes, &reservation, asked),
		prompt:      asked,
		limits:      limits,
		stats:       cs,
		permit:      permit,
		stream:      o.w.Stream.ForAttempt(o.mode, o.number),
		reservation: reservation,
	}
	if how, ok := o.w.Policy.cleaning(c); ok {
		a.stream.CleanWith(how)
	}
	begin := o.startedRecord()
	*begin = journal.AttemptStarted{
		Attempt:     o.number,
		CapID:       capID,
		CapVersion:  c.Version,
		Request:     journal.RefTo(a.call.Request),
		Effects:     c.Effects,
		Recovery:    a.recovery.String(),
		EffectKey:   a.call.EffectKey,
		Binary:      st.Binary,
		Generation:  st.Generation,
		Enforcement: st.Enforcement,
		Round:       o.round,
		Entrant:     strategy,
		Budget:      reservation.amount(),
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
	a.started = o.d.Clock.Now()
	return nil
}

// awaitLastBreaker waits until the breaker of the last candidate admits calls
// again. It returns false if other candidates are left or the breaker does not
// reopen before the deadline.
func (o *operation) awaitLastBreaker(ctx context.Context, cs *stats.Candidate) bool {
	if _, left := o.next(); left {
		return false
	}
	wait, ok := cs.ReopensIn(o.d.Clock.Now())
	return ok && o.inTime(ctx, wait) && o.d.Clock.Wait(ctx, wait) == nil
}

// probeLost is the failure when another call took the half-open probe of the
// breaker: the operation tries the next candidate.
func (o *operation) probeLost(ctx context.Context, capID string, err *contract.Error) *flow.Failure {
	o.setBreakerAnswer(capID, breakerAnswer{})
	f := o.failure(ctx, nil, err)
	f.Class, f.Matched, f.Expired = contract.ClassSwitch, true, o.expired(ctx)
	return f
}

// finish evaluates an answer or its absence. It fills r.
func (o *operation) finish(ctx context.Context, a *attempt, r *attemptResult) *flow.Failure {
	a.account(r)
	if a.err != nil {
		o.classifyLostCall(ctx, r, contract.AsError(a.err), a.limits, a.ended)
	} else {
		o.read(r, a.answer)
	}
	failure := o.conclude(ctx, r)
	if a.err == nil && o.failed == nil {
		o.reportTrial(a, r)
	}
	return failure
}

func (a *attempt) account(r *attemptResult) {
	*r = attemptResult{
		capability:  a.capability,
		recovery:    a.recovery,
		number:      a.number,
		latency:     a.ended.Sub(a.started),
		stats:       a.stats,
		permit:      a.permit,
		began:       a.started,
		edition:     a.answer.Edition,
		process:     a.answer.Generation,
		stream:      a.stream,
		reservation: a.reservation,
		prompt:      a.prompt,
	}
	if a.limits.extended && !a.limits.soft.IsZero() && a.ended.After(a.limits.soft) {
		r.extended = a.ended.Sub(a.limits.soft)
	}
	if !a.firstPiece.IsZero() {
		r.firstPiece = max(a.firstPiece.Sub(a.started), 1)
	}
}

// attemptResult is what is known about an attempt from its answer to its verdict.
type attemptResult struct {
	capability *registry.Capability
	recovery   contract.RecoveryClass
	number     int
	latency    time.Duration
	extended   time.Duration

	response edn.Value // normalised envelope; nil without an answer
	raw      edn.Value // response before clean-up; nil if clean-up changed nothing
	kind     string    // result type
	meta     edn.Value
	usage    edn.Value
	walk     func(context.Context) Child

	stats       *stats.Candidate
	permit      breaker.Permit
	began       time.Time
	edition     int           // edition of the plugin that answered
	process     int           // instance number of the process that answered; 0: the call was not delivered
	firstPiece  time.Duration // time to the first piece of text; 0: there was none
	stream      *stream.Attempt
	reservation reservation
	prompt      prompt.Composed
	late        bool // the node ran out of time, not the attempt

	err      *contract.Error
	outcome  flow.Outcome
	label    string // outcome in the record
	crashed  bool
	doneOnce bool
}

// conclude records how the attempt ended, runs the plan of a plan answer, runs
// the gates and returns the failure, if any.
func (o *operation) conclude(ctx context.Context, r *attemptResult) *flow.Failure {
	if r.outcome == flow.Unknown && r.recovery == contract.RecoveryOnce {
		r.err = contract.Errorf("effects/outcome-unknown",
			"node %s: whether :%s did its work is not known: %s", o.w.Node, r.capability.ID, r.err.Message).
			WithCause(r.err).WithDetail("effect/key", edn.Text(o.effectKey()))
		r.doneOnce = true
	}
	r.stream.Pause()
	o.recordEnd(r)
	o.settle(&r.reservation, r.settlement())
	o.recordOutcome(r)
	o.result.DoneOnce = o.result.DoneOnce || r.doneOnce || (r.err == nil && r.recovery == contract.RecoveryOnce)
	var planRun, findings edn.Value
	out := r.response.Key("result").Key("out")
	if r.err == nil && r.walk != nil {
		child := o.walked(ctx, r.walk)
		out, planRun = child.Out, child.Run
		r.doneOnce = r.doneOnce || child.DoneOnce
		o.result.DoneOnce = o.result.DoneOnce || child.DoneOnce
		if child.Err != nil {
			r.err, r.outcome = asAttemptError(child.Err), outcomeAfterAnswer(r.recovery)
		}
	}
	if r.err == nil && r.stream.Contradicts(out) {
		r.err, r.outcome = stream.Contradiction(":"+r.capability.ID), outcomeAfterAnswer(r.recovery)
	}
	if r.err == nil && o.failed == nil {
		o.unevaluated = nil
		verdict, judged := o.judge(ctx, r, out)
		o.result.Verdict, o.result.Judged = verdict, judged
		if !verdict.Pass {
			findings = findingsValue(&verdict)
			r.err, r.outcome = o.gateError(r, &verdict, findings), flow.Judged
			if o.unevaluated != nil {
				r.err = o.unevaluated // the answer could not be evaluated
			}
		}
		if judged && verdict.Pass && !o.inconclusive() {
			o.recordVerdict(r.number, r.sample(), true, verdict.Score)
		}
	}
	if r.err != nil {
		r.err = r.stream.Fail(r.err, r.outcome == flow.Judged, r.err.Class == contract.ClassFinal || o.expired(ctx))
	}
	o.listAttempt(r)
	result := &o.result
	result.stream = r.stream
	result.CapID, result.Attempt, result.Response, result.Out = r.capability.ID, r.number, r.response, out
	result.Meta, result.Usage, result.PlanRun, result.Findings = r.meta, r.usage, planRun, findings
	if r.err != nil {
		f := o.failure(ctx, r, r.err)
		f.Out, f.Findings, f.Score = out, findings, r.err.Details.Key("score")
		if r.outcome == flow.Judged && !o.inconclusive() {
			if f.Owed = r.number; o.owed == nil {
				o.owed = make(map[int]stats.Sample)
			}
			o.owed[r.number] = r.sample()
		}
		return f
	}
	result.Degraded = o.degraded(r.capability.ID)
	return nil
}

// sample returns the verdict on the attempt for the quality window. A plan
// answer is not a sample: other candidates produced its result.
func (r *attemptResult) sample() stats.Sample {
	if r.walk != nil {
		return stats.Sample{}
	}
	return stats.Sample{Candidate: r.stats, Edition: r.edition, Began: r.began}
}

// recordVerdict adds a verdict and starts the configured remediation of a
// capability whose pass rate fell below its floor. Its immediate action is
// recorded in the run of the verdict.
func (o *operation) recordVerdict(attempt int, v stats.Sample, pass bool, score quality.Score) {
	if !v.Add(o.d.Clock.Now(), pass, score) {
		return
	}
	remediator, _ := o.d.Executor.(stats.Remediator)
	n, ok := stats.Remediation{
		Registry:   o.d.Registry,
		Now:        o.d.Clock.Now,
		Available:  func(capID string) bool { return unavailable(o.d.Executor.State(capID)).Reason == "" },
		Remediator: remediator,
		Candidate:  v.Candidate,
		List:       o.w.Policy.static.Accepted,
	}.Start()
	if !ok {
		return
	}
	o.record(&journal.HostEvent{
		Event: n.Event, CapID: n.CapID, Intent: n.Intent,
		Details: n.Details.Merge(edn.MustMap(
			edn.K("path"), o.w.Path, edn.K("node"), edn.Text(o.w.Node), edn.K("attempt"), edn.Int(int64(attempt)))),
	})
}

// recordEnd records how the attempt ended, before the gates run.
func (o *operation) recordEnd(r *attemptResult) {
	end := o.finishedRecord()
	*end = journal.AttemptFinished{
		Attempt:    r.number,
		Outcome:    r.label,
		Latency:    r.latency,
		Usage:      r.usage,
		Result:     refOrNone(r.response),
		Raw:        refOrNone(r.raw),
		ResultType: r.kind,
		Meta:       r.meta,
		Err:        r.err,
		Extended:   r.extended,
	}
	o.record(end)
}

// listAttempt adds the attempt to the attempts in the result.
func (o *operation) listAttempt(r *attemptResult) {
	failureType := ""
	if r.err != nil {
		failureType = r.err.Type
	}
	o.result.Attempts = append(o.result.Attempts, Attempt{
		CapID: r.capability.ID, Failure: failureType, Latency: r.latency, Cost: r.usage.Key("cost-usd"),
	})
}

// recordOutcome reports how an attempt ended to the statistics of its
// candidate.
func (o *operation) recordOutcome(r *attemptResult) {
	if r.stats == nil {
		return
	}
	r.stats.Record(o.d.Clock.Now(), r.permit, stats.End{
		Err:        r.err,
		Ignored:    r.late || r.label == journal.OutcomeCanceled,
		Crashed:    r.crashed,
		Plugin:     r.capability.Plugin,
		Edition:    r.edition,
		Process:    r.process,
		Latency:    r.latency,
		FirstPiece: r.firstPiece,
		Usage:      r.usage,
		Meta:       r.meta,
	}, func() float64 { return Rand(o.run.Seed, o.w.Path, -o.number).Float64() })
}

// inconclusive reports whether the last verdict says nothing about the answer:
// a check or the judge failed, or the breaker of the judge is not closed
// (BRK-007).
func (o *operation) inconclusive() bool {
	return o.unsound || !answeredByChecks(o.result.Verdict)
}

// asAttemptError makes the failure of a child plan the failure of the attempt
// that answered with it: another candidate may succeed, unless the error ends
// the run.
func asAttemptError(e *contract.Error) *contract.Error {
	switch e.Type {
	case "canceled", "runtime/internal", "effects/outcome-unknown", "plan/too-deep", "plan/too-large":
		return e
	default:
		return e.WithClass(contract.ClassSwitch)
	}
}

// failure describes a failed attempt for the attempt table.
func (o *operation) failure(ctx context.Context, r *attemptResult, err *contract.Error) *flow.Failure {
	f := &flow.Failure{Err: err, Class: err.Class}
	set := o.w.Policy.SwitchOn
	f.Matched = set.Matches(err)
	if r == nil {
		return f
	}
	f.Outcome, f.Recovery = r.outcome, r.recovery
	f.Deterministic = r.capability.Deterministic
	f.Crashed = r.crashed
	if f.Undelivered = r.process == 0 && err.Type == policy.ReasonNotReady; f.Undelivered {
		f.Class, f.Matched = contract.ClassSwitch, true // treated like a rejection during binding (BIND-005)
	}
	f.DoneOnce, f.Done = r.doneOnce, o.effectDone
	o.effectDone = o.effectDone || r.outcome == flow.Judged && r.recovery != contract.RecoveryNone
	f.Committed = r.stream.Committed()
	f.RepairAsked = o.w.Policy.RepairAsked
	f.Expired = o.expired(ctx)
	if r.crashed {
		f.ComesBack = o.d.Executor.State(r.capability.ID).willReturn()
	}
	return f
}

// invoke makes the call with the deadline of the attempt. A call of recovery
// class once is not canceled when a sibling node fails: it runs under the
// context of the run.
func (o *operation) invoke(ctx context.Context, a *attempt) (Answer, error) {
	call, l := a.call, a.limits
	if a.recovery == contract.RecoveryOnce {
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
	if a.stream.Live() {
		own, stop := context.WithCancel(ctx)
		defer stop()
		ctx, call.OnDelta = own, func(piece edn.Value) {
			select {
			case <-a.stop:
				return // text of a losing attempt is dropped
			default:
			}
			if a.firstPiece.IsZero() {
				a.firstPiece = o.d.Clock.Now()
			}
			a.stream.Receive(own, piece, stop)
		}
	}
	answer, err := o.d.Executor.Invoke(ctx, call)
	if broken := a.stream.Failure(); broken != nil {
		return Answer{}, broken
	}
	awaitOwnDeadline(ctx, err)
	return answer, err
}

// deadlineSkew is the tolerated clock difference between host and plugin for
// the deadline of a call.
const deadlineSkew = 50 * time.Millisecond

// awaitOwnDeadline waits for the deadline of a call if the plugin has reported
// its expiry slightly early, so that clock skew does not decide which deadline
// is reported.
func awaitOwnDeadline(ctx context.Context, err error) {
	deadline, bounded := ctx.Deadline()
	if bounded && errors.Is(err, contract.OfType("timeout/hard")) && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
}

// classifyLostCall sets error and outcome of a call without an answer.
// Cancellation and limits known to the host take precedence over the error of
// the executor.
func (o *operation) classifyLostCall(ctx context.Context, r *attemptResult, err *contract.Error, l limits,
	now time.Time) {
	r.label, r.err = journal.OutcomeError, err
	late := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	base := o.run.Base.Err()
	switch {
	case errors.Is(base, context.Canceled), base == nil && ctx.Err() != nil && !late(o.w.Deadline) &&
		r.recovery != contract.RecoveryOnce:
		r.err = contract.Errorf("canceled", "node %s: the call to :%s was canceled", o.w.Node, r.capability.ID)
		r.label, r.outcome = journal.OutcomeCanceled, flow.Unknown
		return
	case o.w.Wall && base == nil && late(o.w.Deadline):
		r.err = o.wallSpent().WithCause(cause(err))
		r.label, r.outcome, r.late = journal.OutcomeUnknown, flow.Unknown, true
		return
	case errors.Is(base, context.DeadlineExceeded), late(o.w.Deadline):
		r.err = contract.Errorf("timeout/hard", "node %s: the deadline passed while :%s worked", o.w.Node,
			r.capability.ID).WithCause(cause(err))
		r.label, r.outcome, r.late = journal.OutcomeUnknown, flow.Unknown, true
		return
	case late(l.end):
		r.err = contract.Errorf("timeout/soft", "node %s: :%s did not answer within %s", o.w.Node, r.capability.ID,
			l.given()).WithCause(cause(err))
		r.label, r.outcome = journal.OutcomeUnknown, flow.Unknown
		return
	}
	err = o.replaceReservedType(r, err)
	r.err = err
	if unknownOutcome(err) {
		r.label, r.outcome = journal.OutcomeUnknown, flow.Unknown
		r.crashed = err.Type == "runtime/crashed" || err.Type == "runtime/unresponsive"
	}
}

// replaceReservedType replaces error types that only the host may use, such as
// canceled, runtime/internal and race/lost, by runtime/invoke-failed (ATT-003).
// A capability's own budget/exceeded gets class switch: it does not limit other
// candidates.
func (o *operation) replaceReservedType(r *attemptResult, err *contract.Error) *contract.Error {
	switch err.Type {
	case "canceled", "runtime/internal", "race/lost":
		return contract.Errorf("runtime/invoke-failed", "node %s: :%s returned the reserved error type :%s: %s",
			o.w.Node, r.capability.ID, err.Type, err.Message).WithCause(err)
	case "budget/exceeded":
		return err.WithClass(contract.ClassSwitch)
	}
	return err
}

// cause returns the error of the executor, or nil if it only repeats the
// timeout.
func cause(err *contract.Error) *contract.Error {
	if err.Type == "timeout/hard" || err.Type == "canceled" {
		return nil
	}
	return err
}

// unknownOutcome reports whether the effect may have been done although no
// answer came. An error that the capability itself returns means "not done",
// unless its details say otherwise.
func unknownOutcome(err *contract.Error) bool {
	if reportsUnknown(err) {
		return true
	}
	switch err.Type {
	case "runtime/crashed", "runtime/unresponsive", "timeout/hard", "canceled", "stream/truncated", "runtime/protocol":
		return true
	default:
		return false
	}
}

func reportsUnknown(err *contract.Error) bool {
	state, _ := err.Details.Key("effect/state").AsKeyword()
	return state == "unknown"
}

// outcomeAfterAnswer is the outcome of an unusable answer: any effect of the
// call has happened.
func outcomeAfterAnswer(recovery contract.RecoveryClass) flow.Outcome {
	if recovery == contract.RecoveryNone {
		return flow.Definite
	}
	return flow.Judged
}

// read checks the form of an answer and cleans it.
func (o *operation) read(r *attemptResult, a Answer) {
	r.label = journal.OutcomeOK
	response, err := contract.CheckResponse(a.Response, o.resultRules(r.capability))
	if err != nil {
		err = o.replaceReservedType(r, err)
		r.err, r.label = err, journal.OutcomeError
		r.usage = mapOrNil(a.Response.Key("result").Key("usage"))
		switch {
		case reportsUnknown(err):
			r.outcome, r.label = flow.Unknown, journal.OutcomeUnknown
		case err.Type == "runtime/invalid-result":
			r.outcome = outcomeAfterAnswer(r.recovery)
		}
		return
	}
	result := response.Key("result")
	r.usage = mapOrNil(result.Key("usage"))
	r.meta = o.w.Policy.meta(response.Key("invoke/meta"), r.capability, &a)
	if r.prompt.Hash != "" {
		r.meta = r.meta.AssocKey("prompt/hash", edn.Text(r.prompt.Hash))
	}
	r.kind, _ = result.Key("type").AsKeyword()
	switch r.kind {
	case "plan":
		if o.w.Around == nil {
			r.err = contract.Errorf("plan/invalid", "node %s: a plan answer is not allowed here", o.w.Node).
				WithSource(contract.SourcePlugin)
			break
		}
		r.walk, r.err = o.w.Around.Plan(PlanAnswer{
			Attempt:  r.number,
			CapID:    r.capability.ID,
			Plan:     result.Key("plan"),
			Bindings: result.Key("bindings"),
			Stream:   r.stream.Child,
		})
	default:
		if response, r.err = o.clean(r, response); r.err != nil {
			r.outcome, r.kind = outcomeAfterAnswer(r.recovery), ""
		} else if r.kind == "value" {
			response = o.coerce(response, response.Key("result"))
			if r.err = o.w.Policy.checkOutputKeys(r.capability, response.Key("result").Key("out")); r.err != nil {
				r.outcome = outcomeAfterAnswer(r.recovery)
			}
		}
	}
	if r.err != nil {
		r.label = journal.OutcomeError
	}
	r.response = response
}

// coerce converts a JSON answer to the types of its schema if that makes it
// valid.
func (o *operation) coerce(response, result edn.Value) edn.Value {
	sch := o.w.Policy.out
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
