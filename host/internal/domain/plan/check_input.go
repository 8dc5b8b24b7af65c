package plan

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// literal reports what is wrong with an input whatever its slots will hold.
func (c *checker) literal(p *Plan, n *Node) {
	s, ok := c.env.Registry.Schema(c.env.inSchema(n))
	if !ok {
		return
	}
	input := n.Input.Source()
	if n.Input == nil {
		input = edn.MustMap()
	}
	var f fitter
	if n.Input.Constant() && s.Valid(input) || !n.Input.Constant() && f.mayFit(s, n.Input.root, 0) {
		return
	}
	reported := false
	what := n.Intent
	if n.Op == OpTool {
		what = n.ToolID
	}
	for _, f := range s.Validate(input) {
		if n.Input.fills(f.Path) {
			continue
		}
		reported = true
		path := slices.Concat(p.path(n.Index, kInput), f.Path)
		got := ""
		if !f.Got.IsNil() {
			got = ", got " + f.Got.String()
		}
		c.report(Finding{
			Check: checkNeverFits, Path: path,
			Message: fmt.Sprintf("the :input of :%s: %s%s, in %s", what, f.Message, got, showPath(path)),
		}, false)
	}
	if !reported {
		t, where := f.blame(s, n.Input.root, nil)
		path := slices.Concat(p.path(n.Index, kInput), where)
		c.bad(checkNeverFits, path, edn.Nil(), "the :input of :%s: %s can never fit, whatever its slots hold, in %s", what, show(t.value), showPath(path))
	}
}

// fitter decides whether a template may fit a schema, whatever its slots hold. It is there to be fast: of what it does
// not look at it says yes.
type fitter struct {
	// slot reports whether slot i of the template may fit a schema. Nil: each slot may fit any schema.
	slot func(i int, s *schema.Schema) bool
}

// mayFit reports whether a part of the template may fit a schema.
func (f *fitter) mayFit(s *schema.Schema, t *part, depth int) bool {
	s = s.Deref()
	switch {
	case depth > maxSchemaDepth:
		return true
	case t.kind == partSlot:
		return f.slot == nil || f.slot(t.slot, s)
	case t.kind == partStatic:
		return s.Valid(t.value)
	}
	deeper := func(s *schema.Schema) bool { return f.mayFit(s, t, depth+1) }
	switch s.Kind() {
	case schema.KindAny, schema.KindNot, schema.KindEnum:
		return true
	case schema.KindMaybe, schema.KindOr:
		return slices.ContainsFunc(s.Children(), deeper)
	case schema.KindAnd:
		return !slices.ContainsFunc(s.Children(), func(s *schema.Schema) bool { return !deeper(s) })
	}
	return takes(s.Kind(), t.value.Kind()) && f.requiredKeys(s, t) && f.misfit(s, t, depth) == nil
}

// takes reports whether a collection of one kind may fit a schema of another kind.
func takes(s schema.Kind, v edn.Kind) bool {
	switch s {
	case schema.KindMap, schema.KindMapOf:
		return v == edn.KindMap
	case schema.KindVector, schema.KindTuple:
		return v == edn.KindVector
	case schema.KindList:
		return v == edn.KindList
	case schema.KindSequential:
		return v == edn.KindVector || v == edn.KindList
	case schema.KindSet:
		return v == edn.KindSet
	}
	return false
}

// requiredKeys reports whether a template has the keys and the length that a schema wants.
func (f *fitter) requiredKeys(s *schema.Schema, t *part) bool {
	for _, e := range s.Entries() {
		if _, has := t.value.Get(e.Key); !has && !e.Optional {
			return false
		}
	}
	return s.Kind() != schema.KindTuple || len(s.Children()) == t.value.Len()
}

// element is one element or entry of a collection.
type element struct {
	step edn.Value
	// schema is nil if the collection must not have the element.
	schema *schema.Schema
	part   *part
}

// misfit returns the first element of a collection that cannot fit; nil if there is none.
func (f *fitter) misfit(s *schema.Schema, t *part, depth int) *element {
	next := 0
	bad := func(i int, step, v edn.Value, s *schema.Schema) *element {
		if next < len(t.at) && int(t.at[next]) == i {
			next++
			if kid := &t.kids[next-1]; s == nil || !f.mayFit(s, kid, depth+1) {
				return &element{step: step, schema: s, part: kid}
			}
			return nil
		}
		if s == nil || !s.Valid(v) {
			return &element{step: step, schema: s, part: &part{value: v}}
		}
		return nil
	}
	i := 0
	if t.value.IsMap() {
		for k, v := range t.value.Entries() {
			if e := bad(i, k, v, valueSchema(s, k)); e != nil {
				return e
			}
			i++
		}
		return nil
	}
	for v := range t.value.Elems() {
		if e := bad(i, elementStep(t.value, v, i), v, elementSchema(s, i)); e != nil {
			return e
		}
		i++
	}
	return nil
}

var anySchema = sync.OnceValue(func() *schema.Schema { return schema.MustCompile(edn.K("any")) })

// valueSchema is the schema of the value under a key of a map, nil if the map must not have the key.
func valueSchema(s *schema.Schema, key edn.Value) *schema.Schema {
	if s.Kind() == schema.KindMapOf {
		if !s.Children()[0].Valid(key) {
			return nil
		}
		return s.Children()[1]
	}
	e, known := s.Entry(key)
	switch {
	case known:
		return e.Schema
	case s.Closed():
		return nil
	}
	return anySchema()
}

