package registry

import (
	"time"

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
	// Anchors is the file of labelled answers, empty if there is none.
	Anchors string
	// Where is the place in the configuration.
	Where string
}

// Scale is that of the rubric, nil if there is no rubric.
func (j *Judge) Scale() edn.Value { return j.Rubric.Key("scale") }

// IntentGrade is asked by judges that name no other intent.
const IntentGrade = "eval/grade"

// The severities of a judge in the policy of an intent.
const (
	JudgeMust   = "must"
	JudgeShould = "should"
)
