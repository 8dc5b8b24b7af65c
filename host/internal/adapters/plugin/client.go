package plugin

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Route names the plugin that serves a capability.
type Route struct {
	Plugin string
	// Advertised is the id under which the plugin advertises the capability; empty: the same id.
	Advertised string
	// MaxInFlight is the maximum number of concurrent calls of this capability; 0: unlimited.
	// Further calls wait in a queue with the length of the plugin's queue.
	MaxInFlight int
	// Unusable is the reason why the plugin is not started although the capability is configured;
	// nil if the supervisor has the plugin.
	Unusable *contract.Error
}

// Client makes calls to the plugins of a supervisor. Its table of capabilities is fixed; a new
// configuration gets a new Client. It looks up the current edition at each call, so it stays valid
// when plugins are swapped. A plugin that was removed from the configuration serves the client
// until Close or until its drain timeout is over.
type Client struct {
	supervisor *Supervisor
	targets    map[string]target
	unusable   map[string]*contract.Error // by capability
	closing    sync.Once
}

type target struct {
	unit       *unit
	advertised string
	limit      *limiter
}

var (
	_ dispatch.Executor = (*Client)(nil)
	_ dispatch.Trials   = (*Client)(nil)
	_ stats.Conditions  = (*Client)(nil)
)

// Client returns a client for the given routes; their keys are the ids of capabilities in plans.
// The error is config/dangling-reference if the supervisor does not have one of the plugins. The
// caller must close the client.
func (s *Supervisor) Client(routes map[string]Route) (*Client, error) {
	c := &Client{supervisor: s, targets: make(map[string]target, len(routes)), unusable: map[string]*contract.Error{}}
	units := map[string]*unit{}
	for id, r := range routes {
		if r.Unusable != nil {
			c.unusable[id] = contract.Errorf("runtime/not-ready", "plugin %s is not started", r.Plugin).WithCause(r.Unusable)
			continue
		}
		u, err := s.unit(r.Plugin)
		if err != nil {
			return nil, contract.Errorf("config/dangling-reference", "capability :%s: %w", id, err)
		}
		units[r.Plugin] = u
		c.targets[id] = target{unit: u, advertised: cmp.Or(r.Advertised, id)}
	}
	for id, t := range c.targets {
		t.limit = t.unit.limited(id, routes[id].MaxInFlight)
		c.targets[id] = t
	}
	for _, u := range units {
		u.hold()
	}
	return c, nil
}

// Close ends the use of the client, so that plugins removed from the configuration can stop.
// Further calls of Close do nothing.
func (c *Client) Close() {
	c.closing.Do(func() {
		units := map[*unit]bool{}
		for _, t := range c.targets {
			units[t.unit] = true
		}
		for u := range units {
			u.unhold()
		}
	})
}

// limited returns the limiter of a capability, which all clients share; the
// newest client sets its limit.
func (u *unit) limited(capID string, limit int) *limiter {
	u.mu.Lock()
	defer u.mu.Unlock()
	queue := u.current.settings().Queue
	l := u.limits[capID]
	if l == nil {
		l = newLimiter(limit, queue)
		u.limits[capID] = l
	}
	l.resize(limit, queue)
	return l
}

// hold adds a client.
func (u *unit) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clients++
}

// unhold removes a client. It closes a removed plugin that has no other client.
func (u *unit) unhold() {
	u.mu.Lock()
	u.clients--
	last := u.removed && u.clients == 0
	u.mu.Unlock()
	if last {
		u.close(CauseRemove)
	}
}

// Invoke implements dispatch.Executor.
func (c *Client) Invoke(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	t, ok := c.targets[call.CapID]
	if !ok {
		return dispatch.Answer{}, c.absent(call.CapID)
	}
	around := held(ctx)
	if err := t.selfWait(around, call.CapID); err != nil {
		return dispatch.Answer{}, located(err, call)
	}
	waiting, entered := wire.UntilStopped(ctx, call.Stop, unsent)
	err := t.limit.enter(waiting)
	entered()
	if err != nil {
		return dispatch.Answer{}, located(err, call)
	}
	ctx = holds(ctx, &holding{unit: t.unit, limit: t.limit, up: around})
	defer t.limit.exit()
	answer, err := t.unit.invoke(ctx, call)
	if err != nil {
		if contract.AsError(err).Type == "cap/not-found" { // a reload came between binding and call
			t.unit.mu.Lock()
			if gone := t.unit.dropped(t.advertised); gone != nil {
				err = gone
			}
			t.unit.mu.Unlock()
		}
		return answer, located(err, call)
	}
	return answer, nil
}

