package build

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// cross warns about settings of an intent and its dispatch that its candidates do not support
// (HCL-031). They are no errors because a plan may override them.
func (b *builder) cross(
	book *policy.Book, intents []registry.Intent, effects *policy.Effects, budgets *policy.Budgets,
) {
	if b.blind {
		return // unknown candidates may support it
	}
	for _, s := range b.All("dispatch") {
		b.idleRetries(s)
	}
	for i, in := range intents {
		s, candidates, l := b.All("intent")[i], b.mayServe(in), book.For(in.ID)
		b.uncallable(s, in, effects)
		if !budgets.AtLeast() {
			b.unpriced(s, candidates)
		}
		if strategy := l.Strategy.Or(policy.DefaultStrategy); strategy != policy.Cascade {
			b.parallel(s, strategy, candidates)
		}
		b.unnamed(in, &l)
		b.learns(s, &l)
		b.escalates(s, &l)
		if l.RepairMax.V > 0 && len(candidates) > 0 &&
			!slices.ContainsFunc(candidates, func(c registry.Capability) bool { return c.Repairs }) {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("repair has no effect for %s: no candidate supports repair", s.Node.Title()),
				Range:    s.At(),
				Path:     s.Node.Path,
				Hint:     "remove repair, or add a candidate whose :cap/repairs? is true",
			})
		}
	}
}

// unnamed warns about conditions that read a key of the answer that its schema does not have, if it
// has a similar key. Map schemas are open, so the key may exist.
func (b *builder) unnamed(in registry.Intent, l *policy.Layer) {
	out, known := b.compiled.Lookup(in.Out)
	if !known {
		return
	}
	var names []string
	for _, m := range mapsOf(out) {
		for _, e := range m.Entries() {
			names = append(names, language.HCLName(language.ScalarText(e.Key)))
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

func (b *builder) unnamedIn(in registry.Intent, c *decode.Section, attr string, names []string) {
	v := c.Attrs[attr]
	if v.Expr == nil {
		return
	}
	for _, t := range v.Expr.Variables() {
		if len(t) < 2 || t.RootName() != "result" {
			continue
		}
		read, ok := t[1].(hcl.TraverseAttr)
		if !ok || slices.Contains(names, read.Name) {
			continue
		}
		if near := contract.Nearest(read.Name, names); near != "" {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unknown-name",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("%s reads result.%s, which %s of intent %s does not name", c.Node.Title(),
					read.Name, in.Out,
					diag.Quote(in.ID)),
				Range:    v.Source.Range(t.SourceRange()),
				Path:     append(slices.Clone(c.Node.Path), attr),
				Expected: diag.Words(names),
				Found:    edn.Text(read.Name),
				Nearest:  near,
			})
		}
	}
}

// mayServe returns the candidates of an intent that its effects permit.
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

// idleRetries warns about further attempts that cannot happen because the set of failures is empty.
// Without a failure, a later candidate is called only while an earlier one is not available.
func (b *builder) idleRetries(s *decode.Section) {
	layers := []*decode.Section{b.dispatch["default"], s}
	if layers[0] == s || layers[0] == nil {
		layers = layers[1:]
	}
	var members []string
	var empty *diag.Range
	strategy := policy.DefaultStrategy
	retries := map[string]decode.Value{}
	for _, layer := range layers {
		if set, ok := layer.Texts("switch_on_replace"); ok {
			members, empty = set, layer.Attrs["switch_on_replace"].At
		}
		if set, ok := layer.Texts("switch_on"); ok {
			members, empty = append(members, set...), layer.Attrs["switch_on"].At
		}
		if v := layer.Attrs["strategy"]; v.Written {
			strategy = layer.Text("strategy")
		}
		for name, v := range layer.Block("retry").Attrs {
			if v.Written {
				retries[name] = v
			}
		}
	}
	if empty == nil || len(members) > 0 || strategy != policy.Cascade {
		return
	}
	for _, name := range []string{"fallback", "same_capability"} {
		v, written := retries[name]
		n, _ := v.EDN.AsInt()
		if !written || n == 0 {
			continue
		}
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("%s = %d has no effect in %s: switch_on is empty, so no failure leads to another attempt",
				name, n, s.Node.Title()),
			Range:   v.At,
			Path:    append(slices.Clone(s.Node.Path), "retry", name),
			Related: []diag.Related{{Range: empty, Message: "is empty"}},
			Hint: "name the errors that lead to another attempt, such as switch_on = [\"class/retry\", \"class/switch\"], " +
				"or remove switch_on for all errors of these classes",
		})
	}
}

