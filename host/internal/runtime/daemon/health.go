package daemon

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Health implements httpapi.Backend.
func (d *Daemon) Health() httpapi.Health {
	return httpapi.Health{
		OK:        d.alive(),
		Version:   d.options.Version,
		Isolation: d.isolation(),
		Quality:   d.quality(),
		Judges:    d.doubtfulJudges(),
	}
}

// doubtfulJudges lists the judges in use whose weight is reduced (JDG-011);
// nil during the start.
func (d *Daemon) doubtfulJudges() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	var out []edn.Value
	for _, s := range d.host.Load().rescorer.Known() {
		if s.Doubtful() {
			out = append(out, edn.MustMap(edn.K("judge"), edn.Text(s.Judge.Name), edn.K("state"), edn.K(string(s.Standing))))
		}
	}
	return edn.Vector(out...)
}

// quality lists the capabilities with degraded quality or an open breaker; nil
// during the start.
func (d *Daemon) quality() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	var out []edn.Value
	for _, s := range d.host.Load().Standings() {
		if s.State() != "ok" {
			v := s.Value()
			out = append(out, edn.MustMap(
				edn.K("cap/id"), v.Key("cap/id"),
				edn.K("intent"), v.Key("intent"),
				edn.K("state"), v.Key("state"),
			))
		}
	}
	return edn.Vector(out...)
}

// isolation returns the confinement of the plugin processes (FX-005): the
// level of this machine, the number of processes per enforcement, the number
// that accept less than configured, and whether any may send datagrams. It is
// nil during the start. It contains no names, because every caller of a
// listener may read it.
func (d *Daemon) isolation() edn.Value {
	if d.Phase() == phaseStarting {
		return edn.Nil()
	}
	counts := map[string]int64{}
	less, udp := int64(0), "held"
	for _, s := range d.host.Load().Plugins() {
		c := s.Confinement
		if c == nil {
			continue
		}
		counts[c.Enforcement]++
		if c.BestEffort {
			less++
		}
		if c.UDPOpen() {
			udp = "open"
		}
	}
	var enforcement edn.MapBuilder
	for word, n := range counts {
		enforcement.Key(word, edn.Int(n))
	}
	return edn.MustMap(
		edn.K("level"), edn.K(string(confine.Probe().Best())), edn.K("enforcement"), enforcement.Map(),
		edn.K("best-effort"), edn.Int(less), edn.K("udp"), edn.K(udp),
	)
}

// Phase implements httpapi.Backend.
func (d *Daemon) Phase() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase
}

// Ready implements httpapi.Backend.
func (d *Daemon) Ready() httpapi.Ready {
	d.mu.Lock()
	phase, since := d.phase, d.since
	d.mu.Unlock()
	r := httpapi.Ready{Phase: phase, Boot: d.boot, Profile: d.profile()}
	if l := d.loaded(); l != nil {
		r.Weaker = weaker(l)
		if phase != phaseStarting {
			r.Conditions = d.pluginConditions(l)
		}
	}
	r.Conditions = append([]httpapi.Condition{
		{Name: "started", OK: phase != phaseStarting, Since: since, Why: "the daemon is coming up"},
		d.directory(),
		d.spaceCondition(),
		d.journalCondition(),
		{Name: "not-draining", OK: phase != phaseDraining, Since: since, Why: "the daemon is going down"},
	}, r.Conditions...)
	return r
}

// weaker returns the settings that are weaker than in profile prod (OPS-009). The result is never
// nil.
func weaker(l *setup.Loaded) []edn.Value {
	out := []edn.Value{}
	for _, w := range view.Weaker(l.Config) {
		path := make([]edn.Value, len(w.Path))
		for i, part := range w.Path {
			path[i] = edn.Text(part)
		}
		out = append(out, edn.MustMap(edn.K("path"), edn.Vector(path...), edn.K("value"), w.Value,
			edn.K("prod"), w.Prod,
			edn.K("written"), edn.Text(w.Written), edn.K("prod-written"), edn.Text(w.ProdWritten)))
	}
	return out
}

// servesAny reports whether one of the reported capabilities accepts calls. It is true if none is
// reported.
func servesAny(all []wire.CapabilityHealth) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(c wire.CapabilityHealth) bool {
		return c.State == wire.HealthUnknown || c.State.Callable()
	})
}

// pluginConditions returns one condition per required plugin, which holds if one of its processes
// accepts calls.
func (d *Daemon) pluginConditions(l *setup.Loaded) []httpapi.Condition {
	byName := map[string]httpapi.Condition{}
	for _, s := range d.host.Load().Plugins() {
		c := httpapi.Condition{
			Name:  "required-plugin",
			OK:    s.Callable,
			Since: s.Since,
			Why:   fmt.Sprintf("%s is %s", s.Plugin, s.State),
		}
		if s.Err != nil {
			c.Why += ": " + s.Err.FullMessage()
		}
		if c.OK {
			c.OK = servesAny(s.Health.Capabilities)
		}
		if before, ok := byName[s.Plugin]; !ok || !before.OK && c.OK {
			byName[s.Plugin] = c
		}
	}
	var out []httpapi.Condition
	for _, p := range l.Plugins {
		if !p.Enabled || p.Optional {
			continue
		}
		c, ok := byName[p.Name]
		if !ok {
			c = httpapi.Condition{Name: "required-plugin", Since: d.begun, Why: p.Name + " has no process"}
		}
		out = append(out, c)
	}
	return out
}
