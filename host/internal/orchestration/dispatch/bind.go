package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// answer is what a breaker said when it was asked for this node. It is asked
// once: in its ramp, asking counts.
type answer struct {
	ok      bool
	reopens time.Time // zero: not by itself
}

// bind asks who may serve now. The usual case, everyone who fits is ready and no
// breaker is open, costs nothing but asking.
func (s *serving) bind() policy.Binding {
	t := s.w.Terms
	b := t.static
	asks := t.effects && s.w.Op != "tool" // a tool has been asked already, and is told why not
	for _, id := range b.Accepted {
		if asks || s.state(id).Reason != "" {
			demand := t.demand(s.d.Registry)
			demand.State, demand.StandIn = s.state, s.standIn
			if asks {
				demand.Permits = s.forbids
			}
			b = demand.Bind()
			break
		}
	}
	return s.rank(b)
}

// state says in the words of binding whether a capability can be used now.
func (s *serving) state(capID string) policy.Unavailable {
	st := s.d.Executor.State(capID)
	if u := unavailable(st); u.Reason != "" {
		return u
	}
	if u := s.keptOutBy(capID, st.Edition); u.Reason != "" {
		return u
	}
	if s.budgeted() && s.unaffordable(capID) {
		return policy.Unavailable{Reason: policy.ReasonBudget}
	}
	return policy.Unavailable{}
}

// page is how a capability stands for the call, nil without a book. A verdict on a
// labelled answer is asked of whoever is named, however he stands.
func (s *serving) page(capID string) *page {
	if s.vote && len(s.w.Stack) == 0 && s.run.Grading {
		return nil
	}
	return s.w.Terms.pages[capID]
}

// keptOutBy is what the breaker of a capability says to this node.
func (s *serving) keptOutBy(capID string, edition int) policy.Unavailable {
	p := s.page(capID)
	if p == nil || p.quiet.Load() {
		return policy.Unavailable{}
	}
	now := s.d.Clock.Now()
	a, known := s.asked[capID]
	if !known {
		version := ""
		if c, ok := s.d.Registry.Capability(capID); ok {
			version = c.Version
		}
		a.ok, a.reopens = p.ask(now, edition, version)
		s.remember(capID, a)
	}
	if a.ok {
		return policy.Unavailable{}
	}
	return p.refusal(now)
}

func (s *serving) remember(capID string, a answer) {
	if s.asked == nil {
		s.asked = map[string]answer{}
	}
	s.asked[capID] = a
}

// rank puts the accepted candidates into the order of the policy. The order is
// settled once for a node, so that its own attempts do not change it.
func (s *serving) rank(b policy.Binding) policy.Binding {
	t := s.w.Terms
	if t.pages == nil || t.Ordering == policy.Declared || len(b.Accepted) == 0 {
		return b
	}
	if s.ranked == nil {
		now := s.d.Clock.Now()
		s.ranked = make([]Figures, 0, len(b.Accepted))
		for i, id := range b.Accepted {
			if c, ok := s.d.Registry.Capability(id); ok {
				f := t.pages[id].figures(c, i, now)
				f.Condition = s.d.condition(id)
				s.ranked = append(s.ranked, f)
			}
		}
		sortFigures(t.Ordering, s.ranked, s.heard())
		if i := slices.IndexFunc(s.ranked, func(f Figures) bool { return f.CapID == t.capID }); i > 0 {
			pinned := s.ranked[i]
			s.ranked = slices.Insert(slices.Delete(s.ranked, i, i+1), 0, pinned)
		}
	}
	place := func(id string) int {
		if i := slices.IndexFunc(s.ranked, func(f Figures) bool { return f.CapID == id }); i >= 0 {
			return i
		}
		return len(s.ranked) // it came back since
	}
	b.Accepted = slices.Clone(b.Accepted)
	slices.SortStableFunc(b.Accepted, func(x, y string) int { return place(x) - place(y) })
	b.Tried = b.Accepted[:min(len(b.Accepted), 1+t.FallbackMax)]
	return b
}

// heard tells whether somebody reads the answer while it comes.
func (s *serving) heard() bool {
	f, t := s.w.Flow, s.w.Terms
	if f == nil {
		return false
	}
	m := modeOf(t.Stream)
	return max(m, f.mode) != afterGates && held(m, t.Strategy, &t.Policy) == ""
}

// ranking is the order with its figures, for the record.
func (s *serving) ranking() []journal.Candidate {
	out := make([]journal.Candidate, 0, len(s.ranked))
	for i := range s.ranked {
		out = append(out, journal.Candidate{CapID: s.ranked[i].CapID, Figures: s.ranked[i].Value()})
	}
	return out
}

// awaitBreaker waits for the first breaker that opens its way again, if nobody
// else can serve and that is in time.
func (s *serving) awaitBreaker(ctx context.Context) {
	for len(s.binding.Accepted) == 0 {
		at, ok := s.reopening()
		wait := at.Sub(s.d.Clock.Now())
		if !ok || !s.inTime(ctx, wait) || s.d.Clock.Wait(ctx, wait) != nil {
			return
		}
		s.asked, s.ranked = nil, nil
		s.binding = s.bind()
	}
}

// reopening is when the first breaker reopens that keeps a candidate out.
func (s *serving) reopening() (first time.Time, ok bool) {
	for _, a := range s.asked {
		if !a.ok && !a.reopens.IsZero() && (!ok || a.reopens.Before(first)) {
			first, ok = a.reopens, true
		}
	}
	return first, ok
}

// allOpen is the failure of a node whose candidates are all kept out by their
// breakers and by nothing else.
func (s *serving) allOpen() *contract.Error {
	open := 0
	for _, r := range s.binding.Rejected {
		switch r.Reason {
		case policy.ReasonBreaker:
			open++
		case policy.ReasonNotReady, policy.ReasonQuarantined:
			return nil
		}
	}
	if open == 0 {
		return nil
	}
	e := contract.Errorf("breaker/open", "node %s: everybody who serves :%s has failed too often of late", s.w.Node, s.w.Intent).
		WithDetail("intent", journal.Keyword(s.w.Intent))
	if at, ok := s.reopening(); ok {
		e = e.WithDetail("retry-after-ms", edn.Int((at.Sub(s.d.Clock.Now()) + time.Millisecond - 1).Milliseconds()))
	}
	return e
}
