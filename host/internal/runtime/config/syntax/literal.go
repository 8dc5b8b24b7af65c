package syntax

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// Literal returns the value of a literal expression; false if the expression is not a literal.
func Literal(expr hcl.Expression) (cty.Value, bool) {
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

// IsNull reports whether an expression is the literal null.
func IsNull(expr hcl.Expression) bool {
	v, ok := Literal(expr)
	return ok && v.IsNull()
}

// LiteralKey returns the key of an object entry; false if the key is computed.
func LiteralKey(expr hcl.Expression) (string, bool) {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return word, true
	}
	key, ok := expr.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return "", false
	}
	v, ok := Literal(key.Wrapped)
	if !ok {
		return "", false
	}
	return AsText(v)
}

// WrittenKeys returns the keys of an object that are not computed.
func WrittenKeys(w ExprIn) []string {
	entries, _ := hcl.ExprMap(w.Expr)
	var out []string
	for _, e := range entries {
		if word, ok := LiteralKey(e.Key); ok {
			out = append(out, word)
		}
	}
	return out
}

// ExprIn is an expression with its file.
type ExprIn struct {
	Expr   hcl.Expression
	Source *diag.Source
}

// AsObject reports whether the expression is an object literal.
func (w ExprIn) AsObject() bool {
	_, diags := hcl.ExprMap(w.Expr)
	return !diags.HasErrors()
}

// Objects returns the layers of a map attribute that take effect: successive object literals are
// merged by key, any other expression replaces the earlier layers.
func (a *Attribute) Objects() []ExprIn {
	all := a.Stack()
	out := make([]ExprIn, 0, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		w := ExprIn{all[i].Expr, all[i].Source}
		if i < len(all)-1 && !w.AsObject() {
			break
		}
		out = append(out, w)
		if !w.AsObject() {
			break
		}
	}
	slices.Reverse(out)
	return out
}

// AsText returns the string in v; false if v is null, unknown or not a string.
func AsText(v cty.Value) (string, bool) {
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// SourceText returns the text of an expression in native syntax; empty if it is not part of s.
func SourceText(s *diag.Source, expr hcl.Expression) string {
	r := expr.Range()
	if text, ok := s.Piece(r); ok {
		return text
	}
	if !r.CanSliceBytes(s.Text) {
		return ""
	}
	return string(r.SliceBytes(s.Text))
}
