package eval

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// past returns what is recorded at a path since before the run was resumed, nil
// for nothing.
func (s *scope) past(path edn.Value) *journal.Place { return s.run.task.Past.At(path) }

// recall gives a node the value whose commit is recorded, and reports whether
// there is one (JRN-040). Nodes that only compute do so again. So does the node
// of an act without a plan: the response needs more than its value, and all its
// calls are recorded.
func (s *scope) recall(n *plan.Node, e *ended) bool {
	past := s.past(e.path)
	if !past.IsCommitted() || n.Op == plan.OpLet || n.Op == plan.OpEmit || s.run.task.Source == "intent" && len(s.path) == 0 {
		return false
	}
	kinds := map[plan.Op]plan.SlotKind{
		plan.OpCall: plan.SlotCall, plan.OpTool: plan.SlotTool, plan.OpPlan: plan.SlotPlan, plan.OpMap: plan.SlotPlan,
	}
	e.slot = plan.Recorded(kinds[n.Op], past.Committed.Value.Value())
	e.record = *past.Committed
	if slices.ContainsFunc(past.Attempts, (*journal.Tried).HadEffectOnce) {
		s.doneOnce.Store(true)
	}
	return true
}

// recordPlan records the plan at a path, unless that was done before the run was
// resumed.
func (s *scope) recordPlan(path edn.Value, node string, plan *journal.PlanResolved) *contract.Error {
	if past := s.past(path); past != nil && past.Plan != nil && past.Plan.Attempt == plan.Attempt &&
		past.Plan.Plan.Hash() == plan.Plan.Hash() {
		return nil
	}
	return contract.AsError(s.run.task.Recorder.Record(path, node, plan))
}

// Recall counts recorded costs in the scopes of a chain, without a reservation
// that could fail.
func Recall(ctx context.Context, a *budget.Account, c budget.Chain, settled []*journal.BudgetSettled) {
	for _, x := range settled {
		if x.Of.For == "run" || x.Of.For == "plan" { // sums of others
			continue
		}
		hold, err := a.Reserve(ctx, c, policy.Amounts{})
		if err != nil {
			return // the next reservation fails in the same way
		}
		_ = hold.Settle(ctx, policy.AmountsOf(x.Amount), budget.MarkOf(x.Mark))
	}
}
