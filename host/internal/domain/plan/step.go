package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// FillLayer returns the policy layer of the node with the slots in candidates, context and
// constraints filled. Without such slots it is the node's own layer, shared, which may be
// nil. The errors are those of Template.Fill, and plan/invalid for a filled value of the
// wrong type.
func (n *Node) FillLayer(f *Frame) (*policy.Layer, *contract.Error) {
	if n.Candidates == nil && n.Context.Constant() && n.Constraints.Constant() {
		return n.Layer, nil
	}
	l := &policy.Layer{}
	if n.Layer != nil {
		*l = *n.Layer
	}
	from := policy.Origin{Source: policy.SourceNode, Where: n.ID}
	if n.Candidates != nil {
		ids, err := n.fillCandidates(f)
		if err != nil {
			return nil, err
		}
		l.Candidates = policy.Of(ids, from)
	}
	for _, part := range [...]struct {
		t    *Template
		name string
		into *policy.Fields
	}{{n.Context, "context", &l.Context}, {n.Constraints, "constraints", &l.Constraints}} {
		if part.t.Constant() {
			continue
		}
		v, _, err := part.t.Fill(f, nil)
		if err != nil {
			return nil, err
		}
		if v.Kind() != edn.KindMap {
			return nil, n.misfilled(part.name, "a map", v)
		}
		if part.name == "context" {
			if err := n.hostOnly(v); err != nil {
				return nil, err
			}
		}
		*part.into = policy.FieldsOf(v, from)
	}
	return l, nil
}

// hostOnly rejects a filled :context with a key that only the host may write: a
// language model would read it as its prompt (PRM-002). CHECK-028 reports such
// keys written in the plan.
func (n *Node) hostOnly(context edn.Value) *contract.Error {
	for _, key := range hostOnlyContext {
		if context.Has(key) {
			return contract.Errorf("plan/invalid", "node %s: the value that fills :context has %s, which only the host may write",
				n.ID, key).
				WithHint("fill single keys of :context instead of the whole map").
				WithDetail("path", edn.Vector(edn.K("context"), key))
		}
	}
	return nil
}

// fillCandidates parses capability ids and handles after filling (SLOT-007).
func (n *Node) fillCandidates(f *Frame) ([]string, *contract.Error) {
	v, _, err := n.Candidates.Fill(f, nil)
	if err != nil {
		return nil, err
	}
	if !isCollection(v) {
		return nil, n.misfilled("dispatch :candidates", "a vector of capabilities", v)
	}
	ids := make([]string, 0, v.Len())
	for e := range v.Elems() {
		id, ok := capRef(e)
		if !ok {
			return nil, n.misfilled("dispatch :candidates", "capability ids and handles", e)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// FillSystem returns the `:system` text of a call, "" if it has none. The errors are those
// of Template.Fill, and plan/invalid if the filled value is not a string.
func (n *Node) FillSystem(f *Frame) (string, *contract.Error) {
	if n.System == nil {
		return "", nil
	}
	v, _, err := n.System.Fill(f, nil)
	if err != nil {
		return "", err
	}
	text, ok := v.AsString()
	if !ok {
		return "", n.misfilled("system", "a string", v)
	}
	return text, nil
}

// Items are the elements that a map runs its body for, in order.
type Items []edn.Value

// FillOver returns the elements that a map node runs over: those of a vector or list in
// order, those of a set in canonical order, and the entries of a map as [key value]
// (IR-011). The errors are those of Template.Fill, plan/too-large for more than
// limits.MapItems elements, slot/unresolved for nil and plan/invalid for any other value.
func (n *Node) FillOver(f *Frame, limits Limits) (Items, *contract.Error) {
	v, _, err := n.Over.Fill(f, nil)
	if err != nil {
		return nil, err
	}
	if s, ok := n.Over.wholeSlot(f); ok && s.res != nil {
		// Use only the :out of a whole result: a map over its keys would
		// iterate the host's metadata.
		v = s.res.Out
	}
	if v.Len() > limits.MapItems {
		return nil, contract.Errorf("plan/too-large", "map %s runs over %d items, the limit is %d", n.ID, v.Len(),
			limits.MapItems)
	}
	var items Items
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		items = make(Items, 0, v.Len())
		for e := range v.Elems() {
			items = append(items, e)
		}
	case edn.KindMap:
		items = make(Items, 0, v.Len())
		for k, x := range v.Entries() {
			items = append(items, edn.Vector(k, x))
		}
	case edn.KindNil:
		return nil, contract.Errorf("slot/unresolved", "map %s: :over is nil after filling, expected a collection", n.ID)
	default:
		return nil, n.misfilled("over", "a collection", v)
	}
	return items, nil
}

// wholeSlot returns the slot if the template is exactly one whole slot.
func (t *Template) wholeSlot(f *Frame) (Slot, bool) {
	if t.Constant() || t.root.kind != partSlot || len(t.slots[0].steps) > 0 {
		return Slot{}, false
	}
	return f.slots[t.slots[0].slot], true
}

// misfilled returns the error for a key whose filled value has the wrong type.
func (n *Node) misfilled(key, wanted string, got edn.Value) *contract.Error {
	return contract.Errorf("plan/invalid", "node %s: :%s must be %s after filling, not %s", n.ID, key, wanted, show(got)).
		WithHint("have the slot that fills :"+key+" hold "+wanted).
		WithDetail("got", edn.Text(got.Kind().String()))
}
