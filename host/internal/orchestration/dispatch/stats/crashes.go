package stats

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BackendCrashes is the number of crashes of a backend, such as a model server,
// since a process of its plugin started. It arrives with the health of the
// plugin, with the error of a call that a crash ended, and with the answer of a
// call that the plugin repeated. Reports with the same count are about the same
// crash.
type BackendCrashes struct {
	CapID, Plugin string
	Generation    int // incarnation number of the process
	Count         uint64
}

type crashKey struct {
	capID, plugin string
	generation    int
}

// oldInstances is the number of earlier incarnations of a process whose counters
// are kept.
const oldInstances = 64

// RecordBackendCrashes counts crashes that were not reported before as failures
// of the capability for all intents: each crash once, even if the plugin
// repeated the call successfully. It reports whether there were new crashes.
func (t *Table) RecordBackendCrashes(now time.Time, c BackendCrashes) bool {
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
	var all []*Candidate
	for key, cs := range t.candidates {
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

// recordBackendCrashes counts crashes as failures of the breaker.
func (cs *Candidate) recordBackendCrashes(now time.Time, crashes uint64) {
	cs.mu.Lock()
	defer cs.unlock(now)
	for range min(crashes, uint64(cs.settings.Window)) { // more than the window holds have no effect
		cs.breaker.RecordFailure(now)
	}
}

// countBackendCrashes records the crashes that an answer or error reports, and
// returns the outcome that is still to be counted for the call: a crash that
// ended it is already counted.
func (e *End) countBackendCrashes(now time.Time, t *Table, capID string, outcome breaker.Outcome) breaker.Outcome {
	if e.Process == 0 {
		return outcome
	}
	crashes, fatal := crashCount(e.Err)
	if !fatal && !e.Meta.IsNil() {
		for attempt := range e.Meta.Key("attempts").Elems() {
			if n, ok := attempt.Key("deaths").AsInt(); ok {
				crashes = max(crashes, n)
			}
		}
	}
	if crashes <= 0 {
		return outcome
	}
	t.RecordBackendCrashes(now, BackendCrashes{
		CapID:      capID,
		Plugin:     e.Plugin,
		Generation: e.Process,
		Count:      uint64(crashes),
	})
	if fatal && outcome == breaker.Failure {
		return breaker.Ignored
	}
	return outcome
}

// crashCount returns the crash counter of the error if a crash ended the call.
func crashCount(err *contract.Error) (int64, bool) {
	if err == nil || err.Details.Kind() != edn.KindMap {
		return 0, false
	}
	n, ok := err.Details.Key("deaths").AsInt()
	return n, ok && n > 0
}
