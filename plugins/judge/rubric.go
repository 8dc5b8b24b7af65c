package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/judge/internal/question"
	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/plugins/judge/internal/rules"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// rubricJudge implements the capability judge/rubric.
type rubricJudge struct {
	settings settings
	random   io.Reader
	rules    rulesJudge
}

// session is the state of one verdict.
type session struct {
	in      input
	judge   rubricJudge
	rubric  rubric.Rubric
	rules   rules.Set // those that are not about a criterion of the rubric
	intent  string
	compose question.Composer
	verdict verdict
}

func (j rubricJudge) judge(ctx context.Context, v edn.Value) (edn.Value, error) {
	in, err := readInput(v)
	if err != nil {
		return edn.Nil(), err
	}
	r, err := rubric.Parse(in.rubric, in.scale)
	if err != nil {
		return edn.Nil(), err
	}
	if err := r.Asks(); err != nil {
		return edn.Nil(), err
	}
	set, err := rulesBeside(r)
	if err != nil {
		return edn.Nil(), err
	}
	if err := in.kin(j.settings.Family, ""); err != nil {
		return edn.Nil(), err
	}
	mark, err := j.draw(16, v)
	if err != nil {
		return edn.Nil(), err
	}
	code, err := j.draw(6, v)
	if err != nil {
		return edn.Nil(), err
	}
	s := &session{in: in, judge: j, rubric: r, rules: set, intent: j.settings.Intent}
	if in.intent != "" {
		s.intent = in.intent
	}
	s.compose = question.Composer{
		Rubric:   r,
		Sample:   in.sample,
		Blind:    question.NewBlind(in.author.all()),
		Mark:     mark,
		Code:     code,
		MaxBytes: int(j.settings.MaxBytes),
	}
	if in.pairwise() {
		err = s.choose(ctx)
	} else {
		err = s.grade(ctx)
	}
	if err != nil {
		return edn.Nil(), err
	}
	return s.verdict.value(in.terms, "rubric", s.key()), nil
}

// maxDraws is the maximum number of draws for a text that does not occur in the input.
const maxDraws = 8

// draw returns 2n random hexadecimal digits that the input does not contain, so that the author of
// the judged text cannot have written them. The error is that of the random source, or that all
// maxDraws texts occurred in the input.
func (j rubricJudge) draw(n int, input edn.Value) (string, error) {
	b, all := make([]byte, n), input.String()
	for range maxDraws {
		if _, err := io.ReadFull(j.random, b); err != nil {
			return "", fmt.Errorf("judge: draw a random code: %w", err)
		}
		if drawn := hex.EncodeToString(b); !strings.Contains(all, drawn) {
			return drawn, nil
		}
	}
	return "", fmt.Errorf("judge: draw a random code: each of %d codes occurs in the input", maxDraws)
}

func (s *session) grade(ctx context.Context) error {
	q := s.compose.Grade(s.in.task)
	out, err := s.ask(ctx, q)
	if err != nil {
		return err
	}
	g, err := s.compose.ReadGrades(out)
	if err != nil {
		return err
	}
	s.verdict.total, s.verdict.criteria = g.Total, g.Scores
	s.reasons(g.Reasons)
	said := s.rules.Judge(s.judge.rules.subject(s.in, s.in.task.Result))
	if asked := s.addRules(said); said.Score != nil {
		sum := new(big.Rat).Mul(g.Total, asked)
		sum.Add(sum, new(big.Rat).Mul(said.Score, said.Judged))
		s.verdict.total = sum.Quo(sum, asked.Add(asked, said.Judged))
	}
	return nil
}

// addRules adds the results of the rules to the verdict, with the share of all weights that was
// judged. It returns the weight of the criteria.
func (s *session) addRules(said rules.Verdict) (asked *big.Rat) {
	s.verdict.addRules(said)
	asked = s.rubric.Weight()
	judged, all := new(big.Rat).Add(asked, said.Judged), new(big.Rat).Add(asked, said.Weight)
	s.verdict.coverage = judged.Quo(judged, all)
	return asked
}

// rulesBeside returns the rules of a rubric without those that have the name of a criterion: they
// replace it where no model is called.
func rulesBeside(r rubric.Rubric) (rules.Set, error) {
	if r.Rules.IsNil() {
		return rules.Set{}, nil
	}
	set, err := rules.Parse(r.Rules)
	set.Rules = slices.DeleteFunc(set.Rules, func(rule rules.Rule) bool {
		return slices.ContainsFunc(r.Criteria, func(c rubric.Criterion) bool { return c.ID == rule.ID })
	})
	return set, err
}

// choose compares the two answers in both orders. A choice that changes with the order counts as
// none.
func (s *session) choose(ctx context.Context) error {
	t := s.in.task
	var of [2]question.Choices
	for i, swapped := range []bool{false, true} {
		out, err := s.ask(ctx, s.compose.Compare(t, swapped))
		if err != nil {
			return err
		}
		if of[i], err = s.compose.ReadChoices(out, swapped); err != nil {
			return err
		}
	}
	agreed := func(first, second int) int {
		if first == -second {
			return first
		}
		return 0
	}
	s.verdict.criteria = map[string]*big.Rat{}
	for id, choice := range of[0].Of {
		s.verdict.criteria[id] = won(agreed(choice, of[1].Of[id]))
	}
	s.verdict.said.Key("orders", edn.Vector(order("result", of[0].Margin), order("other", of[1].Margin)))
	s.reasons(of[0].Reasons)
	said := s.rules.Compare(s.judge.rules.subject(s.in, t.Result), s.judge.rules.subject(s.in, t.Other))
	s.addRules(said)
	margin := new(big.Rat)
	if said.Score != nil { // it is 1/2 without a preference
		margin.Mul(margin.Sub(said.Score, half), said.Judged)
		margin.Add(margin, margin)
	}
	first, second := new(big.Rat).Add(of[0].Margin, margin), new(big.Rat).Sub(of[1].Margin, margin)
	whole := agreed(first.Sign(), second.Sign())
	s.verdict.total = won(whole)
	s.verdict.more.Key("winner", winner(whole))
	return nil
}

