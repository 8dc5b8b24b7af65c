package setup

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Condition returns the condition of a plugin in the configuration as one word: "disabled",
// "missing", "changed", "escalated", "unchecked", "unusable", "optional" or "required".
func (l *Loaded) Condition(p plugins.Plugin) string {
	switch {
	case !p.Enabled:
		return "disabled"
	case p.Binary == "":
		return "missing"
	case p.Lock == lock.StateChanged, p.Lock == lock.StateEscalated:
		return string(p.Lock)
	case !p.Described:
		return "unchecked"
	case p.Unusable != nil:
		return "unusable"
	case p.Optional:
		return "optional"
	}
	return "required"
}

// Provided returns the capabilities of a plugin, sorted, under the ids that plans use.
func (l *Loaded) Provided(name string) []string {
	var ids []string
	reg := l.Generation.Registry
	for _, id := range reg.Capabilities() {
		if entry, ok := reg.Capability(id); ok && entry.Plugin == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Absent returns the capabilities that a plugin would provide if it were enabled and described,
// under the ids that plans use.
func (l *Loaded) Absent(name string) []string {
	reg := l.Generation.Registry
	return slices.DeleteFunc(reg.Absences(), func(id string) bool {
		a, ok := reg.Absent(id)
		return !ok || a.Plugin != name
	})
}

// Startable returns the plugins to start, with their supervisor settings including secrets. The
// error is an *EnvironmentError if a secret cannot be read.
func (l *Loaded) Startable() ([]plugins.Plugin, []plugin.Settings, error) {
	var plugins []plugins.Plugin
	var wanted []plugin.Settings
	for _, p := range l.Plugins {
		if !p.Starts() {
			continue
		}
		s, err := WithSecrets(Settings(p), p)
		if err != nil {
			return nil, nil, &EnvironmentError{"read the secrets of plugin " + p.Name, err}
		}
		s.CancelGrace = l.Queue.Grace
		plugins, wanted = append(plugins, p), append(wanted, s)
	}
	return plugins, wanted, nil
}

// Routes returns the plugins that serve capabilities, by capability id.
func (l *Loaded) Routes() map[string]plugin.Route {
	unusable := map[string]*contract.Error{}
	for _, p := range l.Plugins {
		unusable[p.Name] = p.Unusable
	}
	out := map[string]plugin.Route{}
	reg := l.Generation.Registry
	for _, id := range reg.Capabilities() {
		if c, ok := reg.Capability(id); ok && c.External() {
			out[id] = plugin.Route{
				Plugin:      c.Plugin,
				Advertised:  c.Advertised,
				MaxInFlight: c.Limits.MaxInFlight,
				Unusable:    unusable[c.Plugin],
			}
		}
	}
	return out
}
