package plan

import (
	"fmt"
	"slices"

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
	if n.Input.Constant() && s.Valid(input) || !n.Input.Constant() && inputMayFit(s, n.Input.root, 0) {
		return
	}
	what := n.Intent
	if n.Op == OpTool {
		what = n.ToolID
	}
	for _, f := range s.Validate(input) {
		if n.Input.fills(f.Path) {
			continue
		}
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
}

// inputMayFit reports whether a template may fit a schema, whatever its slots hold. It
// is there to be fast: of what it does not look at it says yes.
func inputMayFit(s *schema.Schema, t *part, depth int) bool {
	s = s.Deref()
	switch {
	case t.kind == partSlot || depth > maxSchemaDepth:
		return true
	case t.kind == partStatic:
		return s.Valid(t.value)
	}
	deeper := func(s *schema.Schema) bool { return inputMayFit(s, t, depth+1) }
	switch s.Kind() {
	case schema.KindMaybe, schema.KindOr:
		return slices.ContainsFunc(s.Children(), deeper)
	case schema.KindAnd:
		return !slices.ContainsFunc(s.Children(), func(s *schema.Schema) bool { return !deeper(s) })
	case schema.KindVector, schema.KindList, schema.KindSequential:
		next, i := 0, 0
		for v := range t.value.Elems() {
			if len(s.Children()) == 1 && !t.fitsAt(s.Children()[0], i, &next, v, depth) {
				return false
			}
			i++
		}
	case schema.KindMap:
		if !t.value.IsMap() {
			return false
		}
		for _, e := range s.Entries() {
			if _, has := t.value.Get(e.Key); !has && !e.Optional {
				return false
			}
		}
		next, i := 0, 0
		for k, v := range t.value.Entries() {
			e, known := s.Entry(k)
			if !known && s.Closed() || known && !t.fitsAt(e.Schema, i, &next, v, depth) {
				return false
			}
			i++
		}
	}
	return true
}

// fitsAt is inputMayFit for the place i of what an inner part holds; next is the next
// of its kids.
func (t *part) fitsAt(s *schema.Schema, i int, next *int, v edn.Value, depth int) bool {
	for *next < len(t.at) && int(t.at[*next]) < i {
		*next++
	}
	if *next < len(t.at) && int(t.at[*next]) == i {
		return inputMayFit(s, &t.kids[*next], depth+1)
	}
	return s.Valid(v)
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
	if given, all := reach([]*schema.Schema{out}, below); !all || len(given) == 0 || slices.ContainsFunc(given, holdsMany) {
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
