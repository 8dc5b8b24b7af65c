package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Check runs every static check of evaluation.md section 14. It returns all
// findings, including those of Parse, sorted by position, at most MaxFindings;
// errors take precedence over warnings. It takes time linear in nodes plus
// edges and calls no plugin.
func Check(p *Plan, env Env) []Finding {
	c := &checker{env: &env, at: p.at}
	c.list = append(c.list, p.findings...)
	if env.Registry != nil {
		p.handlesOf(env.Registry, func(in *Plan, n *Node, served int) {
			path := in.path(n.Index, kFn)
			c.bad(checkMap, path, edn.Nil(), ":%s serves %d intents, write :intent beside :fn in %s",
				n.Layer.Candidates.V[0], served, showPath(path))
		})
	}
	c.plan(&place{p: p})
	if env.Unchecked {
		c.list = slices.DeleteFunc(c.list, func(f Finding) bool { return f.Check == checkNeverFits })
	}
	if env.Done != nil {
		done := env.done(p, nil)
		c.list = slices.DeleteFunc(c.list, func(f Finding) bool {
			return slices.ContainsFunc(done, func(node []edn.Value) bool { return isAtOrBelow(f.Path, node) })
		})
	}
	c.list = causes(c.list)
	return c.at.settle(c.list)
}

// done returns the paths in the text of the nodes of a plan whose end is recorded. at is
// the path of the plan in the records.
func (e *Env) done(p *Plan, at []edn.Value) (out [][]edn.Value) {
	if p.fn != nil {
		return nil // its nodes are those of a map
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		path := append(slices.Clip(at), edn.Int(int64(i)))
		switch {
		case e.Done(path):
			out = append(out, p.path(i))
		case n.Op == OpPlan && n.Sub != nil:
			out = append(out, e.done(n.Sub, path)...)
		}
	}
	return out
}

// isAtOrBelow reports whether a path is equal to outer or leads to a part of it.
func isAtOrBelow(path, outer []edn.Value) bool {
	return len(path) >= len(outer) && comparePaths(path[:len(outer)], outer) == 0
}

// causes drops findings that only follow from others. An unknown key may be the
// misspelt one that a node lacks, or the one that fills or reads a slot. A name
// that two nodes write may be meant for one of them while a later node reads
// the other. A value with the wrong type for its key fits no schema either.
// Data that looks like a slot was meant to be read, and a binding that does not
// fit the slot's schema is reported where it is read.
func causes(all []Finding) []Finding {
	unread := false
	damaged, mistyped := map[string]bool{}, map[string]bool{}
	var misfits []Finding
	var misspelt [][]edn.Value // paths of maps with a misspelt slot key
	var writers []lostWriter
	for _, f := range all {
		unread = unread || slices.Contains([]string{checkUnknownKey, checkType, checkDuplicate, checkNeverFilled,
			checkSlotLike}, f.Check)
		if w, ok := lostWriterOf(f); ok {
			writers = append(writers, w)
		}
		switch f.Check {
		case checkUnknownKey:
			damaged[showPath(f.Path[:len(f.Path)-1])] = true
		case checkType:
			mistyped[showPath(f.Path)] = true
		case checkSlotLike:
			if !f.Nearest.IsNil() {
				misspelt = append(misspelt, f.Path)
			}
		case checkNeverFits:
			if f.binding != "" {
				misfits = append(misfits, f)
			}
		}
	}
	return slices.DeleteFunc(all, func(f Finding) bool {
		switch f.Check {
		case checkNeverRead:
			return unread
		case checkSlotLike:
			return slices.ContainsFunc(misfits, func(m Finding) bool { return m.isFrom(f.Path) }) ||
				slices.ContainsFunc(misspelt, func(m []edn.Value) bool { return isInside(f.Path, m) })
		case checkNeverFilled:
			return slices.ContainsFunc(writers, func(w lostWriter) bool { return w.reaches(f.Path) })
		case checkNeverFits:
			return mistyped[showPath(f.Path)]
		case checkType, checkMap:
			return damaged[showPath(f.Path)]
		}
		return false
	})
}

// isInside reports whether a path leads to a part of the value under another path.
func isInside(path, outer []edn.Value) bool {
	return len(path) > len(outer) && comparePaths(path[:len(outer)], outer) == 0
}

