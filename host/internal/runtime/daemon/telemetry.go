package daemon

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry/otlp"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// figures holds the counts of a daemon that are not in its journal, and their export.
type figures struct {
	meter       *tally.Meter
	metrics     *telemetry.Metrics
	commits     telemetry.Commits
	restarts    telemetry.Reasons // by cause
	transitions telemetry.Reasons // by new state of a process
	denials     telemetry.Reasons // by error type
	reloads     telemetry.Reasons // by outcome
	traced      telemetry.Reasons // trace contexts of callers, by outcome
	export      *otlp.Exporter
}

// count creates the counters. It must be called before the journal is opened.
func (d *Daemon) count() {
	d.figures.meter = tally.NewMeter(d.begun)
	d.figures.restarts.Expect(restartCauses...)
	d.figures.metrics = telemetry.NewMetrics(owner{d}, &d.figures.commits, tally.MaxSeries)
	d.figures.export = otlp.New(d.log.Named("otel"), otlp.Source{Begin: d.begun, Metrics: d.figures.metrics.Metrics})
}

// Observe implements journal.Observer. It counts a record, and exports the spans that it completes.
func (f *figures) Observe(rec journal.Record, past func() []journal.Record) {
	f.meter.Observe(rec, past)
	f.export.Observe(rec, past)
}

// observeStore makes a store report its commits and records to the figures.
func (d *Daemon) observeStore(o *store.Options) {
	o.Observer = &d.figures
	o.Committed = d.figures.commits.Add
}

// observeMemory makes a journal in memory report its records to the figures.
func (d *Daemon) observeMemory(h *Host) {
	if m, ok := h.journal.(*journal.Memory); ok {
		m.Observer, m.Acts = &d.figures, h.events
	}
	if events, ok := h.events.(*journal.Host); ok {
		events.Observer = &d.figures
	}
}

// restartCauses are the causes of a process start that is not the first one.
var restartCauses = []string{string(plugin.CauseBackoffOver), string(plugin.CauseRestart), string(plugin.CauseQuality)}

// transition counts a change of a plugin's state.
func (f *figures) transition(t Transition) {
	f.transitions.Add(t.To)
	if t.To == string(plugin.Starting) && slices.Contains(restartCauses, t.Cause) {
		f.restarts.Add(t.Cause)
	}
}

// configureTelemetry applies the telemetry block of a configuration.
func (d *Daemon) configureTelemetry(t config.Telemetry) {
	d.figures.metrics.SetMaxSeries(t.MaxSeries)
	if d.options.Levels != nil {
		d.options.Levels.Set(t.Level, t.Levels)
	}
}

// configureExport applies the block telemetry.otel of a configuration. The values of its headers
// may have changed although the block has not.
func (d *Daemon) configureExport(c *config.Config) error {
	o := c.Telemetry.OTel
	if o == nil {
		return d.figures.export.Configure(nil)
	}
	headers, err := c.OTelHeaders()
	if err != nil {
		return err
	}
	return d.figures.export.Configure(&otlp.Settings{
		Endpoint: o.Endpoint,
		Protocol: o.Protocol,
		Headers:  headers,
		Sample:   o.Sample,
		Queue:    o.Queue,
		Content:  journal.Content(c.Telemetry.Content),
		Version:  d.options.Version,
		Instance: d.boot,
	})
}

// Traced implements httpapi.Backend.
func (d *Daemon) Traced(outcome string) { d.figures.traced.Add(outcome) }

// SetLogLevel implements httpapi.Control.
func (c control) SetLogLevel(module, level string) (edn.Value, *contract.Error) {
	levels := c.options.Levels
	if levels == nil {
		return edn.Nil(), contract.Errorf("not-found", "the log of this daemon has no levels")
	}
	if module != "" || level != "" {
		levels.SetModule(module, level)
	}
	base, by := levels.Now()
	var modules edn.MapBuilder
	for name, of := range by {
		modules.Key(name, edn.K(of))
	}
	return edn.MustMap(edn.K("level"), edn.K(base), edn.K("levels"), modules.Map()), nil
}

// owner implements telemetry.Owner with a daemon.
type owner struct{ d *Daemon }

var _ telemetry.Owner = owner{}

// Counts implements telemetry.Owner.
func (o owner) Counts() *tally.Counts {
	counts, _ := o.d.figures.meter.Total()
	return counts
}

