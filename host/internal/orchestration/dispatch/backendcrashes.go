package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Toll is how often what a capability stands on, such as a model server, has
// died since a process of its plugin began. It comes by the health of the
// plugin, by the error of the call that it ended, and by the answer of a call
// that was repeated: the number tells that all of them are about one death.
type BackendCrashes struct {
	CapID, Plugin string
	Generation    int // number of the process
	Count         uint64
}

type crashKey struct {
	capID, plugin string
	generation    int
}

// oldProcesses is how many generations back tolls are remembered: what comes
// later is about a process that is long gone.
const oldInstances = 64

// Died takes a toll. Deaths that nobody has told of before count as failures of
// the capability, whatever it was asked for: each of them once, also if the call
// that it ended was saved. It tells whether there were such.
func (t *StatsTable) RecordBackendCrashes(now time.Time, c BackendCrashes) bool {
	t.mu.Lock()
	process := crashKey{c.CapID, c.Plugin, c.Generation}
	before := t.crashes[process]
	if c.Count <= before {
		t.mu.Unlock()
		return false
	}
	if t.crashes == nil {
		t.crashes = map[crashKey]uint64{}
	}
	for key := range t.crashes {
		if key.capID == c.CapID && key.plugin == c.Plugin && key.generation < c.Generation-oldInstances {
			delete(t.crashes, key)
		}
	}
	t.crashes[process] = c.Count
	var all []*candidateStats
	for key, cs := range t.stats {
		if key.capID == c.CapID {
			all = append(all, cs)
		}
	}
	t.mu.Unlock()
	for _, cs := range all {
		cs.recordBackendCrashes(now, c.Count-before)
	}
	return true
}

// bereaved counts deaths against the capability.
func (cs *candidateStats) recordBackendCrashes(now time.Time, crashes uint64) {
	cs.mu.Lock()
	defer cs.unlock(now)
	for range min(crashes, uint64(cs.settings.Window)) { // more would push each other out
		cs.breaker.RecordFailure(now)
	}
}

// bereaved takes the deaths that an answer of a process tells of, and gives what
// is left to count of the end of its attempt: a death that ended it has been
// counted by then.
func (o *operation) countBackendCrashes(now time.Time, capID string, process int, meta edn.Value, err *contract.Error, outcome breaker.Outcome) breaker.Outcome {
	c, known := o.d.Registry.Capability(capID)
	if o.d.Stats == nil || process == 0 || !known {
		return outcome
	}
	crashes, fatal := crashCount(err)
	if !fatal && !meta.IsNil() {
		for attempt := range meta.Key("attempts").Elems() {
			if n, ok := attempt.Key("deaths").AsInt(); ok {
				crashes = max(crashes, n)
			}
		}
	}
	if crashes <= 0 {
		return outcome
	}
	o.d.Stats.RecordBackendCrashes(now, BackendCrashes{CapID: capID, Plugin: c.Plugin, Generation: process, Count: uint64(crashes)})
	if fatal && outcome == breaker.Failure {
		return breaker.Ignored
	}
	return outcome
}

// deathOf is the number of the death that ended a call, if one did.
func crashCount(err *contract.Error) (int64, bool) {
	if err == nil || err.Details.Kind() != edn.KindMap {
		return 0, false
	}
	n, ok := err.Details.Key("deaths").AsInt()
	return n, ok && n > 0
}
