package eval

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// past returns the records at a path from before the run was resumed; nil if there are
// none, or if the history is that of another run.
func (s *scope) past(path edn.Value) *journal.Place {
	if s.run.task.Fill != nil { // the history is that of another run
		return nil
	}
	return s.history.At(path)
}

// recall gives a node its recorded committed value, and reports whether there is one (JRN-040). It
// does not recall a let or an emit, which only compute. Nor does it recall any node of a replay,
// which compares the values, or the node of an act without a plan, whose response needs more than
// the value; but if the configuration no longer has a capability that was called, it recalls these
// too.
func (s *scope) recall(i int, e *ended) bool {
	n, past := s.node(i), s.past(e.path)
	switch {
	case !past.IsCommitted(), n.Op == plan.OpLet, n.Op == plan.OpEmit:
		return false
	case (s.run.task.Replay || s.run.task.Source == "intent" && s.isRoot()) && !s.calledUnknown(past):
		return false
	}
	kinds := map[plan.Op]plan.SlotKind{
		plan.OpCall: plan.SlotCall, plan.OpTool: plan.SlotTool, plan.OpPlan: plan.SlotPlan, plan.OpMap: plan.SlotPlan,
	}
	e.slot = plan.Recorded(kinds[n.Op], s.run.task.Secrets.Restore(past.Committed.Value.Value()))
	e.record = *past.Committed
	if (n.Op == plan.OpCall || n.Op == plan.OpTool) && s.dispatched(i, e, past) { // the account of the plan counts it
		e.result = &dispatch.Result{
			CapID:    past.Committed.CapID,
			Attempt:  past.Committed.Attempt,
			Attempts: make([]dispatch.Attempt, past.Counted()),
			Out:      e.slot.Value().Key("out"),
			Err:      e.slot.Failure(),
		}
	}
	if slices.ContainsFunc(past.Attempts, (*journal.Tried).HadEffectOnce) {
		s.doneOnce.Store(true)
	}
	return true
}

// calledUnknown reports whether a recorded attempt was at a capability that the
// configuration does not have. One of a plugin whose description is not known counts as
// there: the description makes the replay exact.
func (s *scope) calledUnknown(past *journal.Place) bool {
	return slices.ContainsFunc(past.Attempts, func(t *journal.Tried) bool {
		_, known := s.run.ev.Registry.Capability(t.Started.CapID)
		_, undescribed := s.run.ev.Registry.Undescribed(t.Started.CapID)
		return !known && !(s.run.task.Replay && undescribed)
	})
}

// dispatched reports whether a call or tool node whose commit is recorded reached the
// dispatcher. Without a record of its candidates it failed before, or the dispatcher denied
// it at once; then only computing its input again shows which.
func (s *scope) dispatched(i int, e *ended, past *journal.Place) bool {
	if past.Resolved != nil || past.Committed.FailureType == "" {
		return true
	}
	_, err := s.work(context.Background(), i, s.node(i), e)
	return err == nil
}

// isRoot reports whether the scope is that of the whole task.
func (s *scope) isRoot() bool {
	if in := s.run.task.Inside; in != nil {
		return len(s.path) == len(in.Path)
	}
	return len(s.path) == 0
}

// recordPlan records the plan at a path, unless that was done before the run was
// resumed.
func (s *scope) recordPlan(path edn.Value, node string, plan *journal.PlanResolved) *contract.Error {
	if past := s.past(path); past != nil && past.Plan != nil && past.Plan.Attempt == plan.Attempt &&
		past.Plan.Plan.Hash() == plan.Plan.Hash() && past.Plan.Request.Hash() == plan.Request.Hash() {
		return nil
	}
	return contract.AsError(s.run.task.Recorder.Record(path, node, plan))
}

// Recall counts recorded costs in the scopes of a chain, without checking limits. It
// stops at the first error of the ledger, because the next reservation fails with it.
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

// miss is the error of a replay that differs from the records at a node (JRN-050).
func (s *scope) miss(n *plan.Node, e *ended, format string, args ...any) *contract.Error {
	return contract.Errorf("replay/miss", "node %s: "+format, append([]any{n.ID}, args...)...).
		WithWhere("node", edn.Text(n.ID)).WithWhere("path", e.path)
}

