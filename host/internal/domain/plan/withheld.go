package plan

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Authorization decides, before a one-node plan runs, whether the effect rules permit the caller at
// least one candidate of the call. It is immutable and may be shared by all acts with the same
// plan.
type Authorization struct {
	node     *Node
	layer    policy.Layer
	harmless bool // a candidate without effects fits
}

// Authorize prepares the authorization of the only call of a one-node plan.
func Authorize(p *Plan, env Env) *Authorization {
	a := &Authorization{node: &p.Nodes[0]}
	a.layer = env.Written(a.node.Intent, a.node.Layer)
	d := env.Demand(a.node, &a.layer)
	denied := contract.Errorf("auth/forbidden-effect", "not asked")
	d.Permits = func(*registry.Capability) *contract.Error { return denied }
	a.harmless = d.AnyFits()
	return a
}

// Harmless reports whether a candidate without effects fits, so that Withheld need not be
// called.
func (a *Authorization) Harmless() bool { return a.harmless }

// Withheld returns the binding of the call, and true if every candidate is rejected for effects
// that the caller may not use. Such a call cannot succeed later, because the rejection does not
// depend on readiness. If Harmless is true, the result is the zero Binding and false.
func (a *Authorization) Withheld(env Env, input edn.Value) (policy.Binding, bool) {
	if a.harmless {
		return policy.Binding{}, false
	}
	d := env.Demand(a.node, &a.layer)
	if env.Grant != nil {
		known := env.decidable(a.node, input)
		d.Permits = func(c *registry.Capability) *contract.Error {
			_, err := env.Grant.Decide(policy.Need{Capability: c, Layer: &a.layer, Input: known})
			return err
		}
	}
	b := d.Bind()
	other := func(r policy.Rejection) bool { return r.Reason != policy.ReasonEffects }
	return b, len(b.Accepted) == 0 && len(b.Rejected) > 0 && !slices.ContainsFunc(b.Rejected, other)
}
