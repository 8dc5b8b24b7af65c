package stats

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Figures are the statistics of a capability for an intent at one moment.
// Orderings use them and operators see them.
type Figures struct {
	CapID  string
	index  int // position in the declared order
	Passes int // passed verdicts in the window
	// Samples is the number of verdicts in the window. Quality is the resulting
	// score in hundredths (BIND-007).
	Samples, Quality int
	Cost             *big.Rat // mean actual cost, else the declared cost; nil: unknown
	Latency          time.Duration
	Timed            bool // the latency is known
	// First is the median time to the first piece of text, Rate the median number
	// of tokens per second; 0: unknown.
	First time.Duration
	Rate  float64
	// Condition is the current warmth and load.
	Condition Condition
	Breaker   breaker.State
	// Reopens is the time at which the breaker may admit a call again; zero: it does
	// now, or not by itself.
	Reopens time.Time
	// Out reports that it is ejected for its quality, Degraded that it should be but
	// stays, because too few others are left. Stead is the substitute that serves
	// instead.
	Out, Degraded bool
	Stead         string
}

// declared fills missing figures with those that the capability declares.
func (f *Figures) declared(c *registry.Capability) {
	if !f.Timed && c.Cost.HasLatency {
		f.Latency, f.Timed = c.Cost.Latency, true
	}
	if r, ok := c.Cost.USD.AsNumber(); ok && f.Cost == nil {
		f.Cost = r
	}
}

// observed returns the recorded figures, without declared ones.
func (cs *Candidate) observed(now time.Time) Figures {
	f := Figures{CapID: cs.capID}
	cs.performance.fill(&f)
	cs.mu.Lock()
	defer cs.unlock(now)
	f.Quality = cs.health.window.Quality()
	f.Passes, f.Samples = cs.health.window.Counts()
	f.Breaker = cs.breaker.State(now)
	if f.Breaker == breaker.Open {
		f.Reopens, _ = cs.breaker.Reopens(now)
	}
	f.Out = cs.breaker.Ejected(now)
	f.Degraded = cs.health.degraded
	if f.Breaker != breaker.Closed {
		f.Stead = cs.health.substitute
	}
	return f
}

// Figures returns the recorded figures of cs. A latency or cost that was not recorded
// is the one that c declares. A nil cs has no recorded figures: its quality is that of
// an empty window and its breaker is closed. index is the position of c in the declared
// order.
func (cs *Candidate) Figures(c *registry.Capability, index int, now time.Time) Figures {
	f := Figures{CapID: c.ID, Quality: breaker.NewWindow(breaker.DefaultFloor()).Quality(), Breaker: breaker.Closed}
	if cs != nil {
		f = cs.observed(now)
	}
	f.index = index
	f.declared(c)
	return f
}

func (f Figures) closed() bool { return f.Breaker == breaker.Closed }

// timed reports whether after is known.
func (f Figures) timed(streamed bool) bool { return f.Timed || streamed && f.First > 0 }

// after estimates the time until the first piece of text of a streamed call, if that is
// known, else until the whole answer. It includes the wait for a free place.
func (f Figures) after(streamed bool) time.Duration {
	wait := f.Condition.wait(f.Latency)
	if streamed && f.First > 0 {
		return wait + f.First
	}
	return wait + f.Latency
}

// Value returns the figures for records and explanations, without unknown ones.
func (f Figures) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("quality", hundredths(f.Quality))
	b.Key("samples", edn.Int(int64(f.Samples)))
	b.Key("passes", edn.Int(int64(f.Passes)))
	if f.Samples > 0 {
		b.Key("rate", hundredths((200*f.Passes+f.Samples)/(2*f.Samples)))
	}
	if f.Cost != nil {
		if cost, err := edn.ParseDecimal(f.Cost.FloatString(9)); err == nil {
			b.Key("cost-usd", cost)
		}
	}
	if f.Timed {
		b.Key("latency-ms", edn.Int(f.Latency.Milliseconds()))
	}
	if f.First > 0 {
		b.Key("first-token-ms", edn.Int(f.First.Milliseconds()))
	}
	if f.Rate > 0 {
		b.Key("tokens-per-second", rate(f.Rate))
	}
	f.Condition.appendTo(&b)
	b.Key("breaker", journal.Keyword(string(f.Breaker)))
	if !f.Reopens.IsZero() {
		b.Key("reopens-at", edn.Inst(f.Reopens.UTC().Truncate(time.Millisecond)))
	}
	b.OptTrue("out?", f.Out)
	b.OptTrue("degraded?", f.Degraded)
	if f.Stead != "" {
		b.Key("stead", journal.Keyword(f.Stead))
	}
	return b.Map()
}

func hundredths(n int) edn.Value {
	v, err := edn.Decimal(big.NewInt(int64(n)), -2)
	if err != nil {
		return edn.Nil()
	}
	return v
}

// rate formats tokens per second with one decimal.
func rate(perSecond float64) edn.Value {
	v, err := edn.Decimal(big.NewInt(int64(math.Round(min(perSecond, 1e9)*10))), -1)
	if err != nil {
		return edn.Nil()
	}
	return v
}

// Sort sorts candidates by the ordering of a policy; ties keep the
// declared order. For latency, a streamed call counts the time to the first
// piece, another call the whole answer.
func Sort(ordering string, all []Figures, streamed bool) {
	quality := func(a, b Figures) int { return cmp.Compare(b.Quality, a.Quality) }
	cost := func(a, b Figures) int {
		return compareKnown(a.Cost != nil, b.Cost != nil, func() int { return a.Cost.Cmp(b.Cost) })
	}
	latency := func(a, b Figures) int {
		return compareKnown(a.Timed, b.Timed, func() int { return cmp.Compare(a.Latency, b.Latency) })
	}
	near := func(a, b Figures) int { return compareDistance(a.Condition, b.Condition) }
	soon := func(a, b Figures) int {
		return compareKnown(a.timed(streamed), b.timed(streamed),
			func() int { return cmp.Compare(a.after(streamed), b.after(streamed)) })
	}
	var by []func(a, b Figures) int
	switch ordering {
	case policy.QualityAware:
		by = []func(a, b Figures) int{quality, cost, latency}
	case policy.CostFirst:
		by = []func(a, b Figures) int{cost, quality}
	case policy.LatencyFirst:
		by = []func(a, b Figures) int{near, soon, quality}
	case policy.Availability:
		closed := func(a, b Figures) int { return compareKnown(a.closed(), b.closed(), func() int { return 0 }) }
		by = []func(a, b Figures) int{closed, near,
			func(a, b Figures) int { return compareLoad(a.Condition, b.Condition) }}
	}
	slices.SortStableFunc(all, func(a, b Figures) int {
		for _, f := range by {
			if n := f(a, b); n != 0 {
				return n
			}
		}
		return cmp.Compare(a.index, b.index)
	})
}

// compareKnown sorts unknown values last.
func compareKnown(a, b bool, both func() int) int {
	switch {
	case a && b:
		return both()
	case a:
		return -1
	case b:
		return 1
	}
	return 0
}
