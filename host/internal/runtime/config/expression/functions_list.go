package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// The functions in this file accept lists, sets and tuples. The library would first convert a tuple
// to a list, which takes quadratic time.

// texts returns the elements of a list as strings. Numbers and booleans are formatted; null is an
// error.
func texts(v cty.Value) ([]string, error) {
	items, err := elements(v)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(items))
	for i, x := range items {
		if x.IsNull() {
			return nil, fmt.Errorf("member %d is null", i+1)
		}
		s, err := convert.Convert(x, cty.String)
		if err != nil {
			return nil, fmt.Errorf("member %d is not a text", i+1)
		}
		out[i] = s.AsString()
	}
	return out, nil
}

func textList(items []string) cty.Value {
	if len(items) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	out := make([]cty.Value, len(items))
	for i, s := range items {
		out[i] = cty.StringVal(s)
	}
	return cty.ListVal(out)
}

var anyList = function.Parameter{Name: "list", Type: cty.DynamicPseudoType}

var joinFunc = &function.Spec{
	Params:   []function.Parameter{{Name: "separator", Type: cty.String}},
	VarParam: &anyList,
	Type:     function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if len(args) < 2 {
			return cty.NilVal, errors.New("at least one list is required")
		}
		var all []string
		for _, l := range args[1:] {
			items, err := texts(l)
			if err != nil {
				return cty.NilVal, err
			}
			all = append(all, items...)
		}
		return cty.StringVal(strings.Join(all, args[0].AsString())), nil
	},
}

var sortFunc = &function.Spec{
	Params: []function.Parameter{anyList},
	Type:   function.StaticReturnType(cty.List(cty.String)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		items, err := texts(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		slices.Sort(items)
		return textList(items), nil
	},
}

var compactFunc = &function.Spec{
	Params: []function.Parameter{anyList},
	Type:   function.StaticReturnType(cty.List(cty.String)),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		items, err := elements(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		kept := make([]cty.Value, 0, len(items))
		for _, x := range items {
			if !x.IsNull() {
				kept = append(kept, x)
			}
		}
		words, err := texts(cty.TupleVal(kept))
		if err != nil {
			return cty.NilVal, err
		}
		return textList(slices.DeleteFunc(words, func(s string) bool { return s == "" })), nil
	},
}

var zipmapFunc = &function.Spec{
	Params: []function.Parameter{{Name: "keys", Type: cty.DynamicPseudoType},
		{Name: "values", Type: cty.DynamicPseudoType}},
	Type: function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		keys, err := texts(args[0])
		if err != nil {
			return cty.NilVal, err
		}
		values, err := elements(args[1])
		if err != nil {
			return cty.NilVal, err
		}
		if len(keys) != len(values) {
			return cty.NilVal, fmt.Errorf("there are %d keys for %d values", len(keys), len(values))
		}
		out := make(map[string]cty.Value, len(keys))
		for i, k := range keys {
			out[k] = values[i]
		}
		return cty.ObjectVal(out), nil
	},
}
