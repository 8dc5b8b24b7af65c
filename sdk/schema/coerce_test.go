package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-006, contracts.md 1.5: the column "JSON in, typed by a schema". Values
// that cannot be converted stay unchanged for Validate to report.
func TestCoerceJSON(t *testing.T) {
	for _, c := range []struct{ schema, json, want string }{
		{":any", `{"a":["b",1,1.5,null],"c d":true}`, `{:a ["b" 1 1.5 nil] "c d" true}`},
		{":keyword", `"ns/name"`, ":ns/name"},
		{":keyword", `":ns/name"`, ":ns/name"},
		{":keyword", `"::a"`, `"::a"`},
		{":keyword", `"a b"`, `"a b"`},
		{":keyword", `""`, `""`},
		{":symbol", `"ns/name"`, "ns/name"},
		{":symbol", `"nil"`, `"nil"`},
		{":char", `"ż"`, `\ż`},
		{":char", `"ab"`, `"ab"`},
		{":char", `""`, `""`},
		{":int", `"99999999999999999999"`, "99999999999999999999N"},
		{":int", `"-7"`, "-7"},
		{":int", `"007"`, `"007"`},
		{":int", `"+7"`, `"+7"`},
		{":int", `"-"`, `"-"`},
		{":int", `"7N"`, `"7N"`},
		{":int", `1.0`, `1.0`},
		{":double", `1`, `1.0`},
		{":double", `"1"`, `"1"`},
		{":number", `"0.8"`, `"0.8"`},
		{":decimal", `"1.50"`, "1.5M"},
		{":decimal", `"1.50M"`, "1.5M"},
		{":decimal", `1.25`, "1.25M"},
		{":decimal", `3`, "3M"},
		{":decimal", `"x"`, `"x"`},
		{":inst", `"2026-11-20T10:00:00+01:00"`, `#inst "2026-11-20T09:00:00.000Z"`},
		{":inst", `"yesterday"`, `"yesterday"`},
		{":inst", `"\" #inst"`, `"\" #inst"`},
		{":uuid", `"F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"`, `#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`},
		{"[:enum :a \"b\" 1.5M]", `["a"]`, `["a"]`},
		{"[:vector [:enum :a \"b\" 1.5M]]", `["a","b",":a","1.5","c"]`, `[:a "b" :a 1.5M "c"]`},
		{"[:vector [:enum :a \"a\"]]", `["a"]`, `["a"]`},
		{"[:set :keyword]", `["a","b"]`, `#{:a :b}`},
		{"[:set :keyword]", `["a",":a"]`, `["a" ":a"]`},
		{"[:list :keyword]", `["a"]`, `(:a)`},
		{"[:sequential :keyword]", `["a"]`, `[:a]`},
		{"[:tuple :keyword :any]", `["a","b","c"]`, `[:a "b" "c"]`},
		{"[:maybe :keyword]", `null`, `nil`},
		{"[:maybe :keyword]", `"a"`, `:a`},
		{"[:map [:a :keyword] [\"b\" :keyword]]", `{"a":"x","b":"y","c":"z"}`, `{:a :x "b" :y :c "z"}`},
		{"[:map [1 :keyword]]", `{"1":"x"}`, `{1 :x}`},
		{"[:map-of :string :int]", `{"a":"1","b c":2}`, `{"a" 1 "b c" 2}`},
		{"[:map-of :keyword :any]", `{"a":1,":b":2,"c d":3}`, `{:a 1 :b 2 "c d" 3}`},
		{"[:map-of :keyword :any]", `{"a":1,":a":2}`, `{:a 1 ":a" 2}`},
		{"[:map-of :int :any]", `{"1":"x","-2":"y","z":1}`, `{1 "x" -2 "y" :z 1}`},
		{"[:map-of [:tuple :int :keyword] :any]", `{"[1 :a]":true}`, `{[1 :a] true}`},
		{"[:map-of :any :keyword]", `{"a":"b"}`, `{:a :b}`},
		{"[:or :keyword :string]", `"a b"`, `"a b"`},
		{"[:or :keyword :string]", `"a"`, `:a`},
		{"[:or :string :keyword]", `"a"`, `"a"`},
		{"[:or [:map [:kind [:enum :x]]] [:map [:kind [:enum :y]] [:to :keyword]]]", `{"kind":"y","to":"z"}`, `{:kind :y :to :z}`},
		{"[:or [:map [:kind [:enum :x]]] [:map [:kind [:enum :y]] [:to :int]]]", `{"kind":"y","to":"z"}`, `{:kind :y :to "z"}`},
		{"[:and [:map [:a :keyword]] [:map [:b :symbol]]]", `{"a":"x","b":"y"}`, `{:a :x :b y}`},
		{"[:not :keyword]", `"a"`, `"a"`},
		{"[:ref :req/chat]", `{"messages":[{"role":"user"}]}`, `{:messages [{:role :user}]}`},
		{"[:map [:a :keyword]]", `["a"]`, `["a"]`},
		{"[:vector :keyword]", `{"a":1}`, `{:a 1}`},
	} {
		v, err := edn.ReadJSON([]byte(c.json))
		require.NoError(t, err)
		assert.Equal(t, read(t, c.want).String(), compiled(t, c.schema).CoerceJSON(v).String(), "%s under %s", c.json, c.schema)
	}
}

