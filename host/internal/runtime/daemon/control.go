package daemon

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/logfile"
	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/history"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// control executes admin actions.
type control struct{ *Daemon }

var _ httpapi.Control = control{}

// Control implements httpapi.Backend.
func (d *Daemon) Control() httpapi.Control {
	if h := d.host.Load(); h == nil || h.runs.now() == nil {
		return nil
	}
	return control{d}
}

func (c control) now() (*Host, *setup.Loaded) {
	h := c.host.Load()
	return h, h.runs.now().loaded
}

// Plugins implements httpapi.Control.
func (c control) Plugins() edn.Value {
	h, l := c.now()
	return h.states(l)
}

// PluginStates returns the list of plugins in the form of the action
// plugin-list.
func (h *Host) PluginStates() edn.Value { return h.states(h.Loaded()) }

func (h *Host) states(l *setup.Loaded) edn.Value {
	status, standings := h.Plugins(), h.Standings()
	all := make([]edn.Value, len(l.Plugins))
	for i, p := range l.Plugins {
		all[i] = pluginValue(l, p, status, standings)
	}
	return edn.MustMap(edn.K("plugins"), edn.Vector(all...))
}

// pluginValue returns the configuration and the process states of a plugin.
func pluginValue(l *setup.Loaded, p plugins.Plugin, status []plugin.Status, standings []stats.Standing) edn.Value {
	var instances, quality []edn.Value
	for _, s := range standings {
		if s.Plugin == p.Name {
			quality = append(quality, s.Value())
		}
	}
	for _, s := range status {
		if s.Plugin == p.Name {
			instances = append(instances, instance(s))
		}
	}
	return edn.MustMap(
		edn.K("plugin"), edn.Text(p.Name),
		edn.K("condition"), edn.K(l.Condition(p)),
		edn.K("disabled"), ErrorOrNil(p.Disabled),
		edn.K("problem"), ErrorOrNil(p.Problem()),
		edn.K("version"), edn.Text(p.Description.Version),
		edn.K("configured"), edn.Text(p.Wanted),
		edn.K("locked"), edn.Text(l.LockedVersion(p.Name)),
		edn.K("installed"), edn.Text(p.Description.Version),
		edn.K("lock"), edn.K(setup.Locked(p)),
		edn.K("binary"), edn.Text(p.Binary),
		edn.K("capabilities"), edn.Keywords(l.Provided(p.Name)...),
		edn.K("capabilities/absent"), edn.Keywords(l.Absent(p.Name)...),
		edn.K("where"), edn.Text(p.Where),
		edn.K("instances"), edn.Vector(instances...),
		edn.K("quality"), edn.Vector(quality...),
	)
}

// instance returns the status of one process, or of a slot without a process, as EDN.
func instance(s plugin.Status) edn.Value {
	var b edn.MapBuilder
	b.Key("instance", edn.Int(int64(s.Instance)))
	b.Key("edition", edn.Int(int64(s.Edition)))
	b.Key("generation", edn.Int(int64(s.Generation)))
	b.OptKeyword("role", string(s.Role))
	b.Key("state", edn.K(string(s.State)))
	b.Key("cause", edn.K(string(s.Cause)))
	b.Key("since", journal.Instant(s.Since))
	b.Key("callable?", edn.Bool(s.Callable))
	b.Key("in-flight", edn.Int(int64(s.InFlight)))
	b.Key("queued", edn.Int(int64(s.Queued)))
	b.Key("restarts", edn.Int(int64(s.Restarts)))
	b.OptInt("pid", int64(s.PID))
	b.OptText("version", s.Version)
	if s.Confinement != nil {
		b.Key("enforcement", edn.K(s.Confinement.Enforcement))
	}
	if s.Err != nil {
		b.Key("error", s.Err.Value())
	}
	b.Opt("figures", s.Health.Attributes) // what the plugin counts
	if len(s.Health.Capabilities) > 0 {
		b.Key("health", healthOf(s.Health.Capabilities))
	}
	if s.Confinement != nil {
		b.Key("isolation", setup.ConfinementValue(s.Confinement))
	}
	return b.Map()
}

