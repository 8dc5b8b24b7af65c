package journal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// spoils are v with a wrong value in one place, at any depth.
func spoils(v edn.Value) []edn.Value {
	var out []edn.Value
	for _, text := range []string{"1.5", "-7", `"text"`, ":k", "nil", "true", "{}", "[]", "#{}", "[[]]", "{:k 1}", `#inst "2026-01-01T00:00:00Z"`} {
		if other := edn.MustRead(text); !other.Equal(v) {
			out = append(out, other)
		}
	}
	switch v.Kind() {
	case edn.KindMap:
		out = append(out, v.Assoc(edn.Int(9), edn.Int(9)), v.AssocKey("surplus", edn.Int(9)))
		for key, val := range v.Entries() {
			out = append(out, v.Dissoc(key))
			for _, spoilt := range spoils(val) {
				out = append(out, v.Assoc(key, spoilt))
			}
		}
	case edn.KindVector, edn.KindSet:
		var all []edn.Value
		for e := range v.Elems() {
			all = append(all, e)
		}
		for i, e := range all {
			for _, spoilt := range spoils(e) {
				changed := append(append(append([]edn.Value{}, all[:i]...), spoilt), all[i+1:]...)
				if v.Kind() == edn.KindSet {
					out = append(out, edn.SetOf(changed...))
				} else {
					out = append(out, edn.Vector(changed...))
				}
			}
		}
	}
	return out
}

// JRN-009: a record with all keys of its kind is read as it was written. With any part
// missing, unknown or of another type it is damaged, or read as it then is.
func TestDecodeOfWholeRecords(t *testing.T) {
	damaged := contract.OfType("journal/damaged")
	for _, w := range wholes() {
		kind := w.body.Kind()
		s, _ := journal.Schema(kind)
		whole := record(w.body).Value()
		if settled, ok := w.body.(*journal.BudgetSettled); ok {
			require.Equal(t, 3, settled.Of.Seq())
		}
		var d journal.Decoder
		back, err := d.Decode(edn.MustRead(whole.String()))
		require.NoError(t, err, kind)
		require.Equal(t, whole.String(), back.Value().String())
		for _, spoilt := range spoils(whole) {
			var d journal.Decoder
			back, err := d.Decode(spoilt)
			if err == nil {
				assert.Equal(t, spoilt.String(), back.Value().String())
			} else {
				assert.ErrorIs(t, err, damaged)
			}
			if len(s.Validate(spoilt)) > 0 {
				assert.Error(t, err, "%s: %s", kind, s.Validate(spoilt)[0].Value())
			}
		}
	}
}
