package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Dispatcher serves the calls of one configuration.
type Dispatcher struct {
	Executor Executor
	Registry *registry.Registry
	Checks   *quality.Set
	Clock    Clock
	// Prompts are composed for language models; nil: their prompts have no
	// layers.
	Prompts *prompt.Book
	// Stats remembers how candidates have done; nil: nobody does, every breaker
	// stays closed and the declared order holds.
	Stats *StatsTable
	// Grades remembers what judges made of answers; nil: nothing is remembered.
	Grades *Grades
	// Calibrations tells how far judges may be believed; nil: nobody knows.
	Calibrations Calibrations
}

// operation is the execution of one call or tool node: the state of one Serve.
type operation struct {
	d   *Dispatcher
	run *Run
	w   *Work

	binding        policy.Binding
	used           []string // candidates that were tried, in order
	maxCandidates  int      // candidates that may be tried
	plan           strategy
	number         int                      // attempts so far
	waited         time.Duration            // for processes since the last attempt
	draws          int                      // random values drawn so far
	key            string                   // effect key
	ranked         []Figures                // what the order of the candidates rests on
	breakerAnswers map[string]breakerAnswer // of breakers that are not closed
	mode           mode                     // when its text is shown
	round          int                      // of the repair that is being made
	repairContext  edn.Value                // what the candidate is told in it
	effectDone     bool                     // an answer was refused whose effect was done
	result         Result
	failed         error // the recorder refused

	// Of a node with a budget.
	tokens int64 // that its input has, once they were estimated
	// What capabilities counted in it, 0 where one did not, and for which round.
	counted   map[string]int64
	countedIn int
	shortfall *contract.Error // why the last candidate that was looked at cannot be paid for
	gate      string          // of a check or a judge: its name
	vote      bool            // it is a judge
	unsound   bool            // who graded the last answer is not wholly in itself
	parallel  bool            // who is looked at would be asked beside others
	unpaid    *contract.Error // why a check or a judge of the last answer could not be asked

	scratch scratch
}

// scratch is space for the usual case, one attempt that is accepted after one
// gate: what that leaves behind is one piece of memory. A record in it is
// written once and then belongs to the journal.
type scratch struct {
	attempt  attempt
	result   attemptResult
	used     [1]string
	attempts [1]Attempt
	results  [1]quality.Result
	resolved journal.NodeResolved
	started  journal.AttemptStarted
	finished journal.AttemptFinished
	verdict  journal.GateVerdict
	judged   bool // the verdict is in use
	key      [192]byte
}

func (o *operation) startedRecord() *journal.AttemptStarted {
	if o.number == 1 {
		return &o.scratch.started
	}
	return &journal.AttemptStarted{}
}

func (o *operation) finishedRecord() *journal.AttemptFinished {
	if o.number == 1 {
		return &o.scratch.finished
	}
	return &journal.AttemptFinished{}
}

func (o *operation) verdictRecord() *journal.GateVerdict {
	if !o.scratch.judged {
		o.scratch.judged = true
		return &o.scratch.verdict
	}
	return &journal.GateVerdict{}
}

// anchorsGate is what verdicts on labelled answers are reserved for.
const anchorsGate = "judge/anchors"

// Serve gets one node answered. It records what it does and returns when the
// node is accepted or has failed for good; ctx cancels it.
func (d *Dispatcher) Serve(ctx context.Context, run *Run, w *Work) *Result {
	o := &operation{d: d, run: run, w: w}
	if run.Grading && len(w.Stack) == 0 {
		o.vote, o.gate = true, anchorsGate
	}
	o.used, o.result.Attempts = o.scratch.used[:0], o.scratch.attempts[:0]
	if err := o.checkEffects(); err != nil {
		o.fail(err)
		return &o.result
	}
	o.maxCandidates = 1 + w.Policy.FallbackMax
	o.binding = o.bind()
	o.awaitRespawn(ctx)
	o.awaitBreaker(ctx)
	o.plan = o.strategy()
	if w.Stream != nil {
		o.mode = w.Stream.modeFor(w.Policy, o.plan)
	}
	o.record(o.resolvedRecord())
	if len(o.binding.Tried) == 0 {
		o.fail(o.noCandidate())
	} else {
		o.runStrategy(ctx)
	}
	if o.result.Err == nil {
		o.result.stream.accept(o.result.Out)
	}
	w.Stream.close(o.result.Err)
	return &o.result
}

