package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// fills reports whether anything can fill outer name k of the plan.
func (c *checker) fills(pl *place, k int) bool {
	name := pl.p.Outer[k]
	if pl.up == nil {
		if b := pl.p.Bindings; b.Kind() == edn.KindMap && b.HasKey(name) {
			return true
		}
		return c.env.Outer != nil && c.env.Outer(name)
	}
	src := pl.node.Capture[k]
	if src.From != FromSlot {
		return true
	}
	if outer := src.Slot - len(pl.up.p.Nodes); outer >= 0 {
		return c.fills(pl.up, outer)
	}
	return true
}

// nearestSlot returns the filled name most similar to an unfilled one, among
// the names that nodes and bindings of this and outer plans fill. Short names
// are too similar to each other and have none.
func (pl *place) nearestSlot(name string) edn.Value {
	const least = 3
	if len(name) < least {
		return edn.Nil()
	}
	var known []string
	for ; pl != nil; pl = pl.up {
		known = slices.AppendSeq(known, maps.Keys(pl.p.writers))
		bindings := []edn.Value{pl.p.Bindings}
		if pl.node != nil {
			bindings = append(bindings, pl.node.SubBindings)
		}
		for _, b := range bindings {
			for k := range b.Entries() {
				if filled, ok := k.AsKeyword(); ok {
					known = append(known, filled)
				}
			}
		}
	}
	return nearest(name, slices.DeleteFunc(known, func(k string) bool { return len(k) < least }))
}

// later finds the node at or after node at that writes a name, in the plan or
// an outer one.
func (pl *place) later(name string, at int) (*place, int, bool) {
	for ; pl != nil; pl = pl.up {
		if w, ok := pl.p.writers[name]; ok && w >= at {
			return pl, w, true
		}
		if pl.node != nil {
			at = pl.node.Index
		}
	}
	return nil, 0, false
}

// indexIn returns the index of the node of the outer plan that contains node i
// of pl.
func (pl *place) indexIn(around *place, i int) int {
	for ; pl != around; pl = pl.up {
		i = pl.node.Index
	}
	return i
}

// read checks one read of a name.
func (c *checker) read(pl *place, r *read, in *wanted) {
	if r.input && r.ref != nil {
		c.knownFits(pl, r)
	}
	if c.neverWritten(pl, r) {
		return
	}
	if k := r.slot - len(pl.p.Nodes); k >= 0 {
		// A nested plan reports its own reads.
		if r.kind != readCapture && !c.fills(pl, k) {
			c.unfilled(pl, r)
		}
		return
	}
	c.conditional(pl, r)
	if r.ref == nil {
		return
	}
	if r.input {
		c.compatible(pl.p, r, in)
	}
	c.misspelt(pl.p, r)
}

// unfilled reports a slot that nothing, or only a later node, can fill.
func (c *checker) unfilled(pl *place, r *read) {
	p := pl.p
	path := p.path(r.node, r.where...)
	where, w, isLater := pl.later(r.name, r.node)
	if isLater {
		if where.asked == nil {
			where.asked = make(map[int]bool)
		}
		where.asked[w] = true
	}
	if r.optional && (!r.final || !isLater) || c.full(Error) {
		return // what follows looks up positions, which is costly
	}
	if !isLater {
		c.bad(checkNeverFilled, path, pl.nearestSlot(r.name), "slot :%s is filled by no node, binding or default in %s",
			r.name, showPath(path))
		return
	}
	if writer := &where.p.Nodes[w]; w == pl.indexIn(where, r.node) {
		c.bad(checkFilledLater, path, edn.Nil(),
			"node %s reads slot :%s, which it fills itself; rename one of them or use :slot/default, in %s",
			writer.ID, r.name, showPath(path))
		return
	}
	if c.ring(where, pl.indexIn(where, r.node), w, path) {
		return
	}
	advice := "move the " + p.Nodes[r.node].Op.String()
	if r.kind == readSlot || r.kind == readEmit {
		advice += " or use :slot/default"
	}
	filled := where.p.path(w, kAs)
	c.report(Finding{
		Check: checkFilledLater, Path: path, elsewhere: filled,
		Message: fmt.Sprintf("slot :%s is filled later, by node %d at %s; %s", r.name, w, c.at.describe(filled), advice),
	}, false)
}

