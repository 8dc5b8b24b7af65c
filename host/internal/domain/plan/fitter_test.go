package plan

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// WIRE-003: a deep template of a plan answer and nested alternatives of a schema multiply the pairs
// of both; the fitter examines a limited number, and none after its context ended.
func TestFitterIsBounded(t *testing.T) {
	r, err := schema.NewRegistry(map[string]edn.Value{"a": edn.MustRead(`[:or
	  [:map [:a [:ref :a]] [:b {:optional true} :int]] [:map [:a [:ref :a]] [:c {:optional true} :int]]
	  [:map [:a [:ref :a]] [:d {:optional true} :int]]]`)})
	require.NoError(t, err)
	s, _ := r.Lookup("a")
	deep := part{kind: partSlot}
	for range maxSchemaDepth / 2 {
		deep = part{kind: partInner, value: edn.MustMap(edn.K("a"), edn.Nil()), kids: []part{deep}, at: []int32{0}}
	}
	never := func(int, *schema.Schema) bool { return false }
	f := fitter{slot: never}
	assert.True(t, f.mayFit(s, &deep, 0), "what is not examined may fit")
	assert.LessOrEqual(t, f.steps, maxFitSteps+maxSchemaDepth)

	shallow := part{kind: partInner, value: deep.value, kids: []part{{kind: partSlot}}, at: []int32{0}}
	assert.False(t, (&fitter{slot: never}).mayFit(s, &shallow, 0))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.True(t, (&fitter{slot: never, ctx: ended}).mayFit(s, &shallow, 0))
}
