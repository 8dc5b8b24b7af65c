package daemon

import (
	"os"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
)

// generation is one configuration in force: what its acts run under. It is
// immutable but for holds, which runs guards.
type generation struct {
	loaded  *Loaded
	client  *plugin.Client
	service *act.Service
	holds   int
	judges  *calibrations
}

// newGeneration makes the service of a configuration whose plugins the
// supervisor has.
func (h *Host) newGeneration(loaded *Loaded) (*generation, error) {
	g := &generation{loaded: loaded}
	var err error
	if g.client, err = h.supervisor.Client(routes(loaded.Generation.Registry)); err != nil {
		return nil, err
	}
	limits := loaded.Limits()
	c := act.Config{
		Registry: loaded.Generation.Registry, Policies: loaded.Generation.Policies, Effects: loaded.Generation.Effects, Checks: loaded.Generation.Checks,
		Executor: g.client, Journal: h.journal, Boot: h.boot, Book: &h.book, Grades: h.grades,
		Prompts: loaded.Generation.Prompts, Budgets: loaded.Generation.Budgets, Ledger: h.ledger,
		Hash: loaded.Hash, Protocol: loaded.ProtocolHash(), Limits: &limits, Root: loaded.Host.Root,
	}
	g.judges = newCalibrations(loaded.Host.DataDir, loaded.Generation.Registry)
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

// close is for a generation that no act runs under any more: plugins that only
// it names may go.
func (g *generation) close() { g.client.Close() }
