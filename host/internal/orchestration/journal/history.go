package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// History indexes the records of a run by place, so that a resumed run reuses recorded
// results. Resume and HostCall change it; apart from them it is read-only and safe for
// concurrent use. A nil History is empty for At and Answer.
type History struct {
	places map[string]*Place
	// Reserved are the reservations that were not settled, oldest first.
	Reserved []*BudgetReserved
	// Settled are all settlements, oldest first.
	Settled []*BudgetSettled
	// Last is the number of the last record, Epoch its epoch.
	Last, Epoch int
	// Accepted is nil in a history without its first record.
	Accepted *RunAccepted
	Config   string    // hash of the configuration of the last epoch
	configs  []string  // hashes of the configurations of all epochs
	Begun    time.Time // when the run was accepted
	Canceled *CancelRequested
	// Crashes is the number of crashes and lost leases in a row after which the run was
	// resumed.
	Crashes int
	// Active is set once the run was started.
	Active   bool
	Finished bool
	Status   string          // of a finished run
	Failure  *contract.Error // of a run that has failed
	// Suspended is nil unless the run waits for a decision.
	Suspended *RunSuspended
	// DeadlineAt is the deadline of the run. The time for which it was suspended does
	// not count.
	DeadlineAt time.Time
	// ByKey counts the reopenings by the idempotency key, Retries the retries as a job.
	// ReopenedAt is the time of the last reopening; zero: never. Worked is the sum of the
	// times from acceptance or reopening to the following failure.
	ByKey, Retries int
	ReopenedAt     time.Time
	Worked         time.Duration

	suspendedAt time.Time
	paths       map[*BudgetReserved]edn.Value
	older       map[answerKey]*History // the places of replaced plan answers and requests
}

// answerKey identifies a plan answer. The path alone is not enough: the plan answers of
// all attempts of a node have the same path.
type answerKey struct {
	path    string
	attempt int
}

// Place is the recorded state of one node, or of the plan at a path.
type Place struct {
	Node      string
	path      edn.Value
	Skipped   bool
	Settled   []*BudgetSettled // of its attempts, checks and votes
	Committed *NodeCommitted
	Failed    *NodeFailed
	Plan      *PlanResolved // the newest
	Resolved  *NodeResolved // the newest
	First     *NodeResolved // the oldest since the place was last forgotten (see forget)
	Attempts  []*Tried      // in the order of their start
	// Decided is the decision about a request of a plugin to the host; nil: none. Diverges
	// is set if a decision permits the requests of the call to differ from the recorded
	// ones.
	Decided  *Decided
	Diverges bool
	// Shown is the attempt whose text was shown last and not retracted; 0: an inline plan.
	// It is valid only if HasShown is set.
	Shown    int
	HasShown bool
}

// Tried is the recorded state of one attempt.
type Tried struct {
	At       time.Time // of its start
	Started  *AttemptStarted
	Finished *AttemptFinished // nil: it was lost
	Verdicts []*GateVerdict
	// Lost is set for an attempt that was in progress when its host stopped. Closed is set
	// if a host that resumed the run has recorded the end of the lost attempt.
	Lost, Closed bool
	// Forgotten is set for a failed or canceled attempt from before the run was reopened.
	// Its call is made again.
	Forgotten bool
	// Decided is the decision about the attempt; nil: none.
	Decided *Decided
	// Opened is the question that the attempt put to people, Answered its answer; nil: none.
	// An attempt that was lost while it waited for the answer is continued.
	Opened   *InterruptOpened
	Answered *InterruptAnswered
	// Begun and Ended are the numbers of the records of start and end.
	Begun, Ended int

	epoch int
}

// Decided is a decision about an attempt. Value is the given result if Choice is
// DecisionDone.
type Decided struct {
	Choice string
	Value  edn.Value
}

// Verdict returns the newest verdict of a gate, nil if there is none.
func (t *Tried) Verdict(gate string) *GateVerdict {
	for i := len(t.Verdicts) - 1; i >= 0; i-- {
		if t.Verdicts[i].Gate == gate {
			return t.Verdicts[i]
		}
	}
	return nil
}

