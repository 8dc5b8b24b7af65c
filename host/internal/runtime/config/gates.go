package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// boundCheck is a built-in check that calls an intent (GATE-002).
type boundCheck struct {
	name, intent string
	evidence     bool
}

var boundChecks = []boundCheck{
	{name: "patch-applies", intent: "code/apply-patch", evidence: true},
	{name: "tests-pass", intent: "code/test", evidence: true},
}

// compileChecks returns the checks of the check blocks and the bound checks that
// no block overrides.
func (b *builder) compileChecks() []quality.Check {
	var out []quality.Check
	for _, c := range boundChecks {
		if _, rebound := b.checks[c.name]; !rebound {
			out = append(out, quality.Check{Check: registry.Check{
				Name:     c.name,
				Kind:     registry.CheckCapability,
				Intent:   c.intent,
				Evidence: c.evidence,
				Timeout:  registry.DefaultCheckTimeout,
			}})
		}
	}
	for _, s := range b.all("check") {
		if c, ok := b.check(s); ok {
			out = append(out, c)
		}
	}
	return out
}

func (b *builder) check(s *section) (quality.Check, bool) {
	c := quality.Check{Check: registry.Check{
		Name:     s.label(),
		Timeout:  s.duration("timeout"),
		Evidence: s.flag("evidence"),
		Params:   s.attrs["params"].v,
		Where:    s.where(),
	}}
	if b.isBuiltinCheck(c.Name) {
		b.use("check", c.Name)
		b.report.add(Diagnostic{
			Type:     "config/overridden",
			Severity: SeverityInfo,
			Message:  fmt.Sprintf("check %s is used instead of the built-in one", quote(c.Name)),
			Range:    s.at(),
			Path:     s.node.path,
		})
	}
	ok := b.oneKind(s) && b.judge(s, &c)
	if v := s.attrs["applies"]; v.written {
		p := compile(exprIn{v.expr, v.source}, true, append(slices.Clone(s.node.path), "applies"), b.report)
		if ok = ok && p != nil; p != nil {
			c.Applies = p.applies()
		}
	}
	if v := s.attrs["message"]; v.written {
		p := compile(exprIn{v.expr, v.source}, false, append(slices.Clone(s.node.path), "message"), b.report)
		if ok = ok && p != nil; p != nil {
			c.Message = p.message(c.Name)
		}
	}
	return c, ok
}

// oneKind reports a check without exactly one of builtin, condition and intent.
func (b *builder) oneKind(s *section) bool {
	var written []string
	for _, name := range []string{"builtin", "condition", "intent"} {
		if a, tried := s.node.attrs[name]; tried && !isNull(a.expr) {
			written = append(written, name)
		}
	}
	switch {
	case len(written) == 1:
		return true
	case s.node.damaged:
	case len(written) == 0:
		b.report.add(b.decoder.root.misnamed(s.node, Diagnostic{
			Type:     "config/missing",
			Message:  s.node.title() + " judges nothing",
			Range:    s.at(),
			Path:     s.node.path,
			Expected: edn.Text("exactly one of builtin, condition, intent"),
		}))
	default:
		a := s.node.attrs[written[1]]
		b.report.add(Diagnostic{
			Type:     "config/duplicate",
			Message:  fmt.Sprintf("%s has %s", s.node.title(), strings.Join(written, " and ")),
			Range:    a.source.hclRange(a.rng),
			Path:     append(slices.Clone(s.node.path), written[1]),
			Expected: edn.Text("exactly one of builtin, condition, intent"),
			Hint:     "keep one of them",
		})
	}
	return false
}

