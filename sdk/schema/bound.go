package schema

import (
	"math"
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// bound is a numeric limit, prepared for comparison with numbers of every kind.
// Comparison does not allocate where a machine comparison is exact.
type bound struct {
	spec    edn.Value
	rat     *big.Rat
	integer int64
	isInt   bool
	float   float64
	isFloat bool // float equals the bound exactly
}

// exactFloatInt is the largest integer up to which float64 represents every
// integer.
const exactFloatInt = 1 << 53

func newBound(v edn.Value) (*bound, bool) {
	rat, ok := v.AsNumber()
	if !ok {
		return nil, false
	}
	b := &bound{spec: v, rat: rat}
	if i, ok := v.AsInt(); ok {
		b.integer, b.isInt = i, true
		if i >= -exactFloatInt && i <= exactFloatInt {
			b.float, b.isFloat = float64(i), true
		}
	}
	if f, ok := v.AsFloat(); ok {
		b.float, b.isFloat = f, true
		if f == math.Trunc(f) && math.Abs(f) <= exactFloatInt {
			b.integer, b.isInt = int64(f), true
		}
	}
	return b, true
}

// compare returns the sign of v - b. v must be a number.
func (b *bound) compare(v edn.Value) int {
	if i, ok := v.AsInt(); ok {
		if b.isInt {
			return compareOrdered(i, b.integer)
		}
		if b.isFloat && i >= -exactFloatInt && i <= exactFloatInt {
			return compareOrdered(float64(i), b.float)
		}
	} else if f, ok := v.AsFloat(); ok && b.isFloat {
		return compareOrdered(f, b.float)
	}
	rat, ok := v.AsNumber()
	if !ok {
		return 0
	}
	return rat.Cmp(b.rat)
}

func compareOrdered[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
