package decode

import (
	"errors"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// layer decodes a prompt layer: a string, or a list of strings, files and fragment names (PRM-002).
// Every part has its own position.
func (d *Decoder) layer(t language.Type, expr hcl.Expression, s *diag.Source, path []string) (Value, bool) {
	at := s.Range(expr.Range())
	parts, diags := hcl.ExprList(expr)
	if diags.HasErrors() {
		return d.fragment(t, expr, s, path)
	}
	out := Value{At: at}
	good := true
	list := make([]edn.Value, 0, len(parts))
	for _, part := range parts {
		item, ok := d.fragment(t, part, s, path)
		switch {
		case ok && item.EDN.IsVector():
			ok = false
			d.complain(&problem{
				typ:  "config/type",
				what: "holds a list",
			}, t, cty.NilVal, s.Range(part.Range()), path)
		case ok && item.EDN.IsNil():
			ok = false
			d.complain(&problem{typ: "config/type", what: "holds null"}, t, cty.NilVal, s.Range(part.Range()), path)
		}
		good = good && ok
		out.Items, list = append(out.Items, item), append(list, item.EDN)
	}
	out.EDN = edn.Vector(list...)
	return out, good
}

func (d *Decoder) fragment(t language.Type, expr hcl.Expression, s *diag.Source, path []string) (Value, bool) {
	v, ok := d.Value(expr, s, path)
	if !ok {
		return Value{}, false
	}
	return d.layerOf(t, v, s, s.Range(expr.Range()), path)
}

// layerOf decodes a prompt layer that is the result of an expression.
func (d *Decoder) layerOf(t language.Type, v cty.Value, s *diag.Source, at *diag.Range, path []string) (Value, bool) {
	ty := v.Type()
	switch {
	case v.IsNull():
		return Value{At: at}, true
	case ty == cty.String:
		out := Value{At: at, Source: s}
		if p := d.readText(t, v.AsString(), &out); p != nil {
			d.complain(p, t, v, at, path)
			return Value{}, false
		}
		return out, true
	case ty.IsTupleType() || ty.IsListType():
		out := Value{At: at}
		good := true
		list := make([]edn.Value, 0, v.LengthInt())
		for _, x := range v.AsValueSlice() {
			item, ok := d.layerOf(t, x, s, at, path)
			if ok && (item.EDN.IsNil() || item.EDN.IsVector()) {
				ok = false
				d.complain(&problem{
					typ:  "config/type",
					what: "holds neither a text nor a file nor a fragment",
				}, t, x, at, path)
			}
			good = good && ok
			out.Items, list = append(out.Items, item), append(list, item.EDN)
		}
		out.EDN = edn.Vector(list...)
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
				return Value{EDN: edn.MustMap(edn.K("fragment"), edn.Text(x.AsString())), At: at}, true
			}
		}
	}
	d.complain(&problem{typ: "config/type", what: "is not a layer"}, t, v, at, path)
	return Value{}, false
}

// layerFile reads the file of a prompt fragment.
func (d *Decoder) layerFile(name string, s *diag.Source, at *diag.Range, path []string) (Value, bool) {
	text, err := d.Inputs.File(filepath.Dir(s.Path), name)
	var wrong *expression.FunctionError
	switch {
	case errors.As(err, &wrong):
		d.Report.Add(diag.Diagnostic{Type: wrong.Type, Message: wrong.Message, Range: at, Path: path, Hint: wrong.Hint})
		return Value{}, false
	case err != nil:
		d.Report.Add(diag.Diagnostic{Type: "config/include", Message: err.Error(), Range: at, Path: path})
		return Value{}, false
	}
	return Value{EDN: edn.MustMap(edn.K("file"), edn.Text(absolute(name, s))), At: at, Content: &text}, true
}