func (b *builder) judge(s *section, c *quality.Check) bool {
	switch {
	case s.written("condition"):
		c.Kind = registry.CheckCondition
		v := s.attrs["condition"]
		p := compile(exprIn{v.expr, v.source}, true, append(slices.Clone(s.node.path), "condition"), b.report)
		if p == nil {
			return false
		}
		c.Judge = p.judge()
		return true
	case s.written("builtin"):
		c.Kind, c.Builtin = registry.CheckBuiltin, s.text("builtin")
		known, ok := b.builtins.Check(c.Builtin)
		if !ok {
			var names []string
			for _, d := range b.builtins.Declarations() {
				names = append(names, d.Name)
			}
			b.report.add(Diagnostic{
				Type:     "config/dangling-reference",
				Message:  fmt.Sprintf("%s names the unknown built-in check %s", s.node.title(), quote(c.Builtin)),
				Range:    s.attrs["builtin"].rng,
				Path:     append(slices.Clone(s.node.path), "builtin"),
				Expected: words(names),
				Found:    edn.Text(c.Builtin),
				Nearest:  nearest(c.Builtin, names),
			})
			return false
		}
		c.Judge = known.Judge
		if form, err := schema.Compile(known.ParamsSchema); err == nil {
			c.Params = b.fitted(s, "params", "config/type", form)
		}
		return true
	case s.written("intent"):
		c.Kind, c.Intent = registry.CheckCapability, s.text("intent")
		if !b.intentKnown(c.Intent) {
			b.dangling(s, "intent", "intent", c.Intent, b.intentNames(), s.attrs["intent"].rng)
			return false
		}
		if in := b.inSchema(c.Intent); in != nil {
			c.Params = fit(in, c.Params)
		}
		return true
	}
	return false
}

func (b *builder) intentKnown(name string) bool {
	if _, ok := b.intents[name]; ok || b.blind {
		return true
	}
	return slices.Contains(b.intentNames(), name)
}

// intentNames returns the names of declared and advertised intents.
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
		name = s.text("in")
	}
	for _, c := range b.caps {
		if name == "" && slices.Contains(c.Intents, intent) {
			name = c.InSchema.For(intent)
		}
	}
	s, _ := b.compiled.Lookup(name)
	return s
}

// intent reads an intent block and adds its policy layer, which requests override.
func (b *builder) intent(s *section, book *policy.Book) registry.Intent {
	in := registry.Intent{ID: s.label(), In: s.text("in"), Out: s.text("out"), Role: s.text("role"), Where: s.where()}
	for _, attr := range []string{"in", "out"} {
		b.schemaRef(s, attr)
	}
	if s.written("candidates") {
		in.Candidates = append([]string{}, b.capabilityRefs(s, "candidates")...)
		b.servers(s, in)
	} else {
		b.implied(s, in)
	}
	in.Quality = b.qualityRules(s)
	in.Effects, _ = s.texts("effects")
	in.ResultTypes, _ = s.texts("result_types")
	var layer policy.Layer
	if name := s.text("dispatch"); name != "" && name != "default" {
		if d, ok := b.dispatch[name]; ok {
			layer = b.dispatchLayer(d, policy.SourceIntent)
		} else {
			b.dangling(s, "dispatch", "dispatch", name, slices.Sorted(maps.Keys(b.dispatch)), s.attrs["dispatch"].rng)
		}
		b.use("dispatch", name)
	}
	book.Intents[in.ID] = policy.Merge(layer, b.intentLayer(s))
	return in
}

func (b *builder) schemaRef(s *section, attr string) {
	v, ok := s.attrs[attr]
	if !ok {
		return
	}
	name := s.text(attr)
	b.use("schema", name)
	if _, known := b.schemas[name]; known || b.blind {
		return
	}
	b.dangling(s, attr, "schema", name, slices.Sorted(maps.Keys(b.schemas)), v.rng)
}

