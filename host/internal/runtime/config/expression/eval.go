package expression

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

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// Local is one name of the locals blocks. It is evaluated on first use.
type Local struct {
	Attr  *syntax.Attribute
	State int // 0 new, 1 being evaluated, 2 done
	value cty.Value
	OK    bool
	Used  bool
	// touched are the environment variables that the value depends on.
	touched []string
}

// Evaluator evaluates the expressions of one load. It is not safe for concurrent
// use.
type Evaluator struct {
	Report *diag.Collector
	Inputs *Inputs
	meter  *meter
	Locals map[string]*Local
	stack  []string             // locals being evaluated, outermost first
	Blocks map[string]cty.Value // object from label to reference, by block type
	labels map[string][]string  // labels by block type
	funcs  map[*diag.Source]map[string]function.Function
	paid   map[hcl.Expression]bool
	// Touched collects the names of the environment variables that expressions read.
	Touched []string
}

// NewEvaluator returns an evaluator for one load.
func NewEvaluator(report *diag.Collector, in *Inputs) *Evaluator {
	return &Evaluator{Report: report, Inputs: in, meter: &meter{}, Locals: map[string]*Local{},
		Blocks: map[string]cty.Value{},
		labels: map[string][]string{}, funcs: map[*diag.Source]map[string]function.Function{},
		paid: map[hcl.Expression]bool{}}
}

// Declare defines the labelled blocks of the tree as variables for references.
func (e *Evaluator) Declare(root *syntax.Node) {
	refs := map[string]map[string]cty.Value{}
	for i := range root.Spec.Blocks {
		if b := &root.Spec.Blocks[i]; b.Label != language.LabelNone {
			refs[b.Name] = map[string]cty.Value{}
		}
	}
	for _, b := range root.Blocks {
		if len(b.Labels) == 1 {
			r := Reference{Block: b.Spec.Name, Label: b.Labels[0]}
			refs[b.Spec.Name][b.Labels[0]] = cty.CapsuleVal(RefType, &r)
			e.labels[b.Spec.Name] = append(e.labels[b.Spec.Name], b.Labels[0])
		}
	}
	for name, labels := range refs {
		e.Blocks[name] = cty.ObjectVal(labels)
		slices.Sort(e.labels[name])
	}
}

// AddLocals registers the locals of all locals blocks. They are evaluated on first use.
func (e *Evaluator) AddLocals(root *syntax.Node) {
	for _, b := range root.Blocks {
		if !b.Spec.Open {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.Attrs)) {
			e.Locals[name] = &Local{Attr: b.Attrs[name]}
		}
	}
}

// Value evaluates an expression of an attribute. Errors are reported; ok is then false.
func (e *Evaluator) Value(expr hcl.Expression, s *diag.Source, path []string) (v cty.Value, ok bool) {
	if v, ok := syntax.Literal(expr); ok {
		return v, v.IsKnown() // an unknown value was reported before
	}
	ctx, ok := e.Context(expr, s, path)
	if !ok {
		return cty.DynamicVal, false
	}
	e.pay(expr)
	e.meter.reset()
	v, diags := expr.Value(ctx)
	if over := e.meter.over; over != nil {
		e.Report.Add(diag.Diagnostic{
			Type:    "config/limit",
			Message: over.Error(),
			Range:   s.Range(expr.Range()),
			Path:    path,
			Hint:    "write a smaller expression",
		})
		return cty.DynamicVal, false
	}
	seen := map[string]bool{}
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			ok = false
			if d.Summary == badOperand && seen[badOperand] {
				continue // it is about the other operand of the same operator
			}
			seen[d.Summary] = true
			out := e.diagnose(d, s, path)
			if out.Type == "config/env-missing" {
				e.Report.Fold(out.Message, out)
				continue
			}
			e.Report.Add(out)
		}
	}
	if ok && !v.IsWhollyKnown() {
		return v, false // the value depends on an error that was reported
	}
	return v, ok
}

