package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// judge runs the gates of the node on an answer, tier by tier, the judge last.
// The first tier with a failed must gate is the last to run, but runs
// completely, so that its findings are complete.
func (o *operation) judge(ctx context.Context, r *attemptResult, out edn.Value) (quality.Verdict, bool) {
	p := o.w.Policy
	gates := p.gates
	o.unsound = false
	if len(gates) == 0 && p.judgePanel == nil {
		return quality.Decide(nil, p.scoreMin, nil), false
	}
	subject := quality.Subject{Result: out, Meta: r.meta, Schema: p.out, SchemaName: p.outName}
	if len(gates) > 1 || len(gates) == 1 && gates[0].Name != quality.SchemaValid {
		subject.Request = p.subject(o.w.Input)
		subject.System = o.w.System
		if r.prompt.System != "" {
			subject.System = r.prompt.System
		}
		if o.w.Around != nil {
			subject.Env = o.w.Around.Env
		}
	}
	results := o.scratch.results[:0]
	if len(gates) > 1 || o.number > 1 || p.judgePanel != nil {
		results = make([]quality.Result, 0, len(gates)+1)
	}
	for len(gates) > 0 {
		tier := gates[0].Tier()
		n := slices.IndexFunc(gates, func(g quality.Gate) bool { return g.Tier() != tier })
		if n < 0 {
			n = len(gates)
		}
		before := len(results)
		results = results[:before+n]
		if tier == quality.TierCapability {
			o.askTier(ctx, r, gates[:n], subject, results[before:])
		} else {
			o.judgeTier(r, gates[:n], subject, results[before:])
		}
		gates = gates[n:]
		if o.failed != nil || quality.MustFailed(results) {
			break
		}
	}
	last, asked := o.gradeAnswer(ctx, r, subject, results)
	if asked {
		results = append(results, last)
	}
	return quality.Decide(results, p.scoreMin, last.Grade), asked || len(results) > 0
}

// judgeTier runs the built-in checks of one tier.
func (o *operation) judgeTier(r *attemptResult, gates []quality.Gate, subject quality.Subject,
	results []quality.Result) {
	for i, g := range gates {
		if g.Check == nil {
			results[i] = quality.Unknown(g)
		} else {
			results[i] = quality.Result{Gate: g, Outcome: g.Check.Run(subject)}
		}
		o.verdict(r, &results[i], checked{})
	}
}

// askTier calls the checking capabilities of one tier in parallel and records
// their verdicts in order.
func (o *operation) askTier(ctx context.Context, r *attemptResult, gates []quality.Gate, subject quality.Subject,
	results []quality.Result) {
	served := make([]checked, len(gates))
	var group sync.WaitGroup
	for i, g := range gates {
		results[i].Gate = g
		group.Go(func() { results[i].Outcome, served[i] = o.runCheckSafely(ctx, r, g.Check, subject) })
	}
	group.Wait()
	for i := range results {
		o.verdict(r, &results[i], served[i])
	}
}

// verdict records the result of one gate.
func (o *operation) verdict(r *attemptResult, result *quality.Result, by checked) {
	for k := range result.Findings {
		result.Findings[k].Severity = result.Gate.Severity
	}
	v := o.verdictRecord()
	*v = journal.GateVerdict{
		Attempt:       r.number,
		Gate:          result.Gate.Name,
		Severity:      result.Gate.Severity.String(),
		Tier:          int(result.Gate.Tier()),
		Pass:          !result.Failed(),
		NotApplicable: result.NotApplicable,
		CapID:         by.capID,
		CapVersion:    by.version,
		Latency:       by.latency,
		Usage:         by.usage,
		Err:           by.err,
	}
	if by.err != nil && by.err.Type == "budget/exceeded" && result.Failed() {
		o.unevaluated = by.err
	}
	if len(result.Findings) > 0 {
		v.Findings = journal.RefTo(quality.FindingsValue(result.Findings))
	}
	o.record(v)
}

func findingsValue(v *quality.Verdict) edn.Value { return quality.FindingsValue(v.Findings()) }

// gateError is the failure for an answer that the gates refused.
func (o *operation) gateError(r *attemptResult, v *quality.Verdict, findings edn.Value) *contract.Error {
	kind, id := "", o.w.Node
	if r.capability != nil {
		kind, id = r.capability.Kind, ":"+r.capability.ID
	}
	found := v.Findings()
	var e *contract.Error
	switch {
	case len(found) > 0:
		e = contract.Errorf(v.FailureType, "node %s: the answer of %s was refused by :%s: %s", o.w.Node, id,
			found[0].Gate, found[0].Message)
		if last := v.Results[len(v.Results)-1]; last.Grade != nil && v.FailureType == quality.FailLowScore {
			e.Message += fmt.Sprintf("; with its other gates it scored %s, and %s is the least", digits(v.Score),
				digits(v.ScoreMin))
		}
	default:
		e = contract.Errorf(v.FailureType, "node %s: the answer of %s scored %s, %s is the least", o.w.Node, id,
			v.Score.Value(), v.ScoreMin.Value())
	}
	return e.WithSource(contract.GateSource(kind)).
		WithDetail("findings", findings).
		WithDetail("score", v.Score.Value()).
		WithDetail("score-min", v.ScoreMin.Value())
}
