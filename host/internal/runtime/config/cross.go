package config

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// cross warns of what an intent and its dispatch want of candidates that cannot
// do it (HCL-031). Plans may still choose otherwise, so these are warnings.
func (b *builder) cross(book *policy.Book, intents []registry.Intent) {
	if b.blind {
		return // unknown candidates may be able to
	}
	for i, in := range intents {
		s, candidates, l := b.all("intent")[i], b.mayServe(in), book.For(in.ID)
		if strategy := l.Strategy.Or(policy.DefaultStrategy); strategy != policy.Cascade {
			b.parallel(s, strategy, candidates)
		}
		if l.RepairMax.V > 0 && len(candidates) > 0 && !slices.ContainsFunc(candidates, func(c registry.Capability) bool { return c.Repairs }) {
			b.report.add(Diagnostic{Type: "config/unused", Severity: SeverityWarning, Message: fmt.Sprintf("repair does nothing for %s: no candidate can use what was wrong with its answer", s.node.title()),
				Range: s.at(), Path: s.node.path, Hint: "remove repair, or add a candidate whose :cap/repairs? is true"})
		}
	}
}

// mayServe are the candidates of an intent that its effects leave.
func (b *builder) mayServe(in registry.Intent) []registry.Capability {
	var out []registry.Capability
	for _, c := range b.caps {
		listed := in.Candidates == nil || slices.Contains(in.Candidates, c.ID)
		allowed := !slices.ContainsFunc(c.Effects, func(e string) bool { return e != "none" && !slices.Contains(in.Effects, e) })
		if listed && allowed && c.Serves(in.ID) {
			out = append(out, c)
		}
	}
	return out
}

// parallel warns of candidates with effects that must not happen twice, under a
// strategy that asks several at once. A plan with such a call is refused.
func (b *builder) parallel(s *section, strategy string, candidates []registry.Capability) {
	for _, c := range candidates {
		if c.StrictestRecovery() == contract.RecoveryNone {
			continue
		}
		b.report.add(Diagnostic{Type: "config/range", Severity: SeverityWarning, Message: fmt.Sprintf("%s has the strategy %s, which asks several candidates at once, and %s has effects that must not happen twice: its calls are refused", s.node.title(), strategy, quote(c.ID)),
			Range: s.at(), Path: s.node.path, Hint: "give the intent a dispatch with strategy = \"cascade\""})
		return
	}
}
