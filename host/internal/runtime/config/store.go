package config

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/install"
	"github.com/fermenthq/ferment/sdk/contract"
)

// installed replaces store:NAME@VERSION by the path of the installed program, and
// reports whether the program exists.
func (r *reader) installed(s *section, p *Plugin) bool {
	name, version, named, err := install.ParseReference(p.Command[0])
	if !named {
		return true
	}
	d := Diagnostic{
		Type:  "config/plugin-unknown",
		Range: s.attrs["command"].rng,
		Path:  append(slices.Clone(s.node.path), "command"),
	}
	if err == nil {
		var found install.Installed
		if found,
			err = install.Open(install.Dirs(r.opts.DataDir, r.opts.Env)...).Resolve(name, version); err == nil {
			p.Command = append([]string{found.Program}, p.Command[1:]...)
			return true
		}
		if p.Optional {
			d.Severity = SeverityWarning
		}
	} else {
		d.Type = "config/type"
	}
	e := contract.AsError(err)
	d.Message, d.Hint = fmt.Sprintf("plugin %s: %s", quote(p.Name), e.Message), e.Hint
	r.report.add(d)
	return false
}
