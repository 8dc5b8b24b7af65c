package setup

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ProtocolVersion is the format version of the protocol package.
const ProtocolVersion = 1

// Protocol returns the protocol package of the configuration: intents, schemas, prompts, policies,
// routing and errors (PRM-007). It contains no file positions, so equivalent configurations give
// equal packages. Its :hash covers all other keys.
func (l *Loaded) Protocol() edn.Value {
	l.protocol.Do(func() { l.packaged = l.protocolPackage() })
	return l.packaged
}

// ProtocolHash returns the hash of the protocol package.
func (l *Loaded) ProtocolHash() string {
	h, _ := l.Protocol().Key("hash").AsString()
	return h
}

func (l *Loaded) protocolPackage() edn.Value {
	g := l.Generation
	v := edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto),
		edn.K("protocol/version"), edn.Int(ProtocolVersion),
		edn.K("intents"), l.intents(),
		edn.K("schemas"), l.schemas(),
		edn.K("prompts"), prompts(g.Prompts, g.Packs),
		edn.K("policies"), l.policies(),
		edn.K("routing"), l.routing(),
		edn.K("errors"), errorCatalogue(),
	)
	return v.AssocKey("hash", edn.Text(edn.Hash(v)))
}

// intents returns all intents, including implied ones.
func (l *Loaded) intents() edn.Value {
	reg := l.Generation.Registry
	var all edn.MapBuilder
	for _, id := range reg.Intents() {
		in, _ := reg.Intent(id)
		role, rule := l.Generation.Prompts.RoleOf("", id, nil, in)
		var b edn.MapBuilder
		b.Key("in-schema", keywordOrNil(in.In))
		b.Key("out-schema", keywordOrNil(in.Out))
		b.Key("result/types", edn.Keywords(in.Types()...))
		b.Key("effects", edn.Keywords(orNone(in.Effects)...))
		b.Key("role", edn.K(role))
		b.Key("role/rule", edn.K(rule))
		if key, rule := l.Generation.Prompts.ModelOf(edn.Nil(), id, nil, in); rule != "" {
			b.Key("model", key)
			b.Key("model/rule", edn.K(rule))
		}
		b.Opt("plan", in.Plan)
		b.Key("implied?", edn.Bool(in.Implied))
		all.Key(id, b.Map())
	}
	return all.Map()
}

func orNone(effects []string) []string {
	if len(effects) == 0 {
		return []string{registry.NoEffect}
	}
	return effects
}

func keywordOrNil(name string) edn.Value {
	k, err := edn.Keyword(name)
	if err != nil {
		return edn.Nil()
	}
	return k
}

func (l *Loaded) schemas() edn.Value {
	var b edn.MapBuilder
	if all := l.Generation.Registry.Schemas(); all != nil {
		for _, name := range all.Names() {
			if s, ok := all.Lookup(name); ok {
				b.Key(name, s.Spec())
			}
		}
	}
	return b.Map()
}

// prompts returns the prompt layers with their texts, and the hashes of
// language packs.
func prompts(book *prompt.Book, packs []build.LanguagePack) edn.Value {
	var b, allowed, languages edn.MapBuilder
	if book.Default != nil {
		b.Key("default", edn.Text(book.Default.Source()))
	}
	for _, part := range []struct {
		key    string
		layers map[string]*prompt.Layer
	}{{"roles", book.Roles}, {"intents", book.Intents}, {"system", book.System}, {"addenda", book.Addenda}} {
		var texts edn.MapBuilder
		for name, layer := range part.layers {
			texts.Set(keywordOrNil(name), edn.Text(layer.Source()))
		}
		b.Key(part.key, texts.Map())
	}
	for role, keys := range book.Allowed {
		allowed.Set(keywordOrNil(role), edn.Keywords(keys...))
	}
	b.Key("allowed", allowed.Map())
	// Language packs that are not part of the host affect how texts are judged, so they are part of
	// the protocol.
	if len(packs) > 0 {
		for _, p := range packs {
			languages.Key(p.Language, edn.Text(p.Hash))
		}
		b.Key("language-packs", languages.Map())
	}
	return b.Map()
}

