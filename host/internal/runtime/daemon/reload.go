package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxGenerations is the number of configurations that may be in force at once:
// the current one and those of runs that began earlier (HCL-040).
const maxGenerations = 8

// reloaded is the result of a reload.
type reloaded struct {
	value edn.Value
	err   *contract.Error
}

// reloads serializes reloads: one runs at a time, and all requests that arrive
// meanwhile share the next one (HCL-039).
type reloads struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan reloaded
	refused edn.Value  // error of the last reload if it was rejected; else nil
	one     sync.Mutex // held while a configuration is loaded and compared
}

// Reload applies the configuration files and returns the result; why is written to the log.
// Concurrent reloads are serialized: all calls during a reload share the next one. If ctx ends,
// Reload returns but the reload continues.
//
// Related decisions are made elsewhere: policy.Grant.Decide applies narrower rights to the runs in
// progress (policy.Effects.InForce, set by newGeneration), and plugin.Supervisor.Plan chooses the
// processes to replace.
func (d *Daemon) Reload(ctx context.Context, why string) (edn.Value, *contract.Error) {
	answer := make(chan reloaded, 1)
	r := &d.reloads
	r.mu.Lock()
	r.waiting = append(r.waiting, answer)
	if !r.busy {
		r.busy = true
		if !d.spawn(func() { d.serveReloads(why) }) {
			r.busy, r.waiting = false, nil
			r.mu.Unlock()
			return edn.Nil(), contract.Errorf("runtime/draining", "the daemon is going down")
		}
	}
	r.mu.Unlock()
	select {
	case out := <-answer:
		return out.value, out.err
	case <-ctx.Done():
		return edn.Nil(), contract.AsError(context.Cause(ctx))
	}
}

// serveReloads executes reloads until no caller is waiting.
func (d *Daemon) serveReloads(why string) {
	r := &d.reloads
	for {
		r.mu.Lock()
		waiting := r.waiting
		r.waiting = nil
		if len(waiting) == 0 {
			r.busy = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		d.notify.reloading()
		begun := time.Now()
		out := d.guarded(func() reloaded { return d.reload(d.life, false) })
		d.notify.tell("READY=1")
		d.logReload(why, out, time.Since(begun))
		for _, w := range waiting {
			w <- out
		}
	}
}

// DryReload returns the changes that a reload would make, without making them.
func (d *Daemon) DryReload(ctx context.Context) (edn.Value, *contract.Error) {
	out := d.guarded(func() reloaded { return d.reload(ctx, true) })
	return out.value, out.err
}

// guarded converts a panic of f into a runtime/internal error. The configuration in force is kept.
func (d *Daemon) guarded(f func() reloaded) (out reloaded) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a reload panicked", "panic", p, "stack", string(debug.Stack()))
			out = reloaded{err: contract.Errorf("runtime/internal", "the reload failed because of a defect of the host: %v", p)}
		}
	}()
	return f()
}

func (d *Daemon) logReload(why string, out reloaded, took time.Duration) {
	d.reloads.mu.Lock()
	d.reloads.refused = edn.Nil()
	if out.err != nil {
		d.reloads.refused = edn.MustMap(
			edn.K("at"), journal.Instant(time.Now()),
			edn.K("why"), edn.Text(why),
			edn.K("error"), out.err.Value(),
		)
	}
	d.reloads.mu.Unlock()
	args := []any{"why", why, "took", took.Round(time.Millisecond).String()}
	switch {
	case out.err != nil:
		args = append(args, "error", out.err.Error())
		if found := Findings(out.err.Details.Key("report")); len(found) > 0 {
			args = append(args, "findings", found)
		} else {
			args = append(args, "details", out.err.Details.String())
		}
		d.figures.reloads.Add("refused")
		d.log.Error("reload refused", args...)
	case !out.value.Key("changed?").Truthy():
		d.figures.reloads.Add("unchanged")
		d.log.Info("reload: no change", args...)
	default:
		d.figures.reloads.Add("applied")
		was, hash, changes := out.value.Key("was"), out.value.Key("hash"), out.value.Key("changes")
		d.log.Info("config/reloaded",
			append(args, "old", hashOf(was), "new", hashOf(hash), "changes", changeLines(changes))...)
		d.log.Debug("config/reloaded", "actions", changes.String())
		d.recordReload(hashOf(was), hashOf(hash), changes)
	}
}

func hashOf(v edn.Value) string { text, _ := v.AsString(); return text }

// maxChangeLines is the number of changes that one log line of a reload lists.
const maxChangeLines = 20

// maxChangeValues is the maximum size in bytes of the values of a change for which they are logged.
const maxChangeValues = 80

