package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// ToolsPlugin is the name under which the plugin of the effect tools describes
// itself. It holds each call to its scope, in a process of its own.
const ToolsPlugin = "tools"

// effects reads what the configuration says about effects.
func (b *builder) effects() *policy.Effects {
	s := b.root.block("effects")
	out := &policy.Effects{Rules: policy.ShippedEffectRules(), Roles: map[string]policy.Scopes{}, Capabilities: map[string]policy.Scopes{}}
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

// permitNothing warns of scopes that are enabled and name nothing that a call may
// touch.
func (b *builder) permitNothing(s *section) {
	for _, x := range s.each("scope") {
		if !x.flag("enabled") || x.node.damaged {
			continue
		}
		for _, attr := range map[string][]string{
			"fs/read": {"roots", "allow"}, "fs/write": {"roots", "allow"}, "process/run": {"allow_commands", "allow_cwd"}, "net/http": {"hosts"},
		}[x.label()] {
			if len(x.attrs[attr].items) > 0 {
				continue
			}
			b.report.add(Diagnostic{Type: "config/unused", Severity: SeverityWarning, Message: fmt.Sprintf("%s is enabled and permits nothing: it has no %s", x.node.title(), attr),
				Range: x.at(), Path: append(slices.Clone(x.node.path), attr), Hint: "name what calls may touch, or take enabled out"})
			break
		}
	}
}

// scopes reads the scope blocks of a block.
func (b *builder) scopes(s *section) policy.Scopes {
	var out policy.Scopes
	for _, x := range s.each("scope") {
		effect := x.label()
		scope, problems := contract.ParseScope(effect, x.scopeValue())
		for _, p := range problems {
			b.scopeProblem(x, p)
		}
		if len(problems) == 0 {
			out = policy.MeetAll(out, policy.Scopes{{Effect: effect, Scope: scope}})
		}
	}
	return out
}

// scopeValue is a scope block in the words of the contract, where durations have
// their unit in the name.
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
				if k, ok := lastIndex(p.Path); ok && k < len(v.items) {
					d.Range, d.Found = v.items[k].rng, v.items[k].v
				}
			}
		}
	}
	d.Message = fmt.Sprintf("%s in %s %s", subject, s.node.title(), p.Message)
	if d.Found.Len() > 0 && d.Found.Kind() != edn.KindString {
		d.Found = edn.Text(short(d.Found.String()))
	}
	b.report.add(d)
}

func lastIndex(path []edn.Value) (int, bool) {
	i, ok := path[len(path)-1].AsInt()
	return int(i), ok
}

func (b *builder) effectRule(s *section, rules policy.Rules) {
	name := s.label()
	if space, all := strings.CutSuffix(name, "/*"); all {
		if !slices.ContainsFunc(effectWords, func(w string) bool { return strings.HasPrefix(w, space+"/") }) {
			b.dangling(s, "", "effect", name, effectWords, s.at())
			return
		}
		for _, w := range effectWords { // it stands in for the shipped rules of its namespace
			if strings.HasPrefix(w, space+"/") && !slices.ContainsFunc(b.root.block("effects").each("rule"), func(x *section) bool { return x.label() == w }) {
				delete(rules, w)
			}
		}
	} else if !slices.Contains(effectWords, name) {
		b.dangling(s, "", "effect", name, effectWords, s.at())
		return
	}
	rules[name] = policy.Rule{Any: b.roles(s, "any"), All: b.roles(s, "all"), Forbidden: b.roles(s, "forbidden"), Where: s.where()}
}

// roles reads a set of roles; unknown ones are reported.
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

// roleNames are the roles that exist, in full.
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

// roleName is the full name of a role, however it was written.
func roleName(label string) string {
	if strings.HasPrefix(label, "role/") {
		return label
	}
	return "role/" + label
}

// ownPaths refuses scopes that reach what belongs to Ferment itself (FX-012).
func (b *builder) ownPaths(s *section) {
	kept, guarded := b.forbidden()
	for _, x := range s.each("scope") {
		if !x.flag("enabled") {
			continue
		}
		b.absent(x, "roots", "allow_commands", "allow_cwd")
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
		b.report.add(Diagnostic{Type: "config/range", Message: fmt.Sprintf("%s reaches %s, which belongs to ferment: no call may", x.node.title(), own),
			Range: x.attrs[attr].rng, Path: append(slices.Clone(x.node.path), attr), Found: edn.Text(dir),
			Hint: "name prefixes that leave it out, or move it with data_dir"})
	}
}

// absent warns of paths that are to be opened and are not there: what is looked
// for below them is missed only in a call.
func (b *builder) absent(s *section, attrs ...string) {
	for _, attr := range attrs {
		for _, item := range s.attrs[attr].items {
			path, _ := item.v.AsString()
			if !filepath.IsAbs(path) { // the name of a program
				continue
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			near := Neighbour(path, fs.ErrNotExist)
			hint := "make it, or correct the path"
			if near != "" {
				near = printedName(b.config.Root, near)
				hint = fmt.Sprintf("did you mean %s?", quote(near))
			}
			b.report.add(Diagnostic{
				Type:     "config/dangling-reference",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("%s in %s names %s, which is not there", attr, s.node.title(),
					quote(printedName(b.config.Root, path))),
				Range:   item.rng,
				Path:    append(slices.Clone(s.node.path), attr),
				Nearest: near,
				Hint:    hint,
			})
		}
	}
}

// forbidden are the paths that no scope may reach, and those that none may
// change: whoever writes the configuration or a program decides what runs.
func (b *builder) forbidden() (kept, guarded []string) {
	env := b.opts.Env
	if env == nil {
		env = os.LookupEnv
	}
	xdg, _ := env("XDG_RUNTIME_DIR")
	kept = []string{b.config.Host.DataDir, launch.RuntimeBase(xdg, os.Getuid())}
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

// realPaths resolves links, of a path that does not exist as far as it does.
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

// equip gives the plugin of the tools what the effects block says for it.
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
			p.Secrets = append(p.Secrets, SecretAt{Path: []edn.Value{edn.K("secrets"), edn.Text(x.label()), edn.K("value")}, Secret: *v.secret, At: v.rng, needed: true})
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
