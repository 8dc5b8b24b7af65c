package plugins

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/install"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
)

// installed replaces store:NAME@VERSION by the path of the installed program, and reports whether
// the program exists.
func (r *Reader) installed(s *decode.Section, p *Plugin) bool {
	name, version, named, err := install.ParseReference(p.Command[0])
	if !named {
		return true
	}
	d := diag.Diagnostic{
		Type:  "config/plugin-unknown",
		Range: s.Attrs["command"].At,
		Path:  append(slices.Clone(s.Node.Path), "command"),
	}
	if err == nil {
		var found install.Installed
		if found,
			err = install.Open(install.Dirs(r.Options.DataDir, r.Options.Env)...).Resolve(name, version); err == nil {
			p.Command = append([]string{found.Program}, p.Command[1:]...)
			return true
		}
		if p.Optional {
			d.Severity = diag.SeverityWarning
		}
	} else {
		d.Type = "config/type"
	}
	e := contract.AsError(err)
	d.Message, d.Hint = fmt.Sprintf("plugin %s: %s", diag.Quote(p.Name), e.Message), e.Hint
	r.Report.Add(d)
	return false
}
