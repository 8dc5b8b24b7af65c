package plan

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// unmarkedHint is the next step for an unmarked slot that leads into a system
// prompt.
const unmarkedHint = "move the text to :prompt or to a message of the role :user; " +
	"if it may give the model instructions, write :slot/system? true in the slot map of this :system or :input"

// origin traces slots back to the values written in the plan. Bindings of the root plan
// belong to its caller and count as written; whether the caller may set a system prompt is
// decided by the operation prompt/override (PRM-003).
type origin struct {
	plan *Plan
	// node is the plan or map node of up.plan that holds the plan; both are nil for a root plan.
	node *Node
	up   *origin
	// frame holds the values of a run, nil before it. Only the slots that a
	// filled template reads are read.
	frame *Frame
	// answered is true for a plan that a capability answered with: its bindings and the
	// names around it count as results. The marks in it count only if trusted is true.
	answered, trusted bool
	// left is the remaining number of slots that may be followed by their path;
	// beyond it any slot inside a let counts. It is shared by all origins of
	// one trace.
	left *int
	// inside caches by frame slot whether any part of it is a result.
	inside map[int]bool
}

// maxFollowed bounds origin.left.
const maxFollowed = 256

func newOrigin() *origin {
	left := maxFollowed
	return &origin{left: &left}
}

// originOf returns the origin of the nodes of a place in a static check.
func originOf(pl *place) *origin {
	o := newOrigin()
	o.plan, o.node = pl.p, pl.node
	if pl.up != nil {
		o.up = originOf(pl.up)
		o.left = o.up.left
	}
	return o
}

// Author is the kind of author of a plan.
type Author uint8

// The kinds of author. ByCaller is the caller of the act. ByTrusted is a capability whose plugin
// has the operation prompt/override, so that it may set a system prompt; ByCapability is any other
// capability.
const (
	ByCaller Author = iota
	ByCapability
	ByTrusted
)

// originIn returns the origin of the nodes of a running plan.
func originIn(f *Frame, by Author) *origin {
	o := newOrigin()
	o.plan, o.frame, o.answered, o.trusted = f.prog.Plan, f, by != ByCaller, by == ByTrusted
	if f.up != nil && !o.answered {
		o.up, o.node = originIn(f.up, ByCaller), &f.up.prog.Plan.Nodes[f.at]
		o.left = o.up.left
	}
	return o
}

// unmarked returns the first unmarked slot of a template that puts a result at
// a path, nil if there is none. An empty path means anywhere in the template.
func (o *origin) unmarked(t *Template, path []edn.Value) *slotRef {
	if t.Constant() {
		return nil
	}
	return o.unmarkedIn(t, t.root, path)
}

func (o *origin) unmarkedIn(t *Template, p *part, path []edn.Value) *slotRef {
	switch p.kind {
	case partSlot:
		r := &t.slots[p.slot]
		if r.system && (!o.answered || o.trusted) || !o.result(r, path) {
			return nil
		}
		return r
	case partInner:
		if len(path) > 0 {
			kid, ok := p.kid(path[0])
			if !ok {
				return nil
			}
			return o.unmarkedIn(t, kid, path[1:])
		}
		for i := range p.kids {
			if r := o.unmarkedIn(t, &p.kids[i], nil); r != nil {
				return r
			}
		}
	}
	return nil
}

// kid returns the part that a path step leads to, if it holds slots. It
// resolves keys like walk.
func (p *part) kid(key edn.Value) (*part, bool) {
	s, ok := newStep(key)
	if !ok {
		return nil, false
	}
	at := s.index
	if p.value.IsMap() {
		if !p.value.Has(key) {
			key = s.text
		}
		at = -1
		i := 0
		for k := range p.value.Entries() {
			if edn.Equal(k, key) {
				at = i
				break
			}
			i++
		}
	}
	i, found := slices.BinarySearch(p.at, int32(at))
	if !found {
		return nil, false
	}
	return &p.kids[i], true
}

// result reports whether a path inside the value of a slot may lead to the
// result of a capability.
func (o *origin) result(r *slotRef, path []edn.Value) bool {
	if o.frame != nil && r.hasDefault {
		if _, filled := r.find(o.frame.slots[r.slot], viewInside); !filled {
			return false // the default is part of the plan
		}
	}
	return o.resultAt(r.slot, append(keysOf(r.steps), path...))
}

// resultAt reports whether a path inside a frame slot may lead to the result of a capability.
func (o *origin) resultAt(slot int, path []edn.Value) bool {
	*o.left--
	if len(path) == 0 || *o.left < 0 {
		return o.resultInside(slot)
	}
	if k := slot - len(o.plan.Nodes); k >= 0 {
		return o.outerResult(k, path)
	}
	n := &o.plan.Nodes[slot]
	if n.Op != OpLet {
		return o.resultInside(slot)
	}
	return o.unmarked(n.Value, path) != nil || o.unmarked(n.Value, append([]edn.Value{kOut}, path...)) != nil
}

// resultInside reports whether any part of a frame slot may be the result of a capability.
func (o *origin) resultInside(slot int) bool {
	if is, known := o.inside[slot]; known {
		return is
	}
	is := false
	if k := slot - len(o.plan.Nodes); k >= 0 {
		is = o.outerResult(k, nil)
	} else {
		switch n := &o.plan.Nodes[slot]; n.Op {
		case OpCall, OpTool:
			is = true
		case OpLet:
			is = o.unmarked(n.Value, nil) != nil
		case OpPlan, OpMap:
			is = n.Sub == nil || o.below(n).gives(n.Op)
		}
	}
	if o.inside == nil {
		o.inside = make(map[int]bool)
	}
	o.inside[slot] = is
	return is
}

