package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// attempts are the attempts of one operation.
type attempts struct {
	n      *node
	c      *caller
	search *search

	past       *past            // nil: the operation begins now
	mode       stream.Mode      // when streamed text is shown
	parallel   []*attempt       // that run in parallel
	alone      *attempt         // the last one that does not
	owed       map[int]*attempt // refused answers, by attempt
	effectDone bool             // an answer was refused after its effect was done
	unsound    bool             // the breaker of the last judge was not closed
	result     Result

	// Space for the first attempt and its entry in the result. It keeps an
	// operation that accepts its first answer to one allocation.
	first attempt
	list  [1]Attempt
}

// start starts an attempt and records its start, or takes over a recorded attempt (see
// past). strategy names the parallel strategy; empty: a step of a cascade. If it returns
// a failure, no attempt is made.
func (s *attempts) start(ctx context.Context, capID, strategy string) (*attempt, *flow.Failure) {
	n := s.n
	c, ok := n.d.Registry.Capability(capID)
	if !ok {
		return nil, s.failure(ctx, nil, contract.Errorf("runtime/internal",
			"dispatch %s: candidate :%s is no longer in the registry", n.w.Node, capID))
	}
	if t := s.past.take(capID, s.c.request.round); t != nil {
		if t.Finished == nil {
			return s.reopen(t, c, strategy), nil
		}
		return s.recall(t, c, strategy), nil
	}
	if s.past.replays() {
		if s.past.gap > 0 {
			n.Fail(replayMiss(n, "attempt %d, before one at :%s, is not recorded", s.past.gap, capID))
			return nil, s.failure(ctx, nil, n.failedError())
		}
		return nil, s.overBudget(ctx, unaffordable(n, capID))
	}
	if n.w.SecretMissing {
		return nil, s.failure(ctx, nil, SecretMissing(n.w.Node, "the input of :"+capID))
	}
	if s.past != nil {
		if only := s.past.only; only != "" && only != capID {
			return nil, s.otherFirst(ctx, only)
		}
		s.past.only = ""
	}
	if err := n.run.Fill.denied(c); err != nil {
		return nil, s.failure(ctx, nil, err.WithWhere("node", edn.Text(n.w.Node)))
	}
	st := n.d.Executor.State(capID)
	scopes, err := n.scopes(c)
	if err != nil {
		return nil, s.failure(ctx, nil, err)
	}
	cs := s.c.candidates.may.stats(capID)
	if !c.External() { // neither a breaker nor statistics apply to people and to the host
		cs = nil
	}
	permit, err := s.permit(ctx, cs, c, strategy)
	if err != nil {
		return nil, s.probeLost(ctx, capID, err)
	}
	q := &s.c.request
	reservation, err := s.c.funds.Reserve(ctx, c, s.purpose(strategy), q.attempts+1, !s.c.funds.Joins)
	if err != nil {
		cs.Return(n.now(), permit)
		return nil, s.overBudget(ctx, err)
	}
	a := &s.first
	if q.attempts++; q.attempts > 1 {
		a = new(attempt)
	}
	limits := n.limits(c)
	asked := q.composePrompt(c)
	a.n, a.capability, a.number, a.stats, a.permit = n, c, q.attempts, cs, permit
	a.recovery = n.recoveryOf(c, scopes)
	a.call = q.call(c, limits.end, scopes, s.c.funds.Remaining(n.w.Policy.Budget, &reservation), asked)
	a.prompt, a.limits, a.reservation = asked, limits, reservation
	a.stream = n.w.Stream.ForAttempt(s.mode, a.number)
	if how, ok := n.w.Policy.cleaning(c, n.w.Input); ok {
		a.stream.CleanWith(how)
	}
	if strategy == "" {
		s.alone = a
	} else {
		s.parallel = append(s.parallel, a)
	}
	s.recordStart(a, st, strategy)
	return a, nil
}