// At returns the recorded state of the node or plan at a path, nil if there is none.
func (h *History) At(path edn.Value) *Place {
	if h == nil {
		return nil
	}
	return h.places[path.String()]
}

// PathOf returns the path of a reservation of the run; nil if it is not in the history.
func (h *History) PathOf(r *BudgetReserved) edn.Value { return h.paths[r] }

// Answer returns the history of the plan with which an attempt answered; path is the
// path of that plan. The result is empty if nothing is recorded for the plan.
func (h *History) Answer(path edn.Value, attempt int) *History {
	if h == nil {
		return nil
	}
	if older := h.older[answerKey{path.String(), attempt}]; older != nil {
		return older
	}
	if p := h.places[path.String()]; p != nil && p.Plan != nil && p.Plan.Attempt != attempt {
		return &History{Status: h.Status}
	}
	return h
}

// archive moves the places at and below a path to h.older, as the history of the plan
// answer of attempt.
func (h *History) archive(path edn.Value, attempt int) {
	older := &History{places: map[string]*Place{}, older: map[answerKey]*History{}}
	depth := path.Len()
	for key, p := range h.places {
		if p.path.Len() >= depth && edn.Vector(slices.Collect(p.path.Elems())[:depth]...).Equal(path) {
			older.places[key] = p
			delete(h.places, key)
		}
	}
	below := strings.TrimSuffix(path.String(), "]") + " "
	for key, answer := range h.older {
		if strings.HasPrefix(key.path, below) {
			older.older[key] = answer
			delete(h.older, key)
		}
	}
	if h.older == nil {
		h.older = map[answerKey]*History{}
	}
	h.older[answerKey{path.String(), attempt}] = older
}

// NewHistory returns the history of a run. records are all its records from the first
// on.
func NewHistory(records []Record) *History {
	h := &History{places: map[string]*Place{}, paths: map[*BudgetReserved]edn.Value{}}
	open := map[*BudgetReserved]bool{}
	for _, rec := range records {
		h.Last, h.Epoch = rec.Seq, rec.Epoch
		switch body := rec.Body.(type) {
		case *RunAccepted:
			h.Accepted, h.Begun, h.Config, h.DeadlineAt = body, rec.At, body.Config, body.DeadlineAt
			h.configs = append(h.configs, body.Config)
		case *RunStarted:
			h.Active = true
		case *RunResumed:
			h.Config = body.Config
			h.configs = append(h.configs, body.Config)
			h.Resume(rec.At, body)
		case *RunSuspended:
			h.Suspended, h.suspendedAt = body, rec.At
		case *CancelRequested:
			h.Canceled = body
		case *RunFinished:
			h.Finished, h.Status, h.Failure = true, body.Status, body.Err
			h.Worked += max(0, rec.At.Sub(h.since()))
		case *BudgetReserved:
			h.Reserved = append(h.Reserved, body)
			h.paths[body] = rec.Path
			open[body] = true
		case *BudgetSettled:
			delete(open, body.Of)
			h.Settled = append(h.Settled, body)
		}
		if answer, ok := rec.Body.(*PlanResolved); ok {
			p := h.places[rec.Path.String()]
			switch {
			case p == nil || p.Plan == nil:
			case answer.Attempt > 0 && p.Plan.Attempt != answer.Attempt:
				h.archive(rec.Path, p.Plan.Attempt)
			case answer.Request.Set() && p.Plan.Request.Hash() != answer.Request.Hash():
				h.archive(rec.Path, -rec.Seq) // the plugin made a different request at this path
			}
		}
		if rec.Body.describe().hasPath() {
			h.place(rec).add(rec)
		}
	}
	h.spread(h.Status)
	unsettled := h.Reserved[:0]
	for _, r := range h.Reserved {
		if open[r] {
			unsettled = append(unsettled, r)
		}
	}
	h.Reserved = unsettled
	return h
}

