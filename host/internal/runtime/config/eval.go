package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// local is one name of the locals blocks. It is evaluated when first used.
type local struct {
	attr  *attribute
	state int // 0 new, 1 under evaluation, 2 done
	value cty.Value
	ok    bool
	used  bool
	// touched are the environment variables that the value depends on.
	touched []string
}

// evaluator evaluates the expressions of one load. It is not safe for concurrent
// use.
type evaluator struct {
	report *collector
	inputs *inputs
	meter  *meter
	locals map[string]*local
	stack  []string             // locals under evaluation, outermost first
	blocks map[string]cty.Value // block type -> object from label to reference
	labels map[string][]string  // block type -> labels
	funcs  map[*Source]map[string]function.Function
	paid   map[hcl.Expression]bool
	// touched collects the environment variables that expressions read.
	touched []string
}

func newEvaluator(report *collector, in *inputs) *evaluator {
	return &evaluator{report: report, inputs: in, meter: &meter{}, locals: map[string]*local{},
		blocks: map[string]cty.Value{},
		labels: map[string][]string{}, funcs: map[*Source]map[string]function.Function{},
		paid: map[hcl.Expression]bool{}}
}

// declare defines the labelled blocks of the tree as variables.
func (e *evaluator) declare(root *node) {
	refs := map[string]map[string]cty.Value{}
	for i := range root.spec.Blocks {
		if b := &root.spec.Blocks[i]; b.Label != LabelNone {
			refs[b.Name] = map[string]cty.Value{}
		}
	}
	for _, b := range root.blocks {
		if len(b.labels) == 1 {
			r := reference{block: b.spec.Name, label: b.labels[0]}
			refs[b.spec.Name][b.labels[0]] = cty.CapsuleVal(refType, &r)
			e.labels[b.spec.Name] = append(e.labels[b.spec.Name], b.labels[0])
		}
	}
	for name, labels := range refs {
		e.blocks[name] = cty.ObjectVal(labels)
		slices.Sort(e.labels[name])
	}
}

// addLocals collects the names of all locals blocks.
func (e *evaluator) addLocals(root *node) {
	for _, b := range root.blocks {
		if !b.spec.Open {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.attrs)) {
			e.locals[name] = &local{attr: b.attrs[name]}
		}
	}
}

// value evaluates an expression of an attribute. An error is reported, and ok is
// false.
func (e *evaluator) value(expr hcl.Expression, s *Source, path []string) (v cty.Value, ok bool) {
	if v, ok := literal(expr); ok {
		return v, v.IsKnown() // an unknown value was reported when it was read
	}
	ctx, ok := e.context(expr, s, path)
	if !ok {
		return cty.DynamicVal, false
	}
	e.pay(expr)
	e.meter.reset()
	v, diags := expr.Value(ctx)
	if over := e.meter.over; over != nil {
		e.report.add(Diagnostic{
			Type:    "config/limit",
			Message: over.Error(),
			Range:   s.hclRange(expr.Range()),
			Path:    path,
		})
		return cty.DynamicVal, false
	}
	seen := map[string]bool{}
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			ok = false
			if d.Summary == badOperand && seen[badOperand] {
				continue // the other side of one operator
			}
			seen[d.Summary] = true
			out := e.diagnose(d, s, path)
			if out.Type == "config/env-missing" {
				e.report.fold(out.Message, out)
				continue
			}
			e.report.add(out)
		}
	}
	if ok && !v.IsWhollyKnown() {
		return v, false // it depends on a reported error
	}
	return v, ok
}

// pay adds the meter to an expression of native syntax once.
func (e *evaluator) pay(expr hcl.Expression) {
	if native, ok := expr.(hclsyntax.Expression); ok && !e.paid[expr] {
		e.paid[expr] = true
		e.meter.instrument(native)
	}
}