// policies returns the effective policy of each intent, and the limits and rules that apply to all
// intents.
func (l *Loaded) policies() edn.Value {
	g := l.Generation
	var intents edn.MapBuilder
	for _, id := range g.Registry.Intents() {
		layer := g.Policies.For(id)
		effective, err := layer.Resolve()
		if err != nil {
			continue // rejected when the configuration was loaded
		}
		intents.Key(id, policyRows(effective.Explain()))
	}
	return edn.MustMap(
		edn.K("intents"), intents.Map(),
		edn.K("budgets"), policyRows(g.Budgets.Explain()),
		edn.K("operations"), ruleValues(g.Access.Operations),
		edn.K("effects"), ruleValues(g.Effects.Rules),
	)
}

// policyRows groups rows by field. A field with values from several layers has a vector of all of
// them.
func policyRows(rows []policy.Row) edn.Value {
	values := map[string][]edn.Value{}
	for _, r := range rows {
		values[r.Field] = append(values[r.Field], r.Value)
	}
	var b edn.MapBuilder
	for field, list := range values {
		if len(list) == 1 {
			b.Set(edn.Text(field), list[0])
			continue
		}
		b.Set(edn.Text(field), edn.Vector(list...))
	}
	return b.Map()
}

func ruleValues(rules policy.Rules) edn.Value {
	var b edn.MapBuilder
	for name, rule := range rules {
		b.Set(edn.Text(name), rule.Value())
	}
	return b.Map()
}

// routing returns the candidates per intent in order, and the roles.
func (l *Loaded) routing() edn.Value {
	reg := l.Generation.Registry
	var candidates, capabilities edn.MapBuilder
	for _, id := range reg.Intents() {
		candidates.Key(id, keywordVector(reg.Candidates(id)))
	}
	for _, id := range reg.Capabilities() {
		c, _ := reg.Capability(id)
		var b edn.MapBuilder
		b.Key("kind", keywordOrNil(c.Kind))
		b.Key("version", edn.Text(c.Version))
		b.Key("intents", edn.Keywords(c.Intents...))
		b.OptKeyword("role", c.Role)
		capabilities.Key(id, b.Map())
	}
	return edn.MustMap(
		edn.K("candidates"), candidates.Map(),
		edn.K("capabilities"), capabilities.Map(),
		edn.K("default-role"), edn.K(prompt.DefaultRole),
		edn.K("router"), l.Generation.Routing.Value(),
	)
}

func keywordVector(names []string) edn.Value {
	out := make([]edn.Value, len(names))
	for i, n := range names {
		out[i] = edn.K(n)
	}
	return edn.Vector(out...)
}

// errorCatalogue returns every error type with its properties.
func errorCatalogue() edn.Value {
	var all edn.MapBuilder
	for _, row := range contract.Rows() {
		var b edn.MapBuilder
		b.Key("class", edn.Text(row.Class.String()))
		b.Key("source", edn.K(row.Source.String()))
		b.Key("retryable?", edn.Bool(row.Retryable))
		b.Key("status", edn.Int(int64(row.HTTP)))
		b.Key("help", edn.Text(row.Help))
		if len(row.Aliases) > 0 {
			b.Key("aliases", edn.Keywords(row.Aliases...))
		}
		all.Key(row.Type, b.Map())
	}
	return all.Map()
}

// PromptQuestion selects the prompt to compose.
type PromptQuestion struct {
	Intent string
	// Role overrides the role rules; empty applies them. Capability is the model for which the
	// prompt is composed; empty: the first language model among the candidates, or, if there is
	// none, a model without a role.
	Role, Capability string
	// Input is the input of the call; the EDN nil: no input.
	Input edn.Value
}

