package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
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

// Explain binds a call without making it (BIND-006). The budget is ignored. Without
// an Executor all candidates count as ready; without Stats only declared figures are
// known. capID pins the first candidate (empty: none); streamed is true for a call
// whose answer is shown while it is produced.
func (d *Dispatcher) Explain(pol policy.Policy, intent, capID string, streamed bool) Explanation {
	p := d.CallPolicy(pol, intent, capID)
	n := &node{d: d, w: &Work{Op: "call", Policy: p, Intent: intent}}
	if streamed {
		n.w.Stream = &stream.Text{}
	}
	all := candidates{n: n, may: availability{n: n}}
	now := d.Clock.Now()
	demand := p.demand(d.Registry)
	demand.State = func(id string) policy.Unavailable { return all.may.peek(id, now) }
	demand.StandIn = all.may.standIn
	x := Explanation{Binding: all.order(demand.Bind()), Ordering: p.Ordering, figures: map[string]stats.Figures{}}
	for i, id := range x.Binding.List {
		if c, ok := d.Registry.Capability(id); ok {
			x.figures[id] = d.figures(p, c, i, now)
		}
	}
	return x
}

// figures returns the recorded figures of a candidate, else the declared ones.
func (d *Dispatcher) figures(p *CallPolicy, c *registry.Capability, index int, now time.Time) stats.Figures {
	f := p.stats[c.ID].Figures(c, index, now)
	f.Condition = d.condition(c.ID)
	return f
}
