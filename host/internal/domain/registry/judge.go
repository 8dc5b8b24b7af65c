package registry

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Judge declares how answers are graded: the intent that is called, the rubric, and the trust in
// the grades. Its gate runs last among the gates of the intents that use it.
type Judge struct {
	// Name is the name of the judge in the settings of an intent.
	Name string
	// Intent is the intent that is called for a grade. Capability, if set, is its first
	// candidate.
	Intent, Capability string
	// Enabled is false if the judge is not called.
	Enabled bool
	// Rubric holds the grading criteria, nil if the capability has its own.
	Rubric edn.Value
	// ScorePath is the path of the score in the answer of the judge.
	ScorePath []string
	// MaxAttempts is the number of attempts of one capability for one grade.
	MaxAttempts int
	// Votes is the maximum number of grades of an answer whose first grade
	// fails it; odd.
	Votes int
	// IgnoreErrors treats a judge that failed as absent.
	IgnoreErrors bool
	// AllowSameFamily permits a model to judge answers of its own model family.
	AllowSameFamily bool
	// Memo caches grades of equal answers to equal tasks.
	Memo bool
	// MinKappa is the minimum Cohen's kappa against labelled answers; below it a low grade
	// alone does not reject an answer. Drift is the loss of kappa at which the judge is no
	// longer called. Recheck is the lifetime of a calibration.
	MinKappa, Drift float64
	Recheck         time.Duration
	// Plain is true if the judge only affects scores and is deterministic: it
	// rejects nothing by itself and cannot change, so it needs no calibration.
	Plain bool
	// Anchors is the file of labelled answers, empty if there is none.
	Anchors string
	// Where is the place in the configuration.
	Where string
}

// Scale returns the scale of the rubric, nil if there is no rubric.
func (j *Judge) Scale() edn.Value { return j.Rubric.Key("scale") }

// Task holds the material that a judge grades. All fields but Sample, Seed and AllowSameFamily are
// maps or nil.
type Task struct {
	// Call is the request and Result its answer. Done is the :done of the request, Env the
	// :task/env of a labelled answer. If Other is set, the judge compares the two answers.
	Call, Result, Done, Env, Other edn.Value
	// Author describes the author of the result.
	Author edn.Value
	// Sample is the number of this grade among those requested for one task, Seed its random seed.
	Sample, Seed int64
	// AllowSameFamily permits a model to judge answers of its own model family.
	AllowSameFamily bool
}

// Question returns the input of the judge's intent (JDG-001).
func (j *Judge) Question(t Task) edn.Value {
	var m, about edn.MapBuilder
	for _, part := range []struct {
		key string
		v   edn.Value
	}{{"task/call", t.Call}, {"task/result", t.Result}, {"task/done", t.Done}, {"task/env", t.Env}} {
		if !part.v.IsMap() {
			part.v = edn.MustMap()
		}
		m.Key(part.key, part.v)
	}
	m.Opt("task/other", t.Other)
	about.Key("sample", edn.Int(t.Sample))
	about.Key("seed", edn.Int(t.Seed))
	about.Key("author", t.Author)
	about.Key("allow-same-family?", edn.Bool(t.AllowSameFamily))
	path := make([]edn.Value, len(j.ScorePath))
	for i, step := range j.ScorePath {
		path[i] = edn.Text(step)
		if k, err := edn.Keyword(step); err == nil {
			path[i] = k
		}
	}
	about.Key("score-path", edn.Vector(path...))
	if !j.Rubric.IsNil() {
		m.Key("rubric", j.Rubric)
		about.Key("scale", j.Scale())
	}
	m.Key("judge", about.Map())
	return m.Map()
}

// ScoreRules returns the rules for reading the score from the answer of a capability to a
// judge. The scale of the rubric does not apply to the schema res/eval, whose score is
// between 0 and 1.
func (r *Registry) ScoreRules(j *Judge, c *Capability) contract.ScoreRules {
	rules := contract.ScoreRules{Path: j.ScorePath, Scale: j.Scale()}
	out := c.OutSchema.For(j.Intent)
	if in, ok := r.Intent(j.Intent); ok && in.Out != "" {
		out = in.Out
	}
	if out == "res/eval" {
		rules.Scale = edn.Nil()
	}
	return rules
}

// IntentGrade is called by judges that name no other intent. IntentChat is called by capabilities that
// grade with a model, unless their plugin is configured to call another intent.
const (
	IntentGrade = "eval/grade"
	IntentChat  = "model/chat"
)

// JudgeMust is the severity of a judge whose verdict an answer must pass, in the
// policy of an intent.
const JudgeMust = "must"
