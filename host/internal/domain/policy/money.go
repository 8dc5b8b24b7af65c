package policy

import (
	"cmp"
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// money is an exact, non-negative sum of USD: a count of picodollars while that
// fits, a fraction otherwise. Immutable.
type money struct {
	pico  int64
	exact *big.Rat // if nil, pico is the sum
}

const (
	picoPerUSD = 1_000_000_000_000
	picoPlaces = -12
)

func moneyOf(r *big.Rat) money {
	scaled := new(big.Rat).Mul(r, big.NewRat(picoPerUSD, 1))
	if scaled.IsInt() && scaled.Num().IsInt64() {
		return money{pico: scaled.Num().Int64()}
	}
	return money{exact: r}
}

func (m money) rat() *big.Rat {
	if m.exact != nil {
		return m.exact
	}
	return big.NewRat(m.pico, picoPerUSD)
}

func (m money) sign() int {
	if m.exact != nil {
		return m.exact.Sign()
	}
	return int(min(m.pico, 1))
}

func (m money) cmp(o money) int {
	if m.exact == nil && o.exact == nil {
		return cmp.Compare(m.pico, o.pico)
	}
	return m.rat().Cmp(o.rat())
}

func (m money) plus(o money) money {
	if m.exact == nil && o.exact == nil {
		if s := m.pico + o.pico; s >= m.pico {
			return money{pico: s}
		}
	}
	return moneyOf(new(big.Rat).Add(m.rat(), o.rat()))
}

// minus returns 0 where o is larger.
func (m money) minus(o money) money {
	if m.exact == nil && o.exact == nil {
		return money{pico: max(0, m.pico-o.pico)}
	}
	if m.cmp(o) <= 0 {
		return money{}
	}
	return moneyOf(new(big.Rat).Sub(m.rat(), o.rat()))
}

func (m money) times(n int64) money {
	if m.exact == nil && (n == 0 || m.pico <= (1<<63-1)/n) {
		return money{pico: m.pico * n}
	}
	return moneyOf(new(big.Rat).Mul(m.rat(), new(big.Rat).SetInt64(n)))
}

// value returns the sum as a decimal, or as the text of a fraction if a decimal
// cannot hold its digits.
func (m money) value() edn.Value {
	v, err := edn.Decimal(big.NewInt(m.pico), picoPlaces)
	if m.exact != nil {
		v, err = edn.RatDecimal(m.exact)
	}
	if err != nil {
		return edn.Text(m.rat().RatString())
	}
	return v
}
