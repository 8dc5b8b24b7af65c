package dispatch

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// permitted asks about the effects of a tool before anything else is done for
// it. The candidates of other calls are asked while they are bound.
func (o *operation) checkEffects() *contract.Error {
	if err := o.checkPromptOverride(); err != nil || o.w.Op != "tool" {
		return err
	}
	c, ok := o.d.Registry.Tool(o.w.ToolID)
	if !ok {
		return contract.Errorf("effects/unsupported-tool", "node %s: there is no tool :%s", o.w.Node, o.w.ToolID)
	}
	_, err := o.scopes(c)
	return err
}

// scopes are those under which a capability may be called by this node.
func (o *operation) scopes(c *registry.Capability) (policy.Scopes, *contract.Error) {
	if !c.Effectful() {
		return nil, nil
	}
	scopes, err := o.run.Grant.Decide(policy.Need{Capability: c, Layer: &o.w.Policy.Layer, Input: o.w.Input})
	if err != nil {
		return nil, err.WithWhere("node", edn.Text(o.w.Node))
	}
	return scopes, nil
}

// forbids returns why this node may not call a capability; see policy.Demand.
func (o *operation) deniedEffect(c *registry.Capability) *contract.Error {
	_, err := o.scopes(c)
	return err
}

// withheld is the failure of a node whose candidates all have effects that the
// grant of the caller denies; nil if any is left out for another reason.
func deniedError(rejected []policy.Rejection) *contract.Error {
	for _, r := range rejected {
		if r.Denied == nil {
			return nil
		}
	}
	if len(rejected) == 0 {
		return nil
	}
	return rejected[0].Denied
}

// recoveryOf is the recovery class of a call. A scope that makes requests carry
// the effect key makes repeated ones one effect.
func recoveryOf(c *registry.Capability, input edn.Value, scopes policy.Scopes) contract.RecoveryClass {
	class := c.Recovery(input)
	if class != contract.RecoveryOnce || !c.Confines || len(scopes) != 1 || scopes[0].Effect != "net/http" || !scopes[0].Scope.Idempotent() {
		return class
	}
	return contract.RecoveryIdempotent
}

func scopeValue(scopes policy.Scopes) edn.Value {
	if len(scopes) == 0 {
		return edn.Nil()
	}
	return scopes.Value()
}