// Known implements telemetry.Owner.
func (o owner) Known(label, value string) bool {
	if label == "type" {
		_, ok := contract.Lookup(value)
		return ok
	}
	l := o.d.loaded()
	if l == nil || l.Generation == nil {
		return false
	}
	r, ok := l.Generation.Registry, false
	switch label {
	case "intent":
		if _, ok = r.Intent(value); !ok {
			_, ok = r.Tool(value)
		}
	case "capability":
		ok = r.Known(value)
	case "gate":
		if _, ok = r.Check(value); !ok {
			if _, ok = l.Generation.Checks.Check(value); !ok {
				_, ok = r.Judge(value)
			}
		}
		ok = ok || slices.Contains(fixedGates, value)
	}
	return ok
}

// fixedGates are the names of gates that are neither a check nor a judge.
var fixedGates = []string{"schema-valid", "judge"}

// sampleLimit is the time limit for the store queries of a scrape.
const sampleLimit = 2 * time.Second

// Samples implements telemetry.Owner.
func (o owner) Samples() []telemetry.Sample {
	d := o.d
	all := slices.Concat(d.figures.restarts.Samples("ferment_plugin_restarts_total"), d.figures.denials.Samples("ferment_auth_failures_total"),
		d.figures.traced.Samples("ferment_trace_contexts_total"))
	add := func(family string, value float64, labels ...string) {
		all = append(all, telemetry.Sample{Family: family, Labels: labels, Value: value})
	}
	for signal, n := range d.figures.export.Dropped() {
		add("ferment_otel_dropped_total", float64(n), signal)
	}
	add("ferment_build_info", 1, d.options.Version, runtime.Version())
	if d.server != nil {
		add("ferment_sse_subscribers", float64(d.server.Streams()))
	}
	h := d.host.Load()
	if h == nil || h.runs.now() == nil {
		return all
	}
	ctx, cancel := context.WithTimeout(d.life, sampleLimit)
	defer cancel()
	for _, load := range h.queue.Loads() {
		add("ferment_queue_depth", float64(load.Waiting), load.Class.Name)
	}
	for status, n := range d.openRuns(h) {
		add("ferment_runs", float64(n), status)
	}
	for state, n := range h.sessionCounts(ctx) {
		add("ferment_sessions", float64(n), state)
	}
	for _, b := range h.balances(ctx) {
		for _, part := range []struct {
			state  string
			amount policy.Amounts
		}{{"used", b.Used}, {"reserved", b.Reserved}} {
			for _, unit := range policy.Dimensions() {
				if f, ok := number(part.amount.Of(unit)); ok {
					add("ferment_budget_amount", f, b.Scope.Kind.String(), part.state, unit.String())
				}
			}
		}
	}
	loaded := h.Loaded()
	for _, s := range h.Plugins() {
		for _, id := range loaded.Provided(s.Plugin) {
			add("ferment_plugin_state", 1, id, string(s.State))
		}
	}
	return all
}

func number(v edn.Value) (float64, bool) {
	r, ok := v.AsNumber()
	if !ok {
		return 0, false
	}
	f, _ := r.Float64()
	return f, true
}

// openRuns returns the number of runs that have not ended, by state.
func (d *Daemon) openRuns(h *Host) map[string]int {
	out := map[string]int{"running": 0, "queued": 0, "waiting": 0, "suspended": d.suspended()}
	for _, active := range h.runs.all() {
		switch {
		case active.run.Waiting():
			out["queued"]++
		case active.run.AwaitsPeople():
			out["waiting"]++
		default:
			out["running"]++
		}
	}
	return out
}

// sessionCounts returns the number of sessions by state; nil if the store fails.
func (h *Host) sessionCounts(ctx context.Context) map[string]int {
	hot, warm, err := h.sessions.Count(ctx)
	if err != nil {
		return nil
	}
	return map[string]int{"hot": hot, "warm": warm}
}

// balances returns the budget balances of all tenants and users for which the configuration has
// limits; nil if the ledger fails.
func (h *Host) balances(ctx context.Context) []budget.Balance {
	b := h.Loaded().Generation.Budgets
	var scopes []budget.Scope
	for _, kind := range []budget.Kind{budget.Tenant, budget.User} {
		block := b.Of(kind.String())
		if !block.Written {
			continue
		}
		ids, err := h.tenants(ctx, b)
		if kind == budget.User {
			ids, err = h.ledger.Seen(ctx, kind, budget.Per(block.Per))
		}
		if err != nil {
			return nil
		}
		for _, id := range ids {
			scopes = append(scopes, budget.Scope{Kind: kind, ID: id, Limits: block.Limits, Per: budget.Per(block.Per)})
		}
	}
	if len(scopes) == 0 {
		return nil
	}
	all, err := h.ledger.Balances(ctx, scopes)
	if err != nil {
		return nil
	}
	return all
}

