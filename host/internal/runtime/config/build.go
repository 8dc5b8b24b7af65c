package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	rules "github.com/fermenthq/ferment/sdk/text"
)

// Generation is a configuration in force. It is immutable and safe for concurrent
// use; a run uses the generation that it started with.
type Generation struct {
	Registry *registry.Registry
	Checks   *quality.Set
	Policies *policy.Book
	Effects  *policy.Effects
	Budgets  *policy.Budgets // nil: no limits
	Prompts  *prompt.Book
	// Packs are the language packs of the configuration; Checks holds all
	// languages in use.
	Packs []LanguagePack
}

// Limits on the number of blocks (HCL-042).
const (
	MaxPlugins      = 256
	MaxCapabilities = 4096
	MaxIntents      = 1024
	MaxNamed        = 4096 // checks, schemas, judges, and rubrics
)

// builder collects the parts of a generation and checks the references between
// them.
type builder struct {
	*loader
	plugins  map[string]*Plugin
	blind    bool // a plugin was not described and may define unknown names
	caps     []registry.Capability
	notGiven []registry.Absent
	capPlace map[string]*Range
	capNames map[string]bool
	renames  map[string]*section // advertised id -> block that renames it
	schemas  map[string]edn.Value
	adopted  []adoption
	compiled *schema.Registry
	checks   map[string]*section
	builtins *quality.Set
	intents  map[string]*section
	dispatch map[string]*section
	judges   map[string]*section
	used     map[string]map[string]bool // block type -> label
	places   map[[2]string]*Range       // block type and label -> its header
	// languages are the language packs in use; nil: the shipped ones.
	languages *rules.Packs
}

func (l *loader) build() {
	b := &builder{
		loader:   l,
		plugins:  map[string]*Plugin{},
		capPlace: map[string]*Range{},
		capNames: map[string]bool{},
		renames:  map[string]*section{},
		schemas:  schema.Builtin(),
		checks:   byLabel(l.all("check")),
		intents:  byLabel(l.all("intent")),
		dispatch: byLabel(l.all("dispatch")),
		judges:   byLabel(l.all("judge")),
		used:     map[string]map[string]bool{},
		places:   map[[2]string]*Range{},
	}
	for block, all := range l.byType {
		for _, s := range all {
			b.places[[2]string{block, s.label()}] = s.at()
		}
	}
	b.limits()
	b.describeAll()
	b.capabilities()
	b.adopted = b.adoptions()
	b.collectSchemas()
	b.adopt()
	b.generation()
}

func byLabel(blocks []*section) map[string]*section {
	out := make(map[string]*section, len(blocks))
	for _, s := range blocks {
		out[s.label()] = s
	}
	return out
}

// limits rejects more blocks of a type than the host supports.
func (b *builder) limits() {
	for _, x := range []struct {
		block string
		most  int
	}{{"plugin", MaxPlugins}, {"capability", MaxCapabilities}, {"intent", MaxIntents}, {"check", MaxNamed},
		{"schema", MaxNamed}, {"judge", MaxNamed}, {"rubric", MaxNamed}} {
		if all := b.all(x.block); len(all) > x.most {
			b.report.add(Diagnostic{
				Type:    "config/limit",
				Message: fmt.Sprintf("%d %s blocks, over the limit of %d", len(all), x.block, x.most),
				Range:   all[x.most].at(),
				Path:    all[x.most].node.path,
			})
		}
		b.similar(x.block)
	}
	b.similar("dispatch")
}

// similar warns about labels that differ only in - and _.
func (b *builder) similar(block string) {
	seen := map[string]*section{}
	for _, s := range b.all(block) {
		key := strings.ReplaceAll(s.label(), "_", "-")
		if first := seen[key]; first != nil {
			b.report.add(Diagnostic{
				Type:     "config/duplicate",
				Severity: SeverityWarning,
				Message: fmt.Sprintf("the labels %s and %s differ only in - and _", quote(first.label()),
					quote(s.label())),
				Range:   s.at(),
				Path:    s.node.path,
				Related: []Related{{Range: first.at(), Message: "is the other one"}},
			})
			continue
		}
		seen[key] = s
	}
}

