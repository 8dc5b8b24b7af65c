package plugins

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// Attachment is a running plugin process that the host did not start.
type Attachment struct {
	// File is the file that describes the running process. Each start of the plugin writes a new
	// file, so cached descriptions are not used again.
	File string
	// Command replaces the command of the plugin block.
	Command []string
}

// attachedWait replaces all time limits of a plugin under a debugger, which may be stopped at a
// breakpoint for a long time.
const attachedWait = 24 * time.Hour

// UsualStart is the default of start_timeout.
const UsualStart = 10 * time.Second

// attach uses a running process instead of starting the command of the block. It reports a profile
// that does not permit this.
func (r *Reader) attach(s *decode.Section, p *Plugin) bool {
	a, ok := r.Options.Attached[p.Name]
	if !ok {
		return true
	}
	if strictProfile(r.Profile) {
		r.Report.Add(diag.Diagnostic{
			Type: "config/plugin-unknown",
			Message: fmt.Sprintf("plugin %s: profile %s does not allow an attached process", diag.Quote(p.Name),
				r.Profile),
			Range: s.At(),
			Path:  s.Node.Path,
			Hint:  "use the profile dev: --profile dev, or ferment { profile = \"dev\" }",
		})
		return false
	}
	p.Attached = a.File
	p.Command, p.Files = slices.Clone(a.Command), []string{a.File}
	p.Workdir = ""
	p.StartTimeout, p.ConfigureTimeout = attachedWait, attachedWait
	p.Restart.Policy = "never"
	p.Health.Interval, p.Health.Timeout, p.Health.ReadyTimeout = attachedWait, attachedWait, attachedWait
	p.Instances.Min, p.Instances.Max, p.Instances.Standby, p.Instances.MaxCalls = 1, 1, 0, 0
	return true
}

// describeTimeout returns the time limit of one description: a start_timeout above the default
// replaces that of the options.
func (r *Reader) describeTimeout(p Plugin) time.Duration {
	switch {
	case p.Attached != "":
		return attachedWait
	case p.StartTimeout > UsualStart:
		return p.StartTimeout
	}
	return r.Options.DescribeTimeout
}
