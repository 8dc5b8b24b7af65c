package build

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
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
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
	Access   *policy.Access
	Identity *identity.Settings
	Budgets  *policy.Budgets // nil: no limits
	Prompts  *prompt.Book
	Routing  *routing.Settings
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
	*plugins.Reader
	settings Settings
	plugins  map[string]*plugins.Plugin
	blind    bool // a plugin was not described and may define unknown names
	caps     []registry.Capability
	notGiven []registry.Absent
	capPlace map[string]*diag.Range
	capNames map[string]bool
	renames  map[string]*decode.Section // advertised id -> block that renames it
	schemas  map[string]edn.Value
	adopted  []adoption
	compiled *schema.Registry
	checks   map[string]*decode.Section
	builtins *quality.Set
	intents  map[string]*decode.Section
	dispatch map[string]*decode.Section
	judges   map[string]*decode.Section
	used     map[string]map[string]bool // block type -> label
	places   map[[2]string]*diag.Range  // block type and label -> its header
	// languages are the language packs in use; nil: the shipped ones.
	languages *rules.Packs
}

// Settings are the settings of the host that the generation depends on.
type Settings struct {
	MinStability string
	// Kept are paths that no effect may access, besides the data directory.
	Kept []string
}

// New builds the generation from the blocks and the plugins; nil if they have errors
// that prevent it.
func New(r *plugins.Reader, settings Settings) *Generation {
	b := &builder{
		Reader:   r,
		settings: settings,
		plugins:  map[string]*plugins.Plugin{},
		capPlace: map[string]*diag.Range{},
		capNames: map[string]bool{},
		renames:  map[string]*decode.Section{},
		schemas:  schema.Builtin(),
		checks:   byLabel(r.All("check")),
		intents:  byLabel(r.All("intent")),
		dispatch: byLabel(r.All("dispatch")),
		judges:   byLabel(r.All("judge")),
		used:     map[string]map[string]bool{},
		places:   map[[2]string]*diag.Range{},
	}
	for block, all := range r.ByType {
		for _, s := range all {
			b.places[[2]string{block, s.Label()}] = s.At()
		}
	}
	b.limits()
	b.indexPlugins()
	b.capabilities()
	b.namedByPlugins()
	b.adopted = b.adoptions()
	b.collectSchemas()
	b.adopt()
	return b.generation()
}

func byLabel(blocks []*decode.Section) map[string]*decode.Section {
	out := make(map[string]*decode.Section, len(blocks))
	for _, s := range blocks {
		out[s.Label()] = s
	}
	return out
}

// limits rejects more blocks of a type than the host supports.
func (b *builder) limits() {
	for _, x := range []struct {
		block string
		most  int
	}{{"plugin", MaxPlugins}, {"capability", MaxCapabilities}, {"human", MaxCapabilities}, {"intent", MaxIntents}, {"check", MaxNamed},
		{"schema", MaxNamed}, {"judge", MaxNamed}, {"rubric", MaxNamed}} {
		if all := b.All(x.block); len(all) > x.most {
			b.Report.Add(diag.Diagnostic{
				Type:    "config/limit",
				Message: fmt.Sprintf("%d %s blocks, over the limit of %d", len(all), x.block, x.most),
				Range:   all[x.most].At(),
				Path:    all[x.most].Node.Path,
			})
		}
		b.similar(x.block)
	}
	b.similar("dispatch")
}

// similar warns about labels that differ only in - and _.
func (b *builder) similar(block string) {
	seen := map[string]*decode.Section{}
	for _, s := range b.All(block) {
		key := strings.ReplaceAll(s.Label(), "_", "-")
		if first := seen[key]; first != nil {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/duplicate",
				Severity: diag.SeverityWarning,
				Message: fmt.Sprintf("the labels %s and %s differ only in - and _", diag.Quote(first.Label()),
					diag.Quote(s.Label())),
				Range:   s.At(),
				Path:    s.Node.Path,
				Related: []diag.Related{{Range: first.At(), Message: "is the other one"}},
			})
			continue
		}
		seen[key] = s
	}
}

