package dispatch

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Book remembers how the candidates have done, per capability and intent: their
// breakers, the verdicts on their answers, how long they took and what they
// cost. It outlives the configuration, so that a reload forgets nothing. The
// zero value is ready, and it is safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	pages map[pageKey]*page
}

type pageKey struct{ capID, intent string }

// page is what is known of one capability for one intent.
type page struct {
	// quiet tells without a lock that the breaker is closed.
	quiet atomic.Bool

	mu        sync.Mutex
	settings  registry.Breaker
	breaker   *breaker.Breaker
	window    *breaker.Window
	crash     string // the last end of a process that was counted
	edition   int
	version   string
	latencies [latencies]time.Duration // of the last successes
	taken     int                      // successes so far
	paid      *big.Rat
	bills     int64
}

// Bounds of the figures.
const (
	latencies   = 100
	fewAreNoP95 = 20 // successes without which nobody knows what is usual
)

func (b *Book) page(capID, intent string, rules registry.Breaker, now time.Time) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := pageKey{capID, intent}
	p := b.pages[key]
	settings := breakerSettings(rules)
	if p == nil {
		p = &page{settings: settings, breaker: breaker.New(settings, now), window: breaker.NewWindow(breaker.DefaultFloor()), paid: new(big.Rat)}
		p.quiet.Store(true)
		if b.pages == nil {
			b.pages = map[pageKey]*page{}
		}
		b.pages[key] = p
		return p
	}
	p.configure(settings, now)
	return p
}

// breakerSettings are what was written over the defaults. More samples than the
// window holds would never be there.
func breakerSettings(r registry.Breaker) registry.Breaker {
	r = r.Over(breaker.Defaults())
	r.MinSamples = min(r.MinSamples, r.Window)
	return r
}

// configure begins anew if the operator changed the settings.
func (p *page) configure(s registry.Breaker, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settings.Equal(s) {
		return
	}
	p.settings, p.breaker = s, breaker.New(s, now)
	p.quiet.Store(true)
}

