package plan

import (
	"slices"
	"strconv"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// opSet is a set of ops.
type opSet uint8

func ops(list ...Op) (s opSet) {
	for _, o := range list {
		s |= 1 << o
	}
	return s
}

func (s opSet) has(o Op) bool { return s&(1<<o) != 0 }

var (
	allOps   = ops(OpLet, OpCall, OpTool, OpEmit, OpPlan, OpMap)
	callOnly = ops(OpCall)
	callTool = ops(OpCall, OpTool)
	writing  = ops(OpLet, OpCall, OpTool, OpPlan, OpMap)
)

// nodeKey lists the ops that have a key and its parser. Keys that need the
// whole node (op, body, plan) are parsed separately.
type nodeKey struct {
	ops  opSet
	read func(np *nodeParser, v edn.Value)
}

// nodeKeys is the complete list of the keys of nodes (IR-002 to IR-008).
var nodeKeys = sync.OnceValue(func() map[string]nodeKey {
	ignore := func(*nodeParser, edn.Value) {}
	return map[string]nodeKey{
		"op":            {allOps, ignore},
		"id":            {allOps, ignore},
		"as":            {writing, (*nodeParser).as},
		"when":          {allOps, (*nodeParser).when},
		"needs":         {allOps, (*nodeParser).needs},
		"value":         {ops(OpLet), (*nodeParser).value},
		"input":         {ops(OpCall, OpTool, OpEmit), (*nodeParser).input},
		"intent":        {callOnly, (*nodeParser).intent},
		"cap/id":        {callOnly, (*nodeParser).capID},
		"role":          {callOnly, (*nodeParser).role},
		"model":         {callOnly, (*nodeParser).model},
		"system":        {callOnly, (*nodeParser).system},
		"context":       {callOnly, (*nodeParser).context},
		"constraints":   {callOnly, (*nodeParser).constraints},
		"requires":      {callOnly, (*nodeParser).requires},
		"output":        {callOnly, (*nodeParser).output},
		"result/type":   {callOnly, (*nodeParser).resultType},
		"expect":        {callOnly, (*nodeParser).expect},
		"temperature":   {callOnly, (*nodeParser).temperature},
		"max-attempts":  {callOnly, (*nodeParser).maxAttempts},
		"deadline-ms":   {callTool, (*nodeParser).deadline},
		"budget":        {callTool, (*nodeParser).budget},
		"done":          {callTool, (*nodeParser).done},
		"effects":       {callTool, (*nodeParser).effects},
		"dispatch":      {callTool, (*nodeParser).dispatch},
		"tool/id":       {ops(OpTool), (*nodeParser).toolID},
		"plan":          {ops(OpPlan), ignore},
		"bindings":      {ops(OpPlan), (*nodeParser).subBindings},
		"over":          {ops(OpMap), (*nodeParser).over},
		"item":          {ops(OpMap), ignore},
		"body":          {ops(OpMap), ignore},
		"fn":            {ops(OpMap), ignore},
		"max-parallel":  {ops(OpMap), (*nodeParser).mapParallel},
		"on-item-error": {ops(OpMap), (*nodeParser).onItemError},
	}
})

// keyNames returns the keys of an op, sorted.
func keyNames(o Op) []string {
	var out []string
	for name, k := range nodeKeys() {
		if o == OpInvalid || k.ops.has(o) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// nodeParser is the state of parsing one node.
type nodeParser struct {
	*scope
	n *Node
	v edn.Value
}

// readNode parses node i of the plan; the current path is that of the node.
func (sc *scope) readNode(i int, v edn.Value) {
	n := &sc.plan.Nodes[i]
	n.Index = i
	n.ID = "n" + strconv.Itoa(i)
	sc.node = i
	if v.Kind() != edn.KindMap {
		sc.wrong(v, "a map as a node")
		return
	}
	np := &nodeParser{scope: sc, n: n, v: v}
	np.op()
	keys := nodeKeys()
	np.respell(keys)
	if id, ok := np.v.Get(kID); ok {
		np.in(kID, func() { np.id(id) })
	}
	np.register()
	for key, val := range np.v.Entries() {
		name, _ := key.AsKeyword()
		np.in(key, func() { np.key(keys, name, val) })
	}
	np.complete()
	if n.As != "" {
		np.write()
	}
}

// in calls read with the current path extended by step. A key that respell replaced is
// extended as it is written.
func (np *nodeParser) in(step edn.Value, read func()) {
	if len(np.n.respelt) > 0 && len(np.cur) == len(np.plan.nodesPath)+1 {
		if written := np.n.asWritten(step); !edn.Equal(written, step) {
			np.scope.in(written, func() { np.guess(read) })
			return
		}
	}
	np.scope.in(step, read)
}

// respell reports the unknown keys of the node. It replaces each of them with the known key
// that it resembles, so that later checks do not report that key as missing.
func (np *nodeParser) respell(keys map[string]nodeKey) {
	op := np.n.Op
	if op == OpInvalid {
		return
	}
	for key, val := range np.v.Entries() {
		name, _ := key.AsKeyword()
		if k, known := keys[name]; known && k.ops.has(op) || np.ofFn(name) || reservedNodeKey(name, op) {
			continue
		}
		np.in(key, func() {
			near := np.unknownKey(key, keyNames(op))
			if near.IsNil() || np.v.Has(near) {
				return
			}
			if np.n.respelt == nil {
				np.n.respelt = make(map[string]edn.Value)
			}
			np.n.respelt[near.String()] = key
			np.v = np.v.Assoc(near, val)
		})
	}
}

// ofFn reports whether a key belongs to the call of the :fn of a map.
func (np *nodeParser) ofFn(name string) bool {
	if np.plan.fn != nil {
		return name == "over" || name == "fn"
	}
	return np.n.Op == OpMap && np.v.Has(kFn) && fnKeys.has(name)
}

// key parses one entry of a node.
func (np *nodeParser) key(keys map[string]nodeKey, name string, v edn.Value) {
	op := np.n.Op
	switch k, known := keys[name]; {
	case np.plan.fn != nil && name == "over":
		np.fnInput(v)
	case np.plan.fn != nil && name == "fn":
		np.fnCandidate(v)
	case known && (op == OpInvalid || k.ops.has(op)):
		k.read(np, v)
	case reservedNodeKey(name, op):
		np.reserved(name)
	}
}

// register records the id of the node, written or generated.
func (np *nodeParser) register() {
	n := np.n
	first, dup := np.ids[n.ID]
	if !dup {
		np.ids[n.ID] = n.Index
		return
	}
	report := func() {
		np.badAgain(np.plan.path(first, kID), "duplicate :id %q in %s", n.ID, showPath(np.plan.path(n.Index)))
	}
	if np.v.Has(kID) {
		np.in(kID, report)
		return
	}
	report()
}

func (np *nodeParser) op() {
	op, ok := np.v.Get(kOp)
	if !ok {
		np.missing("op")
		return
	}
	name, _ := op.AsKeyword()
	if i := slices.Index(opNames[1:], name); i >= 0 {
		np.n.Op = Op(i + 1)
		return
	}
	np.in(kOp, func() {
		if name == "" {
			name, _ = asKeyword(op).AsKeyword()
		}
		np.badNear(checkUnknownKey, nearest(name, opNames[1:]), "unknown op %s in %s", show(op), showPath(np.cur))
	})
}

// missing reports a missing key of the op.
func (np *nodeParser) missing(key string) {
	what := "a node"
	if np.n.Op != OpInvalid {
		what = "the op :" + np.n.Op.String()
	}
	next := ""
	if key == "effects" {
		effect := "fs/read"
		if name, ok := np.v.Get(kToolID); ok {
			id, _ := asKeyword(name).AsKeyword()
			if tool, ok := effects.ToolNamed(id); ok {
				effect = tool.Effect
			}
		}
		next = ", such as :effects {:allowed #{:" + effect + "}},"
	}
	np.bad(checkType, "%s needs :%s%s in %s", what, key, next, showPath(np.cur))
}

// complete checks the required keys of an op. It parses nested plans, for which
// the other keys of the node must have been read.
func (np *nodeParser) complete() {
	n := np.n
	switch n.Op {
	case OpLet:
		if n.Value == nil {
			np.missing("value")
		}
	case OpCall:
		if !np.v.Has(kIntent) {
			np.missing("intent")
		}
		if n.Input == nil {
			n.Input = emptyInput
		}
	case OpTool:
		if !np.v.Has(kToolID) {
			np.missing("tool/id")
		}
		if !np.v.Has(kEffects) {
			np.missing("effects")
		}
		if n.Input == nil {
			n.Input = emptyInput
		}
	case OpPlan:
		np.subPlan()
	case OpMap:
		np.mapBody()
	}
}

// emptyInput is the default of IR-008.
var emptyInput = &Template{source: edn.MustMap()}

// write registers the slot that the node writes.
func (np *nodeParser) write() {
	p, n := np.plan, np.n
	first, dup := p.writers[n.As]
	if !dup {
		p.writers[n.As] = n.Index
		return
	}
	if p.duplicates == nil {
		p.duplicates = make(map[string]bool)
	}
	p.duplicates[n.As] = true
	np.in(kAs, func() {
		np.badAgain(p.path(first, kAs), "duplicate :as :%s in %s", n.As, showPath(p.path(n.Index)))
	})
}

// layer returns the policy layer of the node, made on first use.
func (np *nodeParser) layer() *policy.Layer {
	if np.n.Layer == nil {
		np.n.Layer = &policy.Layer{}
	}
	return np.n.Layer
}

// origin returns the node as the origin of a value.
func (np *nodeParser) origin() policy.Origin {
	return policy.Origin{Source: policy.SourceNode, Where: np.n.ID}
}

func (np *nodeParser) id(v edn.Value) {
	id, ok := planID(v)
	if !ok {
		np.unreadID = true
		np.wrong(v, "a string as the id of a node")
		return
	}
	np.n.ID = id
}

func (np *nodeParser) as(v edn.Value) { np.n.As, _ = np.keyword(v) }

func (np *nodeParser) when(v edn.Value) {
	np.n.WhenSource = v
	np.n.When = np.condition(v)
}

func (np *nodeParser) needs(v edn.Value) {
	if !isCollection(v) {
		np.wrong(v, "a vector of node ids")
		return
	}
	if np.needed == nil {
		np.needed = make(map[int]edn.Value)
	}
	np.needed[np.n.Index] = v
}

func (np *nodeParser) value(v edn.Value) { np.n.Value = np.template(v, readSlot) }

func (np *nodeParser) input(v edn.Value) {
	switch np.n.Op {
	case OpEmit:
		np.n.Input = np.emitTemplate(v)
	case OpInvalid:
		// The op that decides the kind of input is invalid and already
		// reported.
		np.n.Input = np.template(v, readSlot)
	default:
		np.n.Input = np.mapTemplate(v)
		np.markInput()
	}
}

func (np *nodeParser) intent(v edn.Value) { np.n.Intent, _ = np.keyword(v) }

func (np *nodeParser) toolID(v edn.Value) { np.n.ToolID, _ = np.keyword(v) }

func (np *nodeParser) capID(v edn.Value) {
	id, ok := capRef(v)
	if !ok {
		np.wrong(v, "a capability id")
	}
	np.n.CapID = id
}

// capRef parses a capability id or a handle (ENV-018).
func capRef(v edn.Value) (string, bool) {
	if v.Kind() == edn.KindMap && v.Len() == 1 {
		ref, _ := v.Get(kCapRef)
		return ref.AsKeyword()
	}
	return v.AsKeyword()
}

// hostOnlyContext are keys of :context that a client may not write.
var hostOnlyContext = [...]edn.Value{edn.K("prompt"), edn.K("repair")}

func (np *nodeParser) context(v edn.Value) {
	np.n.Context = np.mapTemplate(v)
	for _, key := range hostOnlyContext {
		if v.Has(key) {
			np.in(key, func() {
				np.badKey(checkHostOnly, edn.Nil(), "only the host writes %s in %s", key, showPath(np.cur[:len(np.cur)-1]))
			})
		}
	}
	if np.n.Context.Constant() {
		np.layer().Context = policy.FieldsOf(v, np.origin())
	}
}

func (np *nodeParser) constraints(v edn.Value) {
	np.n.Constraints = np.mapTemplate(v)
	if v.Kind() == edn.KindMap {
		for key, val := range v.Entries() {
			np.in(key, func() { np.constraint(key, val) })
		}
	}
	if np.n.Constraints.Constant() {
		np.layer().Constraints = policy.FieldsOf(v, np.origin())
	}
}

// constraint checks a typed constraint as far as it is constant.
func (np *nodeParser) constraint(key, v edn.Value) {
	if isSlot, _ := slotShape(v); isSlot {
		return
	}
	name, _ := key.AsKeyword()
	switch name {
	case "language", "style":
		np.keyword(v)
	case "max-chars":
		np.integer(v, 1, 12_000, checkType)
	case "no-web":
		if v.Kind() != edn.KindBool {
			np.wrong(v, "a boolean")
		}
	}
}

// mapTemplate parses a template that must give a map.
func (np *nodeParser) mapTemplate(v edn.Value) *Template {
	t := np.template(v, readSlot)
	if t.Constant() && v.Kind() != edn.KindMap {
		np.wrong(v, "a map")
	}
	return t
}

func (np *nodeParser) system(v edn.Value) {
	np.n.System = np.template(v, readSlot)
	if np.n.System.Constant() && v.Kind() != edn.KindString {
		np.wrong(v, "a string or a slot")
	}
}

func (np *nodeParser) subBindings(v edn.Value) {
	if np.bindings(v) {
		np.n.SubBindings = v
	}
}
