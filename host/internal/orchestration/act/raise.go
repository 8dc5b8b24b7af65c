package act

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ceiling returns the budget of the intent if the request exceeds it and its caller
// lacks the right budget/raise; else nil. If the caller has the right, the decision is
// recorded with the run and applies again when the run is resumed or replayed.
//
// It applies only to acts of one call that a caller makes. In other acts the lowest
// limit applies: a plan has nodes of many intents, and its budget covers all of them
// together; a request of a plugin is a part of a call, which has its own budget.
func (f *flight) ceiling(r *request.Request) *request.Budget {
	if past := f.earlier(); past != nil {
		f.recallRaise(past)
		return nil
	}
	if f.inside != nil || f.act.Stack != nil || r.Intent == PlanIntent ||
		r.CapID == "" && f.service.templates[r.Intent] != nil {
		return nil
	}
	limits, err := request.ParseBudget(f.ofIntent(r.Intent).Value())
	if err != nil || r.BudgetLimits.Raises(limits) == "" {
		return nil
	}
	decision := f.service.config.Access.Operation(policy.RaiseBudget, f.act.caller())
	if !decision.OK {
		return &limits
	}
	f.raised = true
	f.act.Decisions = append(slices.Clip(f.act.Decisions), decision.Value())
	return nil
}

// ofIntent returns the budget of an intent that a request may raise: without the limits
// that budget blocks set for every call, which apply to all requests.
func (f *flight) ofIntent(intent string) policy.Fields {
	c := &f.service.config
	hard := c.Budgets.CallLayer().Budget.Value()
	return slices.DeleteFunc(slices.Clone(c.Policies.For(intent).Budget), func(l policy.Field) bool {
		most, ok := hard.Get(l.Key)
		return ok && most.Equal(l.Value)
	})
}

// earlier returns the RunAccepted record of the run that the act resumes or replays; nil
// for a new run.
func (f *flight) earlier() *journal.RunAccepted {
	switch {
	case f.past != nil:
		return f.past.Accepted
	case f.act.Fill != nil:
		return f.act.Fill.past.Accepted
	}
	return nil
}

// recallRaise restores the decision about budget/raise from the record of acceptance.
func (f *flight) recallRaise(accepted *journal.RunAccepted) {
	i := slices.IndexFunc(accepted.Access, func(d edn.Value) bool { return d.Key("what").Equal(edn.K(policy.RaiseBudget)) })
	f.raised = i >= 0
	for _, also := range f.act.Also {
		f.raised = f.raised && f.service.config.Access.Operation(policy.RaiseBudget, also).OK
	}
	if f.raised && f.act.Fill != nil {
		f.act.Decisions = append(slices.Clip(f.act.Decisions), accepted.Access[i])
	}
}

// raise replaces the budget of the intent by that of the request, within the limits of
// the budget blocks. The decision of a router can still lower it. Without a permitted
// raise the layer is unchanged.
func (f *flight) raise(layer *policy.Layer) {
	if !f.raised {
		return
	}
	raised := policy.RaisedBudget(f.request.BudgetLimits, policy.Origin{Source: policy.SourceRequest})
	raised.Temperature = policy.Val[edn.Value]{} // an option, which the nearest layer has
	*layer = policy.Merge(policy.Merge(raised, f.service.config.Budgets.CallLayer()), *layer)
}
