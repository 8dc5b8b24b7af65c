package plan

import (
	"maps"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Reach returns the ids of the capabilities that a run of the plan may call,
// sorted: the candidates of its calls, its tools, those called by gates and
// judges, and the substitutes of swapped candidates. Conditions are taken as
// true. The plan must have no errors. Host calls of plugins and the calls of an
// answer that is a plan are not known before the run; they may call other
// capabilities.
func Reach(p *Plan, env Env) []string {
	r := &reachWalk{env: &env, ids: map[string]bool{}}
	r.plan(p)
	return slices.Sorted(maps.Keys(r.ids))
}

// Unread returns the names of bindings that no node of the plan reads and that are not
// among its own bindings, sorted. It returns none for a plan with a call that may answer
// with a plan, which may read any name. Without a registry every call may do so.
func Unread(p *Plan, env Env, bindings edn.Value) []string {
	if !bindings.IsMap() || bindings.Len() == 0 || p.mayGrow(&env) {
		return nil
	}
	known := p.bindingNames()
	var unread []string
	for k := range bindings.Entries() {
		if name, ok := k.AsKeyword(); ok && !slices.Contains(known, name) {
			unread = append(unread, name)
		}
	}
	slices.Sort(unread)
	return unread
}

// NearestBinding returns the most similar name that a binding can fill, "" for
// none.
func (p *Plan) NearestBinding(name string) string { return nearestName(name, p.bindingNames()) }

// bindingNames returns the names that a binding can fill.
func (p *Plan) bindingNames() []string {
	names := slices.Clone(p.Outer)
	for k := range p.Bindings.Entries() {
		if name, ok := k.AsKeyword(); ok {
			names = append(names, name)
		}
	}
	return names
}

// mayGrow reports whether a node of the plan or of a nested plan may answer
// with a plan.
func (p *Plan) mayGrow(env *Env) bool {
	if env.Registry == nil {
		return slices.ContainsFunc(p.Nodes, func(n Node) bool {
			return n.Op == OpCall || n.Sub != nil && n.Sub.mayGrow(env)
		})
	}
	return slices.ContainsFunc(env.traitsOf(p), func(t traits) bool { return t.plans })
}

type reachWalk struct {
	env *Env
	ids map[string]bool
}

func (r *reachWalk) plan(p *Plan) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Sub != nil {
			r.plan(n.Sub)
		}
		if intent, capID, ok := n.asks(r.env.Registry); ok {
			r.call(n, intent, capID)
		}
	}
}

func (r *reachWalk) call(n *Node, intent, capID string) {
	l := r.env.Written(intent, n.Layer)
	// The error concerns only SwitchOn, which is not used here.
	pol, _ := l.Resolve()
	candidates := r.env.reachable(n, intent, capID, &pol.Layer)
	if len(candidates) == 0 {
		return // without candidates there is no answer to judge
	}
	for _, id := range candidates {
		r.add(id, intent)
	}
	for _, name := range slices.Concat(pol.Must, pol.Should) {
		if check, ok := r.env.Registry.Check(name); ok && check.Kind == registry.CheckCapability {
			r.ask(check.Intent, "")
		}
	}
	if j, ok := r.env.Registry.Judge(pol.Judge); ok && j.Enabled {
		r.ask(j.Intent, j.Capability)
	}
}

// ask adds the capabilities that may serve an intent that the host itself
// calls.
func (r *reachWalk) ask(intent, capID string) {
	d := policy.Demand{Registry: r.env.Registry, Intent: intent, CapID: capID, Layer: &policy.Layer{}}
	for _, id := range d.Bind().Accepted {
		r.add(id, intent)
	}
}

// add adds a capability, its substitute, and the models that a judge calls.
func (r *reachWalk) add(id, intent string) {
	c, ok := r.env.Registry.Capability(id)
	if !ok || r.ids[id] {
		return
	}
	r.ids[id] = true
	quality := c.Quality
	if in, ok := r.env.Registry.Intent(intent); ok {
		quality = in.Quality.Over(quality)
	}
	if quality.SwapTo != "" {
		r.add(quality.SwapTo, intent)
	}
	if c.Kind == judgeKind && !c.Deterministic {
		r.ask(registry.IntentChat, "")
	}
}

// judgeKind is the kind of capabilities that grade answers.
const judgeKind = "judge"

// asks returns the intent and the pinned capability of a call or tool node; ok
// is false for other nodes and unknown tools.
func (n *Node) asks(reg *registry.Registry) (intent, capID string, ok bool) {
	switch n.Op {
	case OpCall:
		return n.Intent, n.CapID, true
	case OpTool:
		tool, known := reg.Tool(n.ToolID)
		if !known {
			return "", "", false
		}
		return tool.ToolIntent(), tool.ID, true
	}
	return "", "", false
}

// reachable returns the capabilities that may serve a call under the merged
// layers l. A candidate list with slots may name any capability that serves the
// intent.
func (e *Env) reachable(n *Node, intent, capID string, l *policy.Layer) []string {
	if n.Candidates != nil {
		return e.Registry.Serving(intent)
	}
	d := policy.Demand{Registry: e.Registry, Intent: intent, CapID: capID, Layer: l}
	if e.Routing != nil {
		d.Routing = e.Routing(intent)
	}
	return d.Bind().Accepted
}