// permit asks the breaker of a candidate for a permit. A step of a cascade waits
// for the breaker of the last candidate.
func (s *attempts) permit(ctx context.Context, cs *stats.Candidate, c *registry.Capability, strategy string) (
	permit breaker.Permit, err *contract.Error,
) {
	may := &s.c.candidates.may
	permit, err = may.acquire(cs, c)
	for err != nil && strategy == "" && s.search.awaitLastBreaker(ctx, cs) {
		permit, err = may.acquire(cs, c)
	}
	return permit, err
}

// recordStart records the start of an attempt by a process in state st.
func (s *attempts) recordStart(a *attempt, st CapState, strategy string) {
	n, c := s.n, a.capability
	a.begin = journal.AttemptStarted{
		Attempt:     a.number,
		CapID:       c.ID,
		CapVersion:  c.Version,
		CapKind:     c.Kind,
		Request:     journal.RefTo(a.call.Request),
		Effects:     c.Effects,
		Recovery:    a.recovery.String(),
		EffectKey:   a.call.EffectKey,
		Binary:      st.Binary,
		Generation:  st.Generation,
		Enforcement: st.Enforcement,
		Round:       s.c.request.round,
		Entrant:     strategy,
		Budget:      a.reservation.Amount(),
		Waited:      s.search.waited,
	}
	s.search.waited = 0
	n.Record(&a.begin)
	if a.recovery != contract.RecoveryNone || a.priced() {
		n.sync() // a call that a crash must not repeat or forget starts after its record (JRN-004)
	}
	if n.failed != nil {
		return
	}
	if n.w.Begun != nil {
		n.w.Begun()
	}
	a.started = n.now()
}

// purpose returns the purpose of an attempt's reservation.
func (s *attempts) purpose(strategy string) funds.Purpose {
	switch {
	case s.c.funds.Purpose == funds.ForVote:
		return funds.ForVote
	case s.c.request.round > 0:
		return funds.ForRepair
	case strategy != "":
		return funds.ForParallel
	}
	return funds.ForAttempt
}

// probeLost is the failure when another call took the half-open probe of the
// breaker: the operation tries the next candidate.
func (s *attempts) probeLost(ctx context.Context, capID string, err *contract.Error) *flow.Failure {
	s.c.candidates.may.remember(capID, breakerAnswer{})
	f := s.failure(ctx, nil, err)
	f.Class, f.Matched, f.Expired = contract.ClassSwitch, true, s.n.expired(ctx)
	return f
}

// otherFirst is the failure of an attempt before that of a candidate whose call has an unknown
// outcome and must be made again: the operation goes on to that one.
func (s *attempts) otherFirst(ctx context.Context, only string) *flow.Failure {
	f := s.failure(ctx, nil, outcomeUnknown(s.n.w.Node, only, s.c.request.effectKey(), LostWithHost()))
	f.Class, f.Matched, f.Expired = contract.ClassSwitch, true, s.n.expired(ctx)
	return f
}

// overBudget is the failure of a candidate that exceeds the budget. It was not
// called; a cheaper candidate may fit.
func (s *attempts) overBudget(ctx context.Context, lack *contract.Error) *flow.Failure {
	f := s.failure(ctx, nil, lack)
	f.OverBudget = true
	f.Expired = s.n.expired(ctx)
	if lack.Type == "budget/exceeded" {
		f.Class, f.Matched = contract.ClassSwitch, true
	}
	return f
}

// get returns an attempt by its number: one that runs in parallel to others, or
// the one that runs alone.
func (s *attempts) get(number int) *attempt {
	for _, a := range s.parallel {
		if a.number == number {
			return a
		}
	}
	return s.alone
}

// committed returns the number of the attempt whose text cannot be retracted; 0: none,
// -1: an attempt of another operation.
func (s *attempts) committed() int {
	if !s.n.w.Stream.Committed() {
		return 0
	}
	for _, a := range s.parallel {
		if a.stream.Committed() {
			return a.number
		}
	}
	return -1
}

// finish evaluates the answer of an ended attempt, or classifies a call without an
// answer. It returns nil if the answer is accepted.
func (s *attempts) finish(ctx context.Context, a *attempt) *flow.Failure {
	switch {
	case a.past != nil:
		a.readPast(ctx)
	case a.failed != nil:
		a.classifyLostCall(ctx)
	default:
		a.read(ctx)
	}
	failure := s.conclude(ctx, a)
	if a.past == nil && a.failed == nil && s.n.failed == nil {
		s.reportTrial(a)
	}
	return failure
}

