package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// whyDisabled returns why a plugin is disabled; nil if its block enables it. If it
// is disabled because environment variables are not set, the hint names them
// (LLM-005).
func (l *loader) whyDisabled(s *section) *contract.Error {
	if s.flag("enabled") {
		return nil
	}
	v := s.attrs["enabled"]
	if unset := l.unset(v.inputs); len(unset) > 0 {
		return contract.Errorf("provider/not-configured",
			"plugin %s is disabled: the environment variable %s is not set", quote(s.label()), alternatives(unset)).
			WithHint("set " + alternatives(unset))
	}
	e := contract.Errorf("runtime/not-ready", "plugin %s is disabled",
		quote(s.label())).WithHint("set enabled = true in its block")
	if v.rng != nil {
		e.Message += fmt.Sprintf(" (enabled, %s)", v.rng)
	}
	return e
}

// unset returns the environment variables that are unset or empty.
func (l *loader) unset(names []string) (out []string) {
	for _, name := range names {
		if value, _ := l.lookup(name); value == "" {
			out = append(out, name)
		}
	}
	return out
}

// alternatives joins names for a sentence.
func alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// absences lists the capabilities of plugins that are disabled or could not be
// described (EMB-002, BIND-009). Their ids come from the capability blocks and from
// the entry of the plugin in the lock file.
func (b *builder) absences(claimed map[[2]string]*section) []registry.Absent {
	var out []registry.Absent
	seen := map[string]bool{}
	add := func(a registry.Absent) {
		if b.capPlace[a.ID] == nil && !seen[a.ID] {
			seen[a.ID] = true
			out = append(out, a)
		}
	}
	for _, s := range b.all("capability") {
		p := b.plugins[s.text("plugin")]
		if p == nil || !s.flag("enabled") {
			continue
		}
		if why := p.absence(); why != nil {
			add(registry.Absent{ID: s.label(), Plugin: p.Name, Where: s.where(), Why: b.elsewhere(s, why)})
		}
	}
	for i := range b.config.Plugins {
		p := &b.config.Plugins[i]
		why := p.absence()
		entry, ok := b.locked.file.Plugin(p.Name)
		if why == nil || !ok {
			continue
		}
		for _, c := range entry.Capabilities {
			if claimed[[2]string{p.Name, c.ID}] == nil {
				add(registry.Absent{ID: c.ID, Plugin: p.Name, Where: p.Where, Why: why})
			}
		}
	}
	return out
}

// absence returns why the capabilities of a plugin are unknown; nil if they are known.
func (p *Plugin) absence() *contract.Error {
	switch {
	case !p.Enabled:
		return p.Disabled
	case p.Described:
		return nil
	case p.Binary == "":
		return contract.Errorf("config/plugin-unknown", "the program of plugin %s is missing", quote(p.Name))
	}
	return contract.Errorf("config/plugin-unknown", "plugin %s was not asked what it provides", quote(p.Name))
}

// elsewhere adds to the error the environment variables that make a capability
// block use another plugin.
func (b *builder) elsewhere(s *section, why *contract.Error) *contract.Error {
	others := slices.DeleteFunc(b.unset(s.attrs["plugin"].inputs),
		func(name string) bool { return strings.Contains(why.Hint, name) })
	if len(others) == 0 {
		return why
	}
	return why.WithHint(fmt.Sprintf("%s, or %s to choose another plugin for %s", why.Hint, alternatives(others),
		s.label()))
}
