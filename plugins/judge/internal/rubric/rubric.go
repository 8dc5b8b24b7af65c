package rubric

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The limits of a rubric.
const (
	maxCriteria = 50
	maxAsk      = 2000 // code points
)

// Rubric holds the criteria for judging an answer.
type Rubric struct {
	ID       string
	Scale    score.Scale
	Criteria []Criterion
	// Rules are the unparsed rules of judge/rules; nil for none.
	Rules edn.Value
	// Canonical is the part of the rubric that affects a verdict.
	Canonical edn.Value
}

// Criterion is one question about an answer.
type Criterion struct {
	ID     string
	Ask    string
	Weight *big.Rat
}

// fallback is the default question.
const fallback = "Does the answer do what the request asks for, correctly and completely?"

var (
	rubricKeys    = []string{"id", "version", "scale", "criteria", "rules"}
	criterionKeys = []string{"id", "weight", "ask"}
)

// Parse parses a rubric. A nil value gives a rubric with one criterion: whether
// the answer fulfils the request. scale, if not nil, replaces the rubric's
// scale. The error is :judge/rubric-invalid with every problem.
func Parse(v, scale edn.Value) (Rubric, error) {
	if v.IsNil() {
		v = edn.MustMap(edn.K("id"), edn.K("rubric/default"), edn.K("criteria"),
			edn.Vector(edn.MustMap(edn.K("id"), edn.K("fulfils"), edn.K("ask"), edn.Text(fallback))))
	}
	p := &problems{}
	out := Rubric{Scale: score.Unit(), Rules: v.Key("rules")}
	if !v.IsMap() {
		p.add(fmt.Sprintf("expected a map with :criteria, found %s", v.Kind()))
		return Rubric{}, p.err()
	}
	p.known(v, rubricKeys)
	if id := v.Key("id"); !id.IsNil() {
		out.ID = p.name(id, edn.K("id"))
	}
	at := []edn.Value{edn.K("scale")}
	if !scale.IsNil() {
		at = nil
	} else {
		scale = v.Key("scale")
	}
	if !scale.IsNil() {
		s, err := score.ReadScale(scale)
		if err != nil {
			p.add(err.Error(), at...)
		} else {
			out.Scale = s
		}
	}
	if n, ok := v.Key("version").AsInt(); !v.Key("version").IsNil() && (!ok || n < 1) {
		p.add("expected an integer of at least 1, found "+score.Excerpt(v.Key("version").String()), edn.K("version"))
	}
	if list := v.Key("criteria"); !list.IsNil() {
		out.Criteria = p.criteria(list)
	}
	if len(p.list) > 0 {
		return Rubric{}, p.err()
	}
	out.Canonical = edn.MustMap(edn.K("scale"), out.Scale.Value(), edn.K("criteria"), v.Key("criteria"),
		edn.K("rules"), out.Rules,
		edn.K("id"), v.Key("id"), edn.K("version"), v.Key("version"))
	return out, nil
}

func (p *problems) criteria(list edn.Value) []Criterion {
	if !list.IsVector() && !list.IsList() || list.Len() > maxCriteria {
		p.add(fmt.Sprintf("expected a vector of 1 to %d criteria, found a %s of %d", maxCriteria, list.Kind(),
			list.Len()),
			edn.K("criteria"))
		return nil
	}
	var out []Criterion
	seen := map[string]bool{}
	total := new(big.Rat)
	i := -1
	for v := range list.Elems() {
		i++
		at := []edn.Value{edn.K("criteria"), edn.Int(int64(i))}
		if !v.IsMap() {
			p.add(fmt.Sprintf("expected a map with :id and :ask, found %s", v.Kind()), at...)
			continue
		}
		p.known(v, criterionKeys, at...)
		c := Criterion{ID: p.name(v.Key("id"), append(slices.Clone(at), edn.K("id"))...), Weight: big.NewRat(1, 1)}
		if seen[c.ID] {
			p.add("another criterion has the name "+c.ID, append(slices.Clone(at), edn.K("id"))...)
		}
		seen[c.ID] = true
		if w := v.Key("weight"); !w.IsNil() {
			n, ok := w.AsNumber()
			if !ok || n.Sign() < 0 {
				p.add(fmt.Sprintf("expected a number of 0 or more, found %s", score.Excerpt(w.String())),
					append(slices.Clone(at), edn.K("weight"))...)
			} else {
				c.Weight = n
			}
		}
		c.Ask, _ = v.Key("ask").AsString()
		if c.Ask = strings.TrimSpace(c.Ask); c.Ask == "" || utf8.RuneCountInString(c.Ask) > maxAsk {
			p.add(fmt.Sprintf("expected a question of 1 to %d characters, found %d", maxAsk,
				utf8.RuneCountInString(c.Ask)),
				append(slices.Clone(at), edn.K("ask"))...)
		}
		total.Add(total, c.Weight)
		out = append(out, c)
	}
	if len(out) > 0 && total.Sign() == 0 {
		p.add("all weights are 0: give at least one criterion a weight", edn.K("criteria"))
	}
	return out
}

