package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ToolsPlugin is the name of the plugin of the effect tools. It enforces the scope
// of each call.
const ToolsPlugin = "tools"

// effects reads the effects block.
func (b *builder) effects() *policy.Effects {
	s := b.root.block("effects")
	out := &policy.Effects{
		Rules:        policy.ShippedEffectRules(),
		Roles:        map[string]policy.Scopes{},
		Capabilities: map[string]policy.Scopes{},
	}
	out.Host = b.scopes(s)
	b.permitNothing(s)
	for _, r := range s.each("rule") {
		b.effectRule(r, out.Rules)
	}
	for _, r := range b.all("role") {
		if scopes := b.scopes(r); scopes != nil {
			out.Roles[roleName(r.label())] = scopes
		}
	}
	for _, c := range b.all("capability") {
		if scopes := b.scopes(c); scopes != nil {
			out.Capabilities[c.label()] = scopes
		}
	}
	b.ownPaths(s)
	if !slices.ContainsFunc(b.config.Plugins,
		func(p Plugin) bool { return p.Described && p.Description.Name == ToolsPlugin }) {
		for _, x := range s.each("secret") {
			if v := x.attrs["value"]; v.secret != nil {
				b.secretThere(SecretAt{Secret: *v.secret, At: v.rng, needed: true}, x.node.title(), x.pathOf("value"))
			}
		}
	}
	return out
}

func (s *section) each(name string) []*section {
	var out []*section
	if s == nil {
		return nil
	}
	for _, x := range s.blocks {
		if x.node.spec.Name == name {
			out = append(out, x)
		}
	}
	return out
}

// permitNothing warns about enabled scopes that allow no path, program or host.
func (b *builder) permitNothing(s *section) {
	for _, x := range s.each("scope") {
		if !x.flag("enabled") || x.node.damaged {
			continue
		}
		for _, attr := range map[string][]string{
			"fs/read": {"roots", "allow"}, "fs/write": {"roots", "allow"},
			"process/run": {"allow_commands", "allow_cwd"}, "net/http": {"hosts"},
		}[x.label()] {
			if len(x.attrs[attr].items) > 0 {
				continue
			}
			b.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message:  fmt.Sprintf("%s is enabled and permits nothing: it has no %s", x.node.title(), attr),
				Range:    x.at(),
				Path:     append(slices.Clone(x.node.path), attr),
				Hint:     "list what calls may access, or remove enabled",
			})
			break
		}
	}
}

