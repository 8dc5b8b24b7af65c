package config

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The profiles: sets of defaults for different uses of the host (HCL-018). Prod is
// the strictest and the default.
const (
	ProfileProd     = "prod"
	ProfileDev      = "dev"
	ProfileAdmin    = "admin"
	ProfileTest     = "test"
	ProfileTestLive = "test-live"
)

// ProfileVariable is the environment variable that selects the profile.
const ProfileVariable = "FERMENT_PROFILE"

// Profiles returns the names of the profiles.
func Profiles() []string {
	return []string{ProfileProd, ProfileDev, ProfileAdmin, ProfileTest, ProfileTestLive}
}

// DefaultIn returns the default in a profile as an HCL expression; empty: none.
func (a *Attr) DefaultIn(profile string) string {
	if text, ok := a.Profiles[profile]; ok {
		return text
	}
	return a.Default
}

// profile returns the profile: from the option, else the environment, else the
// configuration (HCL-013).
func (l *loader) profile(trees []*node) string {
	written, fromFile := l.writtenProfile(trees)
	if l.opts.Profile != "" {
		return l.namedProfile(l.opts.Profile, "there is no profile "+quote(short(l.opts.Profile)))
	}
	if v, ok := l.opts.Env(ProfileVariable); ok && v != "" {
		// Values of environment variables are never printed.
		return l.namedProfile(v, "the environment variable "+ProfileVariable+" names no profile")
	}
	if fromFile {
		return written
	}
	return ProfileProd
}

// namedProfile reports an invalid profile from the option or the environment.
func (l *loader) namedProfile(name, problem string) string {
	if slices.Contains(Profiles(), name) {
		return name
	}
	l.report.poison("ferment", "profile")
	l.report.add(Diagnostic{
		Type:     "config/range",
		Message:  problem,
		Expected: edn.Text(enum(Profiles()...).String()),
		Nearest:  nearest(name, Profiles()),
	})
	return ProfileProd
}

// writtenProfile reads ferment.profile before all other values. Errors in its
// value are reported when all values are decoded.
func (l *loader) writtenProfile(trees []*node) (string, bool) {
	for _, tree := range slices.Backward(trees) {
		for _, f := range tree.children("ferment") {
			if a, ok := f.attrs["profile"]; ok {
				return l.profileOf(a)
			}
		}
	}
	return "", false
}

func (l *loader) profileOf(a *attribute) (string, bool) {
	path := []string{"ferment", "profile"}
	if len(a.expr.Variables()) > 0 || callsOther(a.expr, "env") {
		l.report.add(Diagnostic{
			Type:    "config/type",
			Message: "profile in ferment may use literals and env() only: it decides which files are read",
			Range:   a.source.hclRange(a.expr.Range()),
			Path:    path,
			Hint:    "write the name, or env(\"NAME\", \"prod\")",
		})
		return "", false
	}
	quiet := newEvaluator(newCollector(sources{}), newInputs(l.config.Root, l.lookup))
	v, ok := quiet.value(a.expr, a.source, path)
	s, isText := asText(v)
	return s, ok && isText && slices.Contains(Profiles(), s)
}

// chosenProfile replaces the value of ferment.profile by the effective profile.
func (l *loader) chosenProfile() {
	f := l.root.block("ferment")
	v := f.attrs["profile"]
	if name, _ := v.v.AsString(); name == l.config.Profile {
		return
	}
	f.attrs["profile"] = value{v: edn.Text(l.config.Profile), written: true}
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