// VAL-042: the finding names the duplicate that prevents an array from becoming
// a set.
func TestDuplicateMembersAreNamed(t *testing.T) {
	s := compiled(t, "[:set :keyword]")
	v := s.CoerceJSON(read(t, `["a" "b" ":a"]`))
	assert.Equal(t, []string{"[] should be a set; members 0 and 2 are equal"}, texts(s.Validate(v)))
}

// SCH-012: foreign schemas that have a counterpart, and those that have none.
func TestFromForeignJSONSchema(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`true`, ":any"},
		{`{}`, ":any"},
		{`{"type":"object","properties":{"path":{"type":"string","description":"where"},"n":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}`,
			`[:map {:closed true} [:n {:optional true} [:int {:min 1}]] [:path [:string {:description "where"}]]]`},
		{`{"type":["string","null"]}`, "[:maybe :string]"},
		{`{"type":["string","integer"]}`, "[:or :string :int]"},
		{`{"enum":["a",1],"type":"string"}`, `[:enum "a"]`},
		{`{"const":{"a":1}}`, `[:enum {} {:a 1}]`},
		{`{"type":"array","items":{"type":"boolean"},"uniqueItems":true}`, "[:set :boolean]"},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":false,"minItems":1}`, "[:tuple :string]"},
		{`{"type":"object","additionalProperties":{"type":"number"}}`, "[:map-of :any :number]"},
		{`{"type":"string","pattern":"^a","minLength":2}`, `[:and [:string {:min 2}] [:re "^a"]]`},
		{`{"type":"object","required":["x y"]}`, `[:map ["x y" :any]]`},
		{`{"allOf":[{"type":"string"}],"not":{"const":"a"}}`, `[:and [:and :string] [:not [:enum "a"]]]`},
		{`{"$ref":"#/definitions/a~1b"}`, "[:ref :a/b]"},
	} {
		v, err := edn.ReadJSON([]byte(c.json))
		require.NoError(t, err)
		spec, _, err := FromJSONSchema(v)
		require.NoError(t, err, c.json)
		if spec.String() == "[:ref :a/b]" {
			assert.Equal(t, c.want, spec.String())
			continue
		}
		s, err := Compile(spec)
		require.NoError(t, err, "%s", spec)
		assert.Equal(t, compiled(t, c.want).normal().String(), s.normal().String(), c.json)
	}
	for _, c := range []struct{ json, want string }{
		{`1`, "an object or a boolean"},
		{`{"oneOf":[{}]}`, `"oneOf" is not supported at [:oneOf]`},
		{`{"type":"object","properties":{"a":{"multipleOf":2}}}`, `at [:properties :a :multipleOf]`},
		{`{"type":"strin"}`, "unknown JSON type"},
		{`{"type":1}`, "type should be"},
		{`{"$ref":"http://example.com/x"}`, "not a reference to a definition"},
		{`{"anyOf":[]}`, "non-empty array"},
		{`{"type":"array","prefixItems":[{}]}`, "prefixItems is supported with"},
		{`{"enum":[1],"type":"string"}`, "no member that fits"},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"string"}}`, "not supported"},
		{`{"$defs":{"a b":{}}}`, "must be a keyword name"},
		{`{"x-ferment-enum":["("]}`, "not EDN"},
	} {
		v, err := edn.ReadJSON([]byte(c.json))
		require.NoError(t, err)
		_, _, err = FromJSONSchema(v)
		require.Error(t, err, c.json)
		assert.Contains(t, err.Error(), c.want)
	}
}
