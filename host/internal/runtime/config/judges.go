package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// compileJudges returns the judges of the judge blocks.
func (b *builder) compileJudges() []registry.Judge {
	rubrics := map[string]edn.Value{}
	for _, s := range b.all("rubric") {
		rubrics[rubricName(s.label())] = b.rubric(s)
	}
	var out []registry.Judge
	for _, s := range b.all("judge") {
		out = append(out, b.judgeOf(s, rubrics))
	}
	return out
}

// rubricName returns the full name of a rubric label.
func rubricName(label string) string {
	if strings.HasPrefix(label, "rubric/") {
		return label
	}
	return "rubric/" + label
}

func (b *builder) judgeOf(s *section, rubrics map[string]edn.Value) registry.Judge {
	j := registry.Judge{
		Name:            s.label(),
		Intent:          s.text("intent"),
		Enabled:         s.flag("enabled"),
		MaxAttempts:     s.integer("max_attempts"),
		Votes:           s.integer("votes"),
		IgnoreErrors:    s.text("on_error") == "ignore",
		AllowSameFamily: s.flag("allow_same_family"),
		Memo:            s.flag("memo"),
		MinKappa:        s.number("min_kappa"),
		Drift:           s.number("drift"),
		Recheck:         s.duration("recheck"),
		Anchors:         s.text("anchors"),
		Where:           s.where(),
	}
	j.ScorePath, _ = s.texts("score_path")
	b.kindOf(s, "anchors", plainFile)
	b.there(s, "anchors")
	if v := s.attrs["votes"]; v.written && j.Votes%2 == 0 {
		b.report.add(Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("votes in %s is even: a tie is possible", s.node.title()),
			Range:    v.rng,
			Path:     append(slices.Clone(s.node.path), "votes"),
			Expected: edn.Text("an odd int 1..9"),
			Found:    v.v,
		})
	}
	if v := s.attrs["intent"]; v.written && !b.intentKnown(j.Intent) {
		b.dangling(s, "intent", "intent", j.Intent, b.intentNames(), v.rng)
	}
	if s.written("capability") {
		j.Capability = b.capabilityRef(s, "capability")
		b.grades(s, j)
	}
	if v := s.attrs["rubric"]; v.written {
		name := rubricName(s.text("rubric"))
		rubric, ok := rubrics[name]
		if !ok {
			known := make([]string, 0, len(rubrics))
			for _, full := range slices.Sorted(maps.Keys(rubrics)) {
				known = append(known, strings.TrimPrefix(full, "rubric/"))
			}
			b.dangling(s, "rubric", "rubric", strings.TrimPrefix(name, "rubric/"), known, v.rng)
		}
		j.Rubric = rubric
	}
	return j
}

// grades checks that the capability of a judge serves its intent.
func (b *builder) grades(s *section, j registry.Judge) {
	i := slices.IndexFunc(b.caps, func(c registry.Capability) bool { return c.ID == j.Capability })
	if i < 0 || b.caps[i].Serves(j.Intent) {
		return
	}
	b.report.add(Diagnostic{
		Type: "config/type",
		Message: fmt.Sprintf("capability %s does not serve intent %s, which %s asks", quote(j.Capability),
			quote(j.Intent), s.node.title()),
		Range:    s.attrs["capability"].rng,
		Path:     append(slices.Clone(s.node.path), "capability"),
		Expected: edn.Text("a capability for " + j.Intent),
		Found:    edn.Text("one for " + strings.Join(b.caps[i].Intents, ", ")),
		Related:  []Related{{Range: b.capPlace[j.Capability], Message: "gives capability " + quote(j.Capability)}},
	})
}

