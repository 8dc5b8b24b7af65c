package dispatch

import (
	"math"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// strategy holds the rules by which the attempts of one call are scheduled.
type strategy struct {
	name  string
	width int           // race, tournament: attempts that start together
	after time.Duration // hedge: wait without an answer before the next attempt
	max   int           // hedge: maximum number of additional attempts

	candidates int // maximum number of tried candidates
}

func (p strategy) recordedWidth() int {
	if p.name == policy.Race || p.name == policy.Tournament {
		return p.width
	}
	return 0
}

// recordedStrategy is the strategy of a call that is replayed.
func recordedStrategy(r *journal.NodeResolved) strategy {
	s := strategy{name: policy.Cascade, candidates: math.MaxInt}
	if r != nil {
		s.name, s.width = r.Strategy, max(2, r.Width)
		s.max, s.after = math.MaxInt32, 1 // the records say how often a hedge fired
	}
	return s
}

// HasAlternatives reports whether another candidate may answer if the first one fails.
func (p *CallPolicy) HasAlternatives() bool { return len(p.static.Tried) > 1 }

// selectStrategy selects the strategy of this call. Candidates with effects run as a
// cascade, never in parallel, and so do a single candidate and a call with recorded attempts
// that began as a cascade.
func (o *operation) selectStrategy() strategy {
	p := o.node.w.Policy
	cascade := strategy{name: policy.Cascade, candidates: 1 + p.FallbackMax}
	s := strategy{name: p.Strategy, candidates: cascade.candidates}
	switch s.name {
	case policy.Race:
		s.width = p.RaceWidth
	case policy.Tournament:
		s.width = p.TournamentWidth
	case policy.Hedge:
		s.max, s.after = p.HedgeMax, p.HedgeAfter
		s.width = 1 + s.max
	default:
		return cascade
	}
	accepted := o.candidates.binding.Accepted
	if o.node.w.Op != "call" || !o.candidates.repeatable(accepted) {
		return cascade
	}
	cascade.candidates = max(cascade.candidates, s.width)
	s.candidates = cascade.candidates
	room := o.funds.Affordable(accepted[:min(s.width, len(accepted))])
	s.width = min(s.width, room)
	s.max = min(s.max, room-1)
	if s.name == policy.Hedge && s.after == 0 && len(accepted) > 0 {
		s.after = o.usualLatency(accepted[0])
	}
	if s.width < 2 || s.name == policy.Hedge && s.after == 0 || o.attempts.past.isCascade() {
		return cascade
	}
	return s
}

// usualLatency returns the p95 latency of a capability, or twice the declared one; 0 if
// unknown. A hedge without a delay of its own waits that long.
func (o *operation) usualLatency(capID string) time.Duration {
	if cs := o.node.w.Policy.stats[capID]; cs != nil {
		if d, ok := cs.P95(); ok {
			return max(d, time.Millisecond)
		}
	}
	c, ok := o.node.d.Registry.Capability(capID)
	if !ok || !c.Cost.HasLatency {
		return 0
	}
	return 2 * c.Cost.Latency
}
