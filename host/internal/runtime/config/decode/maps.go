package decode

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// whole decodes an attribute. The layers of a map are merged; for other types only the strongest
// layer counts.
func (d *Decoder) whole(a *syntax.Attribute, path []string) (Value, bool) {
	t := a.Spec.Type
	if t.OrMap && (syntax.ExprIn{Expr: a.Expr, Source: a.Source}).AsObject() {
		t = t.Mapped()
	}
	if t.Kind == language.KindMap {
		return d.mapping(t, a.Objects(), path)
	}
	return d.decode(t, a.Expr, a.Source, path)
}

// mapping decodes a map from its layers, weakest first. If there are several, all are objects.
func (d *Decoder) mapping(t language.Type, layers []syntax.ExprIn, path []string) (Value, bool) {
	top := layers[len(layers)-1]
	at := top.Source.Range(top.Expr.Range())
	if t.Elem != nil {
		return d.entries(t, layers, path, at)
	}
	v, ok := d.dataOf(layers, path, nil)
	if ok && !v.IsNil() && v.Kind() != edn.KindMap {
		d.Report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  language.Subject(path) + " is not a map",
			Range:    at,
			Path:     path,
			Expected: edn.Text("map"),
			Found:    edn.Text(diag.Short(v.String())),
		})
		return Value{}, false
	}
	return Value{EDN: v, At: at, data: top.Expr, Source: top.Source}, ok
}

// pair is one entry of a map literal and the entries that it overrides.
type pair struct {
	key   string
	bare  bool // the key has no quotes
	at    *diag.Range
	value syntax.ExprIn
	under []*diag.Range
}

// pairs returns the entries of map literals, layers weakest first, in the order of their first
// appearance. The last layer with a key determines its value. Two keys of one layer for which same
// returns the same text are an error.
func (d *Decoder) pairs(layers []syntax.ExprIn, path []string, same func(pair) string) ([]pair, bool) {
	var out []pair
	place := map[string]int{}
	good := true
	for _, layer := range layers {
		seen := map[string]*diag.Range{}
		entries, _ := hcl.ExprMap(layer.Expr)
		for _, e := range entries {
			key, ok := d.key(e.Key, layer.Source, path)
			if !ok {
				good = false
				continue
			}
			p := pair{
				key:   key,
				bare:  hcl.ExprAsKeyword(e.Key) != "",
				at:    layer.Source.Range(e.Key.Range()),
				value: syntax.ExprIn{Expr: e.Value, Source: layer.Source},
			}
			id := same(p)
			if first := seen[id]; first != nil {
				good = false
				d.Report.Add(duplicateKey(key, p.at, first, path))
				continue
			}
			seen[id] = p.at
			i, known := place[id]
			if !known {
				place[id] = len(out)
				out = append(out, p)
				continue
			}
			p.under = append(slices.Clone(out[i].under), out[i].at)
			out[i] = p
		}
	}
	return out, good
}

// entries decodes a map whose values have one type. Keys are strings; entries with null are
// omitted.
func (d *Decoder) entries(t language.Type, layers []syntax.ExprIn, path []string, at *diag.Range) (Value, bool) {
	out := Value{At: at}
	good := true
	var b edn.MapBuilder
	add := func(key string, item Value, ok bool) {
		if p := d.badKey(t, key); p != nil {
			d.complain(p, *t.Key, cty.StringVal(key), at, append(slices.Clone(path), key))
			ok = false
		}
		good = good && ok
		if ok && (!item.EDN.IsNil() || item.Secret != nil) {
			out.Keys = append(out.Keys, key)
			out.Items = append(out.Items, item)
			b.Set(edn.Text(key), item.EDN)
		}
	}
	if top := layers[len(layers)-1]; !top.AsObject() {
		v, ok := d.Value(top.Expr, top.Source, path)
		if !ok {
			return Value{}, false
		}
		if v.IsNull() {
			return Value{}, true
		}
		if !v.Type().IsObjectType() && !v.Type().IsMapType() {
			d.complain(&problem{
				typ:  "config/type",
				what: "is not a map",
				hint: "write it in braces: {...}",
			}, t, v, at, path)
			return Value{}, false
		}
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			item, ok := d.scalar(*t.Elem, x, top.Source, at, append(slices.Clone(path), k.AsString()))
			add(k.AsString(), item, ok)
		}
		out.EDN = b.Map()
		return out, good
	}
	all, ok := d.pairs(layers, path, func(p pair) string { return p.key })
	good = ok
	for _, p := range all {
		outer := d.Touched
		d.Touched = nil
		item, ok := d.decode(*t.Elem, p.value.Expr, p.value.Source, append(slices.Clone(path), p.key))
		item.Inputs, item.Key = slices.Clone(d.Touched), p.at
		d.Touched = append(outer, item.Inputs...)
		add(p.key, item, ok)
	}
	out.EDN = b.Map()
	return out, good
}

// dataOf decodes the layers of an untyped map as one value; a single layer may be
// any expression.
func (d *Decoder) dataOf(layers []syntax.ExprIn, path []string, want *schema.Schema) (edn.Value, bool) {
	top := layers[len(layers)-1]
	if len(layers) == 1 {
		return d.data(top.Expr, top.Source, path, want)
	}
	d.ranges[RangeKey(path)] = top.Source.Range(top.Expr.Range())
	return d.object(layers, path, want)
}