// unsent returns the error for a call that was canceled while it waited for a place.
func unsent() *contract.Error {
	return contract.Errorf("canceled", "the call was canceled before it was sent").WithDetail("sent?", edn.Bool(false))
}

// invoke makes a call to a process of the plugin. If the process began to close
// between the choice and the call, another one is chosen.
func (u *unit) invoke(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	for {
		waiting, entered := wire.UntilStopped(ctx, call.Stop, unsent)
		s, err := u.enter(waiting, call.Session)
		entered()
		if err != nil {
			return dispatch.Answer{}, err
		}
		e := s.instance.edition
		response, err := s.invoke(ctx, call, e.settings().Health.Timeout)
		u.exit(s)
		switch {
		case errors.Is(err, errClosing):
			continue
		case err != nil && isPluginFault(err):
			u.sample(e.number, false)
		}
		return dispatch.Answer{
			Response: response, Plugin: s.name, Edition: e.number, Generation: s.incarnation, Binary: s.binary,
			Enforcement: s.instance.status.Load().enforcement(),
		}, err
	}
}

// State implements dispatch.Executor.
func (c *Client) State(capID string) dispatch.CapState {
	t, ok := c.targets[capID]
	if !ok {
		return dispatch.CapState{Reason: "runtime/not-ready", Why: c.absent(capID)}
	}
	return t.unit.state(t.advertised)
}

func (u *unit) state(advertised string) dispatch.CapState {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.current
	st := e.face()
	state := dispatch.CapState{
		Plugin:      u.name,
		Edition:     e.number,
		Generation:  st.Generation,
		Binary:      st.Binary,
		Enforcement: st.enforcement(),
	}
	state.Standby = !u.held && (len(e.ready) > 1 || e.warm() != nil)
	if why := u.dropped(advertised); why != nil {
		state.Reason, state.Why = why.Type, why
		return state
	}
	if state.Why = u.refusal(e); state.Why == nil {
		if said, ok := e.capHealth(advertised); ok && !callable(said) {
			state.Reason, state.Why = "runtime/not-ready", outOfService(advertised, said)
			return state
		}
		state.Ready = true
		return state
	}
	state.Reason = state.Why.Type
	if why := state.Why.Cause; why != nil && why.Cause != nil && why.Type == state.Reason {
		state.Why = why.Cause // the error that the plugin named (BIND-009)
	}
	state.Respawning = !u.closed && st.comesBack()
	return state
}

// Await implements dispatch.Executor.
func (c *Client) Await(ctx context.Context, capID string) error {
	t, ok := c.targets[capID]
	if !ok {
		return c.absent(capID)
	}
	return t.unit.await(ctx)
}

// await waits until the plugin accepts calls. It returns an error at once if an operator must act
// first, or if the next start is after the deadline of ctx, so that the caller has time for another
// candidate.
func (u *unit) await(ctx context.Context) error {
	for {
		u.mu.Lock()
		why, st, changed := u.refusal(u.current), u.current.face(), u.changed
		u.mu.Unlock()
		switch {
		case why == nil:
			return nil
		case !st.comesBack(), st.State == Backoff && endsBefore(ctx, st.NextStart):
			return why
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contract.Errorf("runtime/not-ready", "plugin %s is still %s: %v", u.name, st.State, context.Cause(ctx)).
				WithCause(st.Err)
		}
	}
}

func endsBefore(ctx context.Context, at time.Time) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && !at.Before(deadline)
}

// absent returns the error for a capability that no plugin of the supervisor serves.
func (c *Client) absent(capID string) *contract.Error {
	if why := c.unusable[capID]; why != nil {
		return why
	}
	return contract.Errorf("cap/not-found", "no plugin provides :%s", capID)
}

// located adds capability, node and attempt of the call to an error.
func located(err error, c dispatch.Call) *contract.Error {
	e := contract.AsError(err)
	if id, kerr := edn.Keyword(c.CapID); kerr == nil {
		e = e.WithWhere("cap/id", id)
	}
	if c.Node != "" {
		e = e.WithWhere("node", edn.Text(c.Node))
	}
	if c.Attempt > 0 {
		e = e.WithWhere("attempt", edn.Int(int64(c.Attempt)))
	}
	return e
}