func (b *builder) indexPlugins() {
	for i, s := range b.All("plugin") {
		p := &b.Plugins[i]
		b.pairs(s)
		b.plugins[p.Name] = p
		// The names of an absent optional plugin are known to be missing. Any
		// other plugin without a description may define any name.
		if p.Enabled && !p.Described && (p.Binary != "" || !p.Optional || b.Report.Doubts("plugin", p.Name)) {
			b.blind = true
		}
	}
	for _, block := range []string{"plugin", diag.AnyName} {
		for _, label := range b.Report.PoisonedLabels(block) {
			b.blind = b.blind || b.plugins[label] == nil
		}
	}
}

// pairs checks pairs of values of a plugin block, such as min and max.
func (b *builder) pairs(s *decode.Section) {
	b.ordered(s.Block("restart"), "backoff", "max_backoff", false)
	b.ordered(s.Block("health"), "timeout", "interval", true)
	b.ordered(s.Block("instances"), "min", "max", false)
}

func (b *builder) ordered(s *decode.Section, low, high string, strict bool) {
	x, y := s.Integer(low), s.Integer(high)
	if x < y || x == y && !strict {
		return
	}
	v, name := s.Attrs[low], low
	if !v.Written {
		v, name = s.Attrs[high], high
	}
	if !v.Written {
		return
	}
	word := "at most"
	if strict {
		word = "below"
	}
	limit := s.Attrs[high]
	b.Report.Add(diag.Diagnostic{
		Type:     "config/range",
		Message:  fmt.Sprintf("%s in %s must be %s %s", low, s.Node.Title(), word, high),
		Range:    v.At,
		Path:     append(slices.Clone(s.Node.Path), name),
		Expected: edn.Text(fmt.Sprintf("%s %s %s", low, word, high)),
		Found:    edn.Text(fmt.Sprintf("%s and %s", shownAs(s, low), shownAs(s, high))),
		Related:  otherPlace(limit, v, high),
	})
}

func shownAs(s *decode.Section, name string) string {
	spec, _ := s.Node.Spec.Attr(name)
	v := s.Integer(name)
	if spec.Type.Kind == language.KindDur {
		return language.FormatDuration(int64(v))
	}
	return fmt.Sprint(v)
}

func otherPlace(other, here decode.Value, name string) []diag.Related {
	if !other.Written || other.At == here.At {
		return nil
	}
	return []diag.Related{{Range: other.At, Message: "is " + name}}
}

// capabilities registers the advertised capabilities, renamed and narrowed by
// the capability blocks.
func (b *builder) capabilities() {
	blocks := b.All("capability")
	claimed := map[[2]string]*decode.Section{} // plugin, advertised id
	for _, s := range blocks {
		b.claim(s, claimed)
	}
	for i := range b.Plugins {
		p := &b.Plugins[i]
		if !p.Enabled || !p.Described {
			continue
		}
		for _, c := range p.Description.Capabilities {
			b.register(p, c, claimed[[2]string{p.Name, c.ID}])
		}
	}
	b.humans()
	b.notGiven = b.absences(claimed)
}

