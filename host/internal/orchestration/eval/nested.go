package eval

import (
	"context"
	"strconv"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// below creates the scope of a body of node i.
func (s *scope) below(i int, more ...edn.Value) (*scope, *contract.Error) {
	depth := s.depth + 1
	if depth > s.run.ev.Limits.Levels {
		return nil, contract.Errorf("plan/too-deep", "plans and maps nest more than %d levels deep",
			s.run.ev.Limits.Levels)
	}
	if err := tooDeep(depth, s.deepest); err != nil {
		return nil, err
	}
	return &scope{
		author: s.author, run: s.run, history: s.history, prog: s.prog.Subs[i], layer: s.layer, depth: depth, stack: s.stack,
		path: s.nodePath(i, more...), answer: s.prog.Subs[i].Answer,
		budget: s.budget, deepest: s.deepest,
		kept: s.kept || s.node(i).KeepItemErrors,
	}, nil
}

// resolved records the body of a plan or map node.
func (s *scope) resolved(n *plan.Node, e *ended, bindings edn.Value) *contract.Error {
	record := &journal.PlanResolved{Plan: journal.RefTo(n.Sub.Source), Source: "inline"}
	if !bindings.IsNil() {
		record.Bindings = journal.RefTo(bindings)
	}
	return s.recordPlan(e.path, n.ID, record)
}

// planNode evaluates an inline plan.
func (s *scope) planNode(ctx context.Context, i int, n *plan.Node, e *ended) *contract.Error {
	child, err := s.below(i)
	if err != nil {
		return err
	}
	if err := s.resolved(n, e, n.SubBindings); err != nil {
		return err
	}
	child.frame = s.frame.Plan(i)
	text := s.streamOf(i).Inline()
	child.textStream = text.Stream(child.answer.Key)
	err = child.walk(ctx)
	if child.doneOnce.Load() {
		s.doneOnce.Store(true)
	}
	out := contract.EmitOut(child.emitted)
	if err = text.End(out, err, ctx.Err() != nil); err != nil {
		return err
	}
	e.slot = plan.PlanSlot(&plan.Result{Out: out, Run: child.account(nil)})
	return nil
}

// items is the state of one map node.
type items struct {
	scope  *scope
	node   *plan.Node
	index  int
	path   edn.Value
	over   plan.Items
	out    []edn.Value
	scopes []*scope
	failed []bool // items whose error was kept
}

// mapNode runs the body of a map over its collection.
func (s *scope) mapNode(ctx context.Context, i int, n *plan.Node, e *ended) *contract.Error {
	over, err := n.FillOver(s.frame, s.run.ev.Limits)
	if err != nil {
		return err
	}
	if err := s.resolved(n, e, edn.Nil()); err != nil {
		return err
	}
	m := &items{
		scope:  s,
		node:   n,
		index:  i,
		path:   e.path,
		over:   over,
		out:    make([]edn.Value, len(over)),
		scopes: make([]*scope, len(over)),
		failed: make([]bool, len(over)),
	}
	sched := schedule{steps: m, waiting: &s.run.waiting, order: order{n: len(over), limit: max(1, n.MaxParallel)}}
	if effectful(s.prog.Subs[i]) {
		sched.limit = 1
	}
	_, err = sched.run(ctx)
	if err != nil {
		if sched.others > 0 {
			err = err.WithDetail("others-failed", edn.Int(int64(sched.others)))
		}
		return err
	}
	out := edn.Vector(m.out...)
	e.slot = plan.PlanSlot(&plan.Result{Out: out, Run: m.account()})
	return nil
}

// effectful reports whether any node of a program must keep program order.
func effectful(p *plan.Program) bool {
	for i := range p.Plan.Nodes {
		if p.Effectful[i] {
			return true
		}
		if p.Subs != nil && p.Subs[i] != nil && effectful(p.Subs[i]) {
			return true
		}
	}
	return false
}

func (m *items) do(ctx context.Context, k int, begun func()) (err *contract.Error) {
	begun()
	defer func() {
		if p := recover(); p != nil {
			err = m.scope.run.recovered("map "+m.node.ID, p)
		}
	}()
	child, err := m.scope.below(m.index, edn.Text("i"+strconv.Itoa(k)))
	if err != nil {
		return err
	}
	m.scopes[k] = child
	child.frame = m.scope.frame.Item(m.index, m.over[k], k)
	err = child.walk(ctx)
	if child.doneOnce.Load() {
		m.scope.doneOnce.Store(true)
	}
	if err != nil && (!m.node.KeepItemErrors || endsRun(ctx, err) || m.scope.failedThere(m.path)) {
		return err
	}
	if err != nil {
		m.failed[k] = true
		// The count of other errors depends on timing, and values do not (EVAL-070).
		kept := err.WithDetails(err.Details.Dissoc(edn.K("others-failed")))
		m.out[k] = edn.MustMap(edn.K("error"), kept.Value(), edn.K("failure/type"), edn.K(err.Type))
		return nil
	}
	m.out[k] = child.value()
	return nil
}

// Items are never skipped, and each may block.
func (m *items) skip(int) bool  { return false }
func (m *items) quick(int) bool { return false }

// commit does nothing: an item is visible only as part of the map.
func (m *items) commit(int) *contract.Error { return nil }
