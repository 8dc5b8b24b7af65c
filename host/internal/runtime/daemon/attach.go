package daemon

import (
	"context"
	"maps"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Attach implements httpapi.Control. It reloads with the attached process in place of the plugin's
// own. If that process does not become ready, nothing changes.
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
