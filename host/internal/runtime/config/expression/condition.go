package expression

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"regexp"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Limits of the source of a gate expression (HCL-025), in bytes and operators.
const (
	MaxGateSource    = 4 << 10
	MaxGateOperators = 512
)

// gateVariables are the variables of gate expressions.
var gateVariables = []string{"result", "request", "env", "meta"}

// requestFields are the fields of the variable request.
var requestFields = []string{"intent", "input", "context", "constraints", "done", "budget", "role"}

// CheckLimit is the code of the finding for a gate expression that exceeded its step limit or a
// size limit.
const CheckLimit = "check/limit"

// program is a compiled gate expression. It is safe for concurrent use: each evaluation takes an
// instance from a pool.
type program struct {
	text  []byte
	start hcl.Pos
	file  string
	at    string // "file:line:column" for findings
	needs map[string]*need
	calls []string
	pool  sync.Pool
}

// need is the part of a variable that an expression reads; only that part is
// converted.
type need struct {
	all    bool
	fields map[string]*need
}

// instance is one parsed copy of the expression with its own meter.
type instance struct {
	meter *meter
	expr  hclsyntax.Expression
	ctx   hcl.EvalContext
}

// Compile checks a gate expression and returns a program for it; nil after an error, which is
// reported. A condition must return a bool, other expressions a string.
func Compile(x syntax.ExprIn, condition bool, path []string, report *diag.Collector) *program {
	expr, ok := x.Expr.(hclsyntax.Expression)
	if !ok {
		return nil
	}
	c := gateCompiler{source: x.Source, path: path, report: report}
	if !c.bounds(expr) || !c.names(expr) {
		return nil
	}
	p := &program{
		text:  append([]byte(syntax.SourceText(x.Source, expr)), '\n'),
		start: expr.Range().Start,
		file:  x.Source.Name,
		at:    x.Source.Range(expr.Range()).String(),
		needs: map[string]*need{},
	}
	for _, t := range expr.Variables() {
		p.require(t)
	}
	p.calls = calls(expr)
	p.pool.New = func() any { return p.instance() }
	in := p.instance()
	if in == nil || !c.check(in, condition) {
		return nil
	}
	p.pool.Put(in)
	return p
}

func calls(expr hclsyntax.Expression) []string {
	var out []string
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && !slices.Contains(out, call.Name) {
			out = append(out, call.Name)
		}
		return nil
	})
	return out
}

type gateCompiler struct {
	source *diag.Source
	path   []string
	report *diag.Collector
}

func (c *gateCompiler) add(typ, message string, at hcl.Range) {
	d := diag.Diagnostic{
		Type:    typ,
		Message: language.Subject(c.path) + ": " + message,
		Range:   c.source.Range(at),
		Path:    c.path,
	}
	if typ == "config/limit" {
		d.Hint = "divide it into several checks, or compute it in a capability"
	}
	c.report.Add(d)
}

// bounds checks the limits on the source of the expression.
func (c *gateCompiler) bounds(expr hclsyntax.Expression) bool {
	r := expr.Range()
	if n := r.End.Byte - r.Start.Byte; n > MaxGateSource {
		c.add("config/limit",
			fmt.Sprintf("the expression has %d bytes, over the limit of %s", n, language.FormatBytes(MaxGateSource)), r)
		return false
	}
	if n := operators(expr); n > MaxGateOperators {
		c.add("config/limit", fmt.Sprintf("the expression has %d operators, over the limit of %d", n, MaxGateOperators),
			r)
		return false
	}
	w := loopWalker{}
	_ = hclsyntax.Walk(expr, &w)
	if w.inner != nil {
		c.add("config/limit", "a for or splat inside another for, which is not permitted", *w.inner)
		return false
	}
	return true
}

// loopWalker finds the first loop within another loop.
type loopWalker struct {
	depth int
	inner *hcl.Range
}

func loop(n hclsyntax.Node) bool {
	switch n.(type) {
	case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
		return true
	}
	return false
}

func (w *loopWalker) Enter(n hclsyntax.Node) hcl.Diagnostics {
	if loop(n) {
		if w.depth++; w.depth > 1 && w.inner == nil {
			r := n.Range()
			w.inner = &r
		}
	}
	return nil
}

func (w *loopWalker) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if loop(n) {
		w.depth--
	}
	return nil
}