// elementSchema is the schema of element i of a collection.
func elementSchema(s *schema.Schema, i int) *schema.Schema {
	switch {
	case len(s.Children()) == 0:
		return anySchema()
	case s.Kind() == schema.KindTuple:
		return s.Children()[i]
	}
	return s.Children()[0]
}

// blame follows a template that cannot fit to the innermost part that cannot, as far as the schema has no
// alternatives.
func (f *fitter) blame(s *schema.Schema, t *part, path []edn.Value) (*part, []edn.Value) {
	for range maxSchemaDepth {
		for s = s.Deref(); s.Kind() == schema.KindMaybe; s = s.Children()[0].Deref() {
		}
		if t.kind != partInner || !takes(s.Kind(), t.value.Kind()) || !f.requiredKeys(s, t) {
			break
		}
		e := f.misfit(s, t, 0)
		if e == nil || e.schema == nil {
			break
		}
		s, t, path = e.schema, e.part, append(path, e.step)
	}
	return t, path
}

// fills reports whether a slot of the template has a say in what is at a path:
// it stands there, in it or around it.
func (t *Template) fills(path []edn.Value) bool {
	if t == nil {
		return false
	}
	return slices.ContainsFunc(t.slots, func(r slotRef) bool {
		n := min(len(path), len(r.where))
		return slices.EqualFunc(path[:n], r.where[:n], edn.Equal)
	})
}

// collection reports a map node over something that is none.
func (c *checker) collection(pl *place, n *Node) {
	p := pl.p
	if n.Over == nil || len(n.Over.slots) != 1 || len(n.Over.slots[0].where) > 0 {
		return
	}
	r := &n.Over.slots[0]
	if known := c.readable(pl, r); len(known) > 0 && !slices.ContainsFunc(known, hasItems) {
		path := p.path(n.Index, kOver)
		c.bad(checkNeverFits, path, edn.Nil(), "%s is %s, not a collection, in %s", r.path(), show(known[0]), showPath(path))
		return
	}
	if r.slot >= len(p.Nodes) || len(r.steps) == 0 {
		return
	}
	below, ok := r.below()
	name := c.env.outSchema(&p.Nodes[r.slot])
	out, known := c.env.Registry.Schema(name)
	if !ok || !known {
		return
	}
	if given, all := reach([]*schema.Schema{out}, below, true); !all || len(given) == 0 || slices.ContainsFunc(given, holdsMany) {
		return
	}
	path := p.path(n.Index, kOver)
	c.bad(checkNeverFits, path, edn.Nil(), "%s of schema :%s is no collection, in %s", r.path(), name, showPath(path))
}

// holdsMany reports whether a map node can go over what a schema describes.
func holdsMany(s *schema.Schema) bool {
	return s.Kind() == schema.KindAny || s.Kind() > schema.KindUUID && s.Kind() != schema.KindRe
}

// misspelt warns of a slot path with a key that the schema of its producer does
// not name where it names one much like it. Schemas of maps are open, so the key
// may be there for all that.
func (c *checker) misspelt(p *Plan, r *read) {
	path, ok := r.ref.below()
	name := c.env.outSchema(&p.Nodes[r.slot])
	out, known := c.env.Registry.Schema(name)
	if !ok || !known {
		return
	}
	at := []*schema.Schema{out}
	for i, key := range path {
		if at, ok = alternatives(at, nil, 0); !ok {
			return
		}
		var kids []*schema.Schema
		var names []string
		for _, s := range at {
			if s.Kind() != schema.KindMap {
				return
			}
			if e, has := s.Entry(key); has {
				kids = append(kids, e.Schema)
			}
			for _, e := range s.Entries() {
				if k, is := e.Key.AsKeyword(); is {
					names = append(names, k)
				}
			}
		}
		if at = kids; len(at) > 0 {
			continue
		}
		if k, is := path[i].AsKeyword(); is {
			if near := nearest(k, names); !near.IsNil() {
				where := p.path(r.node, r.where...)
				c.report(Finding{
					Check: checkUnnamed, Severity: Warning, Path: where, Nearest: near,
					Message: fmt.Sprintf("%s leads to :%s, which :%s does not name, in %s", r.ref.path(), k, name, showPath(where)) + suggest(near),
				}, false)
			}
		}
		return
	}
}

// below returns the path of a slot inside the :out of its producer, empty for the
// whole slot; ok is false if the path leads to another field.
func (r *slotRef) below() (path []edn.Value, ok bool) {
	steps := r.steps
	if len(steps) > 0 && steps[0].field != fieldNone {
		if steps[0].field != fieldOut {
			return nil, false
		}
		steps = steps[1:]
	}
	path = make([]edn.Value, len(steps))
	for i := range steps {
		path[i] = steps[i].key
	}
	return path, true
}

// affordable reports a budget of the node's own that leaves nothing for a single
// attempt.
func (c *checker) affordable(p *Plan, n *Node) {
	if n.Layer == nil {
		return
	}
	for _, f := range n.Layer.Budget {
		name, _ := f.Key.AsKeyword()
		limit, ok := f.Value.AsInt()
		if !ok || limit != 0 || !slices.Contains([]string{"max-attempts", "max-roundtrips"}, name) {
			continue
		}
		path := p.path(n.Index, kBudget, f.Key)
		c.bad(checkWorst, path, edn.Nil(), "every call takes one attempt and one roundtrip, and the budget allows %d, in %s", limit, showPath(path))
	}
}
