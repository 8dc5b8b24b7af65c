package build

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
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// compileJudges returns the judges of the judge blocks.
func (b *builder) compileJudges() []registry.Judge {
	rubrics := map[string]edn.Value{}
	for _, s := range b.All("rubric") {
		rubrics[rubricName(s.Label())] = b.rubric(s)
	}
	var out []registry.Judge
	for _, s := range b.All("judge") {
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

func (b *builder) judgeOf(s *decode.Section, rubrics map[string]edn.Value) registry.Judge {
	j := registry.Judge{
		Name:            s.Label(),
		Intent:          s.Text("intent"),
		Enabled:         s.Flag("enabled"),
		MaxAttempts:     s.Integer("max_attempts"),
		Votes:           s.Integer("votes"),
		IgnoreErrors:    s.Text("on_error") == "ignore",
		AllowSameFamily: s.Flag("allow_same_family"),
		Memo:            s.Flag("memo"),
		MinKappa:        s.Number("min_kappa"),
		Drift:           s.Number("drift"),
		Recheck:         s.Duration("recheck"),
		Anchors:         s.Text("anchors"),
		Where:           s.Where(),
	}
	j.ScorePath, _ = s.Texts("score_path")
	b.KindOf(s, "anchors", decode.File)
	b.There(s, "anchors")
	if v := s.Attrs["votes"]; v.Written && j.Votes%2 == 0 {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("votes in %s is even: a tie is possible", s.Node.Title()),
			Range:    v.At,
			Path:     append(slices.Clone(s.Node.Path), "votes"),
			Expected: edn.Text("an odd int 1..9"),
			Found:    v.EDN,
		})
	}
	if v := s.Attrs["intent"]; v.Written && !b.intentKnown(j.Intent) {
		b.dangling(s, "intent", "intent", j.Intent, b.intentNames(), v.At)
	}
	if s.Written("capability") {
		j.Capability = b.capabilityRef(s, "capability")
		b.grades(s, j)
	}
	if v := s.Attrs["rubric"]; v.Written {
		name := rubricName(s.Text("rubric"))
		rubric, ok := rubrics[name]
		if !ok {
			known := make([]string, 0, len(rubrics))
			for _, full := range slices.Sorted(maps.Keys(rubrics)) {
				known = append(known, strings.TrimPrefix(full, "rubric/"))
			}
			b.dangling(s, "rubric", "rubric", strings.TrimPrefix(name, "rubric/"), known, v.At)
		}
		j.Rubric = rubric
	}
	return j
}

// grades reports a judge whose capability does not serve its intent.
func (b *builder) grades(s *decode.Section, j registry.Judge) {
	i := slices.IndexFunc(b.caps, func(c registry.Capability) bool { return c.ID == j.Capability })
	if i < 0 || b.caps[i].Serves(j.Intent) {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type: "config/type",
		Message: fmt.Sprintf("capability %s does not serve intent %s, which %s asks", diag.Quote(j.Capability),
			diag.Quote(j.Intent), s.Node.Title()),
		Range:    s.Attrs["capability"].At,
		Path:     append(slices.Clone(s.Node.Path), "capability"),
		Expected: edn.Text("a capability for " + j.Intent),
		Found:    edn.Text("one for " + strings.Join(b.caps[i].Intents, ", ")),
		Related:  []diag.Related{{Range: b.capPlace[j.Capability], Message: "gives capability " + diag.Quote(j.Capability)}},
	})
}

