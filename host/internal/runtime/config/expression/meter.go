package expression

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// meter counts the steps of one evaluation. Once it exceeds its limit, over stays set, even if
// try() catches the error. It is not safe for concurrent use.
type meter struct {
	steps    int
	over     error
	patterns map[string]*regexp.Regexp
}

func (m *meter) reset() { m.steps, m.over = 0, nil }

func (m *meter) spend(n int) error {
	if m.over != nil {
		return m.over
	}
	m.steps += n
	if m.steps > MaxGateSteps {
		m.over = &limitError{fmt.Sprintf("the expression takes more than %d steps", MaxGateSteps)}
	}
	return m.over
}

func (m *meter) exceed(format string, args ...any) error {
	if m.over == nil {
		m.over = &limitError{fmt.Sprintf(format, args...)}
	}
	return m.over
}

// weight returns the number of elements of a value plus the 64-byte blocks of its
// strings; it stops counting above most.
func weight(v cty.Value, most int) int {
	if !v.IsKnown() || v.IsNull() {
		return 1
	}
	t := v.Type()
	switch {
	case t == cty.String:
		return 1 + len(v.AsString())/64
	case t.IsPrimitiveType() || t.IsCapsuleType():
		return 1
	}
	n := 1
	for it := v.ElementIterator(); it.Next(); {
		k, x := it.Element()
		if k.Type() == cty.String && k.IsKnown() && !k.IsNull() {
			n += len(k.AsString()) / 64
		}
		n += weight(x, most-n)
		if n > most {
			return n
		}
	}
	return n
}

func (m *meter) values(vs ...cty.Value) error {
	for _, v := range vs {
		if err := m.spend(weight(v, MaxGateSteps-m.steps)); err != nil {
			return err
		}
	}
	return m.over
}

// metered returns a function whose arguments and result are charged to the meter. guard, if not
// nil, rejects calls whose result would be much larger than the arguments.
func (m *meter) metered(f *function.Spec, guard func(args []cty.Value) error) function.Function {
	spec := *f
	spec.Type = func(args []cty.Value) (cty.Type, error) {
		if m.over != nil {
			return cty.NilType, m.over
		}
		if guard != nil && known(args) {
			if err := guard(args); err != nil {
				return cty.NilType, err
			}
		}
		return f.Type(args)
	}
	spec.Impl = func(args []cty.Value, want cty.Type) (cty.Value, error) {
		if err := m.values(args...); err != nil {
			return cty.NilVal, err
		}
		out, err := f.Impl(args, want)
		if err != nil {
			return cty.NilVal, err
		}
		return out, m.values(out)
	}
	return function.New(&spec)
}

// standard returns the specification of a function of the library. Values never have marks here, so
// marks are accepted and ignored.
func standard(f function.Function) *function.Spec {
	params := f.Params()
	for i := range params {
		params[i].AllowMarked = true
	}
	rest := f.VarParam()
	if rest != nil {
		p := *rest
		p.AllowMarked = true
		rest = &p
	}
	return &function.Spec{Params: params, VarParam: rest, Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) }}
}

func known(args []cty.Value) bool {
	for _, a := range args {
		if !a.IsWhollyKnown() {
			return false
		}
	}
	return true
}

// instrument charges each evaluation of a loop body and of a template part to the meter. It
// modifies the expression, which must not be shared with another meter.
func (m *meter) instrument(root hclsyntax.Node) {
	_ = hclsyntax.VisitAll(root, func(n hclsyntax.Node) hcl.Diagnostics {
		switch e := n.(type) {
		case *hclsyntax.ForExpr:
			e.ValExpr = m.paid(e.ValExpr)
			if e.KeyExpr != nil {
				e.KeyExpr = m.paid(e.KeyExpr)
			}
			if e.CondExpr != nil {
				e.CondExpr = m.paid(e.CondExpr)
			}
		case *hclsyntax.SplatExpr:
			e.Each = m.paid(e.Each)
		case *hclsyntax.TemplateExpr:
			if len(e.Parts) > 1 {
				length := new(int)
				for i := range e.Parts {
					e.Parts[i] = m.part(e.Parts[i], i, length)
				}
			}
		case *hclsyntax.TemplateJoinExpr:
			e.Tuple = m.paid(e.Tuple)
		case *hclsyntax.ConditionalExpr:
			e.TrueResult, e.FalseResult = m.branch(e.TrueResult), m.branch(e.FalseResult)
		case *hclsyntax.BinaryOpExpr:
			if own := m.comparison(e.Op); own != nil {
				e.Op = own
			}
			if e.Op == hclsyntax.OpDivide || e.Op == hclsyntax.OpModulo {
				if _, done := e.RHS.(*divisor); !done {
					e.RHS = &divisor{e.RHS}
				}
			}
		}
		return nil
	})
}

