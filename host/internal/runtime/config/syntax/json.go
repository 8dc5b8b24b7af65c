package syntax

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// ParseJSON parses a file in JSON within the limits (HCL-012). The body is never nil.
func ParseJSON(s *diag.Source, report *diag.Collector) hcl.Body {
	empty := hcl.EmptyBody()
	b := ScanText(s.Text)
	if b == nil {
		b = scanJSON(s.Text)
	}
	if b != nil {
		reportBound(report, s, b)
		return empty
	}
	file, diags := hcljson.Parse(s.Text, s.Name)
	reportSyntax(report, s, nil, diags)
	if file == nil || diags.HasErrors() {
		report.Poison(diag.AnyName, diag.AnyName)
		return empty
	}
	return file.Body
}

// native converts a JSON expression to native syntax, so that the same checks and the same meter
// apply to both. A string is a template; an object key that is an identifier is handled like an
// unquoted key.
func (g *grower) native(e hcl.Expression) hcl.Expression {
	if _, ok := e.(hclsyntax.Expression); ok {
		return e
	}
	return g.fromJSON(e)
}

func (g *grower) fromJSON(e hcl.Expression) hclsyntax.Expression {
	if pairs, diags := hcl.ExprMap(e); !diags.HasErrors() {
		out := &hclsyntax.ObjectConsExpr{SrcRange: e.Range(), OpenRange: e.StartRange()}
		for _, p := range pairs {
			out.Items = append(out.Items,
				hclsyntax.ObjectConsItem{KeyExpr: g.jsonKey(p.Key), ValueExpr: g.fromJSON(p.Value)})
		}
		return out
	}
	if items, diags := hcl.ExprList(e); !diags.HasErrors() {
		out := &hclsyntax.TupleConsExpr{SrcRange: e.Range(), OpenRange: e.StartRange()}
		for _, x := range items {
			out.Exprs = append(out.Exprs, g.fromJSON(x))
		}
		return out
	}
	v, _ := e.Value(nil)
	if text, ok := AsText(v); ok {
		return g.template(text, e.Range())
	}
	return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: e.Range()}
}

func (g *grower) jsonKey(e hcl.Expression) hclsyntax.Expression {
	v, _ := e.Value(nil)
	text, _ := AsText(v)
	if hclsyntax.ValidIdentifier(text) {
		root := hcl.TraverseRoot{Name: text, SrcRange: e.Range()}
		return &hclsyntax.ObjectConsKeyExpr{Wrapped: &hclsyntax.ScopeTraversalExpr{Traversal: hcl.Traversal{root},
			SrcRange: e.Range()}}
	}
	return &hclsyntax.ObjectConsKeyExpr{Wrapped: g.template(text, e.Range())}
}

// template parses the text of a JSON string. Positions are exact up to its first escape.
func (g *grower) template(text string, at hcl.Range) hclsyntax.Expression {
	literal := &hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: at}
	source := nativeQuoted(text)
	if !strings.Contains(text, "${") && !strings.Contains(text, "%{") {
		g.source.SetPiece(at.Start.Byte, source)
		return literal
	}
	unknown := &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
	tokens, _ := hclsyntax.LexExpression([]byte(source), g.source.Name, at.Start)
	if b := scanTokens(tokens); b != nil {
		b.From, b.To = at.Start.Byte, at.End.Byte
		reportBound(g.report, g.source, b)
		return unknown
	}
	expr, diags := hclsyntax.ParseExpression([]byte(source), g.source.Name, at.Start)
	if diags.HasErrors() {
		reportSyntax(g.report, g.source, nil, diags)
		return unknown
	}
	g.source.SetPiece(at.Start.Byte, source)
	if whole, ok := expr.(*hclsyntax.TemplateWrapExpr); ok {
		return whole.Wrapped
	}
	return expr
}

// nativeQuoted returns a template as a quoted string in native syntax.
func nativeQuoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	tokens, _ := hclsyntax.LexTemplate([]byte(text), "", hcl.InitialPos)
	heredocs, end := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOHeredoc:
			heredocs++
		case hclsyntax.TokenCHeredoc:
			heredocs--
		}
		from, to := t.Range.Start.Byte, t.Range.End.Byte
		b.WriteString(text[end:from]) // white space has no token
		end = to
		if t.Type == hclsyntax.TokenStringLit && heredocs == 0 {
			b.WriteString(escapes.Replace(text[from:to]))
			continue
		}
		b.WriteString(text[from:to])
	}
	b.WriteByte('"')
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\u0000`)

// jsonStrangers reports names in a JSON block that the specification does not have.
func (g *grower) jsonStrangers(n *Node, rest hcl.Body) {
	attrs, diags := rest.JustAttributes()
	reportSyntax(g.report, g.source, nil, diags)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		kind := "attribute"
		if _, diags := hcl.ExprMap(attrs[name].Expr); !diags.HasErrors() {
			kind = "block"
		}
		g.stranger(n, kind, name, nil, attrs[name].NameRange)
	}
}
