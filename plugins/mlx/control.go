package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/pool"
	"github.com/fermenthq/ferment/plugins/mlx/internal/settings"
	"github.com/fermenthq/ferment/plugins/mlx/internal/worker"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

type lease = pool.Lease[*talker]

// which is the input of an operator's command: the session whose servers it affects, "" for all.
type which struct {
	Session string `edn:"session/id,omitempty"`
}

// control returns the capability of the operators.
func (a *adapter) control() sdk.Capability {
	return sdk.Func(settings.Name+"/"+settings.Control, sdk.Intents("model/status", "model/freeze", "model/thaw",
		"model/reset", "model/quit"),
		func(ctx context.Context, of which) (edn.Value, error) {
			if err := a.service.Load().operate(ctx, sdk.CallFrom(ctx).Intent, of.Session); err != nil {
				return edn.Nil(), err
			}
			return a.service.Load().status(), nil
		},
		sdk.Kind("operation"), sdk.Idempotent(), sdk.Out("res/any"), sdk.Cost(contract.Cost{USD: edn.Int(0)}),
		sdk.Description("Says how the model servers are, and stops, freezes and thaws them."))
}

// operate carries out an operator's command. For model/freeze and model/quit it waits
// until the servers have ended; model/thaw does not wait for a start. A shared
// server belongs to no session, so a command for a session does not affect it.
func (h *service) operate(ctx context.Context, intent, session string) error {
	all := session == ""
	if !all && !h.set.PerSession() {
		return nil
	}
	switch intent {
	case "model/freeze":
		if err := h.pool.Freeze(session, all); err != nil {
			return err
		}
	case "model/thaw":
		h.pool.Thaw(session, all)
		if !h.set.PerSession() || !all {
			h.pool.Warm(session, "thaw")
		}
		return nil
	case "model/quit":
		h.pool.Quit(session, all)
	default:
		return nil // reset: these servers keep no state between calls
	}
	return h.settle(ctx, session, all)
}

