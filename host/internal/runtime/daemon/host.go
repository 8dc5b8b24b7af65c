package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// closeLimit bounds the end of a host: what is left of its plugins then is
// killed.
const closeLimit = 15 * time.Second

// Host is a running host. Its methods may be called by many goroutines.
type Host struct {
	boot       string
	ground     *ground
	supervisor *plugin.Supervisor
	journal    *journal.Memory
	runs       *runs

	closing sync.Once
	// stats outlives the generations: a reload forgets nothing.
	stats dispatch.StatsTable
	// grades outlive them as well: equal text has one grade.
	grades *dispatch.Grades
	// events is the stream of the host itself.
	events journal.Host
	// ledger counts as long as the host lives.
	ledger budget.Ledger
	// rescorer keeps the judges measured while a daemon serves.
	rescorer *rescore.Rescorer
}

// Start loads the configuration and starts its plugins. It returns when every
// plugin takes calls or is known not to; one that is required and does not
// start is an error.
func Start(ctx context.Context, o Options) (*Host, error) {
	h, loaded, err := read(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := h.run(ctx, loaded, o); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// read makes a host that has a configuration and no plugins yet.
func read(ctx context.Context, o Options) (*Host, *Loaded, error) {
	tuneCollector(0, 0)
	ground, err := prepareGround(o)
	if err != nil {
		return nil, nil, err
	}
	h := &Host{boot: ulid.Make().String(), ground: ground, journal: journal.NewMemory(), runs: newRuns(), ledger: budget.NewMemory(nil), grades: dispatch.NewGrades(dispatch.MaxGrades)}
	h.stats.Notice = func(n dispatch.Notice) { h.notice(n, o.Notices) }
	loaded, err := load(ctx, o, h.ground)
	if err == nil && loaded.Generation == nil {
		err = &InvalidConfigError{Config: loaded.Config}
	}
	if err == nil && o.Admit != nil {
		err = o.Admit(loaded)
	}
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	tuneCollector(loaded.Host.GOGC, loaded.Host.MemoryLimit)
	h.rescorer = h.newRescorer(loaded, o)
	return h, loaded, nil
}

// run starts the plugins of the configuration.
func (h *Host) run(ctx context.Context, loaded *Loaded, o Options) (err error) {
	h.supervisor, err = plugin.New(plugin.Options{
		DataDir: loaded.Host.DataDir, Runtime: h.ground.runtime, Reaper: h.ground.reaper, Host: h.ground.host,
		Describer: h.ground.describer, Sink: sink{o.Transitions, h.stated},
	})
	if err != nil {
		return &EnvironmentError{"supervise plugins", err}
	}
	started, wanted, err := loaded.startable()
	if err != nil {
		return err
	}
	if o.Reach != nil {
		reached := o.Reach(loaded)
		started = slices.DeleteFunc(started, func(p config.Plugin) bool { return !reached[p.Name] })
		for i := range wanted {
			if !reached[wanted[i].Name] {
				wanted[i].Instances.Min, wanted[i].Instances.Standby = 0, 0
			}
		}
	}
	if err := h.supervisor.Start(wanted...); err != nil {
		return &EnvironmentError{"start plugins", err}
	}
	g, err := h.newGeneration(loaded)
	if err != nil {
		return err
	}
	h.runs.install(g)
	h.judging(loaded)
	h.supervisor.AnswerCalls(hostCalls{h})
	return h.awaitAll(ctx, started)
}

// Reach returns the names of the plugins that an act may call, as far as that is
// known before it runs. An act that would be refused reaches none.
func (l *Loaded) Reach(a act.Act) map[string]bool {
	reached := map[string]bool{}
	ids, _ := act.Reach(l.actConfig(), a) // refused again, with all around it, when the act is started
	for _, id := range ids {
		if c, ok := l.Generation.Registry.Capability(id); ok {
			reached[c.Plugin] = true
		}
	}
	return reached
}

// startable are the plugins that are to run, with what the supervisor works
// with.
func (l *Loaded) startable() ([]config.Plugin, []plugin.Settings, error) {
	var plugins []config.Plugin
	var wanted []plugin.Settings
	for _, p := range l.Plugins {
		if !p.Starts() {
			continue
		}
		s, err := withSecrets(settings(p), p)
		if err != nil {
			return nil, nil, &EnvironmentError{"read the secrets of plugin " + p.Name, err}
		}
		plugins, wanted = append(plugins, p), append(wanted, s)
	}
	return plugins, wanted, nil
}

// awaitAll waits for all plugins side by side. A plugin that lives and says
// that it is not ready is a fact of dispatch, as is an optional one that does
// not start.
func (h *Host) awaitAll(ctx context.Context, plugins []config.Plugin) error {
	errs := make([]error, len(plugins))
	var wait sync.WaitGroup
	for i, p := range plugins {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, p.StartTimeout+p.ConfigureTimeout+p.Health.ReadyTimeout)
			defer cancel()
			errs[i] = h.awaitOne(ctx, p)
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

func (h *Host) awaitOne(ctx context.Context, p config.Plugin) error {
	err := h.supervisor.Await(ctx, p.Name)
	if err == nil || p.Optional {
		return nil
	}
	for _, s := range h.supervisor.Status() {
		if s.Plugin == p.Name && (s.Cause == plugin.CauseIsolation || s.State == plugin.Degraded || s.State == plugin.Ready || s.State == plugin.Configuring) {
			return nil // it lives; whether it may be called is asked at each attempt
		}
	}
	return &UnavailableError{&EnvironmentError{fmt.Sprintf("start the required plugin %s", p.Name), err}}
}

// routes lead to the plugins that serve the capabilities.
func (l *Loaded) routes() map[string]plugin.Route {
	unusable := map[string]*contract.Error{}
	for _, p := range l.Plugins {
		unusable[p.Name] = p.Unusable
	}
	out := map[string]plugin.Route{}
	reg := l.Generation.Registry
	for _, id := range reg.Capabilities() {
		if c, ok := reg.Capability(id); ok {
			out[id] = plugin.Route{Plugin: c.Plugin, Advertised: c.Advertised, MaxInFlight: c.Limits.MaxInFlight, Unusable: unusable[c.Plugin]}
		}
	}
	return out
}

// Loaded is the configuration that new acts run under.
func (h *Host) Loaded() *Loaded { return h.runs.now().loaded }

// Plugins is a snapshot of every plugin process.
func (h *Host) Plugins() []plugin.Status { return h.supervisor.Status() }

// Described is what a plugin said about itself.
func (h *Host) Described(name string) (plugin.Described, bool) { return h.supervisor.Described(name) }

// Service runs acts under the current configuration. Its runs end with the
// host.
func (h *Host) Service() *act.Service { return h.runs.now().service }

// notice keeps what changed about a candidate in the stream of the host.
func (h *Host) notice(n dispatch.Notice, each func(dispatch.Notice)) {
	details := n.Details
	if n.Plugin != "" {
		details = details.AssocKey("plugin", edn.Text(n.Plugin))
	}
	// The record is whole by construction; a defect must not cost the call.
	_ = h.events.Record(n.At, &journal.HostEvent{Event: n.Event, CapID: n.CapID, Intent: n.Intent, Details: details})
	if each != nil {
		each(n)
	}
}

// Events are the last records of the host itself, oldest first.
func (h *Host) Events() []journal.Record { return h.events.Records() }

// Standings are how capabilities of the current configuration stand for the
// intents that they were called for.
func (h *Host) Standings() []dispatch.Standing {
	reg := h.Loaded().Generation.Registry
	return slices.DeleteFunc(h.stats.Standings(time.Now()), func(s dispatch.Standing) bool {
		c, there := reg.Capability(s.CapID)
		_, asked := reg.Intent(s.Intent)
		return !there || !asked || c.Plugin != s.Plugin || !c.Serves(s.Intent)
	})
}

// stated takes what a process says of single capabilities: the deaths of what
// they stand on are failures of theirs.
func (h *Host) stated(s plugin.Statement) {
	g := h.runs.now()
	if g == nil {
		return // it will say so again
	}
	reg := g.loaded.Generation.Registry
	for _, id := range reg.Capabilities() {
		c, ok := reg.Capability(id)
		if !ok || c.Plugin != s.Plugin {
			continue
		}
		for _, told := range s.Capabilities {
			if told.ID == c.Advertised && told.Deaths > 0 {
				h.stats.RecordBackendCrashes(s.At, dispatch.BackendCrashes{CapID: id, Plugin: s.Plugin, Generation: s.Generation, Count: told.Deaths})
			}
		}
	}
}

// Ended tells the plugins that a run is over, so that what they keep for it can
// go.
func (h *Host) Ended(ctx context.Context, run string) { h.supervisor.EndRun(ctx, run) }

// Close stops the plugins and waits until nothing of the host is left. It is
// safe to call more than once.
func (h *Host) Close() { h.close(context.Background()) }

// close is Close that waits no longer than ctx: what is left of the plugins
// then is killed.
func (h *Host) close(ctx context.Context) {
	h.closing.Do(func() {
		h.runs.mu.Lock()
		h.runs.closed = true
		h.runs.mu.Unlock()
		h.runs.after.Wait()
		if h.supervisor != nil {
			ctx, cancel := context.WithTimeout(ctx, closeLimit)
			defer cancel()
			_ = h.supervisor.Close(ctx) // what it reports are logs that could not be closed
		}
		h.ground.close()
	})
}