// changeLines returns one line per change of a reload: action, path, and values if they are short.
// All values are in the response, and in the log at level debug.
func changeLines(changes edn.Value) []string {
	var out []string
	for x := range changes.Elems() {
		if len(out) == maxChangeLines {
			return append(out, fmt.Sprintf("and %d more", changes.Len()-maxChangeLines))
		}
		action, _ := x.Key("action").AsKeyword()
		var path []string
		for part := range x.Key("path").Elems() {
			text, _ := part.AsString()
			path = append(path, text)
		}
		line := action + " " + strings.Join(path, ".")
		if before, after := x.Key("before").String(), x.Key("after").String(); len(before)+len(after) <= maxChangeValues {
			line += ": " + before + " -> " + after
		}
		out = append(out, line)
	}
	return out
}

// Findings returns the diagnostics of a report as lines with position, message and next step.
func Findings(report edn.Value) []string {
	var out []string
	for x := range report.Key("diagnostics").Elems() {
		line, _ := x.Key("message").AsString()
		if at := x.Key("range"); !at.IsNil() {
			file, _ := at.Key("file").AsString()
			if n, _ := at.Key("line").AsInt(); n > 0 { // otherwise it is about the whole file
				file = fmt.Sprintf("%s:%d:%s", file, n, at.Key("column"))
			}
			line = file + ": " + line
		}
		if hint, ok := x.Key("hint").AsString(); ok {
			line += "; next: " + hint
		}
		out = append(out, line)
	}
	return out
}

// reload executes the steps of HCL-039. If it returns an error, nothing has changed, except after a
// runtime/internal error of commit, which occurs after the plugins have changed.
func (d *Daemon) reload(ctx context.Context, dry bool) reloaded {
	d.reloads.one.Lock()
	defer d.reloads.one.Unlock()
	h := d.host.Load()
	old := h.runs.now().loaded
	next, err := setup.LoadIn(ctx, d.options.Options, h.env)
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	if next.Generation == nil {
		return reloaded{err: invalid(next.Config)}
	}
	diff := view.Compare(old.Config, next.Config)
	if keys := diff.Restart(); len(keys) > 0 {
		return reloaded{err: needsRestart(keys)}
	}
	plugins, wanted, err := next.Startable()
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	change, err := h.supervisor.Plan(wanted)
	if err != nil {
		return reloaded{err: contract.AsError(err)}
	}
	out := edn.MustMap(
		edn.K("changed?"), edn.Bool(!diff.Empty() || !change.Empty()),
		edn.K("dry-run?"), edn.Bool(dry),
		edn.K("was"), edn.Text(old.Hash), edn.K("hash"), edn.Text(next.Hash),
		edn.K("changes"), diff.Value(),
		edn.K("plugins"), planned(change),
	)
	if dry {
		return reloaded{value: out}
	}
	if !diff.Empty() || !change.Empty() {
		change.Optional = map[string]bool{}
		for _, p := range plugins {
			change.Optional[p.Name] = p.Optional
		}
		if err := d.commit(ctx, h, old, next, change); err != nil {
			return reloaded{err: err}
		}
	}
	return reloaded{value: d.export(next.Config, out)}
}

// export applies the settings of the export again, which may have failed at the last reload, and
// adds a failure as a warning to the answer.
func (d *Daemon) export(c *config.Config, answer edn.Value) edn.Value {
	err := d.configureExport(c)
	if err == nil {
		return answer
	}
	warning := "telemetry.otel is not applied, and the export goes on as before: " + err.Error()
	d.log.Error(warning, "next", "correct it and reload again")
	return answer.AssocKey("warnings", edn.Vector(edn.Text(warning)))
}

// commit starts new processes beside the running ones and switches to them. After an error before
// the plugins are committed, nothing has changed.
func (d *Daemon) commit(ctx context.Context, h *Host, old, next *setup.Loaded, change plugin.Change) *contract.Error {
	limited, cancel := context.WithTimeout(ctx, old.Host.ReloadTimeout)
	defer cancel()
	if err := h.runs.awaitRoom(limited, maxGenerations); err != nil {
		return contract.Errorf("runtime/overloaded",
			"%d configurations are in use, by new runs and runs in progress, which is the limit",
			maxGenerations).
			WithHint("wait for the runs, or cancel them")
	}
	if err := h.identity.Clash(next.Generation.Identity); err != nil {
		return err
	}
	if err := h.reachIssuers(limited, old.Generation.Identity, next.Generation.Identity); err != nil {
		return err
	}
	prepared, err := h.supervisor.Prepare(limited, change)
	if err != nil {
		return notPrepared(err, next)
	}
	prepared.Commit()
	g, err := h.newGeneration(next)
	if err != nil {
		return contract.Errorf("runtime/internal",
			"internal error: the plugins were replaced, but the calls to them cannot be prepared: %w",
			err)
	}
	h.sessions.Configure(g.loaded.Session.Rules)
	h.conversations.Configure(conversationRules(g.loaded))
	h.runs.install(g)
	h.queue.Configure(queueOf(g.loaded.Config))
	h.answers.Bound(g.loaded.Cache.Bounds(time.Now))
	h.configureRescorer(next)
	if d.store != nil {
		d.store.SetLimits(storeLimits(next.Store))
	}
	if !reflect.DeepEqual(old.Telemetry, next.Telemetry) { // else what an operator has changed stays
		d.configureTelemetry(next.Telemetry)
	}
	d.warn(next)
	return nil
}

