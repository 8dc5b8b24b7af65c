package main

import (
	"context"
	"math/big"
	"slices"

	"github.com/fermenthq/ferment/plugins/judge/internal/question"
	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/plugins/judge/internal/rules"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// surface is the limitation that each verdict by rules states.
const surface = "rules see the form of a text only: words, numbers, length and patterns, not whether it is true"

// rulesJudge implements the capability judge/rules for texts in the languages.
type rulesJudge struct{ languages *text.Packs }

func (j rulesJudge) judge(_ context.Context, v edn.Value) (edn.Value, error) {
	in, err := readInput(v)
	if err != nil {
		return edn.Nil(), err
	}
	r, err := rubric.Parse(in.rubric, in.scale)
	if err != nil {
		return edn.Nil(), err
	}
	if r.Rules.IsNil() {
		return edn.Nil(), noScore("the rubric has no rules, and its criteria need a model").
			WithHint("declare a model that serves :model/chat, or give the rubric rules")
	}
	set, err := rules.Parse(r.Rules)
	if err != nil {
		return edn.Nil(), err
	}
	out := verdict{criteria: map[string]*big.Rat{}, why: map[string][]string{}}
	said := set.Judge(j.subject(in, in.task.Result))
	if said.Score == nil {
		return edn.Nil(), noScore("no rule found the data that it checks in the answer").
			WithHint("check the sources that the rules name")
	}
	out.addRules(said)
	all := new(big.Rat).Set(said.Weight)
	for _, c := range r.Criteria { // a rule with the name of a criterion replaces it
		if _, judged := said.Outcomes[c.ID]; !judged {
			all.Add(all, c.Weight)
			out.limits = append(out.limits, "criterion "+c.ID+" needs a model and was not judged")
		}
	}
	out.total, out.coverage = said.Score, all.Quo(said.Judged, all)
	if in.pairwise() {
		other := set.Judge(j.subject(in, in.task.Other))
		if other.Score == nil {
			return edn.Nil(), noScore("no rule found the data that it checks in the other answer").
				WithHint("check the sources that the rules name")
		}
		choice := compared(said.Score, other.Score)
		out.total = won(choice)
		out.more.Key("winner", winner(choice))
	}
	return out.value(in.terms, "deterministic", edn.Hash(edn.Vector(edn.Text(rulesCap), edn.Text(version), r.Rules))), nil
}

// noScore returns the error of a grade that rules cannot give. Unlike a model they would answer the
// same again, so the error makes the host use the next candidate.
func noScore(message string) *contract.Error {
	return contract.Errorf("judge/no-score", "%s", message).WithClass(contract.ClassSwitch).WithRetryable(false)
}

// compared compares two scores as they are written, that is, after rounding: -1, 0 or 1.
func compared(a, b *big.Rat) int {
	x, _ := score.Rounded(a).AsNumber()
	y, _ := score.Rounded(b).AsNumber()
	return x.Cmp(y)
}

// textKeys are the keys of an answer that may hold its text.
var textKeys = []string{"text", "content", "code", "patch", "summary", "answer", "explanation"}

func (j rulesJudge) subject(in input, result edn.Value) rules.Subject {
	x := rules.Subject{Input: in.raw, Languages: j.languages,
		Language: word(in.task.Call.Key("constraints").Key("language"))}
	content := question.Content(result)
	for _, key := range textKeys {
		if s, ok := content.Key(key).AsString(); ok {
			x.Text = s
			return x
		}
	}
	x.Text = question.Text(content)
	return x
}

// inOrder sorts values by their written form.
func inOrder(list []edn.Value) []edn.Value {
	slices.SortFunc(list, edn.Compare)
	return list
}