func (b *builder) describeAll() {
	blocks := b.all("plugin")
	b.config.Plugins = make([]Plugin, len(blocks))
	for i, s := range blocks {
		p := b.plugin(s)
		b.pairs(s)
		if p.Enabled && !p.Optional {
			b.onDisk(s.block("isolation"), "exec", anything)
		}
		b.describe(s, &p)
		b.descriptionLocked(s, &p)
		b.identify(s, &p)
		b.config.Plugins[i] = p
		b.plugins[p.Name] = &b.config.Plugins[i]
		// The names of an absent optional plugin are known to be missing. Any
		// other plugin without a description may define any name.
		if p.Enabled && !p.Described && (p.Binary != "" || !p.Optional || b.report.doubts("plugin", p.Name)) {
			b.blind = true
		}
	}
	for _, block := range []string{"plugin", anyName} {
		for label := range b.report.broken[block] {
			b.blind = b.blind || b.plugins[label] == nil
		}
	}
}

// pairs checks pairs of values of a plugin block, such as min and max.
func (b *builder) pairs(s *section) {
	b.ordered(s.block("restart"), "backoff", "max_backoff", false)
	b.ordered(s.block("health"), "timeout", "interval", true)
	b.ordered(s.block("instances"), "min", "max", false)
}

func (b *builder) ordered(s *section, low, high string, strict bool) {
	x, y := s.integer(low), s.integer(high)
	if x < y || x == y && !strict {
		return
	}
	v, name := s.attrs[low], low
	if !v.written {
		v, name = s.attrs[high], high
	}
	if !v.written {
		return
	}
	word := "at most"
	if strict {
		word = "below"
	}
	limit := s.attrs[high]
	b.report.add(Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("%s in %s must be %s %s", low, s.node.title(), word, high),
		Range:    v.rng,
		Path:     append(slices.Clone(s.node.path), name),
		Expected: edn.Text(fmt.Sprintf("%s %s %s", low, word, high)),
		Found:    edn.Text(fmt.Sprintf("%s and %s", shownAs(s, low), shownAs(s, high))),
		Related:  otherPlace(limit, v, high),
	})
}

func shownAs(s *section, name string) string {
	spec, _ := s.node.spec.Attr(name)
	v := s.integer(name)
	if spec.Type.Kind == KindDur {
		return formatDuration(int64(v))
	}
	return fmt.Sprint(v)
}

func otherPlace(other, here value, name string) []Related {
	if !other.written || other.rng == here.rng {
		return nil
	}
	return []Related{{Range: other.rng, Message: "is " + name}}
}

// capabilities registers the advertised capabilities, renamed and narrowed by
// the capability blocks.
func (b *builder) capabilities() {
	blocks := b.all("capability")
	claimed := map[[2]string]*section{} // plugin, advertised id
	for _, s := range blocks {
		b.claim(s, claimed)
	}
	for i := range b.config.Plugins {
		p := &b.config.Plugins[i]
		if !p.Enabled || !p.Described {
			continue
		}
		for _, c := range p.Description.Capabilities {
			b.register(p, c, claimed[[2]string{p.Name, c.ID}])
		}
	}
	b.notGiven = b.absences(claimed)
}

