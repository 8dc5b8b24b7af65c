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
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// checked says which capability served a check, and how.
type checked struct {
	capID   string
	version string
	latency time.Duration
	usage   edn.Value
	edition int    // that answered
	model   string // that a server says answered, empty if none says so
	process int    // number of the process that answered
	err     *contract.Error
}

// askSafely turns a panic on the goroutine of a check into a failure of the
// check: it is a defect, and nobody above could catch it.
func (o *operation) runCheckSafely(ctx context.Context, r *attemptResult, c *quality.Check, subject quality.Subject) (out quality.Outcome, by checked) {
	defer func() {
		if p := recover(); p != nil {
			by.err = contract.Errorf("runtime/internal", "check :%s panicked: %s", c.Name, fmt.Sprint(p))
			out = quality.InterpretError(c, by.err, subject)
		}
	}()
	return o.runCheck(ctx, r, c, subject)
}

// ask lets a capability judge. The call has no gates of its own and may only
// read. It is made once more if the failure asks for the same executor, or if
// the executor was lost and is back (or another one stands in) before the time
// of the check is up; everything else is a finding.
func (o *operation) runCheck(ctx context.Context, r *attemptResult, c *quality.Check, subject quality.Subject) (quality.Outcome, checked) {
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
			by.err = first // nobody came back: how the executor was lost is the reason
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

// again reports whether a check is asked again after a failure: once more if the
// executor was lost or its failure asks for that, and as often as the process was
// gone before the check reached it.
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

// unasked reports whether the process was gone before the check reached it.
func (by *checked) undelivered() bool {
	return by.capID != "" && by.process == 0 && by.err.Type == policy.ReasonNotReady
}

// checkWork is the child call that a capability check is.
func (o *operation) checkWork(r *attemptResult, c *quality.Check, subject quality.Subject) *Work {
	layer := policy.CheckLayer(o.d.Registry, &c.Check, r.capability.ID)
	p, _ := layer.Resolve() // without a switch-on set there is nothing to refuse
	return &Work{
		Op:     "call",
		Node:   o.w.Node,
		Path:   o.w.Path,
		Intent: c.Intent,
		// An answer is not refused because who should judge it has a breaker.
		Policy: o.d.policyWithoutStats(p, c.Intent, ""),
		Input:  quality.CapabilityInput(c, subject),
		Stack:  append(slices.Clip(o.w.Stack), r.capability.ID),
		// A check spends what its node has.
		Budget: o.w.Budget,
	}
}

// askOnce binds and makes one call. If everyone who may judge is only on the
// way back, it waits for the first of them.
func (o *operation) bindAndCall(ctx context.Context) (checked, edn.Value) {
	capID, err := o.selectChecker(ctx)
	if err != nil {
		return checked{err: err}, edn.Nil()
	}
	c, _ := o.d.Registry.Capability(capID)
	by, out, _ := o.callOnce(ctx, c)
	return by, out
}

// askOne makes one call to one capability. Asked tells whether it was sent.
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

// ServedModel is the model behind a verdict, as its server calls it: a judge that
// asks a model says which one answered, one that is a model has it beside the
// answer. It is empty if nobody says so.
func ServedModel(meta, out edn.Value) string {
	if model, ok := out.Key("judge").Key("model").AsString(); ok && model != "" {
		return model
	}
	model, _ := meta.Key("provider").Key("model/served").AsString()
	return model
}

// admitted enters the breaker of a capability.
func (o *operation) acquirePermit(cs *candidateStats, c *registry.Capability) (breaker.Permit, *contract.Error) {
	permit, ok := cs.acquire(o.d.Clock.Now(), o.d.Executor.State(c.ID).Edition, c.Version)
	if !ok {
		return permit, contract.Errorf("breaker/open", "node %s: :%s has failed too often of late", o.w.Node, c.ID)
	}
	return permit, nil
}

func (o *operation) selectChecker(ctx context.Context) (string, *contract.Error) {
	o.binding = o.bind()
	if len(o.binding.Accepted) > 0 {
		return o.binding.Accepted[0], nil
	}
	for _, r := range o.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && o.d.Executor.State(r.Cap).willReturn() && o.d.Executor.Await(ctx, r.Cap) == nil {
			return r.Cap, nil
		}
	}
	return "", o.noCandidate()
}
