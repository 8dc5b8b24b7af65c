package dispatch

import (
	"cmp"
	"maps"
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

// StatsTable remembers how the candidates have done, per capability and intent: their
// breakers, the verdicts on their answers, how long they took and what they
// cost. It outlives the configuration, so that a reload forgets nothing. The
// zero value is ready, and it is safe for concurrent use.
type StatsTable struct {
	// Notice is told what changes about candidates; nil: nobody is. It is set
	// before the book is used, called from the goroutines of calls, and must be
	// quick.
	Notice func(Notice)

	mu      sync.Mutex
	stats   map[statsKey]*candidateStats
	claims  map[string]*remediationClaim // the last of each plugin
	crashes map[crashKey]uint64

	deciding sync.Mutex // whether one more candidate may be left out
}

type statsKey struct{ capID, intent string }

// candidateStats is what is known of one capability for one intent.
type candidateStats struct {
	table                 *StatsTable
	capID, intent, plugin string

	// quiet tells without a lock that the breaker is closed.
	closed atomic.Bool

	mu          sync.Mutex
	settings    registry.Breaker
	breaker     *breaker.Breaker
	rules       registry.Quality
	window      *breaker.Window
	remediation remediationState
	notified    breaker.State   // of which somebody was told
	notices     []Notice        // to be told when the lock is free
	crash       string          // the last end of a process that was counted
	tripped     *contract.Error // why the breaker was opened at once, the last time
	drift       string          // the judge as which it is not believed any more
	edition     int
	version     string
	paid        *big.Rat
	bills       int64

	// Of the last successes: how long they took, when their first piece was
	// there, and how many tokens a second came.
	latencies, firsts, rates series
}

// fewAreNoP95 is how many successes it takes to know what is usual.
const minP95Samples = 20

// statsFor returns the entry of a capability for an intent, under the rules of a call.
func (t *StatsTable) statsFor(c *registry.Capability, intent string, rules registry.Breaker, quality registry.Quality, now time.Time) *candidateStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := statsKey{c.ID, intent}
	cs := t.stats[key]
	settings := breakerSettings(rules)
	quality = qualitySettings(quality)
	if cs == nil {
		cs = &candidateStats{
			table: t, capID: c.ID, intent: intent, plugin: c.Plugin,
			settings: settings, breaker: breaker.New(settings, now), notified: breaker.Closed,
			rules: quality, window: breaker.NewWindow(floorOf(quality)), paid: new(big.Rat),
		}
		cs.closed.Store(true)
		if t.stats == nil {
			t.stats = map[statsKey]*candidateStats{}
		}
		t.stats[key] = cs
		return cs
	}
	cs.configure(c.Plugin, settings, quality, now)
	return cs
}

// lookup returns the entry of a capability for an intent, nil if it was never called.
func (t *StatsTable) lookup(capID, intent string) *candidateStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats[statsKey{capID, intent}]
}

// sorted returns the entries in the order of their intents and capabilities.
func (t *StatsTable) sorted() []*candidateStats {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.stats))
	t.mu.Unlock()
	slices.SortFunc(all, func(x, y *candidateStats) int {
		return cmp.Or(cmp.Compare(x.intent, y.intent), cmp.Compare(x.capID, y.capID))
	})
	return all
}

// breakerSettings are what was written over the defaults. More samples than the
// window holds would never be there.
func breakerSettings(r registry.Breaker) registry.Breaker {
	r = r.Over(breaker.Defaults())
	r.MinSamples = min(r.MinSamples, r.Window)
	return r
}

// configure has the page work under the rules of a call. What was seen is kept,
// whatever it has to come up to: layers of policy may have different rules for
// the same capability and intent, and their calls come in turn.
func (cs *candidateStats) configure(plugin string, s registry.Breaker, q registry.Quality, now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.plugin = plugin // a capability may have gone to another one
	if cs.rules != q {
		cs.rules, cs.window = q, cs.window.WithFloor(floorOf(q))
	}
	if !cs.settings.Equal(s) {
		cs.settings = s
		cs.breaker.SetSettings(s)
	}
}

