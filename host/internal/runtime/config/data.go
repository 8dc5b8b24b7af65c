package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// rangeKey returns the key of a path in decoder.ranges.
func rangeKey(path []string) string { return strings.Join(path, "\x00") }

// data converts an expression to an EDN value. In a literal a bare key becomes a
// keyword and a quoted key a string. A schema, if given, decides about the keys of
// the maps that it describes.
func (d *decoder) data(expr hcl.Expression, s *Source, path []string, want *schema.Schema) (edn.Value, bool) {
	d.ranges[rangeKey(path)] = s.hclRange(expr.Range())
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return d.data(e.Expression, s, path, want)
	case *hclsyntax.ScopeTraversalExpr:
		if l, ok := d.plainLocal(e); ok {
			l.used = true
			if l.state == 2 && !l.ok {
				return edn.Nil(), false
			}
			if l.state != 1 {
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
		return d.object([]exprIn{{e, s}}, path, want)
	}
	v, ok := d.value(expr, s, path)
	if !ok {
		return edn.Nil(), false
	}
	out, err := fromCty(v)
	if err != nil {
		d.report.add(Diagnostic{
			Type:     "config/type",
			Message:  fmt.Sprintf("%s is not EDN data: %s", subject(path), err),
			Range:    s.hclRange(expr.Range()),
			Path:     path,
			Expected: edn.Text("edn(\"...\") or a plain value"),
		})
		return edn.Nil(), false
	}
	return out, true
}

func (d *decoder) plainLocal(e *hclsyntax.ScopeTraversalExpr) (*local, bool) {
	if e.Traversal.RootName() != "local" || len(e.Traversal) != 2 {
		return nil, false
	}
	name, _ := stepName(e.Traversal)
	l, ok := d.locals[name]
	return l, ok
}

// localData converts the expression of a local. The state guards against a
// cycle, which force reports.
func (d *decoder) localData(l *local, want *schema.Schema) (edn.Value, bool) {
	name := l.attr.name
	d.force(name, l)
	if !l.ok {
		return edn.Nil(), false
	}
	return d.data(l.attr.expr, l.attr.source, []string{"locals", name}, want)
}

// object merges the layers of a literal map. A null removes the entry.
func (d *decoder) object(layers []exprIn, path []string, want *schema.Schema) (edn.Value, bool) {
	var b edn.MapBuilder
	all, good := d.pairs(layers, path, func(p pair) string {
		key, _ := keyOf(want, p.key, p.bare)
		return key.String()
	})
	for _, p := range all {
		key, inner := keyOf(want, p.key, p.bare)
		v, ok := d.data(p.value.expr, p.value.source, append(slices.Clone(path), p.key), inner)
		good = good && ok
		if len(p.under) > 0 && v.IsNil() {
			continue
		}
		b.Set(key, v)
	}
	return b.Map(), good
}

// within returns the place of a part of a literal or of edn("..."); for any other value it returns the place of the
// whole value.
func (v value) within(path []edn.Value) *Range {
	if at := v.withinText(path); at != nil {
		return at
	}
	at, expr := v.rng, v.data
	for _, step := range path {
		if expr == nil {
			break
		}
		place, inner := memberOf(expr, step)
		if expr = inner; inner != nil {
			at = v.source.hclRange(place)
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
		if word, ok := literalKey(e.Key); ok && (word == scalarText(step) || word == hclName(scalarText(step))) {
			return hcl.RangeBetween(e.Key.Range(), e.Value.Range()), e.Value
		}
	}
	return hcl.Range{}, nil
}

// withinText is within for edn("..."); nil for other values.
func (v value) withinText(path []edn.Value) *Range {
	call, ok := v.data.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "edn" || len(call.Args) != 1 {
		return nil
	}
	text, diags := call.Args[0].Value(nil)
	s, isText := asText(text)
	if diags.HasErrors() || !isText {
		return v.rng
	}
	_, positions, err := edn.ReadWithPositions([]byte(s), edn.WithLimits(edn.Config))
	if err != nil {
		return v.rng
	}
	for n := len(path); n >= 0; n-- {
		span, ok := positions.At(path[:n]...)
		if !ok {
			continue
		}
		from := literalPlace(v.source, call.Args[0].Range(), span.Start)
		to := literalPlace(v.source, call.Args[0].Range(), span.End)
		if from == nil || to == nil {
			return v.rng
		}
		return &Range{File: from.File, Start: from.Start, End: to.Start}
	}
	return v.rng
}