// healthOf returns the health that a process reports per capability, by
// advertised id.
func healthOf(all []wire.CapabilityHealth) edn.Value {
	var m edn.MapBuilder
	for _, c := range all {
		id, err := edn.Keyword(c.ID)
		if err != nil {
			continue
		}
		var b edn.MapBuilder
		if c.State != wire.HealthUnknown {
			b.Key("state", edn.K(c.State.String()))
		}
		b.OptText("reason", c.Reason)
		if c.Warmth != wire.WarmthUnknown {
			b.Key("warmth", edn.K(c.Warmth.String()))
		}
		b.Key("in-flight", edn.Int(int64(c.InFlight)))
		b.Key("queued", edn.Int(int64(c.Queued)))
		if c.Places > 0 {
			b.Key("places", edn.Int(int64(c.Places)))
		}
		if c.Deaths > 0 {
			b.Key("deaths", edn.Int(int64(min(c.Deaths, math.MaxInt64))))
			b.Key("deaths/lately", edn.Int(int64(c.RecentDeaths)))
		}
		m.Set(id, b.Map())
	}
	return m.Map()
}

// ErrorOrNil returns e as an EDN value; the EDN nil if e is nil.
func ErrorOrNil(e *contract.Error) edn.Value {
	if e == nil {
		return edn.Nil()
	}
	return e.Value()
}

// Inspect implements httpapi.Control.
func (c control) Inspect(name string) (edn.Value, *contract.Error) {
	h, l := c.now()
	p, err := l.Find(name)
	if err != nil {
		return edn.Nil(), err
	}
	command := make([]edn.Value, len(p.Command))
	for i, arg := range p.Command {
		command[i] = edn.Text(arg)
	}
	return pluginValue(l, p, h.Plugins(), h.Standings()).Merge(edn.MustMap(
		edn.K("command"), edn.Vector(command...),
		edn.K("config"), p.Config,
		edn.K("description"), p.Description.Value(),
	)), nil
}

// Explain implements httpapi.Control.
func (c control) Explain(intent, capability string, streamed bool) (edn.Value, *contract.Error) {
	h, l := c.now()
	v, err := l.Explain(intent, capability, streamed, h.Service().Explain)
	return v, contract.AsError(err)
}

// Protocol implements httpapi.Control.
func (c control) Protocol() edn.Value {
	_, l := c.now()
	return l.Protocol()
}

// maxLog is the number of bytes at the end of a log file that Logs reads.
const maxLog = 1 << 20

// Logs implements httpapi.Control.
func (c control) Logs(name string, lines int) (edn.Value, *contract.Error) {
	_, l := c.now()
	if _, err := l.Find(name); err != nil {
		return edn.Nil(), err
	}
	path := plugin.LogPath(l.Host.DataDir, name)
	last := make([]edn.Value, 0, lines)
	for _, line := range lastLines([]string{path + ".1", path}, lines) {
		last = append(last, logLine(line))
	}
	return edn.MustMap(edn.K("plugin"), edn.Text(name), edn.K("lines"), edn.Vector(last...)), nil
}

// FollowLog implements httpapi.Control.
func (c control) FollowLog(name string, lines int) (httpapi.FollowingLog, *contract.Error) {
	_, l := c.now()
	if _, err := l.Find(name); err != nil {
		return nil, err
	}
	return func(ctx context.Context, show func(edn.Value) error) error {
		log, err := logfile.Await(ctx, plugin.LogPath(l.Host.DataDir, name))
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		last, err := log.Last(lines)
		if err != nil {
			return err
		}
		for _, line := range last {
			if err := show(logLine(line)); err != nil {
				return err
			}
		}
		for {
			line, err := log.Next(ctx)
			if err == nil {
				err = show(logLine(line))
			}
			if err != nil {
				return err
			}
		}
	}, nil
}

// logLine returns a line of a log as an EDN value: the JSON value, or a text if the line is not
// JSON.
func logLine(line []byte) edn.Value {
	v, err := edn.ReadJSON(line, edn.WithLimits(edn.Body))
	if err != nil {
		return edn.Text(string(bytes.ToValidUTF8(line, []byte("?"))))
	}
	return v
}

// lastLines returns the last n lines of consecutive files. A file that cannot be read is skipped.
func lastLines(paths []string, n int) [][]byte {
	var all [][]byte
	for _, path := range paths {
		text, err := tail(path, maxLog)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				all = append(all, line)
			}
		}
	}
	return all[max(0, len(all)-n):]
}

// tail returns the last most bytes of a file, without a partial line at their beginning.
func tail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-most)
	text := make([]byte, info.Size()-from)
	n, err := f.ReadAt(text, from)
	if err != nil && n == 0 {
		return nil, err
	}
	text = text[:n]
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	return text, nil
}

