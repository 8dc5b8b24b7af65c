package eval

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// spends returns the scopes in which a node reserves: those around it, and its
// own if its policy limits its cost.
func (s *scope) spends(w *dispatch.Work) budget.Chain {
	limits := w.Policy.Limits()
	if limits.IsZero() || s.run.task.Account == nil {
		return s.budget
	}
	own := budget.Scope{Kind: budget.Node, ID: s.run.task.Run + " " + w.Path.String(), Limits: limits}
	s.run.task.Account.Renew(s.run.call.Base, own)
	if past := s.past(w.Path); past != nil {
		Recall(s.run.call.Base, s.run.task.Account, budget.Chain{own}, past.Settled)
	}
	return s.budget.In(own)
}

// slice records the budget of a plan answer: the amount that its node has left when the
// answer arrives. The nodes of the plan share the slice, and reserve in the enclosing
// scopes at the same time, so the slice itself reserves nothing there. The record is nil
// without a budget.
func (s *scope) slice(ctx context.Context, c *call, a dispatch.PlanAnswer) (*journal.BudgetReserved, *contract.Error) {
	s.budget = c.Budget
	if len(c.Budget) == 0 {
		return nil, nil
	}
	account := s.run.task.Account
	left, err := account.Left(ctx, c.Budget)
	if err != nil {
		return nil, contract.Errorf("budget/unavailable", "the remaining budget for the plan of node %s cannot be read: %w",
			c.Node, err)
	}
	path := edn.Vector(s.path...)
	own := budget.Scope{Kind: budget.Plan, ID: s.run.task.Run + " " + path.String(), Limits: left}
	// An equal plan of another attempt has the same path, but a separate slice.
	account.Renew(ctx, own)
	s.budget = c.Budget.In(own)
	record := &journal.BudgetReserved{
		For:     "plan",
		Scopes:  []string{own.Kind.String()},
		Amount:  left.Amounts().Value(),
		Attempt: a.Attempt,
	}
	return record, contract.AsError(s.run.task.Recorder.Record(path, c.Node, record))
}

// handBack records the amount that a plan answer spent of its slice.
func (s *scope) handBack(ctx context.Context, node string, slice *journal.BudgetReserved) {
	if slice == nil {
		return
	}
	all, err := s.run.task.Account.Balances(context.WithoutCancel(ctx), s.budget[len(s.budget)-1:])
	if err != nil || len(all) != 1 {
		return
	}
	spent := all[0].Used.Plus(all[0].Reserved)
	// If this record fails, all later ones fail too.
	_ = s.run.task.Recorder.Record(edn.Vector(s.path...), node,
		&journal.BudgetSettled{Of: slice, Amount: spent.Value(), Mark: all[0].Mark.String()})
}

// deepest returns the lower of the current nesting limit and a node's limit
// below its depth.
func deepest(around request.Limit, at int, below request.Limit) request.Limit {
	if below.Set {
		below.N += int64(at)
	}
	return around.Lower(below)
}

func tooDeep(depth int, most request.Limit) *contract.Error {
	if !most.Set || int64(depth) <= most.N {
		return nil
	}
	return contract.Errorf("budget/exceeded", "plans, maps and host calls nest %d deep, and the budget allows %d",
		depth, most.N).
		WithDetail("dimension", edn.K("depth")).
		WithDetail("limit", edn.Int(most.N)).
		WithDetail("left", edn.Int(0)).
		WithDetail("asked", edn.Int(1))
}
