package calibration

import (
	"math"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Estimate is an estimated share of good answers with its 95 % interval.
type Estimate struct{ Rate, Low, High float64 }

// Value returns the estimate as {:rate :low :high} with decimals.
func (e Estimate) Value() edn.Value {
	return edn.MustMap(edn.K("rate"), decimal(e.Rate), edn.K("low"), decimal(e.Low), edn.K("high"), decimal(e.High))
}

// rounds is the number of bootstrap rounds of an interval.
const rounds = 1000

// Corrected estimates the share of good answers among those that a judge has graded: of is their
// number, passed the number of those that it passed. It corrects for the errors of the judge
// (JDG-010). The interval accounts for the sampling of the answers and of the anchors; equal
// arguments give equal intervals. ok is false if there are no answers, or if the judge is no better
// than chance: then the share that passed contains no information.
func (r Record) Corrected(passed, of int, seed uint64) (e Estimate, ok bool) {
	if of <= 0 || passed < 0 || passed > of || r.Good == 0 || r.Bad == 0 || r.Sensitivity+r.Specificity <= 1 {
		return Estimate{}, false
	}
	p := share(passed, of)
	e.Rate = unbiased(p, r.Sensitivity, r.Specificity)
	d := dice(seed)
	lows, highs := make([]float64, rounds), make([]float64, rounds)
	for i := range rounds {
		again, se, sp := d.share(of, p), d.share(r.Good, r.Sensitivity), d.share(r.Bad, r.Specificity)
		if se+sp <= 1 { // the estimate would be undefined
			lows[i], highs[i] = 0, 1
			continue
		}
		rate := unbiased(again, se, sp)
		lows[i], highs[i] = rate, rate
	}
	slices.Sort(lows)
	slices.Sort(highs)
	const tail = rounds / 40
	e.Low, e.High = rounded(min(lows[tail], e.Rate)), rounded(max(highs[rounds-1-tail], e.Rate))
	e.Rate = rounded(e.Rate)
	return e, true
}

func unbiased(p, se, sp float64) float64 { return min(1, max(0, (p+sp-1)/(se+sp-1))) }

// dice is the generator SplitMix64; randomness in the domain is always seeded
// by the caller.
type dice uint64

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit returns a number in [0, 1).
func (d *dice) unit() float64 { return float64(d.next()>>11) / (1 << 53) }

// share draws n times with probability p and returns the share of hits.
func (d *dice) share(n int, p float64) float64 {
	const many = 5000 // above this the normal approximation is accurate enough
	if n > many {
		// The sum of twelve draws, less six, is close to a normal deviate.
		z := -6.0
		for range 12 {
			z += d.unit()
		}
		return min(1, max(0, p+z*math.Sqrt(p*(1-p)/float64(n))))
	}
	hits := 0
	for range n {
		if d.unit() < p {
			hits++
		}
	}
	return share(hits, n)
}
