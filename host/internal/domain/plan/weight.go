package plan

import "github.com/fermenthq/ferment/sdk/edn"

// Bounds of a filled value (SLOT-009): what the reader would accept on the wire.
// Values are shared when they are filled in, so a few slots that hold each other
// twice would otherwise stand for more than any machine can write down.
const (
	maxFilledDepth  = 128
	maxFilledWeight = 16 << 20
	// nodeWeight is what one value weighs apart from its text; at the limit
	// of nodes it comes to the limit of bytes.
	nodeWeight = 16
)

// weigh returns about how many bytes the text of a value has; it stops behind
// limit, so its cost is bounded for any value.
func weigh(v edn.Value, limit int) int {
	s := scale{left: limit}
	s.put(v)
	return limit - s.left
}

type scale struct{ left int }

// put takes the weight of a value off what is left; false ends the weighing.
func (s *scale) put(v edn.Value) bool {
	s.left -= nodeWeight
	switch v.Kind() {
	case edn.KindString:
		text, _ := v.AsString()
		s.left -= len(text)
	case edn.KindVector, edn.KindList, edn.KindSet:
		for e := range v.Elems() {
			if !s.put(e) {
				return false
			}
		}
	case edn.KindMap:
		for key, val := range v.Entries() {
			if !s.put(key) || !s.put(val) {
				return false
			}
		}
	case edn.KindTagged:
		_, inner, _ := v.AsTagged()
		return s.put(inner)
	}
	return s.left >= 0
}
