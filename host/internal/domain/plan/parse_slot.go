package plan

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// scope binds names while the nodes of one plan are parsed in program order.
type scope struct {
	*parser
	plan  *Plan
	outer map[string]int
	node  int
	// ids maps ids to the nodes parsed so far.
	ids map[string]int
	// unreadID is true if some node has an invalid id.
	unreadID bool
	// needed holds `:needs` as written until all ids are known.
	needed map[int]edn.Value
}

// bind returns the frame slot of a name at this place of the plan: that of the
// earlier node that writes it, else of an outer name (SCHED-007). Nodes
// register their slot after they are parsed, so a node never reads itself.
func (sc *scope) bind(name string) int {
	if w, ok := sc.plan.writers[name]; ok {
		return w
	}
	k, ok := sc.outer[name]
	if !ok {
		if sc.outer == nil {
			sc.outer = make(map[string]int)
		}
		k = len(sc.plan.Outer)
		sc.outer[name] = k
		sc.plan.Outer = append(sc.plan.Outer, name)
	}
	return len(sc.plan.Nodes) + k
}

func (sc *scope) read(r read) {
	r.node = sc.node
	sc.plan.reads = append(sc.plan.reads, r)
}

// slotShape reports whether a value is a slot map, and whether it is data that
// only resembles one (SLOT-001).
func slotShape(v edn.Value) (slot, like bool) {
	if v.Kind() != edn.KindMap {
		return false, false
	}
	id, path := v.Has(kSlotID), v.Has(kSlotPath)
	if !id && !path {
		return false, !misspeltSlot(v).IsNil()
	}
	keys := 1
	for _, more := range [...]edn.Value{kSlotDefault, kSlotSystem} {
		if v.Has(more) {
			keys++
		}
	}
	slot = id != path && v.Len() == keys
	return slot, !slot
}

// misspeltSlot returns the known slot key that a key of a map resembles most,
// nil if there is none.
func misspeltSlot(v edn.Value) edn.Value {
	for key := range v.Entries() {
		name, ok := key.AsKeyword()
		if !ok {
			name, _ = key.AsSymbol()
		}
		if strings.HasPrefix(name, "slot/") && !edn.Equal(key, kSlotDefault) {
			return nearest(name, []string{"slot/id", "slot/path"})
		}
	}
	return edn.Nil()
}

// compiler compiles one template. The parser's current path is that of the part
// being compiled; base is the length of the template's own path.
type compiler struct {
	*nodeParser
	t    *Template
	kind readKind
	base int
}

// template compiles the value under the current path.
func (np *nodeParser) template(v edn.Value, kind readKind) *Template {
	c := compiler{nodeParser: np, t: &Template{source: v}, kind: kind, base: len(np.cur)}
	return c.finish(v)
}

func (c *compiler) finish(v edn.Value) *Template {
	root := c.part(v)
	c.t.weight = weigh(v, maxFilledWeight)
	if root.kind == partStatic {
		return c.t
	}
	c.t.root = &root
	for i := range c.t.slots {
		r := &c.t.slots[i]
		c.read(read{slot: r.slot, name: r.name, kind: c.kind, optional: r.hasDefault, where: c.inNode(r.where...), ref: r,
			final: r.final})
	}
	return c.t
}

// inNode returns the current path relative to the node, extended by more steps.
func (np *nodeParser) inNode(more ...edn.Value) []edn.Value {
	own := np.cur[len(np.plan.nodesPath)+1:]
	return append(slices.Clone(own), more...)
}

// markInput marks the reads of the input just compiled as input reads.
func (np *nodeParser) markInput() {
	reads := np.plan.reads
	for i := len(reads) - np.n.Input.Slots(); i < len(reads); i++ {
		reads[i].input = true
	}
}

func (c *compiler) part(v edn.Value) part {
	switch v.Kind() {
	case edn.KindMap:
		isSlot, like := slotShape(v)
		if isSlot {
			return c.slot(v)
		}
		if like {
			c.warnLike(v)
		}
		return c.mapping(v)
	case edn.KindVector, edn.KindList, edn.KindSet:
		return c.elements(v)
	}
	return part{value: v}
}

func (c *compiler) mapping(v edn.Value) part {
	p := part{value: v}
	i := int32(0)
	for key, val := range v.Entries() {
		if c.kind == readEmit || mayHoldSlot(val) {
			c.cur = append(c.cur, key)
			p.adopt(c.mapValue(key, val), i)
			c.cur = c.cur[:len(c.cur)-1]
		}
		i++
	}
	return p
}

func (c *compiler) elements(v edn.Value) part {
	p := part{value: v}
	i := int32(0)
	for e := range v.Elems() {
		if c.kind == readEmit || mayHoldSlot(e) {
			c.cur = append(c.cur, elementStep(v, e, int(i)))
			if c.kind == readEmit && !c.inSlotPath() {
				c.warnKeyword(e)
			}
			p.adopt(c.part(e), i)
			c.cur = c.cur[:len(c.cur)-1]
		}
		i++
	}
	return p
}