// uncallable warns about listed candidates with an effect that no call may have, whatever the
// caller and the request permit. An intent without other candidates cannot be served, which is an
// error.
func (b *builder) uncallable(s *decode.Section, in registry.Intent, effects *policy.Effects) {
	grant := effects.Grant(policy.Caller{Roles: []string{policy.RoleAdmin}})
	refusal := func(c *registry.Capability) *contract.Error {
		all := &policy.Layer{Effects: policy.Of(c.Effects, policy.Origin{Source: policy.SourceRequest})}
		_, err := grant.Decide(policy.Need{Capability: c, Layer: all})
		return err
	}
	refused := map[string]*contract.Error{}
	var first *contract.Error
	callable := false
	for i := range b.caps {
		if c := &b.caps[i]; c.Serves(in.ID) && slices.Contains(in.Candidates, c.ID) {
			refused[c.ID] = refusal(c)
			callable = callable || refused[c.ID] == nil
			first = cmp.Or(first, refused[c.ID])
		}
	}
	for _, id := range in.Candidates {
		_, known := refused[id]
		callable = callable || !known // it is absent, disabled, or reported by servers
	}
	if !callable && first != nil {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/range",
			Message: fmt.Sprintf("%s can call none of its candidates: %s", s.Node.Title(), first.Message),
			Range:   s.Attrs["candidates"].At,
			Path:    append(slices.Clone(s.Node.Path), "candidates"),
			Hint:    first.Hint,
		})
		return
	}
	for _, item := range s.Attrs["candidates"].Items {
		id, _ := item.EDN.AsString()
		if err := refused[id]; err != nil {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/unused",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("%s cannot call a candidate: %s", s.Node.Title(), err.Message),
				Range:    item.At,
				Path:     append(slices.Clone(s.Node.Path), "candidates"),
				Hint:     err.Hint,
			})
		}
	}
}

// unjudged reports the must checks of an intent whose capabilities may judge the answer of none of
// its candidates, for example because they have effects: every act of the intent would fail. A plan
// check reports them as CHECK-022.
func (b *builder) unjudged(reg *registry.Registry, intents []registry.Intent) {
	if b.blind || len(b.undescribed()) > 0 {
		return // unknown capabilities may judge
	}
	for i, in := range intents {
		s, candidates := b.All("intent")[i], b.mayServe(in)
		for _, item := range s.Block("done").Attrs["must"].Items {
			name, _ := item.EDN.AsString()
			check, ok := reg.Check(name)
			if !ok || check.Kind != registry.CheckCapability || len(candidates) == 0 ||
				!slices.ContainsFunc(reg.Candidates(check.Intent), func(id string) bool { _, ok := reg.Capability(id); return ok }) ||
				slices.ContainsFunc(reg.Candidates(check.Intent), func(id string) bool { _, absent := reg.Absent(id); return absent }) ||
				slices.ContainsFunc(candidates, func(c registry.Capability) bool { return policy.Judgeable(reg, check, c.ID) }) {
				continue
			}
			b.Report.Add(diag.Diagnostic{
				Type: "config/range",
				Message: fmt.Sprintf("no answer of %s can pass check %s: no capability that may judge its candidates serves %s",
					s.Node.Title(), diag.Quote(name), check.Intent),
				Range: item.At,
				Path:  append(slices.Clone(s.Node.Path), "done", "must"),
				Hint: fmt.Sprintf("let another capability than the candidates serve %s, with no other effects than %s",
					check.Intent, strings.Join(policy.CheckEffects[1:], " and ")),
			})
		}
	}
}

// unpriced warns about an intent with a limit in money whose candidates all have no known price
// (BUD-007).
func (b *builder) unpriced(s *decode.Section, candidates []registry.Capability) {
	limit := s.Block("budget").Attrs["max_usd"]
	priced := func(c registry.Capability) bool {
		_, err := policy.Price(&c, policy.Size{InKnown: true, OutKnown: true})
		return err == nil
	}
	if !limit.Written || len(candidates) == 0 || slices.ContainsFunc(candidates, priced) {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type:     "config/unused",
		Severity: diag.SeverityWarning,
		Message: fmt.Sprintf("no candidate of %s is called under max_usd: the price of %s is unknown", s.Node.Title(),
			diag.Quote(candidates[0].ID)),
		Range: limit.At,
		Path:  append(slices.Clone(s.Node.Path), "budget", "max_usd"),
		Hint:  fmt.Sprintf("set cost { usd = .. } in a block capability %s", diag.Quote(candidates[0].ID)),
	})
}

// parallel warns about a parallel strategy with a single candidate, and about a candidate whose
// effects must not happen twice: a plan with such a call is rejected.
func (b *builder) parallel(s *decode.Section, strategy string, candidates []registry.Capability) {
	warn := diag.Diagnostic{
		Severity: diag.SeverityWarning,
		Range:    s.At(),
		Path:     s.Node.Path,
		Hint:     "give the intent a dispatch with strategy = \"cascade\"",
	}
	for _, c := range candidates {
		if c.StrictestRecovery() != contract.RecoveryNone {
			warn.Type = "config/range"
			warn.Message = fmt.Sprintf("%s has the strategy %s, which calls several candidates at once, and %s has effects "+
				"that must not happen twice: its calls are refused", s.Node.Title(), strategy, diag.Quote(c.ID))
			b.Report.Add(warn)
			return
		}
	}
	if len(candidates) == 1 {
		warn.Type = "config/unused"
		warn.Message = fmt.Sprintf("%s has the strategy %s, which calls several candidates, and only %s serves it",
			s.Node.Title(), strategy, diag.Quote(candidates[0].ID))
		warn.Hint = "add a candidate, or " + warn.Hint
		b.Report.Add(warn)
	}
}

// uncacheable reports a cacheable intent whose calls may change something, because a cached answer
// would omit the change (RUN-031).
func (b *builder) uncacheable(s *decode.Section, in registry.Intent) {
	if !in.Cacheable || contract.OnlyReads(in.Effects) {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("%s is cacheable, and its calls may have effects, which a cached answer leaves out", s.Node.Title()),
		Range:    s.Attrs["cacheable"].At,
		Path:     s.PathOf("cacheable"),
		Expected: edn.Text("effects within none, fs/read and db/read"),
		Found:    diag.Words(in.Effects),
		Hint:     "write cacheable = false, or name fewer effects",
	})
}
