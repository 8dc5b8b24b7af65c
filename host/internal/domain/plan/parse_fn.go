package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fnKeys are keys of a map that belong to the call made from its :fn (IR-012).
var fnKeys = keySet{"intent", "dispatch", "done", "budget"}

// fnIntent is a placeholder for an intent that follows from the capability.
const fnIntent = "ferment/only-intent"

// mapFn parses a map over a handle: its body is one call of that capability,
// with the item as input.
func (np *nodeParser) mapFn() {
	fn, _ := np.v.Get(kFn)
	isSlot, _ := slotShape(fn)
	_, isRef := capRef(fn)
	intent, hasIntent := np.v.Get(kIntent)
	dispatch := np.v.Key("dispatch")
	switch {
	case !isSlot && (!isRef || fn.Kind() != edn.KindMap):
		np.in(kFn, func() { np.wrong(fn, "a handle such as {:cap/ref :ns/name}, or a slot that holds one") })
		return
	case isSlot && !hasIntent:
		np.in(kFn, func() {
			np.bad(checkMap,
				"which intent a handle from a slot serves is not known before the run: write :intent beside :fn in %s",
				showPath(np.cur))
		})
		return
	case dispatch.Has(kCandidates):
		np.in(kDispatch, func() {
			np.in(kCandidates, func() {
				np.bad(checkMap, "the :fn of a map is its only candidate, remove :candidates in %s", showPath(np.cur))
			})
		})
		return
	case !dispatch.IsNil() && !dispatch.IsMap():
		np.in(kDispatch, func() { np.wrong(dispatch, "a map") })
		return
	}
	if !hasIntent {
		intent = edn.K(fnIntent)
	}
	// fnInput and fnCandidate parse :over and :fn.
	call := []edn.Value{
		kOp, edn.K("call"),
		kID, edn.Text("fn"),
		kIntent, intent,
		kOver, edn.MustMap(kSlotID, edn.K(np.n.Item)),
		kFn, fn,
	}
	for _, key := range []edn.Value{kDispatch, kDone, kBudget} {
		if v, ok := np.v.Get(key); ok {
			call = append(call, key, v)
		}
	}
	in := edn.MustMap(call...)
	enters := false
	np.in(kFn, func() { enters = np.enter() })
	if !enters {
		return
	}
	p := np.innerPlan(edn.Vector(in))
	p.fn = &fnPlace{node: np.n.Index, intent: hasIntent}
	if sc := np.begin(p, 1); sc != nil {
		p.nodesPath = np.plan.nodesPath
		sc.readNode(0, in)
		p.Nodes[0].Fn = true
	}
	np.in(kFn, func() { np.adopt(p) })
}

// fnPlace is the place of the call of a :fn in the text: its keys are those of
// the map.
type fnPlace struct {
	// node is the index of the map.
	node int
	// intent is true if the map has :intent.
	intent bool
}

// fnCandidate parses the only candidate of the call of a :fn.
func (np *nodeParser) fnCandidate(v edn.Value) {
	if id, ok := capRef(v); ok {
		np.layer().Candidates = policy.Of([]string{id}, np.origin())
		return
	}
	t := np.template(v, readSlot)
	if !t.Constant() {
		t.source = edn.Vector(v)
		t.root = &part{kind: partInner, value: t.source, kids: []part{*t.root}, at: []int32{0}}
	}
	np.n.Candidates = t
}

// fnInput parses the input of the call of a :fn.
func (np *nodeParser) fnInput(v edn.Value) {
	np.n.Input = np.template(v, readSlot)
	np.markInput()
}

// BindHandles sets the intent of the calls made from a :fn without :intent: the only intent
// of the capability in the registry. Afterwards Check and Link with that registry only read
// the plan, so that concurrent runs can share it.
func (p *Plan) BindHandles(reg *registry.Registry) { p.handlesOf(reg, nil) }

// handlesOf sets the intent of calls of maps over handles to the only intent
// that their capability serves. It is idempotent.
func (p *Plan) handlesOf(reg *registry.Registry, report func(p *Plan, n *Node, served int)) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Sub != nil {
			n.Sub.handlesOf(reg, report)
		}
		if !n.Fn || n.Intent != fnIntent || n.Layer == nil || len(n.Layer.Candidates.V) != 1 {
			continue
		}
		c, ok := reg.Capability(n.Layer.Candidates.V[0])
		switch {
		case !ok: // reported as an unknown capability
		case len(c.Intents) == 1:
			n.Intent = c.Intents[0]
		case report != nil:
			report(p, n, len(c.Intents))
		}
	}
}
