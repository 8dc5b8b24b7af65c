package plan

import (
	"cmp"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// buildGraph computes the edges of SCHED-008. traits holds the registry facts
// of each node, by index.
func buildGraph(p *Plan, traits []traits) *Graph {
	b := graphBuilder{edges: make([]Edge, 0, len(p.reads)+len(p.Nodes))}
	lastEffect, next := -1, 0
	// Earlier writers since the last node that may answer with a plan. That
	// node waits for all earlier ones, so the number of edges stays linear.
	var writers []int
	for i := range p.Nodes {
		n := &p.Nodes[i]
		for ; next < len(p.reads) && p.reads[next].node == i; next++ {
			r := &p.reads[next]
			if r.slot >= len(p.Nodes) {
				continue
			}
			kind := EdgeSlot
			if r.kind == readWhen {
				kind = EdgeWhen
			}
			b.add(r.slot, kind)
		}
		for _, j := range n.Needs {
			b.add(j, EdgeNeeds)
		}
		if traits[i].effectful {
			if lastEffect >= 0 {
				b.add(lastEffect, EdgeEffects)
			}
			lastEffect = i
		}
		if traits[i].plans {
			for _, j := range writers {
				b.add(j, EdgeAnswer)
			}
			writers = append(writers[:0], i)
		} else if n.As != "" {
			writers = append(writers, i)
		}
		b.finish(i)
	}
	return newGraph(len(p.Nodes), b.edges)
}

// graphBuilder collects edges node by node, so that only the few edges of one
// node need sorting.
type graphBuilder struct {
	edges []Edge
	start int
}

func (b *graphBuilder) add(from int, kind EdgeKind) {
	b.edges = append(b.edges, Edge{From: from, Kind: kind})
}

// finish sets the target of the edges added since the last call to node i. Of several edges
// from one node, it keeps the first kind.
func (b *graphBuilder) finish(i int) {
	own := b.edges[b.start:]
	if len(own) > 1 {
		slices.SortFunc(own, func(x, y Edge) int {
			return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Kind, y.Kind))
		})
		own = slices.CompactFunc(own, func(x, y Edge) bool { return x.From == y.From })
	}
	for k := range own {
		own[k].To = i
	}
	b.edges = b.edges[:b.start+len(own)]
	b.start = len(b.edges)
}

// newGraph indexes edges that are ordered by To, then From.
func newGraph(n int, edges []Edge) *Graph {
	g := &Graph{
		n: n, edges: edges,
		succs: make([]int32, len(edges)), succAt: make([]int32, n+1),
		preds: make([]int32, len(edges)), predAt: make([]int32, n+1),
	}
	for i, e := range edges {
		g.succAt[e.From+1]++
		g.predAt[e.To+1]++
		g.preds[i] = int32(e.From)
	}
	for i := range n {
		g.succAt[i+1] += g.succAt[i]
		g.predAt[i+1] += g.predAt[i]
	}
	next := slices.Clone(g.succAt)
	for _, e := range edges {
		g.succs[next[e.From]] = int32(e.To)
		next[e.From]++
	}
	return g
}