// scopes reads the scope blocks of a block.
func (b *builder) scopes(s *section) policy.Scopes {
	var out policy.Scopes
	for _, x := range s.each("scope") {
		if s.node.spec.Name != "effects" { // its scopes apply only if enabled
			b.scopeOnDisk(x)
		}
		good := b.commands(x)
		effect := x.label()
		scope, problems := contract.ParseScope(effect, x.scopeValue())
		if !good { // already reported
			problems = slices.DeleteFunc(problems, func(p contract.ScopeProblem) bool {
				return scalarText(p.Path[0]) == "arguments" && len(p.Path) == 2
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

// scopeValue returns a scope block as a value of the contract, where names of
// durations include the unit.
func (s *section) scopeValue() edn.Value {
	var m edn.MapBuilder
	for i := range s.node.spec.Attrs {
		a := &s.node.spec.Attrs[i]
		v, ok := s.attrs[a.Name]
		if !ok || v.v.IsNil() || a.Name == "on_unknown" {
			continue
		}
		m.Key(scopeKey(a), v.v)
	}
	return m.Map()
}

func scopeKey(a *Attr) string {
	key := strings.ReplaceAll(a.Name, "_", "-")
	if a.Type.Kind == KindDur {
		key += "-ms"
	}
	return key
}

func (b *builder) scopeProblem(s *section, p contract.ScopeProblem) {
	d := Diagnostic{Type: "config/type", Range: s.at(), Path: slices.Clone(s.node.path)}
	subject := "it"
	if len(p.Path) > 0 {
		key, _ := p.Path[0].AsKeyword()
		for i := range s.node.spec.Attrs {
			if a := &s.node.spec.Attrs[i]; scopeKey(a) == key {
				subject = a.Name
				v := s.attrs[a.Name]
				d.Path = append(d.Path, a.Name)
				d.Range, d.Found = v.rng, v.v
				if part := v.part(p.Path[1:]); part.rng != nil {
					d.Range, d.Found = part.rng, part.v
				}
			}
		}
	}
	d.Message = fmt.Sprintf("%s in %s %s", subject, s.node.title(), p.Message)
	written, isText := d.Found.AsString()
	if !isText && len(p.Path) > 1 {
		written = scalarText(p.Path[len(p.Path)-1])
	}
	allowed, _ := s.texts("allow_commands")
	roots, _ := s.texts("roots")
	fit := scopeMembers[subject]
	d.Expected = edn.Text(cmp.Or(fit.expected, "a value of the type that the reference names"))
	d.Hint = fmt.Sprintf("change %s in %s", subject, s.node.title())
	if fit.meant != nil {
		d.Nearest = fit.meant(written, append(allowed, roots...))
	}
	if d.Nearest != "" {
		d.Hint = fmt.Sprintf("in %s, write %s instead of %s", subject, spellText(d.Nearest), spellText(written))
	}
	if d.Found.Len() > 0 && d.Found.Kind() != edn.KindString {
		d.Found = edn.Text(short(d.Found.String()))
	}
	b.report.add(d)
}

// scopeMember describes the members that a scope attribute accepts beyond its type. The function suggests a correction
// of an invalid member; its texts are the programs or the roots of the scope.
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

// belowRoot returns an absolute path as a prefix below its root.
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
	if err != nil || !hostName.MatchString(u.Hostname()) {
		return ""
	}
	return u.Hostname()
}

// fittingArgument suggests the program of that name, or a pattern for a text that is not a pattern.
func fittingArgument(written string, programs []string) string {
	if program := ofBase(written, programs); program != "" {
		return program
	}
	if _, err := regexp.Compile(written); err != nil {
		return regexp.QuoteMeta(written)
	}
	return ""
}

// part returns the part of a value at a path, or its deepest known ancestor.
func (v value) part(path []edn.Value) value {
	for _, step := range path {
		i, isIndex := step.AsInt()
		if !isIndex {
			i = int64(slices.Index(v.keys, scalarText(step)))
		}
		if i < 0 || i >= int64(len(v.items)) {
			break
		}
		v = v.items[i]
	}
	return v
}

// commands checks a scope of programs for patterns of programs that are not allowed and for a timeout above
// max_timeout.
func (b *builder) commands(s *section) (good bool) {
	if s.written("max_timeout") && s.written("timeout") {
		b.ordered(s, "timeout", "max_timeout", false)
	}
	allowed, limited := s.texts("allow_commands")
	if s.unread("allow_commands") || !limited || !s.written("arguments") {
		return true
	}
	good = true
	arguments := s.attrs["arguments"]
	for i, name := range arguments.keys {
		if slices.Contains(allowed, name) {
			continue
		}
		good = false
		b.report.add(Diagnostic{
			Type: "config/dangling-reference",
			Message: fmt.Sprintf("arguments in %s names %s, which allow_commands does not have", s.node.title(),
				quote(name)),
			Range:    cmp.Or(arguments.items[i].key, arguments.items[i].rng),
			Path:     append(slices.Clone(s.node.path), "arguments", name),
			Expected: words(allowed),
			Found:    edn.Text(name),
			Nearest:  cmp.Or(ofBase(name, allowed), nearest(name, allowed)),
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

func (b *builder) effectRule(s *section, rules policy.Rules) {
	name := s.label()
	if space, all := strings.CutSuffix(name, "/*"); all {
		if !slices.ContainsFunc(effectWords, func(w string) bool { return strings.HasPrefix(w, space+"/") }) {
			b.dangling(s, "", "effect", name, effectWords, s.at())
			return
		}
		for _, w := range effectWords { // a wildcard replaces the shipped rules of its namespace
			if strings.HasPrefix(w, space+"/") && !slices.ContainsFunc(b.root.block("effects").each("rule"),
				func(x *section) bool { return x.label() == w }) {
				delete(rules, w)
			}
		}
	} else if !slices.Contains(effectWords, name) {
		b.dangling(s, "", "effect", name, effectWords, s.at())
		return
	}
	rules[name] = policy.Rule{
		Any:       b.roles(s, "any"),
		All:       b.roles(s, "all"),
		Forbidden: b.roles(s, "forbidden"),
		Where:     s.where(),
	}
}

// roles reads a set of roles and reports unknown ones.
func (b *builder) roles(s *section, attr string) []string {
	names, _ := s.texts(attr)
	known := b.roleNames()
	out := make([]string, 0, len(names))
	for i, n := range names {
		full := roleName(n)
		if !slices.Contains(known, full) {
			b.dangling(s, attr, "role", n, shortRoles(known), s.attrs[attr].items[i].rng)
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
	for _, r := range b.all("role") {
		out = append(out, roleName(r.label()))
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

// ownPaths rejects scopes that include files of Ferment itself (FX-012).
func (b *builder) ownPaths(s *section) {
	kept, guarded := b.forbidden()
	for _, x := range s.each("scope") {
		if !x.flag("enabled") {
			continue
		}
		b.scopeOnDisk(x)
		scope, problems := contract.ParseScope(x.label(), x.scopeValue())
		if len(problems) > 0 {
			continue
		}
		paths := kept
		if x.label() != "fs/read" {
			paths = append(slices.Clone(kept), guarded...)
		}
		dir, own := policy.Overlap(realPaths(policy.Reach(&scope)), paths)
		if dir == "" {
			continue
		}
		attr := "allow"
		if x.label() == "process/run" {
			attr = "allow_cwd"
		}
		b.report.add(Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("%s includes %s, which belongs to ferment", x.node.title(), own),
			Range:   x.attrs[attr].rng,
			Path:    append(slices.Clone(x.node.path), attr),
			Found:   edn.Text(dir),
			Hint:    "name prefixes that leave it out, or move it with data_dir",
		})
	}
}

// scopeOnDisk checks the paths of a scope against the file system.
func (b *builder) scopeOnDisk(s *section) {
	b.onDisk(s, "roots", aFolder)
	b.onDisk(s, "allow_commands", plainFile)
	b.onDisk(s, "allow_cwd", aFolder)
}

// Kinds of file.
const (
	anything  = ""
	plainFile = "a file"
	aFolder   = "a directory"
)

// onDisk rejects paths of another kind of file than wanted and warns about
// missing paths, which otherwise fail only in a call.
func (b *builder) onDisk(s *section, attr, wanted string) {
	for _, item := range s.attrs[attr].items {
		path, _ := item.v.AsString()
		if !filepath.IsAbs(path) { // the name of a program
			continue
		}
		info, err := os.Stat(path)
		d := Diagnostic{
			Message: fmt.Sprintf("%s in %s names %s, which is ", attr, s.node.title(),
				quote(printedName(b.config.Root, path))),
			Range: item.rng,
			Path:  append(slices.Clone(s.node.path), attr),
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.Type, d.Severity, d.Message = "config/dangling-reference", SeverityWarning, d.Message+"not there"
			d.Nearest, d.Hint = b.neighbour(path)
		case err == nil && wanted != anything && kindOf(info) != wanted:
			d.Type, d.Message = "config/type", d.Message+kindOf(info)
			d.Expected, d.Found = edn.Text(wanted), edn.Text(kindOf(info))
			d.Hint = "name " + wanted
		default:
			continue
		}
		b.report.add(d)
	}
}

// kindOf returns the kind of a file in words.
func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return aFolder
	}
	return plainFile
}

// neighbour returns the existing file that a missing path probably means, with a hint.
func (l *loader) neighbour(path string) (near, hint string) {
	near = Neighbour(path, fs.ErrNotExist)
	if near == "" {
		return "", "make it, or correct the path"
	}
	near = printedName(l.config.Root, near)
	return near, fmt.Sprintf("did you mean %s?", quote(near))
}

// forbidden returns the paths that no scope may include, and those that no scope
// may write: writing the configuration or a program allows to run anything.
func (b *builder) forbidden() (kept, guarded []string) {
	env := b.opts.Env
	if env == nil {
		env = os.LookupEnv
	}
	xdg, _ := env("XDG_RUNTIME_DIR")
	kept = []string{b.config.Host.DataDir, rundir.Base(xdg, os.Getuid())}
	if socket := b.config.HTTP.AdminSocket; socket != "" {
		kept = append(kept, socket)
	}
	if t := b.config.HTTP.TLS; t != nil {
		kept = append(kept, t.KeyFile)
	}
	for _, f := range b.config.Files {
		guarded = append(guarded, f.Path)
	}
	if lock := b.root.block("ferment").text("lock_file"); lock != "" {
		guarded = append(guarded, lock)
	}
	for _, p := range b.config.Plugins {
		if len(p.Command) > 0 && filepath.IsAbs(p.Command[0]) {
			guarded = append(guarded, p.Command[0])
		}
	}
	return realPaths(kept), realPaths(guarded)
}

// realPaths resolves symbolic links, for a missing path in its existing ancestors.
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

// equip passes the settings of the effects block to the tools plugin.
func (l *loader) equip(is contract.Description, p *Plugin) {
	if is.Name != ToolsPlugin || p.Config.Kind() != edn.KindMap {
		return
	}
	s := l.root.block("effects")
	p.Config = p.Config.AssocKey("enforcement", edn.K(s.text("enforcement")))
	var secrets edn.MapBuilder
	for _, x := range s.each("secret") {
		hosts, _ := x.texts("hosts")
		var m edn.MapBuilder
		m.Key("hosts", textVector(hosts))
		if h := x.text("header"); h != "" {
			m.Key("header", edn.Text(h))
		}
		m.Key("value", edn.Nil())
		secrets.Set(edn.Text(x.label()), m.Map())
		if v := x.attrs["value"]; v.secret != nil {
			p.Secrets = append(p.Secrets,
				SecretAt{Path: []edn.Value{edn.K("secrets"), edn.Text(x.label()), edn.K("value")}, Secret: *v.secret,
					At: v.rng, needed: true})
		}
	}
	p.Config = p.Config.AssocKey("secrets", secrets.Map())
}

func textVector(list []string) edn.Value {
	vs := make([]edn.Value, len(list))
	for i, s := range list {
		vs[i] = edn.Text(s)
	}
	return edn.Vector(vs...)
}
