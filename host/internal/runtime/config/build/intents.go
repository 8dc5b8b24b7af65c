package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

func (b *builder) intentKnown(name string) bool {
	if _, ok := b.intents[name]; ok || b.blind {
		return true
	}
	return slices.Contains(b.intentNames(), name)
}

// intentNames returns the names of the declared and the advertised intents.
func (b *builder) intentNames() []string {
	names := append(slices.Collect(maps.Keys(b.intents)), b.advertisedIntents()...)
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *builder) advertisedIntents() (names []string) {
	for _, c := range b.caps {
		names = append(names, c.Intents...)
	}
	return names
}

// inSchema returns the input schema of an intent; nil if it is unknown.
func (b *builder) inSchema(intent string) *schema.Schema {
	name := ""
	if s, ok := b.intents[intent]; ok {
		name = s.Text("in")
	}
	for _, c := range b.caps {
		if name == "" && slices.Contains(c.Intents, intent) {
			name = c.InSchema.For(intent)
		}
	}
	s, _ := b.compiled.Lookup(name)
	return s
}

// intent returns an intent block and adds its policy layer, which requests override.
func (b *builder) intent(s *decode.Section, book *policy.Book) registry.Intent {
	in := registry.Intent{ID: s.Label(), In: s.Text("in"), Out: s.Text("out"), Role: s.Text("role"), ModelKey: b.modelKey(s), Where: s.Where()}
	if s.Written("on_unknown") {
		in.OnUnknown = s.Text("on_unknown")
	}
	for _, attr := range []string{"in", "out"} {
		b.schemaRef(s, attr)
	}
	if s.Written("candidates") {
		in.Candidates = append([]string{}, b.capabilityRefs(s, "candidates")...)
		b.servers(s, in)
	} else {
		b.implied(s, in)
	}
	if s.Written("plan") {
		in.Plan = s.Attrs["plan"].EDN
	}
	in.Quality = b.qualityRules(s)
	in.Effects, _ = s.Texts("effects")
	in.ResultTypes, _ = s.Texts("result_types")
	in.Cacheable, in.CacheScope = s.Flag("cacheable"), s.Text("cache_scope")
	b.uncacheable(s, in)
	var layer policy.Layer
	if name := s.Text("dispatch"); name != "" && name != "default" {
		if d, ok := b.dispatch[name]; ok {
			layer = b.dispatchLayer(d, policy.SourceIntent)
		} else {
			b.dangling(s, "dispatch", "dispatch", name, slices.Sorted(maps.Keys(b.dispatch)), s.Attrs["dispatch"].At)
		}
		b.use("dispatch", name)
	}
	book.Intents[in.ID] = policy.Merge(layer, b.intentLayer(s))
	return in
}

func (b *builder) schemaRef(s *decode.Section, attr string) {
	v, ok := s.Attrs[attr]
	if !ok {
		return
	}
	name := s.Text(attr)
	b.use("schema", name)
	if _, known := b.schemas[name]; known || b.blind {
		return
	}
	b.dangling(s, attr, "schema", name, slices.Sorted(maps.Keys(b.schemas)), v.At)
}

