package daemon

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Diff implements httpapi.Control: it compares the files with the
// configuration in force and reports what a reload would do. Reasons for which
// a reload would be refused are part of the result: a change that needs a
// restart, and a configuration with errors.
func (c control) Diff(ctx context.Context) (edn.Value, *contract.Error) {
	out := c.guarded(func() reloaded { return c.compare(ctx) })
	return out.value, out.err
}

func (d *Daemon) compare(ctx context.Context) reloaded {
	d.reloads.one.Lock()
	defer d.reloads.one.Unlock()
	h := d.host.Load()
	old := h.runs.now().loaded
	next, err := setup.LoadIn(ctx, d.options.Options, h.env)
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	if next.Generation == nil {
		report := next.Report(diag.DefaultMaxShown)
		return reloaded{value: edn.MustMap(
			edn.K("valid?"), edn.Bool(false),
			edn.K("differs?"), edn.Bool(true),
			edn.K("configuration"), edn.Text(d.options.path()),
			edn.K("was"), edn.Text(old.Hash),
			edn.K("report"), report.Value(), edn.K("text"), edn.Text(report.Text(false)),
		)}
	}
	diff := view.Compare(old.Config, next.Config)
	_, wanted, err := next.Startable()
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	change, err := h.supervisor.Plan(wanted)
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	diff.Plugins = actions(change, wanted)
	return reloaded{value: DiffValue(diff).Merge(edn.MustMap(
		edn.K("configuration"), edn.Text(d.options.path()),
		edn.K("was"), edn.Text(old.Hash), edn.K("hash"), edn.Text(next.Hash),
		edn.K("pids"), staying(h.Plugins(), diff.Plugins),
		edn.K("text"), edn.Text(diff.Text()),
	))}
}

// DiffValue returns a difference between configurations as an EDN map.
func DiffValue(d view.Diff) edn.Value {
	return edn.MustMap(
		edn.K("valid?"), edn.Bool(true),
		edn.K("differs?"), edn.Bool(!d.Empty()),
		edn.K("restart?"), edn.Bool(len(d.Restart()) > 0),
		edn.K("changes"), d.Value(),
		edn.K("plugins"), d.Plugins.Value(),
	)
}

// path returns the absolute path of the file or directory of the configuration.
func (o Options) path() string {
	switch {
	case o.Config == "":
		return files.Find(o.Dir)
	case filepath.IsAbs(o.Config):
		return o.Config
	}
	return filepath.Join(o.Dir, o.Config)
}

// actions returns the names of the plugins by what a change does to them,
// unchanged ones included.
func actions(c plugin.Change, wanted []plugin.Settings) view.PluginActions {
	names := func(list []plugin.Settings) []string {
		var out []string
		for _, s := range list {
			out = append(out, s.Name)
		}
		slices.Sort(out)
		return out
	}
	a := view.PluginActions{
		Start:   names(c.Start),
		Replace: names(c.Replace),
		Update:  names(c.Update),
		Remove:  slices.Sorted(slices.Values(c.Remove)),
	}
	for _, name := range names(wanted) {
		if !slices.Contains(a.Start, name) && !slices.Contains(a.Replace, name) && !slices.Contains(a.Update, name) {
			a.Keep = append(a.Keep, name)
		}
	}
	return a
}

// staying returns the process ids that would survive the change, by plugin.
func staying(all []plugin.Status, a view.PluginActions) edn.Value {
	pids := map[string][]edn.Value{}
	for _, s := range all {
		if s.PID != 0 && (slices.Contains(a.Keep, s.Plugin) || slices.Contains(a.Update, s.Plugin)) {
			pids[s.Plugin] = append(pids[s.Plugin], edn.Int(int64(s.PID)))
		}
	}
	var b edn.MapBuilder
	for name, list := range pids {
		b.Set(edn.Text(name), edn.Vector(list...))
	}
	return b.Map()
}
