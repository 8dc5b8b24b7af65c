package daemon

import (
	"context"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Status implements httpapi.Control.
func (c control) Status() edn.Value {
	now := time.Now()
	var kpi edn.MapBuilder
	for _, w := range c.figures.windows(now) {
		kpi.Key(w.name, w.counts.KPI().
			AssocKey("since", journal.Instant(w.since)).
			AssocKey("operations", edn.Int(w.counts.Total(tally.Operations))))
	}
	return c.overview().Merge(edn.MustMap(
		edn.K("isolation"), c.isolation(),
		edn.K("journal"), c.journalState(),
		edn.K("kpi"), kpi.Map(),
	))
}

// journalState returns the location and size of the journal and the time of its transactions.
func (c control) journalState() edn.Value {
	v := c.figures.commits.Value()
	if c.store == nil {
		return v.AssocKey("driver", edn.K("memory"))
	}
	ctx, cancel := context.WithTimeout(c.life, sampleLimit)
	defer cancel()
	state, err := c.Database().DatabaseStatus(ctx)
	if err != nil {
		return v.AssocKey("error", err.Value())
	}
	return v.Merge(only(state, "driver", "schema", "runs", "runs/open", "size", "size/free", "file-bytes", "writable?"))
}

// overview returns the current load, plugins and configuration of the daemon.
func (c control) overview() edn.Value {
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
		edn.K("started-at"), journal.Instant(c.begun),
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

// manySuspended is the maximum number of suspended runs that a status counts.
const manySuspended = 10_000

// suspended returns the number of suspended runs, at most manySuspended.
func (d *Daemon) suspended() int {
	if d.store == nil {
		return 0
	}
	runs, err := d.store.Runs(context.Background(), store.Filter{Status: "suspended", Limit: manySuspended})
	if err != nil {
		return 0 // the condition of the journal reports the error
	}
	return len(runs)
}