// walk asks the candidates that the strategy wants asked together, and then the
// others in a cascade: one after another, each with tries of its own.
func (o *operation) runStrategy(ctx context.Context) {
	failure, more := o.runParallel(ctx)
	for more {
		// Availability may have changed since the table was asked.
		capID, ok := o.awaitRespawn(ctx)
		if !ok {
			break
		}
		o.used = append(o.used, capID)
		failure = o.tryCandidate(ctx, capID)
		more = o.continues(failure)
	}
	switch {
	case o.failed != nil:
		o.result.Err = contract.AsError(o.failed)
	case failure != nil:
		if err := o.stoppedAtBudget(failure); err != nil {
			o.fail(err)
			return
		}
		o.fail(failure.Err)
	}
}

// goesOn tells whether another candidate is asked after a failure, or after
// none at all.
func (o *operation) continues(f *Failure) bool {
	if f == nil || o.failed != nil {
		return false
	}
	action, _ := Decide(*f)
	return action == Next
}

// tryCandidate asks one candidate until it is accepted, which gives nil, or the
// attempt table sends the node elsewhere.
func (o *operation) tryCandidate(ctx context.Context, capID string) *Failure {
	return o.retry(ctx, capID, 1, o.runAttempt(ctx, capID))
}

// tryAgain goes on after a try of a candidate that ended in failure.
func (o *operation) retry(ctx context.Context, capID string, try int, failure *Failure) *Failure {
	told := o.repairs(capID)
	for failure != nil && o.failed == nil {
		if failure = o.runRepairs(ctx, capID, failure, told); failure == nil || o.failed != nil {
			return failure
		}
		o.recordRefusal(failure)
		failure.TriesLeft = try <= o.w.Policy.Retries(failure.Err.Type) && !o.yields(failure)
		o.updateAvailability(capID, try, failure)
		if !o.awaitRetry(ctx, capID, try, failure) {
			break
		}
		if !failure.Undelivered {
			try++
		}
		next := o.runAttempt(ctx, capID)
		if next != nil && next.OverBudget {
			next = failure.stoppedByBudget(next, o.w.Policy.SwitchOn)
		}
		failure = next
	}
	return failure
}

// again tells whether the same candidate is asked once more, after the waits
// that this takes. It clears in f what turned out to be impossible, so that the
// table gives the same answer when it is asked again.
func (o *operation) awaitRetry(ctx context.Context, capID string, try int, f *Failure) bool {
	action, _ := Decide(*f)
	if action != Again && action != AgainWhenReady {
		return false
	}
	if wait := o.backoff(try, f.Err); wait > 0 && !f.Undelivered {
		if !o.inTime(ctx, wait) || o.d.Clock.Wait(ctx, wait) != nil {
			f.TriesLeft, f.Expired = false, o.expired(ctx)
			return false
		}
	}
	switch action {
	case AgainWhenReady:
		begun := o.d.Clock.Now()
		err := o.await(ctx, capID)
		o.waited += o.d.Clock.Now().Sub(begun)
		if err == nil {
			return true
		}
		f.ComesBack = false
	default:
		reason := o.unavailability(capID).Reason
		if reason == "" {
			return true
		}
		if reason == policy.ReasonBudget {
			*f = *f.stoppedByBudget(o.overBudget(ctx, o.shortfall), o.w.Policy.SwitchOn)
		}
		f.TriesLeft = false // it failed by itself and is gone since, or there is too little left for it
	}
	f.Expired = o.expired(ctx)
	o.updateNextLeft(f)
	return false
}

func (o *operation) await(ctx context.Context, capID string) error {
	if !o.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.w.Deadline)
		defer cancel()
	}
	return o.d.Executor.Await(ctx, capID)
}

