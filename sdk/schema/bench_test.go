package schema

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// request returns a value of about 1 KiB and its schema with 20 fields
// (SCH-003).
func request(t testing.TB) (*Schema, edn.Value) {
	t.Helper()
	var form, val strings.Builder
	form.WriteString("[:map {:closed true}")
	val.WriteString("{")
	for i, field := range []struct{ schema, value string }{
		{":string", `"r-4a2b"`}, {":keyword", ":code/patch"}, {"[:ref :ferment/text]", `"` + strings.Repeat("Fix the nil pointer in foo. ", 12) + `"`},
		{"[:int {:min 0 :max 100}]", "17"}, {"[:number {:min 0 :max 1}]", "0.8"}, {"[:enum :system :user :assistant]", ":user"},
		{"[:set :keyword]", "#{:schema-valid :patch-applies :tests-pass}"}, {"[:vector :string]", `["e2e4" "e7e5" "g1f3" "b8c6"]`},
		{"[:maybe :inst]", `#inst "2026-11-20T10:00:00Z"`}, {":boolean", "true"}, {"[:string {:max 2000}]", `"` + strings.Repeat("x", 200) + `"`},
		{"[:or :string [:map [:text :string]]]", `{:text "short context"}`}, {":decimal", "0.05M"}, {"[:map-of :keyword :int]", "{:max-tokens 1200 :max-roundtrips 3}"},
		{"[:sequential [:map [:role :keyword] [:content :string]]]", `[{:role :user :content "hello"} {:role :assistant :content "` + strings.Repeat("y", 100) + `"}]`},
		{":uuid", `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`}, {"[:tuple :int :int]", "[1 2]"}, {"[:re \"^[a-z]+$\"]", `"clojure"`}, {":double", "1.5"}, {":any", "nil"},
	} {
		fmt.Fprintf(&form, " [:field-%02d %s]", i, field.schema)
		fmt.Fprintf(&val, " :field-%02d %s", i, field.value)
	}
	s, v := compiled(t, form.String()+"]"), read(t, val.String()+"}")
	require.Len(t, s.Entries(), 20)
	require.InDelta(t, 1024, len(v.Canonical()), 200)
	require.Empty(t, texts(s.Validate(v)))
	return s, v
}

// SCH-003: a successful validation does not allocate.
func TestSuccessAllocatesNothing(t *testing.T) {
	s, v := request(t)
	assert.Zero(t, testing.AllocsPerRun(200, func() { s.Valid(v) }))
	assert.Zero(t, testing.AllocsPerRun(200, func() { _ = s.Validate(v) }))
	r, err := NewRegistry(Builtin())
	require.NoError(t, err)
	for _, row := range builtinTable {
		s, _ := r.Lookup(row.name)
		for v := range read(t, row.accepts).Elems() {
			if strings.Contains(v.String(), "0.25M") || strings.Contains(v.String(), "9999999") {
				continue // compared with limits of another number kind
			}
			assert.Zero(t, testing.AllocsPerRun(20, func() { s.Valid(v) }), "%s: %s", row.name, v)
		}
	}
}

// BenchmarkValidate measures SCH-003 (at most 2 us) and, in the same run, a
// JSON Schema validator on the same document and the export.
func BenchmarkValidate(b *testing.B) {
	s, v := request(b)
	text, err := edn.WriteJSON(v)
	require.NoError(b, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(b, err)
	other := independent(b, s)
	require.NoError(b, other.Validate(doc))
	b.Run("schema", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Valid(v)
		}
	})
	b.Run("jsonschema", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = other.Validate(doc)
		}
	})
}

func BenchmarkExplain(b *testing.B) {
	s, v := request(b)
	v = v.AssocKey("field-03", edn.Int(101))
	require.Len(b, s.Validate(v), 1)
	for b.Loop() {
		_ = s.Validate(v)
	}
}

func BenchmarkCoerceJSON(b *testing.B) {
	s, v := request(b)
	text, err := edn.WriteJSON(v)
	require.NoError(b, err)
	doc, err := edn.ReadJSON(text)
	require.NoError(b, err)
	require.True(b, edn.Equal(v, s.CoerceJSON(doc)))
	for b.Loop() {
		_ = s.CoerceJSON(doc)
	}
}