// servers checks that each candidate serves the intent with its schemas.
func (b *builder) servers(s *decode.Section, in registry.Intent) {
	if b.misnamed(s, in) {
		return
	}
	list := s.Attrs["candidates"]
	if tuple, ok := s.Node.Attrs["candidates"].Expr.(*hclsyntax.TupleConsExpr); ok && len(tuple.Exprs) == 0 {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("candidates of intent %s is empty, so no capability can serve it", diag.Quote(in.ID)),
			Range:    list.At,
			Path:     append(slices.Clone(s.Node.Path), "candidates"),
			Expected: edn.Text("at least one capability"),
			Hint:     "remove candidates to use all capabilities that serve the intent",
		})
	}
	for k, item := range list.Items {
		id, _ := item.EDN.AsString()
		if slices.ContainsFunc(list.Items[:k], func(before decode.Value) bool { return edn.Equal(before.EDN, item.EDN) }) {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/duplicate",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("intent %s names the candidate %s twice", diag.Quote(in.ID), diag.Quote(id)),
				Range:    item.At,
				Path:     append(slices.Clone(s.Node.Path), "candidates"),
				Hint:     "remove it: dispatch.retry sets the attempts per candidate",
			})
			continue
		}
		i := slices.IndexFunc(b.caps, func(c registry.Capability) bool { return c.ID == id })
		if i < 0 {
			b.disabledCandidate(s, id, item.At)
			continue
		}
		c := b.caps[i]
		path := append(slices.Clone(s.Node.Path), "candidates")
		seen := []diag.Related{{Range: b.capPlace[id],
			Message: fmt.Sprintf("gives capability %s of plugin %s", diag.Quote(id), diag.Quote(c.Plugin))}}
		if !c.Serves(in.ID) {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/type",
				Message:  fmt.Sprintf("capability %s does not serve intent %s", diag.Quote(id), diag.Quote(in.ID)),
				Range:    item.At,
				Path:     path,
				Expected: edn.Text("a capability for " + in.ID),
				Found:    edn.Text("one for " + strings.Join(c.Intents, ", ")),
				Related:  seen,
			})
			continue
		}
		for _, x := range sides(in) {
			if have := x.of(&c).For(in.ID); b.differ(x.want, have) {
				b.Report.Add(diag.Diagnostic{
					Type: "config/type",
					Message: fmt.Sprintf("capability %s %s %s, not what %s wants", diag.Quote(id), x.verb, have,
						s.Node.Title()),
					Range:    item.At,
					Path:     path,
					Expected: edn.Text(x.want),
					Found:    edn.Text(have),
					Related:  seen,
				})
			}
		}
	}
}

// disabledCandidate warns about a candidate whose block is disabled.
func (b *builder) disabledCandidate(s *decode.Section, id string, at *diag.Range) {
	for _, c := range b.All("capability") {
		if c.Label() == id && !c.Flag("enabled") {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/range",
				Severity: diag.SeverityWarning,
				Message:  fmt.Sprintf("%s names the candidate %s, which is disabled", s.Node.Title(), diag.Quote(id)),
				Range:    at,
				Path:     append(slices.Clone(s.Node.Path), "candidates"),
				Related:  []diag.Related{{Range: c.At(), Message: "disables it"}},
				Hint:     "set enabled = true there, or remove the candidate",
			})
		}
	}
}

// side is the input or output schema of an intent.
type side struct {
	attr, verb, want string
	of               func(*registry.Capability) contract.SchemaRef
}

func sides(in registry.Intent) []side {
	takes := func(c *registry.Capability) contract.SchemaRef { return c.InSchema }
	gives := func(c *registry.Capability) contract.SchemaRef { return c.OutSchema }
	return []side{{"in", "takes", in.In, takes}, {"out", "gives", in.Out, gives}}
}

func (b *builder) differ(want, have string) bool {
	_, known := b.schemas[want]
	return known && have != "" && want != have
}

// implied checks an intent without explicit candidates: a capability that serves it must match its
// schemas.
func (b *builder) implied(s *decode.Section, in registry.Intent) {
	serves := func(c registry.Capability) bool { return c.Serves(in.ID) }
	all := !slices.ContainsFunc(b.Plugins, func(p plugins.Plugin) bool { return !p.Described })
	if all && !slices.ContainsFunc(b.caps, serves) {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/unused",
			Severity: diag.SeverityWarning,
			Message:  "no capability serves " + s.Node.Title(),
			Range:    s.At(),
			Path:     s.Node.Path,
			Expected: edn.Text("a plugin that serves " + in.ID),
			Found:    edn.Text(in.ID),
			Nearest:  diag.Nearest(in.ID, b.advertisedIntents()),
		})
	}
	for _, x := range sides(in) {
		var have []string
		best := diag.SeverityError // the lowest severity counts: one fitting candidate is enough
		for i := range b.caps {
			if c := &b.caps[i]; serves(*c) {
				name := x.of(c).For(in.ID)
				have = append(have, name)
				best = max(best, b.misfit(x, name))
			}
		}
		if best == diag.SeverityInfo || len(have) == 0 || b.blind {
			continue
		}
		b.Report.Add(diag.Diagnostic{
			Type:     "config/type",
			Severity: best,
			Message:  fmt.Sprintf("no capability that serves %s %s what fits %s", s.Node.Title(), x.verb, x.want),
			Range:    s.Attrs[x.attr].At,
			Path:     append(slices.Clone(s.Node.Path), x.attr),
			Expected: diag.Words(slices.Compact(slices.Sorted(slices.Values(have)))),
			Found:    edn.Text(x.want),
		})
	}
}