// claim records that a capability block refers to an advertised capability.
func (b *builder) claim(s *section, claimed map[[2]string]*section) {
	b.capNames[s.label()] = true // also if no plugin serves it; that is reported here
	name := s.text("plugin")
	if name == "" {
		return
	}
	p, ok := b.plugins[name]
	if !ok {
		b.dangling(s, "plugin", "plugin", name, slices.Sorted(maps.Keys(b.plugins)), s.attrs["plugin"].rng)
		return
	}
	advertised := s.text("provides")
	at := s.attrs["provides"].rng
	if advertised == "" {
		advertised, at = s.label(), s.at()
	}
	key := [2]string{name, advertised}
	if first := claimed[key]; first != nil {
		b.report.add(Diagnostic{
			Type:    "config/duplicate",
			Message: fmt.Sprintf("two blocks configure capability %s of plugin %s", quote(advertised), quote(name)),
			Range:   s.at(),
			Path:    s.node.path,
			Related: []Related{{Range: first.at(), Message: "is the first one"}},
			Hint:    "keep one of the two",
		})
		return
	}
	claimed[key] = s
	if advertised != s.label() && s.flag("enabled") && b.renames[advertised] == nil {
		b.renames[advertised] = s
	}
	if !p.Described || !p.Enabled || s.node.damaged {
		return // a reference to an absent optional plugin is valid
	}
	ids := make([]string, len(p.Description.Capabilities))
	for i, c := range p.Description.Capabilities {
		ids[i] = c.ID
	}
	if !slices.Contains(ids, advertised) {
		d := Diagnostic{
			Type:     "config/dangling-reference",
			Message:  fmt.Sprintf("plugin %s advertises no capability %s", quote(name), quote(advertised)),
			Range:    at,
			Path:     append(slices.Clone(s.node.path), "provides"),
			Expected: words(ids),
			Found:    edn.Text(advertised),
			Nearest:  nearest(advertised, ids),
			Related:  []Related{{Range: b.place("plugin", name), Message: "declares plugin " + quote(name)}},
		}
		if advertised == s.label() && d.Nearest == "" {
			d = b.decoder.root.misnamed(s.node, d)
		}
		b.report.add(d)
	}
}

func (b *builder) place(block, label string) *Range { return b.places[[2]string{block, label}] }

func (b *builder) register(p *Plugin, advertised contract.Capability, s *section) {
	c := registry.Capability{Capability: advertised, Plugin: p.Name, Advertised: advertised.ID}
	if tool, ok := contract.ToolNamed(advertised.ID); ok && tool.ID == advertised.ID {
		c.Confines = p.Description.Name == ToolsPlugin
	}
	at := b.place("plugin", p.Name)
	if s != nil {
		at = s.at()
		c.ID, c.Where = s.label(), s.where()
		if !s.flag("enabled") {
			return
		}
		b.narrow(&c, s)
	}
	if c.Stability == "deprecated" {
		b.report.add(Diagnostic{
			Type:     "config/deprecated",
			Severity: SeverityWarning,
			Message:  fmt.Sprintf("capability %s of plugin %s is deprecated by its author", quote(c.ID), quote(p.Name)),
			Range:    at,
			Path:     []string{"plugin", p.Name},
		})
	}
	if c.Stability == "experimental" && b.config.Host.MinStability == "stable" {
		return
	}
	if first := b.capPlace[c.ID]; first != nil {
		if b.report.doubtful("capability") {
			return // the block that renames it may be the broken one
		}
		other := ""
		for _, x := range b.caps {
			if x.ID == c.ID {
				other = x.Plugin
			}
		}
		b.report.fold("plugins "+other+" "+p.Name, Diagnostic{
			Type: "config/duplicate",
			Message: fmt.Sprintf("capability %s is given by plugin %s and by plugin %s", quote(c.ID), quote(other),
				quote(p.Name)),
			Range:   at,
			Path:    []string{"capability", c.ID},
			Related: []Related{{Range: first, Message: "gives it first"}},
			Hint: fmt.Sprintf("rename one by a block: capability \"NS/NAME\" with plugin = %q and provides = %q",
				p.Name, c.Advertised),
		})
		return
	}
	b.capPlace[c.ID] = at
	b.capNames[c.ID] = true
	b.caps = append(b.caps, c)
}

