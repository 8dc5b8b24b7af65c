package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// boundCheck is a built-in check that calls an intent (GATE-002).
type boundCheck struct {
	name, intent string
	evidence     bool
}

var boundChecks = []boundCheck{
	{name: "patch-applies", intent: "code/apply-patch", evidence: true},
	{name: "tests-pass", intent: "code/test", evidence: true},
}

// compileChecks returns the checks of the check blocks, and the bound checks that no block
// overrides.
func (b *builder) compileChecks() []quality.Check {
	var out []quality.Check
	for _, c := range boundChecks {
		if _, rebound := b.checks[c.name]; !rebound {
			out = append(out, quality.Check{Check: registry.Check{
				Name:     c.name,
				Kind:     registry.CheckCapability,
				Intent:   c.intent,
				Evidence: c.evidence,
				Timeout:  registry.DefaultCheckTimeout,
			}})
		}
	}
	for _, s := range b.All("check") {
		if c, ok := b.check(s); ok {
			out = append(out, c)
		}
	}
	return out
}

func (b *builder) check(s *decode.Section) (quality.Check, bool) {
	c := quality.Check{Check: registry.Check{
		Name:     s.Label(),
		Timeout:  s.Duration("timeout"),
		Evidence: s.Flag("evidence"),
		Params:   s.Attrs["params"].EDN,
		Where:    s.Where(),
	}}
	if b.isBuiltinCheck(c.Name) {
		b.use("check", c.Name)
		b.Report.Add(diag.Diagnostic{
			Type:     "config/overridden",
			Severity: diag.SeverityInfo,
			Message:  fmt.Sprintf("check %s is used instead of the built-in one", diag.Quote(c.Name)),
			Range:    s.At(),
			Path:     s.Node.Path,
		})
	}
	ok := b.oneKind(s) && b.judge(s, &c)
	if v := s.Attrs["applies"]; v.Written {
		p := expression.Compile(v.Expression(), true, append(slices.Clone(s.Node.Path), "applies"), b.Report)
		if ok = ok && p != nil; p != nil {
			c.Applies = p.Applies()
		}
	}
	if v := s.Attrs["message"]; v.Written {
		p := expression.Compile(v.Expression(), false, append(slices.Clone(s.Node.Path), "message"), b.Report)
		if ok = ok && p != nil; p != nil {
			c.Message = p.Message(c.Name)
		}
	}
	return c, ok
}

// oneKind reports a check that does not have exactly one of builtin, condition and intent.
func (b *builder) oneKind(s *decode.Section) bool {
	var written []string
	for _, name := range []string{"builtin", "condition", "intent"} {
		if a, tried := s.Node.Attrs[name]; tried && !syntax.IsNull(a.Expr) {
			written = append(written, name)
		}
	}
	switch {
	case len(written) == 1:
		return true
	case s.Node.Damaged:
	case len(written) == 0:
		b.Report.Add(b.Decoder.Root.Misnamed(s.Node, diag.Diagnostic{
			Type:     "config/missing",
			Message:  s.Node.Title() + " has neither builtin nor condition nor intent",
			Range:    s.At(),
			Path:     s.Node.Path,
			Expected: edn.Text("exactly one of builtin, condition, intent"),
		}))
	default:
		a := s.Node.Attrs[written[1]]
		b.Report.Add(diag.Diagnostic{
			Type:     "config/duplicate",
			Message:  fmt.Sprintf("%s has %s", s.Node.Title(), strings.Join(written, " and ")),
			Range:    a.Source.Range(a.NameRange),
			Path:     append(slices.Clone(s.Node.Path), written[1]),
			Expected: edn.Text("exactly one of builtin, condition, intent"),
			Hint:     "keep one of them",
		})
	}
	return false
}

func (b *builder) judge(s *decode.Section, c *quality.Check) bool {
	switch {
	case s.Written("condition"):
		c.Kind = registry.CheckCondition
		v := s.Attrs["condition"]
		p := expression.Compile(v.Expression(), true, append(slices.Clone(s.Node.Path), "condition"), b.Report)
		if p == nil {
			return false
		}
		c.Judge = p.Judge()
		return true
	case s.Written("builtin"):
		c.Kind, c.Builtin = registry.CheckBuiltin, s.Text("builtin")
		known, ok := b.builtins.Check(c.Builtin)
		if !ok {
			var names []string
			for _, d := range b.builtins.Declarations() {
				names = append(names, d.Name)
			}
			b.Report.Add(diag.Diagnostic{
				Type:     "config/dangling-reference",
				Message:  fmt.Sprintf("%s names the unknown built-in check %s", s.Node.Title(), diag.Quote(c.Builtin)),
				Range:    s.Attrs["builtin"].At,
				Path:     append(slices.Clone(s.Node.Path), "builtin"),
				Expected: diag.Words(names),
				Found:    edn.Text(c.Builtin),
				Nearest:  diag.Nearest(c.Builtin, names),
			})
			return false
		}
		c.Judge = known.Judge
		if form, err := schema.Compile(known.ParamsSchema); err == nil {
			c.Params = b.fitted(s, "params", "config/type", form)
		}
		return true
	case s.Written("intent"):
		c.Kind, c.Intent = registry.CheckCapability, s.Text("intent")
		if !b.intentKnown(c.Intent) {
			b.dangling(s, "intent", "intent", c.Intent, b.intentNames(), s.Attrs["intent"].At)
			return false
		}
		if in := b.inSchema(c.Intent); in != nil {
			c.Params = decode.Fit(in, c.Params)
		}
		return true
	}
	return false
}
