package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
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
	Stats *stats.Table
	// Grades caches the grades of judges; nil: nothing is cached.
	Grades *Grades
	// Calibrations returns the measured quality of judges; nil: no judge is
	// measured.
	Calibrations Calibrations
	// Observer sees every operation; nil: nobody does.
	Observer Observer
}

// operation is the execution of one call or tool node: the state of one Serve.
type operation struct {
	d   *Dispatcher
	run *Run
	w   *Work

	binding        policy.Binding
	machine        flow.Machine
	strategy       strategy
	attempts       []*attempt               // that run beside each other
	besides        *besides                 // nil in a cascade
	timer          *timer                   // of a hedge; nil: none runs
	accepted       []Result                 // answers of a tournament
	owed           map[int]stats.Sample     // refused answers, by attempt
	number         int                      // attempts so far
	waited         time.Duration            // for respawning processes since the last attempt
	draws          int                      // random values drawn so far
	key            string                   // effect key
	ranked         []stats.Figures          // candidates in the order of the policy
	breakerAnswers map[string]breakerAnswer // of breakers that are not closed
	mode           stream.Mode              // when streamed text is shown
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
	joins       bool            // the candidate would join running attempts
	unevaluated *contract.Error // why a check or judge could not evaluate the last answer

	scratch scratch
}

// scratch is preallocated space for the common case, one attempt that is
// accepted after one gate. It keeps this case to one allocation. A record in it
// is written once and then belongs to the journal.
type scratch struct {
	attempt  attempt
	result   attemptResult
	events   [2]flow.Event
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
	o.result.Attempts = o.scratch.attempts[:0]
	if err := o.checkEffects(); err != nil {
		o.fail(err)
		return &o.result
	}
	o.binding = o.bind()
	o.awaitRespawn(ctx)
	o.awaitBreaker(ctx)
	o.strategy = o.selectStrategy()
	if w.Stream != nil {
		o.mode = w.Stream.Mode(&w.Policy.Policy, o.strategy.name)
	}
	o.record(o.resolvedRecord())
	if len(o.binding.Tried) == 0 {
		o.fail(o.noCandidate())
	} else {
		o.drive(ctx)
	}
	if o.result.Err == nil {
		o.result.stream.Accept(o.result.Out)
	}
	w.Stream.Close(o.result.Err)
	return &o.result
}

// awaitReady waits until a candidate is ready.
func (o *operation) awaitReady(ctx context.Context, capID string) error {
	if !o.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.w.Deadline)
		defer cancel()
	}
	return o.d.Executor.Await(ctx, capID)
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
	if o.machine.Exhausted() {
		return "", false
	}
	if !o.machine.Fresh() {
		o.binding = o.bind()
	}
	return o.machine.Next(flow.Situation{Accepted: o.binding.Accepted})
}

// condition returns the current condition of a capability.
func (d *Dispatcher) condition(capID string) stats.Condition {
	if c, ok := d.Executor.(stats.Conditions); ok {
		return c.Condition(capID)
	}
	return stats.Condition{}
}

// unavailable converts the state of a capability for binding.
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
		Strategy: o.strategy.name,
		Width:    o.strategy.recordedWidth(),
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
