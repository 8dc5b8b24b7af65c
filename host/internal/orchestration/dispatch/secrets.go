package dispatch

import (
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// learn finds the secrets in an answer of a capability or of a person, so that none is recorded
// (JRN-022): those in its value, and those in the inputs of its plan.
func (n *node) learn(response edn.Value) {
	result := response.Key("result")
	n.run.Secrets.Learn(n.w.Policy.out, result.Key("out"))
	LearnPlan(n.d.Registry, n.run.Secrets, result.Key("plan"), result.Key("bindings"))
}

// LearnPlan adds the secrets in the inputs of the calls of a plan to m: literals, and what slots
// are filled with as far as it is known before the run: bindings, values of :let, items of
// :over, emitted values and defaults. A nil m learns none.
func LearnPlan(reg *registry.Registry, m *journal.Mask, plan, bindings edn.Value) {
	if m == nil || plan.IsNil() {
		return
	}
	p := &planSecrets{reg: reg, mask: m, names: map[string][]edn.Value{}, left: maxFilled}
	p.bind(bindings)
	p.below(plan)
}

// maxFilled bounds the parts of values with which the slots of a plan are filled to find its
// secrets. Slots beyond it are left out: their secrets are found when their node runs.
const maxFilled = 1 << 22

// planSecrets is the state of LearnPlan.
type planSecrets struct {
	reg   *registry.Registry
	mask  *journal.Mask
	names map[string][]edn.Value // the values that a name may have
	left  int                    // of maxFilled
	most  int                    // most values that a slot of the last template has
}

func (p *planSecrets) bind(bindings edn.Value) {
	for key, v := range bindings.Entries() {
		if name, ok := key.AsKeyword(); ok { // which of several bindings of a name holds is decided by the evaluator
			p.names[name] = append(slices.Clip(p.names[name]), v)
		}
	}
}

// below walks the nodes in a part of a plan, in order, and returns the values that they may emit.
func (p *planSecrets) below(v edn.Value) (emitted []edn.Value) {
	if v.IsMap() {
		p.bind(v.Key("bindings"))
	}
	for key, part := range v.Entries() {
		if name, _ := key.AsKeyword(); name != "bindings" && name != "over" { // these have data
			emitted = append(emitted, p.below(part)...)
		}
	}
	if v.Kind() != edn.KindVector && v.Kind() != edn.KindList {
		return emitted
	}
	for node := range v.Elems() {
		emitted = append(emitted, p.node(node)...)
	}
	return emitted
}

// node walks a node and what is in it. It returns the values that an emit may emit.
func (p *planSecrets) node(v edn.Value) (emitted []edn.Value) {
	op, _ := v.Key("op").AsKeyword()
	var written []edn.Value
	switch op {
	case "emit":
		return p.values(p.whole(v.Key("input")))
	case "let":
		written = p.values(v.Key("value"))
	case "call", "tool":
		p.call(v, v.Key("input"))
		p.inner(v) // its input may have a plan
	case "plan":
		for _, one := range p.inner(v) {
			out := contract.EmitOut(one)
			written = append(written, out.AssocKey("out", out))
		}
	case "map":
		out := edn.Vector(p.inner(v)...)
		written = []edn.Value{out, edn.MustMap(edn.K("out"), out)}
	default:
		return p.below(v)
	}
	if as, ok := v.Key("as").AsKeyword(); ok {
		if v.HasKey("when") { // else the name keeps the value that it had
			written = append(written, p.names[as]...)
		}
		p.names[as] = written
	}
	return nil
}

// inner is below for a node whose names are not those of the plan around it.
func (p *planSecrets) inner(v edn.Value) []edn.Value {
	outer := p.names
	defer func() { p.names = outer }()
	if p.left -= len(outer); p.left >= 0 {
		p.names = maps.Clone(outer)
	} else {
		p.names = map[string][]edn.Value{}
	}
	if v.HasKey("over") {
		p.items(v)
	}
	return p.below(v)
}

// items binds the items of a map node. With :fn, they are the inputs of a call.
func (p *planSecrets) items(v edn.Value) {
	name, ok := v.Key("item").AsKeyword()
	if !ok {
		name = "item"
	}
	var items []edn.Value
	for _, over := range p.values(p.whole(v.Key("over"))) {
		items = slices.AppendSeq(items, over.Elems())
	}
	p.names[name] = items
	if v.HasKey("fn") {
		p.call(v.AssocKey("op", edn.K("call")), edn.MustMap(edn.K("slot/id"), edn.K(name)))
	}
}

// whole returns the slot that a keyword stands for in the place of an input.
func (p *planSecrets) whole(v edn.Value) edn.Value {
	if name, ok := v.AsKeyword(); ok {
		return edn.MustMap(edn.K("slot/id"), edn.K(name))
	}
	return v
}

// call finds the secrets in the input of a node.
func (p *planSecrets) call(node, input edn.Value) {
	intent := p.intent(node)
	if intent == "" {
		return
	}
	required, _ := node.Key("requires").Key("in-schema").AsKeyword()
	sch, ok := p.reg.Schema(p.reg.InSchema(intent, required))
	if !ok || !sch.HidesSecret() {
		return
	}
	for _, one := range p.values(p.whole(input)) {
		p.mask.Learn(sch, one)
	}
}

// intent returns the intent of a node that calls, "" if it is not known.
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

// values returns a template with its slots filled in so many ways that each value of each slot
// is in one of them. Parts with unknown slots are left out.
func (p *planSecrets) values(template edn.Value) (all []edn.Value) {
	p.most = 1
	for i := 0; i < p.most && (i == 0 || p.left >= 0); i++ {
		if v, known := p.filled(template, i); known {
			all = append(all, v)
		}
	}
	return all
}

// filled returns a template with value i of each slot; ok is false for an unknown slot.
func (p *planSecrets) filled(v edn.Value, i int) (filled edn.Value, ok bool) {
	if i > 0 { // the first time, the cost is that of reading the plan
		if p.left--; p.left < 0 {
			return edn.Nil(), false
		}
	}
	switch {
	case v.HasKey("slot/id") || v.HasKey("slot/path"):
		one, known := p.slot(v, i)
		return one, known && p.spend(one)
	case v.IsMap():
		var b edn.MapBuilder
		for key, val := range v.Entries() {
			if one, known := p.filled(val, i); known {
				b.Set(key, one)
			}
		}
		return b.Map(), true
	case v.Kind() == edn.KindVector:
		var members []edn.Value
		for member := range v.Elems() {
			if one, known := p.filled(member, i); known {
				members = append(members, one)
			}
		}
		return edn.Vector(members...), true
	}
	return v, true
}

// slot returns value i of those that a slot may have; false if it is unknown.
func (p *planSecrets) slot(v edn.Value, i int) (edn.Value, bool) {
	name, _ := v.Key("slot/id").AsKeyword()
	steps := slices.Collect(v.Key("slot/path").Elems())
	if name == "" && len(steps) > 0 {
		name, _ = steps[0].AsKeyword()
		steps = steps[1:]
	}
	all, n := p.names[name], len(p.names[name])
	if v.HasKey("slot/default") {
		n++
	}
	if n == 0 {
		return edn.Nil(), false
	}
	p.most = max(p.most, n)
	if i %= n; i < len(all) {
		return all[i].GetIn(steps...)
	}
	return v.Key("slot/default"), true
}

// spend subtracts the parts of v from what is left, and reports whether there were so many.
func (p *planSecrets) spend(v edn.Value) bool {
	if p.left--; p.left < 0 {
		return false
	}
	for _, part := range v.Entries() {
		if !p.spend(part) {
			return false
		}
	}
	if v.IsMap() {
		return true
	}
	for part := range v.Elems() {
		if !p.spend(part) {
			return false
		}
	}
	return true
}
