package plugins

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/effects"
)

// standing returns the enabled scopes for the effects of all capabilities of a plugin.
func (r *Reader) standing(p *Plugin) policy.Scopes {
	host := WrittenScopes(r.Root.Block("effects"))
	var out policy.Scopes
	for _, scoped := range host {
		if !scoped.Scope.Enabled.V {
			continue
		}
		if slices.ContainsFunc(p.Description.Capabilities,
			func(c contract.Capability) bool { return slices.Contains(c.Effects, scoped.Effect) }) {
			out = append(out, scoped)
		}
	}
	return out
}

// WrittenScopes returns the valid scopes of a block; invalid ones are reported elsewhere.
func WrittenScopes(s *decode.Section) policy.Scopes {
	var out policy.Scopes
	for _, x := range s.All("scope") {
		if scope, problems := effects.ParseScope(x.Label(), decode.ScopeValue(x)); len(problems) == 0 {
			out = policy.MeetAll(out, policy.Scopes{{Effect: x.Label(), Scope: scope}})
		}
	}
	return out
}