// pay instruments an expression of native syntax with the meter, once.
func (e *Evaluator) pay(expr hcl.Expression) {
	if native, ok := expr.(hclsyntax.Expression); ok && !e.paid[expr] {
		e.paid[expr] = true
		e.meter.instrument(native)
	}
}

// Context returns an evaluation context with the variables and functions that an expression uses.
// Unknown names are reported, and the bool is then false.
func (e *Evaluator) Context(expr hcl.Expression, s *diag.Source, path []string) (*hcl.EvalContext, bool) {
	ok := true
	used := map[string]cty.Value{}
	variables := map[string]cty.Value{}
	named := 0 // end of an unquoted name NS/NAME, which is parsed as a division
	for _, t := range expr.Variables() {
		root, at := t.RootName(), t.SourceRange()
		if at.Start.Byte < named {
			continue
		}
		if objects, known := e.Blocks[root]; known {
			variables[root] = objects
			ok = e.knownLabel(t, s, path) && ok
			continue
		}
		if root != "local" {
			ok = false
			if n := len(slashName.Find(s.Text[at.End.Byte:])); n > 0 {
				at.End.Byte, at.End.Column = at.End.Byte+n, at.End.Column+n
				named = at.End.Byte
				text := string(s.Text[at.Start.Byte:named])
				e.Report.Add(diag.Diagnostic{
					Type:     "config/unknown-name",
					Message:  text + " is read as a division of variables",
					Range:    s.Range(at),
					Path:     path,
					Expected: diag.TextOrNil("a text in quotes"),
					Found:    diag.TextOrNil(text),
					Hint:     "a text needs quotes: " + diag.Quote(text),
				})
				continue
			}
			names := append(slices.Sorted(maps.Keys(e.Blocks)), "local")
			e.Report.Fold("variable "+root, diag.Diagnostic{
				Type:     "config/unknown-name",
				Message:  "unknown variable " + diag.Quote(root),
				Range:    s.Range(at),
				Path:     path,
				Expected: diag.Words(names),
				Found:    diag.TextOrNil(root),
				Nearest:  nearestVariable(t, names),
				Hint:     e.variableHint(t, s, names),
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

// nearestVariable returns the known name most similar to an unknown variable. It is empty for a
// single word, which is probably a text without quotes.
func nearestVariable(t hcl.Traversal, names []string) string {
	if len(t) == 1 {
		return ""
	}
	return diag.Nearest(t.RootName(), names)
}

// intoTemplate matches text that ends with the start of an interpolation.
var intoTemplate = regexp.MustCompile(`\$\{~?\s*$`)

// variableHint returns the hint for an unknown variable; empty if there is none.
func (e *Evaluator) variableHint(t hcl.Traversal, s *diag.Source, names []string) string {
	root := t.RootName()
	part, _ := StepName(t)
	_, isLocal := e.Locals[root]
	switch lowered := strings.ToLower(root); {
	case nearestVariable(t, names) != "":
		return "" // the diagnostic suggests the nearest name
	case isLocal:
		return "write local." + root
	case len(t) == 1 && intoTemplate.Match(s.Text[:t.SourceRange().Start.Byte]):
		return fmt.Sprintf("env(%q) reads a variable of the environment, and local.%s a value of a locals block", root,
			root)
	case len(t) == 1 && slices.Contains([]string{"true", "yes", "on"}, lowered):
		return "write true; a text needs quotes: " + diag.Quote(root)
	case len(t) == 1 && slices.Contains([]string{"false", "no", "off"}, lowered):
		return "write false; a text needs quotes: " + diag.Quote(root)
	case len(t) == 1 && slices.Contains([]string{"none", "nil", "undefined"}, lowered):
		return "write null for no value; a text needs quotes: " + diag.Quote(root)
	case len(t) == 1:
		return "a text needs quotes: " + diag.Quote(root)
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

func (e *Evaluator) knownLabel(t hcl.Traversal, s *diag.Source, path []string) bool {
	label, ok := StepName(t)
	if !ok {
		return true
	}
	root := t.RootName()
	if _, found := slices.BinarySearch(e.labels[root], label); found {
		return true
	}
	if e.Report.Doubts(root, label) {
		return false
	}
	e.Report.Fold("block "+root+" "+label, diag.Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("there is no %s %s", root, diag.Quote(label)),
		Range:    s.Range(t.SourceRange()),
		Path:     path,
		Expected: diag.Words(e.labels[root]),
		Found:    diag.TextOrNil(label),
		Nearest:  diag.Nearest(label, e.labels[root]),
	})
	return false
}

// StepName returns the name in the first step of a traversal: NAME of local.NAME, LABEL of
// block["LABEL"]. It returns false if there is no such step.
func StepName(t hcl.Traversal) (string, bool) {
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

func (e *Evaluator) local(t hcl.Traversal, s *diag.Source, path []string) (string, cty.Value, bool) {
	at := s.Range(t.SourceRange())
	name, ok := StepName(t)
	if !ok {
		e.Report.Add(diag.Diagnostic{
			Type:    "config/syntax",
			Message: "locals are used one by one, as local.NAME",
			Range:   at,
			Path:    path,
		})
		return "", cty.NilVal, false
	}
	l, ok := e.Locals[name]
	if !ok {
		if e.Report.Doubts("locals", name) {
			return name, cty.NilVal, false
		}
		names := slices.Sorted(maps.Keys(e.Locals))
		e.Report.Fold("local "+name, diag.Diagnostic{
			Type:     "config/dangling-reference",
			Message:  "there is no local " + diag.Quote(name),
			Range:    at,
			Path:     path,
			Expected: diag.Words(names),
			Found:    diag.TextOrNil(name),
			Nearest:  diag.Nearest(name, names),
		})
		return name, cty.NilVal, false
	}
	l.Used = true
	e.Force(name, l)
	e.Touched = append(e.Touched, l.touched...)
	return name, l.value, l.OK
}

// Force evaluates a local, unless it was evaluated before. A cycle is reported once, with all its
// members.
func (e *Evaluator) Force(name string, l *Local) {
	switch l.State {
	case 2:
		return
	case 1:
		ring := append(slices.Clone(e.stack[slices.Index(e.stack, name):]), name)
		d := diag.Diagnostic{
			Type:    "config/cycle",
			Message: "locals refer to each other: " + strings.Join(ring, " -> "),
			Range:   l.Attr.Source.Range(l.Attr.NameRange),
			Path:    []string{"locals", name},
		}
		d.Hint = "let one of them do without the others"
		for _, member := range ring[1 : len(ring)-1] {
			a := e.Locals[member].Attr
			d.Related = append(d.Related,
				diag.Related{Range: a.Source.Range(a.NameRange), Message: "is local " + diag.Quote(member)})
		}
		e.Report.Add(d)
		return
	}
	l.State = 1
	e.stack = append(e.stack, name)
	outer := e.Touched
	e.Touched = nil
	l.value, l.OK = e.Value(l.Attr.Expr, l.Attr.Source, []string{"locals", name})
	l.touched, e.Touched = e.Touched, outer
	e.stack = e.stack[:len(e.stack)-1]
	l.State = 2
	if l.OK && weight(l.value, MaxGateElements) > MaxGateElements {
		l.OK = false
		e.Report.Add(diag.Diagnostic{
			Type:    "config/limit",
			Message: fmt.Sprintf("local %s has more than %d elements", diag.Quote(name), MaxGateElements),
			Range:   l.Attr.Source.Range(l.Attr.NameRange),
			Path:    []string{"locals", name},
		})
	}
}

// ForceAll evaluates the unused locals, so that their errors are reported.
func (e *Evaluator) ForceAll() {
	for _, name := range slices.Sorted(maps.Keys(e.Locals)) {
		e.Force(name, e.Locals[name])
	}
}

// Unused warns about locals that no expression reads.
func (e *Evaluator) Unused() {
	suggestions := 0
	for _, name := range slices.Sorted(maps.Keys(e.Locals)) {
		if l := e.Locals[name]; !l.Used && l.OK {
			near := ""
			if suggestions++; suggestions <= maxSuggestions {
				near = diag.Nearest(name, e.localsElsewhere(l.Attr.Source))
			}
			e.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message:  "local " + diag.Quote(name) + " is not used",
				Range:    l.Attr.Source.Range(l.Attr.NameRange),
				Path:     []string{"locals", name},
				Nearest:  near,
				Hint:     cmp.Or(diag.DidYouMean(near), "remove it"),
			})
		}
	}
}

// maxSuggestions is the maximum number of unused locals that are compared with those of other
// files. If there are more, they are probably not misspelt.
const maxSuggestions = 50

// localsElsewhere returns the sorted names of the locals of other files.
func (e *Evaluator) localsElsewhere(s *diag.Source) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Locals)) {
		if e.Locals[name].Attr.Source != s {
			out = append(out, name)
		}
	}
	return out
}

// knownFunctions reports calls of unknown functions, including those inside try(), which would hide
// them.
func (e *Evaluator) knownFunctions(expr hcl.Expression, s *diag.Source, path []string) bool {
	return checkCalls(expr, append(slices.Clone(gateFunctions), loadFunctions...), s, path, e.Report)
}

func checkCalls(expr hcl.Expression, names []string, s *diag.Source, path []string, report *diag.Collector) bool {
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
		near, hint := diag.Nearest(call.Name, sorted), ""
		if slices.Contains(loadFunctions, call.Name) { // gate expressions read nothing from outside
			near, hint = "", call.Name+" is not available in a gate expression: write the value itself, or read it from request"
		}
		report.Add(diag.Diagnostic{
			Type:     "config/unknown-name",
			Message:  "unknown function " + diag.Quote(call.Name),
			Range:    s.Range(call.NameRange),
			Path:     path,
			Expected: diag.Words(sorted),
			Found:    diag.TextOrNil(call.Name),
			Nearest:  near,
			Hint:     hint,
		})
		return nil
	})
	return good
}

