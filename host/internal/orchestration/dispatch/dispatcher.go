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
	// Book remembers how candidates have done; nil: nobody does, every breaker
	// stays closed and the declared order holds.
	Book *Book
	// Grades remembers what judges made of answers; nil: nothing is remembered.
	Grades *Grades
	// Calibrations tells how far judges may be believed; nil: nobody knows.
	Calibrations Calibrations
}

// serving is the state of one Serve.
type serving struct {
	d   *Dispatcher
	run *Run
	w   *Work

	binding policy.Binding
	used    []string // candidates that were tried, in order
	most    int      // candidates that may be tried
	plan    strategy
	number  int               // attempts so far
	waited  time.Duration     // for processes since the last attempt
	draws   int               // random values drawn so far
	key     string            // effect key
	ranked  []Figures         // what the order of the candidates rests on
	asked   map[string]answer // of breakers that are not closed
	mode    mode              // when its text is shown
	round   int               // of the repair that is being made
	told    edn.Value         // what the candidate is told in it
	done    bool              // an answer was refused whose effect was done
	result  Result
	failed  error // the recorder refused

	// Of a node with a budget.
	tokens int64 // that its input has, once they were estimated
	// What capabilities counted in it, 0 where one did not, and for which round.
	counted   map[string]int64
	countedIn int
	lacking   *contract.Error // why the last candidate that was looked at cannot be paid for
	gate      string          // of a check or a judge: its name
	vote      bool            // it is a judge
	unsound   bool            // who graded the last answer is not wholly in itself
	beside    bool            // who is looked at would be asked beside others
	unpaid    *contract.Error // why a check or a judge of the last answer could not be asked

	room room
}

