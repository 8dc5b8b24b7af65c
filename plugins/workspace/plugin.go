package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// server is the state of the process.
type server struct {
	table  map[string]*intent
	inputs map[string]*schema.Schema // by intent
	now    func() time.Time
	meter  meter

	// run is nil before Configure.
	run atomic.Pointer[running]
}

// running holds the state that a configuration determines.
type running struct {
	cfg    settings
	agents *agent.Set
	views  map[string]view.View
	hub    *hub
}

func newPlugin() sdk.Plugin { return newServer().plugin() }

func newServer() *server {
	s := &server{table: map[string]*intent{}, inputs: map[string]*schema.Schema{}, now: time.Now, meter: meter{now: time.Now}}
	known := registry(schemasOf(schemaText))
	for _, i := range intents() {
		s.table[i.name] = &i
		s.inputs[i.name], _ = known.Lookup(schemaName("req", i.name))
	}
	return s
}

func (s *server) plugin() sdk.Plugin {
	p := sdk.Plugin{
		Name:    "workspace",
		Version: version,
		Needs:   []string{"fs/read", "fs/watch", "fs/write"},
		Schemas: servedSchemas(),
		Config:  sdk.Config[settings]{Default: defaults, Offer: offer, Start: s.start},
		Health:  s.health,
		Close:   s.close,
	}
	for _, i := range intents() {
		p.Capabilities = append(p.Capabilities, s.capability(i))
	}
	return p
}

// servedSchemas returns the schemas of the intents that are served.
func servedSchemas() map[string]edn.Value {
	all := schemasOf(schemaText)
	served := map[string]edn.Value{}
	for name, form := range all {
		if strings.HasPrefix(name, "workspace/") {
			served[name] = form
		}
	}
	for _, i := range intents() {
		for _, name := range []string{schemaName("req", i.name), schemaName("res", i.name)} {
			served[name] = all[name]
		}
	}
	return served
}

// capability returns the capability of an intent. Its id is the name of the intent; the
// configuration can still route the intent to another capability.
func (s *server) capability(i intent) sdk.Capability {
	options := []sdk.Option{
		sdk.Kind("workspace"), sdk.Effects(i.effects...), sdk.In(schemaName("req", i.name)), sdk.Out(schemaName("res", i.name)),
		sdk.Tags("embedded"), sdk.Description(i.says),
		sdk.Cost(contract.Cost{Latency: i.latency(), USD: edn.Int(0)}),
	}
	if i.writes {
		options = append(options, sdk.Idempotent())
	}
	answer := func(ctx context.Context, in edn.Value, out *sdk.Stream) (edn.Value, error) {
		return s.serve(ctx, &i, in, out)
	}
	switch {
	case i.plans:
		return s.planning(i, append(options, sdk.Produces("plan", "value")))
	case i.streams:
		// It reports progress, and deltas only if asked, so it does not promise any.
		quiet := sdk.Metadata(func(c *contract.Capability) { c.Streams = false })
		return sdk.StreamFunc(i.name, sdk.Intents(i.name), answer, append(options, quiet)...)
	}
	return sdk.Func(i.name, sdk.Intents(i.name), func(ctx context.Context, in edn.Value) (edn.Value, error) {
		return answer(ctx, in, nil)
	}, options...)
}

// offer validates the settings. It adds nothing to the declaration, but it runs
// for Describe too, so "ferment validate" reports the problems at their lines.
func offer(_ context.Context, cfg settings) (sdk.Offer, error) {
	return sdk.Offer{}, checkSettings(cfg)
}

func (s *server) start(ctx context.Context, cfg settings) error {
	agents, err := cfg.agents()
	if err != nil {
		return err
	}
	views, err := cfg.views()
	if err != nil {
		return err
	}
	h := newHub(sdk.Lifetime(ctx), cfg, agents, s.invokeHost, s.now, sdk.Logger(ctx))
	h.rebuilt = func() { s.meter.rebuilds.Add(1) }
	s.run.Store(&running{cfg: cfg, agents: agents, views: views, hub: h})
	go h.sweepUntil(sdk.Lifetime(ctx))
	go h.releaseAfter(sdk.Lifetime(ctx), sdk.Draining(ctx))
	return nil
}

// healthEvery is the time between two reports of the figures.
const healthEvery = 5 * time.Second

// health reports that the plugin is ready, with the figures of the process when
// they changed (WS-201).
func (s *server) health(ctx context.Context, report func(sdk.Status)) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	last := edn.Nil()
	for {
		if figures := s.meter.value(); !edn.Equal(figures, last) {
			status := sdk.Ready()
			status.Attributes, last = figures, figures
			report(status)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// close seals every open workspace.
func (s *server) close(ctx context.Context) error {
	if r := s.run.Load(); r != nil {
		return r.hub.close(ctx)
	}
	return nil
}