// notPrepared returns the error for a plugin that does not start, with the position of its block.
func notPrepared(err error, next *setup.Loaded) *contract.Error {
	var change *plugin.ChangeError
	if !errors.As(err, &change) {
		return contract.AsError(err)
	}
	where := ""
	if p, missing := next.Find(change.Plugin); missing == nil {
		where = ", block at " + p.Where
	}
	return contract.Errorf("runtime/start-failed", "plugin %s%s does not start, so nothing was changed: %w",
		change.Plugin, where, change.Err).
		WithDetail("plugin", edn.Text(change.Plugin))
}

// invalid returns the error for a configuration with errors. Its message has the first one, its
// details have all.
func invalid(c *config.Config) *contract.Error {
	report := c.Report(diag.DefaultMaxShown)
	typ, first := "config/syntax", ""
	for _, x := range c.Diagnostics {
		if x.Severity == diag.SeverityError {
			typ, first = x.Type, x.Message
			if x.Range != nil {
				first += " (" + x.Range.String() + ")"
			}
			break
		}
	}
	if _, known := contract.Lookup(typ); !known {
		typ = "config/syntax"
	}
	n := c.Diagnostics.Count(diag.SeverityError)
	message := first
	if n > 1 {
		message = fmt.Sprintf("%s, and %d more errors", first, n-1)
	}
	return contract.Errorf(typ, "the configuration was rejected, the current one stays in force: %s", message).
		WithDetail("report", report.Value()).WithDetail("text", edn.Text(report.Text(false))).
		WithHint("\"ferment validate\" shows all errors")
}

// needsRestart returns the error for changed settings that require a restart.
func needsRestart(keys []view.Change) *contract.Error {
	names := make([]edn.Value, len(keys))
	text := ""
	for i, k := range keys {
		name := ""
		for j, part := range k.Path {
			if j > 0 {
				name += "."
			}
			name += part
		}
		names[i] = edn.Text(name)
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return contract.Errorf("config/restart", "nothing was changed, because a restart is needed for %s", text).
		WithDetail("keys", edn.Vector(names...))
}

// planned returns the changes of plugins as an EDN map with the keys :start, :replace, :update and
// :remove.
func planned(c plugin.Change) edn.Value {
	names := func(list []plugin.Settings) edn.Value {
		out := make([]edn.Value, len(list))
		for i, s := range list {
			out[i] = edn.Text(s.Name)
		}
		return edn.Vector(out...)
	}
	removed := make([]edn.Value, len(c.Remove))
	for i, name := range c.Remove {
		removed[i] = edn.Text(name)
	}
	return edn.MustMap(
		edn.K("start"), names(c.Start),
		edn.K("replace"), names(c.Replace),
		edn.K("update"), names(c.Update),
		edn.K("remove"), edn.Vector(removed...),
	)
}

// Swap starts to replace the processes of a plugin with new ones, and returns at once. The outcome
// is written to the log, shown in the plugin list, and recorded in the host stream after cursor.
func (d *Daemon) Swap(name string) (cursor string, _ *contract.Error) {
	h := d.host.Load()
	_, last, failed := h.events.Bounds(d.life)
	if failed != nil {
		return "", contract.AsError(failed)
	}
	cursor = journal.HostCursor(last)
	started := d.spawn(func() {
		begun := time.Now()
		err := h.supervisor.Swap(d.life, name, plugin.CauseSwap)
		took := time.Since(begun).Round(time.Millisecond).String()
		h.swapped(name, err)
		if err != nil {
			d.log.Error("swap failed; the plugin is as it was", "plugin", name, "took", took, "error", err.Error())
			return
		}
		d.log.Info("swapped", "plugin", name, "took", took)
	})
	if !started {
		return "", contract.Errorf("runtime/draining", "the daemon is going down")
	}
	return cursor, nil
}

// swapped records the outcome of a swap in the host stream.
func (h *Host) swapped(name string, err error) {
	event, details := "plugin/swapped", edn.MustMap(edn.K("plugin"), edn.Text(name))
	if err != nil {
		event, details = "plugin/swap-failed", details.AssocKey("error", contract.AsError(err).Value())
	}
	_, _ = h.events.Record(context.Background(), time.Now(), &journal.HostEvent{Event: event, Details: details}) // whole by construction
}

// spawn runs f in a goroutine that the shutdown waits for. It reports false and does not start f
// unless the daemon is ready.
func (d *Daemon) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != phaseReady {
		return false
	}
	d.work.Go(f)
	return true
}
