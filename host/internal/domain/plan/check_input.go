package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// wanted is the schema that the input of a node must fit.
type wanted struct {
	name   string
	schema *schema.Schema // nil if there is none or it is unknown
	// fits is true if the input may fit given everything known about its slots.
	// It is not computed for inputs without slots and for wrapped ones.
	fits bool
}

// wanted returns the schema for the input of a call or a tool.
func (c *checker) wanted(pl *place, n *Node) wanted {
	if n.Op != OpCall && n.Op != OpTool {
		return wanted{}
	}
	in := wanted{name: c.env.inSchema(n)}
	if s, ok := c.env.Registry.Schema(in.name); ok {
		in.schema = s
		in.fits = n.Input.Slots() > 0 && !n.Fn && c.fitter(pl, n, s, false).mayFit(s, n.Input.root, 0)
	}
	return in
}

// literal reports mistakes in an input that do not depend on its slots.
func (c *checker) literal(p *Plan, n *Node, in *wanted) {
	s := in.schema
	if s == nil || in.fits {
		return
	}
	input := n.Input.Source()
	f := fitter{ctx: c.env.Ctx}
	if n.Input.Constant() && s.ValidContext(c.env.Ctx, input) || !n.Input.Constant() && f.mayFit(s, n.Input.root, 0) {
		return
	}
	reported := false
	what := n.Intent
	if n.Op == OpTool {
		what = n.ToolID
	}
	for _, f := range s.ValidateContext(c.env.Ctx, input) {
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
		b := f.blame(s, n.Input.root, nil, 0)
		path := slices.Concat(p.path(n.Index, kInput), b.where)
		if b.wants == nil {
			c.bad(checkNeverFits, path, edn.Nil(), "the :input of :%s: unknown key, in %s", what, showPath(path))
			return
		}
		c.bad(checkNeverFits, path, edn.Nil(), "the :input of :%s: %s can never fit %s, whatever its slots hold, in %s", what,
			show(b.part.value), specOf(b.wants), showPath(path))
	}
}

// fitter decides whether a template can fit a schema with some values of its slots. To be
// fast, it treats parts that it does not examine as fitting.
type fitter struct {
	// slot reports whether slot i of the template may fit a schema. Nil: each slot may fit any
	// schema.
	slot func(i int, s *schema.Schema) bool
	// ctx ends the checks of values; nil: they run to their end.
	ctx context.Context
	// steps counts the examined pairs of a schema and a part.
	steps int
}

// maxFitSteps limits the pairs that a fitter examines: alternatives in alternatives multiply
// them.
const maxFitSteps = 20_000

