package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// operation is the execution of one call or tool node: the state of one Serve.
// The machine decides; the operation carries out its commands with its parts.
type operation struct {
	caller
	machine  flow.Machine
	search   search
	attempts attempts
	delays   delays
	strategy strategy
	parallel *parallelCalls // nil in a cascade
	timer    *timer         // of a hedge; nil: none runs
	accepted []Result       // answers of a tournament

	// resolved is written once and then belongs to the journal.
	resolved journal.NodeResolved
}

func (o *operation) serve(ctx context.Context) {
	w, result := o.node.w, &o.attempts.result
	if w.Past != nil { // before the rights: a call that was made needs its decision in any case
		done, err := o.resume(w.Past)
		switch {
		case err != nil:
			o.fail(err)
			return
		case done != nil:
			o.acceptDecided(done)
			return
		}
	}
	if err := o.node.checkRights(); err != nil {
		if err.Type == "effects/unsupported-tool" {
			result.Unbound = err
		}
		o.fail(err)
		return
	}
	if w.Recorded != nil {
		o.fill(w.Recorded)
	}
	o.candidates.bind()
	o.search.await(ctx)
	o.candidates.awaitBreaker(ctx)
	if o.strategy = o.selectStrategy(); o.attempts.past.replays() {
		o.strategy = recordedStrategy(w.Past.Resolved)
	}
	if w.Stream != nil {
		o.attempts.mode = w.Stream.Mode(&w.Policy.Policy, o.strategy.name)
	}
	o.node.Record(o.resolvedRecord())
	if len(o.candidates.binding.Tried) == 0 {
		o.fail(o.noCandidate())
	} else {
		o.drive(ctx)
	}
	if result.Err == nil {
		result.stream.Accept(result.Out)
	}
	w.Stream.Close(result.Err)
}

// noCandidate is the failure of an operation without a candidate.
func (o *operation) noCandidate() *contract.Error {
	err := o.candidates.noCandidate()
	if err.Type == "unsupported/intent" && !err.Retryable && o.candidates.lacking() {
		o.attempts.result.Unbound = err
	}
	if past := o.attempts.past; past != nil && past.only != "" {
		return outcomeUnknown(o.node.w.Node, past.only, o.request.effectKey(), err)
	}
	return err
}

func (o *operation) resolvedRecord() *journal.NodeResolved {
	n, w, b := &o.resolved, o.node.w, &o.candidates.binding
	*n = journal.NodeResolved{
		Op:        w.Op,
		Policy:    w.Policy.Ordering,
		Strategy:  o.strategy.name,
		Width:     o.strategy.recordedWidth(),
		Coerced:   w.Coerced,
		OutSchema: w.Policy.Layer.Requires.OutSchema.V,
	}
	n.Learned = o.candidates.learning.record
	if o.candidates.ranked != nil {
		n.Candidates, n.Rejected = o.candidates.ranking(), rejections(b.Rejected)
	} else if len(b.Accepted) == len(w.Policy.candidates) && n.Learned == nil {
		n.Candidates, n.Rejected = w.Policy.candidates, w.Policy.rejected
	} else {
		n.Candidates, n.Rejected = candidateRecords(b.Accepted), rejections(b.Rejected)
	}
	if w.Op == "tool" {
		n.ToolID = w.ToolID
	} else {
		n.Intent = w.Intent
	}
	if w.Stream != nil {
		n.Stream = o.attempts.mode.String()
	}
	if o.node.run.Explain {
		o.candidates.addFigures(n)
	}
	return n
}

// fail makes err the failure of the node and adds attempts, candidates and
// retry settings as details.
func (o *operation) fail(err *contract.Error) {
	p, result := &o.node.w.Policy.Policy, &o.attempts.result
	if contract.Namespace(err.Type) == "budget" {
		err = err.WithClass(contract.ClassFinal) // no cheaper candidate is left
	}
	attempts := make([]edn.Value, len(result.Attempts))
	for i, a := range result.Attempts {
		attempts[i] = a.value()
	}
	bound, rejected := o.bound()
	candidates := make([]edn.Value, len(bound))
	for i, c := range bound {
		candidates[i] = journal.Keyword(c.CapID)
	}
	result.Err = err.
		WithDetail("attempts", edn.Vector(attempts...)).
		WithDetail("candidates", edn.Vector(candidates...)).
		WithDetail("rejected", journal.RejectionsValue(rejected)).
		WithDetail("retry", edn.MustMap(
			edn.K("same-cap-max"), edn.Int(int64(p.SameCapMax)),
			edn.K("fallback-max"), edn.Int(int64(p.FallbackMax)))).
		WithDetail("switch-on", switchOn(p))
}

// bound returns the candidates and rejections that an error of the node names. In a resumed
// run they are those that the first host recorded, as in a run without interruption: the
// binding of this host depends on the recorded attempts. If no candidate can be called now,
// its rejections are the cause of the error.
func (o *operation) bound() ([]journal.Candidate, []journal.Rejection) {
	b := &o.candidates.binding
	if past := o.attempts.past; past != nil && past.first != nil && len(b.Tried) > 0 {
		return past.first.Candidates, past.first.Rejected
	}
	return candidateRecords(b.Accepted), rejections(b.Rejected)
}

// switchOn returns the configured switch set, or :default.
func switchOn(p *policy.Policy) edn.Value {
	if p.SwitchOnNames == nil {
		return edn.K("default")
	}
	vs := make([]edn.Value, len(p.SwitchOnNames))
	for i, n := range p.SwitchOnNames {
		vs[i] = journal.Keyword(n)
	}
	return edn.SetOf(vs...)
}
