package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Sessions implements httpapi.Backend.
func (d *Daemon) Sessions() *session.Service {
	if h := d.host.Load(); h != nil {
		return h.sessions
	}
	return nil
}

// keepSessions periodically freezes idle sessions, deletes expired session variables and content
// that no conversation uses, and writes access times; it does so once more at the end. Summaries
// are made in another goroutine, so that a slow model does not delay the other work.
func (d *Daemon) keepSessions(ctx context.Context) {
	h := d.host.Load()
	interval := func() time.Duration {
		rules := h.runs.now().loaded.Session
		return min(rules.Sweep, rules.Rules.IdleTTL)
	}
	timer := time.NewTimer(interval())
	defer timer.Stop()
	grown := make(chan struct{}, 1)
	var summaries sync.WaitGroup
	summaries.Go(func() {
		for range grown {
			d.summarizeSessions(ctx, h)
		}
	})
	defer summaries.Wait()
	defer close(grown)
	for live := true; live; {
		sweep := false
		select {
		case <-h.sessions.Hot(): // it does not delay the sweep
		case <-timer.C:
			sweep = true
			timer.Reset(interval())
		case <-ctx.Done():
			live, sweep = false, true
		}
		if live {
			d.coolSessions(ctx, h)
			select {
			case grown <- struct{}{}:
			default: // it will look once more anyway
			}
		}
		if !sweep {
			continue
		}
		if _, err := h.sessions.Upkeep(context.WithoutCancel(ctx)); err != nil && live {
			d.log.Error("expired session variables are not deleted", "error", err)
		}
		if _, err := h.conversations.Sweep(context.WithoutCancel(ctx)); err != nil && live {
			d.log.Error("content that no conversation names is not deleted", "error", err)
		}
	}
}

func (d *Daemon) coolSessions(ctx context.Context, h *Host) {
	cooled, err := h.sessions.Cool(ctx)
	for _, c := range cooled {
		d.log.Info("session frozen", "session", c.ID, "reason", c.By.String())
	}
	if err != nil && ctx.Err() == nil {
		d.log.Error("sessions that are not used are not frozen", "error", err)
	}
}

// summarizeSessions summarizes the turns that no longer fit. Without the intent context/summarize
// they are dropped.
func (d *Daemon) summarizeSessions(ctx context.Context, h *Host) {
	by := h.summarize
	if _, ok := h.runs.now().loaded.Generation.Registry.Intent(summarizes); !ok {
		by = nil
	}
	ids, err := h.sessions.Summarize(ctx, by)
	for _, id := range ids {
		d.log.Debug("turns of a session summarized", "session", id)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("turns of a session are not summarized; acts do not get them", "error", err)
	}
}

// summarizes is the intent that summarizes turns.
const summarizes = "context/summarize"

// summarize implements session.Summarizer with an act of the owner of the session, to whom it is
// charged.
func (h *Host) summarize(ctx context.Context, of session.Session, text string, chars int) (string, *contract.Error) {
	turn, err := h.Take()
	if err != nil {
		return "", err
	}
	defer turn.Release()
	response, failure := turn.Do(ctx, act.Act{
		Principal:     of.Owner,
		PrincipalType: hostPrincipal,
		Roles:         []string{policy.RoleUser},
		Request: edn.MustMap(
			edn.K("proto"), edn.Int(1),
			edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("session-"+of.ID)),
			edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(summarizes)),
			edn.K("constraints"), edn.MustMap(edn.K("max-chars"), edn.Int(int64(chars))),
			edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(text))),
	})
	if failure != nil {
		return "", failure
	}
	out := response.Key("result").Key("out")
	for _, key := range []string{"summary", "text", "content"} {
		if s, ok := out.Key(key).AsString(); ok {
			return s, nil
		}
	}
	return "", contract.Errorf("schema/invalid", "the answer of :%s has no text", summarizes)
}

// serversWithin is the time limit for a plugin to stop or start the model server of a session.
const serversWithin = 30 * time.Second

// tellPlugins implements session.Plugins. It skips plugins that are not ready, because they run no
// servers.
func (h *Host) tellPlugins(ctx context.Context, id, intent string) (n int, err *contract.Error) {
	ctx, cancel := context.WithTimeout(ctx, serversWithin)
	defer cancel()
	turn := h.nested("")
	defer turn.Release()
	for _, name := range turn.Registry().Serving(intent) {
		capability, ok := turn.Registry().Capability(name)
		if !ok || !turn.of.client.State(name).Ready {
			continue
		}
		_, failure := turn.of.client.Invoke(ctx, dispatch.Call{CapID: name, Session: id, Attempt: 1, Request: edn.MustMap(
			edn.K("proto"), edn.Int(1),
			edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("session-"+id)),
			edn.K("task"), edn.MustMap(edn.K("intent"), edn.K(intent), edn.K("cap/id"), edn.K(capability.Advertised)),
			edn.K("session/id"), edn.Text(id),
			edn.K("input"), edn.MustMap(edn.K("session/id"), edn.Text(id)))})
		if failure != nil {
			err = contract.AsError(failure)
			continue
		}
		n++
	}
	return n, err
}