// rubric returns the rubric of a judge block as data.
func (b *builder) rubric(s *section) edn.Value {
	var m edn.MapBuilder
	name := rubricName(s.label())
	m.Key("id", edn.K(name))
	m.Key("version", s.attrs["version"].v)
	scale := s.attrs["scale"].v
	m.Key("scale", scale)
	low, _ := scale.Nth(0)
	high, _ := scale.Nth(1)
	if a, ok := low.AsNumber(); ok {
		if z, ok := high.AsNumber(); ok && a.Cmp(z) >= 0 {
			b.report.add(Diagnostic{
				Type:     "judge/rubric-invalid",
				Message:  fmt.Sprintf("scale in %s is not ascending", s.node.title()),
				Range:    s.attrs["scale"].rng,
				Path:     append(slices.Clone(s.node.path), "scale"),
				Expected: edn.Text("[worst, best] with worst below best"),
				Found:    scale,
			})
		}
	}
	var criteria []edn.Value
	for _, c := range s.all("criterion") {
		if strings.TrimSpace(c.text("ask")) == "" && c.written("ask") {
			b.report.add(Diagnostic{
				Type:     "judge/rubric-invalid",
				Message:  fmt.Sprintf("criterion %s in %s has no question", quote(c.label()), s.node.title()),
				Range:    c.attrs["ask"].rng,
				Path:     append(slices.Clone(c.node.path), "ask"),
				Expected: edn.Text("a question to the judge"),
			})
		}
		criteria = append(criteria, edn.MustMap(edn.K("id"), edn.K(c.label()), edn.K("weight"), c.attrs["weight"].v,
			edn.K("ask"), edn.Text(c.text("ask"))))
	}
	if len(criteria) > 0 {
		m.Key("criteria", edn.Vector(criteria...))
	}
	rules := s.attrs["rules"]
	if rules.written {
		m.Key("rules", b.rules(s, rules))
	}
	if len(criteria) == 0 && !rules.written && !s.unread("rules") && !s.node.damaged {
		b.report.add(b.decoder.root.misnamed(s.node, Diagnostic{
			Type:     "judge/rubric-invalid",
			Message:  s.node.title() + " asks nothing",
			Range:    s.at(),
			Path:     s.node.path,
			Expected: edn.Text("a criterion block, or rules"),
		}))
	}
	return m.Map()
}

// rulesSchema is the schema of the rules of a rubric. A plugin with a rule-based judge publishes it.
const rulesSchema = "rubric/rules"

// rules checks the rules of a rubric, if a plugin publishes their schema.
func (b *builder) rules(s *section, v value) edn.Value {
	form, ok := b.compiled.Lookup(rulesSchema)
	if !ok {
		b.patterns(s, v, v.v)
		return v.v
	}
	out := b.fitted(s, "rules", "judge/rubric-invalid", form)
	b.patterns(s, v, out)
	return out
}

// patterns reports regular expressions of pattern rules that do not compile, which a schema cannot check.
func (b *builder) patterns(s *section, v value, rules edn.Value) {
	for i := range rules.Len() {
		rule, _ := rules.Nth(i)
		if scalarText(rule.Key("rule")) != "pattern" {
			continue
		}
		for _, key := range []string{"match", "refuse"} {
			texts := rule.Key(key)
			if texts.Kind() == edn.KindString {
				b.pattern(s, v, texts, edn.Int(int64(i)), edn.K(key))
			}
			for j := range texts.Len() {
				if text, ok := texts.Nth(j); ok {
					b.pattern(s, v, text, edn.Int(int64(i)), edn.K(key), edn.Int(int64(j)))
				}
			}
		}
	}
}

func (b *builder) pattern(s *section, v value, text edn.Value, path ...edn.Value) {
	pattern, _ := text.AsString()
	if _, err := regexp.Compile(pattern); err != nil {
		b.report.add(Diagnostic{
			Type: "judge/rubric-invalid",
			Message: fmt.Sprintf("rules%s in %s is not a regular expression: %s", partName(path), s.node.title(),
				patternFault(err)),
			Range:    v.within(path),
			Path:     append(slices.Clone(s.node.path), "rules"),
			Expected: edn.Text("a regular expression (RE2)"),
			Found:    edn.Text(short(pattern)),
		})
	}
}

