package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
)

// closeLimit bounds the end of a host: what is left of its plugins then is
// killed.
const closeLimit = 15 * time.Second

// Host is a running host. Its methods may be called by many goroutines.
type Host struct {
	loaded     *Loaded
	ground     *ground
	supervisor *plugin.Supervisor
	client     *plugin.Client
	journal    *journal.Memory
	service    *act.Service

	closing sync.Once
}

// Start loads the configuration and starts its plugins. It returns when every
// plugin takes calls or is known not to; one that is required and does not
// start is an error.
func Start(ctx context.Context, o Options) (*Host, error) {
	tuneCollector()
	ground, err := prepareGround(o)
	if err != nil {
		return nil, err
	}
	h := &Host{ground: ground, journal: journal.NewMemory()}
	if err := h.start(ctx, o); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) start(ctx context.Context, o Options) error {
	loaded, err := load(ctx, o, h.ground)
	if err != nil {
		return err
	}
	if loaded.Generation == nil {
		return &InvalidConfigError{Config: loaded.Config}
	}
	h.loaded = loaded
	if o.Admit != nil {
		if err := o.Admit(loaded); err != nil {
			return err
		}
	}
	h.supervisor, err = plugin.New(plugin.Options{
		DataDir: loaded.Host.DataDir, Runtime: h.ground.runtime, Reaper: h.ground.reaper, Host: h.ground.host,
		Describer: h.ground.describer, Sink: sink{o.Transitions},
	})
	if err != nil {
		return &EnvironmentError{"supervise plugins", err}
	}
	var started []config.Plugin
	var wanted []plugin.Settings
	for _, p := range loaded.Plugins {
		if !p.Enabled || !p.Described {
			continue
		}
		s, err := withSecrets(settings(p), p)
		if err != nil {
			return &EnvironmentError{"read the secrets of plugin " + p.Name, err}
		}
		started, wanted = append(started, p), append(wanted, s)
	}
	if err := h.supervisor.Start(wanted...); err != nil {
		return &EnvironmentError{"start plugins", err}
	}
	h.client, err = h.supervisor.Client(routes(loaded.Generation.Registry))
	if err != nil {
		return err
	}
	if h.service, err = h.newService(); err != nil {
		return err
	}
	h.supervisor.AnswerCalls(hostCalls{h.service})
	return h.awaitAll(ctx, started)
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
		if s.Plugin == p.Name && (s.State == plugin.Degraded || s.State == plugin.Ready || s.State == plugin.Configuring) {
			return nil // it lives; whether it may be called is asked at each attempt
		}
	}
	return &EnvironmentError{fmt.Sprintf("start the required plugin %s", p.Name), err}
}

func routes(reg *registry.Registry) map[string]plugin.Route {
	out := map[string]plugin.Route{}
	for _, id := range reg.Capabilities() {
		if c, ok := reg.Capability(id); ok {
			out[id] = plugin.Route{Plugin: c.Plugin, MaxInFlight: c.Limits.MaxInFlight}
		}
	}
	return out
}

// Loaded is the configuration that the host runs under.
func (h *Host) Loaded() *Loaded { return h.loaded }

// Plugins is a snapshot of every plugin process.
func (h *Host) Plugins() []plugin.Status { return h.supervisor.Status() }

// Described is what a plugin said about itself.
func (h *Host) Described(name string) (plugin.Described, bool) { return h.supervisor.Described(name) }

// Service runs acts. Its runs end with the host.
func (h *Host) Service() *act.Service { return h.service }

func (h *Host) newService() (*act.Service, error) {
	g := h.loaded.Generation
	limits := h.loaded.Limits()
	c := act.Config{
		Registry: g.Registry, Policies: g.Policies, Checks: g.Checks, Executor: h.client, Journal: h.journal,
		Hash: h.loaded.Hash, Limits: &limits, Root: h.loaded.Host.Root,
	}
	if name, err := os.Hostname(); err == nil {
		c.Host = name
	}
	if seed := h.loaded.Host.Seed; seed != 0 {
		c.NewSeed = func() int64 { return seed }
	}
	return act.New(c)
}

// Ended tells the plugins that a run is over, so that what they keep for it can
// go.
func (h *Host) Ended(ctx context.Context, run string) { h.supervisor.EndRun(ctx, run) }

// Close stops the plugins and waits until nothing of the host is left. It is
// safe to call more than once.
func (h *Host) Close() {
	h.closing.Do(func() {
		if h.supervisor != nil {
			ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
			defer cancel()
			_ = h.supervisor.Close(ctx) // what it reports are logs that could not be closed
		}
		h.ground.close()
	})
}
