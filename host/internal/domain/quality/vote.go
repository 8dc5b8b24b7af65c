package quality

import (
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// JudgeFailed is the finding of a judge that gave no grade (JDG-005).
const JudgeFailed = "judge/failed"

// LowGrade is the finding of a judge whose grade is not enough.
const LowGrade = "judge/low-score"

// Ballot collects the grades that one answer gets from one judge (JDG-008). A
// first grade that is enough stands; after one that is not, more are asked for
// until most of them agree. The zero Ballot asks for one grade.
type Ballot struct {
	// Most is how many grades there may be, an odd number.
	Most int
	// Least is the score that is enough.
	Least Score

	scores []*big.Rat
	passes int
}

// NewBallot is a ballot of at most so many grades; scoreMin is rounded like the
// grades (JDG-004).
func NewBallot(most int, scoreMin edn.Value) *Ballot {
	least, _ := ScoreOf(scoreMin)
	return &Ballot{Most: most, Least: least}
}

// Passes tells whether a grade is enough.
func (b *Ballot) Passes(score *big.Rat) bool { return RoundScore(score) >= b.Least }

// Add counts a grade.
func (b *Ballot) Add(score *big.Rat) {
	b.scores = append(b.scores, score)
	if b.Passes(score) {
		b.passes++
	}
}

// Scores are the grades in the order in which they were given.
func (b *Ballot) Scores() []*big.Rat { return b.scores }

// Settled tells whether further grades could not change what most of them say.
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

// Score is the median of the grades. As long as the ballot is not settled the
// first grade stands. It is nil without any.
func (b *Ballot) Score() *big.Rat {
	if len(b.scores) == 0 {
		return nil
	}
	if !b.Settled() {
		return b.scores[0]
	}
	return Median(b.scores)
}

// Median is the middle one of the numbers, of an even count the mean of both in
// the middle; nil without any.
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
