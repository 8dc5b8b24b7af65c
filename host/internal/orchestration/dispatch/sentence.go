package dispatch

import (
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// conclusion makes the result of a gate of a judgement, and records it.
func (o *operation) conclusion(r *attemptResult, b *bench, g *grade) quality.Result {
	sev := b.j.severity(b.cal, g)
	result := quality.Result{Gate: quality.Gate{Name: b.j.gate, Severity: sev, Judge: b.j.judge.Name}}
	v := &journal.GateVerdict{
		Attempt: r.number, Gate: result.Gate.Name, Severity: sev.String(), Tier: int(quality.TierJudge),
		CapID: b.by.capID, CapVersion: b.by.version, Latency: b.by.latency, JudgeCalls: b.calls,
	}
	if len(b.usages) > 0 {
		v.Usage = journal.SumUsage(b.usages...)
	}
	o.unsound = b.unsound
	switch {
	case b.cal.Worthless != "" && b.cal.Drift == "":
		result.Outcome = quality.NotApplicable("judge " + b.j.judge.Name + " weighs nothing and was not asked: " + b.cal.Worthless)
	case g == nil:
		result.Outcome = b.failure()
		v.Err = b.by.err
		if sev == quality.Must && result.Failed() {
			o.unpaid = b.unjudged(o)
		}
	default:
		// An equal answer may have been graded for somebody who asked for less.
		least, _ := quality.ScoreOf(b.least)
		result.Outcome = quality.Outcome{Pass: g.rounded >= least}
		switch {
		case !b.j.weighs(b.cal, g):
			result.Outcome = quality.NotApplicable("judge " + b.j.judge.Name + " gave " + digits(g.rounded) +
				", which does not count: " + b.doubt(g) + ", and on_error = \"ignore\"")
		case result.Pass:
			result.Grade = g.score
		default:
			result.Grade = g.score
			result.Findings = []quality.Finding{b.finding(g, least)}
		}
		v.CapID, v.CapVersion, v.JudgeKey, v.Memo = g.capID, g.version, g.key, b.memo
		v.Score, v.Votes = journal.ScoreOf(int64(g.rounded)), g.votes
	}
	result = result.Named()
	v.Pass, v.NotApplicable = !result.Failed(), result.NotApplicable
	if len(result.Findings) > 0 {
		v.Findings = journal.RefTo(quality.FindingsValue(result.Findings))
	}
	o.record(v)
	return result
}

// failure is the outcome of a judge that gave no grade (JDG-005).
func (b *bench) failure() quality.Outcome {
	f := quality.Finding{Code: quality.JudgeFailed, Message: "judge " + b.j.judge.Name + " gave no grade: " + b.by.err.FullMessage(), Fix: b.by.err.Hint}
	if b.j.judge.IgnoreErrors {
		f.Message += "; on_error = \"ignore\" has the answer pass without it"
		return quality.Outcome{Pass: true, NotApplicable: true, Findings: []quality.Finding{f}}
	}
	return quality.Failed(f)
}

// unjudged is the failure of an attempt that a judge had to judge and did not.
func (b *bench) unjudged(o *operation) *contract.Error {
	if b.by.err.Type == "budget/exceeded" {
		return b.by.err
	}
	return contract.Errorf("judge/failed", "node %s: judge %s gave no grade for the answer of :%s: %s", o.w.Node, b.j.judge.Name, b.attempt.capability.ID, b.by.err.FullMessage()).
		WithCause(b.by.err).WithDetail("judge", edn.Text(b.j.judge.Name))
}

// finding says which judge gave which grade, what would have been enough, and
// what it found wanting.
func (b *bench) finding(g *grade, least quality.Score) quality.Finding {
	var m strings.Builder
	m.WriteString("judge " + b.j.judge.Name + " (:" + g.capID + ") gave " + digits(g.rounded) + ", and " + digits(least) + " is the least")
	if votes := g.ballot.Scores(); len(votes) > 1 {
		m.WriteString(" (votes")
		for _, vote := range votes {
			m.WriteString(" " + digits(quality.RoundScore(vote)))
		}
		m.WriteString(")")
	}
	if b.short {
		m.WriteString("; the first vote stands, because nothing was left for another")
	}
	if b.memo {
		m.WriteString("; it has graded the same answer before")
	}
	if b.j.must && b.j.severity(b.cal, g) != quality.Must {
		m.WriteString("; it only counts in the score, because " + b.doubt(g))
	}
	for _, part := range []struct{ key, is string }{{"criteria", "criteria"}, {"violations", "violations"}} {
		if v := g.says.Key(part.key); v.Len() > 0 {
			m.WriteString("; " + part.is + " " + v.String())
		}
	}
	return quality.Finding{Code: quality.LowGrade, Message: m.String()}
}

// doubt is why a judge refuses nothing by itself.
func (b *bench) doubt(g *grade) string {
	switch {
	case !b.cal.Known:
		return "the judge was not calibrated"
	case b.cal.Kappa < b.j.judge.MinKappa:
		return "the judge agrees too little with labelled answers"
	case b.cal.CapID != g.capID:
		return "it was calibrated with :" + b.cal.CapID
	}
	return "it has changed since it was calibrated"
}

// digits is a score as people write it.
func digits(s quality.Score) string { return strings.TrimSuffix(s.Value().String(), "M") }
