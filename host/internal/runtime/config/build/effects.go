package build

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// effects returns the settings of the effects block.
func (b *builder) effects() *policy.Effects {
	s := b.Root.Block("effects")
	out := &policy.Effects{
		Rules:        policy.ShippedEffectRules(),
		Roles:        map[string]policy.Scopes{},
		Capabilities: map[string]policy.Scopes{},
		OnUnknown:    map[string]string{},
	}
	for _, x := range s.All("scope") {
		out.OnUnknown[x.Label()] = x.Text("on_unknown")
	}
	out.Host = b.scopes(s)
	b.permitNothing(s)
	for _, r := range s.All("rule") {
		b.rule(r, "effect", language.EffectNames, s.All("rule"), out.Rules)
	}
	for _, r := range b.All("role") {
		if scopes := b.scopes(r); scopes != nil {
			out.Roles[roleName(r.Label())] = scopes
		}
	}
	for _, c := range b.All("capability") {
		if scopes := b.scopes(c); scopes != nil {
			out.Capabilities[c.Label()] = scopes
		}
	}
	b.ownPaths(s)
	b.databases(s)
	if !slices.ContainsFunc(b.Plugins,
		func(p plugins.Plugin) bool { return p.Described && p.Description.Name == plugins.ToolsPlugin }) {
		for _, x := range s.All("secret") {
			if v := x.Attrs["value"]; v.Secret != nil {
				b.SecretThere(decode.SecretAt{Secret: *v.Secret, At: v.At, Needed: true}, x.Node.Title(), x.PathOf("value"))
			}
		}
	}
	return out
}

// permitNothing warns about enabled scopes that permit no path, program or host.
func (b *builder) permitNothing(s *decode.Section) {
	for _, x := range s.All("scope") {
		if !x.Flag("enabled") || x.Node.Damaged {
			continue
		}
		for _, attr := range map[string][]string{
			"fs/read": {"roots", "allow"}, "fs/write": {"roots", "allow"},
			"process/run": {"allow_commands", "allow_cwd"}, "net/http": {"hosts"},
		}[x.Label()] {
			if len(x.Attrs[attr].Items) > 0 {
				continue
			}
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("%s is enabled and permits nothing: it has no %s", x.Node.Title(), attr),
				Range:    x.At(),
				Path:     append(slices.Clone(x.Node.Path), attr),
				Hint:     "list what calls may access, or remove enabled",
			})
			break
		}
	}
}

// scopes returns the scope blocks of a block.
func (b *builder) scopes(s *decode.Section) policy.Scopes {
	var out policy.Scopes
	for _, x := range s.All("scope") {
		if s.Node.Spec.Name != "effects" { // its scopes apply only if enabled
			b.scopeOnDisk(x)
		}
		good := b.commands(x)
		b.connections(x)
		effect := x.Label()
		scope, problems := effects.ParseScope(effect, decode.ScopeValue(x))
		if !good { // already reported
			problems = slices.DeleteFunc(problems, func(p effects.Problem) bool {
				return language.ScalarText(p.Path[0]) == "arguments" && len(p.Path) == 2
			})
		}
		for _, p := range problems {
			b.scopeProblem(x, p)
		}
		if len(problems) == 0 {
			out = policy.MeetAll(out, policy.Scopes{{Effect: effect, Scope: scope}})
		}
	}
	return out
}

