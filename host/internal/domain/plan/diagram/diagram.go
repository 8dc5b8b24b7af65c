package diagram

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Diagram is the drawing of one plan, or of a nested plan, as data.
type Diagram struct {
	// Plan is the id of the plan.
	Plan  string
	Mode  string
	Nodes []Node
	Edges []Edge
}

// Node is one node of the plan, drawn as a box.
type Node struct {
	ID string
	// Op is the operation without colon. Of is the intent of a call or the id
	// of a tool, else empty.
	Op, Of string
	// As is the slot that the node writes. When is its condition as written,
	// nil if it has none.
	As   string
	When edn.Value
	// Over is the collection of a map as written; nil for the other ops.
	Over edn.Value
	// Candidates are the capabilities that may be tried, in order; retry { fallback }
	// limits their number. Filled means that a slot provides the candidates at run time.
	Candidates []string
	Filled     bool
	// Rejected is the number of rejected capabilities.
	Rejected int
	// Strategy is empty for sequential candidates.
	Strategy     string
	Must, Should []string
	Repair       int
	// Effects is true if the node keeps program order with other effectful
	// nodes.
	Effects bool
	// Inside is the plan of a plan or map node.
	Inside *Diagram
}

// Edge leads from a node to one that waits for it, by index.
type Edge struct {
	From, To int
	// Kind is the reason: slot, when, needs, effects or answer.
	Kind string
}

// Of makes the diagram of a program linked with the same Env.
func Of(prog *plan.Program, env plan.Env) *Diagram {
	d := &Diagram{Plan: prog.Plan.ID, Mode: prog.Plan.Mode.String(), Nodes: make([]Node, len(prog.Plan.Nodes))}
	for i := range prog.Plan.Nodes {
		d.Nodes[i] = node(prog, i, &env)
	}
	implied := implied(prog.Graph)
	for _, e := range prog.Graph.Edges() {
		// Data and condition edges are all shown. An ordering edge that others imply is
		// omitted, because it would clutter the drawing: a call that may answer with a plan
		// waits for every earlier writer.
		if (e.Kind == plan.EdgeAnswer || e.Kind == plan.EdgeEffects) && implied(e.From, e.To) {
			continue
		}
		d.Edges = append(d.Edges, Edge{From: e.From, To: e.To, Kind: e.Kind.String()})
	}
	return d
}

// implied returns a function that reports whether node to waits for node from also through a third
// node.
func implied(g *plan.Graph) func(from, to int) bool {
	before := make([][]bool, g.Len())
	return func(from, to int) bool {
		for _, p := range g.Preds(to) {
			if int(p) == from {
				continue
			}
			if before[p] == nil {
				before[p] = g.Before(int(p))
			}
			if before[p][from] {
				return true
			}
		}
		return false
	}
}

func node(prog *plan.Program, i int, env *plan.Env) Node {
	n := &prog.Plan.Nodes[i]
	out := Node{ID: n.ID, Op: n.Op.String(), As: n.As, When: n.WhenSource, Effects: prog.Effectful[i]}
	switch n.Op {
	case plan.OpCall:
		out.Of = n.Intent
		out.bind(n, env)
	case plan.OpTool:
		out.Of = n.ToolID
		if c, ok := env.Registry.Tool(n.ToolID); ok {
			out.Candidates = []string{c.ID}
		}
		out.judge(env.Written(n.Intent, n.Layer))
	case plan.OpMap:
		if n.Over != nil {
			out.Over = n.Over.Source()
		}
	}
	if prog.Subs != nil && prog.Subs[i] != nil {
		out.Inside = Of(prog.Subs[i], *env)
	}
	return out
}

func (n *Node) bind(of *plan.Node, env *plan.Env) {
	l := env.Written(of.Intent, of.Layer)
	n.judge(l)
	if of.Candidates != nil {
		n.Filled = true
		return
	}
	demand := env.Demand(of, &l)
	binding := demand.Bind()
	n.Candidates, n.Rejected = binding.Tried, len(binding.Rejected)
}

