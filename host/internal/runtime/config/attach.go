package config

import (
	"fmt"
	"slices"
	"time"
)

// Attachment is how a plugin is reached that somebody else started.
type Attachment struct {
	// File is where that was read: it is another one for each start of the
	// plugin, so what one start said of itself is not taken for the next.
	File string
	// Command stands for the plugin.
	Command []string
}

// attachedWait is what every wait for a plugin under a debugger comes to: it may
// stand at a breakpoint for as long as somebody looks at it.
const attachedWait = 24 * time.Hour

// attach puts a plugin that runs already in the place of what the block would
// start. It reports a profile that does not allow it.
func (l *loader) attach(s *section, p *Plugin) bool {
	a, ok := l.opts.Attached[p.Name]
	if !ok {
		return true
	}
	if strictProfile(l.config.Profile) {
		l.report.add(Diagnostic{
			Type:    "config/plugin-unknown",
			Message: fmt.Sprintf("plugin %s: a process that somebody else started is not used under the profile %s", quote(p.Name), l.config.Profile),
			Range:   s.at(), Path: s.node.path, Hint: "use the profile dev: --profile dev, or ferment { profile = \"dev\" }",
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

func (l *loader) describeTimeout(p Plugin) time.Duration {
	if p.Attached != "" {
		return attachedWait
	}
	return l.opts.DescribeTimeout
}