// paidExpr is an expression that is charged to the meter: each evaluation costs its operators and
// the size of its value.
type paidExpr struct {
	hclsyntax.Expression
	meter     *meter
	operators int
}

func (m *meter) paid(e hclsyntax.Expression) hclsyntax.Expression {
	if _, done := e.(*paidExpr); done {
		return e
	}
	return &paidExpr{Expression: e, meter: m, operators: 1 + operators(e)}
}

// Value implements hcl.Expression. Above the limit it immediately returns an unknown value without
// a diagnostic; the caller of the evaluation must check the meter.
func (p *paidExpr) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if p.meter.spend(p.operators) != nil {
		return cty.DynamicVal, nil
	}
	v, diags := p.Expression.Value(ctx)
	if v != cty.NilVal && p.meter.values(v) != nil {
		return cty.DynamicVal, nil
	}
	return v, diags
}

// branchExpr is an arm of a conditional. The library unifies the types of both arms in time
// quadratic in the length of a tuple or object, so its cost is quadratic too.
type branchExpr struct {
	hclsyntax.Expression
	meter *meter
}

func (m *meter) branch(e hclsyntax.Expression) hclsyntax.Expression {
	if _, done := e.(*branchExpr); done {
		return e
	}
	return &branchExpr{Expression: e, meter: m}
}

// Value implements hcl.Expression.
func (b *branchExpr) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := b.Expression.Value(ctx)
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() {
		return v, diags
	}
	n := 0
	switch t := v.Type(); {
	case t.IsTupleType():
		n = t.Length()
	case t.IsObjectType():
		n = len(t.AttributeTypes())
	}
	if b.meter.spend(n*n/100) != nil {
		return cty.DynamicVal, nil
	}
	return v, diags
}

const noDivisor = "Division by zero"

// divisor is an expression that must not be zero. For zero the library would return infinity.
type divisor struct{ hclsyntax.Expression }

// Value implements hcl.Expression.
func (d *divisor) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := d.Expression.Value(ctx)
	if v != cty.NilVal && v.IsKnown() && !v.IsNull() && v.Type() == cty.Number && v.AsBigFloat().Sign() == 0 {
		r := d.Range()
		return cty.DynamicVal, append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  noDivisor,
			Subject:  &r,
		})
	}
	return v, diags
}

// partExpr is one part of a template. The library joins the parts after all have been evaluated, so
// their total length is checked during the evaluation.
type partExpr struct {
	hclsyntax.Expression
	meter  *meter
	first  bool
	length *int // bytes of the parts so far; shared by all parts
}

func (m *meter) part(e hclsyntax.Expression, i int, length *int) hclsyntax.Expression {
	if _, done := e.(*partExpr); done {
		return e
	}
	return &partExpr{Expression: m.paid(e), meter: m, first: i == 0, length: length}
}

// Value implements hcl.Expression.
func (p *partExpr) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if p.first {
		*p.length = 0
	}
	v, diags := p.Expression.Value(ctx)
	if v == cty.NilVal {
		return v, diags
	}
	if s, ok := syntax.AsText(v); ok {
		if *p.length += len(s); *p.length > MaxGateResult {
			_ = p.meter.exceed("a text is over %s", language.FormatBytes(MaxGateResult))
			return cty.DynamicVal, nil
		}
	}
	return v, diags
}

// operators returns the number of operators of an expression as defined in HCL-025.
func operators(root hclsyntax.Node) int {
	n := 0
	_ = hclsyntax.VisitAll(root, func(x hclsyntax.Node) hcl.Diagnostics {
		switch x.(type) {
		case *hclsyntax.BinaryOpExpr, *hclsyntax.UnaryOpExpr, *hclsyntax.ConditionalExpr, *hclsyntax.FunctionCallExpr,
			*hclsyntax.IndexExpr, *hclsyntax.ForExpr, *hclsyntax.SplatExpr, *hclsyntax.TemplateExpr:
			n++
		}
		return nil
	})
	return n
}