// Resume applies a resume at a time: its decisions, and the reopening of a failed run.
// It must not be called once the history is shared between goroutines.
func (h *History) Resume(at time.Time, resumed *RunResumed) {
	h.Active = true
	if h.Crashes++; resumed.Why != ResumedCrash && resumed.Why != ResumedLease {
		h.Crashes = 0
	}
	if h.Suspended != nil {
		h.DeadlineAt = h.DeadlineAt.Add(max(0, at.Sub(h.suspendedAt)))
	}
	h.Suspended = nil
	if resumed.Reopens() {
		h.reopen(at, resumed)
	}
	values := resumed.Values.Value()
	for _, d := range resumed.Decisions {
		value, _ := values.Get(d.Path)
		h.decideAt(d.Path, Decided{d.Choice, value})
	}
}

// Rebinds reports whether the run was accepted or resumed under another configuration than
// the one with the given hash, so that what is left of it may not fit that one.
func (h *History) Rebinds(config string) bool {
	return slices.ContainsFunc(h.configs, func(hash string) bool { return hash != config })
}

// since returns the time at which the run was accepted or last reopened.
func (h *History) since() time.Time {
	if h.ReopenedAt.IsZero() {
		return h.Begun
	}
	return h.ReopenedAt
}

// MayReopen reports whether the run failed and may be reopened: its error is retryable
// and not of the class final, and the run is not a replay (RUN-022).
func (h *History) MayReopen() bool {
	e := h.Failure
	return h.Finished && h.Status == StatusFailed && e != nil && e.Retryable && e.Class != contract.ClassFinal &&
		h.Accepted.ReplayOf == ""
}

// reopen reopens a failed run: failed nodes and canceled calls are forgotten, so that
// they are executed again. Attempts keep their numbers; commits, decisions and costs
// stay.
func (h *History) reopen(at time.Time, resumed *RunResumed) {
	h.Finished, h.Status, h.Failure, h.Canceled = false, "", nil, nil
	h.DeadlineAt, h.ReopenedAt = resumed.DeadlineAt, at
	switch resumed.Why {
	case ResumedKey:
		h.ByKey++
	case ResumedRetry:
		h.Retries++
	}
	h.forget(edn.Vector())
}

// HostCall returns the place of a request that a plugin made to the host, nil if none is
// recorded at path. It forgets failures at and below the path, so that the request can
// be repeated (JRN-046). It must not be called once the history is shared between
// goroutines.
func (h *History) HostCall(path edn.Value) *Place {
	p := h.At(path)
	if p == nil || !p.IsHostCall() {
		return nil
	}
	h.forget(path)
	return p
}

// AskedOnce reports whether a request that a plugin made to the host within a call had,
// or may have had, an effect that must not be repeated.
func (h *History) AskedOnce(call edn.Value) bool {
	for _, p := range h.places {
		if below(p.path, call) && slices.ContainsFunc(p.Attempts, (*Tried).HadEffectOnce) {
			if step, _ := p.path.Nth(call.Len()); isHostCall(step) {
				return true
			}
		}
	}
	return false
}

// Done reports whether nothing of the node at a path is executed again: it is committed or
// was skipped, its call is not made by decision, or it is part of a committed node.
func (h *History) Done(path []edn.Value) bool {
	if h == nil {
		return false
	}
	at := edn.Vector(path...)
	p := h.At(at)
	return p != nil && (p.IsCommitted() || p.Skipped || p.decidedAgainst()) || h.Within(at)
}

// decidedAgainst reports whether the call of the place is not made by decision.
func (p *Place) decidedAgainst() bool {
	if len(p.Attempts) == 0 {
		return false
	}
	d := p.Attempts[len(p.Attempts)-1].Decided
	return d != nil && d.Choice != DecisionRetry
}

// Unknown returns a question about each call of class once that is not committed and may
// have had its effect, and about which no decision is recorded. They are sorted by path.
func (h *History) Unknown() []Question {
	var out []Question
	for _, p := range h.places {
		if p.IsCommitted() || p.Failed != nil || h.Within(p.path) || !slices.ContainsFunc(p.Attempts, (*Tried).unknown) {
			continue
		}
		last := p.Attempts[len(p.Attempts)-1] // decisions apply to it
		if last.Decided == nil {
			out = append(out, last.question(p))
		}
	}
	slices.SortFunc(out, func(a, b Question) int { return ComparePaths(a.Path, b.Path) })
	return out
}