// Error summaries of the library for which diagnose has its own text.
const (
	badOperand = "Invalid operand"
	noMember   = "Unsupported attribute"
)

// membersAt returns the sorted attribute names of the object in which a traversal failed; nil if
// the object is unknown.
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
func (e *Evaluator) diagnose(d *hcl.Diagnostic, s *diag.Source, path []string) diag.Diagnostic {
	out := diag.Diagnostic{Type: "config/type", Message: syntax.Sentence(d), Path: path}
	if d.Subject != nil {
		out.Range = s.Range(*d.Subject)
	}
	if fe, ok := asFunctionError(d); ok {
		out.Type, out.Message, out.Hint, out.Nearest = fe.Type, fe.Message, fe.Hint, fe.nearest
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
		out.Expected = diag.TextOrNil(signature(call.CalledFunctionName(), e.functions(s)))
	}
	if d.Summary == badOperand {
		out.Hint = "operators take numbers and true or false; a template joins texts: \"${local.a}-${local.b}\", " +
			"concat(list, list) joins lists"
	}
	if names := membersAt(d); len(names) > 0 && d.Summary == noMember {
		name := strings.TrimLeft(string(d.Subject.SliceBytes(s.Text)), ".")
		out.Type, out.Expected, out.Found = "config/dangling-reference", diag.Words(names), diag.TextOrNil(name)
		out.Nearest = diag.Nearest(name, names)
	}
	if d.Summary == "Invalid operation" || d.Summary == "Operation failed" || d.Summary == noDivisor {
		out.Type = "config/range"
	}
	if d.Summary == noDivisor {
		out.Hint = "divide by a number that is not 0"
	}
	return out
}