// room is space for the usual case, one attempt that is accepted after one
// gate: what that leaves behind is one piece of memory. A record in it is
// written once and then belongs to the journal.
type room struct {
	entrant  entrant
	tried    tried
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

func (s *serving) startedRecord() *journal.AttemptStarted {
	if s.number == 1 {
		return &s.room.started
	}
	return &journal.AttemptStarted{}
}

func (s *serving) finishedRecord() *journal.AttemptFinished {
	if s.number == 1 {
		return &s.room.finished
	}
	return &journal.AttemptFinished{}
}

func (s *serving) verdictRecord() *journal.GateVerdict {
	if !s.room.judged {
		s.room.judged = true
		return &s.room.verdict
	}
	return &journal.GateVerdict{}
}

// anchorsGate is what verdicts on labelled answers are reserved for.
const anchorsGate = "judge/anchors"

// Serve gets one node answered. It records what it does and returns when the
// node is accepted or has failed for good; ctx cancels it.
func (d *Dispatcher) Serve(ctx context.Context, run *Run, w *Work) *Result {
	s := &serving{d: d, run: run, w: w}
	if run.Grading && len(w.Stack) == 0 {
		s.vote, s.gate = true, anchorsGate
	}
	s.used, s.result.Attempts = s.room.used[:0], s.room.attempts[:0]
	if err := s.permitted(); err != nil {
		s.end(err)
		return &s.result
	}
	s.most = 1 + w.Terms.FallbackMax
	s.binding = s.bind()
	s.awaitRespawn(ctx)
	s.awaitBreaker(ctx)
	s.plan = s.strategy()
	if w.Flow != nil {
		s.mode = w.Flow.modeFor(w.Terms, s.plan)
	}
	s.record(s.resolved())
	if len(s.binding.Tried) == 0 {
		s.end(s.unbound())
	} else {
		s.walk(ctx)
	}
	if s.result.Err == nil {
		s.result.voice.accept(s.result.Out)
	}
	w.Flow.close(s.result.Err)
	return &s.result
}

// walk asks the candidates that the strategy wants asked together, and then the
// others in a cascade: one after another, each with tries of its own.
func (s *serving) walk(ctx context.Context) {
	failure, more := s.together(ctx)
	for more {
		// Availability may have changed since the table was asked.
		capID, ok := s.awaitRespawn(ctx)
		if !ok {
			break
		}
		s.used = append(s.used, capID)
		failure = s.tryCandidate(ctx, capID)
		more = s.goesOn(failure)
	}
	switch {
	case s.failed != nil:
		s.result.Err = contract.AsError(s.failed)
	case failure != nil:
		if err := s.spent(failure); err != nil {
			s.end(err)
			return
		}
		s.end(failure.Err)
	}
}

// goesOn tells whether another candidate is asked after a failure, or after
// none at all.
func (s *serving) goesOn(f *Failure) bool {
	if f == nil || s.failed != nil {
		return false
	}
	action, _ := Decide(*f)
	return action == Next
}

// tryCandidate asks one candidate until it is accepted, which gives nil, or the
// attempt table sends the node elsewhere.
func (s *serving) tryCandidate(ctx context.Context, capID string) *Failure {
	return s.tryAgain(ctx, capID, 1, s.attempt(ctx, capID))
}

// tryAgain goes on after a try of a candidate that ended in failure.
func (s *serving) tryAgain(ctx context.Context, capID string, try int, failure *Failure) *Failure {
	told := s.repairs(capID)
	for failure != nil && s.failed == nil {
		if failure = s.repaired(ctx, capID, failure, told); failure == nil || s.failed != nil {
			return failure
		}
		s.refused(failure)
		failure.TriesLeft = try <= s.w.Terms.Retries(failure.Err.Type) && !s.yields(failure)
		s.gone(capID, try, failure)
		if !s.again(ctx, capID, try, failure) {
			break
		}
		if !failure.Unasked {
			try++
		}
		next := s.attempt(ctx, capID)
		if next != nil && next.TooDear {
			next = failure.brokeOff(next, s.w.Terms.SwitchOn)
		}
		failure = next
	}
	return failure
}

// again tells whether the same candidate is asked once more, after the waits
// that this takes. It clears in f what turned out to be impossible, so that the
// table gives the same answer when it is asked again.
func (s *serving) again(ctx context.Context, capID string, try int, f *Failure) bool {
	action, _ := Decide(*f)
	if action != Again && action != AgainWhenReady {
		return false
	}
	if wait := s.backoff(try, f.Err); wait > 0 && !f.Unasked {
		if !s.inTime(ctx, wait) || s.d.Clock.Wait(ctx, wait) != nil {
			f.TriesLeft, f.Over = false, s.over(ctx)
			return false
		}
	}
	switch action {
	case AgainWhenReady:
		begun := s.d.Clock.Now()
		err := s.await(ctx, capID)
		s.waited += s.d.Clock.Now().Sub(begun)
		if err == nil {
			return true
		}
		f.ComesBack = false
	default:
		reason := s.state(capID).Reason
		if reason == "" {
			return true
		}
		if reason == policy.ReasonBudget {
			*f = *f.brokeOff(s.tooDear(ctx, s.lacking), s.w.Terms.SwitchOn)
		}
		f.TriesLeft = false // it failed by itself and is gone since, or there is too little left for it
	}
	f.Over = s.over(ctx)
	s.look(f)
	return false
}

func (s *serving) await(ctx context.Context, capID string) error {
	if !s.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.w.Deadline)
		defer cancel()
	}
	return s.d.Executor.Await(ctx, capID)
}

// gone notes which candidates are left after a failure. A candidate whose
// process went before the call reached it was not tried: it may be bound again,
// or, after earlier tries, it keeps those that it has left. If it comes back by
// itself and no other one is ready, it is waited for like one that was lost
// (ATT-008 row 6).
func (s *serving) gone(capID string, try int, f *Failure) {
	first := f.Unasked && try == 1
	if first {
		s.used = slices.DeleteFunc(s.used, func(id string) bool { return id == capID })
	}
	if s.look(f) || first || f.Crashed || f.Err.Type != policy.ReasonNotReady || f.Outcome != Definite {
		return
	}
	f.ComesBack = s.d.Executor.State(capID).comesBack()
	f.Crashed = f.ComesBack
	f.TriesLeft = f.TriesLeft || f.Unasked
}

