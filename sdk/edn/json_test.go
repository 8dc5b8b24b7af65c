package edn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// VAL-006 and the table of section 1.5: the JSON form of each kind.
func TestJSONOut(t *testing.T) {
	for _, c := range []struct{ edn, json string }{
		{"nil", "null"},
		{"[true false]", "[true,false]"},
		{`"a\"\\\n\u0001\u007fż"`, "\"a\\\"\\\\\\n\\u0001\x7fż\""},
		{"42", "42"},
		{"9007199254740991", "9007199254740991"},
		{"-9007199254740991", "-9007199254740991"},
		{"9007199254740992", `"9007199254740992"`},
		{"-9007199254740992", `"-9007199254740992"`},
		{"123456789012345678901234567890", `"123456789012345678901234567890"`},
		{"1.5", "1.5"},
		{"1e3", "1000.0"},
		{"1e21", "1.0e21"},
		{"1.50M", `"1.5"`},
		{"12e30M", `"12E30"`},
		{`\a`, `"a"`},
		{`\newline`, `"\n"`},
		{"ns/sym", `"ns/sym"`},
		{":ns/kw", `"ns/kw"`},
		{"(1 [2])", "[1,[2]]"},
		{"#{3 10 2}", "[10,2,3]"},
		{`{:a 1 "b c" 2}`, `{"b c":2,"a":1}`},
		{`{1 2 [3] 4 sym 5}`, `{"1":2,"[3]":4,"sym":5}`},
		{`#inst "2026-11-20T10:00:00Z"`, `"2026-11-20T10:00:00.000Z"`},
		{`#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`, `"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"`},
		{`#my/tag [1]`, `{"#tag":"my/tag","#value":[1]}`},
		{"{}", "{}"},
		{"[]", "[]"},
	} {
		b, err := edn.WriteJSON(edn.MustRead(c.edn))
		require.NoError(t, err, c.edn)
		assert.Equal(t, c.json, string(b), c.edn)
		assert.True(t, json.Valid(b), c.edn)
	}
}

// VAL-040: two keys with the same JSON name cannot be written; the error has
// the path.
func TestJSONCollisions(t *testing.T) {
	for text, path := range map[string]string{
		`{:a 1 "a" 2}`:                          "[]",
		`[0 {:x {1 2 "1" 3}}]`:                  "[1 :x]",
		`{:a 1 a 2}`:                            "[]",
		`#{[{"{}" 1 {} 2}]}`:                    `[[{"{}" 1 {} 2}] 0]`,
		`{:k {"#tag" "inst" "#value" "x"}}`:     "[:k]",
		`{"#value" 1 "#tag" 2}`:                 "[]",
		`{:z 1 :y {:b 1 "b" 2} :x {"c" 1 c 2}}`: "[:x]",
	} {
		_, err := edn.WriteJSON(edn.MustRead(text))
		var collision *edn.JSONCollisionError
		require.True(t, errors.As(err, &collision), text)
		assert.Equal(t, path, edn.Vector(collision.Path...).String(), text)
		assert.Contains(t, err.Error(), "write JSON")
	}
	_, err := edn.WriteJSON(edn.MustRead(`{"#tag" 1 "#value" 2 :x 3}`))
	assert.NoError(t, err, "three members are no tagged literal")
}

// Section 1.5, third column: JSON read at a position without a type.
func TestJSONIn(t *testing.T) {
	for _, c := range []struct{ json, edn string }{
		{"null", "nil"},
		{" [true , false] ", "[true false]"},
		{`"a\/\b\f\n\r\t\"\\\u017c\ud83d\ude00"`, `"a/\b\f\n\r\t\"\\ż😀"`},
		{"\"\x7f\"", `"\u007f"`},
		{"42", "42"},
		{"-0", "0"},
		{"123456789012345678901234567890", "123456789012345678901234567890N"},
		{"1.0", "1.0"},
		{"1e2", "100.0"},
		{"-1.5E-7", "-1.5e-7"},
		{"[]", "[]"},
		{"{}", "{}"},
		{`{"a":1,"ns/b":2,"not a name":3,"":4,"1a":5,"/":6,"true":7}`, `{"" 4 "/" 6 "1a" 5 "not a name" 3 :a 1 :ns/b 2 :true 7}`},
		{`{"x) (:admin true":1}`, `{"x) (:admin true" 1}`}, // section 7: no injection
		{`":a"`, `":a"`},
		{`{"#tag":"my/tag","#value":[1]}`, `#my/tag [1]`},
		{`{"#value":"2026-11-20T10:00:00Z","#tag":"inst"}`, `#inst "2026-11-20T10:00:00.000Z"`},
		{`{"#tag":"my/tag","#value":1,"x":2}`, `{"#tag" "my/tag" "#value" 1 :x 2}`},
		{`{"#tag":"my/tag"}`, `{"#tag" "my/tag"}`},
		{"\uFEFF{\"a\":[{\"b\":null}]}", `{:a [{:b nil}]}`},
	} {
		v, err := edn.ReadJSON([]byte(c.json))
		require.NoError(t, err, c.json)
		assert.Equal(t, c.edn, v.String(), c.json)
	}
}