// judge sets the gates of a node. A layer that does not resolve is reported by
// the checks and omitted here.
func (n *Node) judge(l policy.Layer) {
	p, err := l.Resolve()
	if err != nil {
		return
	}
	n.Must, n.Should, n.Repair = p.Must, p.Should, p.RepairMax
	if p.Strategy != policy.Cascade {
		n.Strategy = p.Strategy
	}
}

// Value returns the diagram as a map with :plan, :mode, :nodes and :edges.
func (d *Diagram) Value() edn.Value {
	nodes := make([]edn.Value, len(d.Nodes))
	for i := range d.Nodes {
		nodes[i] = d.Nodes[i].value()
	}
	edges := make([]edn.Value, len(d.Edges))
	for i, e := range d.Edges {
		edges[i] = edn.MustMap(edn.K("from"), edn.Text(d.Nodes[e.From].ID), edn.K("to"), edn.Text(d.Nodes[e.To].ID),
			edn.K("kind"), edn.K(e.Kind))
	}
	return edn.MustMap(edn.K("plan"), edn.Text(d.Plan), edn.K("mode"), edn.K(d.Mode), edn.K("nodes"),
		edn.Vector(nodes...), edn.K("edges"), edn.Vector(edges...))
}

func (n *Node) value() edn.Value {
	var b edn.MapBuilder
	b.Key("id", edn.Text(n.ID))
	b.Key("op", edn.K(n.Op))
	switch {
	case n.Op == "tool" && n.Of != "":
		b.Key("tool/id", edn.K(n.Of))
	case n.Of != "":
		b.Key("intent", edn.K(n.Of))
	}
	b.OptKeyword("as", n.As)
	b.Opt("when", n.When)
	b.Opt("over", n.Over)
	if n.Op == "call" || n.Op == "tool" {
		b.Key("candidates", keywords(n.Candidates))
		b.Key("filled?", edn.Bool(n.Filled))
		b.Key("rejected", edn.Int(int64(n.Rejected)))
		b.Key("must", keywords(n.Must))
		b.Key("should", keywords(n.Should))
		b.Key("repair", edn.Int(int64(n.Repair)))
	}
	b.OptKeyword("strategy", n.Strategy)
	b.Key("effects?", edn.Bool(n.Effects))
	if n.Inside != nil {
		b.Key("inside", n.Inside.Value())
	}
	return b.Map()
}

func keywords(list []string) edn.Value {
	out := make([]edn.Value, len(list))
	for i, name := range list {
		out[i] = edn.K(name)
	}
	return edn.Vector(out...)
}

// widest bounds a line of a box, in characters.
const widest = 48

// lines returns the text of a node's box, its heading first.
func (n *Node) lines() []string {
	head := n.ID + "  " + n.Op
	if n.Of != "" {
		head += " :" + n.Of
	}
	out := []string{head}
	if !n.When.IsNil() {
		out = append(out, "when "+n.When.String())
	}
	if !n.Over.IsNil() {
		out = append(out, "over "+n.Over.String())
	}
	if n.Strategy != "" {
		out = append(out, n.Strategy+" of")
	}
	for i, id := range n.Candidates {
		if n.Op == "tool" {
			out = append(out, "by "+id)
			continue
		}
		out = append(out, fmt.Sprintf("%d. %s", i+1, id))
	}
	switch {
	case n.Filled:
		out = append(out, "candidates from a slot")
	case n.Op == "call" && len(n.Candidates) == 0:
		out = append(out, "no candidate")
	}
	for _, gate := range n.Must {
		out = append(out, "must "+gate)
	}
	for _, gate := range n.Should {
		out = append(out, "should "+gate)
	}
	if n.Repair > 0 {
		out = append(out, fmt.Sprintf("repair %d times", n.Repair))
	}
	if n.As != "" {
		out = append(out, "as :"+n.As)
	}
	for i := range out {
		out[i] = short(out[i])
	}
	return out
}

// short returns one line of at most widest characters without control
// characters.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= widest {
		return s
	}
	return string([]rune(s)[:widest-1]) + "…"
}