// narrow applies a capability block. It may lower limits and remove effects,
// never raise or add them.
func (b *builder) narrow(c *registry.Capability, s *section) {
	if tags, ok := s.texts("tags"); ok {
		c.Tags = slices.Sorted(slices.Values(tags))
	}
	if effects, ok := s.texts("effects"); ok {
		for i, e := range effects {
			if e != registry.NoEffect && !slices.Contains(c.Effects, e) {
				b.report.add(Diagnostic{
					Type: "config/range",
					Message: fmt.Sprintf("capability %s does not have the effect %s: a block can only restrict effects",
						quote(c.ID), quote(e)),
					Range:    s.attrs["effects"].items[i].rng,
					Path:     append(slices.Clone(s.node.path), "effects"),
					Expected: words(c.Effects),
					Found:    edn.Text(e),
				})
			}
		}
		c.Effects = slices.Sorted(slices.Values(effects))
	}
	if s.written("role") {
		c.Role = s.text("role")
	}
	c.Breaker = b.breakerRules(s)
	cost, limits := s.block("cost"), s.block("limits")
	if cost.written("latency") {
		c.Cost.Latency, c.Cost.HasLatency = cost.duration("latency"), true
	}
	if cost.written("usd") {
		c.Cost.USD = cost.attrs["usd"].v
	}
	if limits.written("timeout") {
		b.lower(limits, "timeout", c.Limits.Timeout > 0 && limits.duration("timeout") > c.Limits.Timeout,
			formatDuration(c.Limits.Timeout.Milliseconds()))
		c.Limits.Timeout = limits.duration("timeout")
	}
	if limits.written("max_in_flight") {
		b.lower(limits, "max_in_flight", c.Limits.MaxInFlight > 0 &&
			limits.integer("max_in_flight") > c.Limits.MaxInFlight, fmt.Sprint(c.Limits.MaxInFlight))
		c.Limits.MaxInFlight = limits.integer("max_in_flight")
	}
}

func (b *builder) lower(s *section, name string, raised bool, limit string) {
	if raised {
		b.report.add(Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("%s in %s exceeds the limit that the plugin advertises", name, s.node.title()),
			Range:    s.attrs[name].rng,
			Path:     append(slices.Clone(s.node.path), name),
			Expected: edn.Text("at most " + limit),
			Found:    edn.Text(shownAs(s, name)),
		})
	}
}

// renamed reports a reference to an advertised id that a block renamed.
func (b *builder) renamed(s *section, attr, id string, by *section, at *Range) {
	b.report.add(Diagnostic{
		Type:    "config/dangling-reference",
		Message: fmt.Sprintf("%s names capability %s, which has another name here", s.node.title(), quote(id)),
		Range:   at,
		Path:    append(slices.Clone(s.node.path), attr),
		Found:   edn.Text(id),
		Nearest: by.label(),
		Related: []Related{{Range: by.at(), Message: "renames it to " + quote(by.label())}},
	})
}

// dangling reports a reference to an unknown name.
func (b *builder) dangling(s *section, attr, kind, name string, known []string, at *Range) {
	if b.report.doubts(kind, name) {
		return
	}
	near := nearest(name, known)
	other, place := b.kindOfLabel(name)
	if place != nil && contract.Nearest(name, known) == "" {
		near = "" // it begins like one
	}
	d := Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("%s names the unknown %s %s", s.node.title(), kind, quote(name)),
		Range:    at,
		Path:     append(slices.Clone(s.node.path), attr),
		Expected: choices(kind, name, known),
		Found:    edn.Text(name),
		Nearest:  near,
	}
	if near != "" {
		if place := b.place(kind, near); place != nil {
			d.Related = []Related{{Range: place, Message: fmt.Sprintf("declares %s %s", kind, quote(near))}}
		}
	} else if off := b.disabled(name); off != nil && slices.Contains([]string{"capability", "intent", "schema"}, kind) {
		d.Hint = fmt.Sprintf("plugin %s is disabled: set enabled = true if it gives %s", quote(off.Name), quote(name))
		d.Related = []Related{{
			Range:   b.place("plugin", off.Name),
			Message: "declares the disabled plugin " + quote(off.Name),
		}}
	} else if place != nil {
		d.Hint = fmt.Sprintf("%s is a %s: write the name of a %s", quote(name), other, kind)
		d.Related = []Related{{Range: place, Message: fmt.Sprintf("declares %s %s", other, quote(name))}}
	} else if strings.Contains(name, "*") {
		d.Hint = "write each name: there are no patterns here"
	}
	b.report.fold("reference "+kind+" "+name, d)
}

