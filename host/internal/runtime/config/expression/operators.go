package expression

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// comparison returns a replacement for a comparison operator of the library; nil for other
// operators. The library compares numbers by their decimal text, which takes microseconds for a
// fraction, and its cost for collections is not charged. The results are the same, because both
// operands come from decimal text or exact integers.
func (m *meter) comparison(op *hclsyntax.Operation) *hclsyntax.Operation {
	switch op {
	case hclsyntax.OpGreaterThanOrEqual:
		return ordering(func(c int) bool { return c >= 0 })
	case hclsyntax.OpLessThanOrEqual:
		return ordering(func(c int) bool { return c <= 0 })
	case hclsyntax.OpEqual:
		return m.equality(true)
	case hclsyntax.OpNotEqual:
		return m.equality(false)
	}
	return nil
}

func ordering(holds func(int) bool) *hclsyntax.Operation {
	return &hclsyntax.Operation{Type: cty.Bool, Impl: function.New(&function.Spec{
		Params: []function.Parameter{{Name: "a", Type: cty.Number, AllowMarked: true},
			{Name: "b", Type: cty.Number, AllowMarked: true}},
		Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(holds(args[0].AsBigFloat().Cmp(args[1].AsBigFloat()))), nil
		},
	})}
}

func (m *meter) equality(equal bool) *hclsyntax.Operation {
	operand := func(name string) function.Parameter {
		return function.Parameter{
			Name:             name,
			Type:             cty.DynamicPseudoType,
			AllowUnknown:     true,
			AllowDynamicType: true,
			AllowNull:        true,
			AllowMarked:      true,
		}
	}
	return &hclsyntax.Operation{Type: cty.Bool, Impl: function.New(&function.Spec{
		Params: []function.Parameter{operand("a"), operand("b")},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			a, b := args[0], args[1]
			if isNumber(a) && isNumber(b) {
				return cty.BoolVal(equal == (a.AsBigFloat().Cmp(b.AsBigFloat()) == 0)), nil
			}
			if err := m.values(a, b); err != nil {
				return cty.NilVal, err
			}
			same := a.Equals(b)
			if !equal {
				same = same.Not()
			}
			return same, nil
		},
	})}
}

func isNumber(v cty.Value) bool {
	return v.Type() == cty.Number && v.IsKnown() && !v.IsNull() && !v.IsMarked()
}