// inSlotPath reports whether the current element is directly in a :slot/path
// that is data.
func (c *compiler) inSlotPath() bool {
	n := len(c.cur)
	return n >= 2 && (edn.Equal(c.cur[n-2], kSlotPath) || edn.Equal(c.cur[n-2], kSlotID))
}

// adopt appends a child that holds slots.
func (p *part) adopt(kid part, at int32) {
	if kid.kind == partStatic {
		return
	}
	p.kind = partInner
	p.kids = append(p.kids, kid)
	p.at = append(p.at, at)
}

// mayHoldSlot reports whether a value is a collection. A scalar holds no slot.
func mayHoldSlot(v edn.Value) bool {
	return v.Kind() == edn.KindMap || isCollection(v)
}

func (c *compiler) slot(v edn.Value) part {
	ref, ok := c.slotMap(v)
	if !ok {
		return part{value: v}
	}
	return c.addSlot(ref, v)
}

// addSlot appends the slot under the current path.
func (c *compiler) addSlot(ref slotRef, v edn.Value) part {
	ref.where = slices.Clone(c.cur[c.base:])
	c.t.slots = append(c.t.slots, ref)
	return part{kind: partSlot, value: v, slot: len(c.t.slots) - 1}
}

// slotMap parses the slot map under the current path.
func (np *nodeParser) slotMap(v edn.Value) (slotRef, bool) {
	var ref slotRef
	target, isID := v.Get(kSlotID)
	if !isID {
		target, _ = v.Get(kSlotPath)
	}
	ref.fallback, ref.hasDefault = v.Get(kSlotDefault)
	if mark, ok := v.Get(kSlotSystem); ok {
		ref.system = np.systemMark(mark)
	}
	if name, ok := target.AsKeyword(); ok && isID {
		ref.name, ref.slot = name, np.bind(name)
		return ref, true
	}
	if k := target.Kind(); (k != edn.KindVector && k != edn.KindList) || target.Len() == 0 {
		wanted := "a slot path that begins with the name of a slot"
		if isID {
			wanted = "the name of a slot or a path"
		}
		np.wrong(target, wanted)
		return ref, false
	}
	if target.Len() > np.limits.PathSteps {
		np.tooMany(target.Len(), np.limits.PathSteps, "steps of a slot path")
		return ref, false
	}
	ref.steps = make([]step, 0, target.Len()-1)
	for e := range target.Elems() {
		if ref.name == "" {
			name, ok := e.AsKeyword()
			if !ok {
				np.wrong(e, "the name of a slot")
				return ref, false
			}
			ref.name = name
			continue
		}
		s, ok := newStep(e)
		if !ok {
			np.wrong(e, "an index from 0 in a slot path")
			return ref, false
		}
		ref.steps = append(ref.steps, s)
	}
	ref.slot = np.bind(ref.name)
	return ref, true
}

// systemMark parses the key with which a plan permits a slot in a system prompt
// (PRM-002). It belongs where the text enters the call, not where the text was
// made.
func (np *nodeParser) systemMark(v edn.Value) bool {
	mark, ok := v.AsBool()
	np.in(kSlotSystem, func() {
		key := np.cur[len(np.plan.nodesPath)+1]
		switch {
		case np.n.Op != OpCall && np.n.Op != OpTool ||
			!edn.Equal(key, np.n.asWritten(kSystem)) && !edn.Equal(key, np.n.asWritten(kInput)):
			np.badKey(checkUnknownKey, edn.Nil(),
				"only a slot in :system or :input of a call takes :slot/system?, remove it in %s",
				showPath(np.cur[:len(np.cur)-1]))
		case !ok:
			np.wrong(v, "a boolean")
		}
	})
	return mark
}

// wholeSlot compiles a keyword that names a slot.
func (np *nodeParser) wholeSlot(v edn.Value, name string, kind readKind) *Template {
	c := compiler{nodeParser: np, t: &Template{source: v, emit: kind == readEmit}, kind: kind, base: len(np.cur)}
	root := c.addSlot(slotRef{name: name, slot: np.bind(name)}, v)
	c.t.root = &root
	c.read(read{slot: c.t.slots[0].slot, name: name, kind: kind, where: c.inNode(), ref: &c.t.slots[0]})
	return c.t
}

// emitTemplate compiles the input of an emit: a keyword that is the whole input
// names a slot; a keyword under :final names one if the slot exists (IR-005).
func (np *nodeParser) emitTemplate(v edn.Value) *Template {
	if name, ok := v.AsKeyword(); ok {
		return np.wholeSlot(v, name, readEmit)
	}
	c := compiler{nodeParser: np, t: &Template{source: v, emit: true}, kind: readEmit, base: len(np.cur)}
	return c.finish(v)
}

// mapValue compiles a map value of a template. In an emit, a keyword directly
// under :final that names a slot is replaced by it; a name that nothing fills
// stays a keyword.
func (c *compiler) mapValue(key, val edn.Value) part {
	name, isKeyword := val.AsKeyword()
	if c.kind != readEmit || !isKeyword {
		return c.part(val)
	}
	if len(c.cur) != c.base+1 || !edn.Equal(key, kFinal) {
		// Data that resembles a slot was reported as a whole.
		if !edn.Equal(key, kSlotID) {
			c.warnKeyword(val)
		}
		return part{value: val}
	}
	ref := slotRef{name: name, slot: c.bind(name), final: true}
	if _, written := c.plan.writers[name]; !written {
		ref.fallback, ref.hasDefault = val, true
	}
	return c.addSlot(ref, val)
}