// claim records that a capability block refers to an advertised capability.
func (b *builder) claim(s *decode.Section, claimed map[[2]string]*decode.Section) {
	b.capNames[s.Label()] = true // also if no plugin serves it; that is reported here
	name := s.Text("plugin")
	if name == "" {
		return
	}
	p, ok := b.plugins[name]
	if !ok {
		b.dangling(s, "plugin", "plugin", name, slices.Sorted(maps.Keys(b.plugins)), s.Attrs["plugin"].At)
		return
	}
	advertised := s.Text("provides")
	at := s.Attrs["provides"].At
	if advertised == "" {
		advertised, at = s.Label(), s.At()
	}
	key := [2]string{name, advertised}
	if first := claimed[key]; first != nil {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/duplicate",
			Message: fmt.Sprintf("two blocks configure capability %s of plugin %s", diag.Quote(advertised), diag.Quote(name)),
			Range:   s.At(),
			Path:    s.Node.Path,
			Related: []diag.Related{{Range: first.At(), Message: "is the first one"}},
			Hint:    "keep one of the two",
		})
		return
	}
	claimed[key] = s
	if advertised != s.Label() && s.Flag("enabled") && b.renames[advertised] == nil {
		b.renames[advertised] = s
	}
	if !p.Described || !p.Enabled || s.Node.Damaged {
		return // a reference to an absent optional plugin is valid
	}
	ids := make([]string, len(p.Description.Capabilities))
	for i, c := range p.Description.Capabilities {
		ids[i] = c.ID
	}
	if !slices.Contains(ids, advertised) {
		d := diag.Diagnostic{
			Type:     "config/dangling-reference",
			Message:  fmt.Sprintf("plugin %s advertises no capability %s", diag.Quote(name), diag.Quote(advertised)),
			Range:    at,
			Path:     append(slices.Clone(s.Node.Path), "provides"),
			Expected: diag.Words(ids),
			Found:    edn.Text(advertised),
			Nearest:  diag.Nearest(advertised, ids),
			Related:  []diag.Related{{Range: b.place("plugin", name), Message: "declares plugin " + diag.Quote(name)}},
		}
		if advertised == s.Label() && d.Nearest == "" {
			d = b.Decoder.Root.Misnamed(s.Node, d)
		}
		b.Report.Add(d)
	}
}

func (b *builder) place(block, label string) *diag.Range { return b.places[[2]string{block, label}] }

