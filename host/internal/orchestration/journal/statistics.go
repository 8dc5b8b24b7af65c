package journal

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Statistics count what runs did. Runs are counted by their summaries; operations,
// attempts and verdicts by their records, which old runs no longer have. Operations and
// attempts are never added to each other. The zero value has counted nothing.
type Statistics struct {
	runs       tally
	intents    tallies
	failures   map[string]int64 // error types of runs
	operations map[string]int64 // by state
	attempts   tally
	by         tallies // attempts, by capability
	gates      map[string]*passes
	cache      map[string]int64
	routing    map[string]int64 // by what became of asking a router
	unread     int64            // runs without records
}

// RunFacts is the summary of a run.
type RunFacts struct {
	Intent, Status string
	Finished       bool
	Latency        time.Duration
	Cost           edn.Value // USD of all attempts; nil if unknown
	Error          string    // type
}

// tally counts runs or attempts of one kind, by outcome.
type tally struct {
	outcomes map[string]int64
	total    int64
	took     []time.Duration // of those that have ended
	cost     *big.Rat        // nil: none is known
}

func (t *tally) add(outcome string, ended bool, took time.Duration, cost edn.Value) {
	addOne(&t.outcomes, outcome)
	t.total++
	if ended {
		t.took = append(t.took, took)
	}
	switch usd, ok := cost.AsNumber(); {
	case !ok:
	case t.cost == nil:
		t.cost = usd
	default:
		t.cost = new(big.Rat).Add(t.cost, usd)
	}
}

func addOne(counts *map[string]int64, name string) {
	if *counts == nil {
		*counts = map[string]int64{}
	}
	(*counts)[name]++
}

// tallies are counts by name.
type tallies map[string]*tally

func (t *tallies) of(name string) *tally {
	if *t == nil {
		*t = tallies{}
	}
	if (*t)[name] == nil {
		(*t)[name] = &tally{}
	}
	return (*t)[name]
}

// passes counts the verdicts of one gate that applied.
type passes struct{ passed, total int64 }

// Run counts a run.
func (s *Statistics) Run(f RunFacts) {
	s.runs.add(f.Status, f.Finished, f.Latency, f.Cost)
	s.intents.of(f.Intent).add(f.Status, f.Finished, f.Latency, f.Cost)
	if f.Finished && f.Error != "" {
		addOne(&s.failures, f.Error)
	}
}

// Records counts what a counted run did; none if its records are gone.
func (s *Statistics) Records(records []Record) {
	if len(records) == 0 {
		s.unread++
		return
	}
	v := newView(records)
	if v.finished != nil && v.finished.Cache != "" {
		addOne(&s.cache, v.finished.Cache)
	}
	if outcome, ok := v.route.Key("outcome").AsKeyword(); ok {
		addOne(&s.routing, outcome)
	} else if v.finished != nil && v.finished.Err != nil && v.finished.Err.Type == "route/decide-failed" {
		addOne(&s.routing, "closed")
	}
	for _, n := range v.nodes {
		s.verdicts(n.verdicts)
		if n.resolved == nil { // it makes no calls
			continue
		}
		addOne(&s.operations, v.report(n).State)
	}
	for _, a := range v.attempts {
		outcome, took, cost := "open", time.Duration(0), edn.Nil()
		if a.finished != nil {
			outcome, took, cost = a.finished.Outcome, a.finished.Latency, a.finished.Usage.Key("cost-usd")
		}
		s.attempts.add(outcome, a.finished != nil, took, cost)
		s.by.of(a.started.CapID).add(outcome, a.finished != nil, took, cost)
		s.verdicts(a.verdicts)
	}
}

func (s *Statistics) verdicts(all []*GateVerdict) {
	for _, g := range all {
		if g.NotApplicable {
			continue
		}
		if s.gates == nil {
			s.gates = map[string]*passes{}
		}
		if s.gates[g.Gate] == nil {
			s.gates[g.Gate] = &passes{}
		}
		s.gates[g.Gate].total++
		if g.Pass {
			s.gates[g.Gate].passed++
		}
	}
}

// Value returns the counts as data.
func (s *Statistics) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("runs", s.runs.value("status"))
	b.Key("intents", s.intents.value("status"))
	b.Key("failures", counts(s.failures))
	b.Key("operations", counts(s.operations))
	b.Key("attempts", s.attempts.value("outcome"))
	b.Key("capabilities", s.by.value("outcome"))
	var gates edn.MapBuilder
	for name, g := range s.gates {
		gates.Set(Keyword(name), edn.MustMap(edn.K("verdicts"), edn.Int(g.total), edn.K("passed"), edn.Int(g.passed),
			edn.K("share"), ScoreOf((g.passed*1000+g.total/2)/g.total).Value()))
	}
	b.Key("gates", gates.Map())
	if len(s.cache) > 0 {
		b.Key("cache", counts(s.cache))
	}
	if len(s.routing) > 0 {
		b.Key("routing", counts(s.routing))
	}
	if s.unread > 0 {
		b.Key("runs/without-records", edn.Int(s.unread))
	}
	return b.Map()
}

func (t tallies) value(of string) edn.Value {
	var b edn.MapBuilder
	for name, one := range t {
		b.Set(Keyword(name), one.value(of))
	}
	return b.Map()
}

func (t *tally) value(of string) edn.Value {
	var b edn.MapBuilder
	b.Key("total", edn.Int(t.total))
	b.Key("by-"+of, counts(t.outcomes))
	if len(t.took) > 0 {
		slices.Sort(t.took)
		b.Key("latency-ms", edn.MustMap(edn.K("p50"), percentile(t.took, 50), edn.K("p95"), percentile(t.took, 95)))
	}
	if t.cost != nil {
		usd, _ := edn.RatDecimal(t.cost) // a sum of decimals, each within bounds, is one itself
		b.Opt("cost-usd", usd)
	}
	return b.Map()
}

// percentile returns the smallest of the sorted durations that p percent do not exceed,
// in milliseconds.
func percentile(sorted []time.Duration, p int) edn.Value {
	return edn.Int(millis(sorted[(len(sorted)*p+99)/100-1]))
}

func counts(of map[string]int64) edn.Value {
	var b edn.MapBuilder
	for _, name := range slices.Sorted(maps.Keys(of)) {
		b.Set(Keyword(name), edn.Int(of[name]))
	}
	return b.Map()
}
