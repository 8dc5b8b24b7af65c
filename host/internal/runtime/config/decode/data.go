package decode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// RangeKey returns the key of a path in Decoder.ranges.
func RangeKey(path []string) string { return strings.Join(path, "\x00") }

// data converts an expression to an EDN value. In a literal, an unquoted key becomes a keyword and
// a quoted key a string; want, if not nil, decides about the keys of the maps that it describes.
func (d *Decoder) data(expr hcl.Expression, s *diag.Source, path []string, want *schema.Schema) (edn.Value, bool) {
	d.ranges[RangeKey(path)] = s.Range(expr.Range())
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return d.data(e.Expression, s, path, want)
	case *hclsyntax.ScopeTraversalExpr:
		if l, ok := d.plainLocal(e); ok {
			l.Used = true
			if l.State == 2 && !l.OK {
				return edn.Nil(), false
			}
			if l.State != 1 {
				return d.localData(l, want)
			}
		}
	case *hclsyntax.TupleConsExpr:
		items := make([]edn.Value, len(e.Exprs))
		good := true
		for i, x := range e.Exprs {
			var ok bool
			items[i], ok = d.data(x, s, append(slices.Clone(path), strconv.Itoa(i)), elementSchema(want, i))
			good = good && ok
		}
		return edn.Vector(items...), good
	case *hclsyntax.ObjectConsExpr:
		return d.object([]syntax.ExprIn{{Expr: e, Source: s}}, path, want)
	}
	v, ok := d.Value(expr, s, path)
	if !ok {
		return edn.Nil(), false
	}
	out, err := expression.FromCty(v)
	if err != nil {
		d.Report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  fmt.Sprintf("%s is not EDN data: %s", language.Subject(path), err),
			Range:    s.Range(expr.Range()),
			Path:     path,
			Expected: edn.Text("edn(\"...\") or a plain value"),
		})
		return edn.Nil(), false
	}
	return out, true
}

func (d *Decoder) plainLocal(e *hclsyntax.ScopeTraversalExpr) (*expression.Local, bool) {
	if e.Traversal.RootName() != "local" || len(e.Traversal) != 2 {
		return nil, false
	}
	name, _ := expression.StepName(e.Traversal)
	l, ok := d.Locals[name]
	return l, ok
}

// localData converts the expression of a local. Force reports cycles.
func (d *Decoder) localData(l *expression.Local, want *schema.Schema) (edn.Value, bool) {
	name := l.Attr.Name
	d.Force(name, l)
	if !l.OK {
		return edn.Nil(), false
	}
	return d.data(l.Attr.Expr, l.Attr.Source, []string{"locals", name}, want)
}

// object merges the layers of a literal map, weakest first. A null removes an entry of a weaker
// layer.
func (d *Decoder) object(layers []syntax.ExprIn, path []string, want *schema.Schema) (edn.Value, bool) {
	var b edn.MapBuilder
	all, good := d.pairs(layers, path, func(p pair) string {
		key, _ := keyOf(want, p.key, p.bare)
		return key.String()
	})
	for _, p := range all {
		key, inner := keyOf(want, p.key, p.bare)
		v, ok := d.data(p.value.Expr, p.value.Source, append(slices.Clone(path), p.key), inner)
		good = good && ok
		if len(p.under) > 0 && v.IsNil() {
			continue
		}
		b.Set(key, v)
	}
	return b.Map(), good
}

// Within returns the position of a part of a literal or of edn("..."); for any other value it
// returns the position of the whole value.
func (v Value) Within(path []edn.Value) *diag.Range {
	if at := v.withinText(path); at != nil {
		return at
	}
	at, expr := v.At, v.data
	for _, step := range path {
		if expr == nil {
			break
		}
		place, inner := memberOf(expr, step)
		if expr = inner; inner != nil {
			at = v.Source.Range(place)
		}
	}
	return at
}

// memberOf returns the range and expression of one member of a literal list or object; the range of an object member
// includes its key. The expression is nil if the value is not a literal.
func memberOf(expr hcl.Expression, step edn.Value) (hcl.Range, hcl.Expression) {
	if i, ok := step.AsInt(); ok {
		if items, diags := hcl.ExprList(expr); !diags.HasErrors() && i < int64(len(items)) {
			return items[i].Range(), items[i]
		}
		return hcl.Range{}, nil
	}
	entries, _ := hcl.ExprMap(expr)
	for _, e := range entries {
		word, ok := syntax.LiteralKey(e.Key)
		if name := language.ScalarText(step); ok && (word == name || word == language.HCLName(name)) {
			return hcl.RangeBetween(e.Key.Range(), e.Value.Range()), e.Value
		}
	}
	return hcl.Range{}, nil
}

// withinText is Within for edn("..."); nil for other values.
func (v Value) withinText(path []edn.Value) *diag.Range {
	call, ok := v.data.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "edn" || len(call.Args) != 1 {
		return nil
	}
	text, diags := call.Args[0].Value(nil)
	s, isText := syntax.AsText(text)
	if diags.HasErrors() || !isText {
		return v.At
	}
	_, positions, err := edn.ReadWithPositions([]byte(s), edn.WithLimits(edn.Config))
	if err != nil {
		return v.At
	}
	for n := len(path); n >= 0; n-- {
		span, ok := positions.At(path[:n]...)
		if !ok {
			continue
		}
		from := expression.LiteralPlace(v.Source, call.Args[0].Range(), span.Start)
		to := expression.LiteralPlace(v.Source, call.Args[0].Range(), span.End)
		if from == nil || to == nil {
			return v.At
		}
		return &diag.Range{File: from.File, Start: from.Start, End: to.Start}
	}
	return v.At
}
