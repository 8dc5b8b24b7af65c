package main

import (
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/plugins/judge/internal/rules"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/edn"
)

// verdict is the answer of a judge, in the form of res/eval.
type verdict struct {
	total *big.Rat
	// coverage is the judged share of the rubric; nil: all of it.
	coverage *big.Rat
	criteria map[string]*big.Rat
	// why holds the findings by criterion.
	why map[string][]string
	// limits state what the verdict does not cover.
	limits []string
	// said holds the fields under :judge except the vote.
	said edn.MapBuilder
	// more holds further keys of the answer.
	more edn.MapBuilder
}

// half is the score below which a criterion counts as violated.
var half = big.NewRat(1, 2)

func (v *verdict) value(t terms, kind, key string) edn.Value {
	total := score.Rounded(v.total)
	var criteria edn.MapBuilder
	var violated, findings []edn.Value
	for id, x := range v.criteria {
		criteria.Key(id, score.Rounded(x))
		if x.Cmp(half) < 0 {
			violated = append(violated, edn.K(id))
		}
	}
	for id, messages := range v.why {
		for _, m := range messages {
			findings = append(findings, edn.MustMap(edn.K("criterion"), edn.K(id), edn.K("message"), edn.Text(m)))
		}
	}
	v.said.Key("kind", edn.K(kind))
	v.said.Key("key", edn.Text(key))
	v.said.Key("votes", edn.Vector(total))
	v.said.Key("calibration", t.calibration)
	v.more.Key("score", total)
	v.more.Key("violations", edn.SetOf(violated...))
	v.more.Key("retry?", edn.Bool(len(violated) > 0))
	v.more.Key("criteria", criteria.Map())
	v.more.Key("judge", v.said.Map())
	if v.coverage != nil && v.coverage.Cmp(big.NewRat(1, 1)) < 0 {
		v.more.Key("coverage", score.Rounded(v.coverage))
	}
	if len(findings) > 0 {
		v.more.Key("findings", edn.Vector(inOrder(findings)...))
	}
	if len(v.limits) > 0 {
		limits := make([]edn.Value, len(v.limits))
		for i, l := range v.limits {
			limits[i] = edn.Text(l)
		}
		v.more.Key("limits", edn.Vector(limits...))
	}
	return v.more.Map()
}

// addRules adds the results of rules, and the limits of rules in general and of those that had nothing
// to judge.
func (v *verdict) addRules(said rules.Verdict) {
	var idle []string
	for id, o := range said.Outcomes {
		if o.Score == nil {
			idle = append(idle, "rule "+id+" did not find the data that it checks")
			continue
		}
		v.criteria[id], v.why[id] = o.Score, o.Findings
	}
	if len(said.Outcomes) > 0 {
		slices.Sort(idle)
		v.limits = append(append(v.limits, surface), idle...)
	}
}

// won returns the score of a compared answer: 1 if it was preferred (choice 1), 0 if the other one
// was (-1), and 1/2 if neither was (0).
func won(choice int) *big.Rat { return big.NewRat(int64(choice)+1, 2) }

func winner(choice int) edn.Value {
	return edn.K([]string{"other", "tie", "result"}[choice+1])
}
