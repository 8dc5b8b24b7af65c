package score

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Scale is the range of a judge's scores. Low corresponds to 0 and High to 1; Low must be lower
// than High.
type Scale struct{ Low, High *big.Rat }

// Unit returns the default scale, 0..1.
func Unit() Scale { return Scale{new(big.Rat), big.NewRat(1, 1)} }

// ReadScale parses a scale from [low high]. The error describes the expected form.
func ReadScale(v edn.Value) (Scale, error) {
	if v.IsVector() || v.IsList() {
		if v.Len() == 2 {
			low, _ := v.Nth(0)
			high, _ := v.Nth(1)
			a, ok := low.AsNumber()
			b, also := high.AsNumber()
			if ok && also && a.Cmp(b) < 0 {
				return Scale{a, b}, nil
			}
		}
	}
	return Scale{}, fmt.Errorf("expected two numbers, the lower one first, such as [0 10], found %s", Excerpt(v.String()))
}

// Value returns the scale in the form of ReadScale. Bounds that are not integers are rounded to six
// decimals.
func (s Scale) Value() edn.Value { return edn.Vector(exact(s.Low), exact(s.High)) }

func exact(r *big.Rat) edn.Value {
	if r.IsInt() {
		return edn.BigInt(r.Num())
	}
	v, err := edn.ParseDecimal(r.FloatString(6) + "M")
	if err != nil {
		return edn.Nil()
	}
	return v
}

// Rounded rounds a score to thousandths, half to even: the form in which scores
// are compared and written.
func Rounded(r *big.Rat) edn.Value {
	num := new(big.Int).Mul(r.Num(), big.NewInt(1000))
	q, rest := new(big.Int).QuoRem(num, r.Denom(), new(big.Int))
	twice := new(big.Int).Lsh(rest.Abs(rest), 1)
	if away := twice.Cmp(r.Denom()); away > 0 || away == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(int64(r.Sign())))
	}
	v, err := edn.Decimal(q, -3)
	if err != nil { // thousandths in 0..1 have four digits
		return edn.Nil()
	}
	return v
}

// Excerpt returns the beginning of a text, on one line, for messages.
func Excerpt(s string) string {
	const most = 80
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
