package policy

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Dimension is something that is counted.
type Dimension int

// The dimensions. Time and depth are not among them: they are limits on a
// moment and not sums.
const (
	TokensIn Dimension = iota
	TokensOut
	Roundtrips
	Attempts
	JudgeCalls
	USD
	dimensions
)

// Dimensions are all of them, in the order in which they are checked.
func Dimensions() []Dimension {
	out := make([]Dimension, dimensions)
	for i := range out {
		out[i] = Dimension(i)
	}
	return out
}

// String is the bare name, as records and reports have it.
func (d Dimension) String() string {
	switch d {
	case TokensIn:
		return "tokens-in"
	case TokensOut:
		return "tokens-out"
	case Roundtrips:
		return "roundtrips"
	case Attempts:
		return "attempts"
	case JudgeCalls:
		return "judge-calls"
	case USD:
		return "usd"
	}
	return fmt.Sprintf("dimension %d", int(d))
}

// dimensionOf finds a dimension by its bare name or by that of its limit.
func dimensionOf(name string) (Dimension, bool) {
	name = strings.TrimPrefix(name, "max-")
	for _, d := range Dimensions() {
		if d.String() == name {
			return d, true
		}
	}
	return 0, false
}

// Amounts is how much of each dimension. The zero value is nothing. It is
// immutable and never negative.
type Amounts struct {
	n   [USD]int64
	usd money
}

// Count is an amount of one dimension other than USD; a negative n is 0.
func Count(d Dimension, n int64) Amounts {
	var a Amounts
	if d < USD {
		a.n[d] = max(0, n)
	}
	return a
}

// Money is an amount of USD: an integer or a decimal that is not negative.
// Floats are refused, because their digits are not what somebody wrote.
func Money(v edn.Value) (Amounts, error) {
	r, err := number(v)
	if err != nil {
		return Amounts{}, err
	}
	return Amounts{usd: moneyOf(r)}, nil
}

func number(v edn.Value) (*big.Rat, error) {
	r, ok := v.AsNumber()
	switch {
	case !ok || !v.IsInt() && !v.IsDecimal():
		return nil, fmt.Errorf("expected an integer or a decimal, found %s", v)
	case r.Sign() < 0:
		return nil, fmt.Errorf("expected no negative amount, found %s", v)
	}
	return r, nil
}

// Plus is the sum.
func (a Amounts) Plus(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = saturate(a.n[i], b.n[i])
	}
	a.usd = a.usd.plus(b.usd)
	return a
}

// saturate adds without running over: an absurd amount stays absurd.
func saturate(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}

// Minus is the difference, 0 where b is more.
func (a Amounts) Minus(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = max(0, a.n[i]-b.n[i])
	}
	a.usd = a.usd.minus(b.usd)
	return a
}

// Max has the larger amount of each dimension.
func (a Amounts) Max(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = max(a.n[i], b.n[i])
	}
	if b.usd.cmp(a.usd) > 0 {
		a.usd = b.usd
	}
	return a
}

// IsZero tells whether there is nothing of any dimension.
func (a Amounts) IsZero() bool { return a.n == [USD]int64{} && a.usd.sign() == 0 }

// Equal tells whether both are the same amounts.
func (a Amounts) Equal(b Amounts) bool { return a.n == b.n && a.usd.cmp(b.usd) == 0 }

// Of is the amount of one dimension, an integer or a decimal.
func (a Amounts) Of(d Dimension) edn.Value {
	if d < USD {
		return edn.Int(a.n[d])
	}
	return a.usd.value()
}

func (a Amounts) rat(d Dimension) *big.Rat {
	if d < USD {
		return new(big.Rat).SetInt64(a.n[d])
	}
	return a.usd.rat()
}

func (a Amounts) has(d Dimension) bool {
	if d < USD {
		return a.n[d] != 0
	}
	return a.usd.sign() != 0
}

// exceeds tells whether a is more than b in one dimension.
func (a Amounts) exceeds(b Amounts, d Dimension) bool {
	if d < USD {
		return a.n[d] > b.n[d]
	}
	return a.usd.cmp(b.usd) > 0
}

// Times is n such amounts; a negative n is 0.
func (a Amounts) Times(n int64) Amounts {
	n = max(0, n)
	for i := range a.n {
		a.n[i] = product(a.n[i], n)
	}
	a.usd = a.usd.times(n)
	return a
}

// product multiplies without running over.
func product(a, b int64) int64 {
	if b != 0 && a > (1<<63-1)/b {
		return 1<<63 - 1
	}
	return a * b
}

// Only is the amount of one dimension alone.
func (a Amounts) Only(d Dimension) Amounts {
	var one Amounts
	return one.replace(d, a)
}

// With is a with the amount of one dimension taken from b.
func (a Amounts) With(d Dimension, b Amounts) Amounts { return a.replace(d, b) }

// Exceeds tells whether there is more of a dimension in a than in b.
func (a Amounts) Exceeds(b Amounts, d Dimension) bool { return a.exceeds(b, d) }

// Has tells whether there is anything of a dimension.
func (a Amounts) Has(d Dimension) bool { return a.has(d) }

// Count is the amount of a dimension other than USD.
func (a Amounts) Count(d Dimension) int64 {
	if d < USD {
		return a.n[d]
	}
	return 0
}

// Value is a map from bare dimension to number, without those that are 0.
func (a Amounts) Value() edn.Value {
	var m edn.MapBuilder
	for _, d := range Dimensions() {
		if a.has(d) {
			m.Set(edn.K(d.String()), a.Of(d))
		}
	}
	return m.Map()
}
