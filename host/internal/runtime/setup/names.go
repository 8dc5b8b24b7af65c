package setup

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Names lists the names that a configuration defines, sorted.
type Names struct {
	Plugins, Capabilities, Intents []string
	HostIntents                    []string // intents that the host serves itself
}

// KnownNames returns the names in the configuration files and in cached descriptions, within a time
// limit. It starts no program and returns no error: names that are invalid or take too long are
// missing.
func KnownNames(ctx context.Context, o Options, within time.Duration) Names {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	// Cached descriptions are found by the hash of the program. If hashing exceeds the time limit,
	// only the names in the files are returned.
	described := make(chan *config.Config, 1)
	go func() {
		d := &describer{
			noStart: true,
			asks: plugin.NewDescriber(cacheDir(), nil, nil,
				wire.HostInfo{Version: o.Version, Features: wire.HostFeatures()}),
			inquiries: map[string]*plugin.Inquiry{},
			seen:      map[string]how{},
		}
		described <- o.read(ctx, d)
	}()
	written := o.read(ctx, nil)
	select {
	case cfg := <-described:
		return namesOf(cfg)
	case <-ctx.Done():
		return namesOf(written)
	}
}

// read loads the configuration without checking the lock file, because names are not secret.
func (o Options) read(ctx context.Context, d *describer) *config.Config {
	opts := config.Options{Dir: o.Dir, Env: o.Env, Profile: o.Profile, HostVersion: o.Version, OnlyLocked: true}
	if d != nil {
		opts.Describer = d
	}
	cfg, _ := config.Load(ctx, o.Config, opts)
	return cfg
}

func namesOf(cfg *config.Config) Names {
	capabilities, intents := map[string]bool{}, map[string]bool{}
	var out Names
	for _, in := range conversation.Intents() {
		out.HostIntents = append(out.HostIntents, in.ID)
	}
	for _, p := range cfg.Plugins {
		out.Plugins = append(out.Plugins, p.Name)
	}
	for _, name := range cfg.Labels("intent") {
		intents[name] = true
	}
	for _, name := range cfg.Labels("capability") {
		capabilities[name] = true
	}
	if g := cfg.Generation; g != nil {
		for _, id := range g.Registry.Capabilities() {
			capabilities[id] = true
		}
		for _, id := range g.Registry.Intents() {
			intents[id] = true
		}
	}
	slices.Sort(out.Plugins)
	out.Capabilities, out.Intents = slices.Sorted(maps.Keys(capabilities)), slices.Sorted(maps.Keys(intents))
	return out
}