// ask tells whether a call may be made, and if not when that may change.
func (p *page) ask(now time.Time) (ok bool, reopens time.Time) {
	if p.quiet.Load() {
		return true, time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ok = p.breaker.Ask(now)
	p.settle()
	if !ok {
		reopens = p.reopens(now)
	}
	return ok, reopens
}

// askAgain is when a breaker that is not open, but lets few through, is worth
// asking again.
const askAgain = 50 * time.Millisecond

// reopens is called with the lock; zero: not by itself.
func (p *page) reopens(now time.Time) time.Time {
	at, ok := p.breaker.Reopens(now)
	if ok && at.IsZero() {
		return now.Add(askAgain)
	}
	return at
}

// reopensIn is how long to wait before asking again; ok is false if that is of
// no use.
func (p *page) reopensIn(now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.reopens(now)
	return at.Sub(now), !at.IsZero()
}

// enter begins a call. Without a book everybody may.
func (p *page) enter(now time.Time, edition int, version string) (breaker.Ticket, bool) {
	if p == nil {
		return breaker.Ticket{}, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.edition != edition || p.version != version {
		p.edition, p.version = edition, version
		p.breaker.Replaced()
		p.window.Replaced()
	}
	t, ok := p.breaker.Enter(now)
	p.settle()
	return t, ok
}

// report says how a call ended.
func (p *page) report(now time.Time, t breaker.Ticket, o breaker.Outcome, floor time.Duration, u float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breaker.Report(now, t, o, floor, u)
	p.settle()
}

// crashed tells whether the end of a process was counted already: it may have
// cut any number of calls, and is one failure.
func (p *page) crashed(err *contract.Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.crash == err.Message
	p.crash = err.Message
	return known
}

// settle is called with the lock.
func (p *page) settle() { p.quiet.Store(p.breaker.Quiet()) }

// served keeps what a success took and cost.
func (p *page) served(took time.Duration, cost edn.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latencies[p.taken%latencies] = took
	p.taken++
	if r, ok := cost.AsNumber(); ok && r.Sign() >= 0 {
		p.paid = new(big.Rat).Add(p.paid, r)
		p.bills++
	}
}

// judged keeps a verdict; score is that of a pass.
func (p *page) judged(now time.Time, pass bool, score edn.Value) {
	if p == nil {
		return
	}
	thousandths := 1000
	if r, ok := score.AsNumber(); ok {
		f, _ := r.Float64()
		thousandths = int(math.Round(f * 1000))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.window.Add(now, pass, thousandths)
}

// percentile of the last successes; ok is false without enough of them.
func (p *page) percentile(share float64, least int) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(p.taken, latencies)
	if n < max(1, least) {
		return 0, false
	}
	sorted := slices.Clone(p.latencies[:n])
	slices.Sort(sorted)
	return sorted[min(n-1, int(math.Ceil(share*float64(n)))-1)], true
}

// figures are what an ordering rests on.
type figures struct {
	capID   string
	index   int      // in the declared order
	quality int      // hundredths
	samples int      // verdicts behind it
	cost    *big.Rat // nil: unknown
	latency time.Duration
	known   bool // the latency
	closed  bool // the breaker
}

func (p *page) figures(c *registry.Capability, index int, now time.Time) figures {
	f := figures{capID: c.ID, index: index}
	if f.latency, f.known = p.percentile(0.5, 1); !f.known && c.Cost.HasLatency {
		f.latency, f.known = c.Cost.Latency, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.quality = p.window.Quality()
	_, f.samples = p.window.Counts()
	f.closed = p.breaker.State(now) == breaker.Closed
	if p.bills > 0 {
		f.cost = new(big.Rat).Quo(p.paid, new(big.Rat).SetInt64(p.bills))
	} else if r, ok := c.Cost.USD.AsNumber(); ok {
		f.cost = r
	}
	return f
}

func (f *figures) value() edn.Value {
	var b edn.MapBuilder
	q, _ := edn.Decimal(big.NewInt(int64(f.quality)), -2)
	b.Key("quality", q)
	b.Key("samples", edn.Int(int64(f.samples)))
	if f.cost != nil {
		if cost, err := edn.ParseDecimal(f.cost.FloatString(9)); err == nil {
			b.Key("cost-usd", cost)
		}
	}
	if f.known {
		b.Key("latency-ms", edn.Int(f.latency.Milliseconds()))
	}
	return b.Map()
}

// sortFigures puts candidates into the order of a policy; equals keep the
// declared one.
func sortFigures(ordering string, all []figures) {
	quality := func(a, b figures) int { return cmp.Compare(b.quality, a.quality) }
	cost := func(a, b figures) int {
		return compareKnown(a.cost != nil, b.cost != nil, func() int { return a.cost.Cmp(b.cost) })
	}
	latency := func(a, b figures) int {
		return compareKnown(a.known, b.known, func() int { return cmp.Compare(a.latency, b.latency) })
	}
	var by []func(a, b figures) int
	switch ordering {
	case policy.QualityAware:
		by = []func(a, b figures) int{quality, cost, latency}
	case policy.CostFirst:
		by = []func(a, b figures) int{cost, quality}
	case policy.LatencyFirst:
		by = []func(a, b figures) int{latency, quality}
	case policy.Availability:
		by = []func(a, b figures) int{func(a, b figures) int { return compareKnown(a.closed, b.closed, func() int { return 0 }) }}
	}
	slices.SortStableFunc(all, func(a, b figures) int {
		for _, f := range by {
			if n := f(a, b); n != 0 {
				return n
			}
		}
		return cmp.Compare(a.index, b.index)
	})
}

// compareKnown has what is unknown last.
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

// outcomeOf is what a breaker makes of the end of an attempt: an answer is a
// success whatever the gates say, and what is not the fault of the capability,
// or of what it stands on, says nothing.
func outcomeOf(err *contract.Error) breaker.Outcome {
	switch {
	case err == nil:
		return breaker.Success
	case err.Class != contract.ClassRetry && err.Class != contract.ClassSwitch:
		return breaker.Ignored
	case err.Source == contract.SourcePlugin, err.Source == contract.SourceDownstream:
		return breaker.Failure
	}
	return breaker.Ignored
}
