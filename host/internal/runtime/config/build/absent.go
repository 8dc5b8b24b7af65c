package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
)

// absences returns the capabilities of plugins that are disabled or could not be described
// (EMB-002, BIND-009). Their ids come from the capability blocks and from the entry of the plugin
// in the lock file.
func (b *builder) absences(claimed map[[2]string]*decode.Section) []registry.Absent {
	var out []registry.Absent
	seen := map[string]bool{}
	add := func(a registry.Absent) {
		if b.capPlace[a.ID] == nil && !seen[a.ID] {
			seen[a.ID] = true
			out = append(out, a)
		}
	}
	for _, s := range b.All("capability") {
		p := b.plugins[s.Text("plugin")]
		if p == nil || !s.Flag("enabled") {
			continue
		}
		if why := p.Absence(); why != nil {
			add(registry.Absent{ID: s.Label(), Plugin: p.Name, Where: s.Where(), Why: b.elsewhere(s, why)})
		}
	}
	for i := range b.Plugins {
		p := &b.Plugins[i]
		why := p.Absence()
		entry, ok := b.LockFile().Plugin(p.Name)
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

// undescribed returns the enabled plugins that could not be described.
func (b *builder) undescribed() []registry.Undescribed {
	var out []registry.Undescribed
	for i := range b.Plugins {
		if p := &b.Plugins[i]; p.Enabled && !p.Described {
			out = append(out, registry.Undescribed{Plugin: p.Name, Why: p.Absence()})
		}
	}
	return out
}

// elsewhere adds to the error the environment variables with which a capability block would use
// another plugin.
func (b *builder) elsewhere(s *decode.Section, why *contract.Error) *contract.Error {
	others := slices.DeleteFunc(b.Unset(s.Attrs["plugin"].Inputs),
		func(name string) bool { return strings.Contains(why.Hint, name) })
	if len(others) == 0 {
		return why
	}
	return why.WithHint(fmt.Sprintf("%s, or %s to choose another plugin for %s", why.Hint, plugins.Alternatives(others),
		s.Label()))
}
