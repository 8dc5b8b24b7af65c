package decode

import (
	"strings"
	"testing"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
)

// The HCL form of strings and data decodes to the same value.
func TestSpell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := cty.NormalizeString(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a$%{}"\\\n~]*`), rapid.StringMatching(`[\r\f\x1a\x{301}]*`)).Draw(t, "text"))
		if strings.ContainsRune(text, 0) {
			t.Skip("no file holds NUL")
		}
		for _, v := range []edn.Value{edn.Text(text), edn.Vector(edn.Text(text), edn.Int(3)), edn.MustMap(edn.K("k-x"), edn.Text(text), edn.Text("t"), edn.K("k"))} {
			source := "v = " + HCLText(v)
			report := diag.NewCollector(diag.Sources{})
			s := diag.NewSource("x", "/x", 0, []byte(source))
			body := syntax.Parse(s, report)
			if !report.Empty() {
				t.Fatalf("%s: %v", source, report.Result())
			}
			d := NewDecoder(expression.NewEvaluator(report, expression.NewInputs("/", func(string) (string, bool) { return "", false })))
			got, ok := d.data(body.Attributes["v"].Expr, s, []string{"x", "v"}, nil)
			if !ok || !edn.Equal(got, v) {
				t.Fatalf("%s gives %s", source, got)
			}
		}
	})
}
