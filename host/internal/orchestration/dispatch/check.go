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
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
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
	process int    // instance number of the process that answered; 0: none
	err     *contract.Error
}

// runCheckSafely converts a panic on the goroutine of a check into a failure of
// the check, because no caller could recover it.
func (o *operation) runCheckSafely(ctx context.Context, r *attemptResult, c *quality.Check, subject quality.Subject) (
	out quality.Outcome, by checked,
) {
	defer func() {
		if p := recover(); p != nil {
			by.err = contract.Errorf("runtime/internal", "check :%s panicked: %s", c.Name, fmt.Sprint(p))
			out = quality.InterpretError(c, by.err, subject)
		}
	}()
	return o.runCheck(ctx, r, c, subject)
}

// runCheck calls the capability of a check. The call has no gates and may only
// read. It is repeated once if the failure is retryable or the process was lost
// and is available again within the timeout of the check; every other failure
// is a finding.
func (o *operation) runCheck(ctx context.Context, r *attemptResult, c *quality.Check, subject quality.Subject) (
	quality.Outcome, checked,
) {
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

	child := &operation{d: o.d, run: o.run, number: r.number, gate: c.Name, w: o.checkWork(r, c, subject)}
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
func (o *operation) checkWork(r *attemptResult, c *quality.Check, subject quality.Subject) *Work {
	layer := policy.CheckLayer(o.d.Registry, &c.Check, r.capability.ID)
	p, _ := layer.Resolve() // cannot fail without a switch-on set
	return &Work{
		Op:     "call",
		Node:   o.w.Node,
		Path:   o.w.Path,
		Intent: c.Intent,
		// An open breaker of the checker must not refuse the answer.
		Policy: o.d.policyWithoutStats(p, c.Intent, ""),
		Input:  quality.CapabilityInput(c, subject),
		Stack:  append(slices.Clip(o.w.Stack), r.capability.ID),
		// A check spends from the budget of its node.
		Budget: o.w.Budget,
	}
}

// bindAndCall binds and makes one call. If all candidates are only respawning,
// it waits for the first of them.
func (o *operation) bindAndCall(ctx context.Context) (checked, edn.Value) {
	capID, err := o.selectChecker(ctx)
	if err != nil {
		return checked{err: err}, edn.Nil()
	}
	c, _ := o.d.Registry.Capability(capID)
	by, out, _ := o.callOnce(ctx, c)
	return by, out
}

// callOnce makes one call to one capability; asked reports whether it was sent.
func (o *operation) callOnce(ctx context.Context, c *registry.Capability) (by checked, out edn.Value, asked bool) {
	by = checked{capID: c.ID, version: c.Version}
	l := o.limits(c)
	if !l.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.end)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	started := o.d.Clock.Now()
	scopes, err := o.scopes(c)
	if err != nil {
		by.err = err
		return by, edn.Nil(), false
	}
	purpose := forCheck
	if o.vote {
		purpose = forVote
	}
	reservation, err := o.reserve(ctx, c, purpose, o.number, false)
	if err != nil {
		by.err = err
		return by, edn.Nil(), false
	}
	answer, failed := o.d.Executor.Invoke(ctx, o.call(c, deadline, scopes, &reservation, o.composePrompt(c)))
	awaitOwnDeadline(ctx, failed)
	by.latency, by.edition, by.process = o.d.Clock.Now().Sub(started), answer.Edition, answer.Generation
	if failed != nil {
		by.err = contract.AsError(failed)
		o.settle(&reservation, settlement{unknown: unknownOutcome(by.err)})
		return by, edn.Nil(), true
	}
	o.settle(&reservation, settlement{usage: mapOrNil(answer.Response.Key("result").Key("usage"))})
	response, err := contract.CheckResponse(answer.Response, o.resultRules(c))
	if err != nil {
		by.err = err
		return by, edn.Nil(), true
	}
	by.usage = mapOrNil(response.Key("result").Key("usage"))
	out = response.Key("result").Key("out")
	by.model = ServedModel(response.Key("invoke/meta"), out)
	return by, out, true
}

// ServedModel returns the model behind a verdict as named by its server: from
// the answer of a judge that calls a model, or from the metadata of a judge
// that is a model. It is empty if not reported.
func ServedModel(meta, out edn.Value) string {
	if model, ok := out.Key("judge").Key("model").AsString(); ok && model != "" {
		return model
	}
	model, _ := meta.Key("provider").Key("model/served").AsString()
	return model
}

// acquirePermit asks the breaker of a capability for a permit.
func (o *operation) acquirePermit(cs *stats.Candidate, c *registry.Capability) (breaker.Permit, *contract.Error) {
	permit, ok := cs.Acquire(o.d.Clock.Now(), o.d.Executor.State(c.ID).Edition, c.Version)
	if !ok {
		return permit, contract.Errorf("breaker/open", "node %s: the breaker of :%s is open", o.w.Node, c.ID)
	}
	return permit, nil
}

func (o *operation) selectChecker(ctx context.Context) (string, *contract.Error) {
	o.binding = o.bind()
	if len(o.binding.Accepted) > 0 {
		return o.binding.Accepted[0], nil
	}
	for _, r := range o.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && o.d.Executor.State(r.Cap).willReturn() &&
			o.d.Executor.Await(ctx, r.Cap) == nil {
			return r.Cap, nil
		}
	}
	return "", o.noCandidate()
}
