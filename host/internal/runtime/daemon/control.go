package daemon

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// control carries out admin actions.
type control struct{ *Daemon }

var _ httpapi.Control = control{}

// Control implements httpapi.Backend.
func (d *Daemon) Control() httpapi.Control {
	if h := d.host.Load(); h == nil || h.runs.now() == nil {
		return nil
	}
	return control{d}
}

func (c control) now() (*Host, *Loaded) {
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

func (h *Host) states(l *Loaded) edn.Value {
	status, standings := h.Plugins(), h.Standings()
	all := make([]edn.Value, len(l.Plugins))
	for i, p := range l.Plugins {
		all[i] = l.plugin(p, status, standings)
	}
	return edn.MustMap(edn.K("plugins"), edn.Vector(all...))
}

// plugin returns the configuration and the process states of a plugin.
func (l *Loaded) plugin(p plugins.Plugin, status []plugin.Status, standings []stats.Standing) edn.Value {
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
		edn.K("version"), edn.Text(p.Description.Version),
		edn.K("configured"), edn.Text(p.Wanted),
		edn.K("locked"), edn.Text(l.LockedVersion(p.Name)),
		edn.K("installed"), edn.Text(p.Description.Version),
		edn.K("lock"), edn.K(lockWord(p)),
		edn.K("binary"), edn.Text(p.Binary),
		edn.K("capabilities"), edn.Keywords(l.Provided(p.Name)...),
		edn.K("capabilities/absent"), edn.Keywords(l.Absent(p.Name)...),
		edn.K("where"), edn.Text(p.Where),
		edn.K("instances"), edn.Vector(instances...),
		edn.K("quality"), edn.Vector(quality...),
	)
}

