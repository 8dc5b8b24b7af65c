package plugin

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Route says which plugin serves a capability.
type Route struct {
	Plugin string
	// MaxInFlight bounds the calls of this capability alone; 0: no bound of its
	// own. Calls above it wait in a queue as long as the plugin's.
	MaxInFlight int
}

// Client makes calls to the plugins of a supervisor. It is a fixed table of
// capabilities; a new configuration has a new Client.
type Client struct {
	targets map[string]*target
}

type target struct {
	unit  *unit
	limit *limiter
}

var _ dispatch.Executor = (*Client)(nil)

// Client routes capabilities, by the ids that plans use, to plugins. The error
// names a plugin that the supervisor does not have.
func (s *Supervisor) Client(routes map[string]Route) (*Client, error) {
	c := &Client{targets: make(map[string]*target, len(routes))}
	for id, r := range routes {
		u, err := s.unit(r.Plugin)
		if err != nil {
			return nil, contract.Errorf("config/dangling-reference", "capability :%s: %w", id, err)
		}
		c.targets[id] = &target{unit: u, limit: newLimiter(r.MaxInFlight, u.settings.Queue)}
	}
	return c, nil
}

// Invoke implements dispatch.Executor.
func (c *Client) Invoke(ctx context.Context, call dispatch.Call) (dispatch.Answer, error) {
	t := c.targets[call.CapID]
	if t == nil {
		return dispatch.Answer{}, notFound(call.CapID)
	}
	if err := t.limit.enter(ctx); err != nil {
		return dispatch.Answer{}, located(err, call)
	}
	defer t.limit.exit()
	i := t.unit.instance()
	s := i.serving.Load()
	if s == nil {
		st := i.status.Load()
		return dispatch.Answer{}, located(notServing(st.Plugin, st.State, st.Err), call)
	}
	response, err := s.invoke(ctx, call, t.unit.settings.Health.Timeout)
	answer := dispatch.Answer{Plugin: s.name, Generation: s.gen, Binary: s.binary}
	if err != nil {
		return answer, located(err, call)
	}
	answer.Response = response
	return answer, nil
}

// State implements dispatch.Executor.
func (c *Client) State(capID string) dispatch.CapState {
	t := c.targets[capID]
	if t == nil {
		return dispatch.CapState{Reason: "runtime/not-ready", Why: notFound(capID)}
	}
	i := t.unit.instance()
	st := i.status.Load()
	state := dispatch.CapState{Plugin: st.Plugin, Generation: st.Generation, Binary: st.Binary}
	if i.serving.Load() != nil {
		state.Ready = true
		return state
	}
	state.Why = notServing(st.Plugin, st.State, st.Err)
	state.Reason = state.Why.Type
	state.Respawning = st.respawning()
	return state
}

// Await implements dispatch.Executor.
func (c *Client) Await(ctx context.Context, capID string) error {
	t := c.targets[capID]
	if t == nil {
		return notFound(capID)
	}
	return t.unit.await(ctx)
}

// await waits until an instance takes calls, or none will by itself while ctx
// lasts: who can tell now that it is no use leaves the caller time for another.
func (u *unit) await(ctx context.Context) error {
	for {
		i := u.instance()
		st, changed := i.watchStatus()
		switch {
		case i.serving.Load() != nil:
			return nil
		case !st.respawning(), st.State == Backoff && endsBefore(ctx, st.NextStart):
			return notServing(st.Plugin, st.State, st.Err)
		}
		select {
		case <-changed:
		case <-i.over:
			return notServing(st.Plugin, Stopped, nil)
		case <-ctx.Done():
			return contract.Errorf("runtime/not-ready", "plugin %s is still %s: %v", st.Plugin, st.State, context.Cause(ctx)).WithCause(st.Err)
		}
	}
}

func endsBefore(ctx context.Context, at time.Time) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && !at.Before(deadline)
}

func notFound(capID string) *contract.Error {
	return contract.Errorf("cap/not-found", "no plugin provides :%s", capID)
}

// located says where in its run a call failed.
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
