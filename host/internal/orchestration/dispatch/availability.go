package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
)

// availability decides whether a node may call a capability now: by its state,
// its breaker and the budget.
type availability struct {
	n         *node
	funds     *funds.Payer
	unguarded bool                     // breakers are ignored
	answers   map[string]breakerAnswer // of breakers that are not closed
}

// breakerAnswer is the cached answer of a breaker for this node. The breaker is
// asked once per node, because asking counts while it ramps up.
type breakerAnswer struct {
	ok      bool
	reopens time.Time // zero: not by itself
}

// of returns why a capability cannot be called now, for binding; the zero value if
// it can.
func (a *availability) of(capID string) policy.Unavailable {
	st := a.n.d.Executor.State(capID)
	if u := unavailable(st); u.Reason != "" {
		return u
	}
	if u := a.breakerRefusal(capID, st.Edition); u.Reason != "" {
		return u
	}
	if a.funds.Unaffordable(capID) {
		return policy.Unavailable{Reason: policy.ReasonBudget}
	}
	return policy.Unavailable{}
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

// stats returns the statistics of a capability; nil if there are none or if breakers are
// ignored.
func (a *availability) stats(capID string) *stats.Candidate {
	if a.unguarded {
		return nil
	}
	return a.n.w.Policy.stats[capID]
}

// breakerRefusal returns why the breaker rejects this node; the zero value if it admits
// it.
func (a *availability) breakerRefusal(capID string, edition int) policy.Unavailable {
	cs := a.stats(capID)
	if cs == nil || cs.Closed() {
		return policy.Unavailable{}
	}
	now := a.n.now()
	answer, known := a.answers[capID]
	if !known {
		version := ""
		if c, ok := a.n.d.Registry.Capability(capID); ok {
			version = c.Version
		}
		answer.ok, answer.reopens = cs.Allow(now, edition, version)
		a.remember(capID, answer)
	}
	if answer.ok {
		return policy.Unavailable{}
	}
	return cs.Refusal(now)
}

func (a *availability) remember(capID string, answer breakerAnswer) {
	if a.answers == nil {
		a.answers = map[string]breakerAnswer{}
	}
	a.answers[capID] = answer
}

// standIn returns the substitute of a swapped capability until its breaker is
// closed again; empty: none.
func (a *availability) standIn(capID string) string { return a.stats(capID).Substitute() }

// acquire asks the breaker of a capability for a permit. The error is breaker/open.
func (a *availability) acquire(cs *stats.Candidate, c *registry.Capability) (breaker.Permit, *contract.Error) {
	permit, ok := cs.Acquire(a.n.now(), a.n.d.Executor.State(c.ID).Edition, c.Version)
	if !ok {
		return permit, contract.Errorf("breaker/open", "node %s: the breaker of :%s is open", a.n.w.Node, c.ID)
	}
	return permit, nil
}

// firstReopening returns the time at which the first of the breakers that reject
// this node reopens; ok is false if none does by itself.
func (a *availability) firstReopening() (first time.Time, ok bool) {
	for _, answer := range a.answers {
		if !answer.ok && !answer.reopens.IsZero() && (!ok || answer.reopens.Before(first)) {
			first, ok = answer.reopens, true
		}
	}
	return first, ok
}

// peek returns why a capability cannot be called now, like the method of, but does
// not count as a request at the breaker and ignores the budget.
func (a *availability) peek(capID string, now time.Time) policy.Unavailable {
	if a.n.d.Executor != nil {
		if u := unavailable(a.n.d.Executor.State(capID)); u.Reason != "" {
			return u
		}
	}
	cs := a.n.w.Policy.stats[capID]
	if cs == nil || cs.Admits(now) {
		return policy.Unavailable{}
	}
	return cs.Refusal(now)
}
