package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// value is a decoded attribute: its EDN value and the place of each part.
type value struct {
	v       edn.Value
	written bool          // false: v is the default
	rng     *Range        // of the expression, nil for a default
	under   []overwritten // overridden values, weakest layer first
	key     *Range        // of the key of a map entry
	reset   bool          // v is the default because the attribute was set to null
	inputs  []string      // environment variables that the value depends on
	items   []value
	keys    []string       // keys of a map, parallel to items
	expr    hcl.Expression // condition or template, evaluated later
	data    hcl.Expression // expression of an edn value
	source  *Source
	secret  *Secret
	file    bool    // v is a path
	content *string // content of the file that a layer fragment names
}

// section is a decoded block with its defaults filled in.
type section struct {
	node   *node
	attrs  map[string]value
	blocks []*section
}

// decoder evaluates the tree and checks every value against the specification.
type decoder struct {
	*evaluator
	ranges   map[string]*Range // by path: the place of every part of a data value
	defaults map[*Attr]value
	profile  string  // selects defaults
	root     *node   // root of the decoded tree
	base     *Source // base of relative paths in defaults
}

func newDecoder(e *evaluator) *decoder {
	return &decoder{evaluator: e, ranges: map[string]*Range{}, defaults: map[*Attr]value{}}
}

// section decodes a block and its nested blocks. Missing nested blocks without a
// label are added with their defaults.
func (d *decoder) section(n *node) *section {
	s := &section{node: n, attrs: make(map[string]value, len(n.spec.Attrs))}
	var missing []*Attr
	for i := range n.spec.Attrs {
		spec := &n.spec.Attrs[i]
		if a, ok := n.attrs[spec.Name]; ok {
			v, ok := d.attribute(n, a)
			switch {
			case ok && v.written:
				s.attrs[spec.Name] = v
				continue
			case ok && spec.Required:
				missing = append(missing, spec)
				continue
			case spec.Required:
				continue // already reported
			}
			if f, ok := d.fallback(n, spec); ok {
				f.reset, f.rng, f.under = v.reset, v.rng, v.under
				s.attrs[spec.Name] = f
			}
			continue
		} else if spec.Required {
			if !n.damaged {
				missing = append(missing, spec)
			}
			continue
		}
		if v, ok := d.fallback(n, spec); ok {
			s.attrs[spec.Name] = v
		}
	}
	d.missing(n, missing)
	for _, b := range n.blocks {
		s.blocks = append(s.blocks, d.section(b))
	}
	specPath := n.specPath()
	for i := range n.spec.Blocks {
		b := &n.spec.Blocks[i]
		if b.Label != LabelNone || b.Foreign || b.Open || len(n.children(b.Name)) > 0 {
			continue
		}
		if _, reserved := reservedAt(join(specPath, b.Name)); reserved {
			continue
		}
		s.blocks = append(s.blocks, d.section(&node{
			spec:   b,
			path:   append(slices.Clone(n.path), b.Name),
			source: n.source,
			header: n.header,
		}))
	}
	return s
}

// missing reports all required attributes that a block lacks in one diagnostic; the label may be misspelt.
func (d *decoder) missing(n *node, lacks []*Attr) {
	if len(lacks) == 0 {
		return
	}
	what, names, expected := "attribute", make([]string, len(lacks)), make([]string, len(lacks))
	for i, spec := range lacks {
		names[i], expected[i] = quote(spec.Name), spec.Name+" = "+spec.Type.String()
	}
	if len(lacks) > 1 {
		what = "attributes"
	} else if lacks[0].Doc != "" {
		expected[0] += "; " + lacks[0].Doc
	}
	d.report.add(d.root.misnamed(n, Diagnostic{
		Type:     "config/missing",
		Message:  fmt.Sprintf("%s lacks the %s %s", n.title(), what, strings.Join(names, " and ")),
		Range:    n.source.hclRange(n.header),
		Path:     append(slices.Clone(n.path), lacks[0].Name),
		Expected: edn.Text(strings.Join(expected, ", ")),
	}))
}

// fallback decodes the default of the specification with the same decoder, so
// paths and durations are treated alike.
func (d *decoder) fallback(n *node, spec *Attr) (value, bool) {
	text := spec.DefaultIn(d.profile)
	if text == "" {
		return value{}, false
	}
	if v, ok := d.defaults[spec]; ok {
		return v, true
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "default", hcl.InitialPos)
	if diags.HasErrors() {
		return value{}, false
	}
	v, ok := d.decode(spec.Type, expr, d.base, append(slices.Clone(n.path), spec.Name))
	v.written, v.rng = false, nil
	if ok {
		d.defaults[spec] = v
	}
	return v, ok
}

