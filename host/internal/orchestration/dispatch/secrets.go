package dispatch

import (
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// learn finds the secrets in an answer of a capability or of a person, so that none is recorded
// (JRN-022): those in its value, and those in the inputs of its plan.
func (n *node) learn(response edn.Value) {
	result := response.Key("result")
	n.run.Secrets.Learn(n.w.Policy.out, result.Key("out"))
	LearnPlan(n.d.Registry, n.run.Secrets, result.Key("plan"), result.Key("bindings"))
}

// LearnPlan adds the secrets in the inputs of the calls of a plan to m: literals, and bindings or
// values of :let that a slot refers to. A nil m learns none.
func LearnPlan(reg *registry.Registry, m *journal.Mask, plan, bindings edn.Value) {
	if m == nil || plan.IsNil() {
		return
	}
	names := map[string]edn.Value{}
	for key, v := range bindings.Entries() {
		if name, ok := key.AsKeyword(); ok {
			names[name] = v
		}
	}
	(&planSecrets{reg, m, names}).walk(plan)
}

// planSecrets is the state of LearnPlan.
type planSecrets struct {
	reg   *registry.Registry
	mask  *journal.Mask
	names map[string]edn.Value
}

func (p *planSecrets) walk(v edn.Value) {
	if op, ok := v.Key("op").AsKeyword(); ok && op == "let" {
		if as, ok := v.Key("as").AsKeyword(); ok {
			p.names[as] = v.Key("value")
		}
	}
	if intent := p.intent(v); intent != "" {
		required, _ := v.Key("requires").Key("in-schema").AsKeyword()
		if sch, ok := p.reg.Schema(p.reg.InSchema(intent, required)); ok {
			p.input(sch, v.Key("input"))
		}
	}
	for _, below := range v.Entries() {
		p.walk(below)
	}
	if v.Kind() == edn.KindVector || v.Kind() == edn.KindList {
		for below := range v.Elems() {
			p.walk(below)
		}
	}
}

// intent returns the intent of a node that calls, "" for anything else.
func (p *planSecrets) intent(node edn.Value) string {
	switch op, _ := node.Key("op").AsKeyword(); op {
	case "call":
		intent, _ := node.Key("intent").AsKeyword()
		return intent
	case "tool":
		id, _ := node.Key("tool/id").AsKeyword()
		if tool, ok := p.reg.Tool(id); ok {
			return tool.ToolIntent()
		}
	}
	return ""
}

// input finds the secrets of the input of a node.
func (p *planSecrets) input(sch *schema.Schema, input edn.Value) {
	filled, _ := p.filled(input)
	p.mask.Learn(sch, filled)
}

// filled returns a value with the slots that are known before the run replaced by their
// values; ok is false for an unknown slot. Parts with unknown slots are left out: their
// secrets are found when the node runs.
func (p *planSecrets) filled(v edn.Value) (edn.Value, bool) {
	switch {
	case v.HasKey("slot/id") || v.HasKey("slot/path"):
		name, _ := v.Key("slot/id").AsKeyword()
		steps := v.Key("slot/path")
		from := 0
		if name == "" {
			first, _ := steps.Nth(0)
			name, _ = first.AsKeyword()
			from = 1
		}
		at, known := p.names[name]
		for i := from; i < steps.Len() && known; i++ {
			step, _ := steps.Nth(i)
			at, known = at.Get(step)
		}
		return at, known
	case v.IsMap():
		var b edn.MapBuilder
		for key, val := range v.Entries() {
			if one, known := p.filled(val); known {
				b.Set(key, one)
			}
		}
		return b.Map(), true
	case v.Kind() == edn.KindVector:
		var members []edn.Value
		for member := range v.Elems() {
			if one, known := p.filled(member); known {
				members = append(members, one)
			}
		}
		return edn.Vector(members...), true
	}
	return v, true
}