func (b *builder) register(p *plugins.Plugin, advertised contract.Capability, s *decode.Section) {
	c := registry.Capability{Capability: advertised, Plugin: p.Name, Advertised: advertised.ID, Operations: p.Operations}
	if tool, ok := contract.ToolNamed(advertised.ID); ok && tool.ID == advertised.ID {
		c.Confines = p.Description.Name == plugins.ToolsPlugin
	}
	at := b.place("plugin", p.Name)
	if s != nil {
		at = s.At()
		c.ID, c.Where = s.Label(), s.Where()
		if !s.Flag("enabled") {
			return
		}
		b.narrow(&c, s)
	}
	if c.Stability == "deprecated" {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/deprecated",
			Severity: diag.SeverityWarning,
			Message: fmt.Sprintf("capability %s of plugin %s is deprecated by its author", diag.Quote(c.ID),
				diag.Quote(p.Name)),
			Range: at,
			Path:  []string{"plugin", p.Name},
		})
	}
	if c.Stability == "experimental" && b.settings.MinStability == "stable" {
		return
	}
	if first := b.capPlace[c.ID]; first != nil {
		if b.Report.Doubtful("capability") {
			return // the block that renames it may be the broken one
		}
		other := ""
		for _, x := range b.caps {
			if x.ID == c.ID {
				other = x.Plugin
			}
		}
		b.Report.Fold("plugins "+other+" "+p.Name, diag.Diagnostic{
			Type: "config/duplicate",
			Message: fmt.Sprintf("capability %s is given by plugin %s and by plugin %s", diag.Quote(c.ID), diag.Quote(other),
				diag.Quote(p.Name)),
			Range:   at,
			Path:    []string{"capability", c.ID},
			Related: []diag.Related{{Range: first, Message: "gives it first"}},
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
func (b *builder) narrow(c *registry.Capability, s *decode.Section) {
	if tags, ok := s.Texts("tags"); ok {
		c.Tags = slices.Sorted(slices.Values(tags))
	}
	if effects, ok := s.Texts("effects"); ok {
		for i, e := range effects {
			if e != registry.NoEffect && !slices.Contains(c.Effects, e) {
				b.Report.Add(diag.Diagnostic{
					Type: "config/range",
					Message: fmt.Sprintf("capability %s does not have the effect %s: a block can only restrict effects",
						diag.Quote(c.ID), diag.Quote(e)),
					Range:    s.Attrs["effects"].Items[i].At,
					Path:     append(slices.Clone(s.Node.Path), "effects"),
					Expected: diag.Words(c.Effects),
					Found:    edn.Text(e),
				})
			}
		}
		c.Effects = slices.Sorted(slices.Values(effects))
	}
	if s.Written("role") {
		c.Role = s.Text("role")
	}
	c.Breaker = b.breakerRules(s)
	cost, limits := s.Block("cost"), s.Block("limits")
	if cost.Written("latency") {
		c.Cost.Latency, c.Cost.HasLatency = cost.Duration("latency"), true
	}
	if cost.Written("usd") {
		c.Cost.USD = cost.Attrs["usd"].EDN
	}
	if limits.Written("timeout") {
		b.lower(limits, "timeout", c.Limits.Timeout > 0 && limits.Duration("timeout") > c.Limits.Timeout,
			language.FormatDuration(c.Limits.Timeout.Milliseconds()))
		c.Limits.Timeout = limits.Duration("timeout")
	}
	if limits.Written("max_in_flight") {
		b.lower(limits, "max_in_flight", c.Limits.MaxInFlight > 0 &&
			limits.Integer("max_in_flight") > c.Limits.MaxInFlight, fmt.Sprint(c.Limits.MaxInFlight))
		c.Limits.MaxInFlight = limits.Integer("max_in_flight")
	}
}

func (b *builder) lower(s *decode.Section, name string, raised bool, limit string) {
	if raised {
		b.Report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("%s in %s exceeds the limit that the plugin advertises", name, s.Node.Title()),
			Range:    s.Attrs[name].At,
			Path:     append(slices.Clone(s.Node.Path), name),
			Expected: edn.Text("at most " + limit),
			Found:    edn.Text(shownAs(s, name)),
		})
	}
}

// renamed reports a reference to an advertised id that a block renamed.
func (b *builder) renamed(s *decode.Section, attr, id string, by *decode.Section, at *diag.Range) {
	b.Report.Add(diag.Diagnostic{
		Type:    "config/dangling-reference",
		Message: fmt.Sprintf("%s names capability %s, which has another name here", s.Node.Title(), diag.Quote(id)),
		Range:   at,
		Path:    append(slices.Clone(s.Node.Path), attr),
		Found:   edn.Text(id),
		Nearest: by.Label(),
		Related: []diag.Related{{Range: by.At(), Message: "renames it to " + diag.Quote(by.Label())}},
	})
}

// dangling reports a reference to an unknown name.
func (b *builder) dangling(s *decode.Section, attr, kind, name string, known []string, at *diag.Range) {
	if b.Report.Doubts(kind, name) {
		return
	}
	near := diag.Nearest(name, known)
	other, place := b.kindOfLabel(name)
	if place != nil && contract.Nearest(name, known) == "" {
		near = "" // it begins like one
	}
	d := diag.Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("%s names the unknown %s %s", s.Node.Title(), kind, diag.Quote(name)),
		Range:    at,
		Path:     append(slices.Clone(s.Node.Path), attr),
		Expected: choices(kind, name, known),
		Found:    edn.Text(name),
		Nearest:  near,
	}
	off := b.disabled(name)
	if off != nil && (near == "" || off.Name == namespace(name)) &&
		slices.Contains([]string{"capability", "intent", "schema"}, kind) {
		b.blame(off, kind, name, d)
		return
	}
	if near != "" {
		if place := b.place(kind, near); place != nil {
			d.Related = []diag.Related{{Range: place, Message: fmt.Sprintf("declares %s %s", kind, diag.Quote(near))}}
		}
	} else if place != nil {
		d.Hint = fmt.Sprintf("%s is a %s: write the name of a %s", diag.Quote(name), other, kind)
		d.Related = []diag.Related{{Range: place, Message: fmt.Sprintf("declares %s %s", other, diag.Quote(name))}}
	} else if strings.Contains(name, "*") {
		d.Hint = "write each name: there are no patterns here"
	}
	b.Report.Fold("reference "+kind+" "+name, d)
}

