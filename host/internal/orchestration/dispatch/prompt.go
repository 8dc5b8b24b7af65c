package dispatch

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// prepared is the constant part of the prompts of one capability.
type prepared struct {
	*prompt.Prepared
	tokens int64 // of the layers, estimated
}

// composes reports whether prompts are composed for a capability: it is a
// language model and does not take the input as it is (LM-009).
func (p *CallPolicy) composes(c *registry.Capability) bool {
	return c.Kind == registry.ModelKind && prompt.Composes(p.intent)
}

// roleOf returns the role for calls to a capability. Without a prompt it is the
// role of the request or node, if any.
func (p *CallPolicy) roleOf(c *registry.Capability) string {
	if !p.composes(c) {
		return p.Role
	}
	in, _ := p.reg.Intent(p.intent)
	role, _ := p.prompts.RoleOf(p.Role, p.intent, c, in)
	return role
}

// modelOf returns the model key for calls to a capability; nil: the model that the
// capability chooses.
func (p *CallPolicy) modelOf(c *registry.Capability) edn.Value {
	if c.Kind != registry.ModelKind {
		return p.Model
	}
	in, _ := p.reg.Intent(p.intent)
	key, _ := p.prompts.ModelOf(p.Model, p.intent, c, in)
	return key
}

// preparation returns the cached constant part of the prompts.
func (p *CallPolicy) preparation(c *registry.Capability) *prepared {
	p.mu.Lock()
	defer p.mu.Unlock()
	if prep := p.prepared[c.ID]; prep != nil {
		return prep
	}
	s := prompt.Setting{
		Intent: p.intent, Role: p.roleOf(c), Constraints: p.Constraints, Context: p.Context,
		Schema: p.out, SchemaName: p.outName, Lookup: p.reg.Schema, Options: p.options(),
	}
	prep := &prepared{Prepared: p.prompts.Prepare(s)}
	prep.tokens = policy.CountTokens(edn.Text(prep.System))
	if p.prepared == nil {
		p.prepared = make(map[string]*prepared)
	}
	p.prepared[c.ID] = prep
	return prep
}

// options returns the model options besides the text.
func (p *CallPolicy) options() edn.Value {
	var b edn.MapBuilder
	b.Opt("max-tokens", p.Budget.Key("max-tokens"))
	b.Opt("temperature", p.Temperature)
	return b.Map()
}

// checkPromptOverride rejects a system prompt that comes from a result
// (PRM-002), unless its answer is recorded, or replaces that of the configuration without permission (PRM-003).
func (n *node) checkPromptOverride() *contract.Error {
	leads := func(c *registry.Capability) bool { return prompt.LeadsToModel(n.w.Intent, c) }
	if n.w.Unmarked != nil && !n.w.Replay && !n.w.Past.Ended() && n.hasCandidate(leads) {
		return n.w.Unmarked
	}
	why := n.run.Overriding
	if n.w.Overrides || why == nil && !n.w.Foreign {
		return nil
	}
	where, ok := prompt.Overrides(n.w.Intent, n.w.System, n.w.Input)
	isModel := func(c *registry.Capability) bool { return c.Kind == registry.ModelKind }
	if !ok || where != ":system" && !n.hasCandidate(isModel) && !prompt.Converses(n.w.Intent) {
		return nil
	}
	if why == nil {
		return contract.Errorf("policy/blocked",
			"node %s: its %s replaces the system prompt, which a plan written by a capability may not do",
			n.w.Node, where).
			WithDetail("operation", edn.K(policy.OverridePrompt))
	}
	hint := "leave " + where + " out, or write it into ferment.hcl: prompts, intent { prompt }"
	if !prompt.Composes(n.w.Intent) || prompt.Converses(n.w.Intent) {
		hint = "leave " + where + " out, or permit a role of the caller: operations { rule \"" + policy.OverridePrompt + "\" { any = [...] } }"
	}
	e := contract.Errorf("policy/blocked", "node %s: its %s replaces the system prompt: %s", n.w.Node, where,
		why.Message).
		WithHint(hint)
	for _, key := range [...]string{"operation", "rule", "reason"} {
		e = e.WithDetail(key, why.Details.Key(key))
	}
	return e
}

// hasCandidate reports whether one of the candidates has a property.
func (n *node) hasCandidate(has func(*registry.Capability) bool) bool {
	return slices.ContainsFunc(n.w.Policy.static.List, func(id string) bool {
		c, ok := n.d.Registry.Capability(id)
		return ok && has(c)
	})
}

// checkOutputKeys rejects an answer of a language model with keys that its role
// does not allow (PRM-008).
func (p *CallPolicy) checkOutputKeys(c *registry.Capability, out edn.Value) *contract.Error {
	if !p.composes(c) || p.prompts == nil || !out.IsMap() {
		return nil
	}
	role := p.roleOf(c)
	may := p.prompts.Allowed[role]
	if len(may) == 0 {
		return nil
	}
	for k := range out.Entries() {
		name, ok := k.AsKeyword()
		if ok && (name == "tool/calls" || slices.Contains(may, name)) {
			continue
		}
		return contract.Errorf("schema/invalid",
			"the answer of :%s has the key %s, which the prompts do not allow for the role :%s: expected one of :%s",
			c.ID, k, role, strings.Join(may, ", :")).
			WithSource(contract.GateSource(c.Kind)).WithDetail("reason", edn.K("output/key-not-allowed")).
			WithDetail("role", journal.Keyword(role)).WithDetail("allowed", edn.Keywords(may...))
	}
	return nil
}

// ComposePrompt returns the prompt for a language model under the policy
// without calling it.
func (p *CallPolicy) ComposePrompt(c *registry.Capability, input edn.Value) prompt.Composed {
	return p.preparation(c).Compose(prompt.Call{System: prompt.System("", input), Input: input})
}

// respond is the intent whose answers are shown to people unchanged.
const respond = "text/respond"

// defaultChars limits an answer of respond without a configured limit.
const defaultChars = 1200

// cleaning returns the settings by which the text of a model is cleaned (TXT-001);
// ok is false for other capabilities. The text of a message in a form that the input
// states is not shortened (TXT-005), and without tools no call is looked for in it.
func (p *CallPolicy) cleaning(c *registry.Capability, input edn.Value) (text.Cleaning, bool) {
	if c.Kind != registry.ModelKind {
		return text.Cleaning{}, false
	}
	clean := text.Cleaning{Packs: p.languages}
	if p.intent == prompt.ChatIntent && !input.Key("output").Key("schema").IsNil() {
		clean.KeepCalls = input.Key("tools").Len() == 0
		return clean, true
	}
	if most, ok := p.Constraints.Key("max-chars").AsInt(); ok {
		clean.MaxChars = int(min(max(most, 1), text.MaxChars))
	}
	if language, ok := p.Constraints.Key("language").AsKeyword(); ok {
		clean.Language = language
	}
	if p.intent == respond {
		clean.Collapse = true
		if clean.MaxChars == 0 {
			clean.MaxChars = defaultChars
		}
	}
	return clean, true
}
