package config

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The profiles: sets of defaults for one use of the host each (HCL-018). Prod
// is the strictest, and what holds where nobody chooses.
const (
	ProfileProd     = "prod"
	ProfileDev      = "dev"
	ProfileAdmin    = "admin"
	ProfileTest     = "test"
	ProfileTestLive = "test-live"
)

// ProfileVariable is the environment variable that chooses a profile.
const ProfileVariable = "FERMENT_PROFILE"

// Profiles lists the names of the profiles.
func Profiles() []string {
	return []string{ProfileProd, ProfileDev, ProfileAdmin, ProfileTest, ProfileTestLive}
}

// DefaultIn is the default that holds in a profile, as an HCL expression.
func (a *Attr) DefaultIn(profile string) string {
	if text, ok := a.Profiles[profile]; ok {
		return text
	}
	return a.Default
}

// profile decides about the profile: the option, then the environment, then
// the configuration (HCL-013).
func (l *loader) profile(tree *node, eval *evaluator) string {
	written, fromFile := l.writtenProfile(tree, eval)
	if l.opts.Profile != "" {
		return l.namedProfile(l.opts.Profile, "there is no profile "+quote(short(l.opts.Profile)))
	}
	if v, ok := l.opts.Env(ProfileVariable); ok && v != "" {
		// Like that of any variable, its value is not printed.
		return l.namedProfile(v, "the environment variable "+ProfileVariable+" names no profile")
	}
	if fromFile {
		return written
	}
	return ProfileProd
}

// namedProfile reports a name that comes from outside the files and is none.
func (l *loader) namedProfile(name, problem string) string {
	if slices.Contains(Profiles(), name) {
		return name
	}
	l.report.add(Diagnostic{Type: "config/range", Message: problem, Expected: edn.Text(enum(Profiles()...).String()), Nearest: nearest(name, Profiles())})
	return ProfileProd
}

// writtenProfile reads ferment.profile ahead of everything else. What is wrong
// with its value is reported where all values are decoded.
func (l *loader) writtenProfile(tree *node, eval *evaluator) (string, bool) {
	for _, f := range tree.children("ferment") {
		a, ok := f.attrs["profile"]
		if !ok {
			continue
		}
		if len(a.expr.Variables()) > 0 || callsOther(a.expr, "env") {
			l.report.add(Diagnostic{Type: "config/type", Message: "profile in ferment may use literals and env() only: it decides which files are read", Range: a.source.hclRange(a.expr.Range()),
				Path: []string{"ferment", "profile"}, Hint: "write the name, or env(\"NAME\", \"prod\")"})
			return "", false
		}
		quiet := *eval
		quiet.report = newCollector(sources{})
		v, ok := quiet.value(a.expr, a.source, []string{"ferment", "profile"})
		if s, isText := asText(v); ok && isText && slices.Contains(Profiles(), s) {
			return s, true
		}
	}
	return "", false
}

// callsOther tells whether an expression calls another function than the named
// one.
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