// question returns the question about an attempt at a place.
func (t *Tried) question(p *Place) Question {
	return Question{Path: p.path, Node: p.Node, Attempt: t.Started.Attempt, CapID: t.Started.CapID, EffectKey: t.Started.EffectKey}
}

// isHostCall reports whether a step of a path is a request of a plugin.
func isHostCall(step edn.Value) bool {
	s, ok := step.AsString()
	return ok && strings.HasPrefix(s, "h")
}

// IsHostCall reports whether the place is that of a request of a plugin to the host.
func (p *Place) IsHostCall() bool {
	last, ok := p.path.Nth(p.path.Len() - 1)
	return ok && p.Plan != nil && isHostCall(last)
}

// below reports whether a path is equal to home or below it.
func below(path, home edn.Value) bool { return edn.Equal(path, home) || within(path, home) }

// forget forgets failures and canceled attempts at and below from, except within
// committed nodes. An attempt that answered with a plan of which a node failed is kept:
// only that node is executed again.
func (h *History) forget(from edn.Value) {
	kept := map[answerKey]bool{}
	for _, p := range h.places {
		home := parent(p.path)
		if plan := h.At(home); p.Failed != nil && !p.IsCommitted() && plan != nil && plan.Plan != nil && plan.Plan.Attempt > 0 {
			kept[answerKey{parent(home).String(), plan.Plan.Attempt}] = true
		}
	}
	for key, older := range h.older {
		home := older.places[key.path].path
		if h.Within(home) || !below(home, from) {
			continue
		}
		for _, p := range older.places {
			if p.Failed != nil && !p.IsCommitted() && edn.Equal(parent(p.path), home) {
				kept[answerKey{parent(home).String(), key.attempt}] = true
			}
		}
		older.forget(from)
	}
	for _, p := range h.places {
		if p.IsCommitted() || h.Within(p.path) || !below(p.path, from) {
			continue
		}
		for _, t := range p.Attempts {
			canceled := t.Finished != nil && t.Finished.Err != nil && t.Finished.Err.Type == "canceled"
			if canceled || p.Failed != nil && !kept[answerKey{p.path.String(), t.Started.Attempt}] {
				t.Forgotten = true
			}
		}
		p.Failed, p.First = nil, nil
	}
}

// Within reports whether a path is part of a committed node.
func (h *History) Within(path edn.Value) bool {
	for path.Len() > 0 {
		if path = parent(path); h.At(path).IsCommitted() {
			return true
		}
	}
	return false
}

// decideAt sets the decision about the newest attempt at a path, also within plan
// answers.
func (h *History) decideAt(path edn.Value, d Decided) {
	switch p := h.At(path); {
	case p == nil:
	case len(p.Attempts) > 0:
		p.Attempts[len(p.Attempts)-1].Decided = &d
	case !p.IsHostCall():
	case d.Choice == DecisionRetry:
		h.At(parent(path)).Diverges = true
	default:
		p.Decided = &d
	}
}

// spread sets the status of the run in h and in the histories of its plan answers.
func (h *History) spread(status string) {
	h.Status = status
	for _, older := range h.older {
		older.spread(status)
	}
}

func (h *History) place(rec Record) *Place {
	path := rec.Path
	if path.IsNil() {
		path = edn.Vector()
	}
	key := path.String()
	p := h.places[key]
	if p == nil {
		p = &Place{Node: rec.Node, path: path}
		h.places[key] = p
	}
	return p
}

