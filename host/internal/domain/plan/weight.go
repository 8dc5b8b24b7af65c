package plan

import "github.com/fermenthq/ferment/sdk/edn"

// Bounds of a filled value (SLOT-009), equal to the reader's limits on the
// wire. Filled values are shared, so a few slots that hold each other twice
// could otherwise represent more data than can be serialised.
const (
	maxFilledDepth  = 128
	maxFilledWeight = 16 << 20
	// nodeWeight is the weight of a value apart from its text. At the limit of
	// nodes it adds up to the limit of bytes.
	nodeWeight = 16
)

// weigh returns the approximate number of bytes of a value's text. It stops
// above limit, so its cost is bounded for any value.
func weigh(v edn.Value, limit int) int {
	s := scale{left: limit}
	s.put(v)
	return limit - s.left
}

type scale struct{ left int }

// put subtracts the weight of a value from the remaining weight. It returns false, and
// stops, once nothing remains.
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
