package decode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Value is a decoded attribute: its EDN value and the positions of its parts.
type Value struct {
	EDN     edn.Value
	Written bool                 // false: the value is the default
	At      *diag.Range          // range of the expression; nil for a default
	Under   []syntax.Overwritten // overridden values, weakest layer first
	Key     *diag.Range          // range of the key if the value is a map entry
	Reset   bool                 // the value is the default because the attribute is null
	Inputs  []string             // environment variables that the value depends on
	Items   []Value
	Keys    []string       // keys of a map, parallel to Items
	Expr    hcl.Expression // condition or template that is evaluated later
	data    hcl.Expression // expression of a value of KindEDN
	Source  *diag.Source
	Secret  *expression.Secret
	file    bool    // the value is a path
	Content *string // content of the file that a prompt fragment names
}

// Expression returns Expr with its file.
func (v Value) Expression() syntax.ExprIn { return syntax.ExprIn{Expr: v.Expr, Source: v.Source} }

// Section is a decoded block with the defaults of missing attributes.
type Section struct {
	Node   *syntax.Node
	Attrs  map[string]Value
	Blocks []*Section
}

// Decoder evaluates the tree of one load and checks every value against the specification. It is
// not safe for concurrent use.
type Decoder struct {
	*expression.Evaluator
	ranges   map[string]*diag.Range // range of every part of a data value, by path
	defaults map[*language.Attr]Value
	Profile  string       // profile whose defaults apply
	Root     *syntax.Node // root of the decoded tree
	Base     *diag.Source // file that relative paths in defaults refer to
}

// NewDecoder returns a decoder of one load.
func NewDecoder(e *expression.Evaluator) *Decoder {
	return &Decoder{Evaluator: e, ranges: map[string]*diag.Range{}, defaults: map[*language.Attr]Value{}}
}

// section decodes a block and its nested blocks. Nested blocks without a label that are missing are
// added with their defaults.
func (d *Decoder) section(n *syntax.Node) *Section {
	s := &Section{Node: n, Attrs: make(map[string]Value, len(n.Spec.Attrs))}
	var missing []*language.Attr
	for i := range n.Spec.Attrs {
		spec := &n.Spec.Attrs[i]
		if a, ok := n.Attrs[spec.Name]; ok {
			v, ok := d.attribute(n, a)
			switch {
			case ok && v.Written:
				s.Attrs[spec.Name] = v
				continue
			case ok && spec.Required:
				d.nulled(n, spec, v)
				continue
			case spec.Required:
				continue // reported before
			}
			if f, ok := d.Fallback(n, spec); ok {
				f.Reset, f.At, f.Under = v.Reset, v.At, v.Under
				s.Attrs[spec.Name] = f
			}
			continue
		} else if spec.Required {
			if !n.Damaged {
				missing = append(missing, spec)
			}
			continue
		}
		if v, ok := d.Fallback(n, spec); ok {
			s.Attrs[spec.Name] = v
		}
	}
	d.missing(n, missing)
	for _, b := range n.Blocks {
		s.Blocks = append(s.Blocks, d.section(b))
	}
	specPath := n.SpecPath()
	for i := range n.Spec.Blocks {
		b := &n.Spec.Blocks[i]
		if b.Label != language.LabelNone || b.Foreign || b.Open || len(n.Children(b.Name)) > 0 {
			continue
		}
		if _, reserved := language.ReservedAt(language.Join(specPath, b.Name)); reserved {
			continue
		}
		s.Blocks = append(s.Blocks, d.section(&syntax.Node{
			Spec:   b,
			Path:   append(slices.Clone(n.Path), b.Name),
			Source: n.Source,
			Header: n.Header,
		}))
	}
	return s
}

