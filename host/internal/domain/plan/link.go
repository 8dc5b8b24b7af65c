package plan

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Link computes the graph and the text positions of a plan and its nested plans. The error
// is plan/invalid if nodes wait for each other. A plan with other errors links, but must
// not run.
func Link(p *Plan, env Env) (*Program, *contract.Error) {
	if env.Registry != nil {
		p.handlesOf(env.Registry, nil)
	}
	prog, loop := link(p, &env)
	if loop != "" {
		return nil, contract.Errorf("plan/invalid", "plan %q: nodes wait for each other: %s", p.ID, loop)
	}
	return prog, nil
}

// link returns the program, or the nodes of a cycle.
func link(p *Plan, env *Env) (prog *Program, loop string) {
	n := len(p.Nodes)
	prog = &Program{Plan: p, Answer: p.answer(), Effectful: make([]bool, n), Text: make([]TextMask, n)}
	all := env.traitsOf(p)
	for i := range p.Nodes {
		node := &p.Nodes[i]
		prog.Effectful[i] = all[i].effectful
		prog.Text[i] = env.textMask(node)
		if node.Sub == nil {
			continue
		}
		sub, loop := link(node.Sub, env)
		if loop != "" {
			return nil, loop
		}
		if prog.Subs == nil {
			prog.Subs = make([]*Program, n)
		}
		prog.Subs[i] = sub
	}
	prog.Graph = buildGraph(p, all)
	if loops := prog.Graph.cycles(1); len(loops) > 0 {
		return nil, p.way(loops[0])
	}
	return prog, ""
}

// textMask finds the slots in the :input of a node that require text.
func (e *Env) textMask(n *Node) TextMask {
	if (n.Op != OpCall && n.Op != OpTool) || n.Input.Slots() == 0 || e.Registry == nil {
		return nil
	}
	s, ok := e.Registry.Schema(e.inSchema(n))
	if !ok {
		return nil
	}
	return TextPositions(n.Input, s)
}

// inSchema returns the name of the effective in-schema of a node.
func (e *Env) inSchema(n *Node) string {
	if n.Op == OpTool {
		if c, ok := e.Registry.Tool(n.ToolID); ok {
			return c.InSchema.For(c.ToolIntent())
		}
		return ""
	}
	required := e.base(n.Intent).Requires.InSchema
	if n.Layer != nil && n.Layer.Requires.InSchema.Set {
		required = n.Layer.Requires.InSchema
	}
	return e.Registry.InSchema(n.Intent, required.V)
}

// TextPositions reports for each slot of a template whether every branch of the
// schema that specifies its place requires a string there (SLOT-008). Slots
// with a path after the name never do, as the path selects the value.
func TextPositions(t *Template, s *schema.Schema) TextMask {
	if t.Constant() || s == nil {
		return nil
	}
	var mask TextMask
	for i := range t.slots {
		r := &t.slots[i]
		if len(r.steps) > 0 || len(r.where) == 0 || !wantsText(s.Branches(r.where...)) {
			continue
		}
		if mask == nil {
			mask = make(TextMask, len(t.slots))
		}
		mask[i] = true
	}
	return mask
}

// wantsText reports whether there are schemas and all of them accept nothing
// but strings (and nil, under :maybe).
func wantsText(list []*schema.Schema) bool {
	for _, s := range list {
		if !textOnly(s, 0) {
			return false
		}
	}
	return len(list) > 0
}

// maxSchemaDepth bounds the descent into recursive schemas.
const maxSchemaDepth = 32

func textOnly(s *schema.Schema, depth int) bool {
	if depth > maxSchemaDepth {
		return false
	}
	s = s.Deref()
	switch s.Kind() {
	case schema.KindString, schema.KindRe:
		return true
	case schema.KindEnum:
		for _, m := range s.Members() {
			if !m.IsString() {
				return false
			}
		}
		return len(s.Members()) > 0
	case schema.KindMaybe, schema.KindOr:
		for _, kid := range s.Children() {
			if !textOnly(kid, depth+1) {
				return false
			}
		}
		return len(s.Children()) > 0
	case schema.KindAnd:
		for _, kid := range s.Children() {
			if textOnly(kid, depth+1) {
				return true
			}
		}
	}
	return false
}
