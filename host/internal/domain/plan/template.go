package plan

import (
	"strconv"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Template is a compiled value with slots. Parts without slots are shared by
// all fillings.
type Template struct {
	source edn.Value
	// root is nil if the template holds no slot.
	root  *part
	slots []slotRef
	// emit limits whole slots to their :out (IR-009).
	emit bool
	// weight is the weight of the source.
	weight int
}

// Source returns the template as written.
func (t *Template) Source() edn.Value {
	if t == nil {
		return edn.Nil()
	}
	return t.source
}

// Constant reports whether the template has no slots, so that every filling is
// the source itself.
func (t *Template) Constant() bool { return t == nil || t.root == nil }

// Slots returns the number of slots in the template.
func (t *Template) Slots() int {
	if t == nil {
		return 0
	}
	return len(t.slots)
}

type partKind uint8

const (
	partStatic partKind = iota
	partSlot
	partInner
)

// part is one piece of a compiled template.
type part struct {
	kind partKind
	// value is the source of this part.
	value edn.Value
	// slot is the index into Template.slots of a partSlot.
	slot int
	// kids are the values or elements of an inner part that hold slots; at
	// holds their indices in the collection, ascending.
	kids []part
	at   []int32
}

// slotRef is one slot map of a template, bound to a slot of the frame.
type slotRef struct {
	name string
	// slot is the index into Frame.slots.
	slot int
	// steps are the path after the name; empty for a whole slot.
	steps      []step
	fallback   edn.Value
	hasDefault bool
	// system is true if the plan permits the slot in a system prompt.
	system bool
	// final marks a keyword under :final of an emit.
	final bool
	// where is the path of the slot map inside the template.
	where []edn.Value
}

// step is one element of a slot path, precomputed.
type step struct {
	key edn.Value
	// text is the key as a string, tried second (JSON answers).
	text    edn.Value
	hasText bool
	// index is >= 0 for an integer.
	index int
	// field is the key of a slot map that the step names, or fieldNone.
	field field
}

func newStep(v edn.Value) (step, bool) {
	s := step{key: v, index: -1}
	switch v.Kind() {
	case edn.KindKeyword:
		name, _ := v.AsKeyword()
		s.text, s.hasText = edn.Text(name), true
		s.field = fieldOf(name)
	case edn.KindInt:
		n, ok := v.AsInt()
		if !ok || n < 0 || n > maxIndex {
			return step{}, false
		}
		s.index = int(n)
		s.text, s.hasText = edn.Text(strconv.FormatInt(n, 10)), true
	}
	return s, true
}

// maxIndex exceeds the length of any collection that the reader accepts.
const maxIndex = 1 << 30

// walk follows the steps from a value; absent and nil values both return false.
func walk(v edn.Value, steps []step) (edn.Value, bool) {
	for i := range steps {
		s := &steps[i]
		var ok bool
		switch v.Kind() {
		case edn.KindMap:
			if v, ok = getKey(v, s); !ok {
				return edn.Nil(), false
			}
		case edn.KindVector, edn.KindList:
			if s.index < 0 {
				return edn.Nil(), false
			}
			if v, ok = v.Nth(s.index); !ok {
				return edn.Nil(), false
			}
		default:
			return edn.Nil(), false
		}
	}
	return v, !v.IsNil()
}

func getKey(m edn.Value, s *step) (edn.Value, bool) {
	if v, ok := m.Get(s.key); ok {
		return v, true
	}
	if s.hasText {
		return m.Get(s.text)
	}
	return edn.Nil(), false
}

// view determines how much of a slot a reader sees.
type view uint8

const (
	// viewInside sees whole slots, as nodes of the plan do.
	viewInside view = iota
	// viewShown sees only the exposed value of whole slots, as an emit does.
	viewShown
	// viewEmit is viewShown and cannot reach internal fields by a path either.
	viewEmit
)

// find resolves the path in a slot: the path itself, then the path below :out
// (SLOT-001).
func (r *slotRef) find(s Slot, as view) (edn.Value, bool) {
	if s.kind == SlotUnfilled {
		return edn.Nil(), false
	}
	if len(r.steps) == 0 {
		if as != viewInside {
			return s.Emitted(), true
		}
		return s.Value(), true
	}
	if s.res == nil {
		v := s.value
		if as != viewInside && s.shown != nil {
			v = *s.shown
		}
		if x, ok := walk(v, r.steps); ok {
			return x, true
		}
		if v.Kind() != edn.KindMap {
			return edn.Nil(), false
		}
		return walk(v.Key("out"), r.steps)
	}
	if f := r.steps[0].field; f != fieldNone && (as != viewEmit || !f.internal()) {
		if v, ok := walk(s.res.field(s.kind, f), r.steps[1:]); ok {
			return v, true
		}
	}
	return walk(s.res.Out, r.steps)
}

// Emitted returns the value that a whole slot exposes outside the plan: the
// value of a plain slot, the :out of a result, a failure as {:error e
// :failure/type k} (IR-009).
func (s Slot) Emitted() edn.Value {
	switch {
	case s.shown != nil:
		return *s.shown
	case s.res == nil:
		return s.value
	case !s.Failed():
		return s.res.Out
	}
	var b edn.MapBuilder
	b.Opt("error", s.res.Error)
	b.OptKeyword("failure/type", s.res.FailureType)
	return b.Map()
}