// Telemetry implements httpapi.Backend.
func (d *Daemon) Telemetry() httpapi.Telemetry {
	if d.Phase() == phaseStarting {
		return nil
	}
	return diagnostics{d}
}

// diagnostics implements httpapi.Telemetry with a daemon.
type diagnostics struct{ *Daemon }

// Metrics implements httpapi.Telemetry.
func (d diagnostics) Metrics() ([]byte, error) { return d.figures.metrics.Text() }

// window is a period with its counts.
type window struct {
	name   string
	counts *tally.Counts
	since  time.Time
}

// windows returns the counts since the start, of the last 5 minutes and of the last hour.
func (f *figures) windows(now time.Time) []window {
	all := []window{{name: "since-boot"}, {name: "minutes-5"}, {name: "hour-1"}}
	all[0].counts, all[0].since = f.meter.Total()
	all[1].counts, all[1].since = f.meter.Window(now, tally.ShortWindow)
	all[2].counts, all[2].since = f.meter.Window(now, tally.LongWindow)
	return all
}

// Diag implements httpapi.Telemetry.
func (d diagnostics) Diag() edn.Value {
	now, h, f := time.Now(), d.host.Load(), &d.figures
	var windows, acts, workflow, kpi, cache, waits edn.MapBuilder
	for _, w := range f.windows(now) {
		counts, since := w.counts, w.since
		v, wait := counts.Value(), counts.TimesOf(tally.QueueWait, "")
		windows.Key(w.name, edn.MustMap(edn.K("since"), journal.Instant(since), edn.K("until"), journal.Instant(now)))
		acts.Key(w.name, only(v, "runs", "intents", "failures"))
		workflow.Key(w.name, only(v, "operations", "attempts", "capabilities", "gates", "routing"))
		kpi.Key(w.name, v.Key("kpi"))
		cache.Key(w.name, only(v, "cache").Key("cache").Merge(edn.MustMap()))
		waits.Key(w.name, edn.MustMap(edn.K("count"), edn.Int(wait.Count), edn.K("p50-ms"), edn.Int(wait.Percentile(50).Milliseconds()),
			edn.K("p95-ms"), edn.Int(wait.Percentile(95).Milliseconds())))
	}
	status := control(d).overview()
	ctx, cancel := context.WithTimeout(d.life, sampleLimit)
	defer cancel()
	budgets, err := control(d).Budgets(ctx, "")
	if err != nil {
		budgets = edn.MustMap(edn.K("error"), err.Value())
	}
	return edn.MustMap(
		edn.K("windows"), windows.Map(),
		edn.K("act"), acts.Map(),
		edn.K("workflow"), workflow.Map(),
		edn.K("kpi"), kpi.Map(),
		edn.K("cache"), cache.Map(),
		edn.K("queue"), edn.MustMap(edn.K("classes"), status.Key("queue"), edn.K("wait"), waits.Map(), edn.K("runs"), countsOf(d.openRuns(h))),
		edn.K("lifecycle"), edn.MustMap(edn.K("phase"), edn.K(d.Phase()), edn.K("boot"), edn.Text(d.boot), edn.K("started-at"), journal.Instant(d.begun),
			edn.K("reloads"), countsOf(f.reloads.All()), edn.K("plugin-states"), countsOf(f.transitions.All()), edn.K("plugin-restarts"), countsOf(f.restarts.All())),
		edn.K("journal"), f.commits.Value(),
		edn.K("budget"), budgets,
		edn.K("session"), countsOf(h.sessionCounts(ctx)),
		edn.K("plugins"), status.Key("plugins"),
	)
}

// only returns a map with those of the keys that v has.
func only(v edn.Value, keys ...string) edn.Value {
	var b edn.MapBuilder
	for _, key := range keys {
		b.Opt(key, v.Key(key))
	}
	return b.Map()
}

func countsOf[N int | int64](counts map[string]N) edn.Value {
	var b edn.MapBuilder
	for name, n := range counts {
		b.Set(journal.Keyword(name), edn.Int(int64(n)))
	}
	return b.Map()
}