// patternFault returns the error of a pattern without the pattern itself.
func patternFault(err error) string {
	var fault *syntax.Error
	if errors.As(err, &fault) {
		return string(fault.Code)
	}
	return err.Error()
}

// enumerated returns the members of an [:enum ...] form.
func enumerated(form edn.Value) ([]string, bool) {
	if kind, _ := form.Nth(0); !edn.Equal(kind, edn.K("enum")) {
		return nil, false
	}
	var out []string
	for word := range form.Elems() {
		out = append(out, scalarText(word))
	}
	return out[1:], true
}

// judging adds the judge block of an intent to its policy layer.
func (b *builder) judging(l *policy.Layer, s *section) {
	in := s.block("judge")
	if v := in.attrs["severity"]; v.written {
		l.JudgeSeverity = policy.Of(in.text("severity"), policy.Origin{
			Source: policy.SourceIntent,
			Where:  v.rng.String(),
		})
	}
	v := in.attrs["use"]
	if !v.written {
		if sev := in.attrs["severity"]; sev.written {
			b.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message:  "severity in " + in.node.title() + " is of no use: no judge is named",
				Range:    sev.rng,
				Path:     append(slices.Clone(in.node.path), "severity"),
				Hint:     "add use = \"NAME\" of a judge block",
			})
		}
		return
	}
	name := in.text("use")
	b.use("judge", name)
	j, ok := b.judges[name]
	if !ok {
		b.dangling(in, "use", "judge", name, slices.Sorted(maps.Keys(b.judges)), v.rng)
		return
	}
	l.Judge = policy.Of(name, policy.Origin{Source: policy.SourceIntent, Where: v.rng.String()})
	if asked := j.text("intent"); j.flag("enabled") && !j.written("intent") && !b.intentKnown(asked) &&
		(!j.written("capability") || b.capNames[j.text("capability")]) {
		b.report.add(Diagnostic{
			Type:    "config/dangling-reference",
			Message: fmt.Sprintf("no capability serves intent %s, which %s calls", quote(asked), j.node.title()),
			Range:   v.rng,
			Path:    append(slices.Clone(in.node.path), "use"),
			Related: []Related{{Range: j.at(), Message: "is judge " + quote(name)}},
			Hint:    "add a plugin that serves it, or name another intent in the judge block",
		})
	}
}

// fitted returns the value of an attribute, converted to the schema. It reports the parts that do not fit.
func (b *builder) fitted(s *section, attr, typ string, form *schema.Schema) edn.Value {
	v := s.attrs[attr]
	if !v.written {
		return v.v
	}
	out := fit(form, v.v)
	for _, f := range form.Validate(out) {
		name := attr + partName(f.Path)
		d := Diagnostic{
			Type:    typ,
			Message: fmt.Sprintf("%s in %s %s", name, s.node.title(), f.Message),
			Range:   v.within(f.Path),
			Path:    append(slices.Clone(s.node.path), attr),
			Found:   f.Got,
		}
		switch kinds, ok := enumerated(f.Expected); {
		case ok:
			d.Message = fmt.Sprintf("%s in %s is none of its words", name, s.node.title())
			d.Expected, d.Nearest = words(kinds), nearest(scalarText(f.Got), kinds)
		case f.Keys != nil:
			d.Message = fmt.Sprintf("%s in %s has an unknown key", attr+partName(f.Path[:len(f.Path)-1]),
				s.node.title())
			d.Expected, d.Found = words(hclNames(f.Keys)), edn.Text(hclName(scalarText(f.Path[len(f.Path)-1])))
			d.Nearest = nearest(plain(d.Found), hclNames(f.Keys))
			d.Hint = cmp.Or(meant(d.Nearest), "remove it, or correct its name")
		case f.Expected.IsNil():
			d.Hint = "correct the others first" // the message counts the omitted findings
		default:
			d.Expected = edn.Text(inWords(f.Expected))
		}
		b.report.add(d)
	}
	return out
}
