package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// literal returns the value of a literal expression without evaluating it.
func literal(expr hcl.Expression) (cty.Value, bool) {
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return e.Val, true
	case *hclsyntax.TemplateExpr:
		if e.IsStringLiteral() {
			v, diags := e.Value(nil)
			return v, !diags.HasErrors()
		}
	}
	return cty.NilVal, false
}

// isNull reports whether an expression is the literal null.
func isNull(expr hcl.Expression) bool {
	v, ok := literal(expr)
	return ok && v.IsNull()
}

// literalKey returns the literal key of an object entry.
func literalKey(expr hcl.Expression) (string, bool) {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return word, true
	}
	key, ok := expr.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return "", false
	}
	v, ok := literal(key.Wrapped)
	if !ok {
		return "", false
	}
	return asText(v)
}

// writtenKeys returns the literal keys of an object.
func writtenKeys(w exprIn) []string {
	entries, _ := hcl.ExprMap(w.expr)
	var out []string
	for _, e := range entries {
		if word, ok := literalKey(e.Key); ok {
			out = append(out, word)
		}
	}
	return out
}

// exprIn is an expression and its file.
type exprIn struct {
	expr   hcl.Expression
	source *Source
}

// asObject reports whether an expression is an object literal.
func (w exprIn) asObject() bool {
	_, diags := hcl.ExprMap(w.expr)
	return !diags.HasErrors()
}

// objects returns the effective layers of a map attribute: consecutive object
// literals merge by key, any other expression replaces the earlier layers.
func (a *attribute) objects() []exprIn {
	all := a.stack()
	out := make([]exprIn, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		w := exprIn{all[i].expr, all[i].source}
		if i < len(all)-1 && !w.asObject() {
			break
		}
		out = append(out, w)
		if !w.asObject() {
			break
		}
	}
	slices.Reverse(out)
	return out
}

func asText(v cty.Value) (string, bool) {
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

func sourceText(s *Source, expr hcl.Expression) string {
	r := expr.Range()
	if text, ok := s.piece(r); ok {
		return text
	}
	if !r.CanSliceBytes(s.text) {
		return ""
	}
	return string(r.SliceBytes(s.text))
}
