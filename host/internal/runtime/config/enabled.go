package config

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// whyDisabled returns why a plugin is disabled; nil if its block enables it. If it
// is disabled because environment variables are not set, the hint names them
// (LLM-005).
func (r *reader) whyDisabled(s *section) *contract.Error {
	if s.flag("enabled") {
		return nil
	}
	v := s.attrs["enabled"]
	if unset := r.unset(v.inputs); len(unset) > 0 {
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
func (r *reader) unset(names []string) (out []string) {
	for _, name := range names {
		if value, _ := r.set.Lookup(name); value == "" {
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
