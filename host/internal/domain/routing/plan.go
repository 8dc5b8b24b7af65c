package routing

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxNodes bounds a plan of a router, so that it multiplies the cost of an act
// without a budget only a few times.
const maxNodes = 32

// PlanCheck checks whether the plan of a router stays within the bounds of an act. The plan
// must have passed plan.Check.
type PlanCheck struct {
	Env    plan.Env
	Intent string // of the act
	Bounds *Bounds
	nodes  int
}

// Check returns a route/decide-failed error for a plan that has too many nodes or a node other than
// call, let, emit or plan; that has a call with candidates from a slot, of a router, of a
// capability that is not an accepted candidate of its intent, or beyond the bounds of its intent
// (those of the act for its own intent, else those of the configuration); or that emits something
// else than the answer of a call of the act's own intent (RTE-005, RTE-006). c serves one call of
// Check.
func (c *PlanCheck) Check(p *plan.Plan) *contract.Error {
	if err := c.walk(p); err != nil {
		return err
	}
	answers, ok := p.Answers()
	if !ok || len(answers) == 0 {
		return widened("the plan emits something else than the answer of a call of :%s", c.Intent)
	}
	for _, n := range answers {
		if n.Op != plan.OpCall || n.Intent != c.Intent {
			return widened("the plan answers with node %s, expected a call of :%s", n.ID, c.Intent)
		}
	}
	return nil
}

func (c *PlanCheck) walk(p *plan.Plan) *contract.Error {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if c.nodes++; c.nodes > maxNodes {
			return widened("the plan has more than %d nodes", maxNodes)
		}
		var err *contract.Error
		switch n.Op {
		case plan.OpLet, plan.OpEmit:
		case plan.OpCall:
			err = c.call(n)
		case plan.OpPlan:
			err = c.walk(n.Sub)
		default:
			err = widened("node %s of the plan is a %s, which a router may not write", n.ID, n.Op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *PlanCheck) call(n *plan.Node) *contract.Error {
	if n.Candidates != nil {
		return widened("node %s takes its candidates from a slot", n.ID)
	}
	if n.Intent == DecideIntent {
		return widened("node %s asks a router", n.ID)
	}
	bounds, err := c.boundsOf(n.Intent)
	if err != nil {
		return err
	}
	layer := c.Env.Written(n.Intent, n.Layer)
	demand := c.Env.Demand(n, &layer)
	for _, id := range demand.Bind().Accepted {
		if !slices.Contains(bounds.Accepted, id) {
			return widened("node %s names :%s, which is no candidate of :%s", n.ID, id, n.Intent).
				WithDetail("accepted", edn.Keywords(bounds.Accepted...))
		}
	}
	after, fault := layer.Resolve()
	if fault != nil {
		return Refuse("decide-invalid", "node %s: %v", n.ID, fault)
	}
	own := policy.Layer{}
	if n.Layer != nil {
		own = *n.Layer
	}
	return bounds.Check(&own, &after)
}

// boundsOf returns the bounds of a call of an intent: those of the act for its
// own intent, else those of the configuration.
func (c *PlanCheck) boundsOf(intent string) (*Bounds, *contract.Error) {
	if intent == c.Intent {
		return c.Bounds, nil
	}
	layer := c.Env.Written(intent, nil)
	pol, err := layer.Resolve()
	if err != nil {
		return nil, Refuse("decide-invalid", "intent :%s: %v", intent, err)
	}
	configured := policy.Layer{}
	if c.Env.Policies != nil {
		configured = c.Env.Policies.For(intent)
	}
	demand := policy.Demand{Registry: c.Env.Registry, Intent: intent, Layer: &configured}
	return &Bounds{Policy: pol, Accepted: demand.List(), Limits: c.Bounds.Limits, Force: c.Bounds.Force}, nil
}