// isFrom reports whether the value that does not fit is the binding under a path.
func (f Finding) isFrom(path []edn.Value) bool {
	last := len(path) - 1
	return last > 0 && edn.Equal(path[last], edn.K(f.binding)) && edn.Equal(path[last-1], edn.K("bindings")) &&
		len(f.Path) >= last && comparePaths(f.Path[:last-1], path[:last-1]) == 0
}

// isNode reports whether the finding is about a whole node.
func (f Finding) isNode() bool {
	last := len(f.Path) - 1
	if last < 1 {
		return false
	}
	_, isIndex := f.Path[last].AsInt()
	return isIndex && (edn.Equal(f.Path[last-1], kNodes) || edn.Equal(f.Path[last-1], edn.K("body")))
}

// lostWriter is the map with an unknown key that may have been meant to fill a
// slot.
type lostWriter struct {
	in []edn.Value
	// inside is true if the key fills slots inside the map rather than after
	// it.
	inside bool
}

// lostWriterOf returns the lost writer that a finding is about.
func lostWriterOf(f Finding) (lostWriter, bool) {
	last := len(f.Path) - 1
	if last < 0 || !slices.Contains([]string{checkUnknownKey, checkType, checkDuplicate}, f.Check) {
		return lostWriter{}, false
	}
	key, _ := f.Path[last].AsKeyword()
	if f.Check == checkUnknownKey && f.key {
		key = "as" // the key meant is unknown
		if near, ok := f.Nearest.AsKeyword(); ok {
			key = near
		}
	}
	switch {
	case key == "as":
		return lostWriter{in: f.Path[:last]}, true
	case key == "item" || key == "bindings":
		return lostWriter{in: f.Path[:last], inside: true}, true
	case f.isNode():
		return lostWriter{in: f.Path}, true
	case last > 0 && edn.Equal(f.Path[last-1], edn.K("bindings")):
		return lostWriter{in: f.Path[:last-1], inside: true}, true
	}
	return lostWriter{}, false
}

// reaches reports whether a read may refer to the lost writer's slot.
func (w lostWriter) reaches(read []edn.Value) bool {
	order := comparePaths(read[:min(len(w.in), len(read))], w.in)
	return order > 0 && !w.inside || order == 0 && w.inside
}

// checker is the state of one Check.
type checker struct {
	findings
	env *Env
	at  *locator
	// mustOf caches inheritedMusts by intent.
	mustOf map[string][]string
	fits   map[fitPair][]fit
	keysOf map[*schema.Schema]*inputKeys
	// roles caches the known roles of prompts.
	roles []string
	// slotFits caches decisions of slotMayFit about slots of calls and tools.
	slotFits map[slotPair][]slotFit
}

// place is a plan with its context.
type place struct {
	p  *Plan
	up *place
	// node is the plan or map node of up.p that holds the plan.
	node *Node
	// reads counts the reads of each frame slot.
	reads []int
	// asked marks writers that an earlier node tried to read.
	asked map[int]bool
	rings rings
	all   []traits
	// shapes caches the shapes of the slots of the frame.
	shapes map[int]edn.Value
}

// report adds a finding about the value under its path or, with key, about the
// key at the end of the path.
func (c *checker) report(f Finding, key bool) {
	f.key = key
	c.add(f)
}

// bad reports an error about the value under path.
func (c *checker) bad(check string, path []edn.Value, near edn.Value, format string, args ...any) {
	c.report(Finding{
		Check:   check,
		Path:    path,
		Nearest: near,
		Message: fmt.Sprintf(format, args...) + suggest(near),
	}, false)
}

// warn reports a warning about the value under path.
func (c *checker) warn(check string, path []edn.Value, format string, args ...any) {
	c.report(Finding{Check: check, Severity: Warning, Path: path, Message: fmt.Sprintf(format, args...)}, false)
}

