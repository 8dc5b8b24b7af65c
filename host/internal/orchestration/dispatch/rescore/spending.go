package rescore

import (
	"fmt"
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Spending sums what verdicts cost.
type Spending struct {
	calls     int
	in, out   int64
	cost      *big.Rat
	uncertain bool // some cost is not known exactly
}

func (s *Spending) add(usage edn.Value) {
	s.calls++
	in, _ := usage.Key("tokens-in").AsInt()
	out, _ := usage.Key("tokens-out").AsInt()
	s.in, s.out = s.in+in, s.out+out
	if s.cost == nil {
		s.cost = new(big.Rat)
	}
	if usd, ok := usage.Key("cost-usd").AsNumber(); ok {
		s.cost.Add(s.cost, usd)
	}
	if mark, ok := usage.Key("cost-mark").AsKeyword(); ok && mark != "exact" {
		s.uncertain = true
	}
}

func (s *Spending) usd() string {
	if s.cost == nil {
		return "0"
	}
	return s.cost.FloatString(6)
}

// Value is the sum as data.
func (s *Spending) Value() edn.Value {
	mark := "exact"
	if s.uncertain {
		mark = "at-least"
	}
	return edn.MustMap(edn.K("verdicts"), edn.Int(int64(s.calls)), edn.K("tokens-in"), edn.Int(s.in), edn.K("tokens-out"), edn.Int(s.out),
		edn.K("cost-usd"), edn.MustDecimal(s.usd()), edn.K("cost-mark"), edn.K(mark))
}

// SpendingText says for people what Value says.
func SpendingText(v edn.Value) string {
	least := ""
	if mark, _ := v.Key("cost-mark").AsKeyword(); mark != "exact" {
		least = "at least "
	}
	cost := new(big.Rat)
	if usd, ok := v.Key("cost-usd").AsNumber(); ok {
		cost = usd
	}
	return fmt.Sprintf("%s verdicts, %s tokens in, %s out, %s%s USD", v.Key("verdicts"), v.Key("tokens-in"), v.Key("tokens-out"), least, cost.FloatString(6))
}