func (c *compiler) warnLike(v edn.Value) {
	if c.full(Warning) {
		return
	}
	c.warn(checkSlotLike, "%s is data because a slot map has one of :slot/id and :slot/path and nothing but "+
		":slot/default and :slot/system? beside it, in %s", show(v), showPath(c.cur))
	if !v.Has(kSlotID) && !v.Has(kSlotPath) {
		c.list[len(c.list)-1].Nearest = misspeltSlot(v)
	}
}

func (c *compiler) warnKeyword(v edn.Value) {
	name, isKeyword := v.AsKeyword()
	if _, ok := c.plan.writers[name]; isKeyword && ok {
		c.warn(checkSlotLike, ":%s names a slot but is data in %s; write {:slot/id :%s}", name, showPath(c.cur), name)
	}
}

// condition compiles a `:when` (IR-002). A node with a nil result always runs.
func (np *nodeParser) condition(v edn.Value) *Cond {
	if v.IsNil() {
		return nil
	}
	c, ok := np.cond(v)
	if !ok {
		return &Cond{kind: condInvalid}
	}
	return &c
}

// cond compiles the condition under the current path.
func (np *nodeParser) cond(v edn.Value) (c Cond, ok bool) {
	if b, ok := v.AsBool(); ok {
		return Cond{kind: condConst, value: b}, true
	}
	if name, ok := v.AsKeyword(); ok {
		return np.condName(condTruthy, name), true
	}
	if isSlot, _ := slotShape(v); isSlot {
		ref, ok := np.slotMap(v)
		if !ok {
			return Cond{}, false
		}
		np.read(read{slot: ref.slot, name: ref.name, kind: readWhen, optional: ref.hasDefault, where: np.inNode(), ref: &ref})
		return Cond{kind: condSlot, ref: &ref}, true
	}
	known := false
	if v.Kind() == edn.KindMap && v.Len() == 1 {
		for key, val := range v.Entries() {
			np.in(key, func() { c, known, ok = np.condForm(key, val) })
		}
	}
	if !known {
		np.badNear(checkType, nearestCondition(v),
			"wanted a condition: a boolean, a slot, or {:failed? k} {:present? k} {:not c} {:and [c]} {:or [c]}, got %s, in %s",
			show(v), showPath(np.cur))
	}
	return c, ok
}

// nearestCondition returns the condition word that the only key of a map
// resembles most. Short words are too similar to each other and have none.
func nearestCondition(v edn.Value) edn.Value {
	const least = 3
	if !v.IsMap() || v.Len() != 1 {
		return edn.Nil()
	}
	for key := range v.Entries() {
		if name, _ := asKeyword(key).AsKeyword(); len(name) >= least {
			return nearest(name, []string{"failed?", "present?", "not", "and"})
		}
	}
	return edn.Nil()
}

func (np *nodeParser) condName(kind condKind, name string) Cond {
	slot := np.bind(name)
	np.read(read{slot: slot, name: name, kind: readWhen, where: np.inNode()})
	return Cond{kind: kind, slot: slot}
}

// condForm compiles conditions that are maps; known is false for an unknown
// word.
func (np *nodeParser) condForm(key, val edn.Value) (c Cond, known, ok bool) {
	word, _ := key.AsKeyword()
	switch word {
	case "failed?", "present?":
		name, isKeyword := np.keyword(val)
		if !isKeyword {
			return Cond{}, true, false
		}
		kind := condFailed
		if word == "present?" {
			kind = condPresent
		}
		return np.condName(kind, name), true, true
	case "not":
		// A nil condition is true, so its negation is false.
		kid := Cond{kind: condConst, value: true}
		if !val.IsNil() {
			if kid, ok = np.cond(val); !ok {
				return Cond{}, true, false
			}
		}
		return Cond{kind: condNot, kids: []Cond{kid}}, true, true
	case "and", "or":
		kind := condAnd
		if word == "or" {
			kind = condOr
		}
		c, ok = np.condList(kind, val)
		return c, true, ok
	}
	return Cond{}, false, false
}

func (np *nodeParser) condList(kind condKind, v edn.Value) (Cond, bool) {
	if k := v.Kind(); k != edn.KindVector && k != edn.KindList {
		np.wrong(v, "a vector of conditions")
		return Cond{}, false
	}
	c, ok := Cond{kind: kind, kids: make([]Cond, 0, v.Len())}, true
	for e := range v.Elems() {
		np.in(edn.Int(int64(len(c.kids))), func() {
			kid := Cond{kind: condConst, value: true}
			if !e.IsNil() {
				var good bool
				kid, good = np.cond(e)
				ok = ok && good
			}
			c.kids = append(c.kids, kid)
		})
	}
	return c, ok
}
