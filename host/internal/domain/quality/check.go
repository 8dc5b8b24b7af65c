package quality

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/fermenthq/ferment/sdk/text"
)

// SchemaValid is the check that is always a must if the call has an out-schema.
const SchemaValid = "schema-valid"

// CheckError is the Code of the finding for a check that could not run (GATE-009, 010).
const CheckError = "check/error"

// Severity is the consequence of a failed check.
type Severity uint8

// The severities. A failed must rejects the answer, a failed should lowers its score.
const (
	Must Severity = iota
	Should
)

// String returns "must" or "should".
func (s Severity) String() string {
	if s == Must {
		return "must"
	}
	return "should"
}

// SeverityOf returns the severity with a name, Should for an unknown name.
func SeverityOf(name string) Severity {
	if name == Must.String() {
		return Must
	}
	return Should
}

// Tier orders checks by cost. If a must of a tier fails, later tiers do not run.
type Tier uint8

// The tiers of EVAL-040.
const (
	TierBuiltin Tier = iota
	TierCondition
	TierCapability
	TierJudge
)

// Subject is the input of a check.
type Subject struct {
	// Result is the judged `:out`.
	Result edn.Value
	// Request holds :intent :input :context :constraints :done :budget :role.
	Request edn.Value
	// Meta is `:invoke/meta` with usage and finish.
	Meta edn.Value
	// Env returns the visible slots by name; it is called only by conditions
	// that read them and may be nil.
	Env func() edn.Value
	// System is the system prompt of the call, empty if it has none.
	System string
	// Schema is the effective out-schema, nil if there is none.
	Schema *schema.Schema
	// SchemaName names Schema in messages.
	SchemaName string
	// Params are the parameters of the check that runs.
	Params edn.Value
}

// Finding is one objection of a check to an answer.
type Finding struct {
	// Gate and Severity are filled in by Result.Named.
	Gate     string
	Severity Severity
	// Code is a keyword such as "check/error", empty for an ordinary finding.
	Code    string
	Path    []edn.Value
	Message string
	// Range is the range in the text at Path, in code points; both are 0 if
	// unknown.
	Range [2]int
	// Fix is an optional next step.
	Fix string
}

// Value returns the finding as used in records and repair requests.
func (f Finding) Value() edn.Value {
	var b edn.MapBuilder
	b.Key("gate", edn.K(f.Gate))
	b.Key("severity", edn.K(f.Severity.String()))
	b.OptKeyword("code", f.Code)
	b.Key("path", edn.Vector(f.Path...))
	b.Key("message", edn.Text(f.Message))
	if f.Range[1] > 0 {
		b.Key("range", edn.Vector(edn.Int(int64(f.Range[0])), edn.Int(int64(f.Range[1]))))
	}
	b.OptText("fix", f.Fix)
	return b.Map()
}

// FindingsValue returns findings as a vector of Finding.Value.
func FindingsValue(fs []Finding) edn.Value {
	vs := make([]edn.Value, len(fs))
	for i := range fs {
		vs[i] = fs[i].Value()
	}
	return edn.Vector(vs...)
}

// FindingsOf reads findings from a record; elements that are not maps are ignored.
func FindingsOf(v edn.Value) []Finding {
	var out []Finding
	for x := range v.Elems() {
		f := Finding{Severity: SeverityOf(x.Key("severity").Name())}
		f.Gate, _ = x.Key("gate").AsKeyword()
		f.Code, _ = x.Key("code").AsKeyword()
		f.Message, _ = x.Key("message").AsString()
		f.Fix, _ = x.Key("fix").AsString()
		f.Path = slices.Collect(x.Key("path").Elems())
		for i := range f.Range {
			at, _ := x.Key("range").Nth(i)
			n, _ := at.AsInt()
			f.Range[i] = int(n)
		}
		if x.IsMap() {
			out = append(out, f)
		}
	}
	return out
}

// Outcome is the result of one check.
type Outcome struct {
	Pass bool
	// NotApplicable excludes the check from the score (TXT-007).
	NotApplicable bool
	Findings      []Finding
}

// Passed returns the outcome of a check without objections.
func Passed() Outcome { return Outcome{Pass: true} }

// NotApplicable returns the outcome of a check that does not apply to the subject; note is the
// reason.
func NotApplicable(note string) Outcome {
	return Outcome{Pass: true, NotApplicable: true, Findings: []Finding{{Message: note}}}
}

// Failed returns the outcome of a check that objects.
func Failed(fs ...Finding) Outcome { return Outcome{Findings: fs} }

// Errored returns the outcome of a check that could not run: a failure with the code CheckError.
func Errored(message string) Outcome {
	return Failed(Finding{Code: CheckError, Message: message})
}

// Func judges a subject. It must be pure, must not keep the subject, and is
// called concurrently.
type Func func(Subject) Outcome

// Check is a named gate that can be run.
type Check struct {
	registry.Check

	// Judge is the function of a built-in or a condition; nil for a capability
	// check, which dispatch calls.
	Judge Func
	// ParamsSchema is the form of the parameters of a built-in: a closed map.
	ParamsSchema edn.Value
	// Applies reports whether the check applies to this subject; nil means always. A
	// non-nil finding means that this could not be determined; the check then applies.
	Applies func(Subject) (bool, *Finding)
	// Message returns the text of a failure without findings; nil means a
	// generated one.
	Message func(Subject) string
}

// Tier returns the cost tier of the check.
func (c *Check) Tier() Tier {
	switch c.Kind {
	case registry.CheckBuiltin:
		return TierBuiltin
	case registry.CheckCondition:
		return TierCondition
	}
	return TierCapability
}

