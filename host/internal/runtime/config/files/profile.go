package files

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// ProfileVariable is the environment variable that selects the profile.
const ProfileVariable = "FERMENT_PROFILE"

// effectiveProfile returns the profile of the option, else of the environment, else of the
// configuration, else prod (HCL-013).
func (g *gatherer) effectiveProfile() string {
	written, fromFile := g.writtenProfile()
	if g.profile != "" {
		return g.namedProfile(g.profile, "there is no profile "+diag.Quote(diag.Short(g.profile)))
	}
	if v, ok := g.env(ProfileVariable); ok && v != "" {
		// Values of environment variables are never printed.
		return g.namedProfile(v, "the environment variable "+ProfileVariable+" names no profile")
	}
	if fromFile {
		return written
	}
	return language.ProfileProd
}

// namedProfile returns the profile with a name from the option or the environment. An invalid name
// is reported, and prod is returned.
func (g *gatherer) namedProfile(name, problem string) string {
	if slices.Contains(language.Profiles(), name) {
		return name
	}
	g.report.Poison("ferment", "profile")
	g.report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  problem,
		Expected: edn.Text(language.Type{Kind: language.KindEnum, Enum: language.Profiles()}.String()),
		Nearest:  diag.Nearest(name, language.Profiles()),
	})
	return language.ProfileProd
}

// writtenProfile returns ferment.profile; false if it is not set. It runs before all other values
// are decoded; errors in the value are reported then.
func (g *gatherer) writtenProfile() (string, bool) {
	for _, tree := range slices.Backward(g.trees) {
		for _, f := range tree.Children("ferment") {
			if a, ok := f.Attrs["profile"]; ok {
				return g.profileOf(a)
			}
		}
	}
	return "", false
}

func (g *gatherer) profileOf(a *syntax.Attribute) (string, bool) {
	path := []string{"ferment", "profile"}
	if len(a.Expr.Variables()) > 0 || callsOther(a.Expr, "env") {
		g.report.Add(diag.Diagnostic{
			Type:    "config/type",
			Message: "profile in ferment may use literals and env() only: it decides which files are read",
			Range:   a.Source.Range(a.Expr.Range()),
			Path:    path,
			Hint:    "write the name, or env(\"NAME\", \"prod\")",
		})
		return "", false
	}
	quiet := expression.NewEvaluator(diag.NewCollector(diag.Sources{}), expression.NewInputs(g.Root, g.Lookup))
	v, ok := quiet.Value(a.Expr, a.Source, path)
	s, isText := syntax.AsText(v)
	return s, ok && isText && slices.Contains(language.Profiles(), s)
}

// callsOther reports whether an expression calls a function other than name.
func callsOther(expr hcl.Expression, name string) bool {
	native, ok := expr.(hclsyntax.Node)
	if !ok {
		return false
	}
	other := false
	_ = hclsyntax.VisitAll(native, func(n hclsyntax.Node) hcl.Diagnostics {
		if call, ok := n.(*hclsyntax.FunctionCallExpr); ok && call.Name != name {
			other = true
		}
		return nil
	})
	return other
}
