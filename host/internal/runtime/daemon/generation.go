package daemon

import (
	"os"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// generation is one configuration in force and the service that runs acts
// under it. It is immutable except for holds, which runs guards.
type generation struct {
	loaded  *Loaded
	client  *plugin.Client
	service *act.Service
	holds   int
	judges  *calibrationCache
}

// newGeneration creates the service of a configuration whose plugins the
// supervisor runs.
func (h *Host) newGeneration(loaded *Loaded) (*generation, error) {
	g := &generation{loaded: loaded}
	var err error
	if g.client, err = h.supervisor.Client(loaded.routes()); err != nil {
		return nil, err
	}
	c := loaded.actConfig()
	c.Sessions = h.sessions
	_, c.Suspends = h.journal.(journal.Syncer)
	c.Host = h.id
	c.Executor, c.Journal, c.Boot, c.Stats, c.Grades, c.Ledger, c.Keys = executor{g.client, loaded.Generation.Registry, loaded.Generation.Access, c.Suspends, h}, h.journal, h.boot, &h.stats, h.grades, h.ledger, &h.keys
	c.Learned = h.learned
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

// actConfig returns the part of the act configuration that the loaded files
// determine.
func (l *Loaded) actConfig() act.Config {
	limits := l.Limits()
	return act.Config{
		Registry: l.Generation.Registry,
		Policies: l.Generation.Policies,
		Effects:  l.Generation.Effects,
		Access:   l.Generation.Access,
		Checks:   l.Generation.Checks,
		Prompts:  l.Generation.Prompts,
		Routing:  l.Generation.Routing,
		Budgets:  l.Generation.Budgets,
		Limits:   &limits,
		Root:     l.Host.Root,
		Answers:  l.Answers,
	}
}

// close releases a generation without acts; plugins that only it refers to may
// then stop.
func (g *generation) close() { g.client.Close() }
