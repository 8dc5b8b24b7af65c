package dispatch

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// permitted asks about the effects of a tool before anything else is done for
// it. The candidates of other calls are asked while they are bound.
func (s *serving) permitted() *contract.Error {
	if s.w.Op != "tool" {
		return s.overriding()
	}
	c, ok := s.d.Registry.Tool(s.w.ToolID)
	if !ok {
		return contract.Errorf("effects/unsupported-tool", "node %s: there is no tool :%s", s.w.Node, s.w.ToolID)
	}
	_, err := s.scopes(c)
	return err
}

// scopes are those under which a capability may be called by this node.
func (s *serving) scopes(c *registry.Capability) (policy.Scopes, *contract.Error) {
	if !c.Effectful() {
		return nil, nil
	}
	scopes, err := s.run.Grant.Decide(policy.Need{Capability: c, Layer: &s.w.Terms.Layer, Input: s.w.Input})
	if err != nil {
		return nil, err.WithWhere("node", edn.Text(s.w.Node))
	}
	return scopes, nil
}

// withheld is the failure of a node whose candidates all have effects that the
// caller may not have; nil if there is any other reason.
func (s *serving) withheld() *contract.Error {
	var first *contract.Error
	for _, r := range s.binding.Rejected {
		c, ok := s.d.Registry.Capability(r.Cap)
		if r.Reason != policy.ReasonEffects || !ok {
			return nil
		}
		_, err := s.scopes(c)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if first != nil && first.Type == "effects/missing-required" {
		return nil // nobody serves what was asked for within what was allowed
	}
	return first
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
