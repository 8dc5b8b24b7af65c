package plan

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// maxKnown bounds the items of a map that are followed as the values of its item slot.
const maxKnown = 64

// known returns the values that a frame slot can have if the plan itself
// contains them: the value of a let, a binding of a nested plan, or the items
// of a map over such a value. It returns nil if they are unknown.
func (c *checker) known(pl *place, slot int) []edn.Value {
	k := slot - len(pl.p.Nodes)
	if k < 0 {
		return pl.p.Nodes[slot].written()
	}
	if pl.up == nil {
		return nil // the caller may replace the bindings of a root plan
	}
	switch src := pl.node.Capture[k]; src.From {
	case FromSlot:
		return c.known(pl.up, src.Slot)
	case FromBinding:
		return []edn.Value{src.Value}
	case FromItem:
		return c.items(pl.up, pl.node)
	}
	return nil
}

// written returns the constant value of a let that always runs, nil for any other node.
func (n *Node) written() []edn.Value {
	if n.Op != OpLet || !n.Value.Constant() || !n.alwaysRuns() {
		return nil
	}
	return []edn.Value{n.Value.Source()}
}

// items returns the items of a map node over one known collection.
func (c *checker) items(pl *place, n *Node) []edn.Value {
	over := n.Over.Source()
	if !n.Over.Constant() {
		all := c.readable(pl, &n.Over.slots[0])
		if len(n.Over.slots[0].where) > 0 || len(all) != 1 {
			return nil
		}
		over = all[0]
	}
	switch over.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		if over.Len() <= maxKnown {
			return slices.Collect(over.Elems())
		}
	}
	return nil
}

// shape returns a template filled as far as the plan shows it. A slot map that
// cannot be filled before the run stays in its place. Its time over all
// templates of a plan is linear in the parts that hold slots.
func (pl *place) shape(t *Template) edn.Value {
	if t.Constant() {
		return t.Source()
	}
	return pl.shapeOf(t, t.root)
}

func (pl *place) shapeOf(t *Template, p *part) edn.Value {
	switch p.kind {
	case partSlot:
		r := &t.slots[p.slot]
		if v, ok := r.find(weighed(pl.slotShape(r.slot), 0), viewInside); ok {
			return v
		}
	case partInner:
		return p.replace(func(kid *part) edn.Value { return pl.shapeOf(t, kid) })
	}
	return p.value
}

// slotShape returns the shape of the value of a frame slot, nil if the plan does not show it: that
// of a let, of a binding of a nested plan, or of the first item of a map, for all of its items.
func (pl *place) slotShape(slot int) edn.Value {
	if v, known := pl.shapes[slot]; known {
		return v
	}
	v := edn.Nil()
	if k := slot - len(pl.p.Nodes); k < 0 {
		if n := &pl.p.Nodes[slot]; n.Op == OpLet {
			v = pl.shape(n.Value)
		}
	} else if pl.up != nil {
		switch src := pl.node.Capture[k]; src.From {
		case FromSlot:
			v = pl.up.slotShape(src.Slot)
		case FromBinding:
			v = src.Value
		case FromItem:
			v, _ = pl.up.shape(pl.node.Over).Nth(0)
		}
	}
	if pl.shapes == nil {
		pl.shapes = make(map[int]edn.Value)
	}
	pl.shapes[slot] = v
	return v
}

// readable returns the values that can fill a template slot, if the plan
// contains them.
func (c *checker) readable(pl *place, r *slotRef) []edn.Value {
	all := c.known(pl, r.slot)
	out := make([]edn.Value, 0, len(all))
	for _, v := range all {
		x, ok := r.find(ValueSlot(v), viewInside)
		if !ok {
			return nil // a default may be used
		}
		out = append(out, x)
	}
	return out
}

// knownFits reports an input slot whose known values all fail the schema of its
// place.
func (c *checker) knownFits(pl *place, r *read) {
	reader := &pl.p.Nodes[r.node]
	values := c.readable(pl, r.ref)
	if len(values) == 0 {
		return
	}
	name := c.env.inSchema(reader)
	in, ok := c.env.Registry.Schema(name)
	if !ok {
		return
	}
	wanted, all := reach([]*schema.Schema{in}, r.ref.where, true)
	if !all || len(wanted) == 0 {
		return
	}
	for i, v := range values {
		if reader.Fn && !v.IsMap() {
			v = edn.MustMap(kValue, v) // wrapped as at run time
			values[i] = v
		}
		if slices.ContainsFunc(wanted, func(s *schema.Schema) bool { return s.Valid(v) }) {
			return
		}
	}
	path := pl.p.path(r.node, r.where...)
	why := ""
	if isSlot, _ := slotShape(values[0]); isSlot {
		why = ", because a slot in :bindings is data"
	} else {
		first := wanted[0].Validate(values[0])[0]
		why = ": " + first.Message
		if len(first.Path) > 0 {
			why = ": " + showPath(first.Path) + " " + first.Message
		}
	}
	c.report(Finding{
		Check: checkNeverFits, Path: path, binding: r.name,
		Message: fmt.Sprintf("%s is %s, which can never fit :%s%s, in %s", r.ref.path(), show(values[0]), name, why,
			showPath(path)),
	}, false)
}