// attribute decodes an attribute of a file. A null returns ok with written false,
// and the default applies.
func (d *decoder) attribute(n *node, a *attribute) (value, bool) {
	path := append(slices.Clone(n.path), a.name)
	d.rivals(a, path)
	d.touched = nil
	v, ok := d.whole(a, path)
	v.inputs = slices.Sorted(slices.Values(d.touched))
	v.under = a.places()
	if !ok {
		d.report.poisoned(Diagnostic{Path: path}) // also if the cause was reported elsewhere
		return value{}, false
	}
	if v.v.IsNil() && v.expr == nil && v.secret == nil {
		return value{reset: true, rng: a.source.hclRange(a.rng), under: v.under}, true
	}
	v.written = true
	r, found := reservedAt(join(n.specPath(), a.name))
	if found && len(r.only) > 0 && !slices.Contains(r.only, plain(v.v)) {
		diag := reservedDiagnostic(r, a.name+" = "+plain(v.v)+within(n), v.rng, path)
		diag.Expected, diag.Found, diag.Hint = edn.Text(strings.Join(r.only, ", ")), v.v,
			"write "+r.only[0]+" or remove it"
		d.report.add(diag)
		return value{}, false
	}
	return v, true
}

// problem describes why a value does not fit its type.
type problem struct {
	typ     string
	what    string // continues the subject: "is above its maximum"
	hint    string
	nearest string
	found   edn.Value // shown instead of the value
}

func (d *decoder) complain(p *problem, t Type, v cty.Value, at *Range, path []string) {
	found := p.found
	if found.IsNil() {
		found = shown(v)
	}
	d.report.add(Diagnostic{Type: p.typ, Message: subject(path) + " " + p.what, Range: at, Path: path,
		Expected: edn.Text(t.String()), Found: found, Nearest: p.nearest, Hint: p.hint})
}

// shown returns a value as shown in a diagnostic: shortened, without secrets.
func shown(v cty.Value) edn.Value {
	if v == cty.NilVal || v.Type().Equals(secretType) {
		return edn.Nil()
	}
	if v.Type().Equals(refType) {
		r := v.EncapsulatedValue().(*reference)
		return edn.Text(r.block + "." + r.label)
	}
	e, err := fromCty(v)
	if err != nil {
		return edn.Nil()
	}
	if s, ok := e.AsString(); ok {
		return edn.Text(short(s))
	}
	if e.Len() > 0 {
		return edn.Text(short(e.String()))
	}
	return e
}

// decode evaluates an expression and converts it to the type. A null returns the
// zero value and ok.
func (d *decoder) decode(t Type, expr hcl.Expression, s *Source, path []string) (value, bool) {
	at := s.hclRange(expr.Range())
	switch t.Kind {
	case KindCond, KindTemplate:
		if isNull(expr) {
			return value{rng: at}, true
		}
		return value{v: edn.Text(sourceText(s, expr)), expr: expr, source: s, rng: at}, true
	case KindLayer:
		return d.layer(t, expr, s, path)
	case KindEDN:
		v, ok := d.data(expr, s, path, nil)
		return value{v: v, rng: at, data: expr, source: s}, ok
	case KindMap:
		return d.mapping(t, []exprIn{{expr, s}}, path)
	case KindList, KindSet:
		return d.members(t, expr, s, path, at)
	case KindRef:
		if label, ok, done := d.traversal(t, expr, s, path); done {
			return value{v: edn.Text(label), rng: at}, ok
		}
	}
	v, ok := d.value(expr, s, path)
	if !ok {
		return value{}, false
	}
	out, ok := d.scalar(t, v, s, at, path)
	if !ok && t.Kind == KindSecret {
		d.hide(expr, s)
	}
	return out, ok
}

// hide redacts a literal in the place of a secret from excerpts; a secret(..) call
// is not redacted.
func (d *decoder) hide(expr hcl.Expression, s *Source) {
	switch expr.(type) {
	case *hclsyntax.FunctionCallExpr, *hclsyntax.ScopeTraversalExpr:
		return
	}
	if r := expr.Range(); r.CanSliceBytes(s.text) {
		s.hide(r.Start.Byte, r.End.Byte)
	}
}

