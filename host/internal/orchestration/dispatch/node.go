package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// node is a node of a run during its execution. All parts of an operation share
// it.
type node struct {
	d      *Dispatcher
	run    *Run
	w      *Work
	failed error // the error of the recorder; nothing is recorded after it
}

var _ funds.Records = (*node)(nil)

// Record implements funds.Records.
func (n *node) Record(body journal.Body) {
	if n.failed == nil {
		n.failed = n.run.Recorder.Record(n.w.Path, n.w.Node, body)
	}
}

// sync waits until all records so far are durable.
func (n *node) sync() {
	if n.failed == nil {
		n.failed = n.run.Recorder.Sync()
	}
}

// RecordLate implements funds.Records.
func (n *node) RecordLate(body journal.Body) { _ = n.run.Recorder.Record(n.w.Path, n.w.Node, body) }

// Fail implements funds.Records.
func (n *node) Fail(err *contract.Error) {
	if n.failed == nil {
		n.failed = err
	}
}

// failedError returns the error after which nothing is recorded; nil if there is
// none.
func (n *node) failedError() *contract.Error { return contract.AsError(n.failed) }

func (n *node) now() time.Time { return n.d.Clock.Now() }

// awaitReady waits until a candidate is ready. It fails when ctx or the deadline of
// the node ends.
func (n *node) awaitReady(ctx context.Context, capID string) error {
	if !n.w.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, n.w.Deadline)
		defer cancel()
	}
	return n.d.Executor.Await(ctx, capID)
}

// reviveWait bounds the wait for a respawning candidate where neither the node nor its
// run has a deadline.
const reviveWait = 10 * time.Second

// reviving returns ctx with the deadline of a wait for respawning candidates.
func (n *node) reviving(ctx context.Context) (context.Context, context.CancelFunc) {
	if !n.w.Deadline.IsZero() {
		return context.WithDeadline(ctx, n.w.Deadline)
	}
	if _, bounded := ctx.Deadline(); bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, reviveWait)
}

// sleep waits for a duration. It returns false at once if the deadline of the
// node is earlier, or when ctx ends.
func (n *node) sleep(ctx context.Context, wait time.Duration) bool {
	until := n.now().Add(wait)
	if !n.w.Deadline.IsZero() && !until.Before(n.w.Deadline) {
		return false
	}
	if end, bounded := ctx.Deadline(); bounded && !until.Before(end) {
		return false
	}
	return n.d.Clock.Wait(ctx, wait) == nil
}

// expired reports whether the context or the deadline of the node has ended.
func (n *node) expired(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	return !n.w.Deadline.IsZero() && !n.now().Before(n.w.Deadline)
}

// resultRules are the rules for the form of an answer. The gate schema-valid
// checks the value against its schema.
func (n *node) resultRules(c *registry.Capability) contract.ResultRules {
	return contract.ResultRules{
		CanProduce: c.CanProduce,
		ResultType: n.w.Policy.Layer.Requires.ResultType.V,
		Kind:       c.Kind,
	}
}

// random returns the first value of a draw in [0, 1).
func (n *node) random(ordinal int) float64 { return Rand(n.run.Seed, n.w.Path, ordinal).Float64() }

// walk runs a plan answer within the deadline of the node (BUD-006).
func (n *node) walk(ctx context.Context, walk func(context.Context) Child) Child {
	if n.w.Deadline.IsZero() {
		return walk(ctx)
	}
	within, cancel := context.WithDeadline(ctx, n.w.Deadline)
	defer cancel()
	child := walk(within)
	if child.Err != nil && ctx.Err() == nil && within.Err() != nil {
		late := contract.Errorf("timeout/hard", "node %s: the deadline passed while its plan answer ran", n.w.Node)
		if n.w.Wall {
			late = n.wallSpent()
		}
		child.Err = late.WithCause(cause(child.Err))
	}
	return child
}

// wallSpent is the failure of a node whose wall-clock budget is used up.
func (n *node) wallSpent() *contract.Error {
	limit := n.w.Policy.Wall.Milliseconds()
	return contract.Errorf("budget/exceeded", "node %s has used up the %d ms of wall time of its budget", n.w.Node, limit).
		WithDetail("scope", edn.K(budget.Node.String())).
		WithDetail("dimension", edn.K("wall-ms")).
		WithDetail("limit", edn.Int(limit)).
		WithDetail("left", edn.Int(0)).
		WithWhere("node", edn.Text(n.w.Node))
}

// caller holds the parts that are needed to call the candidates of a node.
type caller struct {
	node       node
	request    callRequest
	funds      funds.Payer
	candidates candidates
}

// init makes the caller of a node. It must not be copied afterwards. gate is the
// name of the check or judge that is called, if any.
func (c *caller) init(d *Dispatcher, run *Run, w *Work, purpose funds.Purpose, gate string) {
	c.node = node{d: d, run: run, w: w}
	c.request = callRequest{n: &c.node}
	c.funds = funds.Payer{
		Account:    run.Account,
		Chain:      w.Budget,
		Run:        run.Base,
		Clock:      d.Clock,
		Registry:   d.Registry,
		Candidates: w.Policy.static.Accepted,
		AtLeast:    run.AtLeast,
		Node:       w.Node,
		Request:    &c.request,
		Records:    &c.node,
		Purpose:    purpose,
		Gate:       gate,
	}
	c.candidates = candidates{
		n:       &c.node,
		may:     availability{n: &c.node, funds: &c.funds},
		request: &c.request,
		fixed:   gate != "",
	}
}
