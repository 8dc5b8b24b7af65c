package plugins

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// isolation returns the isolation block of a plugin (HCL-021).
func (r *Reader) isolation(s *decode.Section) plugin.Isolation {
	i := plugin.Isolation{
		Level:      confine.Level(s.Text("level")),
		BestEffort: s.Flag("best_effort"),
		Network:    confine.Network(s.Text("network")),
		Limits: confine.ResourceLimits{
			Memory: uint64(s.Integer("memory")), Cores: s.Number("cpu"), OpenFiles: uint64(s.Integer("open_files")),
			Processes: uint64(s.Integer("processes")), FileSize: uint64(s.Integer("file_size")),
		},
	}
	i.ReadPaths, _ = s.Texts("read_paths")
	i.WritePaths, _ = s.Texts("write_paths")
	named, _ := s.Texts("exec")
	i.Programs = len(named) > 0
	for _, name := range named {
		i.Exec = append(i.Exec, r.executable(name)...)
	}
	for x := range s.Attrs["ports"].EDN.Elems() {
		if port, ok := x.AsInt(); ok {
			i.Ports = append(i.Ports, uint16(port))
		}
	}
	return i
}

// executable returns the paths that an element of exec permits. A bare name is a program in PATH
// with the directory of its toolchain, from which it starts others. The result is empty for an
// unknown name; the plugin reports the missing program.
func (r *Reader) executable(name string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	path, _ := r.Options.Env("PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := disk.Regular(os.Stat(file))
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

// systemPrefixes are directories with the programs of the whole machine, which are not toolchains.
var systemPrefixes = []string{"/", "/usr", "/usr/local"}

// toolchain returns the directory x of a program x/bin/name; nil if x is one of systemPrefixes.
func toolchain(program string) []string {
	dir := filepath.Dir(program)
	if prefix := filepath.Dir(dir); filepath.Base(dir) == "bin" && !slices.Contains(systemPrefixes, prefix) {
		return []string{prefix}
	}
	return nil
}

// granted checks the needs of a described plugin against its isolation. A plugin that cannot be
// started is an error in profile prod unless it is optional; otherwise it is a warning, and the
// plugin is not ready.
func (r *Reader) granted(s *decode.Section, p *Plugin) {
	p.Isolation = p.Isolation.Reach(r.standing(p)).Databases(r.databaseReach(p))
	for i, need := range p.Needs {
		if !slices.Contains(p.Description.Needs, need) {
			r.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("plugin %s does not need %s: a block can only restrict the needs of the plugin",
					diag.Quote(p.Name), diag.Quote(need)),
				Range:    s.Attrs["needs"].Items[i].At,
				Path:     append(slices.Clone(s.Node.Path), "needs"),
				Expected: diag.Words(p.Description.Needs),
				Found:    edn.Text(need),
			})
		}
	}
	severity := diag.SeverityWarning
	if r.Profile == language.ProfileProd && !p.Optional {
		severity = diag.SeverityError
	}
	settings := plugin.Settings{Name: p.Name, Command: p.Command, Needs: p.Needs, Isolation: p.Isolation}
	c := settings.Confinement(p.Description)
	at, path := s.At(), append(slices.Clone(s.Node.Path), "isolation")
	if blocks := s.Node.Children("isolation"); len(blocks) > 0 {
		at = blocks[0].Source.Range(blocks[0].Header)
	}
	misread := s.Node.Damaged // an unknown name may be that of the grant
	for _, block := range s.Node.Children("isolation") {
		misread = misread || block.Damaged
	}
	if len(c.Ungranted) > 0 && !misread {
		needs := make([]string, len(c.Ungranted))
		for i, u := range c.Ungranted {
			needs[i] = u.Need
		}
		r.Report.Add(diag.Diagnostic{
			Type:     "config/missing",
			Severity: severity,
			Message: fmt.Sprintf("plugin %s is not started: it needs %s, which its isolation does not grant",
				diag.Quote(p.Name), strings.Join(needs, ", ")),
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
			held = diag.SeverityError // this build cannot enforce it anywhere
		}
		r.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Severity: held,
			Message: fmt.Sprintf("plugin %s is not started: this machine cannot enforce its isolation: %s", diag.Quote(p.Name),
				strings.Join(texts, "; ")),
			Range: at,
			Path:  path,
			Hint:  "\"ferment doctor\" shows what the machine can enforce; best_effort = true in isolation accepts less",
		})
	}
	if len(c.Unmade) > 0 {
		r.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Severity: severity,
			Message:  fmt.Sprintf("plugin %s is not started: %s", diag.Quote(p.Name), c.UnmadeText()),
			Range:    at,
			Path:     append(path, "write_paths"),
			Hint:     plugin.UnmadeHint,
		})
	}
	if r.Root.Block("effects").Text("enforcement") == "strict" && p.Attached == "" {
		r.unheld(settings, p, diag.Diagnostic{Type: "config/range", Severity: severity, Range: at, Path: path})
	}
	r.idleGrants(s, p)
	r.idleLimits(s, p)
}

