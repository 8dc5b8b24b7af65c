package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SCH-002, SCH-009, SCH-010: messages of findings, all of them, in order of
// path.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name, schema, value string
		want                []string
	}{
		{"the example of SCH-010", "[:map [:pv [:vector :string]]]", "{:pv [7]}", []string{`[:pv 0] should be a string`}},
		{"every finding", "[:map {:closed true} [:b :int] [:a :keyword] [:c [:tuple :int :int]]]", `{:b "1" :c [1 :x 3] :z 1}`,
			[]string{`[:a] required key is missing`, `[:b] should be an integer`, `[:c] should have exactly 2 elements`, `[:c 1] should be an integer`, `[:z] unknown key; did you mean :a?`}},
		{"indices by number", "[:vector :int]", "[1 1 :c 1 1 1 1 1 1 1 :k]", []string{"[2] should be an integer", "[10] should be an integer"}},
		{"misspelled key", "[:map [:prompt :string]]", `{:promt "a"}`, []string{"[:prompt] required key is missing; is :promt meant?"}},
		{"misspelled key of a closed map", "[:map {:closed true} [:prompt :string] [:n :int]]", `{:promt "a"}`,
			[]string{"[:n] required key is missing", "[:promt] unknown key; did you mean :prompt?"}},
		{"string key", "[:map [:prompt :string]]", `{"prompt" "a"}`, []string{`[:prompt] required key is missing; the key is the string "prompt", not a keyword`}},
		{"unknown key", "[:map {:closed true} [:constraints {:optional true} :map]]", "{:constraint {}}", []string{"[:constraint] unknown key; did you mean :constraints?"}},
		{"VAL-042: a string for a keyword", ":keyword", `"en"`, []string{"[] should be a keyword; write :en"}},
		{"a string for a member", "[:enum :queued :running]", `":queued"`, []string{"[] should be one of :queued, :running; write :queued"}},
		{"no keyword in it", ":keyword", `"e n"`, []string{"[] should be a keyword"}},
		{"range", "[:vector [:int {:min 1 :max 64}]]", "[0 65]", []string{"[0] should be at least 1", "[1] should be at most 64"}},
		{"length", "[:vector [:string {:min 2 :max 3}]]", `["" "abcd"]`, []string{"[0] should have at least 2 characters", "[1] should have at most 3 characters"}},
		{"size", "[:tuple [:vector {:min 1} :any] [:set {:max 1} :any] [:map-of {:min 2} :any :any]]", "[[] #{1 2} {1 1}]",
			[]string{"[0] should have at least 1 element", "[1] should have at most 1 member", "[2] should have at least 2 keys"}},
		{"map-of", "[:map-of :keyword :int]", `{"a" 1 :b :c}`, []string{`["a"] key should be a keyword; write :a`, "[:b] should be an integer"}},
		{"members of a set", "[:set :int]", "#{1 :x}", []string{"[:x] should be an integer"}},
		{"not", "[:not [:enum :a]]", ":a", []string{"[] should not be :a"}},
		{"and collects", `[:and [:re "a"] [:string {:min 3}]]`, `"b"`, []string{`[] should be a string that matches "a"`, "[] should have at least 3 characters"}},
		{"maybe", "[:maybe :int]", ":a", []string{"[] should be an integer"}},
		{"SCH-009: the branch that got furthest", "[:or [:map [:prompt [:ref :ferment/text]]] [:map [:text [:ref :ferment/text]]] [:map [:content [:ref :ferment/text]]]]", `{:text " "}`,
			[]string{"[:text] should be text that is not blank, or fit one of 2 other alternatives"}},
		{"the branch with the right tag", "[:or [:map [:s [:enum :queued]]] [:map [:s [:enum :running]] [:at :inst]] [:map [:s [:enum :done]] [:end :inst]]]", "{:s :running}",
			[]string{"[:at] required key is missing"}},
		{"a tag of no branch", "[:or [:map [:s [:enum :queued]]] [:map [:s [:enum :running]] [:at :inst]]]", "{:s :stopped}",
			[]string{"[:s] should be one of :queued, :running"}},
		{"one other", "[:or :int :string]", ":a", []string{"[] should be an integer, or fit 1 other alternative"}},
		{"of the right type", "[:or :decimal [:int {:min 0}]]", "-1", []string{"[] should be at least 0, or fit 1 other alternative"}},
		{"long enumeration", "[:enum 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22]", "0",
			[]string{"[] should be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 2 more"}},
	} {
		assert.Equal(t, c.want, texts(compiled(t, c.schema).Validate(read(t, c.value))), c.name)
	}
}

func TestFindingAsData(t *testing.T) {
	list := compiled(t, "[:map [:pv [:vector :string]] [:n [:int {:min 1}]]]").Validate(read(t, "{:pv [7] :n 0}"))
	assert.Equal(t, `[{:expected [:int {:min 1}] :got 0 :message "should be at least 1" :path [:n]} {:expected :string :got 7 :message "should be a string" :path [:pv 0]}]`,
		Findings(list).String())
	assert.Equal(t, "[:pv 0]: should be a string, got 7", list[1].String())
	missing := compiled(t, "[:map [:a [:vector :int]]]").Validate(read(t, "{}"))
	assert.Equal(t, `{:expected :vector :got nil :message "required key is missing" :path [:a]}`, missing[0].Value().String())
}

