package plugin

import (
	"cmp"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

// byName is what a process says of single capabilities.
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

// callable tells whether a capability may be called as long as its plugin may.
func callable(c wire.CapabilityHealth) bool {
	return c.State == wire.HealthUnknown || c.State.Callable()
}

// outOfService says why a capability takes no calls: in the words of the plugin,
// if these name an error.
func outOfService(name string, c wire.CapabilityHealth) *contract.Error {
	if named := namedReason(c.Reason); named != nil {
		return named
	}
	e := contract.Errorf("runtime/not-ready", "capability :%s is %s%s", name, c.State, because(c.Reason))
	if c.Source == contract.SourceDownstream || c.Source == contract.SourcePlugin {
		e = e.WithSource(c.Source)
	}
	return e
}

// said is what the processes that take calls say of a capability: what the best
// of them says. ok is false if one of them makes no statement. It needs u.mu.
func (e *edition) said(name string) (best wire.CapabilityHealth, ok bool) {
	for n, s := range e.ready {
		c, there := s.instance.status.Load().told[name]
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
	return cmp.Or(cmp.Compare(a.Warmth, b.Warmth), cmp.Compare(a.Queued, b.Queued), cmp.Compare(a.InFlight, b.InFlight)) < 0
}

// Condition implements dispatch.Conditions.
func (c *Client) Condition(capID string) dispatch.Condition {
	t, ok := c.targets[capID]
	if !ok {
		return dispatch.Condition{}
	}
	own := t.limit.condition()
	u := t.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.current
	all := e.condition()
	said, told := e.said(t.advertised)
	d := dispatch.Condition{Troubled: len(e.ready) > 0 && e.face().State == Degraded}
	switch {
	case len(e.ready) > 0:
	case e.asleep(), !e.face().comesBack():
		d.Warmth = dispatch.Cold
	default:
		d.Warmth = dispatch.Starting
	}
	if told {
		d = plainly(said, d.Troubled)
		own = behind(said, own.InFlight+own.Queued)
	}
	d.InFlight, d.Queued, d.Places = own.InFlight, own.Queued, own.Places
	if all.crowded(own) {
		d.InFlight, d.Queued, d.Places = all.InFlight, all.Queued, all.Places
	}
	return d
}

// plainly is what a plugin says of a capability, in the words of dispatch.
func plainly(c wire.CapabilityHealth, troubled bool) dispatch.Condition {
	d := dispatch.Condition{Troubled: troubled, BackendCrashes: c.RecentDeaths}
	if c.State != wire.HealthUnknown {
		d.Troubled = c.State == wire.HealthDegraded
	}
	if c.Warmth != wire.WarmthUnknown {
		d.Warmth = c.Warmth.String()
	}
	return d
}

// crowd is how many calls there are for how many places.
type crowd struct{ InFlight, Queued, Places int }

// crowded tells whether there is less room here than there.
func (a crowd) crowded(b crowd) bool {
	if a.Places == 0 || b.Places == 0 {
		return a.Queued > b.Queued || b.Places == 0 && a.Places > 0 && a.Queued == b.Queued
	}
	return (a.InFlight+a.Queued)*b.Places > (b.InFlight+b.Queued)*a.Places
}

// behind is the crowd behind a capability that tells of it. The host knows at
// any moment how many calls it has made, the plugin said at some moment what it
// has besides: the greater number holds.
func behind(c wire.CapabilityHealth, calls int) crowd {
	if c.Places == 0 {
		return crowd{max(c.InFlight, calls-c.Queued), c.Queued, 0}
	}
	calls = max(calls, c.InFlight+c.Queued)
	working := min(calls, c.Places)
	return crowd{working, calls - working, c.Places}
}

// condition is the crowd at the limit of a capability.
func (l *limiter) condition() crowd {
	l.mu.Lock()
	defer l.mu.Unlock()
	return crowd{l.running, len(l.waiting), l.limit}
}

// condition is the crowd before the processes of the edition. It needs u.mu.
func (e *edition) condition() crowd {
	all := crowd{Queued: len(e.unit.waiting)}
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
