package rules

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Subject is the text to judge.
type Subject struct {
	Text string
	// Input is the whole input of the judge, from which rules take their
	// sources.
	Input edn.Value
	// Language is the expected language, "" if unknown.
	Language string
	// Languages are the known languages; nil: the built-in ones.
	Languages *text.Packs
}

// Outcome is the result of one rule.
type Outcome struct {
	// Score is from 0 to 1; nil if the rule had nothing to judge.
	Score    *big.Rat
	Findings []string
}

// mostFindings is the maximum number of findings of one rule; one more states the number of omitted
// ones.
const mostFindings = 5

// check is the implementation of a rule.
type check func(Subject) Outcome

// Rule is one rule of a set.
type Rule struct {
	ID     string
	Weight *big.Rat
	check  check
}

// Set is a list of valid rules. It is immutable.
type Set struct{ Rules []Rule }

// Verdict is the result of a set for a text.
type Verdict struct {
	// Score is the weighted mean; nil if no rule had anything to judge.
	Score    *big.Rat
	Outcomes map[string]Outcome
	// Weight is the total weight of all rules, Judged that of the rules that
	// had something to judge.
	Weight, Judged *big.Rat
}

// Judge applies the rules to x and returns the results by rule and their weighted mean.
func (s Set) Judge(x Subject) Verdict {
	return s.judge(func(r Rule) Outcome { return r.check(x) })
}

// Compare applies the rules to x and to other. The score of a rule is 1 if that of x is higher, 0 if
// that of other is, and 1/2 if they are equal; its findings are those about x.
func (s Set) Compare(x, other Subject) Verdict {
	return s.judge(func(r Rule) Outcome {
		o, than := r.check(x), r.check(other)
		if o.Score == nil || than.Score == nil {
			return Outcome{}
		}
		o.Score = big.NewRat(int64(o.Score.Cmp(than.Score))+1, 2)
		return o
	})
}

func (s Set) judge(outcome func(Rule) Outcome) Verdict {
	v := Verdict{Outcomes: map[string]Outcome{}}
	sum, weights, all := new(big.Rat), new(big.Rat), new(big.Rat)
	for _, r := range s.Rules {
		all.Add(all, r.Weight)
		o := outcome(r)
		if len(o.Findings) > mostFindings {
			o.Findings = append(o.Findings[:mostFindings:mostFindings], fmt.Sprintf("and %d more", len(o.Findings)-mostFindings))
		}
		v.Outcomes[r.ID] = o
		if o.Score != nil {
			sum.Add(sum, new(big.Rat).Mul(r.Weight, o.Score))
			weights.Add(weights, r.Weight)
		}
	}
	v.Weight, v.Judged = all, weights
	if weights.Sign() > 0 {
		v.Score = sum.Quo(sum, weights)
	}
	return v
}

// maxRules is the maximum number of rules in a set.
const maxRules = 100

// makers maps each kind of rule to the constructor of its check.
func makers() map[string]func(*form) check {
	return map[string]func(*form) check{
		"terms":      terms,
		"forbidden":  forbidden,
		"length":     length,
		"sections":   sections,
		"numbers":    numbers,
		"quotes":     quotes,
		"repetition": repetition,
		"language":   language,
		"pattern":    pattern,
		"rouge-l":    rouge,
	}
}

// Parse parses a vector of rules. The error is a :judge/rubric-invalid with
// every problem.
func Parse(v edn.Value) (Set, error) {
	p := &problems{}
	if !v.IsVector() && !v.IsList() || v.Len() == 0 || v.Len() > maxRules {
		p.add(fmt.Sprintf("expected a vector of 1 to %d rules, such as [{:rule :length :min 10}], found %s", maxRules,
			score.Excerpt(v.String())))
		return Set{}, rubric.Invalid(p.list)
	}
	kinds := makers()
	var s Set
	total := new(big.Rat)
	i := -1
	for r := range v.Elems() {
		i++
		f := &form{v: r, at: []edn.Value{edn.K("rules"), edn.Int(int64(i))}, problems: p}
		rule, ok := f.rule(kinds)
		if !ok {
			continue
		}
		if slices.ContainsFunc(s.Rules, func(x Rule) bool { return x.ID == rule.ID }) {
			f.bad("id", "another rule has the name "+rule.ID+": give each rule its own :id")
		}
		total.Add(total, rule.Weight)
		s.Rules = append(s.Rules, rule)
	}
	if len(p.list) == 0 && total.Sign() == 0 {
		p.add("all weights are 0: give at least one rule a weight", edn.K("rules"))
	}
	if len(p.list) > 0 {
		return Set{}, rubric.Invalid(p.list)
	}
	return s, nil
}

