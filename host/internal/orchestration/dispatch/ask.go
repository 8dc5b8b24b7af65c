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
)

// prepared is what the prompts of one capability have in common under terms.
type prepared struct {
	*prompt.Prepared
	tokens int64 // of the layers, estimated
}

// composes tells whether prompts are composed for a capability: for a language
// model, unless the model reads the input as it is (LM-009).
func (t *Terms) composes(c *registry.Capability) bool {
	return c.Kind == registry.ModelKind && prompt.Composes(t.intent)
}

// roleOf is the role under which a capability is called. One that gets no prompt
// has the role that request or node say, if they say one.
func (t *Terms) roleOf(c *registry.Capability) string {
	if !t.composes(c) {
		return t.Role
	}
	in, _ := t.reg.Intent(t.intent)
	role, _ := prompt.RoleOf(t.Role, t.intent, c, in)
	return role
}

// preparation makes or finds what the prompts of a capability have in common.
func (t *Terms) preparation(c *registry.Capability) *prepared {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.prepared[c.ID]; p != nil {
		return p
	}
	s := prompt.Setting{
		Intent: t.intent, Role: t.roleOf(c), Constraints: t.Constraints, Context: t.Context,
		Schema: t.out, SchemaName: t.outName, Lookup: t.reg.Schema, Options: t.options(),
	}
	p := &prepared{Prepared: t.prompts.Prepare(s)}
	p.tokens = policy.CountTokens(edn.Text(p.System))
	if t.prepared == nil {
		t.prepared = make(map[string]*prepared)
	}
	t.prepared[c.ID] = p
	return p
}

// options are what a model is asked for beside the text.
func (t *Terms) options() edn.Value {
	var b edn.MapBuilder
	if n := t.Budget.Key("max-tokens"); !n.IsNil() {
		b.Key("max-tokens", n)
	}
	if !t.Temperature.IsNil() {
		b.Key("temperature", t.Temperature)
	}
	return b.Map()
}

// asks composes what a language model is asked in this attempt; the zero value
// for everybody else.
func (o *operation) asks(c *registry.Capability) prompt.Composed {
	if !o.w.Terms.composes(c) {
		return prompt.Composed{}
	}
	return o.w.Terms.preparation(c).Compose(prompt.Call{System: prompt.System(o.w.System, o.w.Input), Input: o.w.Input, Repair: o.told})
}

// layersTokens is how many tokens the layers of a prompt add to what the call
// brings.
func (o *operation) layersTokens(c *registry.Capability) int64 {
	if !o.w.Terms.composes(c) || prompt.System(o.w.System, o.w.Input) != "" {
		return 0
	}
	return o.w.Terms.preparation(c).tokens
}

// overriding refuses a call whose system prompt comes from a result (PRM-002) or
// replaces that of the configuration without permission (PRM-003).
func (o *operation) overriding() *contract.Error {
	if o.w.Unmarked != nil && o.modelServes() {
		return o.w.Unmarked
	}
	why := o.run.Overriding
	if why == nil && !o.w.Foreign {
		return nil
	}
	where, ok := prompt.Overrides(o.w.Intent, o.w.System, o.w.Input)
	if !ok || where != ":system" && !o.modelServes() {
		return nil
	}
	if why == nil {
		return contract.Errorf("policy/blocked", "node %s: its %s replaces the system prompt, which a plan that a capability wrote may not", o.w.Node, where).
			WithDetail("operation", edn.K(policy.OverridePrompt))
	}
	e := contract.Errorf("policy/blocked", "node %s: its %s replaces the system prompt: %s", o.w.Node, where, why.Message).
		WithHint("leave " + where + " out, or have it written into ferment.hcl: prompts, intent { prompt }")
	for _, key := range [...]string{"operation", "rule", "reason"} {
		e = e.WithDetail(key, why.Details.Key(key))
	}
	return e
}

// modelServes tells whether a language model is among the candidates.
func (o *operation) modelServes() bool {
	for _, id := range o.w.Terms.static.List {
		if c, ok := o.d.Registry.Capability(id); ok && c.Kind == registry.ModelKind {
			return true
		}
	}
	return false
}

// allowed refuses an answer of a language model with keys that its role may not
// have (PRM-008).
func (t *Terms) allowed(c *registry.Capability, out edn.Value) *contract.Error {
	if !t.composes(c) || t.prompts == nil || !out.IsMap() {
		return nil
	}
	role := t.roleOf(c)
	may := t.prompts.Allowed[role]
	if len(may) == 0 {
		return nil
	}
	for k := range out.Entries() {
		name, ok := k.AsKeyword()
		if ok && (name == "tool/calls" || slices.Contains(may, name)) {
			continue
		}
		return contract.Errorf("schema/invalid", "the answer of :%s has the key %s, which the role :%s does not give: it may have :%s", c.ID, k, role, strings.Join(may, ", :")).
			WithSource(contract.GateSource(c.Kind)).WithDetail("reason", edn.K("output/key-not-allowed")).
			WithDetail("role", journal.Keyword(role)).WithDetail("allowed", edn.Keywords(may...))
	}
	return nil
}

// Ask composes what a language model would be asked under the terms, without
// asking it.
func (t *Terms) Ask(c *registry.Capability, input edn.Value) prompt.Composed {
	return t.preparation(c).Compose(prompt.Call{System: prompt.System("", input), Input: input})
}
