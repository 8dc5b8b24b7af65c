package schema

import (
	"context"
	"io"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of the work of one validation, coercion or explanation. A step applies
// one schema to one value; what takes longer costs more steps. Only nested
// alternatives that try the same deep value repeatedly need more steps than
// these.
const (
	maxSteps     = 20_000_000
	stepsPerUnit = 256
	freeUnits    = 256 // for values of any size
	bytesPerUnit = 8
	// checkEvery is the number of steps between two looks at the context.
	checkEvery = 1 << 12
	// explainCost is the price of one step of an explanation.
	explainCost = 16
)

// meter counts down the steps of one validation. The size of the value is
// measured only when the steps that any value may take are used up.
type meter struct {
	ctx      context.Context // nil: cannot be interrupted
	left     int             // below 0: used up
	root     edn.Value
	measured bool
	limit    int // steps in total
}

func newMeter(ctx context.Context, root edn.Value) meter {
	const free = freeUnits*stepsPerUnit - 1 // a small validation does not look at the context
	return meter{ctx: ctx, root: root, left: free, limit: free}
}

// spend takes n steps and reports whether the validation may continue.
func (m *meter) spend(n int) bool {
	before := m.left
	if m.left -= n; m.left >= 0 && m.left/checkEvery == before/checkEvery {
		return true
	}
	return before >= 0 && m.more()
}

// more looks at the context and adds the steps for the size of the value.
func (m *meter) more() bool {
	if m.ctx != nil && m.ctx.Err() != nil {
		m.left = -1
		return false
	}
	if m.left < 0 && !m.measured {
		m.measured = true
		added := min(sizeOf(m.root, maxSteps/stepsPerUnit)*stepsPerUnit, maxSteps-m.limit)
		m.left += added
		m.limit += added
	}
	if m.left < 0 {
		m.left = -1
	}
	return m.left >= 0
}

// sizeOf returns the size of a value: its nodes and the length of its texts, at
// least most if it is larger than that.
func sizeOf(v edn.Value, most int) int {
	n := 1
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		n += len(text) / bytesPerUnit
	case edn.KindTagged:
		_, inner, _ := v.AsTagged()
		n += sizeOf(inner, most-n)
	case edn.KindMap:
		for key, val := range v.Entries() {
			if n >= most {
				break
			}
			n += sizeOf(key, most-n)
			n += sizeOf(val, most-n)
		}
	case edn.KindVector, edn.KindList, edn.KindSet:
		for e := range v.Elems() {
			if n >= most {
				break
			}
			n += sizeOf(e, most-n)
		}
	}
	return n
}

// runesPerCharge is the number of code points that a match reads between two
// charges.
const runesPerCharge = 64

// match tests the pattern and charges the instructions that the match may take
// for each code point.
func (s *Schema) match(text string, m *meter) bool {
	const atOnce = checkEvery / 4
	price := 8 + s.instructions
	if cost := price * len(text) / runesPerCharge; cost <= atOnce {
		return m.spend(cost) && s.pattern.MatchString(text)
	}
	// The reader has a copy, so that the meter of other validations stays on the
	// stack.
	t := &meteredText{text: text, price: price, meter: *m}
	found := s.pattern.MatchReader(t)
	*m = t.meter
	return found && m.left >= 0
}

// meteredText is a text that ends early when the meter is used up.
type meteredText struct {
	meter
	text  string
	price int
	read  int
}

// ReadRune implements io.RuneReader.
func (t *meteredText) ReadRune() (r rune, size int, err error) {
	if t.read++; t.text == "" || t.read%runesPerCharge == 0 && !t.spend(t.price) {
		return 0, 0, io.EOF
	}
	r, size = utf8.DecodeRuneInString(t.text)
	t.text = t.text[size:]
	return r, size, nil
}
