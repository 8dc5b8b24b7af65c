package dispatch

import (
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// recordGrade converts a grade to the result of its gate and records it.
func (j *judging) recordGrade(v *voting, g *grade) quality.Result {
	sev := v.j.severity(v.weight, g)
	result := quality.Result{Gate: quality.Gate{Name: v.j.gate, Severity: sev, Judge: v.j.judge.Name}}
	rec := &journal.GateVerdict{
		Attempt: j.a.number, Gate: result.Gate.Name, Severity: sev.String(), Tier: int(quality.TierJudge),
		CapID: v.by.capID, CapVersion: v.by.version, Latency: v.by.latency, JudgeCalls: v.calls,
	}
	if len(v.usages) > 0 {
		rec.Usage = journal.SumUsage(v.usages...)
	}
	j.unsound = v.unsound
	switch {
	case v.weight.Worthless() != "":
		result.Outcome = quality.NotApplicable("judge " + v.j.judge.Name + " has no weight and was not called: " +
			v.weight.Worthless())
	case g == nil:
		result.Outcome = v.failure()
		rec.Err = v.by.err
		if sev == quality.Must && result.Failed() {
			j.unevaluated = v.unjudged(j.n.w.Node)
		}
	default:
		if w, ok := j.n.d.Calibrations.(GradeObserver); ok && !v.memoized {
			w.Graded(v.j.judge.Name, g.by(), g.rounded)
		}
		// A cached grade may be from a call with another minimum.
		least, _ := quality.ScoreOf(v.least)
		result.Outcome = quality.Outcome{Pass: g.rounded >= least}
		switch {
		case !v.j.counts(v.weight, g):
			result.Outcome = quality.NotApplicable("judge " + v.j.judge.Name + " gave " + digits(g.rounded) +
				", which does not count: " + v.doubt(g) + ", and on_error = \"ignore\"")
		case result.Pass:
			result.Grade = g.score
		default:
			result.Grade = g.score
			result.Findings = []quality.Finding{v.finding(g, least)}
		}
		rec.CapID, rec.CapVersion, rec.JudgeKey, rec.Memo = g.capID, g.version, g.key, v.memoized
		rec.Score, rec.Votes = journal.ScoreOf(int64(g.rounded)), g.votes
	}
	result = result.Named()
	rec.Pass, rec.NotApplicable = !result.Failed(), result.NotApplicable
	if len(result.Findings) > 0 {
		rec.Findings = journal.RefTo(quality.FindingsValue(result.Findings))
	}
	j.n.Record(rec)
	return result
}

// failure is the outcome without a grade (JDG-005).
func (v *voting) failure() quality.Outcome {
	f := quality.Finding{Code: quality.JudgeFailed, Message: "judge " + v.j.judge.Name + " gave no grade: " +
		v.by.err.FullMessage(), Fix: v.by.err.Hint}
	if v.j.judge.IgnoreErrors {
		f.Message += "; on_error = \"ignore\" has the answer pass without it"
		return quality.Outcome{Pass: true, NotApplicable: true, Findings: []quality.Finding{f}}
	}
	return quality.Failed(f)
}

// unjudged is the failure of an attempt whose judge is a must gate but gave no
// grade.
func (v *voting) unjudged(node string) *contract.Error {
	if v.by.err.Type == "budget/exceeded" {
		return v.by.err
	}
	return contract.Errorf("judge/failed", "node %s: judge %s gave no grade for the answer of :%s: %s", node,
		v.j.judge.Name, v.attempt.capability.ID, v.by.err.FullMessage()).
		WithCause(v.by.err).WithDetail("judge", edn.Text(v.j.judge.Name))
}

// finding describes a grade below the minimum, with votes and criteria.
func (v *voting) finding(g *grade, least quality.Score) quality.Finding {
	var m strings.Builder
	m.WriteString("judge " + v.j.judge.Name + " (:" + g.capID + ") gave " + digits(g.rounded) + ", expected at least " +
		digits(least))
	if votes := g.ballot.Scores(); len(votes) > 1 {
		m.WriteString(" (votes")
		for _, vote := range votes {
			m.WriteString(" " + digits(quality.RoundScore(vote)))
		}
		m.WriteString(")")
	}
	if v.votesSkipped {
		m.WriteString("; the first vote decides, because the budget does not cover another")
	}
	if v.memoized {
		m.WriteString("; it has graded the same answer before")
	}
	if v.j.must && v.j.severity(v.weight, g) != quality.Must {
		m.WriteString("; it only counts in the score, because " + v.doubt(g))
	}
	for _, part := range []struct{ key, is string }{{"criteria", "criteria"}, {"violations", "violations"}} {
		if list := g.says.Key(part.key); list.Len() > 0 {
			m.WriteString("; " + part.is + " " + list.String())
		}
	}
	return quality.Finding{Code: quality.LowGrade, Message: m.String()}
}

// doubt returns why a low grade of the judge does not refuse the answer by itself.
func (v *voting) doubt(g *grade) string {
	switch {
	case v.weight.Standing == calibration.Expired:
		return "the calibration of the judge has expired"
	case v.weight.CapID != "" && v.weight.CapID != g.capID:
		return "it was calibrated with :" + v.weight.CapID
	case !v.weight.Covers(calibration.Grader{}):
		return "the judge was not calibrated"
	case !v.weight.Agrees:
		return "the judge agrees too little with labelled answers"
	case v.weight.Unmeasured(g.by()) != "":
		return "it was calibrated with another model than " + v.weight.Unmeasured(g.by())
	}
	return "it has changed since it was calibrated"
}

// digits formats a score as a decimal.
func digits(s quality.Score) string { return strings.TrimSuffix(s.Value().String(), "M") }
