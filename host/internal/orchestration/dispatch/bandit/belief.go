package bandit

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Declared holds the cost and latency that a capability declares. Cost is unknown
// unless Priced is set, Latency unless HasLatency is set.
type Declared struct {
	Cost, Latency      float64 // USD, milliseconds
	Priced, HasLatency bool
}

// Belief is the posterior of an arm: its pass rate has the distribution Beta(A, B).
type Belief struct {
	Arm
	A, B float64
	// Passes and Fails are the decayed counts that A and B contain beside the prior.
	// Outcomes is the number of outcomes without decay.
	Passes, Fails float64
	Outcomes      int
	// Cost and Latency are means in USD and milliseconds, of declared and measured
	// values; unknown unless Priced and Timed are set.
	Cost, Latency float64
	Priced, Timed bool
}

// Mean is the expected pass rate.
func (b *Belief) Mean() float64 { return b.A / (b.A + b.B) }

// Belief returns the posterior of arm a at a time: its prior of s plus the counts of the
// group, decayed with the half-life of s. The cost and latency that d declares count as
// one measurement each. For an arm without outcomes the posterior is the prior.
func (g *Group) Belief(a Arm, d Declared, s *policy.Learned, at time.Time) Belief {
	prior := s.Of(a.CapID)
	b := Belief{Arm: a, A: prior.Passes, B: prior.Fails}
	c := g.find(a)
	if c == nil {
		c = &counts{}
	} else {
		sum := c.tally(at, s.HalfLife)
		b.Passes, b.Fails, b.Outcomes = sum.passes, sum.fails, c.outcomes
		b.A, b.B = b.A+b.Passes, b.B+b.Fails
	}
	b.Cost, b.Priced = c.cost.of(d.Cost, d.Priced, at, s.HalfLife)
	b.Latency, b.Timed = c.latency.of(d.Latency, d.HasLatency, at, s.HalfLife)
	return b
}

// Known returns the arms with outcomes, sorted.
func (g *Group) Known() []Arm {
	out := make([]Arm, len(g.arms))
	for i, c := range g.arms {
		out[i] = c.Arm
	}
	slices.SortFunc(out, compareArms)
	return out
}

// penalties returns the amount by which cost and latency, relative to the largest
// ones, reduce the utility of each candidate. An unknown value counts as the mean of
// the known ones.
func penalties(all []Belief, s *policy.Learned) []float64 {
	out := make([]float64, len(all))
	add := func(weight float64, of func(b *Belief) (float64, bool)) {
		if weight == 0 {
			return
		}
		most, sum, known := 0.0, 0.0, 0
		for i := range all {
			if v, ok := of(&all[i]); ok {
				most, sum, known = max(most, v), sum+v, known+1
			}
		}
		if most <= 0 {
			return
		}
		for i := range all {
			v, ok := of(&all[i])
			if !ok {
				v = sum / float64(known)
			}
			out[i] += weight * v / most
		}
	}
	add(s.CostWeight, func(b *Belief) (float64, bool) { return b.Cost, b.Priced })
	add(s.LatencyWeight, func(b *Belief) (float64, bool) { return b.Latency, b.Timed })
	return out
}

// Range returns the 95 % credible interval of the pass rate: its quantiles at 2.5 %
// and 97.5 %, rounded outwards to cells of the quadrature.
func (b *Belief) Range() (low, high float64) {
	var c curve
	s := shapeOf(b.A, b.B)
	from, till := s.bounds()
	c.of(&s, from, till)
	low, high = float64(c.from)/points, float64(c.till)/points
	for k := c.from; k < c.till; k++ {
		if c.below[k] <= 0.025 {
			low = float64(k) / points
		}
		if c.below[k]+c.mass[k] >= 0.975 {
			return low, float64(k+1) / points
		}
	}
	return low, high
}