// kindOfLabel returns the type and the place of the block with a label; nil if there is no such block.
func (b *builder) kindOfLabel(label string) (string, *Range) {
	for i := range Specification().Blocks {
		kind := Specification().Blocks[i].Name
		if place := b.place(kind, label); place != nil {
			return kind, place
		}
	}
	return "", nil
}

// disabled returns the disabled plugin that may define a name: the plugin named like its namespace, else the only
// disabled one; nil if there is none. The names of a disabled plugin are unknown.
func (b *builder) disabled(name string) *Plugin {
	space, _, _ := strings.Cut(name, "/")
	var off []*Plugin
	for i := range b.config.Plugins {
		if p := &b.config.Plugins[i]; !p.Enabled {
			if p.Name == space {
				return p
			}
			off = append(off, p)
		}
	}
	if len(off) != 1 {
		return nil
	}
	return off[0]
}

// choices returns the names that a reference may use: all if they are few, else those of its namespace, else a count.
func choices(kind, name string, known []string) edn.Value {
	const most = 16
	space, _, _ := strings.Cut(name, "/")
	related := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasPrefix(k, space+"/") })
	switch {
	case len(known) == 0:
		return edn.Text("nothing: there is no " + kind)
	case len(known) <= most:
		return words(known)
	case len(related) > 0 && len(related) <= most:
		return words(related)
	}
	return edn.Text(fmt.Sprintf("one of the %d names of %s", len(known), article(kind)))
}

func (b *builder) use(block, label string) {
	if b.used[block] == nil {
		b.used[block] = map[string]bool{}
	}
	b.used[block][label] = true
}

// collectSchemas joins built-in, advertised and declared schemas (SCH-014).
func (b *builder) collectSchemas() {
	from := map[string]string{}
	builtin := schema.Builtin()
	for i := range b.config.Plugins {
		p := &b.config.Plugins[i]
		for _, name := range slices.Sorted(maps.Keys(p.Description.Schemas)) {
			if b.givesWay(p.Name, name) {
				continue
			}
			spec := p.Description.Schemas[name]
			b.advertised(p, name, spec, from, builtin)
		}
	}
	for _, s := range b.all("schema") {
		b.declared(s, from, builtin)
	}
	b.compileSchemas(builtin)
}

// compileSchemas compiles all schemas together because they may refer to each
// other. Schemas that fail are reported at their owner and omitted.
func (b *builder) compileSchemas(builtin map[string]edn.Value) {
	compiled, err := schema.NewRegistry(b.schemas)
	b.compiled = compiled
	var wrong *schema.CompileError
	if !errors.As(err, &wrong) {
		return
	}
	blocks := byLabel(b.all("schema"))
	if b.withoutOptional(wrong.Problems, blocks) {
		b.compileSchemas(builtin)
		return
	}
	for _, p := range wrong.Problems {
		message := p.Message
		if len(p.Path) > 0 {
			message += " at " + edn.Vector(p.Path...).String()
		}
		d := Diagnostic{
			Type:    "config/type",
			Message: fmt.Sprintf("schema %s is invalid: %s", quote(p.Schema), short(message)),
			Path:    []string{"schema", p.Schema},
			Hint:    p.Hint,
		}
		if s, ok := blocks[p.Schema]; ok {
			spec := s.attrs["spec"]
			d.Range, d.Path = spec.within(p.Path), append(d.Path, "spec")
			if spec.v.Kind() == edn.KindString {
				d.Hint = `a form is EDN and no text: write spec = edn("[:map ...]")`
			}
			if *d.Range != *spec.rng {
				d.Message = fmt.Sprintf("schema %s is invalid: %s", quote(p.Schema), short(p.Message)) // the diagnostic shows the place
			}
		} else if owner := b.schemaOwner(p.Schema); owner != nil {
			d.Range = b.place("plugin", owner.Name)
			d.Message = fmt.Sprintf("plugin %s: %s", quote(owner.Name), d.Message)
			b.defect(owner, d)
			continue
		}
		b.report.add(d)
	}
	b.compiled, _ = schema.NewRegistry(builtin)
}

