package plan

import (
	"fmt"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// whole checks the input of a node against its schema with everything known
// about its slots. The check of a single slot ignores which alternatives of the
// schema the other parts of the input exclude. It warns of an input that fits
// only if a producer returns a key that its schema does not name.
func (c *checker) whole(pl *place, n *Node, in *wanted) {
	s := in.schema
	if s == nil || in.fits || n.Input.Slots() == 0 || n.Fn {
		return
	}
	f := c.fitter(pl, n, s, true)
	never := !f.mayFit(s, n.Input.root, 0)
	if !never {
		f = c.fitter(pl, n, s, false)
	}
	b := f.blame(s, n.Input.root, nil, 0)
	t, where := b.part, b.where
	wants := ""
	if len(b.wants) > 0 && len(where) > 0 {
		wants = ", which wants " + specOf(b.wants) + " there"
	}
	if only := n.Input.slots[0].where; n.Input.Slots() == 1 && !slices.EqualFunc(where, only, edn.Equal) {
		t, where, wants = &part{kind: partSlot}, only, ""
	}
	what, binding := show(t.value), ""
	if t.kind == partSlot {
		r := &n.Input.slots[t.slot]
		what, binding = r.path(), r.name
		if known := c.readable(pl, r); len(known) > 0 {
			what += " is " + show(known[0]) + " and"
		}
	}
	path := slices.Concat(pl.p.path(n.Index, kInput), where)
	if never {
		c.report(Finding{
			Check: checkNeverFits, Path: path, binding: binding,
			Message: fmt.Sprintf("%s can never fit :%s%s, in %s", what, in.name, wants, showPath(path)),
		}, false)
	} else {
		c.warn(checkNeverFits, path, "%s does not fit :%s as its producer describes it, in %s", what, in.name,
			showPath(path))
	}
}

// fitter returns the fitter for the input of a node with everything known about
// its slots. With open, producers may return keys that their schemas do not
// name.
func (c *checker) fitter(pl *place, n *Node, in *schema.Schema, open bool) *fitter {
	return &fitter{ctx: c.env.Ctx, slot: func(i int, want *schema.Schema) bool {
		return c.slotMayFit(pl, &n.Input.slots[i], in, want, open)
	}}
}

// slotPair is the producer of a slot and the schema of the consumer's place.
type slotPair struct {
	producer string
	want     *schema.Schema
}

// slotFit is the decision about one path into the answer of a producer.
type slotFit struct {
	from []step
	open bool
	fits bool
}

// slotMayFit reports whether a slot may hold a value that fits a schema.
func (c *checker) slotMayFit(pl *place, r *slotRef, in, want *schema.Schema, open bool) bool {
	if r.hasDefault {
		return true
	}
	if values := c.readable(pl, r); len(values) > 0 {
		return slices.ContainsFunc(values, want.Valid)
	}
	from, below := r.below()
	if r.slot >= len(pl.p.Nodes) || !below || len(r.steps) == 0 && wantsText(in.Branches(r.where...)) {
		return true
	}
	pair := slotPair{c.env.outSchema(&pl.p.Nodes[r.slot]), want}
	out, known := c.env.Registry.Schema(pair.producer)
	if !known {
		return true
	}
	if len(r.steps) == 0 {
		return schema.Satisfies(mapSchema(), want) != schema.No
	}
	for _, f := range c.slotFits[pair] {
		if f.open == open && sameSteps(f.from, from) {
			return f.fits
		}
	}
	given, all := reach([]*schema.Schema{out}, keysOf(from), open)
	fits := !all || len(given) == 0 || slices.ContainsFunc(given, func(g *schema.Schema) bool {
		return schema.Satisfies(g, want) != schema.No
	})
	if c.slotFits == nil {
		c.slotFits = make(map[slotPair][]slotFit)
	}
	if len(c.slotFits[pair]) < maxFits {
		c.slotFits[pair] = append(c.slotFits[pair], slotFit{from: from, open: open, fits: fits})
	}
	return fits
}