// missing reports all required attributes that a block lacks in one diagnostic. The label of the
// block may be misspelt.
func (d *Decoder) missing(n *syntax.Node, lacks []*language.Attr) {
	if len(lacks) == 0 {
		return
	}
	what, names, expected := "attribute", make([]string, len(lacks)), make([]string, len(lacks))
	for i, spec := range lacks {
		names[i], expected[i] = diag.Quote(spec.Name), spec.Name+" = "+spec.Type.String()
	}
	if len(lacks) > 1 {
		what = "attributes"
	} else if lacks[0].Doc != "" {
		expected[0] += "; " + lacks[0].Doc
	}
	d.Report.Add(d.Root.Misnamed(n, diag.Diagnostic{
		Type:     "config/missing",
		Message:  fmt.Sprintf("%s lacks the %s %s", n.Title(), what, strings.Join(names, " and ")),
		Range:    n.Source.Range(n.Header),
		Path:     append(slices.Clone(n.Path), lacks[0].Name),
		Expected: edn.Text(strings.Join(expected, ", ")),
	}))
}

// nulled reports a required attribute that a file sets to null, and the values that the null
// overrides.
func (d *Decoder) nulled(n *syntax.Node, spec *language.Attr, v Value) {
	path := append(slices.Clone(n.Path), spec.Name)
	out := diag.Diagnostic{
		Type:     "config/missing",
		Message:  language.Subject(path) + " is null, and it has no default",
		Range:    v.At,
		Path:     path,
		Expected: edn.Text(spec.Type.String()),
		Hint:     "write a value",
	}
	for _, u := range v.Under {
		out.Related = append(out.Related, diag.Related{Range: u.At, Message: "is overridden by the null"})
	}
	if len(v.Under) > 0 {
		out.Hint = "remove the line, or write a value"
	}
	d.Report.Add(out)
}

// defaults caches the parsed defaults of the specification by their text.
var defaults sync.Map

// Fallback decodes the default of an attribute for the profile of the decoder; false if it has
// none. Relative paths in it are below Base.
func (d *Decoder) Fallback(n *syntax.Node, spec *language.Attr) (Value, bool) {
	text := spec.DefaultIn(d.Profile)
	if text == "" {
		return Value{}, false
	}
	if v, ok := d.defaults[spec]; ok {
		return v, true
	}
	expr, parsed := defaults.Load(text)
	if !parsed {
		e, diags := hclsyntax.ParseExpression([]byte(text), "default", hcl.InitialPos)
		if diags.HasErrors() {
			return Value{}, false
		}
		expr, _ = defaults.LoadOrStore(text, e)
	}
	v, ok := d.decode(spec.Type, expr.(hclsyntax.Expression), d.Base, append(slices.Clone(n.Path), spec.Name))
	v.Written, v.At = false, nil
	if ok {
		d.defaults[spec] = v
	}
	return v, ok
}

// attribute decodes an attribute of a file. For null it returns a Value with Reset set, and the
// default applies.
func (d *Decoder) attribute(n *syntax.Node, a *syntax.Attribute) (Value, bool) {
	path := append(slices.Clone(n.Path), a.Name)
	d.rivals(a, path)
	d.Touched = nil
	v, ok := d.whole(a, path)
	v.Inputs = slices.Sorted(slices.Values(d.Touched))
	v.Under = a.Places()
	if !ok {
		d.Report.Poisoned(diag.Diagnostic{Path: path}) // the cause may have been reported for another block
		return Value{}, false
	}
	if v.EDN.IsNil() && v.Expr == nil && v.Secret == nil {
		return Value{Reset: true, At: a.Source.Range(a.NameRange), Under: v.Under}, true
	}
	v.Written = true
	r, found := language.ReservedAt(language.Join(n.SpecPath(), a.Name))
	if found && len(r.Only) > 0 && !slices.Contains(r.Only, diag.Plain(v.EDN)) {
		diag := syntax.ReservedDiagnostic(r, a.Name+" = "+diag.Plain(v.EDN)+syntax.Within(n), v.At, path)
		diag.Expected, diag.Found, diag.Hint = edn.Text(strings.Join(r.Only, ", ")), v.EDN,
			"write "+r.Only[0]+" or remove it"
		d.Report.Add(diag)
		return Value{}, false
	}
	return v, true
}

// problem is the reason why a value does not fit its type.
type problem struct {
	typ     string
	what    string // predicate for the attribute, such as "is above its maximum"
	hint    string
	nearest string
	found   edn.Value // replaces the value in the diagnostic
}

func (d *Decoder) complain(p *problem, t language.Type, v cty.Value, at *diag.Range, path []string) {
	found := p.found
	if found.IsNil() {
		found = shown(v)
	}
	d.Report.Add(diag.Diagnostic{Type: p.typ, Message: language.Subject(path) + " " + p.what, Range: at, Path: path,
		Expected: edn.Text(t.String()), Found: found, Nearest: p.nearest, Hint: p.hint})
}

