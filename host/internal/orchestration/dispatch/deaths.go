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
type Toll struct {
	CapID, Plugin string
	Generation    int // number of the process
	Deaths        uint64
}

type tollKey struct {
	capID, plugin string
	generation    int
}

// oldProcesses is how many generations back tolls are remembered: what comes
// later is about a process that is long gone.
const oldProcesses = 64

// Died takes a toll. Deaths that nobody has told of before count as failures of
// the capability, whatever it was asked for: each of them once, also if the call
// that it ended was saved. It tells whether there were such.
func (b *Book) Died(now time.Time, t Toll) bool {
	b.mu.Lock()
	process := tollKey{t.CapID, t.Plugin, t.Generation}
	before := b.tolls[process]
	if t.Deaths <= before {
		b.mu.Unlock()
		return false
	}
	if b.tolls == nil {
		b.tolls = map[tollKey]uint64{}
	}
	for key := range b.tolls {
		if key.capID == t.CapID && key.plugin == t.Plugin && key.generation < t.Generation-oldProcesses {
			delete(b.tolls, key)
		}
	}
	b.tolls[process] = t.Deaths
	var pages []*page
	for key, p := range b.pages {
		if key.capID == t.CapID {
			pages = append(pages, p)
		}
	}
	b.mu.Unlock()
	for _, p := range pages {
		p.bereaved(now, t.Deaths-before)
	}
	return true
}

// bereaved counts deaths against the capability.
func (p *page) bereaved(now time.Time, deaths uint64) {
	p.mu.Lock()
	defer p.unlock(now)
	for range min(deaths, uint64(p.settings.Window)) { // more would push each other out
		p.breaker.Witness(now)
	}
}

// bereaved takes the deaths that an answer of a process tells of, and gives what
// is left to count of the end of its attempt: a death that ended it has been
// counted by then.
func (o *operation) bereaved(now time.Time, capID string, process int, meta edn.Value, err *contract.Error, outcome breaker.Outcome) breaker.Outcome {
	c, known := o.d.Registry.Capability(capID)
	if o.d.Book == nil || process == 0 || !known {
		return outcome
	}
	deaths, fatal := deathOf(err)
	if !fatal && !meta.IsNil() {
		for attempt := range meta.Key("attempts").Elems() {
			if n, ok := attempt.Key("deaths").AsInt(); ok {
				deaths = max(deaths, n)
			}
		}
	}
	if deaths <= 0 {
		return outcome
	}
	o.d.Book.Died(now, Toll{CapID: capID, Plugin: c.Plugin, Generation: process, Deaths: uint64(deaths)})
	if fatal && outcome == breaker.Failure {
		return breaker.Ignored
	}
	return outcome
}

// deathOf is the number of the death that ended a call, if one did.
func deathOf(err *contract.Error) (int64, bool) {
	if err == nil || err.Details.Kind() != edn.KindMap {
		return 0, false
	}
	n, ok := err.Details.Key("deaths").AsInt()
	return n, ok && n > 0
}