// name parses a keyword or a string that could be one.
func (p *problems) name(v edn.Value, at ...edn.Value) string {
	s, ok := v.AsKeyword()
	if !ok {
		s, _ = v.AsString()
		s = strings.TrimPrefix(s, ":")
		if _, err := edn.Keyword(s); err != nil {
			p.add(fmt.Sprintf("expected a name such as :faithful, found %s", score.Excerpt(v.String())), at...)
		}
	}
	return s
}

// Asks returns an error if the rubric has no criteria about which a model can be asked. A rubric
// that has only rules is for judge/rules; the error makes the host switch to that capability.
func (r Rubric) Asks() error {
	if len(r.Criteria) > 0 {
		return nil
	}
	if !r.Rules.IsNil() {
		return contract.Errorf("runtime/not-ready",
			"the rubric has rules, but no criteria, which a model judges").
			WithSource(contract.SourceHost).WithHint("use judge/rules, or add criteria")
	}
	p := &problems{}
	p.add("expected at least one criterion", edn.K("criteria"))
	return p.err()
}

// Rotated returns a copy of the criteria, rotated by the number of the sample.
func (r Rubric) Rotated(sample int64) []Criterion {
	n := int64(len(r.Criteria))
	if n == 0 {
		return nil
	}
	from := (sample%n + n) % n
	return append(slices.Clone(r.Criteria[from:]), r.Criteria[:from]...)
}

// Weight returns the sum of the weights of the criteria.
func (r Rubric) Weight() *big.Rat {
	sum := new(big.Rat)
	for _, c := range r.Criteria {
		sum.Add(sum, c.Weight)
	}
	return sum
}

// Mean returns the weighted mean of the scores. The rubric must have a criterion, and scores must
// contain each of them.
func (r Rubric) Mean(scores map[string]*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, c := range r.Criteria {
		sum.Add(sum, new(big.Rat).Mul(c.Weight, scores[c.ID]))
	}
	return sum.Quo(sum, r.Weight())
}

// problems collects the mistakes in a rubric.
type problems struct{ list []edn.Value }

func (p *problems) add(message string, at ...edn.Value) {
	p.list = append(p.list, edn.MustMap(edn.K("path"), edn.Vector(at...), edn.K("message"), edn.Text(message)))
}

func (p *problems) known(m edn.Value, names []string, at ...edn.Value) {
	for key := range m.Entries() {
		name, _ := key.AsKeyword()
		if name == "" {
			name, _ = key.AsString()
		}
		if slices.Contains(names, name) {
			continue
		}
		hint := ""
		if near := contract.Nearest(name, names); near != "" {
			hint = ", did you mean :" + near + "?"
		}
		p.add(fmt.Sprintf("unknown key %s%s", score.Excerpt(key.String()), hint), append(slices.Clone(at), key)...)
	}
}

func (p *problems) err() error { return Invalid(p.list) }

// Invalid returns the error for problems of a rubric: maps of :path and
// :message.
func Invalid(list []edn.Value) error {
	first, _ := list[0].Key("message").AsString()
	at := list[0].Key("path")
	where, more := "", ""
	if at.Len() > 0 {
		where = " at " + at.String()
	}
	if len(list) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(list)-1)
	}
	return contract.Errorf("judge/rubric-invalid", "the rubric%s: %s%s", where, first, more).
		WithDetail("path", at).WithDetail("problems", edn.Vector(list...))
}
