package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// candidates are the capabilities that a node may call, in the order of its
// policy.
type candidates struct {
	n       *node
	may     availability
	past    *past // of the operation; nil: it begins now
	binding policy.Binding
	ranked  []stats.Figures // candidates in the order of the policy

	request  *callRequest
	learning learning // of the policy learned
	fixed    bool     // checks and judges do not learn an order
}

// bind sets the candidates that may be called now. It leaves the static binding
// unless effects must be checked or a candidate is unavailable.
func (s *candidates) bind() {
	p := s.n.w.Policy
	b := p.static
	asks := p.effects && s.n.w.Op != "tool" // effects of a tool were checked before
	for _, id := range b.Accepted {
		if asks || s.may.of(id).Reason != "" {
			demand := p.demand(s.n.d.Registry)
			demand.State, demand.StandIn = s.may.of, s.may.standIn
			if asks {
				demand.Permits = s.n.deniedEffect
			}
			b = demand.Bind()
			break
		}
	}
	s.binding = s.order(b)
	if p := s.past; p != nil && (p.strict || p.fills() || p.only != "" || len(p.begun) > 0) {
		accepted := p.order(s.binding.Accepted, s.n.d.Registry)
		rejected := slices.Clone(s.binding.Rejected)
		s.binding.Accepted = accepted
		s.binding.Rejected = slices.DeleteFunc(rejected, func(r policy.Rejection) bool {
			return slices.Contains(accepted, r.Cap) // its call is recorded
		})
		s.binding.Tried = s.binding.Accepted[:min(len(s.binding.Accepted), max(1, len(s.binding.Tried)))]
	}
}

// order sorts the accepted candidates by the policy. The order is fixed once per
// node, so that its own attempts do not change it.
func (s *candidates) order(b policy.Binding) policy.Binding {
	p := s.n.w.Policy
	if p.Ordering == policy.Declared || len(b.Accepted) == 0 {
		return b
	}
	ids := s.orderOf(b.Accepted)
	if len(ids) == 0 {
		return b
	}
	place := func(id string) int {
		if i := slices.Index(ids, id); i >= 0 {
			return i
		}
		return len(ids) // became available later
	}
	b.Accepted = slices.Clone(b.Accepted)
	slices.SortStableFunc(b.Accepted, func(x, y string) int { return place(x) - place(y) })
	b.Tried = b.Accepted[:min(len(b.Accepted), 1+p.FallbackMax)]
	return b
}

// orderOf returns candidates in the order of the policy; none: the declared order.
func (s *candidates) orderOf(accepted []string) []string {
	p := s.n.w.Policy
	switch {
	case p.Ordering == policy.Learning:
		return s.learnedOrder(accepted)
	case p.stats == nil:
		return nil
	}
	if s.ranked == nil {
		now := s.n.now()
		s.ranked = make([]stats.Figures, 0, len(accepted))
		for i, id := range accepted {
			if c, ok := s.n.d.Registry.Capability(id); ok {
				f := p.stats[id].Figures(c, i, now)
				f.Condition = s.n.d.condition(id)
				s.ranked = append(s.ranked, f)
			}
		}
		stats.Sort(p.Ordering, s.ranked, s.streamed())
		if i := slices.IndexFunc(s.ranked, func(f stats.Figures) bool { return f.CapID == p.first() }); i > 0 {
			pinned := s.ranked[i]
			s.ranked = slices.Insert(slices.Delete(s.ranked, i, i+1), 0, pinned)
		}
	}
	ids := make([]string, len(s.ranked))
	for i := range s.ranked {
		ids[i] = s.ranked[i].CapID
	}
	return ids
}

// streamed reports whether the answer is shown while it is produced.
func (s *candidates) streamed() bool {
	p := s.n.w.Policy
	return s.n.w.Stream != nil && s.n.w.Stream.Mode(&p.Policy, p.Strategy) != stream.GatePassed
}

// ranking returns the order with its figures, for the record.
func (s *candidates) ranking() []journal.Candidate {
	out := make([]journal.Candidate, 0, len(s.ranked))
	for i := range s.ranked {
		out = append(out, journal.Candidate{CapID: s.ranked[i].CapID, Figures: s.ranked[i].Value()})
	}
	return out
}

// awaitBreaker waits for the first breaker to reopen, if no candidate is
// available and the deadline allows it.
func (s *candidates) awaitBreaker(ctx context.Context) {
	for len(s.binding.Accepted) == 0 {
		at, ok := s.may.firstReopening()
		wait := at.Sub(s.n.now())
		if !ok || !s.n.sleep(ctx, wait) {
			return
		}
		s.may.answers, s.ranked = nil, nil
		s.bind()
	}
}