// rubric returns the rubric of a judge block as data.
func (b *builder) rubric(s *decode.Section) edn.Value {
	var m edn.MapBuilder
	name := rubricName(s.Label())
	m.Key("id", edn.K(name))
	m.Key("version", s.Attrs["version"].EDN)
	scale := s.Attrs["scale"].EDN
	m.Key("scale", scale)
	low, _ := scale.Nth(0)
	high, _ := scale.Nth(1)
	if a, ok := low.AsNumber(); ok {
		if z, ok := high.AsNumber(); ok && a.Cmp(z) >= 0 {
			b.Report.Add(diag.Diagnostic{
				Type:     "judge/rubric-invalid",
				Message:  fmt.Sprintf("scale in %s is not ascending", s.Node.Title()),
				Range:    s.Attrs["scale"].At,
				Path:     append(slices.Clone(s.Node.Path), "scale"),
				Expected: edn.Text("[worst, best] with worst below best"),
				Found:    scale,
			})
		}
	}
	var criteria []edn.Value
	for _, c := range s.All("criterion") {
		if strings.TrimSpace(c.Text("ask")) == "" && c.Written("ask") {
			b.Report.Add(diag.Diagnostic{
				Type:     "judge/rubric-invalid",
				Message:  fmt.Sprintf("criterion %s in %s has no question", diag.Quote(c.Label()), s.Node.Title()),
				Range:    c.Attrs["ask"].At,
				Path:     append(slices.Clone(c.Node.Path), "ask"),
				Expected: edn.Text("a question to the judge"),
			})
		}
		criteria = append(criteria, edn.MustMap(edn.K("id"), edn.K(c.Label()), edn.K("weight"), c.Attrs["weight"].EDN,
			edn.K("ask"), edn.Text(c.Text("ask"))))
	}
	if len(criteria) > 0 {
		m.Key("criteria", edn.Vector(criteria...))
	}
	rules := s.Attrs["rules"]
	if rules.Written {
		m.Key("rules", b.rules(s, rules))
	}
	if len(criteria) == 0 && !rules.Written && !s.Unread("rules") && !s.Node.Damaged {
		b.Report.Add(b.Decoder.Root.Misnamed(s.Node, diag.Diagnostic{
			Type:     "judge/rubric-invalid",
			Message:  s.Node.Title() + " has neither a criterion nor rules",
			Range:    s.At(),
			Path:     s.Node.Path,
			Expected: edn.Text("a criterion block, or rules"),
		}))
	}
	return m.Map()
}

// rulesSchema is the schema of the rules of a rubric. Plugins with a rule-based judge publish it.
const rulesSchema = "rubric/rules"

// rules checks the rules of a rubric, if a plugin publishes their schema.
func (b *builder) rules(s *decode.Section, v decode.Value) edn.Value {
	form, ok := b.compiled.Lookup(rulesSchema)
	if !ok {
		b.patterns(s, v, v.EDN)
		return v.EDN
	}
	out := b.fitted(s, "rules", "judge/rubric-invalid", form)
	b.patterns(s, v, out)
	return out
}

// patterns reports regular expressions in pattern rules that do not compile, which a schema cannot
// check.
func (b *builder) patterns(s *decode.Section, v decode.Value, rules edn.Value) {
	for i := range rules.Len() {
		rule, _ := rules.Nth(i)
		if language.ScalarText(rule.Key("rule")) != "pattern" {
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

func (b *builder) pattern(s *decode.Section, v decode.Value, text edn.Value, path ...edn.Value) {
	pattern, _ := text.AsString()
	if _, err := regexp.Compile(pattern); err != nil {
		b.Report.Add(diag.Diagnostic{
			Type: "judge/rubric-invalid",
			Message: fmt.Sprintf("rules%s in %s is not a regular expression: %s", language.PartName(path), s.Node.Title(),
				patternFault(err)),
			Range:    v.Within(path),
			Path:     append(slices.Clone(s.Node.Path), "rules"),
			Expected: edn.Text("a regular expression (RE2)"),
			Found:    edn.Text(diag.Short(pattern)),
		})
	}
}

// patternFault returns the error of a pattern without the pattern.
func patternFault(err error) string {
	var fault *syntax.Error
	if errors.As(err, &fault) {
		return string(fault.Code)
	}
	return err.Error()
}

// enumerated returns the members of an [:enum ...] form; false for other forms.
func enumerated(form edn.Value) ([]string, bool) {
	if kind, _ := form.Nth(0); !edn.Equal(kind, edn.K("enum")) {
		return nil, false
	}
	var out []string
	for word := range form.Elems() {
		out = append(out, language.ScalarText(word))
	}
	return out[1:], true
}

// judging adds the judge block of an intent to its policy layer.
func (b *builder) judging(l *policy.Layer, s *decode.Section) {
	in := s.Block("judge")
	if v := in.Attrs["severity"]; v.Written {
		l.JudgeSeverity = policy.Of(in.Text("severity"), policy.Origin{
			Source: policy.SourceIntent,
			Where:  v.At.String(),
		})
	}
	v := in.Attrs["use"]
	if !v.Written {
		if sev := in.Attrs["severity"]; sev.Written {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message:  "severity in " + in.Node.Title() + " has no effect: no judge is named",
				Range:    sev.At,
				Path:     append(slices.Clone(in.Node.Path), "severity"),
				Hint:     "set use = \"NAME\" to the name of a judge block, or remove severity",
			})
		}
		return
	}
	name := in.Text("use")
	b.use("judge", name)
	j, ok := b.judges[name]
	if !ok {
		b.dangling(in, "use", "judge", name, slices.Sorted(maps.Keys(b.judges)), v.At)
		return
	}
	l.Judge = policy.Of(name, policy.Origin{Source: policy.SourceIntent, Where: v.At.String()})
	if asked := j.Text("intent"); j.Flag("enabled") && !j.Written("intent") && !b.intentKnown(asked) &&
		(!j.Written("capability") || b.capNames[j.Text("capability")]) {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/dangling-reference",
			Message: fmt.Sprintf("no capability serves intent %s, which %s calls", diag.Quote(asked), j.Node.Title()),
			Range:   v.At,
			Path:    append(slices.Clone(in.Node.Path), "use"),
			Related: []diag.Related{{Range: j.At(), Message: "is judge " + diag.Quote(name)}},
			Hint:    "add a plugin that serves it, or name another intent in the judge block",
		})
	}
}