// inTime tells whether a wait ends before the deadline of the node.
func (s *serving) inTime(ctx context.Context, wait time.Duration) bool {
	until := s.d.Clock.Now().Add(wait)
	if !s.w.Deadline.IsZero() && !until.Before(s.w.Deadline) {
		return false
	}
	end, bounded := ctx.Deadline()
	return !bounded || until.Before(end)
}

// over tells whether the node may do nothing more.
func (s *serving) over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	return !s.w.Deadline.IsZero() && !s.d.Clock.Now().Before(s.w.Deadline)
}

// next binds again and gives the best candidate that was not tried, as long as
// the number of candidates allows one more.
func (s *serving) next() (string, bool) {
	if len(s.used) >= s.most {
		return "", false
	}
	if len(s.used) > 0 || s.number > 0 {
		s.binding = s.bind()
	}
	for _, id := range s.binding.Accepted {
		if !slices.Contains(s.used, id) {
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
func (s *serving) unbound() *contract.Error {
	if err := withheld(s.binding.Rejected); err != nil {
		return err
	}
	if err := s.allOpen(); err != nil {
		return err
	}
	if err := s.allTooDear(); err != nil {
		return err
	}
	return Unbound(s.w.Node, s.w.Intent, s.binding)
}

// Unbound is the failure of a node whose candidates were all rejected for
// reasons other than breakers and budgets.
func Unbound(node, intent string, b policy.Binding) *contract.Error {
	if err := withheld(b.Rejected); err != nil {
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
func (s *serving) wanted(c *registry.Capability) contract.ResultRules {
	return contract.ResultRules{
		CanProduce: c.CanProduce,
		ResultType: s.w.Terms.Layer.Requires.ResultType.V,
		Kind:       c.Kind,
	}
}

func (s *serving) resolved() *journal.NodeResolved {
	n := &s.room.resolved
	*n = journal.NodeResolved{
		Op:       s.w.Op,
		Policy:   s.w.Terms.Ordering,
		Strategy: s.plan.name,
		Width:    s.plan.recordedWidth(),
		Coerced:  s.w.Coerced,
	}
	if s.ranked != nil {
		n.Candidates, n.Rejected = s.ranking(), rejections(s.binding.Rejected)
	} else if len(s.binding.Accepted) == len(s.w.Terms.candidates) {
		n.Candidates, n.Rejected = s.w.Terms.candidates, s.w.Terms.rejected
	} else {
		n.Candidates, n.Rejected = candidates(s.binding.Accepted), rejections(s.binding.Rejected)
	}
	if s.w.Op == "tool" {
		n.ToolID = s.w.ToolID
	} else {
		n.Intent = s.w.Intent
	}
	if s.w.Flow != nil {
		n.Stream = s.mode.String()
	}
	if s.run.Explain {
		s.explained(n)
	}
	return n
}

func (s *serving) record(body journal.Body) {
	if s.failed == nil {
		s.failed = s.run.Recorder.Record(s.w.Path, s.w.Node, body)
	}
}

// degraded are the candidates before the winner that were left out for a cause
// of their own, such as a missing key.
func (s *serving) degraded(winner string) []policy.Rejection {
	var out []policy.Rejection
	for _, id := range s.binding.List {
		if id == winner {
			break
		}
		for _, r := range s.binding.Rejected {
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
func (s *serving) end(err *contract.Error) {
	p := &s.w.Terms.Policy
	if err.Type == "budget/exceeded" {
		err = err.WithClass(contract.ClassFinal) // nobody was left who costs less
	}
	attempts := make([]edn.Value, len(s.result.Attempts))
	for i, a := range s.result.Attempts {
		attempts[i] = a.value()
	}
	candidates := make([]edn.Value, len(s.binding.Accepted))
	for i, id := range s.binding.Accepted {
		candidates[i] = journal.Keyword(id)
	}
	s.result.Err = err.
		WithDetail("attempts", edn.Vector(attempts...)).
		WithDetail("candidates", edn.Vector(candidates...)).
		WithDetail("rejected", journal.RejectionsValue(rejections(s.binding.Rejected))).
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