// ask tells whether a call may be made, and if not when that may change.
func (cs *candidateStats) allow(now time.Time, edition int, version string) (ok bool, reopens time.Time) {
	if cs.closed.Load() {
		return true, time.Time{}
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	ok = cs.breaker.Allow(now)
	if !ok {
		reopens = cs.reopens(now)
	}
	return ok, reopens
}

// askAgain is when a breaker that is not open, but lets few through, is worth
// asking again.
const askAgain = 50 * time.Millisecond

// reopens is called with the lock; zero: not by itself.
func (cs *candidateStats) reopens(now time.Time) time.Time {
	at, ok := cs.breaker.Reopens(now)
	if ok && at.IsZero() {
		return now.Add(askAgain)
	}
	return at
}

// reopensIn is how long to wait before asking again; ok is false if that is of
// no use.
func (cs *candidateStats) reopensIn(now time.Time) (wait time.Duration, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	at := cs.reopens(now)
	return at.Sub(now), !at.IsZero()
}

// enter begins a call. Without a book everybody may.
func (cs *candidateStats) acquire(now time.Time, edition int, version string) (breaker.Permit, bool) {
	if cs == nil {
		return breaker.Permit{}, true
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	return cs.breaker.Acquire(now)
}

// meet notices who serves. It is called with the lock.
func (cs *candidateStats) observeInstance(now time.Time, edition int, version string) {
	if cs.edition == edition && cs.version == version {
		return
	}
	cs.edition, cs.version, cs.drift = edition, version, ""
	cs.breaker.Replaced(now)
	cs.window.Replaced()
	cs.remediation.renewed(now)
}

// report says how a call ended.
func (cs *candidateStats) report(now time.Time, t breaker.Permit, o breaker.Outcome, floor time.Duration, u float64) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.breaker.Report(now, t, o, floor, u)
}

// trip leaves a capability alone that cannot work as it is set up, until the
// time that it named, or until it is another edition (LLM-030).
// A call that a former edition answered says nothing about this one.
func (cs *candidateStats) trip(now time.Time, edition int, err *contract.Error) {
	until := time.Time{}
	if floor := retryAfter(err); floor > 0 {
		until = now.Add(floor)
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	if edition != 0 && edition != cs.edition {
		return
	}
	cs.tripped = err
	cs.breaker.Trip(now, until)
}

// crashed tells whether the end of a process was counted already: it may have
// cut any number of calls, and is one failure.
func (cs *candidateStats) sameCrash(err *contract.Error) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := cs.crash == err.Message
	cs.crash = err.Message
	return known
}

// unlock gives the lock back and tells what changed meanwhile.
func (cs *candidateStats) unlock(now time.Time) {
	if st := cs.breaker.LastState(); st != cs.notified {
		cs.notified = st
		cs.noteStateChange(now, st)
	}
	cs.closed.Store(cs.notified == breaker.Closed)
	notices := cs.notices
	cs.notices = nil
	cs.mu.Unlock()
	if cs.table.Notice != nil {
		for _, n := range notices {
			cs.table.Notice(n)
		}
	}
}

// served keeps what a success took and cost.
func (cs *candidateStats) recordSuccess(took time.Duration, how speed, cost edn.Value) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.latencies.add(float64(took))
	if how.first > 0 {
		cs.firsts.add(float64(how.first))
	}
	if how.rate > 0 {
		cs.rates.add(how.rate)
	}
	if r, ok := cost.AsNumber(); ok && r.Sign() >= 0 {
		cs.paid = new(big.Rat).Add(cs.paid, r)
		cs.bills++
	}
}

// percentile is how long the last successes took; ok is false without enough of
// them.
func (cs *candidateStats) percentile(share float64, least int) (time.Duration, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.latencies.duration(share, least)
}

// sortFigures puts candidates into the order of a policy; equals keep the
// declared one. Of a call that is heard while it is answered the first piece
// counts, of another one the whole answer.
func sortFigures(ordering string, all []Figures, streamed bool) {
	quality := func(a, b Figures) int { return cmp.Compare(b.Quality, a.Quality) }
	cost := func(a, b Figures) int {
		return compareKnown(a.Cost != nil, b.Cost != nil, func() int { return a.Cost.Cmp(b.Cost) })
	}
	latency := func(a, b Figures) int {
		return compareKnown(a.Timed, b.Timed, func() int { return cmp.Compare(a.Latency, b.Latency) })
	}
	near := func(a, b Figures) int { return compareDistance(a.Condition, b.Condition) }
	soon := func(a, b Figures) int {
		return compareKnown(a.timed(streamed), b.timed(streamed), func() int { return cmp.Compare(a.after(streamed), b.after(streamed)) })
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
		by = []func(a, b Figures) int{closed, near, func(a, b Figures) int { return compareLoad(a.Condition, b.Condition) }}
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

// tripping are failures after which there is no use in asking again, before
// somebody has changed something (LLM-030).
func isConfigurationFailure(err *contract.Error) bool {
	if err == nil {
		return false
	}
	switch err.Type {
	case "provider/auth-failed", "provider/quota-exhausted", "provider/model-not-found":
		return true
	}
	return false
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