// instance describes one process, or a slot without a process.
func instance(s plugin.Status) edn.Value {
	var b edn.MapBuilder
	b.Key("instance", edn.Int(int64(s.Instance)))
	b.Key("edition", edn.Int(int64(s.Edition)))
	b.Key("generation", edn.Int(int64(s.Generation)))
	b.OptKeyword("role", string(s.Role))
	b.Key("state", edn.K(string(s.State)))
	b.Key("cause", edn.K(string(s.Cause)))
	b.Key("since", edn.Inst(s.Since.UTC().Truncate(time.Millisecond)))
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
		b.Key("isolation", ConfinementValue(s.Confinement))
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

// Condition returns the state of a plugin in the configuration as one word.
func (l *Loaded) Condition(p plugins.Plugin) string {
	switch {
	case !p.Enabled:
		return "disabled"
	case p.Binary == "":
		return "missing"
	case p.Lock == lock.StateChanged, p.Lock == lock.StateEscalated:
		return string(p.Lock)
	case !p.Described:
		return "unchecked"
	case p.Unusable != nil:
		return "unusable"
	case p.Optional:
		return "optional"
	}
	return "required"
}

// Provided lists the capabilities of a plugin under the ids that plans use.
func (l *Loaded) Provided(name string) []string {
	var ids []string
	reg := l.Generation.Registry
	for _, id := range reg.Capabilities() {
		if entry, ok := reg.Capability(id); ok && entry.Plugin == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Absent lists the capabilities that a plugin would provide if it were enabled
// and described, under the ids that plans use.
func (l *Loaded) Absent(name string) []string {
	reg := l.Generation.Registry
	return slices.DeleteFunc(reg.Absences(), func(id string) bool {
		a, ok := reg.Absent(id)
		return !ok || a.Plugin != name
	})
}

// ErrorOrNil returns e as a value, or nil.
func ErrorOrNil(e *contract.Error) edn.Value {
	if e == nil {
		return edn.Nil()
	}
	return e.Value()
}

// Find returns a plugin of the configuration by name. The error is not-found
// with the nearest name.
func (l *Loaded) Find(name string) (plugins.Plugin, *contract.Error) {
	var names []string
	for _, p := range l.Plugins {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	e := contract.Errorf("not-found", "there is no plugin %q in the configuration", name).
		WithHint("\"ferment plugin list\" shows the plugins")
	return plugins.Plugin{}, e.DidYouMean(contract.Nearest(name, names))
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
	return l.plugin(p, h.Plugins(), h.Standings()).Merge(edn.MustMap(
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

// maxLog is the number of bytes of a log that are read for its last lines.
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
		v, err := edn.ReadJSON(line, edn.WithLimits(edn.Body))
		if err != nil {
			v = edn.Text(string(bytes.ToValidUTF8(line, []byte("?"))))
		}
		last = append(last, v)
	}
	return edn.MustMap(edn.K("plugin"), edn.Text(name), edn.K("lines"), edn.Vector(last...)), nil
}

// lastLines returns the last n lines of consecutive files. A missing file
// contributes no lines.
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

// tail reads the last bytes of a file, starting at the beginning of a line.
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

// supervise applies an operation to a plugin that has processes.
func (c control) supervise(name string, do func(*plugin.Supervisor) error) *contract.Error {
	h, l := c.now()
	p, err := l.Find(name)
	if err != nil {
		return err
	}
	if !p.Starts() {
		return contract.Errorf("runtime/not-ready", "plugin %s is %s, so it has no processes", name, l.Condition(p)).
			WithHint("change its block and reload")
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

// Events implements httpapi.Control.
func (c control) Events(ctx context.Context, after string) (edn.Value, *contract.Error) {
	h := c.host.Load()
	if h == nil {
		return edn.Nil(), contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	records, cursor, err := h.events.After(ctx, after)
	if err != nil {
		return edn.Nil(), err
	}
	events := make([]edn.Value, len(records))
	for i, r := range records {
		events[i] = r.Value()
	}
	return edn.MustMap(edn.K("events"), edn.Vector(events...), edn.K("cursor"), edn.Text(cursor)), nil
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
	return &Journal{store: c.store, live: h.runs, host: h, loaded: l}
}

// Status implements httpapi.Control.
func (c control) Status() edn.Value {
	h, l := c.now()
	h.runs.mu.Lock()
	live := len(h.runs.live)
	h.runs.mu.Unlock()
	addresses := make([]edn.Value, 0, 4)
	for _, a := range c.server.Addresses() {
		addresses = append(addresses, edn.Text(a))
	}
	running, queued, classes := 0, 0, []edn.Value(nil)
	for _, load := range h.queue.Loads() {
		running += load.Running
		queued += load.Waiting
		classes = append(classes, edn.MustMap(
			edn.K("class"), edn.K(load.Class.Name),
			edn.K("workers"), edn.Int(int64(load.Class.Workers)),
			edn.K("running"), edn.Int(int64(load.Running)),
			edn.K("queued"), edn.Int(int64(load.Waiting)),
			edn.K("max-queued"), edn.Int(int64(load.Class.MaxQueued)),
		))
	}
	c.reloads.mu.Lock()
	refused := c.reloads.refused
	c.reloads.mu.Unlock()
	return edn.MustMap(
		edn.K("reload-refused"), refused,
		edn.K("ready"), c.Ready().Value(),
		edn.K("health"), edn.MustMap(edn.K("ok?"), edn.Bool(c.Health().OK)),
		edn.K("version"), edn.Text(c.options.Version),
		edn.K("pid"), edn.Int(int64(os.Getpid())),
		edn.K("started-at"), edn.Inst(c.begun.UTC().Truncate(time.Millisecond)),
		edn.K("config"), edn.Text(l.Hash),
		edn.K("protocol"), edn.Text(l.ProtocolHash()),
		edn.K("data-dir"), edn.Text(l.Host.DataDir),
		edn.K("listen"), edn.Vector(addresses...),
		edn.K("runs"), edn.Int(int64(running)),
		edn.K("queued"), edn.Int(int64(queued)),
		edn.K("queue"), edn.Vector(classes...),
		edn.K("suspended"), edn.Int(int64(c.suspended())),
		edn.K("generations"), edn.Int(int64(live)),
		edn.K("plugins"), c.Plugins().Key("plugins"),
	)
}

// suspended returns the number of suspended runs, at most manyOpen.
func (d *Daemon) suspended() int {
	if d.store == nil {
		return 0
	}
	runs, err := d.store.Runs(context.Background(), store.Filter{Status: "suspended", Limit: manyOpen})
	if err != nil {
		return 0 // the condition of the journal says so
	}
	return len(runs)
}

// Rejected implements httpapi.Backend: it writes a line of the audit log. The
// text of the error may quote the request, so only its type is written.
func (d *Daemon) Rejected(r httpapi.Rejection) {
	d.log.Named("audit").Info("act/rejected",
		"principal", r.Principal,
		"address", r.Address,
		"trace", truncated(r.Trace),
		"error", r.Err.Type,
	)
}

// truncated returns at most 80 bytes of the text of a value from a caller.
func truncated(v edn.Value) string {
	text, _ := v.AsString()
	return text[:min(len(text), 80)]
}

// Audit implements httpapi.Control: it writes a line of the audit log, with
// the keys of a host record.
func (c control) Audit(entry httpapi.AuditEntry) {
	space, _, _ := strings.Cut(entry.Action, "/")
	args := []any{"action", entry.Action, "principal", entry.Principal,
		"input", entry.Input.Dissoc(edn.K("action")).String(), "ok", entry.Err == nil}
	if entry.Err != nil {
		args = append(args, "error", entry.Err.Error())
	}
	c.log.Named("audit").Info(space, args...)
}