// gone notes which candidates are left after a failure. A candidate whose
// process went before the call reached it was not tried: it may be bound again,
// or, after earlier tries, it keeps those that it has left. If it comes back by
// itself and no other one is ready, it is waited for like one that was lost
// (ATT-008 row 6).
func (o *operation) updateAvailability(capID string, try int, f *Failure) {
	first := f.Undelivered && try == 1
	if first {
		o.used = slices.DeleteFunc(o.used, func(id string) bool { return id == capID })
	}
	if o.updateNextLeft(f) || first || f.Crashed || f.Err.Type != policy.ReasonNotReady || f.Outcome != Definite {
		return
	}
	f.ComesBack = o.d.Executor.State(capID).willReturn()
	f.Crashed = f.ComesBack
	f.TriesLeft = f.TriesLeft || f.Undelivered
}

// inTime tells whether a wait ends before the deadline of the node.
func (o *operation) inTime(ctx context.Context, wait time.Duration) bool {
	until := o.d.Clock.Now().Add(wait)
	if !o.w.Deadline.IsZero() && !until.Before(o.w.Deadline) {
		return false
	}
	end, bounded := ctx.Deadline()
	return !bounded || until.Before(end)
}

// over tells whether the node may do nothing more.
func (o *operation) expired(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	return !o.w.Deadline.IsZero() && !o.d.Clock.Now().Before(o.w.Deadline)
}

// next binds again and gives the best candidate that was not tried, as long as
// the number of candidates allows one more.
func (o *operation) next() (string, bool) {
	if len(o.used) >= o.maxCandidates {
		return "", false
	}
	if len(o.used) > 0 || o.number > 0 {
		o.binding = o.bind()
	}
	for _, id := range o.binding.Accepted {
		if !slices.Contains(o.used, id) {
			return id, true
		}
	}
	return "", false
}

// available asks the supervisor in the words of binding.
func (d *Dispatcher) available(capID string) policy.Unavailable {
	return unavailable(d.Executor.State(capID))
}

func unavailable(st CapState) policy.Unavailable {
	if st.Ready || st.Standby {
		return policy.Unavailable{}
	}
	reason := st.Reason
	if reason == "" {
		reason = policy.ReasonNotReady
	}
	return policy.Unavailable{Reason: reason, Why: st.Why}
}

// unbound is the failure of a node that nobody may serve. It can be hoped for
// again if somebody was merely not there.
func (o *operation) noCandidate() *contract.Error {
	if err := deniedError(o.binding.Rejected); err != nil {
		return err
	}
	if err := o.allBreakersOpen(); err != nil {
		return err
	}
	if err := o.allOverBudget(); err != nil {
		return err
	}
	return Unbound(o.w.Node, o.w.Intent, o.binding)
}

// Unbound is the failure of a node whose candidates were all rejected for
// reasons other than breakers and budgets.
func Unbound(node, intent string, b policy.Binding) *contract.Error {
	if err := deniedError(b.Rejected); err != nil {
		return err
	}
	e := contract.Errorf("unsupported/intent", "node %s: %s", node, b.Sentence(intent)).
		WithDetail("intent", journal.Keyword(intent))
	if hint := contract.ModelHint(intent); hint != "" {
		e = e.WithHint(hint)
	}
	for _, r := range b.Rejected {
		switch r.Reason {
		case policy.ReasonNotReady:
			e = e.WithRetryable(true)
		case policy.ReasonEffects:
			if contract.ModelHint(intent) != "" {
				continue
			}
			e = e.WithHint(policy.AllowHint(r.Detail))
		}
	}
	cause := firstCause(b.Rejected)
	if cause == nil {
		for _, r := range b.Rejected { // a plugin that is down is there, and need not be configured
			if r.Why != nil && r.Why.Hint != "" {
				return e.WithHint(r.Why.Hint)
			}
		}
		return e
	}
	if row, _ := contract.Lookup(cause.Type); cause.Hint != "" && (cause.Type != "provider/not-configured" || cause.Hint != row.Hint) {
		// It says more than how to configure some model.
		e = e.WithHint(cause.Hint)
	}
	return e.WithCause(cause)
}