// traversal decodes a reference of the form dispatch.NAME or
// capability["NS/NAME"]. done is false for other expressions.
func (d *decoder) traversal(t Type, expr hcl.Expression, s *Source, path []string) (label string, ok, done bool) {
	tr, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() || tr.RootName() == "local" {
		return "", false, false
	}
	if _, known := d.blocks[tr.RootName()]; !known {
		return "", false, false
	}
	label, named := stepName(tr)
	if !named || len(tr) != 2 {
		d.report.add(Diagnostic{
			Type:     "config/syntax",
			Message:  subject(path) + " is not a reference",
			Range:    s.hclRange(tr.SourceRange()),
			Path:     path,
			Expected: edn.Text(t.Ref + ".NAME or " + t.Ref + "[\"NAME\"]"),
		})
		return "", false, true
	}
	if tr.RootName() != t.Ref {
		d.report.add(Diagnostic{
			Type:     "config/type",
			Message:  subject(path) + " names a " + tr.RootName(),
			Range:    s.hclRange(tr.SourceRange()),
			Path:     path,
			Expected: edn.Text(t.String()),
			Found:    edn.Text(tr.RootName() + " " + label),
		})
		return "", false, true
	}
	return label, true, true
}

// members decodes a list element by element to keep the range of each.
func (d *decoder) members(t Type, expr hcl.Expression, s *Source, path []string, at *Range) (value, bool) {
	out := value{rng: at}
	good := true
	if parts, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for i, part := range parts {
			item, ok := d.decode(t.member(i), part, s, append(slices.Clone(path), strconv.Itoa(i)))
			if ok && item.v.IsNil() {
				ok = false
				d.complain(&problem{
					typ:  "config/type",
					what: "is null",
				}, t.member(i), cty.NilVal, s.hclRange(part.Range()), append(slices.Clone(path), strconv.Itoa(i)))
			}
			good = good && ok
			out.items = append(out.items, item)
		}
	} else {
		v, ok := d.value(expr, s, path)
		if !ok {
			return value{}, false
		}
		if v.IsNull() {
			return value{}, true
		}
		ty := v.Type()
		if !ty.IsTupleType() && !ty.IsListType() && !ty.IsSetType() {
			d.complain(&problem{
				typ:  "config/type",
				what: "is not " + article(string(t.Kind)),
				hint: "write it in brackets: [...]",
			}, t, v, at, path)
			return value{}, false
		}
		for i, x := range v.AsValueSlice() {
			item, ok := d.scalar(t.member(i), x, s, at, append(slices.Clone(path), strconv.Itoa(i)))
			good = good && ok
			out.items = append(out.items, item)
		}
	}
	if !good {
		return value{}, false
	}
	if n := float64(len(out.items)); t.Min != nil && n < *t.Min || t.Max != nil && n > *t.Max {
		d.complain(&problem{
			typ:  "config/range",
			what: fmt.Sprintf("has %s", Counted(len(out.items), "member")),
		}, t, cty.NilVal, at, path)
		return value{}, false
	}
	if t.Kind == KindSet {
		out.items = unique(out.items)
	}
	list := make([]edn.Value, len(out.items))
	for i, x := range out.items {
		list[i] = x.v
	}
	out.v = edn.Vector(list...)
	return out, true
}

func unique(items []value) []value {
	var out []value
	for _, x := range items {
		if !slices.ContainsFunc(out, func(y value) bool { return edn.Equal(x.v, y.v) }) {
			out = append(out, x)
		}
	}
	return out
}

// badKey returns why a key is not allowed in a map of that type; nil if it is.
func (d *decoder) badKey(t Type, key string) *problem {
	if t.Key == nil {
		return nil
	}
	var ignored value
	return d.readText(*t.Key, key, &ignored)
}

func duplicateKey(key string, at, first *Range, path []string) Diagnostic {
	return Diagnostic{
		Type:    "config/duplicate",
		Message: "key " + quote(key) + " is written twice in " + subject(path),
		Range:   at,
		Path:    append(slices.Clone(path), key),
		Related: []Related{{Range: first, Message: "is the first one"}},
		Hint:    "keep one of the two",
	}
}

func (d *decoder) key(expr hcl.Expression, s *Source, path []string) (string, bool) {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return word, true
	}
	v, ok := d.value(expr, s, path)
	if !ok {
		return "", false
	}
	if v.IsNull() || v.Type() != cty.String {
		d.report.add(Diagnostic{
			Type:     "config/type",
			Message:  "a key of " + subject(path) + " is not a text",
			Range:    s.hclRange(expr.Range()),
			Path:     path,
			Expected: edn.Text("string"),
			Found:    shown(v),
		})
		return "", false
	}
	return v.AsString(), true
}

// part returns the part of a value at a path, or its deepest known ancestor.
func (v value) part(path []edn.Value) value {
	for _, step := range path {
		i, isIndex := step.AsInt()
		if !isIndex {
			i = int64(slices.Index(v.keys, scalarText(step)))
		}
		if i < 0 || i >= int64(len(v.items)) {
			break
		}
		v = v.items[i]
	}
	return v
}
