package daemon

import (
	"os"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
)

// generation is one configuration in force with the service that executes acts under it. It is
// immutable except for holds, which is guarded by runs.
type generation struct {
	loaded  *setup.Loaded
	client  *plugin.Client
	service *act.Service
	holds   int
	judges  *calibrationCache
}

// newGeneration creates the service of a configuration whose plugins the
// supervisor runs.
func (h *Host) newGeneration(loaded *setup.Loaded) (*generation, error) {
	g := &generation{loaded: loaded}
	var err error
	if g.client, err = h.supervisor.Client(loaded.Routes()); err != nil {
		return nil, err
	}
	c := loaded.ActConfig()
	own := *c.Effects
	own.InForce = func() *policy.Effects { return h.runs.replaced(g) }
	c.Effects = &own
	c.Sessions = h.sessions
	c.Standing = h.standing(loaded)
	_, c.Suspends = h.journal.(journal.Syncer)
	c.Host = h.id
	c.Executor, c.Journal, c.Boot, c.Stats, c.Grades, c.Ledger, c.Keys = executor{g.client, loaded.Generation.Registry, loaded.Generation.Access, c.Suspends, h}, h.journal, h.boot, &h.stats, h.grades, h.ledger, &h.keys
	c.Learned, c.Panicked = h.learned, h.panicked
	if loaded.Cache.Enabled {
		c.Cache = h.answers
	}
	c.Queue, c.Classes, c.Retry = h.queue, classesOf(&loaded.Queue), act.Retry(loaded.Queue.Retry)
	c.SecretKey = h.secretKey
	c.Hash, c.Protocol = loaded.Hash, loaded.ProtocolHash()
	g.judges = newCalibrationCache(loaded.Host.DataDir, loaded.Generation.Registry)
	g.judges.served = h.rescorer.Served
	c.Calibrations = g.judges
	if name, err := os.Hostname(); err == nil {
		c.Host = name
	}
	if seed := loaded.Host.Seed; seed != 0 {
		c.NewSeed = func() int64 { return seed }
	}
	if g.service, err = act.New(c); err != nil {
		g.client.Close()
		return nil, err
	}
	return g, nil
}

// replaced returns the effect configuration in force if that of g is outdated; nil if g is the
// current generation.
func (r *runs) replaced(g *generation) *policy.Effects {
	now := r.now()
	if now == nil || now == g {
		return nil
	}
	return now.loaded.Generation.Effects
}

// close releases a generation without acts. Plugins that only this generation uses may then stop.
func (g *generation) close() { g.client.Close() }