// conclude records the end of the attempt, runs the plan of a plan answer, runs
// the gates and returns the failure, if any.
func (s *attempts) conclude(ctx context.Context, a *attempt) *flow.Failure {
	if a.outcome == flow.Unknown && a.recovery == contract.RecoveryOnce {
		if a.err.Type != "effects/outcome-unknown" { // else the recorded error is this one
			a.err = outcomeUnknown(s.n.w.Node, a.capability.ID, s.c.request.effectKey(), a.err)
		}
		a.doneOnce = true
	}
	a.stream.Pause()
	s.n.learn(a.response)
	s.close(a)
	result := &s.result
	result.DoneOnce = result.DoneOnce || a.doneOnce || (a.err == nil && a.recovery == contract.RecoveryOnce)
	var planRun, findings edn.Value
	out := a.response.Key("result").Key("out")
	if a.err == nil && a.walk != nil && s.n.failed == nil {
		child := s.n.walk(ctx, a.walk)
		out, planRun = child.Out, child.Run
		a.doneOnce = a.doneOnce || child.DoneOnce
		result.DoneOnce = result.DoneOnce || child.DoneOnce
		if child.Err != nil {
			a.err, a.outcome = asAttemptError(child.Err), outcomeAfterAnswer(a.recovery)
		}
	}
	if a.err == nil && a.stream.Contradicts(out) {
		a.err, a.outcome = stream.Contradiction(":"+a.capability.ID), outcomeAfterAnswer(a.recovery)
	}
	if a.err == nil && s.n.failed == nil {
		findings = s.judge(ctx, a, out)
	}
	if a.err != nil {
		over := a.err.Class == contract.ClassFinal || s.n.expired(ctx)
		a.err = a.stream.Fail(a.err, a.outcome == flow.Judged, over)
	}
	s.listAttempt(a)
	result.stream = a.stream
	result.CapID, result.Attempt, result.Response, result.Out = a.capability.ID, a.number, a.response, out
	result.Meta, result.Usage, result.PlanRun, result.Findings = a.meta, a.usage, planRun, findings
	if a.err == nil {
		result.Degraded = s.c.candidates.degraded(a.capability.ID)
		return nil
	}
	f := s.failure(ctx, a, a.err)
	f.Out, f.Findings, f.Score = out, findings, a.err.Details.Key("score")
	if a.past == nil && a.outcome == flow.Judged && !s.inconclusive() {
		if f.Owed = a.number; s.owed == nil {
			s.owed = make(map[int]*attempt)
		}
		s.owed[a.number] = a
	}
	return f
}

// close records the end of the attempt and settles its reservation, unless that was
// done before the run was resumed.
func (s *attempts) close(a *attempt) {
	if a.past != nil {
		if s.past.fills() {
			a.repeatEnd()
		}
		return
	}
	end := a.settlement()
	a.usage = a.reservation.Usage(end)
	a.recordEnd()
	s.c.funds.Settle(&a.reservation, end)
	a.report(-s.c.request.attempts)
}

// judge runs the gates on an answer and returns their findings, if they refused
// it.
func (s *attempts) judge(ctx context.Context, a *attempt, out edn.Value) (findings edn.Value) {
	j := &a.judging
	verdict, judged := j.run(ctx, a, out)
	s.result.Verdict, s.result.Judged, s.unsound = verdict, judged, j.unsound
	a.inconclusive = judged && s.inconclusive()
	switch {
	case !verdict.Pass:
		findings = findingsValue(&verdict)
		a.err, a.outcome = j.refusal(&verdict, findings), flow.Judged
		if j.unevaluated != nil {
			a.err = j.unevaluated // the answer could not be evaluated
		}
	case a.past == nil && judged && !a.inconclusive:
		s.recordVerdict(a.number, a.sample(), true, verdict.Score)
	}
	return findings
}

