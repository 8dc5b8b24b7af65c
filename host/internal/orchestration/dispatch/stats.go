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

// StatsTable holds the candidateStats per capability and intent. It outlives
// the configuration, so that a reload forgets nothing. The zero value is ready,
// and it is safe for concurrent use.
type StatsTable struct {
	// Notice is called when the state of a candidate changes; nil: never. It is set
	// before the first use, called from the goroutines of calls, and must be quick.
	Notice func(Notice)

	mu      sync.Mutex
	stats   map[statsKey]*candidateStats
	claims  map[string]*remediationClaim // last one per plugin
	crashes map[crashKey]uint64

	deciding sync.Mutex // serializes decisions to eject a candidate
}

type statsKey struct{ capID, intent string }

// candidateStats is what is remembered of one capability for one intent: its
// breaker, the window of verdicts, latencies and costs.
type candidateStats struct {
	table                 *StatsTable
	capID, intent, plugin string

	// closed is true while the breaker is closed; it is read without the lock.
	closed atomic.Bool

	mu          sync.Mutex
	settings    registry.Breaker
	breaker     *breaker.Breaker
	rules       registry.Quality
	window      *breaker.Window
	remediation remediationState
	notified    breaker.State   // last state in a notice
	notices     []Notice        // to deliver after unlock
	crash       string          // message of the last process crash that was counted
	tripped     *contract.Error // why the breaker was last tripped
	drift       string          // name of the drifted judge for which the breaker was tripped
	edition     int
	version     string
	paid        *big.Rat
	bills       int64

	// Of the last successes: latency, time to the first piece of text, tokens per
	// second.
	latencies, firsts, rates series
}

// minP95Samples is the number of successes needed to estimate a p95.
const minP95Samples = 20

// statsFor returns the entry of a capability for an intent and applies the
// settings of a call.
func (t *StatsTable) statsFor(c *registry.Capability, intent string, rules registry.Breaker, quality registry.Quality,
	now time.Time) *candidateStats {
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

// lookup returns the entry of a capability for an intent, nil if it was never
// called.
func (t *StatsTable) lookup(capID, intent string) *candidateStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats[statsKey{capID, intent}]
}

// sorted returns all entries, sorted by intent and capability.
func (t *StatsTable) sorted() []*candidateStats {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.stats))
	t.mu.Unlock()
	slices.SortFunc(all, func(x, y *candidateStats) int {
		return cmp.Or(cmp.Compare(x.intent, y.intent), cmp.Compare(x.capID, y.capID))
	})
	return all
}

// breakerSettings fills r with the defaults. MinSamples is at most the window,
// because the window never holds more.
func breakerSettings(r registry.Breaker) registry.Breaker {
	r = r.Over(breaker.Defaults())
	r.MinSamples = min(r.MinSamples, r.Window)
	return r
}

// configure applies the settings of a call and keeps what was recorded: calls
// from layers with different settings for the same capability and intent may
// alternate.
func (cs *candidateStats) configure(plugin string, s registry.Breaker, q registry.Quality, now time.Time) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.plugin = plugin // the capability may have moved to another plugin
	if cs.rules != q {
		cs.rules, cs.window = q, cs.window.WithFloor(floorOf(q))
	}
	if !cs.settings.Equal(s) {
		cs.settings = s
		cs.breaker.SetSettings(s)
	}
}

// allow reports whether a call may be made, and if not, when the breaker may
// admit one; zero: not by itself.
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

// askAgain is the wait before a half-open or ramping breaker is asked again.
const askAgain = 50 * time.Millisecond

// reopens returns when the breaker may admit a call; zero: not by itself. cs.mu
// must be held.
func (cs *candidateStats) reopens(now time.Time) time.Time {
	at, ok := cs.breaker.Reopens(now)
	if ok && at.IsZero() {
		return now.Add(askAgain)
	}
	return at
}

// reopensIn returns how long to wait before the breaker may admit a call; ok is
// false if it does not reopen by itself.
func (cs *candidateStats) reopensIn(now time.Time) (wait time.Duration, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	at := cs.reopens(now)
	return at.Sub(now), !at.IsZero()
}

// acquire takes a permit for a call. Nil stats admit every call.
func (cs *candidateStats) acquire(now time.Time, edition int, version string) (breaker.Permit, bool) {
	if cs == nil {
		return breaker.Permit{}, true
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.observeInstance(now, edition, version)
	return cs.breaker.Acquire(now)
}

// observeInstance resets breaker and window if another edition or version of
// the capability serves. cs.mu must be held.
func (cs *candidateStats) observeInstance(now time.Time, edition int, version string) {
	if cs.edition == edition && cs.version == version {
		return
	}
	cs.edition, cs.version, cs.drift = edition, version, ""
	cs.breaker.Replaced(now)
	cs.window.Replaced()
	cs.remediation.renewed(now)
}

// report records how a call ended; see breaker.Breaker.Report.
func (cs *candidateStats) report(now time.Time, t breaker.Permit, o breaker.Outcome, floor time.Duration, u float64) {
	cs.mu.Lock()
	defer cs.unlock(now)
	cs.breaker.Report(now, t, o, floor, u)
}

// trip opens the breaker after a failure that only a change of the
// configuration can fix, until the time in the error or until another edition
// serves (LLM-030). A result of an earlier edition is ignored.
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

// sameCrash reports whether this process crash was counted already: one crash
// can end many calls and counts as one failure.
func (cs *candidateStats) sameCrash(err *contract.Error) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := cs.crash == err.Message
	cs.crash = err.Message
	return known
}

// unlock releases the lock and delivers the notices.
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

// recordSuccess adds latency, speed and cost of a success.
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

// percentile returns a quantile of the last latencies; ok is false with fewer
// than least samples.
func (cs *candidateStats) percentile(share float64, least int) (time.Duration, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.latencies.duration(share, least)
}

// sortFigures sorts candidates by the ordering of a policy; ties keep the
// declared order. For latency, a streamed call counts the time to the first
// piece, another call the whole answer.
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

// isConfigurationFailure reports whether an error recurs until the
// configuration or the account changes (LLM-030).
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

// outcomeOf maps the end of an attempt to a breaker outcome. An answer is a
// success whatever the gates decide. An error is a failure only if the plugin
// or its backend caused it.
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
