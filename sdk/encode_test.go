package sdk_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// link is a type of values that can contain themselves.
type link struct {
	Next  *link   `edn:"next,omitempty"`
	Links []*link `edn:"links,omitempty"`
}

// SDK-002: a Go value that contains itself, in whatever way, or that is deeper than a payload
// may be, is an error with a path.
func TestEncodeValueThatContainsItself(t *testing.T) {
	inMap := map[string]any{}
	inMap["m"] = inMap
	inSlice := []any{1, nil}
	inSlice[1] = inSlice
	twice := map[string]any{}
	twice["a"], twice["b"] = twice, []any{twice, twice}
	typed := map[string][]map[string]any{}
	typed["t"] = []map[string]any{{"again": typed}}
	next := &link{}
	next.Next = next
	all := &link{}
	all.Links = []*link{all, all, all}
	for name, tt := range map[string]struct {
		value any
		first string // of the path
	}{
		"map":              {inMap, ":m"},
		"slice":            {inSlice, "1"},
		"several times":    {twice, ""},
		"typed map":        {typed, `"t"`},
		"below":            {map[string]any{"x": inMap}, ":x"},
		"pointer":          {next, ":next"},
		"slice of pointer": {map[string]any{"p": all}, ":p"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sdk.Encode(tt.value)
			var e *edn.EncodeError
			require.True(t, errors.As(err, &e), "%v", err)
			require.Len(t, e.Problems, 1)
			require.Greater(t, len(e.Problems[0].Path), 100)
			if tt.first != "" {
				assert.Equal(t, tt.first, e.Problems[0].Path[0].String())
			}
		})
	}
}

// SDK-002: nesting is bounded by that of a payload, and the path of a problem begins at the
// encoded value.
func TestEncodeDepth(t *testing.T) {
	nest := func(n int, v any) any {
		for range n {
			v = []any{v}
		}
		return v
	}
	most := edn.Wire.Depth
	v, err := sdk.Encode(nest(most, 1))
	require.NoError(t, err)
	assert.Equal(t, most, v.Depth())
	deep, err := edn.Encode(nest(most, 1))
	require.NoError(t, err)
	for name, value := range map[string]any{
		"slices": nest(most+1, 1), "a value": []any{deep}, "a typed part": nest(most, []int{1}),
	} {
		_, err := sdk.Encode(value)
		assert.True(t, errors.As(err, new(*edn.EncodeError)), "%s: %v", name, err)
	}
	_, err = sdk.Encode(map[string]any{"a": []any{map[string]int{}, map[string]any{"b": func() {}}}})
	var e *edn.EncodeError
	require.True(t, errors.As(err, &e), "%v", err)
	assert.Equal(t, "[:a 1 :b]", edn.Vector(e.Problems[0].Path...).String())
}

// SDK-002: an answer that contains itself ends its call with a typed error, and the plugin
// goes on.
func TestAnswerThatContainsItself(t *testing.T) {
	out := map[string]any{}
	out["m"] = out
	p := sdktest.Serve(t, always(out))
	for range 2 {
		_, err := p.Invoke("t/answer", question{})
		assert.True(t, errors.Is(err, contract.OfType("runtime/invoke-failed")), "%v", err)
	}
}