// idleLimits reports limits in the block that the level of the plugin does not enforce: cpu as an
// error, because no level enforces it, the others as a warning.
func (r *Reader) idleLimits(s *decode.Section, p *Plugin) {
	if p.Isolation.Level != confine.None {
		return
	}
	i, limits := s.Block("isolation"), p.Isolation.Limits
	for _, l := range []struct {
		attr     string
		limits   bool
		severity diag.Severity
	}{
		{"cpu", limits.Cores > 0, diag.SeverityError},
		{"memory", limits.Memory > 0, diag.SeverityWarning},
		{"open_files", limits.OpenFiles > 0, diag.SeverityWarning},
		{"processes", limits.Processes > 0, diag.SeverityWarning},
		{"file_size", limits.FileSize > 0, diag.SeverityWarning},
	} {
		if v := i.Attrs[l.attr]; l.limits && v.Written {
			r.Report.Add(diag.Diagnostic{
				Type:     "config/range",
				Severity: l.severity,
				Message:  fmt.Sprintf("%s in %s is not enforced: level is %s", l.attr, i.Node.Title(), diag.Quote("none")),
				Range:    v.At,
				Path:     append(slices.Clone(i.Node.Path), l.attr),
				Hint:     `write level = "limits", or remove it`,
			})
		}
	}
}

// unheld reports a plugin whose needs and effects the machine cannot restrict (FX-005). Effects
// without an enabled scope are ignored.
func (r *Reader) unheld(settings plugin.Settings, p *Plugin, d diag.Diagnostic) {
	var effects []string
	for _, scoped := range r.standing(p) {
		effects = append(effects, scoped.Effect)
	}
	p.Isolation.Unheld = settings.Unheld(p.Description, effects)
	if !p.Isolation.Unheld.Any() {
		return
	}
	d.Message = fmt.Sprintf("plugin %s is not started: %s", diag.Quote(p.Name), p.Isolation.Unheld.Text())
	d.Found, d.Hint = diag.Words(p.Isolation.Unheld.What), p.Isolation.Unheld.Hint
	r.Report.Add(d)
}

// idleGrants warns about permissions that have no effect, because the plugin does not have the
// need.
func (r *Reader) idleGrants(s *decode.Section, p *Plugin) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains(plugin.Narrowed(p.Description.Needs, p.Needs), w) ||
				slices.ContainsFunc(p.Description.Capabilities,
					func(c contract.Capability) bool { return slices.Contains(c.Effects, w) })
		})
	}
	i := s.Block("isolation")
	v := i.Attrs["ports"]
	if v.Written && len(v.Items) > 0 && p.Isolation.Network != confine.Ports && !i.Unread("network") {
		r.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("ports in %s grants nothing: network is %s", i.Node.Title(),
				diag.Quote(string(p.Isolation.Network))),
			Range: v.At,
			Path:  append(slices.Clone(i.Node.Path), "ports"),
			Hint:  `write network = "ports", or remove it`,
		})
	}
	for _, g := range []struct {
		attr string
		idle bool
		need string
	}{
		{"write_paths", len(p.Isolation.WritePaths) > 0 && !has("fs/write", "db/read", "db/write"), "fs/write"},
		{"exec", p.Isolation.Programs && !has("process/run"), "process/run"},
		{"network", p.Isolation.Network != confine.Offline && p.Isolation.Network != "" &&
			!has("net/connect", "net/loopback", "net/http", "db/read", "db/write"), "net/connect"},
	} {
		if v := i.Attrs[g.attr]; g.idle && v.Written {
			r.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("%s in %s grants nothing: plugin %s does not need %s", g.attr, i.Node.Title(),
					diag.Quote(p.Name), g.need),
				Range: v.At,
				Path:  append(slices.Clone(i.Node.Path), g.attr),
				Hint:  "remove it",
			})
		}
	}
}
