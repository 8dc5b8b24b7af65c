package daemon

import (
	"context"
	"maps"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// attachments reads the attach records of the plugins that run already.
func attachments(o Options) (map[string]plugins.Attachment, error) {
	if len(o.Attached) == 0 {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, &EnvironmentError{"find the program itself", err}
	}
	all := map[string]plugins.Attachment{}
	for name, file := range o.Attached {
		if !filepath.IsAbs(file) {
			file = filepath.Join(o.Dir, file)
		}
		record, err := wire.ReadAttachRecord(file)
		if err != nil {
			return nil, err
		}
		all[name] = plugins.Attachment{File: file, Command: []string{self, launch.BridgeCommand, record.Socket}}
	}
	return all, nil
}

// Attach implements httpapi.Control: it reloads with the attached process
// instead of the plugin's own. If that process does not become ready, nothing
// changes.
func (c control) Attach(ctx context.Context, name, file string) (edn.Value, *contract.Error) {
	_, l := c.now()
	if _, missing := l.Find(name); missing != nil {
		return edn.Nil(), missing
	}
	before := c.attach(name, file)
	result, err := c.Daemon.Reload(ctx, "attach "+name)
	if err != nil {
		c.attach(name, before)
		return edn.Nil(), err
	}
	out := edn.MustMap(edn.K("plugin"), edn.Text(name), edn.K("changed?"), result.Key("changed?"))
	if file != "" {
		out = out.AssocKey("file", edn.Text(file))
		c.log.Warn("plugin attached: no restarts, no timeouts and no sandbox for it", "plugin", name, "file", file)
	}
	return out, nil
}

// attach sets the attach file of a plugin for later loads and returns the
// previous one; both may be empty.
func (d *Daemon) attach(name, file string) (before string) {
	d.reloads.one.Lock()
	defer d.reloads.one.Unlock()
	all := maps.Clone(d.options.Attached)
	if all == nil {
		all = map[string]string{}
	}
	before = all[name]
	delete(all, name)
	if file != "" {
		all[name] = file
	}
	d.options.Attached = all
	return before
}

// withoutLimits removes the time limits from the description of a plugin under
// a debugger.
func withoutLimits(d contract.Description) contract.Description {
	capabilities := make([]contract.Capability, len(d.Capabilities))
	for i, c := range d.Capabilities {
		c.Limits.Timeout = 0
		capabilities[i] = c
	}
	d.Capabilities = capabilities
	return d
}
