package question

import (
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Grades are the scores of an answer, by criterion and in total.
type Grades struct {
	// Total is the overall score, from 0 to 1.
	Total *big.Rat
	// Scores, from 0 to 1, and Reasons are by the ID of the criterion.
	Scores  map[string]*big.Rat
	Reasons map[string]string
}

// formHint is the hint of an answer that does not have the requested form.
const formHint = "use a judge model that answers in the requested form"

// ReadGrades parses the answer of a model to Grade. The error is a *contract.Error, such as
// judge/no-score for an answer in another form, without the code, or with a wrong answer to the
// control question.
func (c Composer) ReadGrades(out edn.Value) (Grades, error) {
	criteria, err := c.criteriaIn(out)
	if err != nil {
		return Grades{}, err
	}
	g := Grades{Scores: map[string]*big.Rat{}, Reasons: map[string]string{}}
	for _, name := range c.names() {
		said := under(criteria, name)
		x, e := contract.ParseScore(said, contract.ScoreRules{Scale: c.Rubric.Scale.Value()})
		if e == nil {
			e = exactly(said, "reason", "score")
		}
		if e != nil {
			return Grades{}, contract.Errorf(e.Type, "criterion %s: %s", name, e.Message).WithDetails(e.Details).WithHint(e.Hint)
		}
		g.Scores[name], g.Reasons[name] = x, reason(said)
	}
	if got := g.Scores[c.control()]; got.Cmp(c.share()) != 0 {
		return Grades{}, c.astray(under(under(criteria, c.control()), "score"), c.score())
	}
	delete(g.Scores, c.control())
	delete(g.Reasons, c.control())
	g.Total = c.Rubric.Mean(g.Scores)
	return g, nil
}

// astray returns the error for a wrong answer to the control question.
func (c Composer) astray(got edn.Value, want string) *contract.Error {
	return contract.Errorf("judge/no-score", "the judge answered %s to the control question, expected %s",
		score.Excerpt(got.String()), want).
		WithHint("the model ignores instructions, or the judged text contains instructions for it (prompt injection): " +
			"use a stronger judge model")
}

// Choices are the preferences by criterion: 1 for the first answer, -1 for the
// second, 0 for neither.
type Choices struct {
	Of      map[string]int
	Reasons map[string]string
	// Margin is the sum of the choices over all criteria, by their weights.
	Margin *big.Rat
}

// ReadChoices parses the answer of a model to Compare; swapped must be that of the question. The
// choices refer to the order in the question: 1 is the answer that was shown first. The errors are
// those of ReadGrades.
func (c Composer) ReadChoices(out edn.Value, swapped bool) (Choices, error) {
	criteria, err := c.criteriaIn(out)
	if err != nil {
		return Choices{}, err
	}
	all := Choices{Of: map[string]int{}, Reasons: map[string]string{}}
	for _, name := range c.names() {
		said := under(criteria, name)
		choice, ok := choiceOf(said)
		if !ok {
			return Choices{}, contract.Errorf("judge/no-score", "criterion %s: expected first, second or same, found %s", name,
				score.Excerpt(said.String())).WithHint(formHint)
		}
		if e := exactly(said, "reason", "better"); e != nil {
			return Choices{}, contract.Errorf(e.Type, "criterion %s: %s", name, e.Message).
				WithDetails(e.Details).WithHint(e.Hint)
		}
		all.Of[name], all.Reasons[name] = choice, reason(said)
	}
	want := c.preference(swapped)
	if asked, _ := choiceOf(edn.MustMap(edn.K("better"), edn.Text(want))); all.Of[c.control()] != asked {
		return Choices{}, c.astray(under(under(criteria, c.control()), "better"), want)
	}
	delete(all.Of, c.control())
	delete(all.Reasons, c.control())
	sum := new(big.Rat)
	for _, x := range c.Rubric.Criteria {
		sum.Add(sum, new(big.Rat).Mul(x.Weight, big.NewRat(int64(all.Of[x.ID]), 1)))
	}
	all.Margin = sum
	return all, nil
}

func choiceOf(said edn.Value) (int, bool) {
	name, _ := under(said, "better").AsString()
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "first":
		return 1, true
	case "second":
		return -1, true
	case "same":
		return 0, true
	}
	return 0, false
}