// mayFit reports whether a part of the template may fit a schema.
func (f *fitter) mayFit(s *schema.Schema, t *part, depth int) bool {
	s = s.Deref()
	f.steps++
	switch {
	case depth > maxSchemaDepth, f.steps > maxFitSteps, f.ctx != nil && f.ctx.Err() != nil:
		return true
	case t.kind == partSlot:
		return f.slot == nil || f.slot(t.slot, s)
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

// requiredKeys reports whether a template has the keys and the length that a
// schema requires.
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
	// schema is nil if the schema does not permit the element.
	schema *schema.Schema
	part   *part
}

// misfit returns the first element of a collection that cannot fit, nil if all
// may fit.
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
		if s == nil || !s.ValidContext(f.ctx, v) {
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

// valueSchema is the schema of the value under a key of a map, nil if the map
// does not permit the key.
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

// blamed is the innermost part of a template that cannot fit.
type blamed struct {
	part  *part
	where []edn.Value
	// wants are the alternatives that the schema has for the part; nil if no
	// value is permitted there.
	wants []*schema.Schema
}

// blame returns the innermost part of a template that cannot fit. If all
// alternatives fail, it follows those that fit furthest. mayFit has found at
// the same depth that the part does not fit, which bounds the depth here too.
func (f *fitter) blame(s *schema.Schema, t *part, path []edn.Value, depth int) blamed {
	for {
		s = s.Deref()
		var e *element
		switch {
		case s.Kind() == schema.KindMaybe || s.Kind() == schema.KindOr:
			return f.blameAll(s.Children(), t, path, depth+1)
		case t.kind == partInner && takes(s.Kind(), t.value.Kind()) && f.requiredKeys(s, t):
			e = f.misfit(s, t, depth)
		}
		if e == nil {
			return blamed{part: t, where: path, wants: []*schema.Schema{s}}
		}
		s, t, path, depth = e.schema, e.part, append(slices.Clip(path), e.step), depth+1
		if s == nil {
			return blamed{part: t, where: path}
		}
	}
}

// blameAll is blame for alternatives. If those that fit furthest fail at
// different parts, the whole is blamed.
func (f *fitter) blameAll(all []*schema.Schema, t *part, path []edn.Value, depth int) blamed {
	best := f.blame(all[0], t, path, depth)
	agree := true
	for _, s := range all[1:] {
		b := f.blame(s, t, path, depth)
		switch {
		case len(b.where) > len(best.where):
			best, agree = b, true
		case len(b.where) < len(best.where):
		case !slices.EqualFunc(b.where, best.where, edn.Equal):
			agree = false
		default:
			best.wants = slices.Concat(best.wants, b.wants)
		}
	}
	if !agree {
		return blamed{part: t, where: path, wants: all}
	}
	return best
}

// unnamed warns of keys of an input that its schema does not name but that
// resemble a named key. Map schemas are open, so the key may be intended.
func (c *checker) unnamed(p *Plan, n *Node, in *wanted) {
	if in.schema == nil {
		return
	}
	input, keys := n.Input.Source(), c.inputKeys(in.schema)
	for k, v := range input.Entries() {
		key, _ := k.AsKeyword()
		isSlot, _ := slotShape(v)
		if !keys.plain(key) || mayHoldSlot(v) && !isSlot {
			c.unnamedIn([]*schema.Schema{in.schema}, input, p.path(n.Index, kInput), in.name)
			return
		}
	}
}

// inputKeys caches the keys that a map schema names and, for other keys,
// whether they resemble one.
type inputKeys struct {
	named, misspelt map[string]bool
	names           []string
}

// inputKeys returns the cached keys of a schema.
func (c *checker) inputKeys(s *schema.Schema) *inputKeys {
	keys := c.keysOf[s]
	if keys != nil {
		return keys
	}
	keys = &inputKeys{named: map[string]bool{}, misspelt: map[string]bool{}}
	if list, all := alternatives([]*schema.Schema{s}, nil, 0); all {
		keys.names = missingKeys(list, edn.Nil())
	}
	for _, name := range keys.names {
		keys.named[name] = true
	}
	if c.keysOf == nil {
		c.keysOf = map[*schema.Schema]*inputKeys{}
	}
	c.keysOf[s] = keys
	return keys
}

// plain reports whether a key is named or resembles no named key.
func (k *inputKeys) plain(key string) bool {
	if k.named[key] {
		return true
	}
	misspelt, known := k.misspelt[key]
	if !known {
		misspelt = nearestName(key, k.names) != ""
		k.misspelt[key] = misspelt
	}
	return !misspelt
}

// unnamedIn is unnamed for the value under a path, which fits one of several schemas.
func (c *checker) unnamedIn(list []*schema.Schema, v edn.Value, path []edn.Value, name string) {
	isSlot, _ := slotShape(v)
	list, all := alternatives(list, nil, 0)
	if isSlot || !all {
		return
	}
	inner := func(key edn.Value) (kids []*schema.Schema) {
		for _, s := range list {
			found, _ := inside(s, key)
			kids = append(kids, found...)
		}
		return kids
	}
	i := 0
	for e := range v.Elems() {
		c.unnamedIn(inner(edn.Int(int64(i))), e, append(slices.Clip(path), elementStep(v, e, i)), name)
		i++
	}
	for k, x := range v.Entries() {
		at := append(slices.Clip(path), k)
		if kids := inner(k); len(kids) > 0 {
			c.unnamedIn(kids, x, at, name)
			continue
		}
		key, isKeyword := k.AsKeyword()
		if near := nearest(key, missingKeys(list, v)); isKeyword && !near.IsNil() {
			c.report(Finding{
				Check: checkUnnamed, Severity: Warning, Path: at, Nearest: near,
				Message: fmt.Sprintf(":%s does not name the key :%s, in %s", name, key, showPath(at)) + suggest(near),
			}, true)
		}
	}
}

// missingKeys returns the keys that map schemas name and a value lacks, nil if
// one of the schemas does not describe a map.
func missingKeys(list []*schema.Schema, v edn.Value) []string {
	var names []string
	for _, s := range list {
		if s.Kind() != schema.KindMap {
			return nil
		}
		for _, e := range s.Entries() {
			if k, is := e.Key.AsKeyword(); is && !v.Has(e.Key) {
				names = append(names, k)
			}
		}
	}
	return names
}

// fills reports whether a slot of the template affects the value at a path: it
// is at the path, below it or above it.
func (t *Template) fills(path []edn.Value) bool {
	return slices.ContainsFunc(t.slots, func(r slotRef) bool {
		n := min(len(path), len(r.where))
		return slices.EqualFunc(path[:n], r.where[:n], edn.Equal)
	})
}

// collection reports a map node over a value that is not a collection.
func (c *checker) collection(pl *place, n *Node) {
	p := pl.p
	if n.Over == nil || len(n.Over.slots) != 1 || len(n.Over.slots[0].where) > 0 {
		return
	}
	r := &n.Over.slots[0]
	if known := c.readable(pl, r); len(known) > 0 && !slices.ContainsFunc(known, hasItems) {
		path := p.path(n.Index, kOver)
		c.bad(checkNeverFits, path, edn.Nil(), "%s is %s, not a collection, in %s", r.path(), show(known[0]),
			showPath(path))
		return
	}
	if r.slot >= len(p.Nodes) {
		return
	}
	below, ok := r.below()
	name := c.env.outSchema(&p.Nodes[r.slot])
	out, known := c.env.Registry.Schema(name)
	if !ok || !known {
		return
	}
	given, all := reach([]*schema.Schema{out}, keysOf(below), true)
	if !all || len(given) == 0 || slices.ContainsFunc(given, holdsMany) {
		return
	}
	path := p.path(n.Index, kOver)
	c.bad(checkNeverFits, path, edn.Nil(), "%s of schema :%s is not a collection, in %s", r.path(), name, showPath(path))
}

// holdsMany reports whether a map node can run over values of a schema.
func holdsMany(s *schema.Schema) bool {
	return s.Kind() == schema.KindAny || s.Kind() > schema.KindUUID && s.Kind() != schema.KindRe
}

// misspelt warns of a slot path with a key that the schema of its producer does
// not name but that resembles a named key. Map schemas are open, so the key may
// exist nevertheless.
func (c *checker) misspelt(p *Plan, r *read) {
	path, ok := r.ref.below()
	name := c.env.outSchema(&p.Nodes[r.slot])
	out, known := c.env.Registry.Schema(name)
	if !ok || !known {
		return
	}
	at := []*schema.Schema{out}
	for i := range path {
		key := path[i].key
		if at, ok = alternatives(at, nil, 0); !ok {
			return
		}
		if slices.ContainsFunc(at, func(s *schema.Schema) bool { return s.Kind() != schema.KindMap }) {
			return
		}
		var kids []*schema.Schema
		for _, s := range at {
			if e, has := s.Entry(key); has {
				kids = append(kids, e.Schema)
			}
		}
		if len(kids) > 0 {
			at = kids
			continue
		}
		if k, is := key.AsKeyword(); is {
			if near := nearest(k, missingKeys(at, edn.Nil())); !near.IsNil() {
				where := p.path(r.node, r.where...)
				c.report(Finding{
					Check: checkUnnamed, Severity: Warning, Path: where, Nearest: near,
					Message: fmt.Sprintf("%s leads to :%s, which :%s does not name, in %s", r.ref.path(), k, name, showPath(where)) +
						suggest(near),
				}, false)
			}
		}
		return
	}
}

// below returns the path of a slot inside the :out of its producer, empty for the
// whole slot; ok is false if the path leads to another field.
func (r *slotRef) below() (path []step, ok bool) {
	if len(r.steps) > 0 && r.steps[0].field != fieldNone {
		return r.steps[1:], r.steps[0].field == fieldOut
	}
	return r.steps, true
}

// sameSteps reports whether two paths are equal.
func sameSteps(a, b []step) bool {
	return slices.EqualFunc(a, b, func(x, y step) bool { return edn.Equal(x.key, y.key) })
}

// keysOf returns the keys of a path.
func keysOf(path []step) []edn.Value {
	keys := make([]edn.Value, len(path))
	for i := range path {
		keys[i] = path[i].key
	}
	return keys
}

// affordable reports a budget of the node that permits no attempt, and warns of
// a money limit for candidates without a price.
func (c *checker) affordable(p *Plan, n *Node, l *policy.Layer) {
	c.priced(p, n, l)
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
		c.bad(checkWorst, path, edn.Nil(), "every call takes one attempt and one roundtrip, and the budget allows %d, in %s",
			limit, showPath(path))
	}
}

// priced warns of candidates with unknown prices where the node or the policy
// of its intent limits money. They are not called, unless the configuration
// sets at-least and another price is known (BUD-007).
func (c *checker) priced(p *Plan, n *Node, l *policy.Layer) {
	own := n.Layer != nil && limitsMoney(n.Layer.Budget)
	if !own && (!limitsMoney(c.env.base(n.Intent).Budget) || limitsMoney(c.env.Request.Budget)) {
		return // WithinBudget reports limits of the whole run
	}
	path := p.path(n.Index, kIntent)
	if own {
		path = p.path(n.Index, kBudget, kMaxUSD)
	}
	ids := []string{n.ToolID}
	if n.Op == OpCall {
		if n.Candidates != nil {
			return
		}
		d := c.env.Demand(n, l)
		ids = d.Bind().Accepted
	}
	var unpriced []string
	for _, id := range ids {
		capability, _ := c.env.Registry.Tool(id) // exists; a tool may be named by its alias
		if _, err := policy.Price(capability, policy.Size{InKnown: true, OutKnown: true}); err != nil {
			unpriced = append(unpriced, ":"+id)
		}
	}
	if len(unpriced) == 0 || len(unpriced) < len(ids) && c.env.Budgets.AtLeast() {
		return
	}
	c.warn(checkUnbounded, path, "%s has no known price and is not called under :max-usd, in %s",
		strings.Join(unpriced, ", "), showPath(path))
}

// limitsMoney reports whether a budget has a money limit.
func limitsMoney(f policy.Fields) bool {
	if len(f) == 0 {
		return false
	}
	l, err := policy.LimitsOf(f.Value())
	return err == nil && l.Bounds(policy.USD)
}
