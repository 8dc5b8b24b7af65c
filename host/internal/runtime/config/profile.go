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
func (l *loader) profile(trees []*node) string {
	written, fromFile := l.writtenProfile(trees)
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
	l.report.poison("ferment", "profile")
	l.report.add(Diagnostic{Type: "config/range", Message: problem, Expected: edn.Text(enum(Profiles()...).String()), Nearest: nearest(name, Profiles())})
	return ProfileProd
}

// writtenProfile reads ferment.profile ahead of everything else. What is wrong
// with its value is reported where all values are decoded.
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
		l.report.add(Diagnostic{Type: "config/type", Message: "profile in ferment may use literals and env() only: it decides which files are read", Range: a.source.hclRange(a.expr.Range()),
			Path: path, Hint: "write the name, or env(\"NAME\", \"prod\")"})
		return "", false
	}
	quiet := newEvaluator(newCollector(sources{}), newInputs(l.config.Root, l.lookup))
	v, ok := quiet.value(a.expr, a.source, path)
	s, isText := asText(v)
	return s, ok && isText && slices.Contains(Profiles(), s)
}

// chosenProfile puts the profile that counts in the place of the written one.
func (l *loader) chosenProfile() {
	f := l.root.block("ferment")
	v := f.attrs["profile"]
	if name, _ := v.v.AsString(); name == l.config.Profile {
		return
	}
	f.attrs["profile"] = value{v: edn.Text(l.config.Profile), written: true}
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