// slotCandidates reports slots among the candidates of a call whose known value
// is not a known capability. It returns the candidates if the plan contains all
// of them and they are known, else nil.
func (c *checker) slotCandidates(pl *place, n *Node) (ids []string) {
	t := n.Candidates
	if t.Constant() {
		return nil // absent, or rejected by Parse
	}
	list, said := t.root.kind == partSlot, true
	given := make([]edn.Value, len(t.slots))
	for i := range t.slots {
		r := &t.slots[i]
		values := c.readable(pl, r)
		if said = said && len(values) == 1; len(values) == 0 {
			continue
		}
		given[i] = values[0]
		if !slices.ContainsFunc(values, func(v edn.Value) bool { return c.isCandidate(v, list) }) {
			c.wrongCandidate(pl, n, r, values[0], list)
			said = false
		}
	}
	if !said {
		return nil
	}
	all := t.source
	if list {
		all = given[0]
	}
	slot := 0
	for e := range all.Elems() {
		if isSlot, _ := slotShape(e); isSlot && !list {
			e = given[slot]
			slot++
		}
		id, _ := capRef(e)
		ids = append(ids, id)
	}
	return ids
}

// isCandidate reports whether a value is a known capability, or with list a collection of known
// capabilities.
func (c *checker) isCandidate(v edn.Value, list bool) bool {
	if !list {
		id, isRef := capRef(v)
		_, known := c.env.Registry.Capability(id)
		return isRef && known
	}
	if !isCollection(v) {
		return false
	}
	for e := range v.Elems() {
		if !c.isCandidate(e, false) {
			return false
		}
	}
	return true
}

// wrongCandidate reports a slot among the candidates with a wrong value. A
// wrong handle of a let is reported at the let.
func (c *checker) wrongCandidate(pl *place, n *Node, r *slotRef, v edn.Value, list bool) {
	path := pl.p.path(n.Index, kFn)
	if !n.Fn {
		path = pl.p.path(n.Index, append([]edn.Value{kDispatch, kCandidates}, r.where...)...)
	}
	wanted := "a capability id or a handle"
	isElement := isCollection(v)
	if list {
		wanted = "a vector of capability ids and handles"
		for e := range v.Elems() {
			if !c.isCandidate(e, false) {
				v = e
				break
			}
		}
	}
	id, isRef := capRef(v)
	isRef = isRef && (!list || isElement)
	switch w := pl.writer(r.slot); {
	case !isRef:
		c.bad(checkType, path, edn.Nil(), "wanted %s, got %s from the slot :%s, in %s", wanted, show(v), r.name,
			showPath(path))
	case w != nil && w.Op == OpLet && edn.Equal(w.Value.Source(), v) && v.IsMap():
	default:
		c.capability(path, id, "capability")
	}
}

// hasItems reports whether a map node can run over a value.
func hasItems(v edn.Value) bool { return isCollection(v) || v.Kind() == edn.KindMap }

// writer returns the node whose result a frame slot holds, in this plan or an
// outer one; nil if the slot has another source.
func (pl *place) writer(slot int) *Node {
	k := slot - len(pl.p.Nodes)
	switch {
	case k < 0:
		return &pl.p.Nodes[slot]
	case pl.up == nil || pl.node.Capture[k].From != FromSlot:
		return nil
	}
	return pl.up.writer(pl.node.Capture[k].Slot)
}

// neverWritten reports a required read of a slot whose writer never runs
// (SLOT-003). A reader with a condition may be skipped for the same reason;
// conditional warns of it.
func (c *checker) neverWritten(pl *place, r *read) bool {
	if r.optional || r.kind == readWhen || r.kind == readCapture {
		return false
	}
	w := pl.writer(r.slot)
	if w == nil || w.mayRun() || !pl.p.Nodes[r.node].alwaysRuns() {
		return false
	}
	for around := pl; around.node != nil; around = around.up {
		if !around.node.alwaysRuns() {
			return false
		}
	}
	path := pl.p.path(r.node, r.where...)
	c.bad(checkNeverFilled, path, edn.Nil(),
		"slot :%s is never filled, because node %s never runs; use :slot/default in %s", r.name, w.ID, showPath(path))
	return true
}

func (n *Node) alwaysRuns() bool {
	runs, certain := n.When.constant()
	return certain && runs
}

func (n *Node) mayRun() bool {
	runs, certain := n.When.constant()
	return !certain || runs
}
