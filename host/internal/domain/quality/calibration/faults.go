package calibration

import (
	"fmt"
	"math"
)

// Fault is a bias of a judge that its calibration shows.
type Fault struct {
	// Name is one of order, length, own-family, spread and drift.
	Name string
	// Message describes the fault with its figure.
	Message string
}

// Limits beyond which a figure is a fault. The limits of correlations are wider with few
// observations.
const (
	mostOrder   = 0.25
	mostLength  = 0.3
	mostOwn     = 0.1
	leastOwn    = 10 // answers of either side
	leastSpread = 0.1
	sigmas      = 3
)

// Faults returns the biases that the figures show, in the order of the names in Fault; nil if there
// are none. drift is the limit for Drifted.
func (r Record) Faults(drift float64) []Fault {
	var out []Fault
	add := func(name, format string, args ...any) {
		out = append(out, Fault{name, fmt.Sprintf(format, args...)})
	}
	if beyond(r.Order, mostOrder) {
		which := "first"
		if r.Order.Value < 0 {
			which = "second"
		}
		add("order", "prefers what is shown %s: %+.2f in %d choices", which, r.Order.Value, r.Order.Of)
	}
	if beyond(r.Length, mostLength) {
		what := "longer"
		if r.Length.Value < 0 {
			what = "shorter"
		}
		add("length", "gives %s answers more: correlation %+.2f over %d answers", what, r.Length.Value, r.Length.Of)
	}
	if r.Own.Of >= leastOwn && r.Own.Value > mostOwn {
		add("own-family", "gives answers of its own family %.2f more", r.Own.Value)
	}
	if r.Good+r.Bad > 0 && r.Spread < leastSpread {
		add("spread", "hardly tells answers apart: its scores spread by %.2f", r.Spread)
	}
	if r.Drifted(drift) {
		add("drift", "agrees less than at first: kappa %.2f, it was %.2f", r.Kappa, r.Baseline.Value)
	}
	return out
}

func beyond(m Measured, most float64) bool {
	return m.Of > 3 && math.Abs(m.Value) > max(most, sigmas/math.Sqrt(float64(m.Of-3)))
}
