package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Dispatcher executes the nodes of one configuration.
type Dispatcher struct {
	Executor Executor
	Registry *registry.Registry
	Checks   *quality.Set
	Clock    Clock
	// Prompts are composed for language models; nil: prompts have no layers.
	Prompts *prompt.Book
	// Stats holds breakers and statistics of candidates; nil: all breakers stay
	// closed and the declared order is used.
	Stats *StatsTable
	// Grades caches the grades of judges; nil: nothing is cached.
	Grades *Grades
	// Calibrations returns the measured quality of judges; nil: no judge is
	// measured.
	Calibrations Calibrations
}

// operation is the execution of one call or tool node: the state of one Serve.
type operation struct {
	d   *Dispatcher
	run *Run
	w   *Work

	binding        policy.Binding
	used           []string // tried candidates, in order
	maxCandidates  int      // limit for len(used)
	plan           strategy
	number         int                      // attempts so far
	waited         time.Duration            // for respawning processes since the last attempt
	draws          int                      // random values drawn so far
	key            string                   // effect key
	ranked         []Figures                // candidates in the order of the policy
	breakerAnswers map[string]breakerAnswer // of breakers that are not closed
	mode           mode                     // when streamed text is shown
	round          int                      // number of the current repair round; 0: none
	repairContext  edn.Value                // the :repair of the request in a repair round
	effectDone     bool                     // an answer was refused after its effect was done
	result         Result
	failed         error // the error of the recorder; nothing is recorded after it

	// The following fields are used only with a budget.
	tokens int64 // estimated input tokens of the node; 0: not estimated yet
	// Input tokens as counted by a capability, 0 if it did not answer, and the
	// repair round of these counts.
	counted     map[string]int64
	countedIn   int
	shortfall   *contract.Error // why the last checked candidate exceeds the budget
	gate        string          // name of the check or judge that is called
	vote        bool            // the call is a vote of a judge
	unsound     bool            // the breaker of the last judge was not closed
	parallel    bool            // the checked candidate would join running attempts
	unevaluated *contract.Error // why a check or judge could not evaluate the last answer

	scratch scratch
}

// scratch is preallocated space for the common case, one attempt that is
// accepted after one gate. It keeps this case to one allocation. A record in it
// is written once and then belongs to the journal.
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
	judged   bool // verdict is in use
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

// anchorsGate is the gate name in reservations for verdicts on labelled
// answers.
const anchorsGate = "judge/anchors"

// Serve executes one node. It records each step and returns when the node is
// accepted or has failed for good; ctx cancels it.
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

// runStrategy runs the parallel attempts of the strategy and then a cascade
// over the remaining candidates, each with its own retries.
func (o *operation) runStrategy(ctx context.Context) {
	failure, more := o.runParallel(ctx)
	for more {
		// Availability may have changed since the last decision.
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

// continues reports whether another candidate is tried after failure f. It is
// false for nil.
func (o *operation) continues(f *Failure) bool {
	if f == nil || o.failed != nil {
		return false
	}
	action, _ := Decide(*f)
	return action == Next
}

// tryCandidate calls one candidate until an answer is accepted, which returns
// nil, or the attempt table leaves this candidate.
func (o *operation) tryCandidate(ctx context.Context, capID string) *Failure {
	return o.retry(ctx, capID, 1, o.runAttempt(ctx, capID))
}

// retry continues after a failed attempt at a candidate.
func (o *operation) retry(ctx context.Context, capID string, try int, failure *Failure) *Failure {
	repairs := o.repairs(capID)
	for failure != nil && o.failed == nil {
		if failure = o.runRepairs(ctx, capID, failure, repairs); failure == nil || o.failed != nil {
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

// awaitRetry reports whether the same candidate is called again; it first waits
// for the backoff or the respawn. If the retry is impossible, it clears the
// possibility in f, so that Decide chooses another action.
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
		f.TriesLeft = false // the candidate became unavailable after the failure, or exceeds the budget
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

// updateAvailability sets in f which candidates are left. A candidate whose
// process exited before the call reached it counts as not tried: it can be
// bound again, or keeps the retries that it has left. If it respawns and no
// other candidate is ready, the operation waits for it as after a crash
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

// inTime reports whether a wait ends before the deadline of the node.
func (o *operation) inTime(ctx context.Context, wait time.Duration) bool {
	until := o.d.Clock.Now().Add(wait)
	if !o.w.Deadline.IsZero() && !until.Before(o.w.Deadline) {
		return false
	}
	end, bounded := ctx.Deadline()
	return !bounded || until.Before(end)
}

// expired reports whether the context or the deadline of the node has ended.
func (o *operation) expired(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	return !o.w.Deadline.IsZero() && !o.d.Clock.Now().Before(o.w.Deadline)
}

// next binds again and returns the best candidate that was not tried; ok is
// false if there is none or the limit is reached.
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

// available converts the state of a capability for binding.
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

// noCandidate is the failure of a node without a usable candidate. It is
// retryable if a candidate is only not ready.
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
	if hint := request.ModelHint(intent); hint != "" {
		e = e.WithHint(hint)
	}
	for _, r := range b.Rejected {
		switch r.Reason {
		case policy.ReasonNotReady:
			e = e.WithRetryable(true)
		case policy.ReasonEffects:
			if request.ModelHint(intent) != "" {
				continue
			}
			e = e.WithHint(policy.AllowHint(r.Detail))
		}
	}
	cause := firstCause(b.Rejected)
	if cause == nil {
		for _, r := range b.Rejected { // an unavailable plugin is configured; its hint is about its state
			if r.Why != nil && r.Why.Hint != "" {
				return e.WithHint(r.Why.Hint)
			}
		}
		return e
	}
	if row, _ := contract.Lookup(cause.Type); cause.Hint != "" &&
		(cause.Type != "provider/not-configured" || cause.Hint != row.Hint) {
		// The hint is more specific than "configure a model".
		e = e.WithHint(cause.Hint)
	}
	return e.WithCause(cause)
}

// firstCause returns the cause of the first rejection that has one of its own,
// else the cause behind the state of the first unavailable plugin.
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

// resultRules are the rules for the form of an answer. The gate schema-valid
// checks the value against its schema.
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

// degraded returns the candidates before the winner that were rejected for a
// cause of their own, such as a missing key.
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

// ownCause reports whether a rejection has a cause behind its reason, such as a
// missing key; other causes only repeat the reason.
func ownCause(r policy.Rejection) bool { return r.Why != nil && r.Why.Type != r.Reason }

// fail makes err the failure of the node and adds attempts, candidates and
// retry settings as details.
func (o *operation) fail(err *contract.Error) {
	p := &o.w.Policy.Policy
	if err.Type == "budget/exceeded" {
		err = err.WithClass(contract.ClassFinal) // no cheaper candidate is left
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

// switchOn returns the configured switch set, or :default.
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
