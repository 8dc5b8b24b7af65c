package dispatch

import (
	"cmp"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Conditions is what an executor may offer besides: how near a capability is to
// working on one more call. It never blocks.
type Conditions interface {
	Condition(capID string) Condition
}

// Condition is how near a capability is to working on one more call, as the
// plugin says and the host counts. The zero value is a capability of which
// nothing is known: it counts as one that runs and has room.
type Condition struct {
	// Warmth says whether what the capability stands on runs: "warm",
	// "starting" or "cold"; empty if its plugin makes no statement.
	Warmth string
	// Troubled tells that it serves with a problem.
	Troubled bool
	// InFlight calls are worked on and Queued ones wait. Places is how many are
	// worked on at once, 0 if that is not bounded or not known.
	InFlight, Queued, Places int
	// Deaths are those of late of what it stands on.
	BackendCrashes int
}

// condition is that of a capability now.
func (d *Dispatcher) condition(capID string) Condition {
	if c, ok := d.Executor.(Conditions); ok {
		return c.Condition(capID)
	}
	return Condition{}
}

// The degrees of what a capability stands on, as Condition.Warmth has them.
const (
	Warm     = "warm"
	Starting = "starting"
	Cold     = "cold"
)

// distance is how far what a capability stands on is from answering: who is
// being started is nearer than who has to be.
func (c Condition) distance() int {
	switch c.Warmth {
	case Starting:
		return 1
	case Cold:
		return 2
	}
	return 0
}

// load is how many calls there are for each place.
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

// wait is how long a call has to wait for its place, if each call takes so long.
func (c Condition) wait(each time.Duration) time.Duration {
	places := max(c.Places, 1)
	if c.Places == 0 && c.Queued == 0 {
		return 0
	}
	before := c.InFlight + c.Queued - places + 1 // have to end first
	if c.Places == 0 {
		before = c.Queued
	}
	return each * time.Duration(max(before, 0)) / time.Duration(places)
}

// nearer puts who runs before who has to be started.
func compareDistance(a, b Condition) int { return cmp.Compare(a.distance(), b.distance()) }

// freer puts who has room before who has a queue, and who serves with a problem
// last.
func compareLoad(a, b Condition) int {
	trouble := func(c Condition) int {
		if c.Troubled {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(trouble(a), trouble(b)), cmp.Compare(a.load(), b.load()))
}

// put adds what is known to figures.
func (c Condition) appendTo(b *edn.MapBuilder) {
	if c.Warmth != "" {
		b.Key("warmth", edn.K(c.Warmth))
	}
	if c.Troubled {
		b.Key("troubled?", edn.Bool(true))
	}
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
