package plan

import (
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// TextMask holds for each slot of a template whether the schema requires text
// in its place (SLOT-008). Nil means none.
type TextMask []bool

// Fill fills a template from a frame. An unfilled slot without default is a *contract.Error
// of type slot/unresolved whose cause is the failure in the slot, if any; the remaining
// slots are not filled then. A value beyond the limits of the reader is plan/too-deep or
// plan/too-large. coerced lists the places where the result of a call or tool was replaced
// by its text, as path vectors inside the template; it is usually nil. A nil template gives
// nil.
//
// Filling takes time linear in the parts that hold slots; filled values are
// shared, not copied.
func (t *Template) Fill(f *Frame, text TextMask) (v edn.Value, coerced []edn.Value, err *contract.Error) {
	if t == nil {
		return edn.Nil(), nil, nil
	}
	if t.root == nil {
		return t.source, nil, nil
	}
	fl := filler{t: t, f: f, text: text}
	if t.emit {
		fl.as = viewEmit
	}
	if v = fl.fill(); fl.err != nil {
		return edn.Nil(), nil, fl.err
	}
	return v, fl.coerced, nil
}

// filler is the state of one Fill; it lives on the stack.
type filler struct {
	t       *Template
	f       *Frame
	text    TextMask
	as      view
	weight  int
	coerced []edn.Value
	err     *contract.Error
}

// fill fills the whole template. The weight is an upper bound that counts a
// whole slot for each path into it; only if the bound exceeds the limit is the
// value itself weighed.
func (fl *filler) fill() edn.Value {
	v := fl.part(fl.t.root)
	if fl.err != nil {
		return v
	}
	if fl.weight += fl.t.weight; fl.weight > maxFilledWeight {
		if fl.weight = weigh(v, maxFilledWeight); fl.weight > maxFilledWeight {
			fl.err = contract.Errorf("plan/too-large", "the filled value is larger than %d bytes", maxFilledWeight)
		}
	}
	return v
}

func (fl *filler) part(p *part) edn.Value {
	switch p.kind {
	case partSlot:
		return fl.slot(p.slot)
	case partInner:
		return fl.inner(p)
	}
	return p.value
}

func (fl *filler) inner(p *part) edn.Value {
	return p.replace(func(kid *part) edn.Value {
		if fl.err != nil {
			return kid.value
		}
		return fl.part(kid)
	})
}

// replace copies one collection with the parts that hold slots replaced. Keys and
// order do not change, so no lookup or sorting is needed.
func (p *part) replace(with func(*part) edn.Value) edn.Value {
	i, next := int32(0), 0
	return p.value.MapValues(func(v edn.Value) edn.Value {
		if next < len(p.at) && p.at[next] == i {
			v = with(&p.kids[next])
			next++
		}
		i++
		return v
	})
}

func (fl *filler) slot(i int) edn.Value {
	r := &fl.t.slots[i]
	s := fl.f.slots[r.slot]
	if fl.text != nil && fl.text[i] && (s.kind == SlotCall || s.kind == SlotTool) {
		if _, text, ok := quality.Text(s.res.Out); ok {
			fl.weight += len(text)
			fl.coerced = append(fl.coerced, edn.Vector(r.where...))
			return edn.Text(text)
		}
	} else if v, ok := r.find(s, fl.as); ok {
		if v.Depth()+len(r.where) > maxFilledDepth {
			fl.err = contract.Errorf("plan/too-deep", "slot %s at %s nests deeper than %d levels", r.path(), showPath(r.where),
				maxFilledDepth)
			return edn.Nil()
		}
		fl.weight += s.weight
		return v
	}
	if r.hasDefault {
		return r.fallback
	}
	fl.err = r.unresolved(s)
	return edn.Nil()
}

// unresolved returns the run-time error of a slot without value.
func (r *slotRef) unresolved(s Slot) *contract.Error {
	e := contract.Errorf("slot/unresolved", "slot %s has no value at %s", r.path(), showPath(r.where)).
		WithDetail("slot", edn.K(r.name)).
		WithDetail("path", edn.Vector(r.where...))
	if cause := s.Failure(); cause != nil {
		e = e.WithCause(cause)
	}
	return e
}

// path formats the slot and its path for messages.
func (r *slotRef) path() string {
	if len(r.steps) == 0 {
		return ":" + r.name
	}
	vs := make([]edn.Value, 1, len(r.steps)+1)
	vs[0] = edn.K(r.name)
	for i := range r.steps {
		vs = append(vs, r.steps[i].key)
	}
	return edn.Vector(vs...).String()
}

// FillLet returns the slot that a let writes. The errors are those of Template.Fill.
func (n *Node) FillLet(f *Frame) (Slot, *contract.Error) {
	t := n.Value
	if t.Constant() {
		return weighed(t.Source(), t.constantWeight()), nil
	}
	fl := filler{t: t, f: f}
	v := fl.fill()
	if fl.err != nil {
		return Slot{}, fl.err
	}
	s := weighed(v, fl.weight)
	if !t.holdsWhole(f) {
		return s, nil
	}
	out := filler{t: t, f: f, as: viewShown}
	if shown := out.part(t.root); out.err == nil {
		s.shown = &shown
	}
	return s, nil
}

// weighed is ValueSlot for a value of known weight.
func weighed(v edn.Value, weight int) Slot {
	if v.IsNil() {
		return Slot{}
	}
	return Slot{kind: SlotValue, value: v, weight: weight}
}

func (t *Template) constantWeight() int {
	if t == nil {
		return 0
	}
	return t.weight
}

// holdsWhole reports whether the template contains a whole slot whose exposed
// value differs from its inner value.
func (t *Template) holdsWhole(f *Frame) bool {
	for i := range t.slots {
		s := &f.slots[t.slots[i].slot]
		if s.shown != nil || s.res != nil && len(t.slots[i].steps) == 0 {
			return true
		}
	}
	return false
}