// kindOfLabel returns the type and the place of the block with a label; nil if there is no such block.
func (b *builder) kindOfLabel(label string) (string, *diag.Range) {
	for i := range language.Specification().Blocks {
		kind := language.Specification().Blocks[i].Name
		if place := b.place(kind, label); place != nil {
			return kind, place
		}
	}
	return "", nil
}

// blame reports a missing name that a disabled plugin may define. All names that the plugin may define are one mistake.
func (b *builder) blame(off *plugins.Plugin, kind, name string, d diag.Diagnostic) {
	again := fmt.Sprintf("names %s %s", kind, diag.Quote(name))
	d.Message = fmt.Sprintf("%s, and plugin %s is disabled", d.Message, diag.Quote(off.Name))
	d.Hint = fmt.Sprintf("set enabled = true in plugin %s if it gives %s", diag.Quote(off.Name), diag.Quote(name))
	if near := diag.DidYouMean(d.Nearest); near != "" {
		d.Hint += "; else " + near
	}
	d.Expected, d.Found = edn.Nil(), edn.Nil()
	at := b.place("plugin", off.Name)
	for _, s := range b.All("plugin") {
		if s.Label() == off.Name && s.Written("enabled") {
			at = s.Attrs["enabled"].At
		}
	}
	d.Related = []diag.Related{{Range: at, Message: "disables plugin " + diag.Quote(off.Name)}}
	b.Report.Gather("disabled plugin "+off.Name, d, diag.Related{Range: d.Range, Message: again + " as well"})
}

func namespace(name string) string {
	space, _, _ := strings.Cut(name, "/")
	return space
}

// disabled returns the disabled plugin that may define a name: the plugin named like its namespace or another word of
// it, else the only disabled one; nil if there is none. The names of a disabled plugin are unknown.
func (b *builder) disabled(name string) *plugins.Plugin {
	var off, alike []*plugins.Plugin
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("/.+", r) })
	for i := range b.Plugins {
		p := &b.Plugins[i]
		switch {
		case p.Enabled:
		case p.Name == namespace(name):
			return p
		case slices.Contains(words, p.Name):
			alike = append(alike, p)
		default:
			off = append(off, p)
		}
	}
	for _, found := range [][]*plugins.Plugin{alike, off} {
		if len(found) == 1 {
			return found[0]
		}
	}
	return nil
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
		return diag.Words(known)
	case len(related) > 0 && len(related) <= most:
		return diag.Words(related)
	}
	return edn.Text(fmt.Sprintf("one of the %d names of %s", len(known), diag.Article(kind)))
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
	for i := range b.Plugins {
		p := &b.Plugins[i]
		for _, name := range slices.Sorted(maps.Keys(p.Description.Schemas)) {
			if b.givesWay(p.Name, name) {
				continue
			}
			spec := p.Description.Schemas[name]
			b.advertised(p, name, spec, from, builtin)
		}
	}
	for _, s := range b.All("schema") {
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
	blocks := byLabel(b.All("schema"))
	if b.withoutOptional(wrong.Problems, blocks) {
		b.compileSchemas(builtin)
		return
	}
	for _, p := range wrong.Problems {
		message := p.Message
		if len(p.Path) > 0 {
			message += " at " + edn.Vector(p.Path...).String()
		}
		d := diag.Diagnostic{
			Type:    "config/type",
			Message: fmt.Sprintf("schema %s is invalid: %s", diag.Quote(p.Schema), diag.Sentence(message)),
			Path:    []string{"schema", p.Schema},
			Hint:    p.Hint,
		}
		if s, ok := blocks[p.Schema]; ok {
			spec := s.Attrs["spec"]
			d.Range, d.Path = spec.Within(p.Path), append(d.Path, "spec")
			if spec.EDN.Kind() == edn.KindString {
				d.Hint = `a form is EDN and no text: write spec = edn("[:map ...]")`
			}
			if *d.Range != *spec.At {
				// The diagnostic shows the place.
				d.Message = fmt.Sprintf("schema %s is invalid: %s", diag.Quote(p.Schema), diag.Sentence(p.Message))
			}
		} else if owner := b.schemaOwner(p.Schema); owner != nil {
			d.Range = b.place("plugin", owner.Name)
			d.Message = fmt.Sprintf("plugin %s: %s", diag.Quote(owner.Name), d.Message)
			b.Defect(owner, d)
			continue
		}
		b.Report.Add(d)
	}
	b.compiled, _ = schema.NewRegistry(builtin)
}

