package bandit

import (
	"math"
	"slices"
)

// Choice is a recorded decision: which candidate was the first, with what probability,
// and whether its answer was accepted.
type Choice struct {
	First      Arm
	Among      []Arm
	Propensity float64
	Pass       bool
}

// Interval is an estimate with its 95 % confidence interval, within 0 and 1.
type Interval struct{ Value, Low, High float64 }

// Estimate is the pass rate that an arm would have had as the first choice of all
// decisions for which it was a candidate (LRN-003).
type Estimate struct {
	Arm
	Decisions int // in which it was a candidate
	First     int // in which it was the first
	// Inverse weights the outcomes by their inverse propensity, Normalised divides by the
	// sum of the weights. Both are zero for an arm that never was the first.
	Inverse, Normalised Interval
}

// EstimateAll estimates the arms of recorded decisions, in the order in which they
// occur first. Leave out choices that were not random (propensity 1 among several
// arms): they say nothing about the other arms.
func EstimateAll(choices []Choice) []Estimate {
	var out []Estimate
	place := map[Arm]int{}
	for _, c := range choices {
		for _, a := range c.Among {
			if _, seen := place[a]; !seen {
				place[a] = len(out)
				out = append(out, Estimate{Arm: a})
			}
		}
	}
	for i := range out {
		out[i].read(choices)
	}
	return out
}

// read computes the estimate from the decisions that had the arm. The intervals are
// computed with one more pass and one more fail, so that few equal outcomes do not give
// an interval of width 0.
func (e *Estimate) read(choices []Choice) {
	var weights, weightSquares, gains, gainSquares float64
	for _, c := range choices {
		if !slices.Contains(c.Among, e.Arm) {
			continue
		}
		e.Decisions++
		if c.First != e.Arm {
			continue
		}
		e.First++
		w := 1 / c.Propensity
		weights, weightSquares = weights+w, weightSquares+w*w
		if c.Pass {
			gains, gainSquares = gains+w, gainSquares+w*w
		}
	}
	if e.First == 0 {
		return
	}
	usual, n := weights/float64(e.First), float64(e.Decisions)+2
	mean := (gains + usual) / n
	spread := (gainSquares+usual*usual)/n - mean*mean
	e.Inverse = interval(gains/float64(e.Decisions), math.Sqrt(max(0, spread)/n))
	same := weights * weights / weightSquares // as many outcomes of equal weight say as much
	share := gains / weights
	smooth := (share*same + 1) / (same + 2)
	e.Normalised = interval(share, math.Sqrt(smooth*(1-smooth)/(same+2)))
}

// interval returns the 95 % interval of a normal distribution, limited to 0 and 1.
func interval(value, deviation float64) Interval {
	const z = 1.959963984540054
	in := func(v float64) float64 { return min(1, max(0, v)) }
	return Interval{in(value), in(value - z*deviation), in(value + z*deviation)}
}
