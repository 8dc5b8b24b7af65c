package bandit

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Decision is an order of candidates.
type Decision struct {
	Order []int // indexes of the candidates
	// Explored reports that the first was drawn uniformly from all candidates.
	Explored bool
	// Propensity is the probability with which the first candidate was chosen.
	Propensity float64
}

// ByMean orders candidates by their expected utility, without randomness.
func ByMean(all []Belief, s *policy.Learned) Decision {
	utility := penalties(all, s)
	for i := range all {
		utility[i] = all[i].Mean() - utility[i]
	}
	return Decision{Order: byUtility(utility), Propensity: 1}
}

// Draw orders candidates by Thompson sampling and, with probability s.Explore, moves a
// uniformly drawn one to the front. all must not be empty.
func Draw(all []Belief, s *policy.Learned, r *rand.Rand) Decision {
	less := penalties(all, s)
	utility := make([]float64, len(all))
	for i := range all {
		utility[i] = drawBeta(r, all[i].A, all[i].B) - less[i]
	}
	d := Decision{Order: byUtility(utility)}
	if d.Explored = r.Float64() < s.Explore; d.Explored {
		first := r.IntN(len(all))
		at := slices.Index(d.Order, first)
		d.Order = slices.Insert(slices.Delete(d.Order, at, at+1), 0, first)
	}
	d.Propensity = (1-s.Explore)*best(all, less, d.Order[0]) + s.Explore/float64(len(all))
	return d
}

// byUtility returns the indexes of the utilities, the largest first.
func byUtility(utility []float64) []int {
	order := make([]int, len(utility))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(utility[b], utility[a]) })
	return order
}

func compareArms(a, b Arm) int {
	return cmp.Or(cmp.Compare(a.CapID, b.CapID), cmp.Compare(a.Major, b.Major))
}