// withoutOptional reports the schemas of optional plugins that do not compile and
// replaces them with a schema that accepts everything; these plugins are not
// started. It reports whether there are any.
func (b *builder) withoutOptional(problems []schema.Problem, blocks map[string]*decode.Section) (any bool) {
	for _, p := range problems {
		owner := b.schemaOwner(p.Schema)
		if _, own := blocks[p.Schema]; own || owner == nil || !owner.Optional {
			continue
		}
		b.Defect(owner, diag.Diagnostic{
			Message: fmt.Sprintf("plugin %s cannot be used: schema %s is invalid: %s", diag.Quote(owner.Name),
				diag.Quote(p.Schema), diag.Sentence(p.Message)),
			Range: b.place("plugin", owner.Name),
			Path:  []string{"schema", p.Schema},
			Hint:  "this is a defect of the plugin",
		})
		b.schemas[p.Schema], any = edn.K("any"), true
	}
	return any
}

func (b *builder) schemaOwner(name string) *plugins.Plugin {
	for i := range b.Plugins {
		if _, ok := b.Plugins[i].Description.Schemas[name]; ok {
			return &b.Plugins[i]
		}
	}
	return nil
}

func (b *builder) advertised(p *plugins.Plugin, name string, spec edn.Value, from map[string]string,
	builtin map[string]edn.Value) {
	other, taken := from[name]
	if !taken {
		if _, ok := builtin[name]; ok {
			other, taken = "the host", true
		}
	}
	if !taken {
		from[name] = "plugin " + diag.Quote(p.Name)
		b.schemas[name] = spec
		return
	}
	if edn.Equal(b.schemas[name], spec) {
		return
	}
	if _, overridden := byLabel(b.All("schema"))[name]; overridden {
		return
	}
	b.Report.Add(diag.Diagnostic{
		Type: "config/duplicate",
		Message: fmt.Sprintf("plugin %s and %s advertise different schemas under the name %s", diag.Quote(p.Name), other,
			diag.Quote(name)),
		Range: b.place("plugin", p.Name),
		Path:  []string{"schema", name},
		Hint:  fmt.Sprintf("decide with a block: schema %q { spec = edn(\"...\") }", name),
	})
}

