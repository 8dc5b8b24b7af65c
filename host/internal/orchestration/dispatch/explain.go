package dispatch

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Explanation is the binding of a call at this moment, with the figures behind
// it.
type Explanation struct {
	Binding  policy.Binding // in the order of the policy
	Ordering string
	figures  map[string]stats.Figures
}

// Figures returns the figures of a candidate; ok is false for an unknown one.
func (x Explanation) Figures(capID string) (f stats.Figures, ok bool) {
	f, ok = x.figures[capID]
	return f, ok
}

// Explain binds a call without making it (BIND-006). Without an Executor all
// candidates count as ready; without Stats only declared figures are known.
// capID pins the first candidate; streamed is true for a call whose answer is
// shown while it is produced.
func (d *Dispatcher) Explain(pol policy.Policy, intent, capID string, streamed bool) Explanation {
	p := d.CallPolicy(pol, intent, capID)
	o := &operation{d: d, w: &Work{Op: "call", Policy: p, Intent: intent}}
	if streamed {
		o.w.Stream = &stream.Text{}
	}
	now := d.Clock.Now()
	demand := p.demand(d.Registry)
	demand.State = func(id string) policy.Unavailable { return o.peekUnavailability(id, now) }
	demand.StandIn = o.standIn
	x := Explanation{Binding: o.orderCandidates(demand.Bind()), Ordering: p.Ordering, figures: map[string]stats.Figures{}}
	for i, id := range x.Binding.List {
		if c, ok := d.Registry.Capability(id); ok {
			x.figures[id] = d.figures(p, c, i, now)
		}
	}
	return x
}

// peekUnavailability is unavailability without counting as a request at the
// breaker.
func (o *operation) peekUnavailability(capID string, now time.Time) policy.Unavailable {
	if o.d.Executor != nil {
		if u := unavailable(o.d.Executor.State(capID)); u.Reason != "" {
			return u
		}
	}
	cs := o.w.Policy.stats[capID]
	if cs == nil || cs.Admits(now) {
		return policy.Unavailable{}
	}
	return cs.Refusal(now)
}

// figures returns the recorded figures of a candidate, else the declared ones.
func (d *Dispatcher) figures(p *CallPolicy, c *registry.Capability, index int, now time.Time) stats.Figures {
	f := p.stats[c.ID].Figures(c, index, now)
	f.Condition = d.condition(c.ID)
	return f
}

// addFigures adds the figures of all candidates to the record of the node.
func (o *operation) addFigures(n *journal.NodeResolved) {
	now := o.d.Clock.Now()
	value := func(id string) edn.Value {
		c, ok := o.d.Registry.Capability(id)
		if !ok {
			return edn.Nil()
		}
		return o.d.figures(o.w.Policy, c, 0, now).Value()
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