// settle waits until no server of the session, or none at all, is being stopped. The error is that
// of ctx.
func (h *service) settle(ctx context.Context, session string, all bool) error {
	for {
		next := h.changed.next()
		draining := false
		for _, w := range h.pool.Status().Workers {
			draining = draining || w.State == worker.Draining && (all || w.Session == session)
		}
		if !draining {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// status returns the state of the servers for operators.
func (h *service) status() edn.Value {
	st := h.pool.Status()
	var m edn.MapBuilder
	m.Key("model", edn.Text(h.set.Model))
	m.Key("preset", edn.K(h.set.Preset))
	m.Key("mode", edn.K(h.set.Workers))
	var workers []edn.Value
	for _, w := range st.Workers {
		workers = append(workers, workerValue(w))
	}
	m.Key("workers", edn.Vector(workers...))
	m.Key("frozen?", edn.Bool(st.Frozen))
	m.Key("starts", edn.Int(int64(st.Starts)))
	m.Key("deaths", edn.Int(int64(st.Deaths)))
	m.Key("deaths/lately", edn.Int(int64(st.DeathsOfLate)))
	m.Key("waiting", edn.Int(int64(st.Waiting)))
	speed(&m, st)
	if st.Blocked != nil {
		m.Key("blocked", st.Blocked.Value())
	}
	var events []edn.Value
	for _, e := range st.Events {
		events = append(events, eventValue(e))
	}
	m.Key("events", edn.Vector(events...))
	return m.Map()
}

func speed(m *edn.MapBuilder, st pool.Status) {
	if st.LastStart > 0 {
		m.Key("start-ms", edn.Int(st.LastStart.Milliseconds()))
	}
	if st.FirstToken > 0 {
		m.Key("first-token-ms", edn.Int(st.FirstToken.Milliseconds()))
	}
	if st.TokensPerSecond > 0 {
		m.Key("tokens-per-second", edn.Int(int64(st.TokensPerSecond+0.5)))
	}
}

func workerValue(w pool.Worker) edn.Value {
	var m edn.MapBuilder
	m.OptText("session/id", w.Session)
	m.Key("state", edn.K(string(w.State)))
	m.Key("since-ms", edn.Int(w.Since.Milliseconds()))
	if w.PID != 0 {
		m.Key("pid", edn.Int(int64(w.PID)))
		m.Key("port", edn.Int(int64(w.Port)))
		m.Key("idle-ms", edn.Int(w.Idle.Milliseconds()))
	}
	m.Key("calls", edn.Int(int64(w.Calls)))
	if w.Died != nil {
		m.Key("error", w.Died.Value())
	}
	return m.Map()
}

func eventValue(e pool.Event) edn.Value {
	var m edn.MapBuilder
	m.OptText("session/id", e.Session)
	m.Key("at", edn.Inst(e.At))
	m.Key("from", edn.K(string(e.From)))
	m.Key("to", edn.K(string(e.To)))
	m.Key("cause", edn.K(e.Cause))
	m.Key("took-ms", edn.Int(e.Took.Milliseconds()))
	m.OptInt("pid", int64(e.PID))
	return m.Map()
}

// rest is the minimum interval between two health reports: queues change more often than the host
// needs to know.
const rest = 20 * time.Millisecond

// health reports the state of the servers to the host whenever it has changed, at most once in the
// time rest. It returns when ctx ends.
func (a *adapter) health(ctx context.Context, report func(sdk.Status)) {
	h := a.service.Load()
	said := ""
	for {
		next := h.changed.next()
		now := h.state()
		if text := now.Reason + now.Attributes.String(); text != said {
			said = text
			report(now)
			if !transport.Sleep(ctx, a.clock, rest) {
				return
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// state returns the state of the servers for the host: whether a call can
// succeed, and how soon. The plugin itself always stays ready, so that
// operators can reach it.
func (h *service) state() sdk.Status {
	st := h.pool.Status()
	all := h.servers(st)
	status := sdk.Ready()
	if !all.State.Callable() {
		status = sdk.Degraded(all.Reason)
		status.Source = all.Source
	}
	for _, label := range slices.Sorted(maps.Keys(h.set.Models())) {
		one := all
		one.ID = settings.Name + "/" + label
		status.Capabilities = append(status.Capabilities, one)
	}
	var counts, m edn.MapBuilder
	for state, n := range statesOf(st) {
		counts.Key(string(state), edn.Int(n))
	}
	m.Key("workers", counts.Map())
	m.Key("deaths", edn.Int(int64(st.Deaths)))
	m.Key("waiting", edn.Int(int64(st.Waiting)))
	speed(&m, st)
	status.Attributes = m.Map()
	return status
}

func statesOf(st pool.Status) map[worker.State]int64 {
	states := map[worker.State]int64{}
	for _, w := range st.Workers {
		states[w.State]++
	}
	return states
}

// servers returns the status of every capability: all of them use the same
// servers.
func (h *service) servers(st pool.Status) sdk.CapabilityStatus {
	states := statesOf(st)
	up := states[worker.Ready]+states[worker.Busy] > 0
	frozen := st.Frozen || states[worker.Frozen] > 0 && !h.set.PerSession()
	c := sdk.CapabilityStatus{
		State: wire.HealthReady, Warmth: sdk.Cold, Queued: st.Waiting, Places: h.set.Places(),
		Deaths: uint64(st.Deaths), RecentDeaths: st.DeathsOfLate,
	}
	for _, w := range st.Workers {
		c.InFlight += w.Calls
	}
	switch {
	case up:
		c.Warmth = sdk.Warm
	case states[worker.Starting] > 0:
		c.Warmth = sdk.Warming
	}
	switch {
	case up:
	case frozen:
		c.State, c.Reason = wire.HealthNotReady, ":model/frozen: the model server was frozen by an operator; :model/thaw starts it again"
	case st.Blocked != nil:
		c.State, c.Reason, c.Source = wire.HealthNotReady, ":"+st.Blocked.Type+": "+st.Blocked.Message, st.Blocked.Source
		if st.Blocked.Hint != "" {
			c.Reason += " (" + st.Blocked.Hint + ")"
		}
	case c.Warmth == sdk.Warming && !h.set.Waits():
		c.State, c.Reason = wire.HealthNotReady, ":model/not-ready: the model server is loading"
	}
	return c
}