// shown returns a value for a diagnostic: shortened, without secrets.
func shown(v cty.Value) edn.Value {
	if v == cty.NilVal || v.Type().Equals(expression.SecretType) {
		return edn.Nil()
	}
	if v.Type().Equals(expression.RefType) {
		r := v.EncapsulatedValue().(*expression.Reference)
		return edn.Text(r.Block + "." + r.Label)
	}
	e, err := expression.FromCty(v)
	if err != nil {
		return edn.Nil()
	}
	if s, ok := e.AsString(); ok {
		return edn.Text(diag.Short(s))
	}
	if e.Len() > 0 {
		return edn.Text(diag.Short(e.String()))
	}
	return e
}

// decode evaluates an expression and converts it to the type. For null it returns a Value without
// EDN value, and true.
func (d *Decoder) decode(t language.Type, expr hcl.Expression, s *diag.Source, path []string) (Value, bool) {
	at := s.Range(expr.Range())
	switch t.Kind {
	case language.KindCond, language.KindTemplate:
		if syntax.IsNull(expr) {
			return Value{At: at}, true
		}
		return Value{EDN: edn.Text(syntax.SourceText(s, expr)), Expr: expr, Source: s, At: at}, true
	case language.KindLayer:
		return d.layer(t, expr, s, path)
	case language.KindEDN:
		v, ok := d.data(expr, s, path, nil)
		return Value{EDN: v, At: at, data: expr, Source: s}, ok
	case language.KindMap:
		return d.mapping(t, []syntax.ExprIn{{Expr: expr, Source: s}}, path)
	case language.KindList, language.KindSet:
		return d.members(t, expr, s, path, at)
	case language.KindRef:
		if label, ok, done := d.traversal(t, expr, s, path); done {
			return Value{EDN: edn.Text(label), At: at}, ok
		}
	}
	v, ok := d.Value(expr, s, path)
	if !ok {
		return Value{}, false
	}
	out, ok := d.scalar(t, v, s, at, path)
	if !ok && t.Kind == language.KindSecret {
		d.hide(expr, s)
	}
	return out, ok
}

// hide redacts a literal in the position of a secret from excerpts. A call of secret(..) is not
// redacted.
func (d *Decoder) hide(expr hcl.Expression, s *diag.Source) {
	switch expr.(type) {
	case *hclsyntax.FunctionCallExpr, *hclsyntax.ScopeTraversalExpr:
		return
	}
	if r := expr.Range(); r.CanSliceBytes(s.Text) {
		s.Hide(r.Start.Byte, r.End.Byte)
	}
}

// traversal decodes a reference of the form dispatch.NAME or
// capability["NS/NAME"]. done is false for other expressions.
func (d *Decoder) traversal(t language.Type, expr hcl.Expression, s *diag.Source, path []string) (label string, ok, done bool) {
	tr, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() || tr.RootName() == "local" {
		return "", false, false
	}
	if _, known := d.Blocks[tr.RootName()]; !known {
		return "", false, false
	}
	label, named := expression.StepName(tr)
	if !named || len(tr) != 2 {
		d.Report.Add(diag.Diagnostic{
			Type:     "config/syntax",
			Message:  language.Subject(path) + " is not a reference",
			Range:    s.Range(tr.SourceRange()),
			Path:     path,
			Expected: edn.Text(t.Ref + ".NAME or " + t.Ref + "[\"NAME\"]"),
		})
		return "", false, true
	}
	if tr.RootName() != t.Ref {
		d.Report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  language.Subject(path) + " names a " + tr.RootName(),
			Range:    s.Range(tr.SourceRange()),
			Path:     path,
			Expected: edn.Text(t.String()),
			Found:    edn.Text(tr.RootName() + " " + label),
		})
		return "", false, true
	}
	return label, true, true
}