// names reports unknown variables and functions, and invalid regular expressions; it returns false
// if there are any.
func (c *gateCompiler) names(expr hclsyntax.Expression) bool {
	good := checkCalls(expr, gateFunctions, c.source, c.path, c.report)
	for _, t := range expr.Variables() {
		root := t.RootName()
		if !slices.Contains(gateVariables, root) {
			good = false
			c.report.Add(diag.Diagnostic{
				Type:     "config/unknown-name",
				Message:  language.Subject(c.path) + ": unknown variable " + diag.Quote(root),
				Range:    c.source.Range(t.SourceRange()),
				Path:     c.path,
				Expected: diag.Words(gateVariables),
				Found:    edn.Text(root),
				Nearest:  nearestVariable(t, gateVariables),
				Hint:     gateHint(t),
			})
			continue
		}
		if name, ok := StepName(t); root == "request" && ok && !slices.Contains(requestFields, name) {
			good = false
			c.report.Add(diag.Diagnostic{
				Type:     "config/unknown-name",
				Message:  language.Subject(c.path) + ": a request has no " + diag.Quote(name),
				Range:    c.source.Range(t.SourceRange()),
				Path:     c.path,
				Expected: diag.Words(requestFields),
				Found:    edn.Text(name),
				Nearest:  diag.Nearest(name, requestFields),
			})
		}
	}
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && len(call.Args) > 0 &&
			slices.Contains([]string{"matches", "regex", "regexall"}, call.Name) {
			v, diags := call.Args[0].Value(nil)
			if s, ok := syntax.AsText(v); ok && !diags.HasErrors() {
				if _, err := regexp.Compile(s); err != nil {
					good = false
					c.add("config/type", "the pattern is not an RE2 expression: "+disk.Cause(err), call.Args[0].Range())
				}
			}
		}
		return nil
	})
	return good
}

func gateHint(t hcl.Traversal) string {
	switch {
	case t.RootName() == "local":
		return "a gate expression cannot read locals: write the value itself"
	case nearestVariable(t, gateVariables) != "":
		return ""
	case len(t) > 1:
		return "the variable result is the answer that the check judges"
	}
	return "a text needs quotes: " + diag.Quote(t.RootName())
}

// check evaluates the expression with unknown values to find type errors.
func (c *gateCompiler) check(in *instance, condition bool) bool {
	request := map[string]cty.Value{}
	for _, f := range requestFields {
		request[f] = cty.DynamicVal
	}
	in.ctx.Variables = map[string]cty.Value{"result": cty.DynamicVal, "env": cty.DynamicVal, "meta": cty.DynamicVal,
		"request": cty.ObjectVal(request)}
	in.meter.reset()
	v, diags := in.expr.Value(&in.ctx)
	if in.meter.over != nil {
		c.add("config/limit", in.meter.over.Error(), in.expr.Range())
		return false
	}
	good := true
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			good = false
			c.add("config/type", syntax.Sentence(d), *d.Subject)
		}
	}
	given := ""
	if t := v.Type(); t == cty.DynamicPseudoType {
		given = givenBy(in.expr)
	} else if t != cty.Bool {
		given = t.FriendlyName()
	}
	if good && condition && given != "" {
		hint := ""
		if _, ok := in.expr.(*hclsyntax.TemplateExpr); ok {
			hint = "write the condition without quotes around it"
		}
		c.report.Add(diag.Diagnostic{
			Hint:     hint,
			Type:     "config/type",
			Message:  fmt.Sprintf("%s: the condition gives a %s, not true or false", language.Subject(c.path), given),
			Range:    c.source.Range(in.expr.Range()),
			Path:     c.path,
			Expected: edn.Text("true or false, such as that of a comparison"),
			Found:    edn.Text("a " + given),
		})
		return false
	}
	return good
}

// givenBy returns the type of an expression that is never a bool, whatever its operands are; empty
// for other expressions.
func givenBy(expr hclsyntax.Expression) string {
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return givenBy(e.Expression)
	case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
		return "collection"
	case *hclsyntax.FunctionCallExpr:
		switch e.Name {
		case "length", "sum":
			return "number"
		case "concat", "compact", "distinct", "flatten", "keys", "values", "merge", "range", "regexall",
			"reverse", "slice", "sort", "split", "zipmap":
			return "collection"
		}
	}
	return ""
}

func (p *program) require(t hcl.Traversal) {
	n := p.needs[t.RootName()]
	if n == nil {
		n = &need{fields: map[string]*need{}}
		p.needs[t.RootName()] = n
	}
	for _, step := range t[1:] {
		name := ""
		switch s := step.(type) {
		case hcl.TraverseAttr:
			name = s.Name
		case hcl.TraverseIndex:
			if s.Key.IsKnown() && !s.Key.IsNull() && s.Key.Type() == cty.String {
				name = s.Key.AsString()
			}
		}
		if name == "" {
			break
		}
		next := n.fields[name]
		if next == nil {
			next = &need{fields: map[string]*need{}}
			n.fields[name] = next
		}
		n = next
	}
	n.all = true
}

func (p *program) instance() *instance {
	expr, diags := hclsyntax.ParseExpression(p.text, p.file, p.start)
	if diags.HasErrors() {
		return nil
	}
	m := &meter{}
	m.instrument(expr)
	in := &instance{meter: m, expr: expr}
	in.ctx.Functions = make(map[string]function.Function, len(p.calls))
	for _, name := range p.calls {
		in.ctx.Functions[name], _ = m.function(name)
	}
	return in
}

