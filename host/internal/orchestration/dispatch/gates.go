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

// judging evaluates one answer with the gates of its node.
type judging struct {
	n           *node
	a           *attempt        // whose answer it is
	unsound     bool            // the breaker of the judge was not closed
	unevaluated *contract.Error // why a check or judge could not evaluate the answer

	// Space for one gate. A record in it is written once and then belongs to the
	// journal.
	results [1]quality.Result
	record  journal.GateVerdict
	written bool // record is in use
}

// run runs the gates of the node on the answer of an attempt, tier by tier, the
// judge last. The first tier with a failed must gate is the last to run, but
// runs completely, so that its findings are complete. The bool reports whether any gate
// has a result.
func (j *judging) run(ctx context.Context, a *attempt, out edn.Value) (quality.Verdict, bool) {
	j.n, j.a = a.n, a
	w, p := j.n.w, j.n.w.Policy
	gates := p.gates
	if len(gates) == 0 && p.judgePanel == nil {
		return quality.Decide(nil, p.scoreMin, nil), false
	}
	subject := quality.Subject{
		Result:     out,
		Meta:       a.meta,
		Schema:     p.out,
		SchemaName: p.outName,
	}
	if len(gates) > 1 || len(gates) == 1 && gates[0].Name != quality.SchemaValid {
		subject.Request = p.subject(w.Input)
		subject.System = w.System
		if a.prompt.System != "" {
			subject.System = a.prompt.System
		}
		if w.Around != nil {
			subject.Env = w.Around.Env
		}
	}
	results := j.results[:0]
	if len(gates) > 1 || p.judgePanel != nil {
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
			j.askTier(ctx, gates[:n], subject, results[before:])
		} else {
			j.judgeTier(gates[:n], subject, results[before:])
		}
		gates = gates[n:]
		if j.n.failed != nil || quality.MustFailed(results) {
			break
		}
	}
	last, asked := j.gradeAnswer(ctx, subject, results)
	if asked {
		results = append(results, last)
	}
	return quality.Decide(results, p.scoreMin, last.Grade), asked || len(results) > 0
}

// judgeTier runs the built-in checks of one tier.
func (j *judging) judgeTier(gates []quality.Gate, subject quality.Subject, results []quality.Result) {
	for i, g := range gates {
		if v := j.pastVerdict(g.Name); v != nil {
			results[i] = quality.Result{Gate: g, Outcome: outcomeOf(v)}
		} else if g.Check == nil {
			results[i] = quality.Unknown(g)
		} else {
			results[i] = quality.Result{Gate: g, Outcome: g.Check.Run(subject)}
		}
		j.verdict(&results[i], checked{})
	}
}

// askTier calls the checking capabilities of one tier in parallel and records
// their verdicts in order.
func (j *judging) askTier(ctx context.Context, gates []quality.Gate, subject quality.Subject,
	results []quality.Result) {
	served := make([]checked, len(gates))
	var group sync.WaitGroup
	for i, g := range gates {
		results[i].Gate = g
		if v := j.pastVerdict(g.Name); v != nil {
			results[i].Outcome = outcomeOf(v)
			continue
		}
		group.Go(func() { results[i].Outcome, served[i] = j.runCheckSafely(ctx, g.Check, subject) })
	}
	group.Wait()
	for i := range results {
		j.verdict(&results[i], served[i])
	}
}

// verdict records the result of one gate.
func (j *judging) verdict(result *quality.Result, by checked) {
	for k := range result.Findings {
		result.Findings[k].Severity = result.Gate.Severity
	}
	if v := j.pastVerdict(result.Gate.Name); v != nil && v.Pass != result.Failed() {
		if j.recallFailure(v); j.n.run.Fill != nil {
			j.repeatVerdict(v, result.Gate.Severity)
		}
		return // it is recorded
	}
	v := &j.record
	if j.written {
		v = new(journal.GateVerdict)
	}
	j.written = true
	*v = journal.GateVerdict{
		Attempt:       j.a.number,
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
		j.unevaluated = by.err
	}
	if len(result.Findings) > 0 {
		v.Findings = journal.RefTo(quality.FindingsValue(result.Findings))
	}
	j.n.Record(v)
}

func findingsValue(v *quality.Verdict) edn.Value { return quality.FindingsValue(v.Findings()) }

// refusal is the failure for an answer that the gates refused.
func (j *judging) refusal(v *quality.Verdict, findings edn.Value) *contract.Error {
	kind, id := j.a.capability.Kind, ":"+j.a.capability.ID
	found := v.Findings()
	var e *contract.Error
	switch {
	case len(found) > 0:
		e = contract.Errorf(v.FailureType, "node %s: the answer of %s was refused by :%s: %s", j.n.w.Node, id,
			found[0].Gate, found[0].Message)
		if last := v.Results[len(v.Results)-1]; last.Grade != nil && v.FailureType == quality.FailLowScore {
			e.Message += fmt.Sprintf("; together with its other gates it scored %s, expected at least %s", digits(v.Score),
				digits(v.ScoreMin))
		}
	default:
		e = contract.Errorf(v.FailureType, "node %s: the answer of %s scored %s, expected at least %s", j.n.w.Node, id,
			v.Score.Value(), v.ScoreMin.Value())
	}
	return e.WithSource(contract.GateSource(kind)).
		WithDetail("findings", findings).
		WithDetail("score", v.Score.Value()).
		WithDetail("score-min", v.ScoreMin.Value())
}
