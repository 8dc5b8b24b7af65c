package shape

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// nested are documents that contain complete objects or arrays before their own
// end.
func nested() []string {
	docs := []string{
		`{"kind":"a","inner":{"kind":"b"}}`,
		`{"inner":{"kind":"b"},"kind":"a"}`,
		`{"a":{"b":{"c":{"kind":"x"}}},"d":{"kind":"y"}}`,
		`[{"kind":"a"},{"kind":"b"}]`,
		`[[1,2],[3,4]]`,
		`[[],{}]`,
		`[1,{"kind":"a"},2]`,
		`[-1,[0]]`,
		`[true,{"kind":"a"}]`,
		`[null,[1]]`,
		`["{",{"kind":"a"}]`,
		`{"text":"a } b { c","inner":{"kind":"a"}}`,
		`{"text":"] [ } {","list":[{"kind":"a"}]}`,
		`{"text":"a \" } \" b","inner":{"kind":"a"}}`,
		`{"text":"{\"kind\":\"x\"}","inner":{"kind":"a"}}`,
		`{"{\"kind\":1}":{"kind":"a"}}`,
		`{"text":"\\","inner":{"kind":"a"}}`,
		`{"text":"(see [1)","inner":{"kind":"a"}}`,
		`{"text":"żółć 𝄞","inner":{"kind":"a"}}`,
		`{ "a" : { "kind" : "b" } , "c" : [ { "kind" : "d" } ] }`,
		"{\n  \"a\": {\n    \"kind\": \"b\"\n  },\n  \"c\": [\n    {}\n  ]\n}",
		"[\n  {\n    \"kind\": \"b\"\n  }\n]",
		`{"a":[[[{"kind":"b"}]]],"c":{}}`,
		`{"a":1.5e3,"b":{"kind":"c"},"d":false}`,
		`{"code":"func f() { return }","inner":{"kind":"a"}}`,
		`{"code":"` + "```" + `go { } ` + "```" + `","inner":{"kind":"a"}}`,
		`{"tool":{"id":"x","args":{"path":"a"}},"more":[{"id":"y"}]}`,
		`{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}`,
		`{"findings":[{"path":["a",0],"message":"b"},{"path":[],"message":"c"}],"score":0.5}`,
		`{"":{"kind":"a"},"b":{"":[]}}`,
	}
	return docs
}

// LLM-043: a text that is cut in its outermost object or array has no answer,
// whatever complete ones it contains.
func TestCutTextsHaveNoAnswer(t *testing.T) {
	require.Len(t, nested(), 30)
	for _, doc := range nested() {
		want, err := edn.ReadJSON([]byte(doc))
		require.NoError(t, err)
		for name, text := range map[string]string{
			"alone":                   doc,
			"between blanks":          "\n " + doc + " \n",
			"fenced":                  "```json\n" + doc + "\n```\n",
			"after prose":             "Here is the answer, as asked: " + doc + " Anything else?",
			"after prose, fenced":     "Sure (see below).\n\n```\n" + doc + "\n```\nDone.",
			"after brackets in prose": "I read {file} for x in [0, 1) and [see notes]: " + doc,
			"after an open brace":     "A block begins with { and the answer is " + doc,
		} {
			for n := range len(text) + 1 {
				f, ok := find(text[:n], false)
				whole := strings.Contains(text[:n], doc)
				if ok && !edn.Equal(f.value, want) {
					t.Fatalf("%s, %d bytes: got %s from %q", name, n, f.value, text[:n])
				}
				if ok != whole {
					t.Fatalf("%s, %d bytes: found is %t for %q", name, n, ok, text[:n])
				}
			}
		}
	}
}

// LLM-043: the same for EDN, and for texts that are malformed before their end.
func TestBrokenTextsHaveNoAnswer(t *testing.T) {
	for _, text := range []string{
		`{:a {:kind :b}`,
		`{:a [{:kind :b}]`,
		`{ :a {:kind :b} `,
		`[:a {:kind :b}`,
		`[1 {:kind :b}`,
		`[{:kind :b}`,
		"```edn\n{:a {:kind :b}\n```",
		`{"a":{"kind":"b"},"c":[}`,
		`{"a":{"kind":"b"},"c":1]`,
		`{"a":{"kind":"b"},"c":tru}`,
		`{"a":{"kind":"b"}, // a note` + "\n}",
		`{'a': {"kind":"b"}}`,
		`[{"kind":"b"},]}`,
		`[{"kind":"b"} {"kind":"c"}}`,
		"Here:\n```json\n{\"a\":{\"kind\":\"b\"}\n```\nDone.",
	} {
		_, ok := find(text, true)
		assert.False(t, ok, text)
	}
	for text, want := range map[string]string{
		`{see} {"kind":"a"}`:                     `{:kind "a"}`,
		`{broken: 1} then {"kind":"a"}`:          `{:kind "a"}`,
		`{"broken": yes} then {"kind":"a"}`:      `{:kind "a"}`,
		`{the answer is {"kind":"a"}}`:           `{:kind "a"}`,
		`For x in [0, 1) it is {"kind":"a"}`:     `{:kind "a"}`,
		`It is {"kind":"a"} and {"kind":{"b":1`:  `{:kind "a"}`,
		fmt.Sprintf("%s {\"kind\":\"a\"}", "[x"): `{:kind "a"}`,
	} {
		f, ok := find(text, true)
		require.True(t, ok, text)
		assert.Equal(t, want, f.value.String(), text)
	}
}