// withoutOptional reports the schemas of optional plugins that do not compile and
// replaces them with a schema that accepts everything; these plugins are not
// started. It reports whether there are any.
func (b *builder) withoutOptional(problems []schema.Problem, blocks map[string]*section) (any bool) {
	for _, p := range problems {
		owner := b.schemaOwner(p.Schema)
		if _, own := blocks[p.Schema]; own || owner == nil || !owner.Optional {
			continue
		}
		b.defect(owner, Diagnostic{
			Message: fmt.Sprintf("plugin %s cannot be used: schema %s is invalid: %s", quote(owner.Name),
				quote(p.Schema), short(p.Message)),
			Range: b.place("plugin", owner.Name),
			Path:  []string{"schema", p.Schema},
			Hint:  "this is a defect of the plugin",
		})
		b.schemas[p.Schema], any = edn.K("any"), true
	}
	return any
}

func (b *builder) schemaOwner(name string) *Plugin {
	for i := range b.config.Plugins {
		if _, ok := b.config.Plugins[i].Description.Schemas[name]; ok {
			return &b.config.Plugins[i]
		}
	}
	return nil
}

func (b *builder) advertised(p *Plugin, name string, spec edn.Value, from map[string]string,
	builtin map[string]edn.Value) {
	other, taken := from[name]
	if !taken {
		if _, ok := builtin[name]; ok {
			other, taken = "the host", true
		}
	}
	if !taken {
		from[name] = "plugin " + quote(p.Name)
		b.schemas[name] = spec
		return
	}
	if edn.Equal(b.schemas[name], spec) {
		return
	}
	if _, overridden := byLabel(b.all("schema"))[name]; overridden {
		return
	}
	b.report.add(Diagnostic{
		Type: "config/duplicate",
		Message: fmt.Sprintf("plugin %s and %s advertise different schemas under the name %s", quote(p.Name), other,
			quote(name)),
		Range: b.place("plugin", p.Name),
		Path:  []string{"schema", name},
		Hint:  fmt.Sprintf("decide with a block: schema %q { spec = edn(\"...\") }", name),
	})
}

func (b *builder) declared(s *section, from map[string]string, builtin map[string]edn.Value) {
	spec, ok := s.attrs["spec"]
	if !ok {
		return
	}
	who := from[s.label()]
	if _, isBuiltin := builtin[s.label()]; isBuiltin {
		who = "the host"
	}
	if who != "" {
		b.use("schema", s.label())
		b.report.add(Diagnostic{
			Type:     "config/overridden",
			Severity: SeverityInfo,
			Message:  fmt.Sprintf("schema %s is used instead of that of %s", quote(s.label()), who),
			Range:    s.at(),
			Path:     s.node.path,
		})
	}
	b.schemas[s.label()] = formOf(spec.v)
}

// formOf returns the schema form of nested lists of strings in HCL. A single
// string is returned as it is, and compileSchemas reports it: EDN requires
// edn("..").
func formOf(spec edn.Value) edn.Value {
	if !spec.IsVector() {
		return spec
	}
	form, _ := schema.ReadForm(spec) // fails for a single string
	return form
}