func (b *builder) scopeProblem(s *decode.Section, p effects.Problem) {
	d := diag.Diagnostic{Type: "config/type", Range: s.At(), Path: slices.Clone(s.Node.Path)}
	subject := "it"
	if len(p.Path) > 0 {
		key, _ := p.Path[0].AsKeyword()
		for i := range s.Node.Spec.Attrs {
			if a := &s.Node.Spec.Attrs[i]; decode.ScopeKey(a) == key {
				subject = a.Name
				v := s.Attrs[a.Name]
				d.Path = append(d.Path, a.Name)
				d.Range, d.Found = v.At, v.EDN
				if part := v.Part(p.Path[1:]); part.At != nil {
					d.Range, d.Found = part.At, part.EDN
				}
			}
		}
	}
	d.Message = fmt.Sprintf("%s in %s %s", subject, s.Node.Title(), p.Message)
	written, isText := d.Found.AsString()
	if !isText && len(p.Path) > 1 {
		written = language.ScalarText(p.Path[len(p.Path)-1])
	}
	allowed, _ := s.Texts("allow_commands")
	roots, _ := s.Texts("roots")
	fit := scopeMembers[subject]
	d.Expected = edn.Text(cmp.Or(fit.expected, "a value of the type that the reference names"))
	d.Hint = fmt.Sprintf("change %s in %s", subject, s.Node.Title())
	if fit.meant != nil {
		d.Nearest = fit.meant(written, append(allowed, roots...))
	}
	if d.Nearest != "" {
		d.Hint = fmt.Sprintf("in %s, write %s instead of %s", subject, decode.SpellText(d.Nearest), decode.SpellText(written))
	}
	if d.Found.Len() > 0 && d.Found.Kind() != edn.KindString {
		d.Found = edn.Text(diag.Short(d.Found.String()))
	}
	b.Report.Add(d)
}

// scopeMember describes the elements that a scope attribute accepts, in addition to its type. The
// function suggests a correction of an invalid element; its texts are the programs or the roots of
// the scope.
type scopeMember struct {
	expected string
	meant    func(written string, of []string) string
}

var scopeMembers = map[string]scopeMember{
	"allow":          {`a prefix below a directory of roots, such as "in", or "." for all of it`, belowRoot},
	"hosts":          {`the name of a host, its address, or "*.example.org", without scheme, port and path`, bareHost},
	"arguments":      {"a program of allow_commands with the patterns (RE2) that its arguments fit", fittingArgument},
	"roots":          {"the path of a directory", nil},
	"allow_cwd":      {"the path of a directory", nil},
	"allow_commands": {"the path of a program", nil},
}

// belowRoot returns an absolute path relative to its root, as a prefix; empty if no root contains
// it.
func belowRoot(written string, roots []string) string {
	for _, root := range roots {
		if rel, err := filepath.Rel(root, written); err == nil && filepath.IsLocal(rel) && filepath.IsAbs(written) {
			return filepath.ToSlash(rel)
		}
	}
	return ""
}

// bareHost returns the host of a URL, or of a host with a port or a path.
func bareHost(written string, _ []string) string {
	if !strings.Contains(written, "//") {
		written = "//" + written
	}
	u, err := url.Parse(written)
	if err != nil || !decode.HostName.MatchString(u.Hostname()) {
		return ""
	}
	return u.Hostname()
}

// fittingArgument suggests the program with a name, or a pattern for a text that is not a pattern;
// empty if there is none.
func fittingArgument(written string, programs []string) string {
	if program := ofBase(written, programs); program != "" {
		return program
	}
	if _, err := regexp.Compile(written); err != nil {
		return regexp.QuoteMeta(written)
	}
	return ""
}

// commands reports patterns of programs that are not permitted, and a timeout above max_timeout.
func (b *builder) commands(s *decode.Section) (good bool) {
	if s.Written("max_timeout") && s.Written("timeout") {
		b.ordered(s, "timeout", "max_timeout", false)
	}
	allowed, limited := s.Texts("allow_commands")
	if s.Unread("allow_commands") || !limited || !s.Written("arguments") {
		return true
	}
	good = true
	arguments := s.Attrs["arguments"]
	for i, name := range arguments.Keys {
		if slices.Contains(allowed, name) {
			continue
		}
		good = false
		b.Report.Add(diag.Diagnostic{
			Type: "config/dangling-reference",
			Message: fmt.Sprintf("arguments in %s names %s, which allow_commands does not have", s.Node.Title(),
				diag.Quote(name)),
			Range:    cmp.Or(arguments.Items[i].Key, arguments.Items[i].At),
			Path:     append(slices.Clone(s.Node.Path), "arguments", name),
			Expected: diag.Words(allowed),
			Found:    edn.Text(name),
			Nearest:  cmp.Or(ofBase(name, allowed), diag.Nearest(name, allowed)),
			Hint:     "name the program in allow_commands, or remove its patterns",
		})
	}
	return good
}