// misspelt reports whether a finding is a missing key that is similar to an unknown key beside it.
func misspelt(f schema.Finding, all []schema.Finding) bool {
	return f.Keys == nil && f.Got.IsNil() && len(f.Path) > 0 && slices.ContainsFunc(all, func(g schema.Finding) bool {
		last := len(f.Path) - 1
		if g.Keys == nil || len(g.Path) != len(f.Path) ||
			!edn.Equal(edn.Vector(g.Path[:last]...), edn.Vector(f.Path[:last]...)) {
			return false
		}
		name := func(k edn.Value) string { return language.HCLName(language.ScalarText(k)) }
		return diag.Nearest(name(g.Path[last]), decode.HCLNames(g.Keys)) == name(f.Path[last])
	})
}

// fitted returns the value of an attribute, converted to the schema. Parts that do not match are
// reported.
func (b *builder) fitted(s *decode.Section, attr, typ string, form *schema.Schema) edn.Value {
	v := s.Attrs[attr]
	if !v.Written {
		return v.EDN
	}
	out := decode.Fit(form, v.EDN)
	all := form.Validate(out)
	for _, f := range all {
		if misspelt(f, all) {
			continue
		}
		name := attr + language.PartName(f.Path)
		d := diag.Diagnostic{
			Type:    typ,
			Message: fmt.Sprintf("%s in %s %s", name, s.Node.Title(), f.Message),
			Range:   v.Within(f.Path),
			Path:    append(slices.Clone(s.Node.Path), attr),
			Found:   f.Got,
		}
		switch kinds, ok := enumerated(f.Expected); {
		case ok:
			d.Message = fmt.Sprintf("%s in %s is not one of the allowed words", name, s.Node.Title())
			d.Expected, d.Nearest = diag.Words(kinds), diag.Nearest(language.ScalarText(f.Got), kinds)
		case f.Keys != nil:
			d.Message = fmt.Sprintf("%s in %s has an unknown key", attr+language.PartName(f.Path[:len(f.Path)-1]),
				s.Node.Title())
			d.Expected = diag.Words(decode.HCLNames(f.Keys))
			d.Found = edn.Text(language.HCLName(language.ScalarText(f.Path[len(f.Path)-1])))
			d.Nearest = diag.Nearest(diag.Plain(d.Found), decode.HCLNames(f.Keys))
			d.Hint = cmp.Or(diag.DidYouMean(d.Nearest), "remove it, or correct its name")
		case f.Expected.IsNil():
			d.Hint = "correct the others first" // the message counts the omitted findings
		default:
			d.Expected = edn.Text(decode.InWords(f.Expected))
		}
		b.Report.Add(d)
	}
	return out
}
