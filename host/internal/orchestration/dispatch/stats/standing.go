package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Standing is the status of a capability for an intent.
type Standing struct {
	Figures
	Intent, Plugin string
	MinPassRate    float64 // 0: no floor
	Action         string  // remediation below the floor
	Acting         bool    // the remediation is running
	Why            string  // reason of the ejection
}

// Standings returns the standing of each capability and intent in the table, sorted by
// plugin, capability and intent.
func (t *Table) Standings(now time.Time) []Standing {
	all := t.sorted()
	out := make([]Standing, len(all))
	for i, cs := range all {
		out[i] = Standing{Figures: cs.observed(now), Intent: cs.intent}
		cs.mu.Lock()
		h := &cs.health
		out[i].Plugin, out[i].MinPassRate, out[i].Action = cs.plugin, h.rules.MinPassRate.V, h.rules.Action
		out[i].Acting, out[i].Why = h.acting, h.why
		cs.mu.Unlock()
	}
	slices.SortStableFunc(out, func(x, y Standing) int {
		return cmp.Or(cmp.Compare(x.Plugin, y.Plugin), cmp.Compare(x.CapID, y.CapID), cmp.Compare(x.Intent, y.Intent))
	})
	return out
}

// State returns the status in a word: ok, degraded, acting, out or swapped
// after an ejection, or the state of a breaker that is not closed.
func (s Standing) State() string {
	switch {
	case s.Out && s.Stead != "":
		return "swapped"
	case s.Out:
		return "out"
	case s.Acting:
		return "acting"
	case s.Degraded:
		return "degraded"
	case s.Breaker != breaker.Closed:
		return string(s.Breaker)
	}
	return "ok"
}

// Value returns the standing as data.
func (s Standing) Value() edn.Value {
	v := s.Figures.Value().Merge(edn.MustMap(
		edn.K("cap/id"), journal.Keyword(s.CapID),
		edn.K("intent"), journal.Keyword(s.Intent),
		edn.K("state"), edn.K(s.State())))
	if s.MinPassRate > 0 {
		if floor, err := edn.ParseDecimal(formatShare(s.MinPassRate)); err == nil {
			v = v.AssocKey("min-pass-rate", floor).AssocKey("action", edn.K(s.Action))
		}
	}
	if s.Why != "" {
		v = v.AssocKey("why", edn.Text(s.Why))
	}
	return v
}