// context checks the names in an expression and returns their values.
func (e *evaluator) context(expr hcl.Expression, s *Source, path []string) (*hcl.EvalContext, bool) {
	ok := true
	used := map[string]cty.Value{}
	variables := map[string]cty.Value{}
	named := 0 // end of an unquoted name, which is parsed as variables
	for _, t := range expr.Variables() {
		root, at := t.RootName(), t.SourceRange()
		if at.Start.Byte < named {
			continue
		}
		if objects, known := e.blocks[root]; known {
			variables[root] = objects
			ok = e.knownLabel(t, s, path) && ok
			continue
		}
		if root != "local" {
			ok = false
			if n := len(slashName.Find(s.text[at.End.Byte:])); n > 0 {
				at.End.Byte, at.End.Column = at.End.Byte+n, at.End.Column+n
				named = at.End.Byte
				text := string(s.text[at.Start.Byte:named])
				e.report.add(Diagnostic{
					Type:     "config/unknown-name",
					Message:  text + " is read as a division of variables",
					Range:    s.hclRange(at),
					Path:     path,
					Expected: textOrNil("a text in quotes"),
					Found:    textOrNil(text),
					Hint:     "a text needs quotes: " + quote(text),
				})
				continue
			}
			names := append(slices.Sorted(maps.Keys(e.blocks)), "local")
			e.report.fold("variable "+root, Diagnostic{
				Type:     "config/unknown-name",
				Message:  "unknown variable " + quote(root),
				Range:    s.hclRange(at),
				Path:     path,
				Expected: words(names),
				Found:    textOrNil(root),
				Nearest:  nearestVariable(t, names),
				Hint:     variableHint(t, names),
			})
			continue
		}
		name, v, good := e.local(t, s, path)
		ok = ok && good
		if good {
			used[name] = v
		}
	}
	ok = e.knownFunctions(expr, s, path) && ok
	if len(used) > 0 {
		variables["local"] = cty.ObjectVal(used)
	}
	return &hcl.EvalContext{Variables: variables, Functions: e.functions(s)}, ok
}

// slashName matches the rest of a name of the form NS/NAME after its first part.
var slashName = regexp.MustCompile(`^/[a-z][a-z0-9._-]*`)

// nearestVariable returns the known name nearest to an unknown variable; empty for a single word, which lacks quotes.
func nearestVariable(t hcl.Traversal, names []string) string {
	if len(t) == 1 {
		return ""
	}
	return nearest(t.RootName(), names)
}

// variableHint returns the hint for an unknown variable.
func variableHint(t hcl.Traversal, names []string) string {
	root := t.RootName()
	part, _ := stepName(t)
	switch lowered := strings.ToLower(root); {
	case nearestVariable(t, names) != "":
		return "" // the nearest name is the hint
	case len(t) == 1 && slices.Contains([]string{"true", "yes", "on"}, lowered):
		return "write true; a text needs quotes: " + quote(root)
	case len(t) == 1 && slices.Contains([]string{"false", "no", "off"}, lowered):
		return "write false; a text needs quotes: " + quote(root)
	case len(t) == 1 && slices.Contains([]string{"none", "nil", "undefined"}, lowered):
		return "write null for no value; a text needs quotes: " + quote(root)
	case len(t) == 1:
		return "a text needs quotes: " + quote(root)
	case slices.Contains([]string{"env", "environ", "secret", "file"}, root) && part != "":
		return fmt.Sprintf("%s is a function: write %s(%q)", root, root, part)
	case slices.Contains([]string{"result", "request", "meta"}, root):
		return root + " is known only to a check: write the condition into check \"NAME\" { condition = ... }, and name" +
			" the check"
	case part != "":
		return "a value for several places is local." + part + ", from a locals block"
	}
	return "a text needs quotes"
}

func (e *evaluator) knownLabel(t hcl.Traversal, s *Source, path []string) bool {
	label, ok := stepName(t)
	if !ok {
		return true
	}
	root := t.RootName()
	if _, found := slices.BinarySearch(e.labels[root], label); found {
		return true
	}
	if e.report.doubts(root, label) {
		return false
	}
	e.report.fold("block "+root+" "+label, Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("there is no %s %s", root, quote(label)),
		Range:    s.hclRange(t.SourceRange()),
		Path:     path,
		Expected: words(e.labels[root]),
		Found:    textOrNil(label),
		Nearest:  nearest(label, e.labels[root]),
	})
	return false
}

