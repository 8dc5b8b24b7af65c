package tally

import (
	"maps"
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Value returns the counts of a period as data: runs by status, operations and
// attempts by outcome, verdicts by gate, with latencies, costs and KPIs.
func (c *Counts) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("runs", c.group(Acts, ActTime, "", "status", c.Spent()))
	b.Key("intents", c.groups(Acts, ActTime, "status", c.SpentBy(ActCost)))
	b.Key("failures", numbers(c.By(ActErrors, 0)))
	operations := c.By(Operations, 1)
	for state, n := range by(c.Now, Operations, 1) {
		operations[state] += n
	}
	b.Key("operations", numbers(operations))
	b.Key("attempts", c.group(Attempts, AttemptTime, "", "outcome", c.Spent()))
	b.Key("capabilities", c.groups(Attempts, AttemptTime, "outcome", c.SpentBy(Cost)))
	b.Key("gates", c.gates())
	if cache := c.By(CacheLookups, 0); len(cache) > 0 {
		b.Key("cache", numbers(cache))
	}
	if routing := c.By(Routings, 0); len(routing) > 0 {
		b.Key("routing", numbers(routing))
	}
	if c.Unread > 0 {
		b.Key("runs/without-records", edn.Int(c.Unread))
	}
	b.Key("kpi", c.KPI())
	return b.Map()
}

// outcomeAt returns the index of the outcome among the labels of a name.
func outcomeAt(name Name) int {
	if name == Attempts {
		return 2
	}
	return 1
}

// group returns the counts of the series of a name whose first label is of; of all its
// series if of is empty.
func (c *Counts) group(name, took Name, of, word string, usd *big.Rat) edn.Value {
	total, outcomes := int64(0), map[string]int64{}
	for _, counts := range []map[Key]int64{c.N, c.Now} {
		for k, n := range counts {
			if k.Name == name && (of == "" || k.Labels[0] == of) {
				outcomes[k.Labels[outcomeAt(name)]] += n
				total += n
			}
		}
	}
	var b edn.MapBuilder
	b.Key("total", edn.Int(total))
	b.Key("by-"+word, numbers(outcomes))
	if d := c.TimesOf(took, of); d.Count > 0 {
		b.Key("latency-ms", edn.MustMap(edn.K("p50"), edn.Int(d.Percentile(50).Milliseconds()),
			edn.K("p95"), edn.Int(d.Percentile(95).Milliseconds())))
	}
	if usd != nil {
		sum, _ := edn.RatDecimal(usd) // a sum of decimals, each within bounds, is one itself
		b.Opt("cost-usd", sum)
	}
	return b.Map()
}

// groups returns the counts of a name by its first label.
func (c *Counts) groups(name, took Name, word string, usd map[string]*big.Rat) edn.Value {
	names := c.By(name, 0)
	maps.Copy(names, by(c.Now, name, 0))
	var b edn.MapBuilder
	for _, one := range slices.Sorted(maps.Keys(names)) {
		b.Set(journal.Keyword(one), c.group(name, took, one, word, usd[one]))
	}
	return b.Map()
}

func (c *Counts) gates() edn.Value {
	var b edn.MapBuilder
	for gate, total := range c.By(Verdicts, 0) {
		passed := int64(0)
		for k, n := range c.N {
			if k.Name == Verdicts && k.Labels[0] == gate && k.Labels[2] == "pass" {
				passed += n
			}
		}
		b.Set(journal.Keyword(gate), edn.MustMap(edn.K("verdicts"), edn.Int(total), edn.K("passed"), edn.Int(passed),
			edn.K("share"), journal.ScoreOf((passed*1000+total/2)/total).Value()))
	}
	return b.Map()
}