// servers checks that each candidate serves the intent with its schemas.
func (b *builder) servers(s *section, in registry.Intent) {
	if b.misnamed(s, in) {
		return
	}
	list := s.attrs["candidates"]
	if tuple, ok := s.node.attrs["candidates"].expr.(*hclsyntax.TupleConsExpr); ok && len(tuple.Exprs) == 0 {
		b.report.add(Diagnostic{
			Type:     "config/range",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("candidates of intent %s is empty, so no capability can serve it", quote(in.ID)),
			Range:    list.rng,
			Path:     append(slices.Clone(s.node.path), "candidates"),
			Expected: edn.Text("at least one capability"),
			Hint:     "remove candidates to use all capabilities that serve the intent",
		})
	}
	for k, item := range list.items {
		id, _ := item.v.AsString()
		if slices.ContainsFunc(list.items[:k], func(before value) bool { return edn.Equal(before.v, item.v) }) {
			b.report.add(Diagnostic{
				Type:     "config/duplicate",
				Severity: SeverityWarning,
				Message:  fmt.Sprintf("intent %s names the candidate %s twice", quote(in.ID), quote(id)),
				Range:    item.rng,
				Path:     append(slices.Clone(s.node.path), "candidates"),
				Hint:     "remove it: dispatch.retry sets the attempts per candidate",
			})
			continue
		}
		i := slices.IndexFunc(b.caps, func(c registry.Capability) bool { return c.ID == id })
		if i < 0 {
			b.disabledCandidate(s, id, item.rng)
			continue
		}
		c := b.caps[i]
		path := append(slices.Clone(s.node.path), "candidates")
		seen := []Related{{Range: b.capPlace[id],
			Message: fmt.Sprintf("gives capability %s of plugin %s", quote(id), quote(c.Plugin))}}
		if !c.Serves(in.ID) {
			b.report.add(Diagnostic{
				Type:     "config/type",
				Message:  fmt.Sprintf("capability %s does not serve intent %s", quote(id), quote(in.ID)),
				Range:    item.rng,
				Path:     path,
				Expected: edn.Text("a capability for " + in.ID),
				Found:    edn.Text("one for " + strings.Join(c.Intents, ", ")),
				Related:  seen,
			})
			continue
		}
		for _, x := range sides(in) {
			if have := x.of(&c).For(in.ID); b.differ(x.want, have) {
				b.report.add(Diagnostic{
					Type: "config/type",
					Message: fmt.Sprintf("capability %s %s %s, not what %s wants", quote(id), x.verb, have,
						s.node.title()),
					Range:    item.rng,
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
func (b *builder) disabledCandidate(s *section, id string, at *Range) {
	for _, c := range b.all("capability") {
		if c.label() == id && !c.flag("enabled") {
			b.report.add(Diagnostic{
				Type:     "config/range",
				Severity: SeverityWarning,
				Message:  fmt.Sprintf("%s names the candidate %s, which is disabled", s.node.title(), quote(id)),
				Range:    at,
				Path:     append(slices.Clone(s.node.path), "candidates"),
				Related:  []Related{{Range: c.at(), Message: "disables it"}},
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

// implied checks an intent without explicit candidates: one capability that serves it must fit its schemas.
func (b *builder) implied(s *section, in registry.Intent) {
	serves := func(c registry.Capability) bool { return c.Serves(in.ID) }
	all := !slices.ContainsFunc(b.Plugins, func(p Plugin) bool { return !p.Described })
	if all && !slices.ContainsFunc(b.caps, serves) {
		b.report.add(Diagnostic{
			Type:     "config/unused",
			Severity: SeverityWarning,
			Message:  "no capability serves " + s.node.title(),
			Range:    s.at(),
			Path:     s.node.path,
			Expected: edn.Text("a plugin that serves " + in.ID),
			Found:    edn.Text(in.ID),
			Nearest:  nearest(in.ID, b.advertisedIntents()),
		})
	}
	for _, x := range sides(in) {
		var have []string
		best := SeverityError // the lowest severity counts: one fitting candidate is enough
		for i := range b.caps {
			if c := &b.caps[i]; serves(*c) {
				name := x.of(c).For(in.ID)
				have = append(have, name)
				best = max(best, b.misfit(x, name))
			}
		}
		if best == SeverityInfo || len(have) == 0 || b.blind {
			continue
		}
		b.report.add(Diagnostic{
			Type:     "config/type",
			Severity: best,
			Message:  fmt.Sprintf("no capability that serves %s %s what fits %s", s.node.title(), x.verb, x.want),
			Range:    s.attrs[x.attr].rng,
			Path:     append(slices.Clone(s.node.path), x.attr),
			Expected: words(slices.Compact(slices.Sorted(slices.Values(have)))),
			Found:    edn.Text(x.want),
		})
	}
}

// misfit compares the schema of a capability with a side of an intent: an error if no value fits both, a warning if a
// common value is unlikely, else an information.
func (b *builder) misfit(x side, have string) Severity {
	from, ok := b.compiled.Lookup(x.want)
	to, known := b.compiled.Lookup(have)
	if x.attr == "out" {
		from, to = to, from
	}
	switch {
	case !ok || !known || x.want == have:
		return SeverityInfo
	case schema.Satisfies(from, to) == schema.No:
		return SeverityError
	case apart(from, to) != "":
		return SeverityWarning
	}
	return SeverityInfo
}

// misnamed reports an intent that its candidates do not serve although they serve one with a similar name.
func (b *builder) misnamed(s *section, in registry.Intent) bool {
	var offered []string
	for _, c := range b.caps {
		if slices.Contains(in.Candidates, c.ID) {
			if c.Serves(in.ID) {
				return false
			}
			offered = append(offered, c.Intents...)
		}
	}
	near := nearest(in.ID, offered)
	if near == "" {
		return false
	}
	slices.Sort(offered)
	b.report.add(Diagnostic{
		Type:     "config/dangling-reference",
		Message:  "no candidate of " + s.node.title() + " serves it",
		Range:    s.at(),
		Path:     s.node.path,
		Expected: words(slices.Compact(offered)),
		Found:    edn.Text(in.ID),
		Nearest:  near,
	})
	return true
}

func (b *builder) intentLayer(s *section) policy.Layer {
	var l policy.Layer
	origin := func(v value) policy.Origin {
		return policy.Origin{Source: policy.SourceIntent, Where: v.rng.String()}
	}
	if v := s.attrs["deadline"]; v.written {
		l.Deadline = policy.Of(s.duration("deadline"), origin(v))
	}
	if v := s.attrs["stream"]; v.written {
		l.Stream = policy.Of(s.text("stream"), origin(v))
	}
	if v := s.attrs["temperature"]; v.written {
		l.Temperature = policy.Of(v.v, origin(v))
	}
	l.Budget = b.budgetFields(s.block("budget"), policy.SourceIntent)
	if v := s.attrs["constraints"]; v.written {
		l.Constraints = policy.FieldsOf(b.constraints(s, v), origin(v))
	}
	b.checksOf(&l, s, policy.SourceIntent)
	b.judging(&l, s)
	done := s.block("done")
	if v := done.attrs["must"]; v.written {
		l.Must = policy.NamesOf(origin(v), b.checkRefs(done, "must")...)
	}
	if v := done.attrs["should"]; v.written {
		l.Should = policy.NamesOf(origin(v), b.checkRefs(done, "should")...)
	}
	b.twiceDone(done)
	if v := done.attrs["score_min"]; v.written {
		l.ScoreMin = policy.Of(v.v, origin(v))
	}
	return l
}

// twiceDone warns about a check that is both in must and in should.
func (b *builder) twiceDone(done *section) {
	must, _ := done.texts("must")
	for _, item := range done.attrs["should"].items {
		name, _ := item.v.AsString()
		if !slices.Contains(must, name) {
			continue
		}
		b.report.add(Diagnostic{
			Type:     "config/duplicate",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("check %s is both in must and in should", quote(name)),
			Range:    item.rng,
			Path:     append(slices.Clone(done.node.path), "should"),
			Found:    edn.Text(name),
			Hint:     "remove it from one of the two",
		})
	}
}

// gateRings reports cycles of intents through their gates (HCL-030).
func (b *builder) gateRings() {
	next := map[string][]string{} // intent -> intents that its checks call
	for _, s := range b.all("intent") {
		for _, name := range b.gatesOf(s) {
			if asked := b.asked(name); asked != "" {
				next[s.label()] = append(next[s.label()], asked)
			}
		}
		// A judge does not grade its own intent, so this is not a cycle.
		if j, ok := b.judges[s.block("judge").text("use")]; ok && j.flag("enabled") && j.text("intent") != s.label() {
			next[s.label()] = append(next[s.label()], j.text("intent"))
		}
	}
	state := map[string]int{}
	var stack []string
	var visit func(name string)
	visit = func(name string) {
		switch state[name] {
		case 2:
			return
		case 1:
			b.ring(append(slices.Clone(stack[slices.Index(stack, name):]), name))
			return
		}
		state[name] = 1
		stack = append(stack, name)
		for _, n := range next[name] {
			visit(n)
		}
		stack = stack[:len(stack)-1]
		state[name] = 2
	}
	for _, s := range b.all("intent") {
		visit(s.label())
	}
}

// gatesOf returns the checks that an intent and its dispatch name.
func (b *builder) gatesOf(s *section) []string {
	out, _ := s.texts("checks")
	done := s.block("done")
	for _, attr := range []string{"must", "should"} {
		names, _ := done.texts(attr)
		out = append(out, names...)
	}
	if name := s.text("dispatch"); name != "default" {
		if d, ok := b.dispatch[name]; ok {
			names, _ := d.texts("checks")
			out = append(out, names...)
		}
	}
	return out
}

// asked returns the intent that a check calls, or "".
func (b *builder) asked(check string) string {
	if s, ok := b.checks[check]; ok {
		return s.text("intent")
	}
	for _, c := range boundChecks {
		if c.name == check {
			return c.intent
		}
	}
	return ""
}

func (b *builder) ring(names []string) {
	first := b.intents[names[0]]
	d := Diagnostic{
		Type:    "config/cycle",
		Message: "the gates of intents call each other: " + strings.Join(names, " -> "),
		Range:   first.at(),
		Path:    first.node.path,
		Hint:    "let one of the checks ask an intent without such gates",
	}
	for _, name := range names[1 : len(names)-1] {
		d.Related = append(d.Related, Related{Range: b.intents[name].at(), Message: "is intent " + quote(name)})
	}
	b.report.add(d)
}

// unusedBlocks warns about blocks without a reference.
func (b *builder) unusedBlocks() {
	for _, c := range b.caps {
		for _, ref := range []interface{ For(string) string }{c.InSchema, c.OutSchema} {
			b.use("schema", ref.For(""))
			for _, in := range c.Intents {
				b.use("schema", ref.For(in))
			}
		}
	}
	for _, spec := range b.schemas {
		b.referred(spec)
	}
	for _, block := range []string{"dispatch", "check", "schema", "judge"} {
		for _, s := range b.all(block) {
			if !b.used[block][s.label()] {
				hint := "remove it, or name it where it should apply"
				if block == "dispatch" && b.dispatch["default"] == nil &&
					nearest(s.label(), []string{"default"}) != "" {
					hint = "did you mean \"default\", which applies to all intents?"
				}
				b.report.add(b.decoder.root.misnamed(s.node, Diagnostic{
					Type:     "config/unused",
					Severity: SeverityWarning,
					Message:  s.node.title() + " is not used",
					Range:    s.at(),
					Path:     s.node.path,
					Hint:     hint,
				}))
			}
		}
	}
}

// referred marks the schemas that a form refers to as used.
func (b *builder) referred(form edn.Value) {
	if form.Kind() != edn.KindVector {
		return
	}
	if head, _ := form.Nth(0); head.Kind() == edn.KindKeyword {
		if word, _ := head.AsKeyword(); word == "ref" {
			for x := range form.Elems() {
				if name, ok := x.AsKeyword(); ok {
					b.use("schema", name)
				}
			}
		}
	}
	for x := range form.Elems() {
		b.referred(x)
	}
}