// unrecorded is the error of a call that has no records. In a run that did not
// complete, or in an item whose failure was kept, another node ended the plan before it.
func (s *scope) unrecorded(n *plan.Node, e *ended) *contract.Error {
	if s.history.Status != journal.StatusCompleted || s.history.Within(e.path) {
		return contract.Errorf("canceled", "node %s did not run in the recorded run", n.ID)
	}
	return s.miss(n, e, "the run has no record of it")
}

// replayed returns the recorded error of a call in place of err, whose details depend on
// the current state of other candidates. It returns replay/miss if err does not fit the
// record, and err itself if no failure is recorded.
func (s *scope) replayed(n *plan.Node, e *ended, err *contract.Error) *contract.Error {
	past := s.past(e.path)
	switch {
	case past.IsCommitted() && past.Committed.FailureType != "" && len(past.Attempts) == 0: // kept failure before any call
		return plan.Recorded(plan.SlotCall, past.Committed.Value.Value()).Failure()
	case err != nil && err.Type == "replay/miss":
		return err
	case past.Failed != nil && err == nil && past.Failed.Err.Source == contract.SourceHost:
		// A failure of the host is not repeated.
		return past.Failed.Err
	case past.Failed != nil && err == nil:
		return s.miss(n, e, "it was accepted, and its record is a failure of type :%s", past.Failed.Err.Type)
	case past.Failed != nil:
		return past.Failed.Err
	case past.IsCommitted() && past.Committed.FailureType != "": // kept: its commit has the error
		kept := plan.Recorded(plan.SlotCall, past.Committed.Value.Value()).Failure()
		if !endsAlike(kept, err) {
			return s.miss(n, e, "it ended in another way than its record, a kept failure of type :%s", kept.Type)
		}
		return kept
	case past.IsCommitted() && err != nil:
		return s.miss(n, e, "it failed with :%s, and its record is a commit: %s", err.Type, err.Message)
	}
	return err
}

// endsAlike reports whether the end of a replayed call, nil for an answer, fits its
// recorded failure. A replay counts no costs: where the budget ended the recorded call, the
// replayed one has the end of its last attempt.
func endsAlike(recorded, replayed *contract.Error) bool {
	return recorded.Type == "budget/exceeded" || replayed != nil && replayed.Type == recorded.Type
}

// keepsRecorded gives a replayed node the value of its recorded commit, if that is the kept
// failure err: its details depend on other candidates. It reports whether it is.
func (s *scope) keepsRecorded(n *plan.Node, e *ended, err *contract.Error) bool {
	past := s.past(e.path)
	if err == nil || !s.run.task.Replay || !past.IsCommitted() || past.Committed.FailureType != err.Type {
		return false
	}
	kind := plan.SlotCall
	if n.Op == plan.OpTool {
		kind = plan.SlotTool
	}
	e.slot = plan.Recorded(kind, past.Committed.Value.Value())
	return true
}

// failedThere reports whether a replayed node was not kept in the recorded run: its record is a
// failure that ended its plan, or the run was canceled or passed its deadline before the commit
// of the node, possibly while no host executed it. It is not kept in the replay, either.
func (s *scope) failedThere(path edn.Value) bool {
	past := s.past(path)
	if !s.run.task.Replay || past.IsCommitted() {
		return false
	}
	status := s.history.Status
	cut := (status == journal.StatusCanceled || status == journal.StatusExpired) && !s.history.Within(path)
	return cut || past != nil && past.Failed != nil
}

// sameValue returns replay/miss if the value of a node differs from its recorded commit.
func (s *scope) sameValue(n *plan.Node, e *ended, past *journal.Place) *contract.Error {
	v := e.value
	if n.Op != plan.OpLet && n.Op != plan.OpEmit {
		v = e.slot.Value()
	}
	if hash := edn.Hash(v); hash != past.Committed.Value.Hash() {
		return s.miss(n, e, "its value is another than the recorded one").
			WithDetail("recorded", edn.Text(past.Committed.Value.Hash())).WithDetail("replayed", edn.Text(hash))
	}
	return nil
}