// evaluate returns the value of the expression for a subject.
func (p *program) evaluate(s quality.Subject) (cty.Value, error) {
	variables := make(map[string]cty.Value, len(p.needs))
	for name, n := range p.needs {
		v, err := n.variable(name, s)
		if err != nil {
			return cty.NilVal, err
		}
		variables[name] = v
	}
	in, _ := p.pool.Get().(*instance)
	defer p.pool.Put(in)
	in.meter.reset()
	in.ctx.Variables = variables
	v, diags := in.expr.Value(&in.ctx)
	in.ctx.Variables = nil
	if in.meter.over != nil {
		return cty.NilVal, in.meter.over
	}
	if diags.HasErrors() {
		return cty.NilVal, gateError(diags, p.at)
	}
	if !v.IsWhollyKnown() {
		return cty.NilVal, errors.New("the value of the expression is not known")
	}
	if weight(v, MaxGateResult/64) > MaxGateResult/64 {
		return cty.NilVal, &limitError{"the result is over " + language.FormatBytes(MaxGateResult)}
	}
	return v, nil
}

// evalError is an evaluation error with its position.
type evalError struct{ at, message string }

func (e *evalError) Error() string { return e.message }

func gateError(diags hcl.Diagnostics, at string) error {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if d.Subject != nil {
			at = fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		return &evalError{at: at, message: syntax.Sentence(d)}
	}
	return &evalError{at: at, message: "the expression cannot be evaluated"}
}

func (n *need) variable(name string, s quality.Subject) (cty.Value, error) {
	var v edn.Value
	switch name {
	case "result":
		v = s.Result
	case "request":
		v = s.Request
	case "meta":
		v = s.Meta
	case "env":
		if s.Env != nil {
			v = s.Env()
		}
	}
	if err := measure(v); err != nil {
		return cty.NilVal, err
	}
	return n.convert(v)
}

// convert converts the part of a value that the expression reads. A map has only the keys that the
// expression names.
func (n *need) convert(v edn.Value) (cty.Value, error) {
	if n.all || v.Kind() != edn.KindMap {
		return toCty(v)
	}
	fields := make(map[string]cty.Value, len(n.fields))
	for name, inner := range n.fields {
		x, found, err := field(v, name)
		if err != nil {
			return cty.NilVal, err
		}
		if !found {
			continue
		}
		c, err := inner.convert(x)
		if err != nil {
			return cty.NilVal, err
		}
		fields[name] = c
	}
	return cty.ObjectVal(fields), nil
}

// field returns the entry of a map whose key has the text name. The error means that several keys
// have it.
func field(v edn.Value, name string) (edn.Value, bool, error) {
	var out edn.Value
	n := 0
	if k, err := edn.Keyword(name); err == nil {
		if x, ok := v.Get(k); ok {
			out, n = x, n+1
		}
	}
	if x, ok := v.Get(edn.Text(name)); ok {
		out, n = x, n+1
	}
	if n == 0 {
		for k, x := range v.Entries() {
			if language.ScalarText(k) == name {
				out, n = x, n+1
			}
		}
	}
	if n > 1 {
		return edn.Nil(), false, fmt.Errorf("the value has two keys that read %s", diag.Quote(name))
	}
	return out, n == 1, nil
}

// Judge returns the check function of a condition. If the condition is false, the outcome fails
// without a finding, so that the message of the check is used. If it cannot be evaluated, the
// outcome has a finding.
func (p *program) Judge() quality.Func {
	return func(s quality.Subject) quality.Outcome {
		v, err := p.evaluate(s)
		if err == nil {
			var pass bool
			if pass, err = AsBool(v); err == nil {
				return quality.Outcome{Pass: pass}
			}
		}
		return quality.Failed(p.finding(err))
	}
}

func (p *program) finding(err error) quality.Finding {
	f := quality.Finding{Code: quality.CheckError, Message: p.at + ": " + err.Error()}
	var limit *limitError
	var where *evalError
	switch {
	case errors.As(err, &limit):
		f.Code = CheckLimit
	case errors.As(err, &where):
		f.Message = where.at + ": " + where.message
	}
	return f
}

// Applies returns a function that reports whether a check applies to a subject. If the expression
// cannot be evaluated, the check applies, and the result has a finding.
func (p *program) Applies() func(quality.Subject) (bool, *quality.Finding) {
	return func(s quality.Subject) (bool, *quality.Finding) {
		var yes bool
		v, err := p.evaluate(s)
		if err == nil {
			yes, err = AsBool(v)
		}
		if err == nil {
			return yes, nil
		}
		unknown := p.finding(err)
		unknown.Message = "applies cannot be evaluated, so the check applied: " + unknown.Message
		return true, &unknown
	}
}

// Message returns a function that renders the message of a failed check. name is the name of the
// check.
func (p *program) Message(name string) func(quality.Subject) string {
	return func(s quality.Subject) string {
		v, err := p.evaluate(s)
		if err == nil {
			var m string
			if m, err = asMessage(v); err == nil {
				return m
			}
		}
		return "check " + name + " failed, and its message cannot be made: " + err.Error()
	}
}