// criteriaIn returns the criteria of a verdict. The whole answer of the model
// must be one verdict in the form that Composer requested, with the code of
// this question. A model may repeat or quote the data that it judges, and the
// data may hold verdicts, but the author of the data does not know the code. A
// verdict with text around it is rejected too, because it is unclear which part
// of such an answer is the model's own.
func (c Composer) criteriaIn(out edn.Value) (edn.Value, error) {
	v, err := spoken(out)
	if err == nil {
		err = exactly(v, "verdict", "criteria")
	}
	if err != nil {
		return edn.Nil(), err.WithDetail("output/hash", edn.Text(edn.Hash(out)))
	}
	if said, ok := under(v, "verdict").AsString(); !ok || said != c.Code {
		return edn.Nil(), contract.Errorf("judge/no-score",
			"expected the code of this question in the verdict, found %s",
			score.Excerpt(under(v, "verdict").String())).
			WithDetail("output/hash", edn.Text(edn.Hash(out))).
			WithHint("the model may have copied a verdict from the judged text, or ignored the requested form: " +
				"use a stronger judge model")
	}
	criteria := under(v, "criteria")
	if err := exactly(criteria, c.names()...); err != nil {
		return edn.Nil(), err
	}
	return criteria, nil
}

// spoken parses the whole text of the model as one EDN or JSON value.
func spoken(out edn.Value) (edn.Value, *contract.Error) {
	said, ok := out.AsString()
	if text := under(out, "text"); !ok && !text.IsNil() {
		said, ok = text.AsString()
	}
	if !ok {
		return out, nil
	}
	if v, ok := contract.WholeValue(said); ok {
		return v, nil
	}
	if len(contract.ValuesIn(said)) > 1 {
		return edn.Nil(), contract.Errorf("judge/ambiguous-score",
			"expected one verdict from the judge, found several objects: %s", score.Excerpt(said))
	}
	return edn.Nil(), contract.Errorf("judge/no-score", "expected one JSON object as the answer of the judge, found %s",
		score.Excerpt(said)).
		WithHint("use a judge model that answers with the verdict alone: text around it is not accepted")
}

// exactly returns an error if a value is not a map with exactly these keys. A
// reason may be absent.
func exactly(v edn.Value, keys ...string) *contract.Error {
	if !v.IsMap() {
		return contract.Errorf("judge/no-score", "the judge wrote %s, expected an object with %s", score.Excerpt(v.String()),
			strings.Join(keys, " and ")).WithHint(formHint)
	}
	for key := range v.Entries() {
		name, ok := key.AsString()
		if !ok {
			name, _ = key.AsKeyword()
		}
		if !slices.Contains(keys, name) {
			return contract.Errorf("judge/no-score", "the judge wrote the key %s, expected %s", score.Excerpt(key.String()),
				strings.Join(keys, " and ")).WithHint(formHint)
		}
	}
	for _, name := range keys {
		if name != "reason" && under(v, name).IsNil() {
			return contract.Errorf("judge/no-score", "the judge wrote %s, which has no %s", score.Excerpt(v.String()), name).
				WithHint(formHint)
		}
	}
	return nil
}

// under returns the value under a name, which may be a keyword or a string.
func under(v edn.Value, name string) edn.Value {
	if at, ok := v.Get(edn.K(name)); ok {
		return at
	}
	at, _ := v.Get(edn.Text(name))
	return at
}

func reason(said edn.Value) string {
	const most = 300
	s, _ := under(said, "reason").AsString()
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}
