package schema

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SCH-009, CNV-013: the standalone form has the targets of references in their place,
// compiles alone, and keeps the order of keys. What is within itself is :any there.
func TestStandalone(t *testing.T) {
	all := Builtin()
	for name, form := range map[string]string{
		"t/tree":  "[:map [:name [:ref :ferment/text]] [:kids {:optional true} [:vector [:ref :t/tree]]]]",
		"t/alias": "[:ref :t/pair]",
		"t/pair":  "[:tuple [:ref :ferment/text] [:ref :ferment/text]]",
		"t/keys":  "[:map {:closed true} [:z :int] [:a {:optional true :doc \"x\"} [:int {:min 1}]]]",
	} {
		all[name] = edn.MustRead(form)
	}
	r, err := NewRegistry(all)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"t/tree":  `[:map [:name [:re "\\S"]] [:kids {:optional true} [:vector :any]]]`,
		"t/alias": `[:tuple [:re "\\S"] [:re "\\S"]]`,
		"t/keys":  `[:map {:closed true} [:z :int] [:a {:doc "x" :optional true} [:int {:min 1}]]]`,
	} {
		s, _ := r.Lookup(name)
		assert.Equal(t, want, s.Standalone().String(), name)
	}
	for _, name := range r.Names() {
		s, _ := r.Lookup(name)
		alone, err := Compile(s.Standalone())
		require.NoError(t, err, name)
		for _, v := range []string{`{}`, `{:text "x"}`, `{:messages [{:role :user :content "x"}]}`, `{:fen "x"}`, `{:score 1}`, `{:cap/id :a/b}`, `nil`, `[" " "x"]`} {
			assert.Equal(t, s.Valid(edn.MustRead(v)), alone.Valid(edn.MustRead(v)), "%s of %s", v, name)
		}
	}
}

// Targets that double with each reference are cut at the largest size of a schema.
func TestStandaloneIsBounded(t *testing.T) {
	all := map[string]edn.Value{"t/n0": edn.MustRead(":int")}
	for i := range 9 {
		ref := edn.Vector(edn.K("ref"), edn.K(fmt.Sprint("t/n", i)))
		all[fmt.Sprint("t/n", i+1)] = edn.Vector(edn.K("tuple"), ref, ref, ref, ref)
	}
	r, err := NewRegistry(all)
	require.NoError(t, err)
	s, _ := r.Lookup("t/n9")
	_, err = Compile(s.Standalone())
	require.NoError(t, err)
}
