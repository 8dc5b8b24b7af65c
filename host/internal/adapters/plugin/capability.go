package plugin

import (
	"cmp"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

// byName returns the health of capabilities by advertised id; nil if there are none.
func byName(all []wire.CapabilityHealth) map[string]wire.CapabilityHealth {
	if len(all) == 0 {
		return nil
	}
	m := make(map[string]wire.CapabilityHealth, len(all))
	for _, c := range all {
		m[c.ID] = c
	}
	return m
}

// callable reports whether a capability may be called while its plugin is
// ready.
func callable(c wire.CapabilityHealth) bool {
	return c.State == wire.HealthUnknown || c.State.Callable()
}

// outOfService returns the error for a capability that does not accept calls: the typed error in
// its reason, if there is one, else runtime/not-ready.
func outOfService(name string, c wire.CapabilityHealth) *contract.Error {
	if named := namedReason(c.Reason); named != nil {
		return named
	}
	e := contract.Errorf("runtime/not-ready", "capability :%s is %s%s", name, c.State, reasonSuffix(c.Reason))
	if c.Source == contract.SourceDownstream || c.Source == contract.SourcePlugin {
		e = e.WithSource(c.Source)
	}
	return e
}

// capHealth returns the best health of a capability over the callable processes. ok is false if one
// of them does not report it, or no process is callable. The caller holds u.mu.
func (e *edition) capHealth(name string) (best wire.CapabilityHealth, ok bool) {
	for n, s := range e.ready {
		c, there := s.instance.status.Load().capHealth[name]
		if !there {
			return wire.CapabilityHealth{}, false
		}
		if n == 0 || better(c, best) {
			best = c
		}
	}
	return best, len(e.ready) > 0
}

func better(a, b wire.CapabilityHealth) bool {
	if callable(a) != callable(b) {
		return callable(a)
	}
	return cmp.Or(cmp.Compare(a.Warmth, b.Warmth), cmp.Compare(a.Queued, b.Queued),
		cmp.Compare(a.InFlight, b.InFlight)) < 0
}

// Condition implements stats.Conditions.
func (c *Client) Condition(capID string) stats.Condition {
	t, ok := c.targets[capID]
	if !ok {
		return stats.Condition{}
	}
	own := t.limit.condition()
	u := t.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.current
	all := e.condition()
	said, told := e.capHealth(t.advertised)
	d := stats.Condition{Troubled: len(e.ready) > 0 && e.face().State == Degraded}
	switch {
	case len(e.ready) > 0:
	case e.scaledToZero(), !e.face().comesBack():
		d.Warmth = stats.Cold
	default:
		d.Warmth = stats.Starting
	}
	if told {
		d = toCondition(said, d.Troubled)
		own = reportedOccupancy(said, own.InFlight+own.Queued)
	}
	d.InFlight, d.Queued, d.Places = own.InFlight, own.Queued, own.Places
	if all.fuller(own) {
		d.InFlight, d.Queued, d.Places = all.InFlight, all.Queued, all.Places
	}
	return d
}

// toCondition converts the reported health of a capability.
func toCondition(c wire.CapabilityHealth, troubled bool) stats.Condition {
	d := stats.Condition{Troubled: troubled, BackendCrashes: c.RecentDeaths}
	if c.State != wire.HealthUnknown {
		d.Troubled = c.State == wire.HealthDegraded
	}
	if c.Warmth != wire.WarmthUnknown {
		d.Warmth = c.Warmth.String()
	}
	return d
}

// occupancy is a number of calls and of places for calls; Places 0 means unlimited.
type occupancy struct{ InFlight, Queued, Places int }

// fuller reports whether a has a smaller share of free places than b.
func (a occupancy) fuller(b occupancy) bool {
	if a.Places == 0 || b.Places == 0 {
		return a.Queued > b.Queued || b.Places == 0 && a.Places > 0 && a.Queued == b.Queued
	}
	return (a.InFlight+a.Queued)*b.Places > (b.InFlight+b.Queued)*a.Places
}

// reportedOccupancy returns the occupancy of a capability that reports its own. The host knows its
// own calls at any time, the report may be older; the greater number is used.
func reportedOccupancy(c wire.CapabilityHealth, calls int) occupancy {
	if c.Places == 0 {
		return occupancy{max(c.InFlight, calls-c.Queued), c.Queued, 0}
	}
	calls = max(calls, c.InFlight+c.Queued)
	working := min(calls, c.Places)
	return occupancy{working, calls - working, c.Places}
}

// condition returns the number of calls and places of the limiter.
func (l *limiter) condition() occupancy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return occupancy{l.running, len(l.waiting), l.limit}
}

// condition returns the occupancy of the processes of the edition. It needs
// u.mu.
func (e *edition) condition() occupancy {
	all := occupancy{Queued: len(e.unit.waiting)}
	bounded := len(e.ready) > 0
	for _, s := range e.ready {
		all.InFlight += s.running
		all.Places += s.limit
		bounded = bounded && s.limit > 0
	}
	if !bounded {
		all.Places = 0
	}
	return all
}