// order describes which answer was shown first, and which place the model chose.
func order(first string, margin *big.Rat) edn.Value {
	chosen := edn.K([]string{"second", "same", "first"}[margin.Sign()+1])
	return edn.MustMap(edn.K("first"), edn.K(first), edn.K("chosen"), chosen)
}

// reasons adds the model's reasons for low scores to the findings; reasons for praise are of no use
// for a repair.
func (s *session) reasons(all map[string]string) {
	s.verdict.why = map[string][]string{}
	for id, said := range all {
		if said != "" && s.verdict.criteria[id].Cmp(half) < 0 {
			s.verdict.why[id] = []string{s.compose.Blind.Without(said)}
		}
	}
}

// ask calls the model through the host with a question and returns its answer. It records the model
// and the omitted part of the data in the verdict.
func (s *session) ask(ctx context.Context, q question.Question) (edn.Value, error) {
	if q.Cut > 0 {
		s.verdict.limits = appendOnce(s.verdict.limits,
			fmt.Sprintf("%d bytes from the middle of what was judged were not shown to the model", q.Cut))
	}
	message := func(role, content string) edn.Value {
		return edn.MustMap(edn.K("role"), edn.K(role), edn.K("content"), edn.Text(content))
	}
	answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{
		Intent: s.intent,
		Input: edn.MustMap(
			edn.K("messages"), edn.Vector(message("system", q.System), message("user", q.User)),
			edn.K("output"), edn.MustMap(edn.K("name"), edn.K("judge/verdict"), edn.K("schema"), q.Schema),
			edn.K("seed"), edn.Int(s.in.seedOf()),
			// The messages hold both values too; a program in place of a model
			// reads them here.
			edn.K("verdict"), edn.MustMap(edn.K("code"), edn.Text(s.compose.Code), edn.K("control"), edn.Text(q.Control)),
		),
		Fields: edn.MustMap(edn.K("budget"), edn.MustMap(edn.K("temperature"), edn.Int(0), edn.K("max-tokens"),
			edn.Int(s.judge.settings.MaxTokens))),
	})
	if err != nil {
		return edn.Nil(), s.unserved(err)
	}
	meta := answer.Response.Key("invoke/meta")
	family := word(meta.Key("cap/family"))
	if err := s.in.kin(family, word(meta.Key("cap/id"))); err != nil {
		return edn.Nil(), err
	}
	s.served(meta, family)
	return answer.Out(), nil
}

// served records in the verdict which model answered.
func (s *session) served(meta edn.Value, family string) {
	model := meta.Key("provider").Key("model/served")
	if model.IsNil() {
		model = meta.Key("cap/model")
	}
	for name, v := range map[string]edn.Value{"model": model, "cap/id": meta.Key("cap/id")} {
		if !v.IsNil() {
			s.verdict.said.Key(name, v)
		}
	}
	switch {
	case family != "":
		s.verdict.said.Key("family", edn.Text(family))
	case s.in.author.family != "" && !s.in.sameFamily:
		s.verdict.limits = appendOnce(s.verdict.limits,
			"the family of the model that judged is not known, so it may be the author's")
	}
}

// unserved converts the error of an unserved intent to one with which dispatch
// switches to another judge, as the caller is not at fault. Other errors of the
// model are returned unchanged.
func (s *session) unserved(err error) error {
	e := contract.AsError(err)
	unknown := e != nil && e.Type == "invalid-request" && e.Details.Key("reason").Equal(edn.K("intent/not-supported"))
	if e == nil || e.Type != "unsupported/intent" && !unknown {
		return err
	}
	return contract.Errorf("runtime/not-ready", "judge/rubric: no capability answers :%s: %w", s.intent, e).
		WithHint("declare a model that serves the intent, or use judge/rules")
}

// kin returns an error if the judging model is of the author's family or is the author itself
// (JDG-009).
func (in input) kin(family, capability string) error {
	a := in.author
	switch {
	case in.sameFamily:
		return nil
	case family != "" && strings.EqualFold(family, a.family):
		return contract.Errorf("judge/same-family",
			"the judging model is of the family %q, like the model that wrote the answer", family)
	case capability != "" && capability == a.capability:
		return contract.Errorf("judge/same-family", "the judging model :%s also wrote the answer", capability)
	}
	return nil
}

// key returns a hash of everything that determines the verdict besides task and answer, including
// the wording of the question.
func (s *session) key() string {
	blank := question.Composer{Rubric: s.rubric, Mark: "mark", Code: "code", MaxBytes: s.compose.MaxBytes}
	answer := edn.MustMap(edn.K("text"), edn.Text("answer"))
	sample := question.Task{Result: answer, Other: answer}
	grade, compare := blank.Grade(sample), blank.Compare(sample, false)
	parts := []edn.Value{
		edn.Text(rubricCap), edn.Text(version), edn.K(s.intent), s.rubric.Canonical,
		edn.Text(grade.System), edn.Text(grade.User), edn.Text(compare.User),
		edn.Int(s.judge.settings.MaxBytes), edn.Int(s.judge.settings.MaxTokens),
	}
	if len(s.rules.Rules) > 0 {
		parts = append(parts, edn.Text(rulesCap))
	}
	return edn.Hash(edn.Vector(parts...))
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