// VAL-040: one document, UTF-8, no duplicates; codes and form of VAL-016.
var refusedJSON = []struct {
	text, code string
	offset     int
}{
	{"", "empty-input", 0},
	{"  ", "empty-input", 2},
	{"1 2", "trailing-form", 2},
	{"{} null", "trailing-form", 3},
	{"1,", "unexpected-character", 1},
	{"1]", "unbalanced", 1},
	{"[1}", "unbalanced", 2},
	{`{"a":1]`, "unbalanced", 6},
	{"[1", "unexpected-end", 2},
	{`{"a":`, "unexpected-end", 5},
	{`"abc`, "unexpected-end", 4},
	{`{"a":1,"a":2}`, "duplicate-key", 7},
	{`{"a":1,"\u0061":2}`, "duplicate-key", 7},
	{`{"#tag":"x","#tag":"y"}`, "duplicate-key", 12},
	{`"\ud800"`, "invalid-escape", 1},
	{`"\ude00\ud83d"`, "invalid-escape", 1},
	{`"\x"`, "invalid-escape", 1},
	{`"\'"`, "invalid-escape", 1},
	{"\"a\n\"", "invalid-string", 2},
	{"\"a\x00\"", "invalid-string", 2},
	{"1e400", "number-range", 0},
	{"01", "invalid-number", 0},
	{"+1", "unexpected-character", 0},
	{"1.", "invalid-number", 0},
	{".5", "unexpected-character", 0},
	{"1N", "invalid-number", 0},
	{"1M", "invalid-number", 0},
	{"-", "invalid-number", 0},
	{"1a", "invalid-number", 0},
	{"NaN", "unexpected-character", 0},
	{"Infinity", "unexpected-character", 0},
	{"tru", "unexpected-character", 0},
	{"nullx", "unexpected-character", 0},
	{"[1,]", "unexpected-character", 3},
	{"[,1]", "unexpected-character", 1},
	{"[1 2]", "unexpected-character", 3},
	{`{"a" 1}`, "unexpected-character", 5},
	{`{"a":1,}`, "unexpected-character", 7},
	{`{a:1}`, "unexpected-character", 1},
	{`{1:1}`, "unexpected-character", 1},
	{"'a'", "unexpected-character", 0},
	{"[1] // c", "unexpected-character", 4},
	{"\xff", "invalid-utf8", 0},
	{"\"a\xff\"", "invalid-utf8", 2},
	{"\x00", "unexpected-character", 0},
	{`{"#tag":"ferment/x","#value":1}`, "reserved-tag", 0},
	{`[{"#tag":"not a name","#value":1}]`, "invalid-tag", 1},
	{`{"#tag":5,"#value":1}`, "invalid-tag", 0},
	{`{"#tag":"inst","#value":"x"}`, "invalid-inst", 0},
	{strings.Repeat("1", 1001), "limit-digits", 1000},
	{strings.Repeat("[", 129), "limit-depth", 128},
}

func TestJSONRefuses(t *testing.T) {
	for _, c := range refusedJSON {
		_, err := edn.ReadJSON([]byte(c.text))
		syntax := asSyntaxError(t, err, c.text)
		assert.Equal(t, c.code, syntax.Code, "%s: %v", c.text, err)
		assert.Equal(t, c.offset, syntax.Pos.Offset, "%s: %v", c.text, err)
	}
	_, err := edn.ReadJSON([]byte("{\"a\": {\"b\": [1, 2,\n 01]}}"), edn.WithSource("body"))
	syntax := asSyntaxError(t, err, "")
	assert.Equal(t, "body:2:2: invalid number 01 in [:a :b 2]", syntax.Error())
	assert.Equal(t, "   2 |  01]}}\n     |  ^", syntax.Excerpt())
	for text, says := range map[string]bool{`{:a 1}`: true, `{"a" 1}`: false, `[:a]`: true} {
		_, err = edn.ReadJSON([]byte(text))
		assert.Equal(t, says, strings.Contains(asSyntaxError(t, err, text).Hint, "is EDN"), "%s: %v", text, err)
	}
	_, err = edn.ReadJSON([]byte(`{"a":1,"b":{"c":1,"c":2}}`))
	syntax = asSyntaxError(t, err, "")
	assert.Equal(t, 13, syntax.First.Column)
	assert.Equal(t, "[:b]", edn.Vector(syntax.Path...).String())
}

// VAL-015 applies to JSON: the limits are those of the reader.
func TestJSONLimits(t *testing.T) {
	lim := edn.WithLimits(edn.Limits{Bytes: 40, Depth: 3, Nodes: 6, String: 10})
	for text, code := range map[string]string{
		"[1,2,3,4,5]":                 "",
		"[1,2,3,4,5,6]":               "limit-nodes",
		`{"a":1,"b":2,"c":3}`:         "limit-nodes",
		"[[[]]]":                      "",
		"[[[[]]]]":                    "limit-depth",
		`"0123456789"`:                "",
		`"01234567890"`:               "limit-string",
		`"\n123456789\n"`:             "limit-string",
		strings.Repeat(" ", 40) + "1": "limit-bytes",
	} {
		_, err := edn.ReadJSON([]byte(text), lim)
		if code == "" {
			assert.NoError(t, err, text)
			continue
		}
		assert.Equal(t, code, asSyntaxError(t, err, text).Code, text)
	}
}

// VAL-006: reading, writing and reading JSON again is stable, and encoding/json
// reads the written text as the same data.
func TestJSONAgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genValue(4).Draw(t, "v")
		b, err := edn.WriteJSON(v)
		if err != nil {
			var collision *edn.JSONCollisionError
			require.True(t, errors.As(err, &collision))
			return
		}
		require.True(t, json.Valid(b), "%s", b)
		back, err := edn.ReadJSON(b)
		if err != nil {
			// A map with the two names of a tagged literal is only an accident;
			// a tag of the value is valid.
			t.Fatalf("%s: %v", b, err)
		}
		again, err := edn.WriteJSON(back)
		require.NoError(t, err, "%s", b)
		var want, got any
		require.NoError(t, json.Unmarshal(b, &want))
		require.NoError(t, json.Unmarshal(again, &got))
		require.Equal(t, want, got)
	})
}