// Applicable reports whether the check applies to the subject.
func (c *Check) Applicable(s Subject) bool {
	if c.Applies == nil {
		return true
	}
	yes, unknown := c.Applies(s)
	return yes || unknown != nil
}

// Run runs a built-in or a condition. A panic of the check is a check/error finding. A
// capability check uses CapabilityInput and Interpret instead; for it Run returns a
// check/error finding.
func (c *Check) Run(s Subject) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			out = c.finish(Errored(fmt.Sprintf("check :%s panicked: %v", c.Name, p)), s)
		}
	}()
	s.Params = c.Params
	if !c.Applicable(s) {
		return c.finish(NotApplicable("does not apply"), s)
	}
	if c.Judge == nil {
		return c.finish(Errored("check :"+c.Name+" has no function"), s)
	}
	return c.verdict(c.Judge(s), s)
}

// verdict returns the finished outcome. If Applies could not determine whether the check
// applies, a failure also contains its finding.
func (c *Check) verdict(o Outcome, s Subject) Outcome {
	o = c.finish(o, s)
	if !o.Pass && c.Applies != nil {
		if _, unknown := c.Applies(s); unknown != nil {
			unknown.Gate = c.Name
			o.Findings = append(o.Findings, *unknown)
		}
	}
	return o
}

// finish sets the gate name in the findings and adds one to a failure without
// findings.
func (c *Check) finish(o Outcome, s Subject) Outcome {
	if !o.Pass && len(o.Findings) == 0 {
		message := "check :" + c.Name + " failed"
		if c.Message != nil {
			message = c.Message(s)
		}
		o.Findings = []Finding{{Message: message}}
	}
	for i := range o.Findings {
		o.Findings[i].Gate = c.Name
	}
	return o
}

// Set holds every check of one configuration by name.
type Set struct {
	byName    map[string]*Check
	languages *text.Packs
}

// NewSet is NewSetIn with the built-in languages.
func NewSet(checks ...Check) (*Set, error) { return NewSetIn(nil, checks...) }

// NewSetIn joins the built-in checks with those of a configuration, which replace built-ins of the
// same name. The built-in checks judge texts in the given languages (nil: the built-in ones). The
// error is for a check without a name, a duplicate one, or one of an unknown built-in.
func NewSetIn(languages *text.Packs, checks ...Check) (*Set, error) {
	s := &Set{byName: make(map[string]*Check), languages: languages}
	for _, c := range Builtins(languages) {
		s.byName[c.Name] = &c
	}
	seen := make(map[string]bool, len(checks))
	for i := range checks {
		c := checks[i]
		if c.Name == "" {
			return nil, fmt.Errorf("quality: check %d has no name", i)
		}
		if seen[c.Name] {
			return nil, fmt.Errorf("quality: check :%s is given twice", c.Name)
		}
		seen[c.Name] = true
		if c.Kind == registry.CheckBuiltin && c.Judge == nil {
			b, ok := s.byName[c.Builtin]
			if !ok || b.Kind != registry.CheckBuiltin {
				return nil, fmt.Errorf("quality: check :%s names the unknown built-in %q", c.Name, c.Builtin)
			}
			c.Judge = b.Judge
		}
		s.byName[c.Name] = &c
	}
	return s, nil
}

// Languages returns the languages in which texts are judged and cut; nil means the built-in
// ones.
func (s *Set) Languages() *text.Packs {
	if s == nil {
		return nil
	}
	return s.languages
}

// Check returns the check with this name; false if there is none.
func (s *Set) Check(name string) (*Check, bool) {
	c, ok := s.byName[name]
	return c, ok
}

// Declarations returns the checks as the registry declares them, sorted by
// name.
func (s *Set) Declarations() []registry.Check {
	out := make([]registry.Check, 0, len(s.byName))
	for _, c := range s.byName {
		d := c.Check
		d.Conditional = c.Applies != nil
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b registry.Check) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Gate is one check or judge of a call. Check is nil for a judge and for an unknown name; a gate
// with an unknown name always fails.
type Gate struct {
	Name     string
	Severity Severity
	Check    *Check
	// Judge is the name of the judge, empty for a check.
	Judge string
}

// JudgeGate returns the gate of a judge. Its name is judge/NAME, which no check can have.
func JudgeGate(name string, severity Severity) Gate {
	return Gate{Name: "judge/" + name, Severity: severity, Judge: name}
}

// Tier returns the cost tier; an unknown check is in the first.
func (g *Gate) Tier() Tier {
	if g.Judge != "" {
		return TierJudge
	}
	if g.Check == nil {
		return TierBuiltin
	}
	return g.Check.Tier()
}

// Gates returns the gates of the checks of a call in the order in which they run: by tier, musts
// before shoulds, by name. A name in both lists is must. With an out-schema, schema-valid is always
// a must (GATE-007).
func (s *Set) Gates(must, should []string, schemaEffective bool) []Gate {
	gates := make([]Gate, 0, len(must)+len(should)+1)
	add := func(name string, sev Severity) {
		for i := range gates {
			if gates[i].Name == name {
				return
			}
		}
		gates = append(gates, Gate{Name: name, Severity: sev, Check: s.byName[name]})
	}
	if schemaEffective {
		add(SchemaValid, Must)
	}
	for _, n := range must {
		add(n, Must)
	}
	for _, n := range should {
		add(n, Should)
	}
	slices.SortStableFunc(gates, func(a, b Gate) int {
		return cmp.Or(cmp.Compare(a.Tier(), b.Tier()), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Name, b.Name))
	})
	return gates
}

// Named sets the gate and the severity in the findings of r, and returns r. It changes the
// shared slice of findings.
func (r Result) Named() Result {
	for i := range r.Findings {
		r.Findings[i].Gate = r.Gate.Name
		r.Findings[i].Severity = r.Gate.Severity
	}
	return r
}