func (p *Place) add(rec Record) {
	switch body := rec.Body.(type) {
	case *NodeSkipped:
		p.Skipped = true
	case *NodeCommitted:
		p.Committed, p.Failed = body, nil // a later host executed the failed node again
	case *NodeFailed:
		p.Failed = body
	case *PlanResolved:
		p.Plan = body
	case *NodeResolved:
		if p.Resolved = body; p.First == nil {
			p.First = body
		}
	case *AttemptStarted:
		p.Attempts = append(p.Attempts, &Tried{At: rec.At, Started: body, Lost: true, Begun: rec.Seq, epoch: rec.Epoch})
	case *AttemptFinished:
		t := p.Attempt(body.Attempt)
		switch {
		case t == nil:
		case t.epoch != rec.Epoch && (t.Opened == nil || body.Outcome == OutcomeUnknown):
			t.Closed = true
		default:
			t.Finished, t.Lost, t.Ended = body, false, rec.Seq
		}
	case *InterruptOpened:
		if t := p.Attempt(body.Attempt); t != nil {
			t.Opened = body
		}
	case *InterruptAnswered:
		for _, t := range p.Attempts {
			if t.Opened != nil && t.Opened.Interrupt == body.Interrupt {
				t.Answered = body
			}
		}
	case *GateVerdict:
		if t := p.Attempt(body.Attempt); t != nil {
			t.Verdicts = append(t.Verdicts, body)
		}
	case *BudgetSettled:
		p.Settled = append(p.Settled, body)
	case *AttemptChunk:
		p.Shown, p.HasShown = body.Attempt, true
	case *AttemptRetracted:
		p.HasShown = false
	}
}

// Bound reports whether the node is committed to an attempt because it streams from
// the first token and text of the attempt was shown and not retracted (STR-004).
func (p *Place) Bound(attempt int) bool {
	return p.HasShown && p.Shown == attempt && p.Resolved != nil && p.Resolved.Stream == "first-token"
}

// Attempt returns the newest attempt with a number, nil if none has it.
func (p *Place) Attempt(number int) *Tried {
	for i := len(p.Attempts) - 1; i >= 0; i-- {
		if p.Attempts[i].Started.Attempt == number {
			return p.Attempts[i]
		}
	}
	return nil
}

// Asks reports whether at least one attempt was in progress when its host ended, and
// all of those were waiting for an answer from people.
func (h *History) Asks() bool {
	asks := false
	for _, p := range h.places {
		for _, t := range p.Attempts {
			switch {
			case !t.Lost || t.Closed:
			case t.Opened == nil || t.Answered != nil:
				return false
			default:
				asks = true
			}
		}
	}
	return asks
}

// Counted returns the number of attempts that a replay of the node makes: 0 if an
// attempt was decided as DecisionDone.
func (p *Place) Counted() (n int) {
	for _, t := range p.Attempts {
		switch {
		case t.Decided != nil && t.Decided.Choice == DecisionDone:
			return 0
		case t.Decided == nil && !t.Lost && !t.Forgotten:
			n++
		}
	}
	return n
}

// Ended reports whether a replay can take the result of the place from the records: the
// node committed or failed, or an attempt is recorded that was not forgotten.
func (p *Place) Ended() bool {
	return p != nil && (p.IsCommitted() || p.Failed != nil ||
		slices.ContainsFunc(p.Attempts, func(t *Tried) bool { return !t.Forgotten || t.Decided != nil }))
}

// IsCommitted reports whether the commit of the node is recorded.
func (p *Place) IsCommitted() bool { return p != nil && p.Committed != nil }

// unknown reports whether the attempt may have done work that must not be repeated, and
// its answer is not known. An attempt that waits for people has done nothing.
func (t *Tried) unknown() bool {
	if !t.HadEffectOnce() || t.Opened != nil {
		return false
	}
	return t.Lost || t.Forgotten || t.Finished.Outcome == OutcomeUnknown
}

// HadEffectOnce reports whether the attempt did, or may have done, work that must
// not be repeated.
func (t *Tried) HadEffectOnce() bool {
	return t.Started.Recovery == contract.RecoveryOnce.String() && t.MayHaveActed()
}

// MayHaveActed reports whether the attempt did, or may have done, its work.
func (t *Tried) MayHaveActed() bool {
	return t.Lost || t.Finished.Outcome == OutcomeOK || t.Finished.Outcome == OutcomeUnknown
}