// stepName returns the first step of a traversal: local.NAME or block["LABEL"].
func stepName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String && step.Key.IsKnown() && !step.Key.IsNull() {
			return step.Key.AsString(), true
		}
	}
	return "", false
}

func (e *evaluator) local(t hcl.Traversal, s *Source, path []string) (string, cty.Value, bool) {
	at := s.hclRange(t.SourceRange())
	name, ok := stepName(t)
	if !ok {
		e.report.add(Diagnostic{
			Type:    "config/syntax",
			Message: "locals are used one by one, as local.NAME",
			Range:   at,
			Path:    path,
		})
		return "", cty.NilVal, false
	}
	l, ok := e.locals[name]
	if !ok {
		if e.report.doubts("locals", name) {
			return name, cty.NilVal, false
		}
		names := slices.Sorted(maps.Keys(e.locals))
		e.report.fold("local "+name, Diagnostic{
			Type:     "config/dangling-reference",
			Message:  "there is no local " + quote(name),
			Range:    at,
			Path:     path,
			Expected: words(names),
			Found:    textOrNil(name),
			Nearest:  nearest(name, names),
		})
		return name, cty.NilVal, false
	}
	l.used = true
	e.force(name, l)
	e.touched = append(e.touched, l.touched...)
	return name, l.value, l.ok
}

// force evaluates a local. A cycle is reported once, with all its members.
func (e *evaluator) force(name string, l *local) {
	switch l.state {
	case 2:
		return
	case 1:
		ring := append(slices.Clone(e.stack[slices.Index(e.stack, name):]), name)
		d := Diagnostic{
			Type:    "config/cycle",
			Message: "locals refer to each other: " + strings.Join(ring, " -> "),
			Range:   l.attr.source.hclRange(l.attr.rng),
			Path:    []string{"locals", name},
		}
		d.Hint = "let one of them do without the others"
		for _, member := range ring[1 : len(ring)-1] {
			a := e.locals[member].attr
			d.Related = append(d.Related,
				Related{Range: a.source.hclRange(a.rng), Message: "is local " + quote(member)})
		}
		e.report.add(d)
		return
	}
	l.state = 1
	e.stack = append(e.stack, name)
	outer := e.touched
	e.touched = nil
	l.value, l.ok = e.value(l.attr.expr, l.attr.source, []string{"locals", name})
	l.touched, e.touched = e.touched, outer
	e.stack = e.stack[:len(e.stack)-1]
	l.state = 2
	if l.ok && weight(l.value, MaxGateElements) > MaxGateElements {
		l.ok = false
		e.report.add(Diagnostic{
			Type:    "config/limit",
			Message: fmt.Sprintf("local %s has more than %d elements", quote(name), MaxGateElements),
			Range:   l.attr.source.hclRange(l.attr.rng),
			Path:    []string{"locals", name},
		})
	}
}

// forceAll evaluates the unused locals to report their errors.
func (e *evaluator) forceAll() {
	for _, name := range slices.Sorted(maps.Keys(e.locals)) {
		e.force(name, e.locals[name])
	}
}

// unused warns about locals that no expression reads.
func (e *evaluator) unused() {
	suggestions := 0
	for _, name := range slices.Sorted(maps.Keys(e.locals)) {
		if l := e.locals[name]; !l.used && l.ok {
			near := ""
			if suggestions++; suggestions <= maxSuggestions {
				near = nearest(name, e.localsElsewhere(l.attr.source))
			}
			e.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message:  "local " + quote(name) + " is not used",
				Range:    l.attr.source.hclRange(l.attr.rng),
				Path:     []string{"locals", name},
				Nearest:  near,
				Hint:     cmp.Or(meant(near), "remove it"),
			})
		}
	}
}

