package plan

import (
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// SlotKind is the kind of source that wrote a slot.
type SlotKind uint8

// The kinds of slot. A slot is unfilled if its writer did not run or returned nil
// (SLOT-010).
const (
	SlotUnfilled SlotKind = iota
	// SlotValue holds a plain value: let, binding, item.
	SlotValue
	// SlotCall and SlotTool hold the result of an executor.
	SlotCall
	SlotTool
	// SlotPlan holds the result of a plan or map node.
	SlotPlan
)

// Result is the content of a slot that an executor, a plan or a map filled. Nil
// values are absent keys.
type Result struct {
	// ID is the capability of a call or the tool of a tool node.
	ID string
	// Envelope is the whole answer; it is visible to slots but never leaves
	// the plan.
	Envelope edn.Value
	Out      edn.Value
	// Error, FailureType and Recover describe an allowed failure.
	Error       edn.Value
	FailureType string
	Recover     bool
	Meta        edn.Value
	// Run is the value of :plan/run.
	Run edn.Value
	// Failure is the typed form of Error, used as the cause of later errors.
	Failure *contract.Error
}

// Slot is the value of one name. The zero Slot is unfilled.
type Slot struct {
	kind  SlotKind
	value edn.Value
	res   *Result
	// weight is an upper bound of the size of any part of the value. For a result it is
	// computed only when the slot is set in a frame, because most results are
	// never read.
	weight int
	// shown is the exposed value for emits if a plain value holds whole slots,
	// nil if it is the value itself (IR-009).
	shown *edn.Value
}

// ValueSlot makes the slot of a let, a binding or an item. Nil is unfilled.
func ValueSlot(v edn.Value) Slot {
	if v.IsNil() {
		return Slot{}
	}
	return Slot{kind: SlotValue, value: v, weight: weigh(v, maxFilledWeight)}
}

// CallSlot makes the slot of a call. The result must not be changed afterwards.
func CallSlot(r *Result) Slot { return resultSlot(SlotCall, r) }

// ToolSlot makes the slot of a tool. The result must not be changed afterwards.
func ToolSlot(r *Result) Slot { return resultSlot(SlotTool, r) }

func resultSlot(kind SlotKind, r *Result) Slot { return Slot{kind: kind, res: r} }

// weight is an upper bound of the size of any part of the result.
func (r *Result) weight() (sum int) {
	for _, part := range [...]*edn.Value{&r.Out, &r.Envelope, &r.Error, &r.Meta, &r.Run} {
		if !part.IsNil() {
			sum += weigh(*part, maxFilledWeight)
		}
	}
	return sum
}

// PlanSlot makes the slot of a plan or map node.
//
//revive:disable-next-line:exported named after the op, like CallSlot and ToolSlot
func PlanSlot(r *Result) Slot { return resultSlot(SlotPlan, r) }

// Recorded restores the slot of a call, tool, plan or map node from its value v in a record
// (see Slot.Value).
func Recorded(kind SlotKind, v edn.Value) Slot {
	of := func(f field) edn.Value {
		part, _ := v.Get(fieldKeys[f])
		return part
	}
	r := &Result{
		Envelope: of(fieldResult),
		Out:      of(fieldOut),
		Error:    of(fieldError),
		Meta:     of(fieldMeta),
		Run:      of(fieldRun),
	}
	id := fieldCapID
	if kind == SlotTool {
		id = fieldToolID
	}
	r.ID, _ = of(id).AsKeyword()
	if r.FailureType, _ = of(fieldFailure).AsKeyword(); r.FailureType != "" {
		r.Recover, _ = of(fieldRecover).AsBool()
		r.Failure = contract.ErrorFromValue(r.Error, contract.SourceHost)
	}
	return resultSlot(kind, r)
}

// Kind returns the kind of source that wrote the slot.
func (s Slot) Kind() SlotKind { return s.kind }

// Filled reports whether the slot has a value.
func (s Slot) Filled() bool { return s.kind != SlotUnfilled }

// Value returns the whole slot: the plain value, or the map of SLOT-004.
func (s Slot) Value() edn.Value {
	if s.res == nil {
		return s.value
	}
	r := s.res
	var b edn.MapBuilder
	set := func(f field) {
		if v := r.field(s.kind, f); !v.IsNil() {
			b.Set(fieldKeys[f], v)
		}
	}
	for f := fieldCapID; f < fieldCount; f++ {
		set(f)
	}
	return b.Map()
}

// Failure returns the typed failure in the slot, or nil.
func (s Slot) Failure() *contract.Error {
	if s.res == nil {
		return nil
	}
	return s.res.Failure
}

// Failed reports whether the slot is failed in the sense of IR-002.
func (s Slot) Failed() bool {
	if s.res == nil {
		return failedValue(s.value)
	}
	r := s.res
	return r.FailureType != "" || !r.Error.IsNil() || errorResult(r.Envelope)
}

// failedValue reports whether a value is failed: a map with :error,
// :failure/type, or the result type :error. A nil under the key counts as
// absent.
func failedValue(v edn.Value) bool {
	if v.Kind() != edn.KindMap {
		return false
	}
	if !v.Key("error").IsNil() || !v.Key("failure/type").IsNil() {
		return true
	}
	return errorResult(v.Key("result"))
}

func errorResult(envelope edn.Value) bool {
	if envelope.Kind() != edn.KindMap {
		return false
	}
	t := envelope.Key("type")
	if inner := envelope.Key("result"); inner.Kind() == edn.KindMap {
		t = inner.Key("type")
	}
	name, ok := t.AsKeyword()
	return ok && name == "error"
}

// field is one key of a slot map, resolved at parse time so that reading a
// result needs no map.
type field uint8

const (
	fieldNone field = iota
	fieldCapID
	fieldToolID
	fieldResult
	fieldOut
	fieldError
	fieldMeta
	fieldRun
	fieldFailure
	fieldRecover
	fieldCount
)

var fieldNames = [fieldCount]string{
	"", "cap/id", "tool/id", "result", "out", "error", "invoke/meta", "plan/run", "failure/type", "failure/recover?",
}

var fieldKeys = func() (ks [fieldCount]edn.Value) {
	for i := fieldCapID; i < fieldCount; i++ {
		ks[i] = edn.K(fieldNames[i])
	}
	return ks
}()

func fieldOf(name string) field {
	for i := fieldCapID; i < fieldCount; i++ {
		if fieldNames[i] == name {
			return i
		}
	}
	return fieldNone
}

// internal reports whether the field must not leave the plan (IR-009).
func (f field) internal() bool { return f == fieldResult || f == fieldMeta }

func (r *Result) field(kind SlotKind, f field) edn.Value {
	switch f {
	case fieldCapID:
		if kind == SlotCall && r.ID != "" {
			return edn.K(r.ID)
		}
	case fieldToolID:
		if kind == SlotTool && r.ID != "" {
			return edn.K(r.ID)
		}
	case fieldResult:
		return r.Envelope
	case fieldOut:
		return r.Out
	case fieldError:
		return r.Error
	case fieldMeta:
		return r.Meta
	case fieldRun:
		return r.Run
	case fieldFailure:
		if r.FailureType != "" {
			return edn.K(r.FailureType)
		}
	case fieldRecover:
		if r.FailureType != "" {
			return edn.Bool(r.Recover)
		}
	}
	return edn.Nil()
}

// Frame is the environment of one running plan. It is not synchronised: only
// the owner of the run sets slots and looks up names (Lookup, Names, Env,
// Answer, Plan, Item). Other goroutines may fill templates and evaluate
// conditions while the slots that they read do not change, which the graph
// guarantees.
type Frame struct {
	prog  *Program
	slots []Slot
	up    *Frame
	// at is the node of up that this plan runs in.
	at int
	// bindings are names that no node of the plan reads but a nested plan
	// answer may: given bindings, item and index.
	bindings edn.Value
	item     Slot
	index    int
	// before caches the predecessors of the last queried node.
	before   []bool
	beforeOf int
}

// NewFrame makes the frame of a root plan. Bindings is nil or a map with
// keyword keys; they take precedence over the plan's own.
func NewFrame(prog *Program, bindings edn.Value) *Frame {
	f := newFrame(prog)
	f.bindings = bindings
	f.fillOuter()
	return f
}

// Answer makes the frame of a plan that node at of this frame returned: a copy
// of the environment that the node may see, plus bindings (SCHED-005).
func (f *Frame) Answer(at int, prog *Program, bindings edn.Value) *Frame {
	c := newFrame(prog)
	c.up, c.at, c.bindings = f, at, bindings
	c.fillOuter()
	return c
}

// Plan makes the frame of the body of plan node at.
func (f *Frame) Plan(at int) *Frame { return f.child(at, Slot{}, -1) }

// Item makes the frame of the body of map node at for one element.
func (f *Frame) Item(at int, item edn.Value, index int) *Frame {
	return f.child(at, ValueSlot(item), index)
}

func newFrame(prog *Program) *Frame {
	return &Frame{prog: prog, slots: make([]Slot, len(prog.Plan.Nodes)+len(prog.Plan.Outer)), index: -1}
}

func (f *Frame) child(at int, item Slot, index int) *Frame {
	n := &f.prog.Plan.Nodes[at]
	c := newFrame(f.prog.Subs[at])
	c.up, c.at, c.bindings, c.item, c.index = f, at, n.SubBindings, item, index
	outer := c.slots[len(c.prog.Plan.Nodes):]
	for i := range outer {
		switch src := &n.Capture[i]; src.From {
		case FromSlot:
			outer[i] = f.slots[src.Slot]
		case FromBinding:
			outer[i] = ValueSlot(src.Value)
		case FromItem:
			outer[i] = item
		case FromIndex:
			outer[i] = ValueSlot(edn.Int(int64(index)))
		}
	}
	return c
}

func (f *Frame) fillOuter() {
	outer := f.slots[len(f.prog.Plan.Nodes):]
	for i, name := range f.prog.Plan.Outer {
		if s, ok := f.outside(name); ok {
			outer[i] = s
		}
	}
}

// outside finds a name that no node of this plan writes: in the given bindings,
// then the plan's own, then the parent's environment.
func (f *Frame) outside(name string) (Slot, bool) {
	key := edn.K(name)
	if n := f.mapNode(); n != nil {
		switch name {
		case n.Item:
			return f.item, true
		case indexName:
			return ValueSlot(edn.Int(int64(f.index))), true
		}
	}
	for _, b := range [...]edn.Value{f.bindings, f.prog.Plan.Bindings} {
		if b.Kind() != edn.KindMap {
			continue
		}
		if v, ok := b.Get(key); ok {
			return ValueSlot(v), true
		}
	}
	if f.up != nil {
		return f.up.Lookup(name, f.at)
	}
	return Slot{}, false
}

func (f *Frame) mapNode() *Node {
	if f.index < 0 || f.up == nil {
		return nil
	}
	return &f.up.prog.Plan.Nodes[f.at]
}

// Lookup finds a name visible to node at: a slot of an earlier node that it
// waits for, else a binding or a slot of an outer plan. Slots of earlier nodes
// that it does not wait for are invisible, so the result does not depend on
// timing.
func (f *Frame) Lookup(name string, at int) (Slot, bool) {
	w, ok := f.prog.Plan.writers[name]
	if !ok || w >= at {
		return f.outside(name)
	}
	if !f.waitsFor(at)[w] {
		return Slot{}, false
	}
	return f.slots[w], true
}

func (f *Frame) waitsFor(at int) []bool {
	if f.before == nil || f.beforeOf != at {
		f.before, f.beforeOf = f.prog.Graph.Before(at), at
	}
	return f.before
}

// Names returns a function that reports whether a slot of this name is visible to node at,
// filled or not; it is Env.Outer for checking a plan answer.
func (f *Frame) Names(at int) func(name string) bool {
	return func(name string) bool {
		_, ok := f.Lookup(name, at)
		return ok
	}
}

// Set stores the slot of a node. Only the owner of the frame calls it, before
// any successor of the node reads.
func (f *Frame) Set(node int, s Slot) {
	if s.res != nil {
		s.weight = s.res.weight()
	}
	f.slots[node] = s
}

// Env returns a map of the filled slots and bindings visible to node at, which the
// conditions of gates read.
func (f *Frame) Env(at int) edn.Value {
	var b edn.MapBuilder
	if f.up != nil {
		b = builderOf(f.up.Env(f.at))
	}
	add := func(v edn.Value) {
		if v.Kind() == edn.KindMap {
			for k, x := range v.Entries() {
				b.Set(k, x)
			}
		}
	}
	add(f.prog.Plan.Bindings)
	add(f.bindings)
	if n := f.mapNode(); n != nil {
		b.Key(n.Item, f.item.Value())
		b.Key(indexName, edn.Int(int64(f.index)))
	}
	before := f.waitsFor(at)
	for i := range f.prog.Plan.Nodes[:at] {
		n := &f.prog.Plan.Nodes[i]
		if n.As != "" && before[i] && f.slots[i].Filled() {
			b.Key(n.As, f.slots[i].Value())
		}
	}
	return b.Map()
}

func builderOf(v edn.Value) edn.MapBuilder {
	var b edn.MapBuilder
	for k, x := range v.Entries() {
		b.Set(k, x)
	}
	return b
}

// indexName is the slot of an item's index in a map body.
const indexName = "item/index"