// firstCause is what the first of those who were passed over says about it
// itself, else what is behind the state of the first whose plugin does not serve.
func firstCause(rejected []policy.Rejection) *contract.Error {
	for _, r := range rejected {
		if ownCause(r) {
			return r.Why
		}
	}
	for _, r := range rejected {
		if r.Why != nil && r.Why.Cause != nil {
			return r.Why.Cause
		}
	}
	return nil
}

// wanted are the rules for the form of an answer. Whether its value fits the
// schema is asked by the gate schema-valid.
func (o *operation) resultRules(c *registry.Capability) contract.ResultRules {
	return contract.ResultRules{
		CanProduce: c.CanProduce,
		ResultType: o.w.Policy.Layer.Requires.ResultType.V,
		Kind:       c.Kind,
	}
}

func (o *operation) resolvedRecord() *journal.NodeResolved {
	n := &o.scratch.resolved
	*n = journal.NodeResolved{
		Op:       o.w.Op,
		Policy:   o.w.Policy.Ordering,
		Strategy: o.plan.name,
		Width:    o.plan.recordedWidth(),
		Coerced:  o.w.Coerced,
	}
	if o.ranked != nil {
		n.Candidates, n.Rejected = o.ranking(), rejections(o.binding.Rejected)
	} else if len(o.binding.Accepted) == len(o.w.Policy.candidates) {
		n.Candidates, n.Rejected = o.w.Policy.candidates, o.w.Policy.rejected
	} else {
		n.Candidates, n.Rejected = candidates(o.binding.Accepted), rejections(o.binding.Rejected)
	}
	if o.w.Op == "tool" {
		n.ToolID = o.w.ToolID
	} else {
		n.Intent = o.w.Intent
	}
	if o.w.Stream != nil {
		n.Stream = o.mode.String()
	}
	if o.run.Explain {
		o.addFigures(n)
	}
	return n
}

func (o *operation) record(body journal.Body) {
	if o.failed == nil {
		o.failed = o.run.Recorder.Record(o.w.Path, o.w.Node, body)
	}
}

// degraded are the candidates before the winner that were left out for a cause
// of their own, such as a missing key.
func (o *operation) degraded(winner string) []policy.Rejection {
	var out []policy.Rejection
	for _, id := range o.binding.List {
		if id == winner {
			break
		}
		for _, r := range o.binding.Rejected {
			if r.Cap == id && ownCause(r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// ownCause tells a rejection with a cause behind its reason, such as a missing
// key, from one whose cause only repeats the reason.
func ownCause(r policy.Rejection) bool { return r.Why != nil && r.Why.Type != r.Reason }

// end makes err, with the whole account of the node, the failure of the node.
func (o *operation) fail(err *contract.Error) {
	p := &o.w.Policy.Policy
	if err.Type == "budget/exceeded" {
		err = err.WithClass(contract.ClassFinal) // nobody was left who costs less
	}
	attempts := make([]edn.Value, len(o.result.Attempts))
	for i, a := range o.result.Attempts {
		attempts[i] = a.value()
	}
	candidates := make([]edn.Value, len(o.binding.Accepted))
	for i, id := range o.binding.Accepted {
		candidates[i] = journal.Keyword(id)
	}
	o.result.Err = err.
		WithDetail("attempts", edn.Vector(attempts...)).
		WithDetail("candidates", edn.Vector(candidates...)).
		WithDetail("rejected", journal.RejectionsValue(rejections(o.binding.Rejected))).
		WithDetail("retry", edn.MustMap(
			edn.K("same-cap-max"), edn.Int(int64(p.SameCapMax)),
			edn.K("fallback-max"), edn.Int(int64(p.FallbackMax)))).
		WithDetail("switch-on", switchOn(p))
}

// switchOn shows the set that was written, or that none was.
func switchOn(p *policy.Policy) edn.Value {
	if p.SwitchOnNames == nil {
		return edn.K("default")
	}
	vs := make([]edn.Value, len(p.SwitchOnNames))
	for i, n := range p.SwitchOnNames {
		vs[i] = journal.Keyword(n)
	}
	return edn.SetOf(vs...)
}