func (b *builder) declared(s *decode.Section, from map[string]string, builtin map[string]edn.Value) {
	spec, ok := s.Attrs["spec"]
	if !ok {
		return
	}
	who := from[s.Label()]
	if _, isBuiltin := builtin[s.Label()]; isBuiltin {
		who = "the host"
	}
	if who != "" {
		b.use("schema", s.Label())
		b.Report.Add(diag.Diagnostic{
			Type:     "config/overridden",
			Severity: diag.SeverityInfo,
			Message:  fmt.Sprintf("schema %s is used instead of that of %s", diag.Quote(s.Label()), who),
			Range:    s.At(),
			Path:     s.Node.Path,
		})
	}
	b.schemas[s.Label()] = formOf(spec.EDN)
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

func (b *builder) generation() *Generation {
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
	for _, s := range b.All("intent") {
		intents = append(intents, b.intent(s, book))
	}
	effects := b.effects()
	access, who := b.access(), b.identity()
	budgets := b.budgets(book)
	b.defaultAnswers()
	b.cross(book, intents, effects, budgets)
	prompts := b.prompts()
	routing := b.routing(prompts)
	b.gateRings()
	b.unusedBlocks()
	b.plain(judges, book)
	b.believed(judges)
	set, err := quality.NewSetIn(b.languages, checks...)
	if err != nil {
		return nil // reported at the check block
	}
	conversation.Policies(book)
	reg, err := registry.New(registry.Spec{
		Capabilities: append(b.caps, conversation.Capabilities()...),
		Absent:       b.notGiven,
		Intents:      append(intents, conversation.Intents()...),
		Checks:       set.Declarations(),
		Judges:       judges,
		Schemas:      b.compiled,
	})
	if err != nil {
		return nil
	}
	return &Generation{
		Registry: reg,
		Checks:   set,
		Policies: book,
		Effects:  effects,
		Access:   access,
		Identity: who,
		Budgets:  budgets,
		Prompts:  prompts,
		Routing:  routing,
		Packs:    packs,
	}
}

// dispatchLayer returns the policy layer of a dispatch block.
func (b *builder) dispatchLayer(s *decode.Section, source policy.Source) policy.Layer {
	var l policy.Layer
	origin := func(v decode.Value) policy.Origin { return policy.Origin{Source: source, Where: v.At.String()} }
	if v := s.Attrs["policy"]; v.Written {
		l.Ordering = policy.Of(s.Text("policy"), origin(v))
	}
	if v := s.Attrs["strategy"]; v.Written {
		l.Strategy = policy.Of(s.Text("strategy"), origin(v))
	}
	if v := s.Attrs["deadline"]; v.Written {
		l.Deadline = policy.Of(s.Duration("deadline"), origin(v))
	}
	if members, ok := s.Texts("switch_on"); ok {
		from := origin(s.Attrs["switch_on"])
		l.SwitchOn.Add = policy.Of(policy.NamesOf(from, members...), from)
	}
	if members, ok := s.Texts("switch_on_replace"); ok {
		from := origin(s.Attrs["switch_on_replace"])
		l.SwitchOn.Base = policy.Of(policy.NamesOf(from, members...), from)
	}
	b.idleSwitches(s)
	if v := s.Attrs["fallback_to"]; v.Written {
		l.Fallbacks = policy.NamesOf(origin(v), b.capabilityRefs(s, "fallback_to")...)
	}
	b.checksOf(&l, s, source)
	r := s.Block("retry")
	for name, to := range map[string]*policy.Val[int]{"same_capability": &l.SameCapMax, "fallback": &l.FallbackMax} {
		if v := r.Attrs[name]; v.Written {
			*to = policy.Of(r.Integer(name), origin(v))
		}
	}
	for name, to := range map[string]*policy.Val[time.Duration]{"backoff": &l.Backoff, "max_backoff": &l.MaxBackoff} {
		if v := r.Attrs[name]; v.Written {
			*to = policy.Of(r.Duration(name), origin(v))
		}
	}
	b.ordered(r, "backoff", "max_backoff", false)
	for _, side := range []struct {
		block, attr string
		to          *policy.Val[int]
	}{{"repair", "max", &l.RepairMax}, {"race", "width", &l.RaceWidth}, {"tournament", "width", &l.TournamentWidth},
		{"hedge", "max", &l.HedgeMax}} {
		if in := s.Block(side.block); in.Attrs[side.attr].Written {
			*side.to = policy.Of(in.Integer(side.attr), origin(in.Attrs[side.attr]))
		}
	}
	l.Breaker = b.breakerRules(s)
	l.Learned = b.learnedLayer(s.Block("learned"), origin)
	if hedge := s.Block("hedge"); hedge.Attrs["after"].Written {
		l.HedgeAfter = policy.Of(hedge.Duration("after"), origin(hedge.Attrs["after"]))
	}
	return l
}

// idleSwitches warns about members that no failure can match.
func (b *builder) idleSwitches(s *decode.Section) {
	for _, name := range []string{"switch_on", "switch_on_replace"} {
		members, _ := s.Texts(name)
		for i, m := range members {
			set, err := policy.ParseSwitchSet([]string{m})
			if err == nil && len(set.Idle()) > 0 {
				b.Report.Add(diag.Diagnostic{
					Type:     "config/unused",
					Severity: diag.SeverityWarning,
					Message: fmt.Sprintf("%s in %s never leads to another attempt: an error of that type ends the call",
						diag.Quote(m), s.Node.Title()),
					Range: s.Attrs[name].Items[i].At,
					Path:  append(slices.Clone(s.Node.Path), name),
				})
			}
		}
	}
}

func (b *builder) checksOf(l *policy.Layer, s *decode.Section, source policy.Source) {
	if v := s.Attrs["checks"]; v.Written {
		from := policy.Origin{Source: source, Where: v.At.String()}
		l.Checks.Add = policy.Of(policy.NamesOf(from, b.checkRefs(s, "checks")...), from)
	}
}

// checkRefs resolves names of checks.
func (b *builder) checkRefs(s *decode.Section, attr string) []string {
	var out []string
	v := s.Attrs[attr]
	for _, item := range v.Items {
		name, _ := item.EDN.AsString()
		b.use("check", name)
		if _, ok := b.checks[name]; !ok && !b.isBuiltinCheck(name) {
			b.dangling(s, attr, "check", name, b.checkNames(), item.At)
			continue
		}
		b.boundRef(s, attr, name, item.At)
		out = append(out, name)
	}
	return out
}

// boundRef reports a built-in check whose intent has no capability: it can never pass.
func (b *builder) boundRef(s *decode.Section, attr, name string, at *diag.Range) {
	intent := b.asked(name)
	if _, rebound := b.checks[name]; rebound || intent == "" || b.intentKnown(intent) {
		return
	}
	d := diag.Diagnostic{
		Type: "config/dangling-reference",
		Message: fmt.Sprintf("%s names check %s, but no plugin serves its intent %s", s.Node.Title(), diag.Quote(name),
			diag.Quote(intent)),
		Range:    at,
		Path:     append(slices.Clone(s.Node.Path), attr),
		Expected: edn.Text("a plugin that serves " + intent),
		Hint:     fmt.Sprintf("add the plugin, or a block check %s that asks another intent", diag.Quote(name)),
	}
	if off := b.disabled(intent); off != nil {
		b.blame(off, "check", name, d)
		return
	}
	b.Report.Fold("check "+name, d)
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
func (b *builder) capabilityRefs(s *decode.Section, attr string) []string {
	var out []string
	for _, item := range s.Attrs[attr].Items {
		if id, _ := item.EDN.AsString(); b.isCapability(s, attr, id, item.At) {
			out = append(out, id)
		}
	}
	return out
}

// capabilityRef resolves one capability id; empty if it is unknown.
func (b *builder) capabilityRef(s *decode.Section, attr string) string {
	if id := s.Text(attr); b.isCapability(s, attr, id, s.Attrs[attr].At) {
		return id
	}
	return ""
}

// namedByPlugins reports settings of plugins that name an unknown capability
// (WS-064).
func (b *builder) namedByPlugins() {
	for _, s := range b.All("plugin") {
		p := b.plugins[s.Label()]
		if p == nil || p.Lowered == nil {
			continue
		}
		for _, c := range p.Lowered.Capabilities {
			b.isCapability(s, "config", c.Name, c.At)
		}
	}
}

func (b *builder) isCapability(s *decode.Section, attr, id string, at *diag.Range) bool {
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
