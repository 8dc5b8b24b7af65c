package registry

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Judge declares who grades answers, by which rubric, and how far the grade is
// believed. It runs last among the gates of the intents that use it.
type Judge struct {
	// Name is how intents name the judge.
	Name string
	// Intent is asked for a grade; Capability, if set, is who is asked first.
	Intent, Capability string
	// Enabled is false if nobody is asked.
	Enabled bool
	// Rubric is what the judge grades by, nil if it has one of its own.
	Rubric edn.Value
	// ScorePath leads to the score in the answer of the judge.
	ScorePath []string
	// MaxAttempts is how often one capability is asked for one grade.
	MaxAttempts int
	// Votes is the most grades that an answer gets that fails by the first one;
	// an odd number.
	Votes int
	// IgnoreErrors takes a judge that fails for one that was not there.
	IgnoreErrors bool
	// AllowSameFamily lets a model judge what a model of its family wrote.
	AllowSameFamily bool
	// Memo has equal answers to equal tasks graded once.
	Memo bool
	// MinKappa is the agreement with labelled answers below which the judge
	// refuses nothing by itself, Drift by how much it may fall before the judge
	// is not asked any more, and Recheck how long a calibration holds.
	MinKappa, Drift float64
	Recheck         time.Duration
	// Plain tells that the judge only ever counts in scores, and by rules that always
	// say the same: it refuses nothing by itself and cannot change, so that there is
	// nothing to measure it for.
	Plain bool
	// Anchors is the file of labelled answers, empty if there is none.
	Anchors string
	// Where is the place in the configuration.
	Where string
}

// Scale is that of the rubric, nil if there is no rubric.
func (j *Judge) Scale() edn.Value { return j.Rubric.Key("scale") }

// Task is what a judge is asked about: all but Sample, Seed and AllowSameFamily
// are maps, or nil where there is nothing to say.
type Task struct {
	// Call is the request, Result what came of it, Done and Env what goes with
	// the request. With Other the question is which of two results is better.
	Call, Result, Done, Env, Other edn.Value
	// Author says who made the result.
	Author edn.Value
	// Sample tells several questions about one task apart.
	Sample, Seed int64
	// AllowSameFamily lets a model judge what a model of its family wrote.
	AllowSameFamily bool
}

// Question is the input of the intent of the judge (JDG-001).
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
	if !t.Other.IsNil() {
		m.Key("task/other", t.Other)
	}
	about.Key("sample", edn.Int(t.Sample))
	about.Key("seed", edn.Int(t.Seed))
	about.Key("author", t.Author)
	about.Key("allow-same-family?", edn.Bool(t.AllowSameFamily))
	about.Key("intent", edn.K(IntentChat))
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

// ScoreRules say how an answer of a capability to a judge is read. A score that
// its schema has from 0 to 1 is on no scale any more.
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

// IntentGrade is asked by judges that name no other intent, IntentChat by judges
// that ask a model.
const (
	IntentGrade = "eval/grade"
	IntentChat  = "model/chat"
)

// The severities of a judge in the policy of an intent.
const (
	JudgeMust   = "must"
	JudgeShould = "should"
)
