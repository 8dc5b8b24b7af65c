package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// isolation reads the isolation block of a plugin (HCL-021).
func (r *reader) isolation(s *section) plugin.Isolation {
	i := plugin.Isolation{
		Level:      confine.Level(s.text("level")),
		BestEffort: s.flag("best_effort"),
		Network:    confine.Network(s.text("network")),
		Limits: confine.ResourceLimits{
			Memory: uint64(s.integer("memory")), Cores: s.number("cpu"), OpenFiles: uint64(s.integer("open_files")),
			Processes: uint64(s.integer("processes")), FileSize: uint64(s.integer("file_size")),
		},
	}
	i.ReadPaths, _ = s.texts("read_paths")
	i.WritePaths, _ = s.texts("write_paths")
	named, _ := s.texts("exec")
	i.Programs = len(named) > 0
	for _, name := range named {
		i.Exec = append(i.Exec, r.executable(name)...)
	}
	for x := range s.attrs["ports"].v.Elems() {
		if port, ok := x.AsInt(); ok {
			i.Ports = append(i.Ports, uint16(port))
		}
	}
	return i
}

// executable returns the paths of a member of exec. A bare name is a program in
// PATH with the directory of its toolchain, if any, because such a program starts
// others from there. The result is empty for an unknown name; the plugin reports
// the missing program.
func (r *reader) executable(name string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	path, _ := r.opts.Env("PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := regular(os.Stat(file))
		if err != nil || info.Mode()&0o111 == 0 || !filepath.IsAbs(file) {
			continue
		}
		found := []string{file}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			found = append(found, toolchain(real)...)
		}
		return found
	}
	return nil
}

// systemPrefixes hold the programs of the whole machine and are not toolchains.
var systemPrefixes = []string{"/", "/usr", "/usr/local"}

// toolchain returns the directory x of a program x/bin/name, unless x is one of
// systemPrefixes.
func toolchain(program string) []string {
	dir := filepath.Dir(program)
	if prefix := filepath.Dir(dir); filepath.Base(dir) == "bin" && !slices.Contains(systemPrefixes, prefix) {
		return []string{prefix}
	}
	return nil
}

// granted checks the needs of a described plugin against its isolation. A plugin
// that cannot be started is an error in profile prod unless it is optional,
// otherwise a warning and the plugin is not ready.
func (r *reader) granted(s *section, p *Plugin) {
	r.reach(p)
	for i, need := range p.Needs {
		if !slices.Contains(p.Description.Needs, need) {
			r.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("plugin %s does not need %s: a block can only restrict the needs of the plugin",
					quote(p.Name), quote(need)),
				Range:    s.attrs["needs"].items[i].rng,
				Path:     append(slices.Clone(s.node.path), "needs"),
				Expected: words(p.Description.Needs),
				Found:    edn.Text(need),
			})
		}
	}
	severity := SeverityWarning
	if r.profile == ProfileProd && !p.Optional {
		severity = SeverityError
	}
	settings := plugin.Settings{Name: p.Name, Command: p.Command, Needs: p.Needs, Isolation: p.Isolation}
	c := settings.Confinement(p.Description)
	at, path := s.at(), append(slices.Clone(s.node.path), "isolation")
	if blocks := s.node.children("isolation"); len(blocks) > 0 {
		at = blocks[0].source.hclRange(blocks[0].header)
	}
	if len(c.Ungranted) > 0 {
		needs := make([]string, len(c.Ungranted))
		for i, u := range c.Ungranted {
			needs[i] = u.Need
		}
		r.report.add(Diagnostic{
			Type:     "config/missing",
			Severity: severity,
			Message: fmt.Sprintf("plugin %s is not started: it needs %s, which its isolation does not grant",
				quote(p.Name), strings.Join(needs, ", ")),
			Range: at,
			Path:  path,
			Hint:  plugin.GrantHint(c.Ungranted),
		})
	}
	if len(c.Gaps) > 0 && !c.BestEffort {
		texts := make([]string, len(c.Gaps))
		for i, g := range c.Gaps {
			texts[i] = g.Text
		}
		held := severity
		if p.Isolation.Limits.Cores > 0 {
			held = SeverityError // this build cannot enforce it anywhere
		}
		r.report.add(Diagnostic{
			Type:     "config/range",
			Severity: held,
			Message: fmt.Sprintf("plugin %s is not started: this machine cannot hold its isolation: %s", quote(p.Name),
				strings.Join(texts, "; ")),
			Range: at,
			Path:  path,
			Hint:  "\"ferment doctor\" shows what it can hold; best_effort = true accepts less",
		})
	}
	if r.root.block("effects").text("enforcement") == "strict" && p.Attached == "" {
		r.unheld(settings, p, Diagnostic{Type: "config/range", Severity: severity, Range: at, Path: path})
	}
	r.idleGrants(s, p)
}

// unheld rejects a plugin whose needs and effects the machine cannot enforce
// (FX-005). Effects without an enabled scope do not count.
func (r *reader) unheld(settings plugin.Settings, p *Plugin, d Diagnostic) {
	var effects []string
	for _, scoped := range r.standing(p) {
		effects = append(effects, scoped.Effect)
	}
	p.Isolation.Unheld = settings.Unheld(p.Description, effects)
	if !p.Isolation.Unheld.Any() {
		return
	}
	d.Message = fmt.Sprintf("plugin %s is not started: %s", quote(p.Name), p.Isolation.Unheld.Text())
	d.Found, d.Hint = words(p.Isolation.Unheld.What), p.Isolation.Unheld.Hint
	r.report.add(d)
}

// idleGrants warns about grants without a matching need of the plugin: they have
// no effect.
func (r *reader) idleGrants(s *section, p *Plugin) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains(plugin.Narrowed(p.Description.Needs, p.Needs), w) ||
				slices.ContainsFunc(p.Description.Capabilities,
					func(c contract.Capability) bool { return slices.Contains(c.Effects, w) })
		})
	}
	i := s.block("isolation")
	v := i.attrs["ports"]
	if v.written && len(v.items) > 0 && p.Isolation.Network != confine.Ports && !i.unread("network") {
		r.report.add(Diagnostic{
			Type:     "config/unused",
			Severity: SeverityWarning,
			Message: fmt.Sprintf("ports in %s grants nothing: network is %s", i.node.title(),
				quote(string(p.Isolation.Network))),
			Range: v.rng,
			Path:  append(slices.Clone(i.node.path), "ports"),
			Hint:  `write network = "ports", or remove it`,
		})
	}
	for _, g := range []struct {
		attr string
		idle bool
		need string
	}{
		{"write_paths", len(p.Isolation.WritePaths) > 0 && !has("fs/write"), "fs/write"},
		{"exec", p.Isolation.Programs && !has("process/run"), "process/run"},
		{"network", p.Isolation.Network != confine.Offline && p.Isolation.Network != "" &&
			!has("net/connect", "net/loopback", "net/http"), "net/connect"},
	} {
		if v := i.attrs[g.attr]; g.idle && v.written {
			r.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("%s in %s grants nothing: plugin %s does not need %s", g.attr, i.node.title(),
					quote(p.Name), g.need),
				Range: v.rng,
				Path:  append(slices.Clone(i.node.path), g.attr),
				Hint:  "remove it",
			})
		}
	}
}
