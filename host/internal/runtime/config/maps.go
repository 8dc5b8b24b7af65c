package config

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// whole decodes an attribute with all its layers.
func (d *decoder) whole(a *attribute, path []string) (value, bool) {
	if a.spec.Type.Kind == KindMap {
		return d.mapping(a.spec.Type, a.objects(), path)
	}
	return d.decode(a.spec.Type, a.expr, a.source, path)
}

// mapping decodes a map from its layers, weakest first; several layers are all objects.
func (d *decoder) mapping(t Type, layers []exprIn, path []string) (value, bool) {
	top := layers[len(layers)-1]
	at := top.source.hclRange(top.expr.Range())
	if t.Elem != nil {
		return d.entries(t, layers, path, at)
	}
	v, ok := d.dataOf(layers, path, nil)
	if ok && !v.IsNil() && v.Kind() != edn.KindMap {
		d.report.add(Diagnostic{
			Type:     "config/type",
			Message:  subject(path) + " is not a map",
			Range:    at,
			Path:     path,
			Expected: edn.Text("map"),
			Found:    edn.Text(short(v.String())),
		})
		return value{}, false
	}
	return value{v: v, rng: at, data: top.expr, source: top.source}, ok
}

// pair is one entry of a map literal and the entries that it overrides.
type pair struct {
	key   string
	bare  bool // the key has no quotes
	at    *Range
	value exprIn
	under []*Range
}

// pairs returns the entries of map literals in the order of first appearance. The
// last layer with a key determines its value. Keys of one layer for which same
// returns the same text are an error.
func (d *decoder) pairs(layers []exprIn, path []string, same func(pair) string) ([]pair, bool) {
	var out []pair
	place := map[string]int{}
	good := true
	for _, layer := range layers {
		seen := map[string]*Range{}
		entries, _ := hcl.ExprMap(layer.expr)
		for _, e := range entries {
			key, ok := d.key(e.Key, layer.source, path)
			if !ok {
				good = false
				continue
			}
			p := pair{
				key:   key,
				bare:  hcl.ExprAsKeyword(e.Key) != "",
				at:    layer.source.hclRange(e.Key.Range()),
				value: exprIn{e.Value, layer.source},
			}
			id := same(p)
			if first := seen[id]; first != nil {
				good = false
				d.report.add(duplicateKey(key, p.at, first, path))
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

// entries decodes a map whose values have one type. Keys keep their text; an entry
// with null is omitted.
func (d *decoder) entries(t Type, layers []exprIn, path []string, at *Range) (value, bool) {
	out := value{rng: at}
	good := true
	var b edn.MapBuilder
	add := func(key string, item value, ok bool) {
		if p := d.badKey(t, key); p != nil {
			d.complain(p, *t.Key, cty.StringVal(key), at, append(slices.Clone(path), key))
			ok = false
		}
		good = good && ok
		if ok && !item.v.IsNil() {
			out.keys = append(out.keys, key)
			out.items = append(out.items, item)
			b.Set(edn.Text(key), item.v)
		}
	}
	if top := layers[len(layers)-1]; !top.asObject() {
		v, ok := d.value(top.expr, top.source, path)
		if !ok {
			return value{}, false
		}
		if v.IsNull() {
			return value{}, true
		}
		if !v.Type().IsObjectType() && !v.Type().IsMapType() {
			d.complain(&problem{
				typ:  "config/type",
				what: "is not a map",
				hint: "write it in braces: {...}",
			}, t, v, at, path)
			return value{}, false
		}
		for it := v.ElementIterator(); it.Next(); {
			k, x := it.Element()
			item, ok := d.scalar(*t.Elem, x, top.source, at, append(slices.Clone(path), k.AsString()))
			add(k.AsString(), item, ok)
		}
		out.v = b.Map()
		return out, good
	}
	all, ok := d.pairs(layers, path, func(p pair) string { return p.key })
	good = ok
	for _, p := range all {
		outer := d.touched
		d.touched = nil
		item, ok := d.decode(*t.Elem, p.value.expr, p.value.source, append(slices.Clone(path), p.key))
		item.inputs, item.key = slices.Clone(d.touched), p.at
		d.touched = append(outer, item.inputs...)
		add(p.key, item, ok)
	}
	out.v = b.Map()
	return out, good
}

// dataOf decodes the layers of an untyped map as one value; a single layer may be
// any expression.
func (d *decoder) dataOf(layers []exprIn, path []string, want *schema.Schema) (edn.Value, bool) {
	top := layers[len(layers)-1]
	if len(layers) == 1 {
		return d.data(top.expr, top.source, path, want)
	}
	d.ranges[rangeKey(path)] = top.source.hclRange(top.expr.Range())
	return d.object(layers, path, want)
}
