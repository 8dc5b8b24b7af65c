package plan

import "github.com/fermenthq/ferment/sdk/edn"

// answer returns the call or inline plan whose result, or one text of it, is the whole input of the
// last emit (STR-001). Node is -1 if there is no such node, or if the last emit has a condition.
func (p *Plan) answer() Answer {
	none := Answer{Node: -1}
	emit := -1
	for i := len(p.Nodes) - 1; i >= 0 && emit < 0; i-- {
		if p.Nodes[i].Op == OpEmit {
			emit = i
		}
	}
	if emit < 0 || p.Nodes[emit].When != nil {
		return none
	}
	ref := p.Nodes[emit].Input.whole()
	if ref == nil || ref.hasDefault || ref.slot >= len(p.Nodes) {
		return none
	}
	n := &p.Nodes[ref.slot]
	key, isText := textStep(ref.steps)
	if !isText || n.Op != OpCall && n.Op != OpPlan {
		return none
	}
	return Answer{Node: ref.slot, Key: key}
}

// whole returns the slot of a template that is one slot alone or a map of only :final and one slot;
// nil for any other template.
func (t *Template) whole() *slotRef {
	if t.Constant() || len(t.slots) != 1 {
		return nil
	}
	ref := &t.slots[0]
	switch {
	case t.root.kind == partSlot:
		return ref
	case ref.final && t.source.Len() == 1 && len(ref.where) == 1:
		return ref
	}
	return nil
}

// textStep returns the key of the text that a path below a slot selects, "" for the whole
// slot. ok is false for any other path.
func textStep(steps []step) (key string, ok bool) {
	if len(steps) > 1 && steps[0].key.Equal(keyOut) {
		steps = steps[1:]
	}
	if len(steps) == 0 {
		return "", true
	}
	key, _ = steps[0].key.AsKeyword()
	return key, len(steps) == 1 && textKeys.has(key)
}

var keyOut = edn.K("out")

// textKeys are the keys under which a result may hold its text (SLOT-008).
var textKeys = keySet{"text", "content", "summary", "answer", "explanation", "code", "patch"}

// Answers returns the nodes whose slots, or a part of them, are the inputs of the emits of
// the plan, in order; none for a plan without emit. ok is false if an emit has another
// input.
func (p *Plan) Answers() (nodes []*Node, ok bool) {
	for i := range p.Nodes {
		if p.Nodes[i].Op != OpEmit {
			continue
		}
		ref := p.Nodes[i].Input.whole()
		if ref == nil || ref.hasDefault || ref.slot >= len(p.Nodes) {
			return nil, false
		}
		nodes = append(nodes, &p.Nodes[ref.slot])
	}
	return nodes, true
}
