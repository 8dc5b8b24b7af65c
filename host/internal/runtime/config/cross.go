package config

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
)

// cross warns about settings of an intent and its dispatch that its candidates do
// not support (HCL-031). These are warnings because a plan may override them.
func (b *builder) cross(book *policy.Book, intents []registry.Intent) {
	if b.blind {
		return // unknown candidates may support it
	}
	for i, in := range intents {
		s, candidates, l := b.all("intent")[i], b.mayServe(in), book.For(in.ID)
		if strategy := l.Strategy.Or(policy.DefaultStrategy); strategy != policy.Cascade {
			b.parallel(s, strategy, candidates)
		}
		b.unnamed(in, &l)
		if l.RepairMax.V > 0 && len(candidates) > 0 &&
			!slices.ContainsFunc(candidates, func(c registry.Capability) bool { return c.Repairs }) {
			b.report.add(Diagnostic{
				Type:     "config/unused",
				Severity: SeverityWarning,
				Message:  fmt.Sprintf("repair has no effect for %s: no candidate supports it", s.node.title()),
				Range:    s.at(),
				Path:     s.node.path,
				Hint:     "remove repair, or add a candidate whose :cap/repairs? is true",
			})
		}
	}
}

// unnamed warns about conditions that read a key of the answer that its schema
// does not name if the schema names a similar key. Map schemas are open, so the key
// may exist nevertheless.
func (b *builder) unnamed(in registry.Intent, l *policy.Layer) {
	out, known := b.compiled.Lookup(in.Out)
	if !known {
		return
	}
	var names []string
	for _, m := range mapsOf(out) {
		for _, e := range m.Entries() {
			names = append(names, hclName(scalarText(e.Key)))
		}
	}
	for _, check := range slices.Concat(l.Must, l.Should, l.Soft, l.Checks.Names()) {
		if c := b.checks[check.Name]; c != nil {
			for _, attr := range []string{"condition", "applies", "message"} {
				b.unnamedIn(in, c, attr, names)
			}
		}
	}
}

func (b *builder) unnamedIn(in registry.Intent, c *section, attr string, names []string) {
	v := c.attrs[attr]
	if v.expr == nil {
		return
	}
	for _, t := range v.expr.Variables() {
		if len(t) < 2 || t.RootName() != "result" {
			continue
		}
		read, ok := t[1].(hcl.TraverseAttr)
		if !ok || slices.Contains(names, read.Name) {
			continue
		}
		if near := contract.Nearest(read.Name, names); near != "" {
			b.report.add(Diagnostic{
				Type:     "config/unknown-name",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("%s reads result.%s, which %s of intent %s does not name", c.node.title(),
					read.Name, in.Out,
					quote(in.ID)),
				Range:    v.source.hclRange(t.SourceRange()),
				Path:     append(slices.Clone(c.node.path), attr),
				Expected: words(names),
				Found:    edn.Text(read.Name),
				Nearest:  near,
			})
		}
	}
}

// mayServe returns the candidates of an intent that its effects allow.
func (b *builder) mayServe(in registry.Intent) []registry.Capability {
	var out []registry.Capability
	for _, c := range b.caps {
		listed := in.Candidates == nil || slices.Contains(in.Candidates, c.ID)
		allowed := !slices.ContainsFunc(c.Effects,
			func(e string) bool { return e != "none" && !slices.Contains(in.Effects, e) })
		if listed && allowed && c.Serves(in.ID) {
			out = append(out, c)
		}
	}
	return out
}

// parallel warns about a parallel strategy with a single candidate, and with a candidate whose effects must not happen
// twice: a plan with such a call is rejected.
func (b *builder) parallel(s *section, strategy string, candidates []registry.Capability) {
	warn := Diagnostic{
		Severity: SeverityWarning,
		Range:    s.at(),
		Path:     s.node.path,
		Hint:     "give the intent a dispatch with strategy = \"cascade\"",
	}
	for _, c := range candidates {
		if c.StrictestRecovery() != contract.RecoveryNone {
			warn.Type = "config/range"
			warn.Message = fmt.Sprintf("%s has the strategy %s, which asks several candidates at once, and %s has effects "+
				"that must not happen twice: its calls are refused", s.node.title(), strategy, quote(c.ID))
			b.report.add(warn)
			return
		}
	}
	if len(candidates) == 1 {
		warn.Type = "config/unused"
		warn.Message = fmt.Sprintf("%s has the strategy %s, which asks several candidates, and only %s serves it",
			s.node.title(), strategy, quote(candidates[0].ID))
		warn.Hint = "add a candidate, or " + warn.Hint
		b.report.add(warn)
	}
}
