package tally

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// KPI returns the rates, the failure taxonomy and the cost in USD per committed
// operation of a period (TEL-003). A rate or cost is nil if its denominator is 0.
func (c *Counts) KPI() edn.Value {
	ended, operations := c.Total(Attempts), c.Total(Operations)
	judged := c.Having(JudgeVerdicts, 0, "pass")
	hits, misses := c.Having(CacheLookups, 0, "hit"), c.Having(CacheLookups, 0, "miss")
	cost := edn.Nil()
	if committed := c.Having(Operations, 1, "committed"); committed > 0 {
		spent := c.Spent()
		if spent == nil {
			spent = new(big.Rat)
		}
		cost = rounded(new(big.Rat).Quo(spent, new(big.Rat).SetInt64(committed)), usdPlaces)
	}
	return edn.MustMap(
		edn.K("parse-rate"), share(ended-c.Total(ParseFailures), ended),
		edn.K("retry-rate"), share(c.Total(Retries), operations),
		edn.K("fallback-rate"), share(c.Total(Fallbacks), operations),
		edn.K("judge-pass-rate"), share(judged, judged+c.Having(JudgeVerdicts, 0, "fail")),
		edn.K("must-failed-rate"), share(c.Total(MustFailed), operations),
		edn.K("must-failed-rate-final"), share(c.Total(MustFailedFinal), operations),
		edn.K("cache-hit-rate"), share(hits, hits+misses),
		edn.K("failure-taxonomy"), c.taxonomy(),
		edn.K("accepted-cost"), cost,
	)
}

// Decimal places of rates and of amounts in USD.
const (
	sharePlaces = 4
	usdPlaces   = 6
)

// share returns n/of, nil if of is 0.
func share(n, of int64) edn.Value {
	if of == 0 {
		return edn.Nil()
	}
	return rounded(big.NewRat(n, of), sharePlaces)
}

// rounded returns a ratio as a decimal, rounded half up.
func rounded(r *big.Rat, places int) edn.Value {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(scale))
	scaled.Add(scaled, big.NewRat(1, 2))
	v, err := edn.Decimal(new(big.Int).Div(scaled.Num(), scaled.Denom()), -places)
	if err != nil {
		return edn.Nil()
	}
	return v
}

// domains are the namespaces of error types that are their own domain.
var domains = []string{
	"auth", "effects", "route", "runtime", "schema", "eval", "input", "unsupported", "timeout", "policy", "session",
	"queue", "budget", "journal", "plugin", "provider", "model", "judge", "stream", "conversation", "plan", "slot",
	"repair",
}

// DomainOf returns the domain of an error type: its namespace if that is one of domains,
// else Other.
func DomainOf(typ string) string {
	space, _, _ := strings.Cut(typ, "/")
	if slices.Contains(domains, space) {
		return space
	}
	return Other
}

func (c *Counts) taxonomy() edn.Value {
	types := c.By(Failures, 0)
	byDomain := map[string]int64{}
	for typ, n := range types {
		byDomain[DomainOf(typ)] += n
	}
	return edn.MustMap(edn.K("by-type"), numbers(types), edn.K("by-domain"), numbers(byDomain))
}

// numbers returns counts as a map from keyword to number.
func numbers(counts map[string]int64) edn.Value {
	var b edn.MapBuilder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		b.Set(journal.Keyword(name), edn.Int(counts[name]))
	}
	return b.Map()
}