// SCH-010: 100 findings, then a count.
func TestFindingsAreCounted(t *testing.T) {
	s := compiled(t, "[:vector :int]")
	list := s.Validate(read(t, "["+strings.Repeat(":a ", 137)+"]"))
	require.Len(t, list, 101)
	assert.Equal(t, "[99]", edn.Vector(list[99].Path...).String())
	assert.Equal(t, 37, list[100].Omitted)
	assert.Equal(t, `{:expected nil :got nil :message "and 37 more findings" :omitted 37 :path []}`, list[100].Value().String())

	list = s.Validate(read(t, "["+strings.Repeat(":a ", 100)+"]"))
	require.Len(t, list, 100)
	assert.Zero(t, list[99].Omitted, "none is left out")
	list = s.Validate(read(t, "["+strings.Repeat(":a ", 101)+"]"))
	require.Len(t, list, 101)
	assert.Equal(t, 1, list[100].Omitted)

	list = s.Validate(read(t, "["+strings.Repeat(":a ", 50_000)+"]"))
	require.Len(t, list, 101)
	assert.Equal(t, 50_000-100, list[100].Omitted)
}

// SCH-010: a value is cut at 200 code points, without writing all of it.
func TestGotIsCut(t *testing.T) {
	long := strings.Repeat("ż", 300)
	for _, v := range []edn.Value{edn.Text(long), edn.Vector(edn.Text(long)), edn.Vector(edn.Text(strings.Repeat("x", 1<<20)), edn.Int(1))} {
		got := compiled(t, ":int").Validate(v)[0].Got
		text, ok := got.AsString()
		require.True(t, ok)
		assert.Equal(t, 201, len([]rune(text)))
		assert.True(t, strings.HasSuffix(text, "…"))
	}
	short := read(t, `{:a [1 (2) #{3}] :b #foo "x"}`)
	assert.True(t, edn.Equal(short, compiled(t, ":int").Validate(short)[0].Got), "a short value is kept as it is")
	exact := edn.Text(strings.Repeat("ż", 200))
	assert.True(t, edn.Equal(exact, compiled(t, ":int").Validate(exact)[0].Got))
}

// SCH-008, SCH-010: findings contain nothing of a secret, at any position of
// the mark.
func TestSecretsAreMasked(t *testing.T) {
	for _, c := range []struct{ schema, value string }{
		{"[:map [:key {:secret true} :int]]", `{:key "canary"}`},
		{"[:map [:key [:int {:secret true}]]]", `{:key "canary"}`},
		{"[:map [:key {:secret true} [:map [:a :int]]]]", `{:key {:a "canary"}}`},
		{"[:map [:key {:secret true} [:map {:closed true}]]]", `{:key {:a "canary"}}`},
		{"[:map [:key {:secret true} [:set :int]]]", `{:key #{"canary"}}`},
		{"[:map [:key {:secret true} [:map-of :int :int]]]", `{:key {"canary" "canary"}}`},
		{"[:map [:keys [:set [:int {:secret true}]]]]", `{:keys #{"canary"}}`},
		{"[:map [:keys [:map-of [:int {:secret true}] :any]]]", `{:keys {"canary" 1}}`},
		{"[:map [:key {:secret true} :string]]", `"canary"`},
		{"[:map [:key {:secret true} :string]]", `[{:key "canary"}]`},
		{"[:map {:closed true} [:api-key {:secret true} :string]]", `{:api-key "x" :api-ky "canary"}`},
		{"[:map [:key {:secret true} :keyword]]", `{:key "canary"}`},
		{"[:map [:key {:secret true} [:enum :canary]]]", `{:key "canary"}`},
		{"[:or [:map [:key {:secret true} :int]] [:map [:other :int]]]", `{:key "canary"}`},
		{"[:not [:map [:key {:secret true} :string]]]", `{:key "canary"}`},
	} {
		list := compiled(t, c.schema).Validate(read(t, c.value))
		require.NotEmpty(t, list, c.schema)
		text := Findings(list).String()
		if !strings.Contains(c.schema, ":enum") { // the schema itself is not secret
			assert.NotContains(t, text, "canary", c.schema)
		} else {
			assert.NotContains(t, text, `"canary"`, c.schema)
		}
	}
	open := compiled(t, "[:map [:key {:secret true} :string] [:n :int]]").Validate(read(t, `{:key "canary" :n "seen"}`))
	assert.Contains(t, Findings(open).String(), "seen", "a neighbour of a secret is shown")
}

func TestNearest(t *testing.T) {
	known := []string{"constraints", "context", "input", "ab", "ac"}
	for name, want := range map[string]string{
		"constraint": "constraints", "contxet": "context", "inptu": "input", "completely-different": "", "ad": "ab",
		"": "ab", "CONTEXT": "", strings.Repeat("x", 1000): "",
	} {
		assert.Equal(t, want, Nearest(name, known), name)
	}
}

// ERR-004: what is expected of a missing key are its alternatives, not the word or.
func TestExpectedAlternatives(t *testing.T) {
	s, err := Compile(edn.MustRead("[:map [:key [:or :keyword :string]]]"))
	require.NoError(t, err)
	found := s.Validate(edn.MustRead("{}"))
	require.Len(t, found, 1)
	assert.Equal(t, "[:or :keyword :string]", found[0].Expected.String())
}
