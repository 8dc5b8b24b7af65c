package expression

import (
	"errors"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ednProblem returns the position and message of an error of edn(). The position is nil unless its
// text is a literal; the bool is false for other errors.
func ednProblem(d *hcl.Diagnostic, s *diag.Source) (*diag.Range, string, bool) {
	extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
	if !ok {
		return nil, "", false
	}
	var wrapped *ednError
	if !errors.As(extra.FunctionCallError(), &wrapped) {
		return nil, "", false
	}
	message := "the EDN text is invalid: " + wrapped.Error()
	var syntax *edn.SyntaxError
	if !errors.As(wrapped.err, &syntax) {
		return nil, message, true
	}
	message = "the EDN text is invalid: " + syntax.Message
	call, ok := d.Expression.(*hclsyntax.FunctionCallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, message, true
	}
	return LiteralPlace(s, call.Args[0].Range(), syntax.Pos), message, true
}

// LiteralPlace returns the range in the file of a position inside a literal. It supports heredocs,
// and quoted strings without escapes; for others it returns nil.
func LiteralPlace(s *diag.Source, arg hcl.Range, pos edn.Position) *diag.Range {
	if !arg.CanSliceBytes(s.Text) {
		return nil
	}
	raw := string(arg.SliceBytes(s.Text))
	if strings.HasPrefix(raw, "<<") {
		n := arg.Start.Line + pos.Line
		line, ok := s.Line(n)
		if !ok {
			return nil
		}
		column := pos.Column
		if strings.HasPrefix(raw, "<<-") {
			column += indentOf(raw)
		}
		column = min(column, len([]rune(line))+1)
		from := s.Lines[n-1] + len(string([]rune(line)[:column-1]))
		return s.Span(from, from+1)
	}
	if strings.ContainsAny(raw, "\\$%") || !strings.HasPrefix(raw, `"`) {
		return nil
	}
	from := arg.Start.Byte + 1 + pos.Offset
	return s.Span(from, min(from+1, arg.End.Byte))
}

// indentOf returns the number of blanks that a <<- heredoc removes from every line.
func indentOf(raw string) int {
	lines := strings.Split(raw, "\n")
	least := -1
	for _, l := range lines[1:] {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if n := len(l) - len(strings.TrimLeft(l, " \t")); least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}

func readEDN(text string) (cty.Value, error) {
	v, err := edn.ReadString(text, edn.WithLimits(edn.Config))
	if err != nil {
		return cty.NilVal, &ednError{err}
	}
	return ednCapsule(v), nil
}

// ednError is an error of edn(). It keeps the position inside the text, which LiteralPlace can map
// to the file.
type ednError struct{ err error }

func (e *ednError) Error() string { return e.err.Error() }

func (e *ednError) Unwrap() error { return e.err }
