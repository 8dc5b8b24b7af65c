package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon/doctor"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// modelLimit is the time limit for starting the plugins of models and for their health.
const modelLimit = 30 * time.Second

// servesModels reports whether a plugin serves models.
func servesModels(p plugins.Plugin) bool {
	return p.Enabled && p.Described &&
		slices.ContainsFunc(p.Description.Capabilities, func(c contract.Capability) bool { return c.Kind == "llm" })
}

// examineModels reports the health of each plugin of models: whether it has a key, and whether its
// server can be reached. The host opens no connection itself. It asks the daemon; without one it
// starts the plugins and stops them again.
func (c *command) examineModels(ctx context.Context, e *doctor.Examination, loaded *setup.Loaded) {
	var models []plugins.Plugin
	for _, p := range loaded.Plugins {
		if servesModels(p) {
			models = append(models, p)
		}
	}
	if len(models) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, modelLimit)
	defer cancel()
	plugins, err := c.statesOfModels(ctx)
	if err != nil {
		e.Add("models", "plugins", doctor.Weak, "their health is unknown: %s", err)
		return
	}
	for _, p := range models {
		bad := doctor.Fails
		if p.Optional {
			bad = doctor.Weak
		}
		state, text := modelState(plugins, p.Name, bad)
		e.Add("models", p.Name, state, "%s: %s", strings.Join(loaded.Provided(p.Name), " "), text)
	}
}

// statesOfModels returns the plugin list of the daemon, or of a host that runs only the plugins of
// models.
func (c *command) statesOfModels(ctx context.Context) (edn.Value, error) {
	there, err := c.reach(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	if there != nil {
		list, err := there.Admin(ctx, actionOf("plugin-list"))
		return list.Key("plugins"), err
	}
	o := daemon.Options{Options: c.options()}
	o.Reach = func(loaded *setup.Loaded) map[string]bool {
		models := map[string]bool{}
		for _, p := range loaded.Plugins {
			models[p.Name] = servesModels(p)
		}
		return models
	}
	host, err := daemon.Start(ctx, o)
	if err != nil {
		return edn.Nil(), err
	}
	defer host.Close()
	return host.PluginStates().Key("plugins"), nil
}

// modelState returns the health that the process of a plugin reports.
func modelState(plugins edn.Value, name, bad string) (state, text string) {
	for p := range plugins.Elems() {
		if plain(p.Key("plugin")) != name {
			continue
		}
		for i := range p.Key("instances").Elems() {
			message := plain(i.Key("error").Key("message"))
			switch {
			case plain(i.Key("state")) == "ready":
				return doctor.OK, "it is configured, and its server is reachable"
			case i.Key("callable?").Truthy():
				return doctor.Weak, message
			case !i.Key("error").IsNil():
				return bad, message
			}
			return bad, "its process is " + plain(i.Key("state"))
		}
	}
	return bad, "it has no process"
}