// below returns the origin of the nodes of a plan or map node. The frames of
// its runs no longer exist.
func (o *origin) below(n *Node) *origin {
	return &origin{plan: n.Sub, node: n, up: o, answered: o.answered, trusted: o.trusted, left: o.left}
}

// gives reports whether a nested plan may return the result of a capability to
// its node.
func (o *origin) gives(op Op) bool {
	emits := false
	for i := range o.plan.Nodes {
		if n := &o.plan.Nodes[i]; n.Op == OpEmit {
			emits = true
			if o.unmarked(n.Input, nil) != nil {
				return true
			}
		}
	}
	last := len(o.plan.Nodes) - 1
	return !emits && op == OpMap && last >= 0 && o.resultInside(last)
}

// outerResult is resultAt for outer name k of the plan.
func (o *origin) outerResult(k int, path []edn.Value) bool {
	if o.up == nil {
		return o.answered
	}
	switch src := &o.node.Capture[k]; src.From {
	case FromSlot:
		return o.up.resultAt(src.Slot, path)
	case FromItem:
		return o.up.unmarked(o.node.Over, nil) != nil
	}
	return false
}

// system reports unmarked slots that put the result of a capability into the
// system prompt of a call, as far as the plan shows it (PRM-002). The others
// are found at run time.
func (c *checker) system(pl *place, n *Node) {
	var places [][]edn.Value
	if !n.Input.Constant() {
		places = prompt.SystemPlaces(c.intentOf(n), pl.shape(n.Input))
	}
	if n.System.Constant() && len(places) == 0 {
		return
	}
	o := originOf(pl)
	c.unmarked(pl.p, n, o.unmarked(n.System, nil), kSystem)
	if len(places) == 0 || !c.leadsToModel(n) {
		return
	}
	for _, place := range places {
		c.unmarked(pl.p, n, o.unmarked(n.Input, place), kInput)
	}
}

// unmarked reports a slot of the template under a key of a node, if it is not
// nil.
func (c *checker) unmarked(p *Plan, n *Node, r *slotRef, key edn.Value) {
	if r == nil {
		return
	}
	path := p.path(n.Index, append([]edn.Value{key}, r.where...)...)
	c.report(Finding{
		Check: checkSystem, Path: path, Expected: []string{slotSystem}, Hint: unmarkedHint,
		Message: fmt.Sprintf("slot %s puts a result into the system prompt, which takes only text of the plan, in %s",
			r.path(), showPath(path)),
	}, false)
}

// intentOf returns the intent of a call or a tool.
func (c *checker) intentOf(n *Node) string {
	if n.Op == OpTool {
		if capability, ok := c.env.Registry.Tool(n.ToolID); ok {
			return capability.ToolIntent()
		}
	}
	return n.Intent
}

// leadsToModel reports whether a candidate of a node passes the system messages of an input to a
// language model. An absent capability counts as one that does, because its kind is unknown: a plan
// that is rejected where a model runs is rejected also where the API key of the model is missing.
func (c *checker) leadsToModel(n *Node) bool {
	intent := c.intentOf(n)
	ids := []string{n.ToolID}
	if n.Op == OpCall {
		demand := c.env.Demand(n, c.env.choice(n))
		ids = demand.List()
	}
	return slices.ContainsFunc(ids, func(id string) bool {
		if _, absent := c.env.Registry.Absent(id); absent {
			return true
		}
		capability, ok := c.env.Registry.Tool(id) // a tool may be named by its alias
		return ok && prompt.LeadsToModel(intent, capability)
	})
}

// UnmarkedSystem returns a policy/blocked error if the filled :system of a call must not be
// sent because an unmarked slot puts the result of a capability there (PRM-002), nil if it
// may be sent.
func (n *Node) UnmarkedSystem(f *Frame, by Author) *contract.Error {
	if n.System.Constant() {
		return nil
	}
	return n.unmarkedError(originIn(f, by), n.System, kSystem, nil)
}

// UnmarkedInput is UnmarkedSystem for the parts of a filled input that a language model
// reads in its system prompt.
func (n *Node) UnmarkedInput(f *Frame, by Author, intent string, input edn.Value) *contract.Error {
	if n.Input.Constant() {
		return nil
	}
	places := prompt.SystemPlaces(intent, input)
	if len(places) == 0 {
		return nil
	}
	o := originIn(f, by)
	for _, place := range places {
		if err := n.unmarkedError(o, n.Input, kInput, place); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) unmarkedError(o *origin, t *Template, key edn.Value, place []edn.Value) *contract.Error {
	r := o.unmarked(t, place)
	if r == nil {
		return nil
	}
	path := append([]edn.Value{key}, r.where...)
	at := append([]edn.Value{key}, place...)
	hint := unmarkedHint
	switch {
	case o.answered && !o.trusted:
		hint = "have the plan of the capability write the text of " + showPath(at) +
			" itself; a mark in such a plan does not count"
	case n.Fn:
		hint = "write :body with a call in place of :fn; " + unmarkedHint
	}
	return contract.Errorf("policy/blocked",
		"node %s: slot %s puts a result into the system prompt at %s, which takes only text of the plan",
		n.ID, r.path(), showPath(at)).
		WithHint(hint).
		WithDetail("reason", edn.K("slot/system")).
		WithDetail("slot", edn.K(r.name)).
		WithDetail("path", edn.Vector(path...)).
		WithDetail("place", edn.Vector(at...)).
		WithDetail("expected", kSlotSystem)
}
