package dispatch

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checkRights checks before binding that the caller may use the intent, or have the
// effects of the tool. Effects of other candidates are checked while binding. In a replay
// the effects of a tool are checked before a call of it that is not recorded.
func (n *node) checkRights() *contract.Error {
	if n.w.Denied != nil {
		return n.w.Denied.WithWhere("node", edn.Text(n.w.Node))
	}
	if err := n.checkPromptOverride(); err != nil || n.w.Op != "tool" {
		return err
	}
	c, ok := n.d.Registry.Tool(n.w.ToolID)
	if !ok {
		return contract.Errorf("effects/unsupported-tool", "node %s: there is no tool :%s", n.w.Node, n.w.ToolID)
	}
	if n.run.Fill != nil {
		return nil
	}
	_, err := n.scopes(c)
	return err
}

// scopes returns the scopes for a call of the capability by this node.
func (n *node) scopes(c *registry.Capability) (policy.Scopes, *contract.Error) {
	if !c.Effectful() {
		return nil, nil
	}
	scopes, err := n.run.Grant.Decide(policy.Need{Capability: c, Layer: &n.w.Policy.Layer, Input: n.w.Input})
	if err != nil {
		return nil, err.WithWhere("node", edn.Text(n.w.Node))
	}
	return scopes, nil
}

// deniedEffect returns why this node may not call a capability; see
// policy.Demand.
func (n *node) deniedEffect(c *registry.Capability) *contract.Error {
	if err := n.run.Fill.denied(c); err != nil {
		return err
	}
	_, err := n.scopes(c)
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

// recoveryOf returns the recovery class of a call. Class once becomes idempotent if the
// scope sends the effect key with requests, or if the intent retries calls of unknown
// outcome.
func (n *node) recoveryOf(c *registry.Capability, scopes policy.Scopes) contract.RecoveryClass {
	class := c.Recovery(n.w.Input)
	if class != contract.RecoveryOnce {
		return class
	}
	sent := c.Confines && len(scopes) == 1 && scopes[0].Effect == "net/http" && scopes[0].Scope.Idempotent()
	if in, _ := n.d.Registry.Intent(n.w.Intent); sent || n.run.Grant.OnUnknown(in, c) == registry.UnknownRetries {
		return contract.RecoveryIdempotent
	}
	return class
}

// recoveryNow returns the recovery class of a recorded call for the decision whether it may be
// made again: the stricter one of the record and of the present configuration, because the
// repeated call would have the latter. In a replay, or if the call cannot be made now, it is that
// of the record.
func (n *node) recoveryNow(start *journal.AttemptStarted) contract.RecoveryClass {
	recorded, _ := contract.ParseRecoveryClass(start.Recovery)
	c, ok := n.d.Registry.Capability(start.CapID)
	if !ok || n.w.Replay || n.run.Fill != nil {
		return recorded
	}
	scopes, err := n.scopes(c)
	if err != nil {
		return recorded
	}
	return max(recorded, n.recoveryOf(c, scopes))
}

func scopeValue(scopes policy.Scopes) edn.Value {
	if len(scopes) == 0 {
		return edn.Nil()
	}
	return scopes.Value()
}