// misfit compares the schema of a capability with a side of an intent: an error if no value matches
// both, a warning if a common value is unlikely, otherwise an information.
func (b *builder) misfit(x side, have string) diag.Severity {
	from, ok := b.compiled.Lookup(x.want)
	to, known := b.compiled.Lookup(have)
	if x.attr == "out" {
		from, to = to, from
	}
	switch {
	case !ok || !known || x.want == have:
		return diag.SeverityInfo
	case schema.Satisfies(from, to) == schema.No:
		return diag.SeverityError
	case apart(from, to) != "":
		return diag.SeverityWarning
	}
	return diag.SeverityInfo
}

// misnamed reports an intent that its candidates do not serve although they serve one with a
// similar name. If its schemas are missing, they are reported, with the similar name of a block.
func (b *builder) misnamed(s *decode.Section, in registry.Intent) bool {
	if in.In == "" || in.Out == "" {
		return true
	}
	var offered []string
	for _, c := range b.caps {
		if slices.Contains(in.Candidates, c.ID) {
			if c.Serves(in.ID) {
				return false
			}
			offered = append(offered, c.Intents...)
		}
	}
	near := diag.Nearest(in.ID, offered)
	if near == "" {
		return false
	}
	slices.Sort(offered)
	b.Report.Add(diag.Diagnostic{
		Type:     "config/dangling-reference",
		Message:  "no candidate of " + s.Node.Title() + " serves it",
		Range:    s.At(),
		Path:     s.Node.Path,
		Expected: diag.Words(slices.Compact(offered)),
		Found:    edn.Text(in.ID),
		Nearest:  near,
	})
	return true
}

func (b *builder) intentLayer(s *decode.Section) policy.Layer {
	var l policy.Layer
	origin := func(v decode.Value) policy.Origin {
		return policy.Origin{Source: policy.SourceIntent, Where: v.At.String()}
	}
	if v := s.Attrs["deadline"]; v.Written {
		l.Deadline = policy.Of(s.Duration("deadline"), origin(v))
	}
	if v := s.Attrs["stream"]; v.Written {
		l.Stream = policy.Of(s.Text("stream"), origin(v))
	}
	if v := s.Attrs["temperature"]; v.Written {
		l.Temperature = policy.Of(v.EDN, origin(v))
	}
	l.Budget = b.budgetFields(s.Block("budget"), policy.SourceIntent)
	if v := s.Attrs["constraints"]; v.Written {
		l.Constraints = policy.FieldsOf(b.constraints(s, v), origin(v))
	}
	b.checksOf(&l, s, policy.SourceIntent)
	b.judging(&l, s)
	done := s.Block("done")
	if v := done.Attrs["must"]; v.Written {
		l.Must = policy.NamesOf(origin(v), b.checkRefs(done, "must")...)
	}
	if v := done.Attrs["should"]; v.Written {
		l.Should = policy.NamesOf(origin(v), b.checkRefs(done, "should")...)
	}
	b.twiceDone(done)
	if v := done.Attrs["score_min"]; v.Written {
		l.ScoreMin = policy.Of(v.EDN, origin(v))
	}
	return l
}

// twiceDone warns about checks that are both in must and in should.
func (b *builder) twiceDone(done *decode.Section) {
	must, _ := done.Texts("must")
	for _, item := range done.Attrs["should"].Items {
		name, _ := item.EDN.AsString()
		if !slices.Contains(must, name) {
			continue
		}
		b.Report.Add(diag.Diagnostic{
			Type:     "config/duplicate",
			Severity: diag.SeverityWarning,
			Message:  fmt.Sprintf("check %s is both in must and in should", diag.Quote(name)),
			Range:    item.At,
			Path:     append(slices.Clone(done.Node.Path), "should"),
			Found:    edn.Text(name),
			Hint:     "remove it from one of the two",
		})
	}
}
