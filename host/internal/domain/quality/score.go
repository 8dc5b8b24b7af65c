package quality

import (
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Score is a number of thousandths; 1000 is the best score.
type Score int64

// Perfect is the best score.
const Perfect Score = 1000

// Value returns the score as the decimal used in records.
func (s Score) Value() edn.Value {
	v, err := edn.Decimal(big.NewInt(int64(s)), -3)
	if err != nil {
		return edn.Int(0)
	}
	return v
}

// RoundScore rounds to thousandths, half to even (GATE-007).
func RoundScore(r *big.Rat) Score {
	num := new(big.Int).Mul(r.Num(), big.NewInt(1000))
	q, rem := new(big.Int).QuoRem(num, r.Denom(), new(big.Int))
	// Truncation is towards zero, so the distance is |rem|/denominator.
	twice := new(big.Int).Abs(rem)
	twice.Lsh(twice, 1)
	away := twice.Cmp(r.Denom())
	if away > 0 || away == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(int64(r.Sign())))
	}
	return Score(q.Int64())
}

// ScoreOf returns a number as a score, rounded to thousandths; a float counts as its
// shortest decimal. ok is false if v is not a number.
func ScoreOf(v edn.Value) (Score, bool) {
	r, ok := v.AsNumber()
	if !ok {
		return 0, false
	}
	return RoundScore(r), true
}

// ratio rounds passed/total without big numbers, the common case without a
// judge.
func ratio(passed, total int) Score {
	if total == 0 {
		return Perfect
	}
	q, rem := passed*1000/total, passed*1000%total
	if 2*rem > total || 2*rem == total && q%2 == 1 {
		q++
	}
	return Score(q)
}
