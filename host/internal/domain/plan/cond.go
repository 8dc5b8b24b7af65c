package plan

type condKind uint8

const (
	condConst condKind = iota
	condTruthy
	condFailed
	condPresent
	condSlot
	condNot
	condAnd
	condOr
	// condInvalid is a condition with an error; its value and its slots are unknown.
	condInvalid
)

// Cond is a compiled `:when`. The nil Cond is true.
type Cond struct {
	kind  condKind
	value bool
	// slot is the frame slot of a truthy, failed or present condition.
	slot int
	ref  *slotRef
	kids []Cond
}

// Eval evaluates the condition in a frame. It never fails: an unfilled slot is
// false, unless its reference has a :slot/default, which is then tested (IR-002,
// SLOT-010).
func (c *Cond) Eval(f *Frame) bool {
	if c == nil {
		return true
	}
	switch c.kind {
	case condConst:
		return c.value
	case condTruthy:
		return truthy(f.slots[c.slot])
	case condFailed:
		return f.slots[c.slot].Failed()
	case condPresent:
		return f.slots[c.slot].Filled()
	case condSlot:
		v, ok := c.ref.find(f.slots[c.ref.slot], viewInside)
		if !ok {
			v = c.ref.fallback
		}
		return v.Truthy()
	case condNot:
		return !c.kids[0].Eval(f)
	case condAnd:
		for i := range c.kids {
			if !c.kids[i].Eval(f) {
				return false
			}
		}
		return true
	default:
		for i := range c.kids {
			if c.kids[i].Eval(f) {
				return true
			}
		}
		return false
	}
}

// truthy reports whether a slot is true; results are maps and therefore true.
func truthy(s Slot) bool {
	if s.res != nil {
		return true
	}
	return s.value.Truthy()
}

// invalid reports whether the condition has an error.
func (c *Cond) invalid() bool { return c != nil && c.kind == condInvalid }

// constant returns the value of a condition that does not depend on slots; ok is false for
// any other condition.
func (c *Cond) constant() (value, ok bool) {
	if c == nil {
		return true, true
	}
	switch c.kind {
	case condConst:
		return c.value, true
	case condNot:
		v, ok := c.kids[0].constant()
		return !v, ok
	case condAnd, condOr:
		all := true
		for i := range c.kids {
			v, known := c.kids[i].constant()
			if known && v == (c.kind == condOr) {
				return v, true
			}
			all = all && known
		}
		return c.kind == condAnd, all
	}
	return false, false
}