// rings caches the search for nodes of one plan that wait for each other.
type rings struct {
	waits    [][]int // the nodes that each node waits for; nil: not computed
	found    map[[2]int][]int
	reported map[string]bool // by the nodes, of which the lowest is first
}

// ring reports nodes that wait for each other because node from reads a slot of
// the later node to, and reports whether they do. One ring is reported once, at
// the first read that closes it.
func (c *checker) ring(pl *place, from, to int, path []edn.Value) bool {
	x := &pl.rings
	loop, searched := x.found[[2]int{from, to}]
	if !searched {
		if x.found == nil {
			x.found, x.reported = make(map[[2]int][]int), make(map[string]bool)
			x.waits = make([][]int, len(pl.p.Nodes))
		}
		loop = c.findRing(pl, from, to)
		x.found[[2]int{from, to}] = loop
	}
	if loop == nil {
		return false
	}
	if key := fmt.Sprint(loop); !x.reported[key] {
		x.reported[key] = true
		c.bad(checkCycle, path, edn.Nil(), "nodes wait for each other: %s; take out one of the reads or use :slot/default",
			pl.p.way(loop))
	}
	return true
}

// findRing returns the shortest cycle that goes from node from to node to and back, along
// required reads and :needs; nil if there is none. It begins with the lowest node.
func (c *checker) findRing(pl *place, from, to int) []int {
	cause := map[int]int{to: from}
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		for _, next := range c.awaited(pl, i) {
			if next == from {
				loop := []int{from}
				for ; i != from; i = cause[i] {
					loop = append(loop, i)
				}
				slices.Reverse(loop[1:])
				lowest := slices.Index(loop, slices.Min(loop))
				return append(loop[lowest:], loop[:lowest]...)
			}
			if _, seen := cause[next]; !seen {
				cause[next] = i
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// awaited returns the nodes that must be done before a node, including later nodes whose
// slots it reads.
func (c *checker) awaited(pl *place, node int) []int {
	if out := pl.rings.waits[node]; out != nil {
		return out
	}
	p := pl.p
	out := append([]int{}, p.Nodes[node].Needs...)
	i, _ := slices.BinarySearchFunc(p.reads, node, func(r read, node int) int { return r.node - node })
	for ; i < len(p.reads) && p.reads[i].node == node; i++ {
		r := &p.reads[i]
		w, written := p.writers[r.name]
		if k := r.slot - len(p.Nodes); written && !r.optional && (k < 0 || !c.fills(pl, k)) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	pl.rings.waits[node] = slices.Compact(out)
	return pl.rings.waits[node]
}

// conditional warns of a read that the condition of its writer may leave empty.
func (c *checker) conditional(pl *place, r *read) {
	p := pl.p
	writer, reader := &p.Nodes[r.slot], &p.Nodes[r.node]
	if writer.When == nil || r.optional || p.duplicates[r.name] || writer.When.invalid() || reader.When.invalid() {
		return
	}
	if writer.alwaysRuns() || !reader.mayRun() {
		return
	}
	if reader.When != nil && (edn.Equal(reader.WhenSource, writer.WhenSource) || p.asks(r.node, r.slot)) {
		return
	}
	path := p.path(r.node, r.where...)
	c.warn(checkMaybeUnfilled, path,
		"slot :%s may be unfilled because node %s has a condition; use :slot/default or :when in %s",
		r.name, writer.ID, showPath(path))
}

// asks reports whether the condition of a node reads a slot.
func (p *Plan) asks(node, slot int) bool {
	i, _ := slices.BinarySearchFunc(p.reads, node, func(r read, node int) int { return r.node - node })
	for ; i < len(p.reads) && p.reads[i].node == node; i++ {
		if p.reads[i].kind == readWhen && p.reads[i].slot == slot {
			return true
		}
	}
	return false
}

// compatible reports a slot whose producer can never return what the consumer's
// schema requires (SCH-011).
func (c *checker) compatible(p *Plan, r *read, in *wanted) {
	below, ok := r.ref.below()
	if !ok {
		return
	}
	pair := fitPair{c.env.outSchema(&p.Nodes[r.slot]), in.name}
	if pair.producer == "" || pair.consumer == "" || c.mayFit(pair, below, r.ref) {
		return
	}
	path := p.path(r.node, r.where...)
	given, wants := c.ends(pair, keysOf(below), r.ref.where, len(r.ref.steps) == 0)
	is, want := specOf(given), specOf(wants)
	if at, g, w := unfitAll(given, wants); len(at) > 0 {
		paths := make([]string, len(at))
		for i, path := range at {
			paths[i] = showPath(path)
		}
		is, want = "a map without "+anyOf(paths), specOf(w)+" there"
		if len(g) > 0 {
			is = specOf(g) + " at " + paths[0]
		}
	}
	c.bad(checkNeverFits, path, edn.Nil(), "%s of schema :%s is %s and can never fit :%s, which wants %s, in %s",
		r.ref.path(),
		pair.producer, is, pair.consumer, want, showPath(path))
}

// fitPair names the schemas at both ends of a slot.
type fitPair struct{ producer, consumer string }

// fit is the decision for one pair of producer path and consumer path.
type fit struct {
	from  []step
	whole bool
	to    []edn.Value
	fits  bool
}

// maxFits bounds the cached decisions for a pair of schemas: plans repeat a
// few, and searching many would cost more than deciding again.
const maxFits = 32

// mayFit caches the decisions of decideFit.
func (c *checker) mayFit(pair fitPair, from []step, ref *slotRef) bool {
	whole := len(ref.steps) == 0
	for _, f := range c.fits[pair] {
		if f.whole == whole && sameSteps(f.from, from) && slices.EqualFunc(f.to, ref.where, edn.Equal) {
			return f.fits
		}
	}
	fits := c.decideFit(pair, keysOf(from), ref.where, whole)
	if c.fits == nil {
		c.fits = make(map[fitPair][]fit)
	}
	if len(c.fits[pair]) < maxFits {
		c.fits[pair] = append(c.fits[pair], fit{from: from, whole: whole, to: ref.where, fits: fits})
	}
	return fits
}

// outSchema returns the schema name of the value that a node puts under :out,
// "" if none.
func (e *Env) outSchema(n *Node) string {
	switch n.Op {
	case OpTool:
		if c, ok := e.Registry.Tool(n.ToolID); ok {
			return c.OutSchema.For(c.ToolIntent())
		}
	case OpCall:
		required := e.base(n.Intent).Requires.OutSchema
		if n.Layer != nil && n.Layer.Requires.OutSchema.Set {
			required = n.Layer.Requires.OutSchema
		}
		return e.Registry.OutSchema(n.Intent, required.V)
	}
	return ""
}

var mapSchema = sync.OnceValue(func() *schema.Schema { return schema.MustCompile(edn.K("map")) })

// decideFit returns false only if no schema that the producer can have at its path can
// satisfy any schema that the consumer can have at its path.
func (c *checker) decideFit(pair fitPair, from, to []edn.Value, whole bool) bool {
	given, wanted := c.ends(pair, from, to, whole)
	for _, g := range given {
		for _, w := range wanted {
			if schema.Satisfies(g, w) != schema.No {
				return true
			}
		}
	}
	return len(given) == 0
}

// ends returns the schemas that the producer can have at its path and those
// that the consumer can have at its path; none if some of them are unknown.
func (c *checker) ends(pair fitPair, from, to []edn.Value, whole bool) (given, wanted []*schema.Schema) {
	in, ok := c.env.Registry.Schema(pair.consumer)
	if !ok {
		return nil, nil
	}
	wanted, all := reach([]*schema.Schema{in}, to, true)
	switch {
	case !all || len(wanted) == 0:
		return nil, nil
	case whole && wantsText(in.Branches(to...)):
		return nil, nil
	case whole: // a map; in text positions, the field that holds its text
		return []*schema.Schema{mapSchema()}, wanted
	}
	out, ok := c.env.Registry.Schema(pair.producer)
	if !ok {
		return nil, nil
	}
	if given, all = reach([]*schema.Schema{out}, from, true); !all || len(given) == 0 {
		return nil, nil
	}
	return given, wanted
}

// unfit follows two map schemas to the first required part of wanted that given never has.
// It returns the path of the part and its two schemas; g is nil if given lacks the part.
// The path is empty if one of the schemas is not a map schema.
func unfit(given, wanted *schema.Schema) (at []edn.Value, g, w *schema.Schema) {
	g, w = given.Deref(), wanted.Deref()
	for g.Kind() == schema.KindMap && w.Kind() == schema.KindMap {
		entries := w.Entries()
		i := slices.IndexFunc(entries, func(e schema.Entry) bool {
			have, has := g.Entry(e.Key)
			return !e.Optional && (has && schema.Satisfies(have.Schema, e.Schema) == schema.No || !has && g.Closed())
		})
		if i < 0 {
			break
		}
		at, w = append(at, entries[i].Key), entries[i].Schema.Deref()
		have, has := g.Entry(entries[i].Key)
		if !has {
			return at, nil, w
		}
		g = have.Schema.Deref()
	}
	return at, g, w
}

// unfitAll is unfit for alternatives. It returns the one part at which all pairs of them
// fail, or all parts that no given alternative has; no path if the pairs fail in different
// ways.
func unfitAll(given, wanted []*schema.Schema) (at [][]edn.Value, gs, ws []*schema.Schema) {
	for i, have := range given {
		for j, want := range wanted {
			where, g, w := unfit(have, want)
			known := slices.ContainsFunc(at, func(path []edn.Value) bool { return slices.EqualFunc(path, where, edn.Equal) })
			if len(where) == 0 || i+j > 0 && ((g == nil) != (len(gs) == 0) || g != nil && !known) {
				return nil, nil, nil
			}
			if !known {
				at = append(at, where)
			}
			if g != nil {
				gs = append(gs, g)
			}
			ws = append(ws, w)
		}
	}
	return at, gs, ws
}

// specOf formats alternative schemas for a message.
func specOf(list []*schema.Schema) string {
	const longest = 40
	var specs []string
	for _, s := range list {
		spec := s.String()
		if s.Kind() == schema.KindRe { // in words: "text that is not blank"
			for _, f := range s.Validate(edn.Int(0)) {
				spec = strings.TrimPrefix(f.Message, "should be ")
			}
		}
		if len(spec) > longest {
			spec = ":" + s.Kind().String()
		}
		if !slices.Contains(specs, spec) {
			specs = append(specs, spec)
		}
	}
	return anyOf(specs)
}

// anyOf joins alternatives for a message.
func anyOf(words []string) string {
	const most = 3
	last := len(words) - 1
	switch {
	case last == 0:
		return words[0]
	case len(words) > most:
		return fmt.Sprintf("%s or %d others", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// maxBranches bounds the number of alternatives that are followed; beyond it
// every value counts as possible.
const maxBranches = 64

// reach follows a path through schemas and returns the schemas at its end. all
// is false if some alternative leaves the place unspecified. Without open, an
// open map counts as lacking the keys that it does not name.
func reach(list []*schema.Schema, path []edn.Value, open bool) (out []*schema.Schema, all bool) {
	list, all = alternatives(list, nil, 0)
	for _, key := range path {
		if !all {
			return nil, false
		}
		var next []*schema.Schema
		for _, s := range list {
			kids, known := inside(s, key)
			if !known && (open || s.Kind() != schema.KindMap) {
				return nil, false
			}
			next = append(next, kids...)
		}
		list, all = alternatives(next, nil, 0)
	}
	return list, all
}

// alternatives appends to out the schemas of list, with references, :maybe and :or
// expanded. all is false if a schema is :and, :not or :any, which are not expanded, or if a
// limit is exceeded.
func alternatives(list, out []*schema.Schema, depth int) ([]*schema.Schema, bool) {
	all := true
	for _, s := range list {
		if depth > maxSchemaDepth || len(out) > maxBranches {
			return nil, false
		}
		switch s = s.Deref(); s.Kind() {
		case schema.KindMaybe, schema.KindOr:
			var ok bool
			out, ok = alternatives(s.Children(), out, depth+1)
			all = all && ok
		case schema.KindAnd, schema.KindNot, schema.KindAny:
			all = false
		default:
			out = append(out, s)
		}
	}
	return out, all
}

// inside returns the schemas under one key; known is false if the schema does
// not specify the key.
func inside(s *schema.Schema, key edn.Value) (kids []*schema.Schema, known bool) {
	switch s.Kind() {
	case schema.KindMap:
		if e, ok := s.Entry(key); ok {
			return []*schema.Schema{e.Schema}, true
		}
		return nil, s.Closed()
	case schema.KindMapOf:
		if len(s.Children()) == 2 {
			return s.Children()[1:], true
		}
	case schema.KindVector, schema.KindList, schema.KindSequential:
		if _, ok := key.AsInt(); ok && len(s.Children()) == 1 {
			return s.Children(), true
		}
	case schema.KindTuple:
		if i, ok := key.AsInt(); ok && i >= 0 && i < int64(len(s.Children())) {
			return s.Children()[i : i+1], true
		}
	}
	return nil, false
}
