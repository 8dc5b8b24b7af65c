package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// breakerAnswer is the cached answer of a breaker for this node. The breaker is
// asked once per node, because asking counts while it ramps up.
type breakerAnswer struct {
	ok      bool
	reopens time.Time // zero: not by itself
}

// bind returns the candidates that may be called now. It rebinds only if
// effects must be checked or a candidate is unavailable.
func (o *operation) bind() policy.Binding {
	p := o.w.Policy
	b := p.static
	asks := p.effects && o.w.Op != "tool" // effects of a tool were checked before
	for _, id := range b.Accepted {
		if asks || o.unavailability(id).Reason != "" {
			demand := p.demand(o.d.Registry)
			demand.State, demand.StandIn = o.unavailability, o.standIn
			if asks {
				demand.Permits = o.deniedEffect
			}
			b = demand.Bind()
			break
		}
	}
	return o.orderCandidates(b)
}

// unavailability returns why a capability cannot be called now, for binding.
func (o *operation) unavailability(capID string) policy.Unavailable {
	st := o.d.Executor.State(capID)
	if u := unavailable(st); u.Reason != "" {
		return u
	}
	if u := o.breakerRefusal(capID, st.Edition); u.Reason != "" {
		return u
	}
	if o.budgeted() && o.unaffordable(capID) {
		return policy.Unavailable{Reason: policy.ReasonBudget}
	}
	return policy.Unavailable{}
}

// stats returns the statistics of a capability, nil without any. A verdict on a
// labelled answer bypasses the breaker of the judge.
func (o *operation) stats(capID string) *stats.Candidate {
	if o.vote && len(o.w.Stack) == 0 && o.run.Grading {
		return nil
	}
	return o.w.Policy.stats[capID]
}

// breakerRefusal returns why the breaker rejects this node, if it does.
func (o *operation) breakerRefusal(capID string, edition int) policy.Unavailable {
	cs := o.stats(capID)
	if cs == nil || cs.Closed() {
		return policy.Unavailable{}
	}
	now := o.d.Clock.Now()
	a, known := o.breakerAnswers[capID]
	if !known {
		version := ""
		if c, ok := o.d.Registry.Capability(capID); ok {
			version = c.Version
		}
		a.ok, a.reopens = cs.Allow(now, edition, version)
		o.setBreakerAnswer(capID, a)
	}
	if a.ok {
		return policy.Unavailable{}
	}
	return cs.Refusal(now)
}

// standIn returns the substitute of a swapped capability until its breaker is
// closed again.
func (o *operation) standIn(capID string) string { return o.stats(capID).Substitute() }

func (o *operation) setBreakerAnswer(capID string, a breakerAnswer) {
	if o.breakerAnswers == nil {
		o.breakerAnswers = map[string]breakerAnswer{}
	}
	o.breakerAnswers[capID] = a
}

// orderCandidates sorts the accepted candidates by the policy. The order is
// fixed once per node, so that its own attempts do not change it.
func (o *operation) orderCandidates(b policy.Binding) policy.Binding {
	p := o.w.Policy
	if p.stats == nil || p.Ordering == policy.Declared || len(b.Accepted) == 0 {
		return b
	}
	if o.ranked == nil {
		now := o.d.Clock.Now()
		o.ranked = make([]stats.Figures, 0, len(b.Accepted))
		for i, id := range b.Accepted {
			if c, ok := o.d.Registry.Capability(id); ok {
				f := p.stats[id].Figures(c, i, now)
				f.Condition = o.d.condition(id)
				o.ranked = append(o.ranked, f)
			}
		}
		stats.Sort(p.Ordering, o.ranked, o.streamed())
		if i := slices.IndexFunc(o.ranked, func(f stats.Figures) bool { return f.CapID == p.capID }); i > 0 {
			pinned := o.ranked[i]
			o.ranked = slices.Insert(slices.Delete(o.ranked, i, i+1), 0, pinned)
		}
	}
	place := func(id string) int {
		if i := slices.IndexFunc(o.ranked, func(f stats.Figures) bool { return f.CapID == id }); i >= 0 {
			return i
		}
		return len(o.ranked) // became available later
	}
	b.Accepted = slices.Clone(b.Accepted)
	slices.SortStableFunc(b.Accepted, func(x, y string) int { return place(x) - place(y) })
	b.Tried = b.Accepted[:min(len(b.Accepted), 1+p.FallbackMax)]
	return b
}

// streamed reports whether the answer is shown while it is produced.
func (o *operation) streamed() bool {
	p := o.w.Policy
	return o.w.Stream != nil && o.w.Stream.Mode(&p.Policy, p.Strategy) != stream.GatePassed
}

// ranking returns the order with its figures, for the record.
func (o *operation) ranking() []journal.Candidate {
	out := make([]journal.Candidate, 0, len(o.ranked))
	for i := range o.ranked {
		out = append(out, journal.Candidate{CapID: o.ranked[i].CapID, Figures: o.ranked[i].Value()})
	}
	return out
}

// awaitBreaker waits for the first breaker to reopen, if no candidate is
// available and the deadline allows it.
func (o *operation) awaitBreaker(ctx context.Context) {
	for len(o.binding.Accepted) == 0 {
		at, ok := o.firstReopening()
		wait := at.Sub(o.d.Clock.Now())
		if !ok || !o.inTime(ctx, wait) || o.d.Clock.Wait(ctx, wait) != nil {
			return
		}
		o.breakerAnswers, o.ranked = nil, nil
		o.binding = o.bind()
	}
}

// firstReopening returns when the first of the breakers that reject this node
// reopens.
func (o *operation) firstReopening() (first time.Time, ok bool) {
	for _, a := range o.breakerAnswers {
		if !a.ok && !a.reopens.IsZero() && (!ok || a.reopens.Before(first)) {
			first, ok = a.reopens, true
		}
	}
	return first, ok
}

// allBreakersOpen is the failure of a node whose candidates are rejected by
// their breakers only.
func (o *operation) allBreakersOpen() *contract.Error {
	open := 0
	for _, r := range o.binding.Rejected {
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
	e := contract.Errorf("breaker/open", "node %s: all candidates for :%s have an open breaker", o.w.Node, o.w.Intent).
		WithDetail("intent", journal.Keyword(o.w.Intent))
	if at, ok := o.firstReopening(); ok {
		e = e.WithDetail("retry-after-ms", edn.Int((at.Sub(o.d.Clock.Now()) + time.Millisecond - 1).Milliseconds()))
	}
	return e
}
