package rescore

import (
	"fmt"
	"math/big"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Spending sums the cost of verdicts.
type Spending struct {
	verdicts int
	usage    edn.Value
}

func (s *Spending) add(usage edn.Value) {
	s.verdicts++
	s.usage = journal.SumUsage(s.usage, usage)
}

// Value returns the sum as a map: the number of verdicts, the tokens, the cost in USD and
// its mark.
func (s *Spending) Value() edn.Value {
	or := func(key string, none edn.Value) edn.Value {
		if v := s.usage.Key(key); !v.IsNil() {
			return v
		}
		return none
	}
	return edn.MustMap(
		edn.K("verdicts"), edn.Int(int64(s.verdicts)),
		edn.K("tokens-in"), or("tokens-in", edn.Int(0)),
		edn.K("tokens-out"), or("tokens-out", edn.Int(0)),
		edn.K("cost-usd"), or("cost-usd", edn.MustDecimal("0")),
		edn.K("cost-mark"), or("cost-mark", edn.K("exact")))
}

// SpendingText formats the data of Spending.Value as text.
func SpendingText(v edn.Value) string {
	least := ""
	if mark, _ := v.Key("cost-mark").AsKeyword(); mark != "exact" {
		least = "at least "
	}
	cost := new(big.Rat)
	if usd, ok := v.Key("cost-usd").AsNumber(); ok {
		cost = usd
	}
	return fmt.Sprintf("%s verdicts, %s tokens in, %s out, %s%s USD", v.Key("verdicts"), v.Key("tokens-in"),
		v.Key("tokens-out"), least, cost.FloatString(6))
}
