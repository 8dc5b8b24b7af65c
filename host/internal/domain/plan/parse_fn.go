package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fnKeys of a map are those of the call that its :fn stands for (IR-012).
var fnKeys = keySet{"intent", "dispatch", "done", "budget"}

// fnIntent stands where the intent follows from the capability.
const fnIntent = "ferment/only-intent"

// mapFn reads a map over a handle: its body is one call of that capability, with
// the item as input.
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
			np.bad(checkMap, "which intent a handle from a slot serves is not known before the run: write :intent beside :fn in %s", showPath(np.cur))
		})
		return
	case dispatch.Has(kCandidates):
		np.in(kDispatch, func() {
			np.in(kCandidates, func() {
				np.bad(checkMap, "the :fn of a map says who is asked, remove :candidates in %s", showPath(np.cur))
			})
		})
		return
	case !dispatch.IsNil() && !dispatch.IsMap():
		np.in(kDispatch, func() { np.wrong(dispatch, "a map") })
		return
	}
	if dispatch.IsNil() {
		dispatch = edn.MustMap()
	}
	if !hasIntent {
		intent = edn.K(fnIntent)
	}
	var call edn.MapBuilder
	call.Key("op", edn.K("call"))
	call.Key("id", edn.Text("fn"))
	call.Key("intent", intent)
	call.Key("input", edn.MustMap(kSlotID, edn.K(np.n.Item)))
	call.Key("dispatch", dispatch.AssocKey("candidates", edn.Vector(fn)))
	for _, name := range []string{"done", "budget"} {
		if v, ok := np.v.Get(edn.K(name)); ok {
			call.Key(name, v)
		}
	}
	np.in(kFn, func() {
		if !np.enter() {
			return
		}
		p := np.inner(edn.Vector(call.Map()))
		if len(p.Nodes) == 1 {
			p.Nodes[0].Fn = true
		}
	})
}

// handlesOf gives the calls of maps over handles the only intent that their
// capability serves. It does the same each time.
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