// Prompt composes the prompt of a language model and returns it with its layers (PRM-005). No model
// is called. The error is not-found for an unknown intent or role, and cap/not-found for an unknown
// capability.
func (l *Loaded) Prompt(q PromptQuestion) (edn.Value, error) {
	reg, book := l.Generation.Registry, l.Generation.Prompts
	in, ok := reg.Intent(q.Intent)
	if !ok {
		e := contract.Errorf("not-found", "there is no intent :%s", q.Intent).
			WithHint("\"ferment protocol export\" lists the intents")
		return edn.Nil(), e.DidYouMean(contract.Nearest(q.Intent, reg.Intents()))
	}
	if q.Role != "" && book.Roles[q.Role] == nil {
		e := contract.Errorf("not-found", "the role %s has no prompt", q.Role).
			WithHint("write one: prompts { roles = { ... } } in ferment.hcl")
		return edn.Nil(), e.DidYouMean(contract.Nearest(q.Role, book.RoleNames()))
	}
	c := l.promptTarget(q)
	if q.Capability != "" && c == nil {
		e := contract.Errorf("cap/not-found", "there is no capability :%s", q.Capability)
		return edn.Nil(), e.DidYouMean(reg.NearestCapability(q.Capability))
	}
	role, rule := l.Generation.Prompts.RoleOf(q.Role, q.Intent, c, in)
	var b edn.MapBuilder
	b.Key("intent", edn.K(q.Intent))
	b.Key("role", edn.K(role))
	b.Key("role/rule", edn.K(rule))
	if c != nil {
		b.Key("cap/id", edn.K(c.ID))
	}
	if !prompt.Composes(q.Intent) || c != nil && c.Kind != registry.ModelKind {
		b.Key("composed?", edn.Bool(false))
		return b.Map(), nil
	}
	layer := l.Generation.Policies.For(q.Intent)
	effective, err := layer.Resolve()
	if err != nil {
		return edn.Nil(), err
	}
	if c == nil {
		c = &registry.Capability{Capability: contract.Capability{ID: "ferment/nobody", Kind: registry.ModelKind}}
	}
	effective.Role = q.Role
	d := dispatch.Dispatcher{Registry: reg, Checks: l.Generation.Checks, Prompts: book, Clock: dispatch.SystemClock{}}
	asked := d.CallPolicy(effective, q.Intent, "").ComposePrompt(c, q.Input)
	b.Key("composed?", edn.Bool(true))
	layers := make([]edn.Value, 0, 4)
	for _, layer := range book.Layers(q.Intent, role) {
		layers = append(layers, edn.MustMap(
			edn.K("name"), edn.Text(layer.Name),
			edn.K("where"), edn.Text(layer.Where),
			edn.K("hash"), edn.Text(layer.Hash),
			edn.K("text"), edn.Text(layer.Source()),
		))
	}
	b.Key("system", edn.Text(asked.System))
	b.Key("messages", asked.Value.Key("messages"))
	b.Key("output", asked.Value.Key("output"))
	b.Key("layers", edn.Vector(layers...))
	b.Key("hash", edn.Text(asked.Hash))
	return b.Map(), nil
}

// Prompts composes the prompts of every intent that has a role, under every role that has a layer,
// without an input.
func (l *Loaded) Prompts() ([]edn.Value, error) {
	reg := l.Generation.Registry
	var all []edn.Value
	for _, id := range reg.Intents() {
		if in, _ := reg.Intent(id); in.Role == "" {
			continue
		}
		for _, role := range l.Generation.Prompts.RoleNames() {
			v, err := l.Prompt(PromptQuestion{Intent: id, Role: role})
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// promptTarget returns the capability for which the prompt is composed; nil if there is none.
func (l *Loaded) promptTarget(q PromptQuestion) *registry.Capability {
	reg := l.Generation.Registry
	if q.Capability != "" {
		c, _ := reg.Capability(q.Capability)
		return c
	}
	for _, id := range reg.Candidates(q.Intent) {
		if c, ok := reg.Capability(id); ok && c.Kind == registry.ModelKind {
			return c
		}
	}
	return nil
}
