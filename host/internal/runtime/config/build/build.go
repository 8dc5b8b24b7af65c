package build

import (
	"fmt"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
	rules "github.com/fermenthq/ferment/sdk/text"
)

// Generation is a configuration in force. It is immutable and safe for concurrent use. A run uses
// the generation that it was started with.
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
	// Packs are the language packs of the configuration; Checks has all languages in use.
	Packs []LanguagePack
}

// planIntent is the intent with which the host evaluates plans.
const planIntent = "plan/run"

// Limits on the number of blocks (HCL-042).
const (
	MaxPlugins      = 256
	MaxCapabilities = 4096
	MaxIntents      = 1024
	MaxNamed        = 4096 // checks, schemas, judges, and rubrics
)

// builder collects the parts of a generation and checks the references between them.
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

// Settings are settings of the host that affect the generation.
type Settings struct {
	MinStability string
	// Kept has paths that no effect may access, in addition to the data directory.
	Kept []string
	// Limits are the limits on plans, including the templates of intents.
	Limits plan.Limits
}

// New builds the generation from the blocks and the plugins; nil if they have errors that prevent
// it. Errors are reported to the Reader.
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

// limits reports block types with more blocks than the host supports.
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

func (b *builder) indexPlugins() {
	for i, s := range b.All("plugin") {
		p := &b.Plugins[i]
		b.pairs(s)
		b.plugins[p.Name] = p
		// The names of an absent optional plugin are known to be missing. Other plugins without a
		// description may define any name.
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

func (b *builder) place(block, label string) *diag.Range { return b.places[[2]string{block, label}] }

func (b *builder) use(block, label string) {
	if b.used[block] == nil {
		b.used[block] = map[string]bool{}
	}
	b.used[block][label] = true
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
	b.idleDispatch() // what only these blocks name is unused
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
		Undescribed:  b.undescribed(),
		Intents:      append(intents, conversation.Intents()...),
		Checks:       set.Declarations(),
		Judges:       judges,
		Schemas:      b.compiled,
	})
	if err != nil {
		return nil
	}
	if !b.blind {
		who.Intents = append([]string{planIntent}, reg.Intents()...)
		for _, in := range conversation.Intents() {
			who.Intents = append(who.Intents, in.ID)
		}
	}
	b.unjudged(reg, intents)
	b.templates(plan.Env{Registry: reg, Policies: book, Budgets: budgets, Prompts: prompts})
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