// allBreakersOpen returns breaker/open with its cause if a breaker rejects a candidate and
// no candidate is merely not ready or quarantined; else nil.
func (s *candidates) allBreakersOpen() *contract.Error {
	var open []policy.Rejection
	for _, r := range s.binding.Rejected {
		switch r.Reason {
		case policy.ReasonBreaker:
			open = append(open, r)
		case policy.ReasonNotReady, policy.ReasonQuarantined:
			return nil
		}
	}
	if len(open) == 0 {
		return nil
	}
	e := contract.Errorf("breaker/open", "node %s: all candidates for :%s have an open breaker", s.n.w.Node, s.n.w.Intent).
		WithDetail("intent", journal.Keyword(s.n.w.Intent))
	if cause := firstCause(open); cause != nil {
		e = e.WithCause(cause)
	}
	if at, ok := s.may.firstReopening(); ok {
		return e.WithDetail("retry-after-ms", edn.Int((at.Sub(s.n.now()) + time.Millisecond - 1).Milliseconds()))
	}
	return e.WithHint(wayBack(open[0]))
}

// wayBack says what ends the pause of a tripped breaker, which has no end of its own.
func wayBack(r policy.Rejection) string {
	hint := "correct the cause"
	if r.Why != nil && r.Why.Hint != "" {
		hint = r.Why.Hint
	}
	return hint + "; then `ferment dispatch reset " + r.Cap + "` lets it be called again"
}

// noCandidate is the failure of a node without a usable candidate. It is
// retryable if a candidate is only not ready.
func (s *candidates) noCandidate() *contract.Error {
	if err := deniedError(s.binding.Rejected); err != nil {
		return err
	}
	if err := s.overBudget(); err != nil {
		return err
	}
	if err := s.allBreakersOpen(); err != nil {
		return err
	}
	return Unbound(s.n.w.Node, s.n.w.Intent, s.binding)
}

// lacking reports whether the configuration lacks a candidate: there is none, or one was
// rejected for what it is. Rights, the input and the state of a candidate do not count.
func (s *candidates) lacking() bool {
	return len(s.binding.Rejected) == 0 || slices.ContainsFunc(s.binding.Rejected, func(r policy.Rejection) bool {
		switch r.Reason {
		case policy.ReasonEffects, policy.ReasonNotReady, policy.ReasonQuarantined, policy.ReasonBreaker, policy.ReasonBudget:
			return false
		}
		return true
	})
}

// degraded returns the candidates before the winner that were rejected for their state, such
// as a missing key.
func (s *candidates) degraded(winner string) []policy.Rejection {
	var out []policy.Rejection
	for _, id := range s.binding.List {
		if id == winner {
			break
		}
		for _, r := range s.binding.Rejected {
			if r.Cap == id && r.OutOfService() {
				out = append(out, r)
			}
		}
	}
	return out
}

// overBudget returns the failure of a node whose budget rejects a candidate that could
// answer otherwise, even if others have an open breaker; nil if a candidate was rejected
// as not ready or quarantined.
func (s *candidates) overBudget() *contract.Error {
	short := false
	for _, r := range s.binding.Rejected {
		switch r.Reason {
		case policy.ReasonBudget:
			short = true
		case policy.ReasonNotReady, policy.ReasonQuarantined:
			return nil
		}
	}
	if !short {
		return nil
	}
	return s.may.funds.Shortfall()
}

// returning returns the candidates that were not ready at binding and are ready by
// now or will be without an operator.
func (s *candidates) returning() (ids []string) {
	for _, r := range s.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && s.n.d.Executor.State(r.Cap).willReturn() {
			ids = append(ids, r.Cap)
		}
	}
	return ids
}

// repeatable reports whether calls to all candidates are free of effects.
func (s *candidates) repeatable(ids []string) bool {
	for _, id := range ids {
		if c, ok := s.n.d.Registry.Capability(id); ok && c.Recovery(s.n.w.Input) != contract.RecoveryNone {
			return false
		}
	}
	return true
}

// addFigures adds the figures of all candidates to the record of the node.
func (s *candidates) addFigures(n *journal.NodeResolved) {
	now := s.n.d.Clock.Now()
	value := func(id string) edn.Value {
		c, ok := s.n.d.Registry.Capability(id)
		if !ok {
			return edn.Nil()
		}
		return s.n.d.figures(s.n.w.Policy, c, 0, now).Value()
	}
	n.Candidates, n.Rejected = slices.Clone(n.Candidates), slices.Clone(n.Rejected)
	for i := range n.Candidates {
		if c := &n.Candidates[i]; c.Figures.IsNil() {
			c.Figures = value(c.CapID)
		}
	}
	for i := range n.Rejected {
		n.Rejected[i].Figures = value(n.Rejected[i].CapID)
	}
}

// Unbound returns the error of a node whose candidates were all rejected for reasons
// other than breakers and budgets: the denial of an effect, or else
// unsupported/intent. The latter is retryable if a candidate is only not ready.
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

// firstCause returns the cause of the first rejection for which ownCause is true, else
// the cause of the state of the first unavailable plugin; nil if there is neither.
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

// ownCause reports whether a rejection has a cause behind its reason, such as a
// missing key; other causes only repeat the reason.
func ownCause(r policy.Rejection) bool { return r.Why != nil && r.Why.Type != r.Reason }
