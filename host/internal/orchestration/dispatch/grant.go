package dispatch

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checkEffects checks the effects of a tool before binding. Effects of other
// candidates are checked while binding.
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

// scopes returns the scopes for a call of the capability by this node.
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

// deniedEffect returns why this node may not call a capability; see
// policy.Demand.
func (o *operation) deniedEffect(c *registry.Capability) *contract.Error {
	_, err := o.scopes(c)
	return err
}

// deniedError is the failure of a node if the grant of the caller denies all
// its candidates; nil if any was rejected for another reason.
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

// recoveryOf returns the recovery class of a call. A scope that sends the
// effect key with requests makes class once idempotent.
func recoveryOf(c *registry.Capability, input edn.Value, scopes policy.Scopes) contract.RecoveryClass {
	class := c.Recovery(input)
	if class != contract.RecoveryOnce || !c.Confines || len(scopes) != 1 || scopes[0].Effect != "net/http" ||
		!scopes[0].Scope.Idempotent() {
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
