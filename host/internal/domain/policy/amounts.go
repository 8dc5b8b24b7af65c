package policy

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Dimension is a counted quantity of a budget.
type Dimension int

// The dimensions. Time and depth are limits on a single value, not sums, and
// are therefore absent.
const (
	TokensIn Dimension = iota
	TokensOut
	Roundtrips
	Attempts
	JudgeCalls
	USD
	dimensions
)

// Dimensions returns all dimensions in the order in which they are checked.
func Dimensions() []Dimension {
	out := make([]Dimension, dimensions)
	for i := range out {
		out[i] = Dimension(i)
	}
	return out
}

// String returns the bare name used in records and reports.
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

// dimensionOf finds a dimension by its bare name or by the name of its limit.
func dimensionOf(name string) (Dimension, bool) {
	name = strings.TrimPrefix(name, "max-")
	for _, d := range Dimensions() {
		if d.String() == name {
			return d, true
		}
	}
	return 0, false
}

// Amounts holds an amount for each dimension. The zero value is zero in every
// dimension. It is immutable and never negative.
type Amounts struct {
	n   [USD]int64
	usd money
}

// Count returns an amount of one dimension other than USD; a negative n is 0.
func Count(d Dimension, n int64) Amounts {
	var a Amounts
	if d < USD {
		a.n[d] = max(0, n)
	}
	return a
}

// Money returns an amount of USD from a non-negative integer or decimal. Floats
// are rejected because their digits are not exact.
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

// Plus returns the sum. Counts saturate at the largest int64.
func (a Amounts) Plus(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = saturate(a.n[i], b.n[i])
	}
	a.usd = a.usd.plus(b.usd)
	return a
}

// saturate adds and returns the largest int64 on overflow.
func saturate(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}

// Minus returns the difference, 0 where b is larger.
func (a Amounts) Minus(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = max(0, a.n[i]-b.n[i])
	}
	a.usd = a.usd.minus(b.usd)
	return a
}

// Max returns the larger amount of each dimension.
func (a Amounts) Max(b Amounts) Amounts {
	for i := range a.n {
		a.n[i] = max(a.n[i], b.n[i])
	}
	if b.usd.cmp(a.usd) > 0 {
		a.usd = b.usd
	}
	return a
}

// IsZero reports whether every dimension is zero.
func (a Amounts) IsZero() bool { return a.n == [USD]int64{} && a.usd.sign() == 0 }

// Equal reports whether a and b hold the same amounts.
func (a Amounts) Equal(b Amounts) bool { return a.n == b.n && a.usd.cmp(b.usd) == 0 }

// Of returns the amount of one dimension: an integer, for USD a decimal, or the text of a
// fraction if a decimal cannot hold it.
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

// exceeds reports whether a is larger than b in one dimension.
func (a Amounts) exceeds(b Amounts, d Dimension) bool {
	if d < USD {
		return a.n[d] > b.n[d]
	}
	return a.usd.cmp(b.usd) > 0
}

// Times returns a multiplied by n; a negative n is 0. Counts saturate at the largest int64.
func (a Amounts) Times(n int64) Amounts {
	n = max(0, n)
	for i := range a.n {
		a.n[i] = product(a.n[i], n)
	}
	a.usd = a.usd.times(n)
	return a
}

// product multiplies and returns the largest int64 on overflow.
func product(a, b int64) int64 {
	if b != 0 && a > (1<<63-1)/b {
		return 1<<63 - 1
	}
	return a * b
}

// Only returns the amount of one dimension alone.
func (a Amounts) Only(d Dimension) Amounts {
	var one Amounts
	return one.replace(d, a)
}

// With returns a with the amount of one dimension taken from b.
func (a Amounts) With(d Dimension, b Amounts) Amounts { return a.replace(d, b) }

// Exceeds reports whether a is larger than b in one dimension.
func (a Amounts) Exceeds(b Amounts, d Dimension) bool { return a.exceeds(b, d) }

// Has reports whether the amount of a dimension is not zero.
func (a Amounts) Has(d Dimension) bool { return a.has(d) }

// Count returns the amount of a dimension other than USD, 0 for USD.
func (a Amounts) Count(d Dimension) int64 {
	if d < USD {
		return a.n[d]
	}
	return 0
}

// AmountsOf reads the map of Value. A missing or invalid amount counts as zero, also an amount of
// USD that Value wrote as the text of a fraction.
func AmountsOf(v edn.Value) Amounts {
	var a Amounts
	for _, d := range Dimensions() {
		if d == USD {
			money, _ := Money(v.Key(d.String())) // zero on an error
			a = a.Plus(money)
		} else if n, ok := v.Key(d.String()).AsInt(); ok {
			a = a.Plus(Count(d, n))
		}
	}
	return a
}

// Value returns a map from the bare name of a dimension to its amount, without zeros.
func (a Amounts) Value() edn.Value {
	var m edn.MapBuilder
	for _, d := range Dimensions() {
		if a.has(d) {
			m.Set(edn.K(d.String()), a.Of(d))
		}
	}
	return m.Map()
}
