package stats

import (
	"cmp"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Conditions is an optional interface of an Executor that returns the load of a
// capability. It never blocks.
type Conditions interface {
	Condition(capID string) Condition
}

// Condition is the warmth and load of a capability, as reported by the plugin
// and counted by the host. The zero value means unknown and is treated as warm
// and idle.
type Condition struct {
	// Warmth is the state of the backend of the capability: "warm", "starting" or
	// "cold"; empty if the plugin does not report it.
	Warmth string
	// Troubled reports that the capability is degraded.
	Troubled bool
	// InFlight and Queued count calls. Places is the limit for InFlight, 0 if
	// unlimited or unknown.
	InFlight, Queued, Places int
	// BackendCrashes counts the recent crashes of the backend.
	BackendCrashes int
}

// Values of Condition.Warmth.
const (
	Warm     = "warm"
	Starting = "starting"
	Cold     = "cold"
)

// distance orders backends by the time until they can answer: warm, starting,
// cold.
func (c Condition) distance() int {
	switch c.Warmth {
	case Starting:
		return 1
	case Cold:
		return 2
	}
	return 0
}

// load returns the number of calls per place.
func (c Condition) load() float64 {
	calls := float64(c.InFlight + c.Queued)
	switch {
	case c.Places > 0:
		return calls / float64(c.Places)
	case c.Queued > 0:
		return 1 + float64(c.Queued)
	}
	return 0
}

// wait estimates the wait for a place if each call takes so long.
func (c Condition) wait(each time.Duration) time.Duration {
	places := max(c.Places, 1)
	if c.Places == 0 && c.Queued == 0 {
		return 0
	}
	before := c.InFlight + c.Queued - places + 1 // calls that must end first
	if c.Places == 0 {
		before = c.Queued
	}
	return each * time.Duration(max(before, 0)) / time.Duration(places)
}

// compareDistance sorts warm backends before starting and cold ones.
func compareDistance(a, b Condition) int { return cmp.Compare(a.distance(), b.distance()) }

// compareLoad sorts by load, degraded capabilities last.
func compareLoad(a, b Condition) int {
	trouble := func(c Condition) int {
		if c.Troubled {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(trouble(a), trouble(b)), cmp.Compare(a.load(), b.load()))
}

// appendTo adds the known values to figures.
func (c Condition) appendTo(b *edn.MapBuilder) {
	b.OptKeyword("warmth", c.Warmth)
	b.OptTrue("troubled?", c.Troubled)
	for _, part := range []struct {
		key string
		n   int
	}{{"in-flight", c.InFlight}, {"queued", c.Queued}, {"deaths", c.BackendCrashes}} {
		if part.n > 0 {
			b.Key(part.key, edn.Int(int64(part.n)))
		}
	}
	if c.Places > 0 && (c.Warmth != "" || c.InFlight+c.Queued > 0) {
		b.Key("places", edn.Int(int64(c.Places)))
	}
}
