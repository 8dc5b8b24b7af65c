package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// gateCall makes the calls of a check or a judge.
type gateCall struct{ caller }

// newGateCall prepares the calls that evaluate an answer. w describes a call of the
// check or judge.
func newGateCall(j *judging, w *Work, purpose funds.Purpose, gate string) *gateCall {
	g := new(gateCall)
	g.init(j.n.d, j.n.run, w, purpose, gate)
	g.request.attempts = j.a.number
	return g
}

// bindAndCall binds and makes one call. If no candidate is available, it waits for the
// first one that is respawning.
func (g *gateCall) bindAndCall(ctx context.Context) (checked, edn.Value) {
	capID, err := g.selectChecker(ctx)
	if err != nil {
		return checked{err: err}, edn.Nil()
	}
	c, _ := g.node.d.Registry.Capability(capID)
	by, out, _ := g.callOnce(ctx, c)
	return by, out
}

// callOnce makes one call to one capability; asked reports whether it was sent.
func (g *gateCall) callOnce(ctx context.Context, c *registry.Capability) (by checked, out edn.Value, asked bool) {
	by = checked{capID: c.ID, version: c.Version}
	l := g.node.limits(c)
	if !l.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.end)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	started := g.node.now()
	scopes, err := g.node.scopes(c)
	if err != nil {
		by.err = err
		return by, edn.Nil(), false
	}
	reservation, err := g.funds.Reserve(ctx, c, g.funds.Purpose, g.request.attempts, false)
	if err != nil {
		by.err = err
		return by, edn.Nil(), false
	}
	left := g.funds.Remaining(g.node.w.Policy.Budget, &reservation)
	call := g.request.call(c, deadline, scopes, left, g.request.composePrompt(c))
	g.node.run.Interrupts.Calling()
	answer, failed := g.node.d.Executor.Invoke(ctx, call)
	g.node.run.Interrupts.Called()
	awaitOwnDeadline(ctx, failed)
	by.latency, by.edition, by.process = g.node.now().Sub(started), answer.Edition, answer.Generation
	usage, unknown := edn.Nil(), false
	var response edn.Value
	if failed != nil {
		by.err = contract.AsError(failed)
		unknown = unknownOutcome(by.err)
	} else {
		usage = mapOrNil(answer.Response.Key("result").Key("usage"))
		response, by.err = contract.CheckResponse(answer.Response, g.node.resultRules(c))
	}
	end := settlementOf(usage, by.err, unknown)
	by.usage = reservation.Usage(end)
	g.funds.Settle(&reservation, end)
	if by.err != nil {
		return by, edn.Nil(), true
	}
	out = response.Key("result").Key("out")
	by.model = ServedModel(response.Key("invoke/meta"), out)
	return by, out, true
}

func (g *gateCall) selectChecker(ctx context.Context) (string, *contract.Error) {
	g.candidates.bind()
	if len(g.candidates.binding.Accepted) > 0 {
		return g.candidates.binding.Accepted[0], nil
	}
	executor := g.node.d.Executor
	for _, r := range g.candidates.binding.Rejected {
		if r.Reason == policy.ReasonNotReady && executor.State(r.Cap).willReturn() && g.node.awaitReady(ctx, r.Cap) == nil {
			return r.Cap, nil
		}
	}
	return "", g.candidates.noCandidate()
}

// report adds the result of a call to the statistics cs of a judge, which may be nil.
// asked is false if the call was not sent.
func (g *gateCall) report(ctx context.Context, cs *stats.Candidate, permit breaker.Permit, c *registry.Capability,
	by checked, asked bool) {
	if cs == nil {
		return
	}
	cs.Record(g.node.now(), permit, stats.End{
		Err:     by.err,
		Ignored: !asked || by.err != nil && ctx.Err() != nil,
		Crashed: by.err != nil && by.err.Type == "runtime/crashed",
		Plugin:  c.Plugin,
		Edition: by.edition,
		Process: by.process,
		Latency: by.latency,
		Usage:   by.usage,
	}, func() float64 { return g.node.random(voteDraws - g.request.attempts) })
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
