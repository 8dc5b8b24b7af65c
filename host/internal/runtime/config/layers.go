package config

import (
	"errors"
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// layer decodes a string, or a list of strings, files and fragment names
// (PRM-002). Every part keeps its place.
func (d *decoder) layer(t Type, expr hcl.Expression, s *Source, path []string) (value, bool) {
	at := s.hclRange(expr.Range())
	parts, diags := hcl.ExprList(expr)
	if diags.HasErrors() {
		return d.fragment(t, expr, s, path)
	}
	out := value{rng: at}
	good := true
	list := make([]edn.Value, 0, len(parts))
	for _, part := range parts {
		item, ok := d.fragment(t, part, s, path)
		switch {
		case ok && item.v.IsVector():
			ok = false
			d.complain(&problem{
				typ:  "config/type",
				what: "holds a list",
			}, t, cty.NilVal, s.hclRange(part.Range()), path)
		case ok && item.v.IsNil():
			ok = false
			d.complain(&problem{typ: "config/type", what: "holds null"}, t, cty.NilVal, s.hclRange(part.Range()), path)
		}
		good = good && ok
		out.items, list = append(out.items, item), append(list, item.v)
	}
	out.v = edn.Vector(list...)
	return out, good
}

func (d *decoder) fragment(t Type, expr hcl.Expression, s *Source, path []string) (value, bool) {
	v, ok := d.value(expr, s, path)
	if !ok {
		return value{}, false
	}
	return d.layerOf(t, v, s, s.hclRange(expr.Range()), path)
}

// layerOf decodes a computed layer.
func (d *decoder) layerOf(t Type, v cty.Value, s *Source, at *Range, path []string) (value, bool) {
	ty := v.Type()
	switch {
	case v.IsNull():
		return value{rng: at}, true
	case ty == cty.String:
		out := value{rng: at, source: s}
		if p := d.readText(t, v.AsString(), &out); p != nil {
			d.complain(p, t, v, at, path)
			return value{}, false
		}
		return out, true
	case ty.IsTupleType() || ty.IsListType():
		out := value{rng: at}
		good := true
		list := make([]edn.Value, 0, v.LengthInt())
		for _, x := range v.AsValueSlice() {
			item, ok := d.layerOf(t, x, s, at, path)
			if ok && (item.v.IsNil() || item.v.IsVector()) {
				ok = false
				d.complain(&problem{
					typ:  "config/type",
					what: "holds neither a text nor a file nor a fragment",
				}, t, x, at, path)
			}
			good = good && ok
			out.items, list = append(out.items, item), append(list, item.v)
		}
		out.v = edn.Vector(list...)
		return out, good
	case ty.IsObjectType() && v.LengthInt() == 1:
		for name, x := range v.AsValueMap() {
			if x.Type() != cty.String || x.IsNull() {
				break
			}
			switch name {
			case "file":
				return d.layerFile(x.AsString(), s, at, path)
			case "fragment":
				return value{v: edn.MustMap(edn.K("fragment"), edn.Text(x.AsString())), rng: at}, true
			}
		}
	}
	d.complain(&problem{typ: "config/type", what: "is not a layer"}, t, v, at, path)
	return value{}, false
}

// layerFile reads the file of a fragment.
func (d *decoder) layerFile(name string, s *Source, at *Range, path []string) (value, bool) {
	text, err := d.inputs.file(filepath.Dir(s.Path), name)
	var wrong *functionError
	switch {
	case errors.As(err, &wrong):
		d.report.add(Diagnostic{Type: wrong.typ, Message: wrong.message, Range: at, Path: path, Hint: wrong.hint})
		return value{}, false
	case err != nil:
		d.report.add(Diagnostic{Type: "config/include", Message: err.Error(), Range: at, Path: path})
		return value{}, false
	}
	return value{v: edn.MustMap(edn.K("file"), edn.Text(absolute(name, s))), rng: at, content: &text}, true
}