// supervise applies do to the supervisor of a plugin. The error is runtime/not-ready if the plugin
// has no processes.
func (c control) supervise(name string, do func(*plugin.Supervisor) error) *contract.Error {
	h, l := c.now()
	p, err := l.Find(name)
	if err != nil {
		return err
	}
	if !p.Starts() {
		return contract.Errorf("runtime/not-ready", "plugin %s is %s, so it has no processes", name, l.Condition(p)).
			WithHint("`ferment validate` says what it needs; then `ferment admin reload`")
	}
	return contract.AsError(do(h.supervisor))
}

// superviseAndRelease applies an operation that repairs a plugin: it also
// releases the open breakers of its capabilities.
func (c control) superviseAndRelease(name string, do func(*plugin.Supervisor) error) *contract.Error {
	err := c.supervise(name, do)
	if err == nil {
		c.host.Load().stats.Released(name, time.Now())
	}
	return err
}

// ResetBreaker implements httpapi.Control.
func (c control) ResetBreaker(capability, intent string) (edn.Value, *contract.Error) {
	h, l := c.now()
	if _, ok := l.Generation.Registry.Capability(capability); !ok {
		return edn.Nil(), contract.Errorf("not-found", "reset the breakers of :%s: there is no such capability", capability).
			WithHint("\"ferment plugin list\" shows the capabilities")
	}
	out := []edn.Value{}
	for _, s := range h.stats.Reset(capability, intent, time.Now()) {
		out = append(out, s.Value())
	}
	return edn.MustMap(edn.K("capability"), edn.K(capability), edn.K("candidates"), edn.Vector(out...)), nil
}

// Restart implements httpapi.Control.
func (c control) Restart(name string) *contract.Error {
	return c.superviseAndRelease(name, func(s *plugin.Supervisor) error { return s.Restart(name) })
}

// DrainPlugin implements httpapi.Control.
func (c control) DrainPlugin(name string) *contract.Error {
	return c.supervise(name, func(s *plugin.Supervisor) error { return s.Drain(name) })
}

// Release implements httpapi.Control.
func (c control) Release(name string) *contract.Error {
	return c.superviseAndRelease(name, func(s *plugin.Supervisor) error { return s.Release(name) })
}

// Quarantine implements httpapi.Control.
func (c control) Quarantine(name, reason string) *contract.Error {
	return c.supervise(name, func(s *plugin.Supervisor) error { return s.Quarantine(name, reason) })
}

// Swap implements httpapi.Control.
func (c control) Swap(name string) (cursor string, _ *contract.Error) {
	err := c.supervise(name, func(*plugin.Supervisor) error {
		var err *contract.Error
		if cursor, err = c.Daemon.Swap(name); err != nil {
			return err
		}
		return nil
	})
	return cursor, err
}

// Reload implements httpapi.Control.
func (c control) Reload(ctx context.Context, dryRun bool) (edn.Value, *contract.Error) {
	if dryRun {
		return c.DryReload(ctx)
	}
	return c.Daemon.Reload(ctx, "an operator")
}

// Show implements httpapi.Control.
func (c control) Show(q httpapi.ShowQuery) (edn.Value, *contract.Error) {
	_, l := c.now()
	o := view.ShowOptions{Only: q.Only, Defaults: q.Defaults, Origins: q.Origins}
	v, err := view.ShowValue(l.Config, o)
	hcl := ""
	if err == nil && q.Text {
		hcl, err = view.Show(l.Config, o)
	}
	var unknown *view.UnknownPathError
	if errors.As(err, &unknown) {
		return edn.Nil(), contract.Errorf("not-found", "the configuration has no %.100q", q.Only).
			DidYouMean(unknown.Nearest)
	}
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	out := edn.MustMap(edn.K("hash"), edn.Text(l.Hash), edn.K("profile"), edn.K(l.Profile), edn.K("config"), v)
	if q.Text {
		out = out.AssocKey("text", edn.Text(hcl))
	}
	return out, nil
}

// Runs implements httpapi.Control.
func (c control) Runs() httpapi.Runs {
	h, l := c.now()
	return &history.Runs{Store: c.store, Live: live{h}, Loaded: l, Content: journal.Content(l.Telemetry.Content)}
}

// ExportedPlugins implements httpapi.Control.
func (c control) ExportedPlugins() edn.Value {
	_, l := c.now()
	names := l.Unasked()
	unknown := make([]edn.Value, len(names))
	for i, name := range names {
		unknown[i] = edn.Text(name)
	}
	return edn.MustMap(edn.K("text"), edn.Text(store.ExportedPlugins(l.Descriptions())), edn.K("unknown"), edn.Vector(unknown...))
}