// ofBase returns the path whose last element is name; empty if there is none.
func ofBase(name string, paths []string) string {
	i := slices.IndexFunc(paths, func(p string) bool { return filepath.Base(p) == name })
	if i < 0 {
		return ""
	}
	return paths[i]
}

// roles returns a set of roles, and reports unknown ones.
func (b *builder) roles(s *decode.Section, attr string) []string {
	names, _ := s.Texts(attr)
	known := b.roleNames()
	out := make([]string, 0, len(names))
	for i, n := range names {
		full := roleName(n)
		if !slices.Contains(known, full) {
			b.dangling(s, attr, "role", n, shortRoles(known), s.Attrs[attr].Items[i].At)
			continue
		}
		out = append(out, full)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// roleNames returns the full names of all roles.
func (b *builder) roleNames() []string {
	out := policy.BuiltinRoles()
	for _, r := range b.All("role") {
		out = append(out, roleName(r.Label()))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func shortRoles(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimPrefix(n, "role/")
	}
	return out
}

// roleName returns the full name of a role label.
func roleName(label string) string {
	if strings.HasPrefix(label, "role/") {
		return label
	}
	return "role/" + label
}

// ownPaths reports scopes that include files of Ferment (FX-012).
func (b *builder) ownPaths(s *decode.Section) {
	kept, guarded := b.forbidden()
	for _, x := range s.All("scope") {
		if !x.Flag("enabled") {
			continue
		}
		b.scopeOnDisk(x)
		scope, problems := effects.ParseScope(x.Label(), decode.ScopeValue(x))
		if len(problems) > 0 {
			continue
		}
		paths := kept
		if x.Label() != "fs/read" {
			paths = append(slices.Clone(kept), guarded...)
		}
		dir, own := policy.Overlap(realPaths(policy.Reach(&scope)), paths)
		if dir == "" {
			continue
		}
		attr := "allow"
		if x.Label() == "process/run" {
			attr = "allow_cwd"
		}
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("%s includes %s, which belongs to ferment", x.Node.Title(), own),
			Range:   x.Attrs[attr].At,
			Path:    append(slices.Clone(x.Node.Path), attr),
			Found:   edn.Text(dir),
			Hint:    "name prefixes that leave it out, or move it with data_dir",
		})
	}
}

// scopeOnDisk checks the paths of a scope against the file system.
func (b *builder) scopeOnDisk(s *decode.Section) {
	b.OnDisk(s, "roots", decode.Folder)
	b.OnDisk(s, "allow_commands", decode.File)
	b.OnDisk(s, "allow_cwd", decode.Folder)
}

// forbidden returns the paths that no scope may include, and those that no scope may write: a
// caller that can write the configuration or a program can run anything.
func (b *builder) forbidden() (kept, guarded []string) {
	xdg, _ := b.Options.Env("XDG_RUNTIME_DIR")
	kept = append([]string{b.Options.DataDir, rundir.Base(xdg, os.Getuid())}, b.settings.Kept...)
	for _, f := range b.Set.Files {
		guarded = append(guarded, f.Path)
	}
	if lock := b.Root.Block("ferment").Text("lock_file"); lock != "" {
		guarded = append(guarded, lock)
	}
	for _, p := range b.Plugins {
		if len(p.Command) > 0 && filepath.IsAbs(p.Command[0]) {
			guarded = append(guarded, p.Command[0])
		}
	}
	return realPaths(kept), realPaths(guarded)
}

// realPaths resolves symbolic links; for a missing path, those in its existing ancestors.
func realPaths(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = realPath(filepath.Clean(p))
	}
	return out
}

func realPath(p string) string {
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	parent := filepath.Dir(p)
	if parent == p {
		return p
	}
	return filepath.Join(realPath(parent), filepath.Base(p))
}
