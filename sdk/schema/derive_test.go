package schema

import (
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

type base struct {
	ID     string
	Shared int
}

type node struct {
	Name string
	Kids []node `edn:"kids,omitempty"`
	Next *node
}

type everything struct {
	base
	Prompt    string `edn:"prompt"`
	MaxTokens int    `edn:",omitempty"`
	HTTPPort  uint16
	Ratio     float64
	Exact     *big.Int
	At        time.Time
	Tags      []string            `edn:"tags,set"`
	Flags     map[string]bool     `edn:"flags"`
	Lookup    map[string]int      `edn:"lookup"`
	OnOff     map[string]bool     `edn:"on-off,map"`
	Seen      map[string]struct{} `edn:"seen"`
	Raw       edn.Value
	Any       any
	Blob      []byte
	Key       [16]byte
	Pair      [2]int
	Letter    rune           `edn:"letter,rune"`
	Number    rune           `edn:"ns/number"`
	Quoted    int            `edn:"quoted,str"`
	Tree      node           `edn:"tree"`
	Shared    string         `edn:"shared"`
	Rest      map[string]any `edn:",rest"`
	Skipped   chan int       `edn:"-"`
	hidden    int
}

// SCH-005: the derived schema has the keys that Encode writes and accepts every
// encoded value.
func TestFor(t *testing.T) {
	form := For[everything]()
	s, err := Compile(form)
	require.NoError(t, err)
	assert.Equal(t, `[:map [:prompt :string] [:max-tokens {:optional true} :int] [:http-port [:int {:max 65535 :min 0}]] [:ratio :number] [:exact {:optional true} [:maybe :int]] [:at :inst] `+
		`[:tags [:maybe [:set :string]]] [:flags [:maybe [:set :string]]] [:lookup [:maybe [:map-of [:or :string :keyword] :int]]] [:on-off [:maybe [:map-of [:or :string :keyword] :boolean]]] [:seen [:maybe [:set :string]]] `+
		`[:raw :any] [:any :any] [:blob [:maybe :string]] [:key :uuid] [:pair [:sequential {:max 2 :min 2} :int]] [:letter :char] [:ns/number [:int {:max 2147483647 :min -2147483648}]] ["quoted" :int] `+
		`[:tree [:map [:name :string] [:kids {:optional true} [:maybe [:sequential :any]]] [:next {:optional true} [:maybe :any]]]] [:shared :string]]`,
		withoutEntry(form, "id"))

	for _, x := range []everything{
		{At: time.Unix(0, 0), hidden: 1},
		{
			base: base{ID: "1", Shared: 2}, Prompt: "p", MaxTokens: 1, Exact: big.NewInt(3), At: time.Unix(1, 0), Tags: []string{"a"},
			Flags: map[string]bool{"x": true}, Lookup: map[string]int{"a": 1}, OnOff: map[string]bool{"a": false}, Seen: map[string]struct{}{"a": {}},
			Raw: edn.K("a"), Any: []int{1}, Blob: []byte("b"), Letter: 'x', Tree: node{Kids: []node{{Name: "k"}}, Next: &node{}}, Rest: map[string]any{"more": 1},
		},
	} {
		v, err := edn.Encode(x)
		require.NoError(t, err)
		assert.Empty(t, texts(s.Validate(v)), v.String())
		for i := range s.Entries() {
			e := &s.Entries()[i]
			assert.True(t, e.Optional || v.Has(e.Key), "%s is required but not written", e.Key)
		}
		var back everything
		require.NoError(t, edn.Decode(v, &back))
		for key := range v.Entries() {
			_, known := s.Entry(key)
			assert.True(t, known || key.String() == `"more"`, "%s is written but not in the schema", key)
		}
	}
}

// withoutEntry removes the entry of an embedded field, whose position is not
// guaranteed.
func withoutEntry(form edn.Value, name string) string {
	var parts []edn.Value
	for part := range form.Elems() {
		if key, ok := part.Nth(0); ok && key.IsKeyword() && key.Name() == name {
			continue
		}
		parts = append(parts, part)
	}
	return edn.Vector(parts...).String()
}

func TestForScalars(t *testing.T) {
	for form, want := range map[string]edn.Value{
		":string":                            For[string](),
		"[:maybe :int]":                      For[*int64](),
		"[:int {:max 127 :min -128}]":        For[int8](),
		"[:int {:min 0}]":                    For[uint64](),
		":number":                            For[float32](),
		":any":                               For[any](),
		":inst":                              For[time.Time](),
		"[:maybe [:sequential :boolean]]":    For[[]bool](),
		"[:maybe [:map-of :int :string]]":    For[map[int]string](),
		"[:map]":                             For[struct{}](),
		"[:sequential {:max 3 :min 3} :int]": For[[3]int](),
	} {
		assert.Equal(t, form, want.String())
		_, err := Compile(want)
		assert.NoError(t, err)
	}
}

type clashA struct{ Name string }
type clashB struct {
	Name string `edn:"name"`
}
type clashed struct {
	clashA
	clashB
}
type lost struct {
	clashA
	Other struct{ clashA }
}

func TestForFollowsTheRulesOfEmbedding(t *testing.T) {
	assert.Equal(t, "[:map [:name :string]]", For[clashed]().String(), "the tagged one wins")
	assert.Equal(t, "[:map [:name :string] [:other [:map [:name :string]]]]", For[lost]().String())
}
