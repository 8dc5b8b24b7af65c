package schema

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-051: validation of any value with any schema ends, and its functions
// agree. Seeds are the rows of the tables.
func FuzzSchema(f *testing.F) {
	for _, row := range builtinTable {
		form := Builtin()[row.name].String()
		f.Add([]byte(form), []byte(row.accepts))
		f.Add([]byte(form), []byte(row.refuses))
	}
	for _, seed := range [][2]string{
		{"[:map {:closed true} [:a {:secret true :unit :path} [:int {:min 1}]]]", `{:a "1" :b 2}`},
		{"[:map-of [:int {:min 0}] [:set [:enum :a \"a\" 1.5M]]]", `{1 #{:a} "2" ["a" 1.5]}`},
		{"[:or [:tuple :char :inst] [:not [:re \"(a|b)*c\"]] [:ref :req/chat]]", `["a" "2026-11-20T10:00:00Z"]`},
		{"[:strin]", "1"},
		{"[:int {:min 1e400}]", "1"},
		{"[:and [:sequential {:max 3} :any] :vector]", "[nil ({} #{}) #foo 1]"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	limits := edn.WithLimits(edn.Config)
	f.Fuzz(func(t *testing.T, form, text []byte) {
		spec, err := edn.Read(form, limits)
		if err != nil {
			return
		}
		s, err := Compile(spec)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		checkSpec(t, s)
		v, err := edn.Read(text, limits)
		if err != nil {
			return
		}
		require.Equal(t, s.Valid(v), len(s.Validate(v)) == 0)
		require.Equal(t, s.Valid(v), MustCompile(s.normal()).Valid(v), "the normal form means the same")
		Findings(s.Validate(v)).Canonical()
		c := s.CoerceJSON(v)
		require.False(t, s.Valid(v) && !s.Valid(c), "coercion spoils %s to %s under %s", v, c, s)
		s.Replace(v, Secret, func([]edn.Value, edn.Value) edn.Value { return edn.Nil() })
	})
}

// checkSpec checks properties of every schema.
func checkSpec(t *testing.T, s *Schema) {
	require.Equal(t, Yes, Satisfies(s, s))
	require.True(t, equalSchemas(s, MustCompile(s.normal())))
	text, err := edn.WriteJSON(s.JSONSchema())
	require.NoError(t, err)
	v, err := edn.ReadJSON(text, edn.WithLimits(edn.Wire))
	require.NoError(t, err)
	spec, _, err := FromJSONSchema(v)
	if err != nil || bytes.Contains(text, []byte(extKey)) {
		return // keys that are equal in JSON
	}
	back, err := Compile(spec)
	require.NoError(t, err)
	require.True(t, equalSchemas(s, back), "%s came back as %s through %s", s, back, text)
}

// FuzzFromJSONSchema: a foreign JSON Schema is converted or rejected.
func FuzzFromJSONSchema(f *testing.F) {
	for _, seed := range []string{
		`{}`, `true`, `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a","b"],"additionalProperties":false}`,
		`{"anyOf":[{"const":1},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"array","prefixItems":[{}],"items":false,"minItems":1}}}`,
		`{"type":"string","pattern":"(","minLength":1}`, `{"oneOf":[]}`, `{"type":"array","uniqueItems":true,"items":{"not":{}}}`, `{"enum":["a",1],"type":"string"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := edn.ReadJSON(text, edn.WithLimits(edn.Config))
		if err != nil {
			return
		}
		spec, defs, err := FromJSONSchema(v)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		if s, err := Compile(spec); err == nil {
			s.Valid(v)
		}
		_, _ = NewRegistry(defs)
	})
}
