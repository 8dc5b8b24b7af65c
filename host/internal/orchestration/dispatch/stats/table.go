package stats

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
)

// Table holds a Candidate per capability and intent. It outlives the
// configuration, so that a reload forgets nothing. The zero value is ready,
// and it is safe for concurrent use.
type Table struct {
	// Notice is called when the state of a candidate changes; nil: never. It is set
	// before the first use, called from the goroutines of calls, and must be quick.
	Notice func(Notice)

	mu         sync.Mutex
	candidates map[key]*Candidate
	claims     map[string]*claim // last one per plugin
	crashes    map[crashKey]uint64

	deciding sync.Mutex // serializes decisions to eject a candidate
}

type key struct{ capID, intent string }

// For returns the entry of a capability for an intent, created if missing, and
// applies the settings of a call.
func (t *Table) For(c *registry.Capability, intent string, rules registry.Breaker, quality registry.Quality,
	now time.Time) *Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := key{c.ID, intent}
	cs := t.candidates[k]
	settings := breakerSettings(rules)
	quality = qualitySettings(quality)
	if cs == nil {
		cs = newCandidate(t, c, intent, settings, quality, now)
		if t.candidates == nil {
			t.candidates = map[key]*Candidate{}
		}
		t.candidates[k] = cs
		return cs
	}
	cs.configure(c.Plugin, settings, quality, now)
	return cs
}

// lookup returns the entry of a capability for an intent, nil if there is none.
func (t *Table) lookup(capID, intent string) *Candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.candidates[key{capID, intent}]
}

// sorted returns all entries, sorted by intent and capability.
func (t *Table) sorted() []*Candidate {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.candidates))
	t.mu.Unlock()
	slices.SortFunc(all, func(x, y *Candidate) int {
		return cmp.Or(cmp.Compare(x.intent, y.intent), cmp.Compare(x.capID, y.capID))
	})
	return all
}

// Released readmits the capabilities of a plugin through the ramp after an
// operator released it.
func (t *Table) Released(plugin string, now time.Time) {
	for _, cs := range t.sorted() {
		cs.release(plugin, now)
	}
}

// Reset closes the breakers of a capability and forgets the failures that they count,
// for one intent or, if it is empty, for all. It returns the standings of those
// candidates.
func (t *Table) Reset(capID, intent string, now time.Time) (reset []Standing) {
	for _, cs := range t.sorted() {
		if cs.capID == capID && (intent == "" || cs.intent == intent) {
			cs.reset(now)
		}
	}
	return slices.DeleteFunc(t.Standings(now), func(s Standing) bool {
		return s.CapID != capID || intent != "" && s.Intent != intent
	})
}

// Believe applies a measurement of a judge to its breaker at once, before the
// next answer is graded: drift is the reason why the judge must not be called,
// empty if it may (JDG-011). edition is the current one of the capability.
func (t *Table) Believe(judge string, c *registry.Capability, intent string, edition int, drift string,
	now time.Time) {
	cs := t.lookup(c.ID, intent)
	if drift == "" {
		if cs != nil {
			cs.ClearDrift(now, judge)
		}
		return
	}
	if cs == nil { // settings come with the first call
		cs = t.For(c, intent, c.Breaker, c.Quality, now)
	}
	cs.OpenForDrift(now, edition, c.Version, judge, drift)
}

// breakerSettings fills r with the defaults. MinSamples is at most the window,
// because the window never holds more.
func breakerSettings(r registry.Breaker) registry.Breaker {
	r = r.Over(breaker.Defaults())
	r.MinSamples = min(r.MinSamples, r.Window)
	return r
}
