package setup

import (
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// ActConfig returns the part of the act configuration that the loaded files
// determine.
func (l *Loaded) ActConfig() act.Config {
	limits := l.Host.Limits()
	return act.Config{
		Deadlines: l.Queue.Deadlines,
		Registry:  l.Generation.Registry,
		Policies:  l.Generation.Policies,
		Effects:   l.Generation.Effects,
		Access:    l.Generation.Access,
		Checks:    l.Generation.Checks,
		Prompts:   l.Generation.Prompts,
		Routing:   l.Generation.Routing,
		Budgets:   l.Generation.Budgets,
		Limits:    &limits,
		Content:   journal.Content(l.Telemetry.Content),
		Root:      l.Host.Root,
		Answers:   l.Answers,
	}
}

// Reach returns the names of the plugins that an act may call, as far as that can be determined
// before it runs. For an act that would be rejected it is empty.
func (l *Loaded) Reach(a act.Act) map[string]bool {
	reached := map[string]bool{}
	ids, _ := act.Reach(l.ActConfig(), a) // starting the act reports the error
	for _, id := range ids {
		if c, ok := l.Generation.Registry.Capability(id); ok {
			reached[c.Plugin] = true
		}
	}
	return reached
}
