package quality

import (
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// JudgeFailed is the Code of the finding for a judge that gave no grade (JDG-005).
const JudgeFailed = "judge/failed"

// LowGrade is the Code of the finding for a judge whose grade is too low.
const LowGrade = "judge/low-score"

// Ballot collects the grades of one judge for one answer (JDG-008). A sufficient first
// grade is final; after an insufficient one, more grades are requested until a majority
// agrees. The zero Ballot requests one grade. It is not safe for concurrent use.
type Ballot struct {
	// Most is the maximum number of grades, odd.
	Most int
	// Least is the lowest sufficient score.
	Least Score

	scores []*big.Rat
	passes int
}

// NewBallot returns a ballot of at most most grades; scoreMin is rounded like
// the grades (JDG-004).
func NewBallot(most int, scoreMin edn.Value) *Ballot {
	least, _ := ScoreOf(scoreMin)
	return &Ballot{Most: most, Least: least}
}

// Passes reports whether a grade is sufficient.
func (b *Ballot) Passes(score *big.Rat) bool { return RoundScore(score) >= b.Least }

// Add counts a grade.
func (b *Ballot) Add(score *big.Rat) {
	b.scores = append(b.scores, score)
	if b.Passes(score) {
		b.passes++
	}
}

// Scores returns the grades in the order in which they were given.
func (b *Ballot) Scores() []*big.Rat { return b.scores }

// Settled reports whether further grades cannot change the majority.
func (b *Ballot) Settled() bool {
	n, most := len(b.scores), max(1, b.Most)
	if n == 0 {
		return false
	}
	if n == 1 && b.passes == 1 || n >= most {
		return true
	}
	return 2*b.passes > most || 2*(n-b.passes) > most
}

// Score returns the median of the grades. Until the ballot is settled it is the
// first grade. It is nil without grades.
func (b *Ballot) Score() *big.Rat {
	if len(b.scores) == 0 {
		return nil
	}
	if !b.Settled() {
		return b.scores[0]
	}
	return Median(b.scores)
}

// Median returns the median of the numbers, for an even count the mean of the
// middle two; nil without numbers.
func Median(numbers []*big.Rat) *big.Rat {
	n := len(numbers)
	if n == 0 {
		return nil
	}
	sorted := slices.Clone(numbers)
	slices.SortFunc(sorted, (*big.Rat).Cmp)
	if n%2 == 1 {
		return sorted[n/2]
	}
	sum := new(big.Rat).Add(sorted[n/2-1], sorted[n/2])
	return sum.Quo(sum, big.NewRat(2, 1))
}