type problems struct{ list []edn.Value }

func (p *problems) add(message string, at ...edn.Value) {
	p.list = append(p.list, edn.MustMap(edn.K("path"), edn.Vector(at...), edn.K("message"), edn.Text(message)))
}

// form is a rule being parsed.
type form struct {
	v  edn.Value
	at []edn.Value
	*problems
}

func (f *form) bad(key, message string) {
	f.add(message, append(slices.Clone(f.at), edn.K(key))...)
}

func (f *form) rule(kinds map[string]func(*form) check) (Rule, bool) {
	if !f.v.IsMap() {
		f.add(fmt.Sprintf("expected a map with :rule, found %s", f.v.Kind()), f.at...)
		return Rule{}, false
	}
	kind := word(f.v.Key("rule"))
	maker, ok := kinds[kind]
	if !ok {
		names := make([]string, 0, len(kinds))
		for name := range kinds {
			names = append(names, name)
		}
		slices.Sort(names)
		f.bad("rule", "expected one of :"+strings.Join(names, " :")+", found "+score.Excerpt(f.v.Key("rule").String()))
		return Rule{}, false
	}
	keys := known()[kind]
	for key := range f.v.Entries() {
		if name := word(key); !slices.Contains(keys, name) {
			hint := ""
			if near := contract.Nearest(name, keys); near != "" {
				hint = ", did you mean :" + near + "?"
			}
			f.add(fmt.Sprintf("unknown key %s in a rule :%s%s", score.Excerpt(key.String()), kind, hint),
				append(slices.Clone(f.at), key)...)
		}
	}
	r := Rule{ID: kind, Weight: big.NewRat(1, 1)}
	if id := f.v.Key("id"); !id.IsNil() {
		r.ID = word(id)
		if _, err := edn.Keyword(r.ID); err != nil {
			f.bad("id", "expected a name such as :covers, found "+score.Excerpt(id.String()))
		}
	}
	if w := f.v.Key("weight"); !w.IsNil() {
		n, ok := w.AsNumber()
		if !ok || n.Sign() < 0 {
			f.bad("weight", "expected a number of 0 or more, found "+score.Excerpt(w.String()))
			n = new(big.Rat)
		}
		r.Weight = n
	}
	before := len(f.list)
	r.check = maker(f)
	return r, len(f.list) == before
}

// texts parses a list of texts; a single text counts as a list of one.
func (f *form) texts(key string) []string {
	v := f.v.Key(key)
	if s, ok := v.AsString(); ok && strings.TrimSpace(s) != "" {
		return []string{s}
	}
	var out []string
	for x := range v.Elems() {
		s, ok := x.AsString()
		if !ok || strings.TrimSpace(s) == "" {
			out = nil
			break
		}
		out = append(out, s)
	}
	if len(out) == 0 && f.v.HasKey(key) {
		f.bad(key, "expected a vector of texts, found "+score.Excerpt(v.String()))
	}
	return out
}

// path parses a path in the input of the judge.
func (f *form) path(key string) []edn.Value {
	v := f.v.Key(key)
	if v.IsNil() {
		return nil
	}
	if !v.IsVector() && !v.IsList() || v.Len() == 0 {
		f.bad(key, "expected a path in the input of the judge, such as [:task/call :input :source], found "+
			score.Excerpt(v.String()))
		return nil
	}
	return slices.Collect(v.Elems())
}

func (f *form) text(key string) string {
	s, ok := f.v.Key(key).AsString()
	if f.v.HasKey(key) && (!ok || strings.TrimSpace(s) == "") {
		f.bad(key, "expected a text, found "+score.Excerpt(f.v.Key(key).String()))
	}
	return s
}

func word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return strings.TrimPrefix(s, ":")
}