func (b *builder) generation() {
	packs := b.languagePacks()
	b.builtins, _ = quality.NewSet()
	checks := b.compileChecks()
	judges := b.compileJudges()
	book := &policy.Book{Intents: map[string]policy.Layer{}}
	book.Builtin.Must = policy.NamesOf(policy.Origin{Source: policy.SourceBuiltin}, quality.SchemaValid)
	if d, ok := b.dispatch["default"]; ok {
		book.Default = b.dispatchLayer(d, policy.SourceDefault)
		b.use("dispatch", "default")
	}
	b.pluginQuality()
	var intents []registry.Intent
	for _, s := range b.all("intent") {
		intents = append(intents, b.intent(s, book))
	}
	b.cross(book, intents)
	effects := b.effects()
	budgets := b.budgets(book)
	prompts := b.prompts()
	b.gateRings()
	b.unusedBlocks()
	b.plain(judges, book)
	b.believed(judges)
	set, err := quality.NewSetIn(b.languages, checks...)
	if err != nil {
		return // reported at the check block
	}
	reg, err := registry.New(registry.Spec{
		Capabilities: b.caps,
		Absent:       b.notGiven,
		Intents:      intents,
		Checks:       set.Declarations(),
		Judges:       judges,
		Schemas:      b.compiled,
	})
	if err != nil {
		return
	}
	b.config.Generation = &Generation{
		Registry: reg,
		Checks:   set,
		Policies: book,
		Effects:  effects,
		Budgets:  budgets,
		Prompts:  prompts,
		Packs:    packs,
	}
}

// dispatchLayer returns the policy layer of a dispatch block.
func (b *builder) dispatchLayer(s *section, source policy.Source) policy.Layer {
	var l policy.Layer
	origin := func(v value) policy.Origin { return policy.Origin{Source: source, Where: v.rng.String()} }
	if v := s.attrs["policy"]; v.written {
		l.Ordering = policy.Of(s.text("policy"), origin(v))
	}
	if v := s.attrs["strategy"]; v.written {
		l.Strategy = policy.Of(s.text("strategy"), origin(v))
	}
	if v := s.attrs["deadline"]; v.written {
		l.Deadline = policy.Of(s.duration("deadline"), origin(v))
	}
	if members, ok := s.texts("switch_on"); ok {
		from := origin(s.attrs["switch_on"])
		l.SwitchOn.Add = policy.Of(policy.NamesOf(from, members...), from)
	}
	if members, ok := s.texts("switch_on_replace"); ok {
		from := origin(s.attrs["switch_on_replace"])
		l.SwitchOn.Base = policy.Of(policy.NamesOf(from, members...), from)
	}
	b.idleSwitches(s)
	if v := s.attrs["fallback_to"]; v.written {
		l.Fallbacks = policy.NamesOf(origin(v), b.capabilityRefs(s, "fallback_to")...)
	}
	b.checksOf(&l, s, source)
	r := s.block("retry")
	for name, to := range map[string]*policy.Val[int]{"same_capability": &l.SameCapMax, "fallback": &l.FallbackMax} {
		if v := r.attrs[name]; v.written {
			*to = policy.Of(r.integer(name), origin(v))
		}
	}
	for name, to := range map[string]*policy.Val[time.Duration]{"backoff": &l.Backoff, "max_backoff": &l.MaxBackoff} {
		if v := r.attrs[name]; v.written {
			*to = policy.Of(r.duration(name), origin(v))
		}
	}
	b.ordered(r, "backoff", "max_backoff", false)
	for _, side := range []struct {
		block, attr string
		to          *policy.Val[int]
	}{{"repair", "max", &l.RepairMax}, {"race", "width", &l.RaceWidth}, {"tournament", "width", &l.TournamentWidth},
		{"hedge", "max", &l.HedgeMax}} {
		if in := s.block(side.block); in.attrs[side.attr].written {
			*side.to = policy.Of(in.integer(side.attr), origin(in.attrs[side.attr]))
		}
	}
	l.Breaker = b.breakerRules(s)
	if hedge := s.block("hedge"); hedge.attrs["after"].written {
		l.HedgeAfter = policy.Of(hedge.duration("after"), origin(hedge.attrs["after"]))
	}
	return l
}

