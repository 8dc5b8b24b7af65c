package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checked describes the call to the capability behind a check.
type checked struct {
	capID   string
	version string
	latency time.Duration
	usage   edn.Value
	edition int    // edition of the plugin that answered
	model   string // model reported by the server, empty if none
	process int    // incarnation number of the process that answered; 0: none
	err     *contract.Error
}

// runCheckSafely converts a panic on the goroutine of a check into a failure of
// the check, because no caller could recover it.
func (j *judging) runCheckSafely(ctx context.Context, c *quality.Check, subject quality.Subject) (
	out quality.Outcome, by checked,
) {
	defer func() {
		if p := recover(); p != nil {
			by.err = contract.Errorf("runtime/internal", "check :%s panicked: %s", c.Name, fmt.Sprint(p))
			out = quality.InterpretError(c, by.err, subject)
		}
	}()
	return j.runCheck(ctx, c, subject)
}

// runCheck calls the capability of a check. The call has no gates and may only
// read. It is repeated once if the failure is retryable or the process was lost
// and is available again within the timeout of the check; every other failure
// is a finding.
func (j *judging) runCheck(ctx context.Context, c *quality.Check, subject quality.Subject) (quality.Outcome, checked) {
	subject.Params = c.Params
	if !c.Applicable(subject) {
		return c.Run(subject), checked{}
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = registry.DefaultCheckTimeout
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(asked, timeout)
	defer cancel()
	if end := j.n.w.Deadline; !end.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}

	child := newGateCall(j, j.checkWork(c, subject), funds.ForCheck, c.Name)
	by, out := child.bindAndCall(ctx)
	for tried := false; by.retries(tried) && ctx.Err() == nil; {
		tried = tried || !by.undelivered()
		first := by.err
		if by, out = child.bindAndCall(ctx); by.err != nil && by.capID == "" {
			by.err = first // no process became available; report how the first one was lost
			break
		}
	}
	if by.err != nil && asked.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && by.capID != "" {
		by.err = contract.Errorf("timeout/soft", ":%s did not answer within %s", by.capID, timeout)
		if j.n.expired(asked) {
			by.err = contract.Errorf("timeout/hard", ":%s did not answer before the deadline of node %s", by.capID, j.n.w.Node)
		}
	}
	if by.err != nil {
		return quality.InterpretError(c, by.err, subject), by
	}
	return quality.Interpret(c, out, subject), by
}

// retries reports whether a check is called again: once after a retryable
// failure or a lost process, and always if the call was not delivered.
func (by *checked) retries(tried bool) bool {
	switch {
	case by.err == nil:
		return false
	case by.undelivered():
		return true
	case tried:
		return false
	}
	return by.err.Class == contract.ClassRetry || lostExecutor(by.err)
}

// lostExecutor reports whether a call failed because its process was lost.
func lostExecutor(err *contract.Error) bool {
	return err.Type == "runtime/crashed" || err.Type == policy.ReasonNotReady
}

// undelivered reports whether the process exited before the call reached it.
func (by *checked) undelivered() bool {
	return by.capID != "" && by.process == 0 && by.err.Type == policy.ReasonNotReady
}

// checkWork returns the node of a capability check.
func (j *judging) checkWork(c *quality.Check, subject quality.Subject) *Work {
	d, w := j.n.d, j.n.w
	layer := policy.CheckLayer(d.Registry, &c.Check, j.a.capability.ID)
	p, _ := layer.Resolve() // cannot fail without a switch-on set
	return &Work{
		Op:     "call",
		Node:   w.Node,
		Path:   w.Path,
		Intent: c.Intent,
		// An open breaker of the checker must not refuse the answer.
		Policy: d.policyWithoutStats(p, c.Intent, ""),
		Input:  quality.CapabilityInput(c, subject),
		Stack:  append(slices.Clip(w.Stack), j.a.capability.ID),
		// A check spends from the time, the depth and the budget of its node.
		Deadline: w.Deadline, Wall: w.Wall, Deepest: w.Deepest, Budget: w.Budget,
	}
}
