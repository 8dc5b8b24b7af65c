package quality

import (
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Failure types of a gated answer (GATE-004).
const (
	FailSchema   = "schema/invalid"
	FailMust     = "eval/must-failed"
	FailLowScore = "eval/low-score"
)

// Result is the outcome of one gate.
type Result struct {
	Gate Gate
	Outcome
	// Grade is the score of a judge; nil for other gates and for a failed
	// judge.
	Grade *big.Rat
}

// Failed reports whether the gate failed. A check that does not apply fails only if it is a
// must with Evidence set (TXT-007).
func (r *Result) Failed() bool {
	if r.NotApplicable {
		return r.Gate.Severity == Must && r.Gate.Check != nil && r.Gate.Check.Evidence
	}
	return !r.Pass
}

// Value returns the result as an entry of `:quality :checks`.
func (r *Result) Value() edn.Value {
	score, applicable, findings := edn.Nil(), edn.Nil(), edn.Nil()
	if r.Grade != nil {
		score = RoundScore(r.Grade).Value()
	}
	if r.NotApplicable {
		applicable = edn.Bool(false)
	}
	if len(r.Findings) > 0 {
		findings = FindingsValue(r.Findings)
	}
	return resultLayout.Present(edn.K(r.Gate.Name), edn.K(r.Gate.Severity.String()), edn.Bool(!r.Failed()), score,
		applicable, findings)
}

var (
	resultLayout  = edn.NewLayout("gate", "severity", "pass", "score", "applicable?", "findings")
	verdictLayout = edn.NewLayout("must-pass?", "score", "checks")
)

// Unknown returns the failed result of a gate whose name no check has.
func Unknown(g Gate) Result {
	return Result{Gate: g, Outcome: Failed(Finding{
		Gate: g.Name, Severity: g.Severity, Code: CheckError, Message: "no check is named :" + g.Name,
	})}
}

// Verdict is the combined result of the gates.
type Verdict struct {
	Pass     bool
	MustPass bool
	Score    Score
	ScoreMin Score
	// FailureType is one of the Fail constants, "" if the answer passed.
	FailureType string
	Results     []Result
}

// Findings returns the findings of failed gates, musts first.
func (v *Verdict) Findings() []Finding {
	var out []Finding
	for _, sev := range []Severity{Must, Should} {
		for i := range v.Results {
			if r := &v.Results[i]; r.Gate.Severity == sev && r.Failed() {
				out = append(out, r.Findings...)
			}
		}
	}
	return out
}

// Value returns the verdict in the form of `:quality` of a response.
func (v *Verdict) Value() edn.Value {
	var room [4]edn.Value
	checks := room[:0]
	for i := range v.Results {
		checks = append(checks, v.Results[i].Value())
	}
	return verdictLayout.Map(edn.Bool(v.MustPass), v.Score.Value(), edn.Vector(checks...))
}

// Decide computes the verdict (GATE-004, GATE-007). Gates that did not run because a
// cheaper tier failed are absent from results. judge is the score of a judge, which enters
// the mean; nil if there is none. A judge among the results that gave a grade counts as a
// must, never as a should; a failed judge counts like a failed check (JDG-005). scoreMin is
// rounded like the score.
func Decide(results []Result, scoreMin edn.Value, judge *big.Rat) Verdict {
	v := Verdict{MustPass: true, Results: results}
	v.ScoreMin, _ = ScoreOf(scoreMin)
	passed, total := 0, 0
	schema := false
	for i := range results {
		r := &results[i]
		failed := r.Failed()
		if r.Gate.Severity == Must {
			if failed {
				v.MustPass = false
				schema = schema || r.Gate.Name == SchemaValid
			}
			continue
		}
		if r.NotApplicable || r.Grade != nil {
			continue
		}
		total++
		if !failed {
			passed++
		}
	}
	v.Score = mean(passed, total, judge)
	switch {
	case schema:
		v.FailureType = FailSchema
	case !v.MustPass:
		v.FailureType = FailMust
	case v.Score < v.ScoreMin:
		v.FailureType = FailLowScore
	}
	v.Pass = v.FailureType == ""
	return v
}

// JudgeMatters reports whether a judge can change the verdict after the cheaper
// gates: no must has failed, and the best score of a judge would suffice
// (GATE-008).
func JudgeMatters(results []Result, scoreMin edn.Value) bool {
	best := Decide(results, scoreMin, big.NewRat(1, 1))
	return best.Pass
}

// small bounds numbers whose products do not overflow.
const small = 1 << 20

func mean(passed, total int, judge *big.Rat) Score {
	if judge == nil {
		return ratio(passed, total)
	}
	if n, d := judge.Num(), judge.Denom(); n.IsInt64() && d.IsInt64() && n.Sign() >= 0 && n.Int64() <= small && d.Int64() <= small && total <= small {
		if total == 0 {
			passed, total = 1, 1
		}
		a, b := int(n.Int64()), int(d.Int64())
		return ratio(passed*b+a*total, 2*total*b)
	}
	should := big.NewRat(1, 1)
	if total > 0 {
		should.SetFrac64(int64(passed), int64(total))
	}
	should.Add(should, judge)
	return RoundScore(should.Quo(should, big.NewRat(2, 1)))
}

// MustFailed reports whether any must gate failed. The gates of later tiers are then not
// run.
func MustFailed(results []Result) bool {
	for i := range results {
		if results[i].Gate.Severity == Must && results[i].Failed() {
			return true
		}
	}
	return false
}
