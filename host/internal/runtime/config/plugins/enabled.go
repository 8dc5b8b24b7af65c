package plugins

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
)

// whyDisabled returns why a plugin is disabled; nil if it is enabled. If environment variables are
// not set, the hint names them (LLM-005).
func (r *Reader) whyDisabled(s *decode.Section) *contract.Error {
	if s.Flag("enabled") {
		return nil
	}
	v := s.Attrs["enabled"]
	if unset := r.Unset(v.Inputs); len(unset) > 0 {
		return contract.Errorf("provider/not-configured",
			"plugin %s is disabled: the environment variable %s is not set", diag.Quote(s.Label()), Alternatives(unset)).
			WithHint("set " + Alternatives(unset))
	}
	e := contract.Errorf("runtime/not-ready", "plugin %s is disabled",
		diag.Quote(s.Label())).WithHint("set enabled = true in its block")
	if v.At != nil {
		e.Message += fmt.Sprintf(" (enabled, %s)", v.At)
	}
	return e
}

// Unset returns the environment variables that are unset or empty.
func (r *Reader) Unset(names []string) (out []string) {
	for _, name := range names {
		if value, _ := r.Set.Lookup(name); value == "" {
			out = append(out, name)
		}
	}
	return out
}

// Alternatives joins names with commas and "or".
func Alternatives(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Problem returns why the capabilities of an enabled plugin cannot be used; nil if they can. For a
// disabled plugin it returns Unusable.
func (p *Plugin) Problem() *contract.Error {
	if !p.Enabled || p.Unusable != nil {
		return p.Unusable
	}
	return p.Absence()
}

// Absence returns why the capabilities of a plugin are unknown; nil if they are known.
func (p *Plugin) Absence() *contract.Error {
	switch {
	case !p.Enabled:
		return p.Disabled
	case p.Described:
		return nil
	case p.Undescribed != nil:
		return p.Undescribed
	case p.Binary == "":
		return contract.Errorf("config/plugin-unknown", "the program of plugin %s is missing", diag.Quote(p.Name))
	}
	return contract.Errorf("config/plugin-unknown", "plugin %s was not asked what it provides", diag.Quote(p.Name))
}
