package question

import (
	"math/big"
	"strings"

	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Grades are what a model gave an answer.
type Grades struct {
	// Total is the score of the whole, from 0 to 1.
	Total *big.Rat
	// Scores and Reasons are those of the criteria; empty if the model gave one
	// score for all.
	Scores  map[string]*big.Rat
	Reasons map[string]string
}

// ReadGrades reads the answer to Grade: a score for each criterion, or one for
// the whole, which stands at the path or where scores usually are.
func ReadGrades(r rubric.Rubric, path []string, out edn.Value) (Grades, error) {
	criteria, err := criteriaIn(out)
	if err != nil {
		return Grades{}, err
	}
	rules := contract.ScoreRules{Path: path, Scale: r.Scale.Value()}
	if criteria.IsNil() {
		total, err := contract.ParseScore(out, rules)
		if err != nil {
			return Grades{}, err
		}
		return Grades{Total: total}, nil
	}
	rules.Path = nil
	g := Grades{Scores: map[string]*big.Rat{}, Reasons: map[string]string{}}
	for _, c := range r.Criteria {
		said := under(criteria, c.ID)
		x, e := contract.ParseScore(said, rules)
		if e != nil {
			return Grades{}, contract.Errorf(e.Type, "criterion %s: %s", c.ID, e.Message).WithDetails(e.Details).WithHint(e.Hint)
		}
		g.Scores[c.ID], g.Reasons[c.ID] = x, reason(said)
	}
	g.Total = r.Mean(g.Scores)
	return g, nil
}

// Choices are whom a model preferred, by criterion: 1 for the first, -1 for the
// second, 0 for neither.
type Choices struct {
	Of      map[string]int
	Reasons map[string]string
	// Whole is the choice that the weighted criteria come to.
	Whole int
}

// ReadChoices reads the answer to Compare.
func ReadChoices(r rubric.Rubric, out edn.Value) (Choices, error) {
	criteria, err := criteriaIn(out)
	if err != nil {
		return Choices{}, err
	}
	if criteria.IsNil() {
		return Choices{}, contract.Errorf("judge/no-score", "there is no choice in %s", score.Excerpt(out.String())).
			WithDetail("output/hash", edn.Text(edn.Hash(out)))
	}
	c := Choices{Of: map[string]int{}, Reasons: map[string]string{}}
	sum := new(big.Rat)
	for _, x := range r.Criteria {
		said := under(criteria, x.ID)
		choice, ok := choiceOf(said)
		if !ok {
			return Choices{}, contract.Errorf("judge/no-score", "criterion %s: expected first, second or same, found %s", x.ID, score.Excerpt(said.String()))
		}
		c.Of[x.ID], c.Reasons[x.ID] = choice, reason(said)
		sum.Add(sum, new(big.Rat).Mul(x.Weight, big.NewRat(int64(choice), 1)))
	}
	c.Whole = sum.Sign()
	return c, nil
}

func choiceOf(said edn.Value) (int, bool) {
	if said.IsMap() {
		said = under(said, "better")
	}
	name, ok := said.AsKeyword()
	if !ok {
		name, _ = said.AsString()
	}
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

// criteriaIn finds the map of the criteria in what a model said: in the value, or
// in the values that its text holds. Nil if there is none.
func criteriaIn(out edn.Value) (edn.Value, error) {
	if at := under(out, "criteria"); at.IsMap() {
		return at, nil
	}
	said, ok := out.AsString()
	if !ok {
		said, _ = under(out, "text").AsString()
	}
	found := edn.Nil()
	for _, v := range contract.ValuesIn(said) {
		at := under(v, "criteria")
		if !at.IsMap() {
			continue
		}
		if !found.IsNil() && !found.Equal(at) {
			return edn.Nil(), contract.Errorf("judge/ambiguous-score", "the judge gave two verdicts that differ")
		}
		found = at
	}
	return found, nil
}

// under is what stands under a name, which may be a keyword or a string.
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