// maxSuggestions bounds the unused locals that are compared with those of other
// files: more of them are not misspelled.
const maxSuggestions = 50

// localsElsewhere returns the sorted names of the locals of other files.
func (e *evaluator) localsElsewhere(s *Source) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.locals)) {
		if e.locals[name].attr.source != s {
			out = append(out, name)
		}
	}
	return out
}

// knownFunctions reports calls of unknown functions, also inside try(), which
// would hide them.
func (e *evaluator) knownFunctions(expr hcl.Expression, s *Source, path []string) bool {
	return checkCalls(expr, append(slices.Clone(gateFunctions), loadFunctions...), s, path, e.report)
}

func checkCalls(expr hcl.Expression, names []string, s *Source, path []string, report *collector) bool {
	native, ok := expr.(hclsyntax.Node)
	if !ok {
		return true
	}
	good := true
	_ = hclsyntax.VisitAll(native, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if !ok || slices.Contains(names, call.Name) {
			return nil
		}
		good = false
		sorted := slices.Sorted(slices.Values(names))
		near, hint := nearest(call.Name, sorted), ""
		if slices.Contains(loadFunctions, call.Name) { // gate expressions read nothing from outside
			near, hint = "", call.Name+" is not called here: write the value itself, or read it from request"
		}
		report.add(Diagnostic{
			Type:     "config/unknown-name",
			Message:  "unknown function " + quote(call.Name),
			Range:    s.hclRange(call.NameRange),
			Path:     path,
			Expected: words(sorted),
			Found:    textOrNil(call.Name),
			Nearest:  near,
			Hint:     hint,
		})
		return nil
	})
	return good
}

// Error summaries of the library that get their own diagnostic.
const (
	badOperand = "Invalid operand"
	noMember   = "Unsupported attribute"
)

// membersAt returns the sorted attribute names of the object in which a traversal failed; nil if it is unknown.
func membersAt(d *hcl.Diagnostic) []string {
	x, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
	if !ok || d.EvalContext == nil || d.Subject == nil {
		return nil
	}
	for i, step := range x.Traversal {
		if step.SourceRange().Start.Byte != d.Subject.Start.Byte || i == 0 {
			continue
		}
		v, diags := x.Traversal[:i].TraverseAbs(d.EvalContext)
		if !diags.HasErrors() && v.Type().IsObjectType() {
			return slices.Sorted(maps.Keys(v.Type().AttributeTypes()))
		}
	}
	return nil
}

// diagnose converts an evaluation error of the library to a Diagnostic.
func (e *evaluator) diagnose(d *hcl.Diagnostic, s *Source, path []string) Diagnostic {
	out := Diagnostic{Type: "config/type", Message: sentence(d), Path: path}
	if d.Subject != nil {
		out.Range = s.hclRange(*d.Subject)
	}
	if fe, ok := asFunctionError(d); ok {
		out.Type, out.Message, out.Hint, out.Nearest = fe.typ, fe.message, fe.hint, fe.nearest
		return out
	}
	if at, message, ok := ednProblem(d, s); ok {
		out.Type, out.Message, out.Hint = "config/syntax", message, "correct the text of edn()"
		if at != nil {
			out.Range = at
		}
		return out
	}
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		out.Expected = textOrNil(signature(call.CalledFunctionName(), e.functions(s)))
	}
	if d.Summary == badOperand {
		out.Hint = "operators take numbers and true or false; a template joins texts: \"${local.a}-${local.b}\""
	}
	if names := membersAt(d); len(names) > 0 && d.Summary == noMember {
		name := strings.TrimLeft(string(d.Subject.SliceBytes(s.text)), ".")
		out.Type, out.Expected, out.Found = "config/dangling-reference", words(names), textOrNil(name)
		out.Nearest = nearest(name, names)
	}
	if d.Summary == "Invalid operation" || d.Summary == "Operation failed" || d.Summary == "Division by zero" {
		out.Type = "config/range"
	}
	return out
}
