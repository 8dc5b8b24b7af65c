package contract

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

var kCapRef = edn.K("cap/ref")

// DescribeIntent is the intent with which a plugin requests the descriptions of
// what it can call. The host itself answers it. The input {:refs [..]} has handles
// and intents; the output {:callables [..]} has maps with :index, the position of
// the reference in :refs, :intent, :cap/kind, :description, :in-schema, :out-schema
// and :effects.
const DescribeIntent = "capability/describe"

// Handle returns the value that represents a handle of a capability (ENV-012).
// capID has no colon; an invalid name gives nil.
func Handle(capID string) edn.Value {
	id, err := edn.Keyword(capID)
	if err != nil {
		return edn.Nil()
	}
	return edn.MustMap(kCapRef, id)
}

// HandleOf reads a handle: a map with the single key :cap/ref. A map with more
// keys is data (ENV-018).
func HandleOf(v edn.Value) (capID string, ok bool) {
	if v.Kind() != edn.KindMap || v.Len() != 1 {
		return "", false
	}
	return v.Key("cap/ref").AsKeyword()
}

// Handles returns the capabilities of all handles in a value, at any depth,
// sorted and without duplicates. Its cost is linear in the size of the value.
func Handles(v edn.Value) []string {
	var out []string
	collectHandles(v, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

// collectHandles recurses without a limit of its own; the reader of the value
// limits its depth (VAL-021).
func collectHandles(v edn.Value, out *[]string) {
	if id, ok := HandleOf(v); ok {
		*out = append(*out, id)
		return
	}
	switch v.Kind() {
	case edn.KindMap:
		for k, x := range v.Entries() {
			collectHandles(k, out)
			collectHandles(x, out)
		}
	case edn.KindVector, edn.KindList, edn.KindSet:
		for x := range v.Elems() {
			collectHandles(x, out)
		}
	case edn.KindTagged:
		_, x, _ := v.AsTagged()
		collectHandles(x, out)
	}
}