// inconclusive reports whether the last verdict does not count for or against the
// candidate: a check or the judge failed, or the breaker of the judge is not closed
// (BRK-007).
func (s *attempts) inconclusive() bool {
	return s.unsound || !answeredByChecks(s.result.Verdict)
}

// recordVerdict adds a verdict and starts the configured remediation of a
// capability whose pass rate fell below its floor. Its immediate action is
// recorded in the run of the verdict.
func (s *attempts) recordVerdict(attempt int, v stats.Sample, pass bool, score quality.Score) {
	if !v.Add(s.n.now(), pass, score) {
		return
	}
	remediator, _ := s.n.d.Executor.(stats.Remediator)
	n, ok := stats.Remediation{
		Registry:   s.n.d.Registry,
		Now:        s.n.d.Clock.Now,
		Available:  func(capID string) bool { return unavailable(s.n.d.Executor.State(capID)).Reason == "" },
		Remediator: remediator,
		Candidate:  v.Candidate,
		List:       s.n.w.Policy.static.Accepted,
	}.Start()
	if !ok {
		return
	}
	s.n.Record(&journal.HostEvent{
		Event: n.Event, CapID: n.CapID, Intent: n.Intent,
		Details: n.Details.Merge(edn.MustMap(
			edn.K("path"), s.n.w.Path, edn.K("node"), edn.Text(s.n.w.Node), edn.K("attempt"), edn.Int(int64(attempt)))),
	})
}

// discard records an attempt that lost.
func (s *attempts) discard(a *attempt) {
	a.beaten()
	s.close(a)
	s.listAttempt(a)
}

// returnPermits gives back the permits of attempts that end without a report: their
// start could not be recorded, or their call was stopped with the operation. A
// half-open breaker would otherwise wait forever for its probe.
func (s *attempts) returnPermits() {
	give := func(a *attempt) {
		if !a.reported && a.past == nil {
			a.reported = true
			a.stats.Return(s.n.now(), a.permit)
		}
	}
	if s.alone != nil {
		give(s.alone)
	}
	for _, a := range s.parallel {
		give(a)
	}
}

// listAttempt adds the attempt to the attempts in the result.
func (s *attempts) listAttempt(a *attempt) {
	listed := Attempt{CapID: a.capability.ID, Latency: a.latency(), Cost: a.usage.Key("cost-usd")}
	if a.err != nil {
		listed.Failure = a.err.Type
		lost := a.err.Type == "race/lost" || a.err.Type == "canceled"
		if a.outcome != flow.Judged && !lost && a.err.Source != contract.SourceRequest {
			listed.Down = true
		}
	}
	s.result.Attempts = append(s.result.Attempts, listed)
}

// failure describes a failed attempt for flow.Decide. a is nil if no attempt was made.
func (s *attempts) failure(ctx context.Context, a *attempt, err *contract.Error) *flow.Failure {
	f := &flow.Failure{Err: err, Class: err.Class, Matched: s.n.w.Policy.SwitchOn.Matches(err)}
	if a == nil {
		return f
	}
	f.Outcome, f.Recovery = a.outcome, a.recovery
	f.Deterministic = a.capability.Deterministic
	f.Crashed = a.crashed
	if f.Undelivered = a.process() == 0 && err.Type == policy.ReasonNotReady; f.Undelivered {
		f.Class, f.Matched = contract.ClassSwitch, true // treated like a rejection during binding (BIND-005)
	}
	f.DoneOnce, f.Done = a.doneOnce, s.effectDone
	s.effectDone = s.effectDone || a.outcome == flow.Judged && a.recovery != contract.RecoveryNone
	f.Committed = a.stream.Committed()
	f.RepairAsked = s.n.w.Policy.RepairAsked
	f.Expired = s.n.expired(ctx)
	if a.crashed {
		f.ComesBack = s.comesBack(a.capability.ID)
	}
	return f
}

// comesBack reports whether a candidate is ready or will be, or has another recorded attempt.
func (s *attempts) comesBack(capID string) bool {
	return s.past.has(capID) || s.n.d.Executor.State(capID).willReturn()
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