// members decodes a list element by element to keep the range of each.
func (d *Decoder) members(t language.Type, expr hcl.Expression, s *diag.Source, path []string, at *diag.Range) (Value, bool) {
	out := Value{At: at}
	good := true
	if parts, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for i, part := range parts {
			item, ok := d.decode(t.Member(i), part, s, append(slices.Clone(path), strconv.Itoa(i)))
			if ok && item.EDN.IsNil() {
				ok = false
				d.complain(&problem{
					typ:  "config/type",
					what: "is null",
				}, t.Member(i), cty.NilVal, s.Range(part.Range()), append(slices.Clone(path), strconv.Itoa(i)))
			}
			good = good && ok
			out.Items = append(out.Items, item)
		}
	} else {
		v, ok := d.Value(expr, s, path)
		if !ok {
			return Value{}, false
		}
		if v.IsNull() {
			return Value{}, true
		}
		ty := v.Type()
		if t.OrMap && (ty.IsObjectType() || ty.IsMapType()) {
			return d.mapping(t.Mapped(), []syntax.ExprIn{{Expr: expr, Source: s}}, path)
		}
		if !ty.IsTupleType() && !ty.IsListType() && !ty.IsSetType() {
			d.complain(&problem{
				typ:  "config/type",
				what: "is not " + diag.Article(string(t.Kind)),
				hint: "write it in brackets: [...]",
			}, t, v, at, path)
			return Value{}, false
		}
		for i, x := range v.AsValueSlice() {
			item, ok := d.scalar(t.Member(i), x, s, at, append(slices.Clone(path), strconv.Itoa(i)))
			good = good && ok
			out.Items = append(out.Items, item)
		}
	}
	if !good {
		return Value{}, false
	}
	limit := func(bound *float64, what string) bool {
		d.complain(&problem{
			typ:  "config/range",
			what: fmt.Sprintf("has %s, %s %.0f", diag.Counted(len(out.Items), "member"), what, *bound),
		}, t, cty.NilVal, at, path)
		return false
	}
	switch n := float64(len(out.Items)); {
	case t.Min != nil && n < *t.Min:
		return Value{}, limit(t.Min, "the minimum is")
	case t.Max != nil && n > *t.Max:
		return Value{}, limit(t.Max, "the limit is")
	}
	if t.Kind == language.KindSet {
		out.Items = unique(out.Items)
	}
	list := make([]edn.Value, len(out.Items))
	for i, x := range out.Items {
		list[i] = x.EDN
	}
	out.EDN = edn.Vector(list...)
	return out, true
}

func unique(items []Value) []Value {
	var out []Value
	for _, x := range items {
		if !slices.ContainsFunc(out, func(y Value) bool { return edn.Equal(x.EDN, y.EDN) }) {
			out = append(out, x)
		}
	}
	return out
}

// badKey returns the reason why a key is not allowed in a map of the type; nil if it is allowed.
func (d *Decoder) badKey(t language.Type, key string) *problem {
	if t.Key == nil {
		return nil
	}
	var ignored Value
	return d.readText(*t.Key, key, &ignored)
}

func duplicateKey(key string, at, first *diag.Range, path []string) diag.Diagnostic {
	return diag.Diagnostic{
		Type:    "config/duplicate",
		Message: "key " + diag.Quote(key) + " is written twice in " + language.Subject(path),
		Range:   at,
		Path:    append(slices.Clone(path), key),
		Related: []diag.Related{{Range: first, Message: "is the first one"}},
		Hint:    "keep one of the two",
	}
}

func (d *Decoder) key(expr hcl.Expression, s *diag.Source, path []string) (string, bool) {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return word, true
	}
	v, ok := d.Value(expr, s, path)
	if !ok {
		return "", false
	}
	if v.IsNull() || v.Type() != cty.String {
		d.Report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  "a key of " + language.Subject(path) + " is not a text",
			Range:    s.Range(expr.Range()),
			Path:     path,
			Expected: edn.Text("string"),
			Found:    shown(v),
		})
		return "", false
	}
	return v.AsString(), true
}

// Part returns the part of a value at a path, or its deepest known ancestor.
func (v Value) Part(path []edn.Value) Value {
	for _, step := range path {
		i, isIndex := step.AsInt()
		if !isIndex {
			i = int64(slices.Index(v.Keys, language.ScalarText(step)))
		}
		if i < 0 || i >= int64(len(v.Items)) {
			break
		}
		v = v.Items[i]
	}
	return v
}
