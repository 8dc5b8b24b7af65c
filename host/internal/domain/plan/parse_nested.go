package plan

import (
	"math/big"

	"github.com/fermenthq/ferment/sdk/edn"
)

func ratInt(n int64) *big.Rat { return big.NewRat(n, 1) }

// subPlan parses the inline plan of a plan node.
func (np *nodeParser) subPlan() {
	v, ok := np.v.Get(kPlan)
	if !ok {
		np.missing("plan")
		return
	}
	np.in(kPlan, func() {
		if np.enter() {
			np.adopt(np.parser.plan(v, np.plan.depth+1))
		}
	})
}

// mapBody parses the body of a map node.
func (np *nodeParser) mapBody() {
	n := np.n
	n.Item = "item"
	if v, ok := np.v.Get(kItem); ok {
		np.in(kItem, func() {
			if name, ok := np.keyword(v); ok {
				n.Item = name
			}
		})
	}
	if n.MaxParallel == 0 {
		n.MaxParallel = defaultMapParallel
	}
	body, hasBody := np.v.Get(kBody)
	if np.v.Has(kFn) && !hasBody && np.v.Has(kOver) {
		np.mapFn()
		return
	}
	if !np.v.Has(kOver) || !hasBody || np.v.Has(kFn) {
		np.bad(checkMap, "a map needs :over and exactly one of :body and :fn in %s", showPath(np.cur))
		return
	}
	np.in(kBody, func() {
		if k := body.Kind(); k != edn.KindVector && k != edn.KindList {
			np.wrong(body, "a vector of nodes")
			return
		}
		if !np.enter() {
			return
		}
		np.inner(body)
	})
}

// inner parses the nodes of a body.
func (np *nodeParser) inner(body edn.Value) {
	p := np.innerPlan(body)
	np.body(p, body)
	np.adopt(p)
}

func (np *nodeParser) innerPlan(body edn.Value) *Plan {
	return &Plan{Mode: np.plan.Mode, MaxParallel: np.plan.MaxParallel, Source: body, depth: np.plan.depth + 1}
}

// enter checks the nesting before a nested plan is parsed.
func (np *nodeParser) enter() bool {
	if np.plan.depth+1 < np.limits.Levels {
		return true
	}
	np.bad(checkLimit, "more than %d levels of plans in %s", np.limits.Levels, showPath(np.cur))
	return false
}

// adopt binds the outer names of a nested plan in the plan of its node. A read
// of the nested plan is a read of the node.
func (np *nodeParser) adopt(sub *Plan) {
	if sub == nil {
		return
	}
	n := np.n
	n.Sub = sub
	n.Capture = make([]Capture, len(sub.Outer))
	hard := sub.hardReads()
	for i, name := range sub.Outer {
		n.Capture[i] = np.capture(sub, name, !hard[i])
	}
}

// hardReads reports by outer name whether any read of it needs a value.
func (p *Plan) hardReads() []bool {
	hard := make([]bool, len(p.Outer))
	for i := range p.reads {
		r := &p.reads[i]
		if k := r.slot - len(p.Nodes); k >= 0 && !r.optional && r.kind != readWhen {
			hard[k] = true
		}
	}
	return hard
}

func (np *nodeParser) capture(sub *Plan, name string, optional bool) Capture {
	n := np.n
	if n.Op == OpMap {
		switch name {
		case n.Item:
			return Capture{From: FromItem}
		case indexName:
			return Capture{From: FromIndex}
		}
	}
	key := edn.K(name)
	for _, b := range [...]edn.Value{n.SubBindings, sub.Bindings} {
		if b.Kind() != edn.KindMap {
			continue
		}
		if v, ok := b.Get(key); ok {
			return Capture{From: FromBinding, Value: v}
		}
	}
	slot := np.bind(name)
	np.read(read{slot: slot, name: name, kind: readCapture, optional: optional, where: np.inNode()})
	return Capture{From: FromSlot, Slot: slot}
}

func (np *nodeParser) over(v edn.Value) {
	if name, ok := v.AsKeyword(); ok {
		np.n.Over = np.wholeSlot(v, name, readOver)
		return
	}
	if !mayHoldSlot(v) {
		np.wrong(v, "a slot or a collection")
		return
	}
	if isSlot, _ := slotShape(v); !isSlot && v.Len() > np.limits.MapItems {
		np.tooMany(v.Len(), np.limits.MapItems, "items of a map")
		return
	}
	np.n.Over = np.template(v, readOver)
}

func (np *nodeParser) mapParallel(v edn.Value) {
	if n, ok := np.integer(v, 1, np.limits.MaxParallel, checkLimit); ok {
		np.n.MaxParallel = n
	}
}

func (np *nodeParser) onItemError(v edn.Value) {
	name, _ := v.AsKeyword()
	if name != "fail" && name != "keep" {
		np.wrongName(v, ":fail or :keep", []string{"fail", "keep"})
		return
	}
	np.n.KeepItemErrors = name == "keep"
}