// cycles returns at most most cycles, each with its nodes in order. The cycles
// share no nodes, and every other cycle shares a node with one of them. A node
// that waits for itself is a cycle of one.
func (g *Graph) cycles(most int) [][]int {
	waits := make([]int32, g.n)
	var ready []int32
	for i := range g.n {
		if waits[i] = int32(g.InDegree(i)); waits[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	done := make([]bool, g.n)
	left := g.n
	finish := func() {
		for len(ready) > 0 {
			i := ready[len(ready)-1]
			ready = ready[:len(ready)-1]
			if done[i] {
				continue
			}
			done[i] = true
			left--
			for _, j := range g.Succs(int(i)) {
				if waits[j]--; waits[j] == 0 {
					ready = append(ready, j)
				}
			}
		}
	}
	var loops [][]int
	for finish(); left > 0 && len(loops) < most; finish() {
		loop := g.loop(done)
		loops = append(loops, loop)
		for _, i := range loop {
			ready = append(ready, int32(i))
		}
	}
	return loops
}

// loop follows predecessors that are not done until a node repeats.
func (g *Graph) loop(done []bool) []int {
	at := slices.Index(done, false)
	seen := make(map[int]int)
	var way []int
	for {
		if first, ok := seen[at]; ok {
			return way[first:]
		}
		seen[at] = len(way)
		way = append(way, at)
		for _, j := range g.Preds(at) {
			if !done[j] {
				at = int(j)
				break
			}
		}
	}
}

// traits are the registry facts about a node.
type traits struct {
	// effectful nodes keep program order (SCHED-002).
	effectful bool
	// plans is true if the answer may be a plan.
	plans bool
}

// traitsOf returns the traits of all nodes of a plan, including nested ones.
// They are computed once per plan.
func (e *Env) traitsOf(p *Plan) []traits {
	if all, ok := e.traits[p]; ok {
		return all
	}
	all := make([]traits, len(p.Nodes))
	for i := range p.Nodes {
		all[i] = e.nodeTraits(&p.Nodes[i])
	}
	if e.traits == nil {
		e.traits = make(map[*Plan][]traits)
	}
	e.traits[p] = all
	return all
}

func (e *Env) nodeTraits(n *Node) (t traits) {
	switch {
	case n.Op == OpCall:
		return e.callTraits(n)
	case n.Op == OpTool:
		if n.Layer != nil && n.Layer.Effects.Set {
			return traits{effectful: hasEffects(n.Layer.Effects.V)}
		}
		c, ok := e.Registry.Tool(n.ToolID)
		return traits{effectful: ok && c.Effectful()}
	case n.Sub != nil:
		for _, inner := range e.traitsOf(n.Sub) {
			t.effectful = t.effectful || inner.effectful
			t.plans = t.plans || inner.plans
		}
	}
	return t
}

// callTraits returns the traits of a call: effects from the :effects of the node, or if it
// has none from any candidate; a plan as the answer from any candidate.
func (e *Env) callTraits(n *Node) (t traits) {
	written := n.Layer != nil && n.Layer.Effects.Set
	if written {
		t.effectful = hasEffects(n.Layer.Effects.V)
	}
	for _, id := range e.candidates(n) {
		c, ok := e.Registry.Capability(id)
		if !ok {
			continue
		}
		if !written && c.Effectful() {
			t.effectful = true
		}
		if mayPlan(n, c) {
			t.plans = true
		}
	}
	return t
}

// mayPlan reports whether the capability may answer this node with a plan.
func mayPlan(n *Node, c *registry.Capability) bool {
	if len(c.CanProduce) == 0 || !c.Produces("plan") {
		return false
	}
	if n.Layer != nil && n.Layer.Requires.ResultType.Set {
		return n.Layer.Requires.ResultType.V == "plan"
	}
	return true
}

// candidates returns the ids that a call may be bound to according to plan and
// registry; candidates from slots are not known yet.
func (e *Env) candidates(n *Node) []string {
	l := e.choice(n)
	plain := !l.Candidates.Set && len(l.Fallbacks) == 0 && len(l.Exclude) == 0
	if plain && n.CapID == "" && e.Routing == nil {
		return e.Registry.Candidates(n.Intent)
	}
	d := e.Demand(n, l)
	return d.List()
}

// base returns the layers weaker than the own layer of a node, merged: the policies of the intent
// and the layer of the request. It is cached and must not be changed.
func (e *Env) base(intent string) *policy.Layer {
	if l, ok := e.bases[intent]; ok {
		return l
	}
	var l policy.Layer
	if e.Policies != nil {
		l = e.Policies.For(intent)
	}
	l = policy.Merge(l, e.Request)
	if e.bases == nil {
		e.bases = make(map[string]*policy.Layer)
	}
	e.bases[intent] = &l
	return &l
}

// choice returns the merged layers of a node as far as they select candidates;
// the next call overwrites the result.
func (e *Env) choice(n *Node) *policy.Layer {
	base := e.base(n.Intent)
	if n.Layer == nil {
		return base
	}
	if e.scratch == nil {
		e.scratch = &policy.Layer{}
	}
	policy.MergeChoice(e.scratch, base, n.Layer)
	return e.scratch
}

// Written returns the merged layer of a node: the policies of the intent, the layer of the request,
// and own, the layer of the node itself, which may be nil.
func (e *Env) Written(intent string, own *policy.Layer) policy.Layer {
	base := e.base(intent)
	if own == nil {
		return *base
	}
	return policy.Merge(*base, *own)
}

// Demand returns the policy.Demand of a call under the merged layer l. Permits, State and StandIn
// are not set.
func (e *Env) Demand(n *Node, l *policy.Layer) policy.Demand {
	d := policy.Demand{Registry: e.Registry, Intent: n.Intent, CapID: n.CapID, Layer: l}
	if e.Routing != nil {
		d.Routing = e.Routing(n.Intent)
	}
	return d
}

func hasEffects(list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return s != registry.NoEffect })
}