// idleSwitches warns about members that no failure can match.
func (b *builder) idleSwitches(s *section) {
	for _, name := range []string{"switch_on", "switch_on_replace"} {
		members, _ := s.texts(name)
		for i, m := range members {
			set, err := policy.ParseSwitchSet([]string{m})
			if err == nil && len(set.Idle()) > 0 {
				b.report.add(Diagnostic{
					Type:     "config/unused",
					Severity: SeverityWarning,
					Message: fmt.Sprintf("%s in %s never leads to another attempt: an error of that type ends the call",
						quote(m), s.node.title()),
					Range: s.attrs[name].items[i].rng,
					Path:  append(slices.Clone(s.node.path), name),
				})
			}
		}
	}
}

func (b *builder) checksOf(l *policy.Layer, s *section, source policy.Source) {
	if v := s.attrs["checks"]; v.written {
		from := policy.Origin{Source: source, Where: v.rng.String()}
		l.Checks.Add = policy.Of(policy.NamesOf(from, b.checkRefs(s, "checks")...), from)
	}
}

// checkRefs resolves names of checks.
func (b *builder) checkRefs(s *section, attr string) []string {
	var out []string
	v := s.attrs[attr]
	for _, item := range v.items {
		name, _ := item.v.AsString()
		b.use("check", name)
		if _, ok := b.checks[name]; !ok && !b.isBuiltinCheck(name) {
			b.dangling(s, attr, "check", name, b.checkNames(), item.rng)
			continue
		}
		b.boundRef(s, attr, name, item.rng)
		out = append(out, name)
	}
	return out
}

// boundRef reports a built-in check whose intent has no capability: it can never pass.
func (b *builder) boundRef(s *section, attr, name string, at *Range) {
	intent := b.asked(name)
	if _, rebound := b.checks[name]; rebound || intent == "" || b.intentKnown(intent) {
		return
	}
	b.report.fold("check "+name, Diagnostic{
		Type: "config/dangling-reference",
		Message: fmt.Sprintf("%s names check %s, but no plugin serves its intent %s", s.node.title(), quote(name),
			quote(intent)),
		Range:    at,
		Path:     append(slices.Clone(s.node.path), attr),
		Expected: edn.Text("a plugin that serves " + intent),
		Hint:     fmt.Sprintf("add the plugin, or a block check %s that asks another intent", quote(name)),
	})
}

func (b *builder) checkNames() []string {
	names := slices.Collect(maps.Keys(b.checks))
	for _, c := range b.builtins.Declarations() {
		names = append(names, c.Name)
	}
	for _, c := range boundChecks {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *builder) isBuiltinCheck(name string) bool {
	_, ok := b.builtins.Check(name)
	return ok || slices.ContainsFunc(boundChecks, func(c boundCheck) bool { return c.name == name })
}

// capabilityRefs resolves ids of capabilities.
func (b *builder) capabilityRefs(s *section, attr string) []string {
	var out []string
	for _, item := range s.attrs[attr].items {
		if id, _ := item.v.AsString(); b.isCapability(s, attr, id, item.rng) {
			out = append(out, id)
		}
	}
	return out
}

// capabilityRef resolves one capability id; empty if it is unknown.
func (b *builder) capabilityRef(s *section, attr string) string {
	if id := s.text(attr); b.isCapability(s, attr, id, s.attrs[attr].rng) {
		return id
	}
	return ""
}

func (b *builder) isCapability(s *section, attr, id string, at *Range) bool {
	if b.capNames[id] || b.blind {
		return true
	}
	if r := b.renames[id]; r != nil {
		b.renamed(s, attr, id, r, at)
	} else {
		b.dangling(s, attr, "capability", id, slices.Sorted(maps.Keys(b.capNames)), at)
	}
	return false
}
