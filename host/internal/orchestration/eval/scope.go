package eval

import (
	"context"
	"sync/atomic"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// scope is one running plan: the root, an inline plan, an item of a map, or a
// plan answer.
type scope struct {
	run     *run
	history *journal.History // records of its nodes; nil: none
	prog    *plan.Program
	frame   *plan.Frame
	path    []edn.Value   // of the plan
	layer   *policy.Layer // inherited by nodes
	depth   int
	stack   []string // capabilities that wait for this plan
	author  plan.Author
	kept    bool // the run may go on with a failure of a node: it is kept, or another candidate answers

	answer     plan.Answer   // the node whose answer the plan gives
	textStream *stream.Text  // of that node; nil if it is not streamed
	budget     budget.Chain  // the scopes around the nodes
	deepest    request.Limit // limit of the nesting of plans

	ended []ended // by node; written by the goroutine of the node, read by the owner after

	emitted    edn.Value
	emitIndex  int
	hasEmitted bool
	last       *dispatch.Result
	doneOnce   atomic.Bool
}

// ended is the result of a node before its commit.
type ended struct {
	path   edn.Value
	slot   plan.Slot
	record journal.NodeCommitted
	value  edn.Value // of an emit
	result *dispatch.Result
}

// walk runs the plan to its end. The error is the first one in program order,
// with its place.
func (s *scope) walk(ctx context.Context) *contract.Error {
	nodes := s.prog.Plan.Nodes
	s.ended = make([]ended, len(nodes))
	sched := schedule{steps: s, waiting: &s.run.waiting, order: order{n: len(nodes), graph: s.prog.Graph, limit: s.parallel()}}
	_, err := sched.run(ctx)
	if err != nil && sched.others > 0 {
		err = err.WithDetail("others-failed", edn.Int(int64(sched.others)))
	}
	return err
}

func (s *scope) parallel() int {
	switch s.prog.Plan.Mode {
	case plan.Strict:
		return 1
	case plan.Lazy:
		return max(1, len(s.prog.Plan.Nodes))
	default:
		return max(1, s.prog.Plan.MaxParallel)
	}
}

// stream creates the text stream of the answer node of the run, if the task streams.
func (s *scope) stream() {
	t := s.run.task
	if i := s.answer.Node; t.Streams && i >= 0 {
		path, node := s.pathOf(i), s.node(i).ID
		if past := s.past(path); past != nil && past.HasShown && !past.IsCommitted() {
			// Retract the text that was shown before the host crashed or the run ended
			// (RUN-043). The recorder returns an error again at its next record.
			reason := "runtime/crashed"
			if tried := past.Attempt(past.Shown); tried != nil && tried.Forgotten {
				reason = "stream/truncated"
			}
			_ = t.Recorder.Record(path, node, &journal.AttemptRetracted{Attempt: past.Shown, Reason: reason})
		}
		s.textStream = s.run.call.NewTextStream(s.run.ev.Clock, path, node, s.answer.Key, t.Pace, t.Live, t.Text)
	}
}

// streamOf returns the text stream of node i; nil unless i is the answer node.
func (s *scope) streamOf(i int) *stream.Text {
	if i != s.answer.Node {
		return nil
	}
	return s.textStream
}

func (s *scope) node(i int) *plan.Node { return &s.prog.Plan.Nodes[i] }

func (s *scope) nodePath(i int, more ...edn.Value) []edn.Value {
	path := make([]edn.Value, 0, len(s.path)+1+len(more))
	path = append(path, s.path...)
	path = append(path, edn.Int(int64(i)))
	return append(path, more...)
}

// pathOf returns the path of a node as a value.
func (s *scope) pathOf(i int) edn.Value {
	var room [24]edn.Value // deeper than any path
	path := append(room[:0], s.path...)
	return edn.Vector(append(path, edn.Int(int64(i)))...)
}

// skip reports whether the condition of a node is false, and records that. If that
// cannot be recorded, it returns false: the run then fails with the recorder's error.
func (s *scope) skip(i int) bool {
	n := s.node(i)
	path := s.pathOf(i)
	if past := s.past(path); past != nil && past.Skipped {
		return true
	}
	if n.When == nil || n.When.Eval(s.frame) {
		return false
	}
	return s.run.task.Recorder.Record(path, n.ID, &journal.NodeSkipped{Op: n.Op.String(), When: n.WhenSource}) == nil
}

// quick reports whether a node only computes.
func (s *scope) quick(i int) bool {
	op := s.node(i).Op
	return op == plan.OpLet || op == plan.OpEmit
}

// do runs one node. It may be called concurrently.
func (s *scope) do(ctx context.Context, i int, begun func()) (err *contract.Error) {
	n := s.node(i)
	e := &s.ended[i]
	e.path = s.pathOf(i)
	attempts := 0
	defer func() {
		if p := recover(); p != nil {
			err = s.run.recovered("node "+n.ID, p)
		}
		if err != nil {
			err = s.fail(n, e, err, attempts)
		}
	}()
	if s.run.nodes.Add(1) > int64(s.run.ev.Limits.RunNodes) {
		return contract.Errorf("plan/too-large", "the run has more than %d nodes", s.run.ev.Limits.RunNodes)
	}
	if s.recall(i, e) {
		begun()
		return nil
	}
	switch n.Op {
	case plan.OpLet:
		return s.let(n, e)
	case plan.OpEmit:
		return s.emit(n, e)
	case plan.OpCall, plan.OpTool:
		attempts, err = s.callNode(ctx, i, n, e, begun)
		return err
	case plan.OpPlan:
		begun()
		return s.planNode(ctx, i, n, e)
	case plan.OpMap:
		begun()
		return s.mapNode(ctx, i, n, e)
	default:
		return contract.Errorf("runtime/internal", "node %s: op %s cannot run", n.ID, n.Op)
	}
}

// fail adds the place to an error and records it, unless the node was only
// canceled.
func (s *scope) fail(n *plan.Node, e *ended, err *contract.Error, attempts int) *contract.Error {
	if err.Where.Key("path").IsNil() {
		err = err.WithWhere("node", edn.Text(n.ID)).WithWhere("path", e.path)
	}
	if err.Type == "canceled" {
		return err
	}
	if past := s.past(e.path); past != nil && past.Failed != nil {
		if err.Type == "replay/miss" {
			return err
		}
		return past.Failed.Err // a kept failure is part of a value, which must be the recorded one
	}
	record := &journal.NodeFailed{Err: err, Attempts: attempts}
	if e.result != nil && !e.result.Findings.IsNil() {
		record.Findings = journal.RefTo(e.result.Findings)
	}
	if broken := s.run.task.Recorder.Record(e.path, n.ID, record); broken != nil {
		return contract.AsError(broken)
	}
	return err
}

func (s *scope) let(n *plan.Node, e *ended) *contract.Error {
	slot, err := n.FillLet(s.frame)
	if err != nil {
		return err
	}
	e.slot, e.value = slot, slot.Value()
	return nil
}

func (s *scope) emit(n *plan.Node, e *ended) *contract.Error {
	v, _, err := n.Input.Fill(s.frame, nil)
	if err != nil {
		return err
	}
	e.value = v
	return nil
}

// commit publishes the result of a node. Only the owner of the scope calls it.
func (s *scope) commit(i int) *contract.Error {
	n, e := s.node(i), &s.ended[i]
	past := s.past(e.path)
	if s.run.task.Replay && past.IsCommitted() {
		if err := s.sameValue(n, e, past); err != nil {
			return err
		}
	}
	if !past.IsCommitted() && (s.run.verbose || (n.Op != plan.OpLet && n.Op != plan.OpEmit)) {
		record := &e.record // committed once, and then owned by the journal
		record.As = n.As
		switch n.Op {
		case plan.OpLet, plan.OpEmit:
			record.Value = journal.RefTo(e.value)
		default:
			record.Value = journal.RefOf(&e.slot)
		}
		if err := s.run.task.Recorder.Record(e.path, n.ID, record); err != nil {
			return contract.AsError(err)
		}
	}
	if n.As != "" {
		s.frame.Set(i, e.slot)
	}
	if n.Op == plan.OpEmit && (!s.hasEmitted || i > s.emitIndex) {
		s.emitted, s.emitIndex, s.hasEmitted = e.value, i, true
	}
	if i == len(s.ended)-1 {
		s.last = e.result
	}
	return nil
}

// value returns the result of the plan: the emitted value, without emit the
// :out of the last node.
func (s *scope) value() edn.Value {
	if s.hasEmitted || len(s.ended) == 0 {
		return s.emitted
	}
	return s.ended[len(s.ended)-1].slot.Emitted()
}