// plan checks one plan in program order, including nested plans.
func (c *checker) plan(pl *place) {
	p := pl.p
	if p.truncated {
		return
	}
	pl.all = c.env.traitsOf(p)
	c.cycles(p, buildGraph(p, pl.all))
	pl.reads = make([]int, len(p.Nodes)+len(p.Outer))
	for i := range p.reads {
		pl.reads[p.reads[i].slot]++
	}
	lastEmit := p.lastEmit()
	next := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		began := len(c.list)
		in := c.wanted(pl, n)
		switch n.Op {
		case OpCall:
			c.call(pl, n, &in)
		case OpTool:
			c.tool(p, n, &in)
		case OpLet:
			c.handle(p, n)
		case OpMap:
			c.collection(pl, n)
		}
		for next < len(p.reads) && p.reads[next].node == i {
			c.read(pl, &p.reads[next], &in)
			next++
		}
		if !slices.ContainsFunc(c.list[began:], func(f Finding) bool { return f.Check == checkNeverFits }) {
			c.whole(pl, n, &in)
			c.unnamed(p, n, &in)
		}
		if n.Op == OpCall || n.Op == OpTool {
			c.system(pl, n)
		}
		if n.Sub != nil {
			c.plan(&place{p: n.Sub, up: pl, node: n})
		}
		c.deadCode(p, n, lastEmit)
	}
	c.unread(pl)
}

// cycles reports nodes that wait for each other.
func (c *checker) cycles(p *Plan, g *Graph) {
	for _, loop := range g.cycles(MaxFindings) {
		last := slices.Max(loop)
		path := p.path(last)
		if len(p.Nodes[last].Needs) > 0 {
			path = p.path(last, kNeeds)
		}
		c.bad(checkCycle, path, edn.Nil(), "nodes wait for each other: %s", p.way(loop))
	}
}

// way shows a cycle, beginning with its first node in program order.
func (p *Plan) way(loop []int) string {
	start := 0
	for i := range loop {
		if loop[i] < loop[start] {
			start = i
		}
	}
	var b strings.Builder
	const most = 8
	for k := range loop {
		if k == most {
			fmt.Fprintf(&b, "(%d more) -> ", len(loop)-most)
			break
		}
		fmt.Fprintf(&b, "%s -> ", p.Nodes[loop[(start+k)%len(loop)]].ID)
	}
	b.WriteString(p.Nodes[loop[start]].ID)
	return b.String()
}

// lastEmit returns the index of the last emit that always runs, 0 if there is none after
// the first node.
func (p *Plan) lastEmit() int {
	for i := len(p.Nodes) - 1; i > 0; i-- {
		if n := &p.Nodes[i]; n.Op == OpEmit {
			if runs, known := n.When.constant(); known && runs {
				return i
			}
		}
	}
	return 0
}

// deadCode warns of a node that never runs and of an emit whose result is
// always overwritten.
func (c *checker) deadCode(p *Plan, n *Node, lastEmit int) {
	if runs, known := n.When.constant(); known && !runs {
		c.warn(checkNeverRuns, p.path(n.Index, kWhen), "node %s never runs: its condition is always false, in %s", n.ID,
			showPath(p.path(n.Index)))
	}
	if n.Op == OpEmit && n.Index < lastEmit {
		c.warn(checkOverwritten, p.path(n.Index), "emit %s is always overwritten by node %d in %s", n.ID, lastEmit,
			showPath(p.path(n.Index)))
	}
}

// unread warns of slots that are never read.
func (c *checker) unread(pl *place) {
	p := pl.p
	lastAnswer := 0
	for i := range pl.all {
		if pl.all[i].plans {
			lastAnswer = i
		}
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		switch {
		case n.As == "" || pl.reads[i] > 0 || pl.asked[i] || p.duplicates[n.As]:
		case i < lastAnswer:
			// A plan answer may read any slot before it.
		case pl.resultOf(i):
		default:
			path := p.path(i, kAs)
			c.report(Finding{
				Check: checkNeverRead, Severity: Warning, Path: path,
				Message: fmt.Sprintf("slot :%s is never read in %s", n.As, showPath(p.path(i))),
			}, true)
		}
	}
}

// resultOf reports whether node i is the result of a map body without emit.
func (pl *place) resultOf(i int) bool {
	if pl.node == nil || pl.node.Op != OpMap || i != len(pl.p.Nodes)-1 {
		return false
	}
	for k := range pl.p.Nodes {
		if pl.p.Nodes[k].Op == OpEmit {
			return false
		}
	}
	return true
}

// merged returns the merged layers of a node as far as they select candidates,
// and reports contradictions between them. The next node overwrites the result.
func (c *checker) merged(p *Plan, n *Node) *policy.Layer {
	l := c.env.choice(n)
	for _, key := range l.Conflicts {
		c.bad(checkType, p.path(n.Index, kRequires), edn.Nil(), "two different values for :%s in %s and in a weaker layer",
			key, showPath(p.path(n.Index)))
	}
	return l
}
