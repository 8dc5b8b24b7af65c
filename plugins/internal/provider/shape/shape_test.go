package shape

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

func made(t testing.TB, form string) *Shape {
	t.Helper()
	s, err := New("res/sample", edn.MustRead(form), edn.Nil())
	require.NoError(t, err)
	return s
}

func preset(t testing.TB, name string) dialect.Preset {
	t.Helper()
	p, ok := dialect.PresetNamed(name)
	require.True(t, ok)
	return p
}

// LLM-042: a schema of one text is requested as text.
func TestTextKey(t *testing.T) {
	builtin := schema.Builtin()
	for name, want := range map[string]string{
		"res/text": "text", "res/context-summary": "text", "res/explanation": "text",
		"res/problem": "", "res/code": "", "res/eval": "", "res/route": "", "res/chat": "", "res/any": "",
	} {
		s, err := New(name, builtin[name], edn.Nil())
		require.NoError(t, err)
		assert.Equal(t, want, s.TextKey(), name)
	}
	assert.Equal(t, "title", made(t, `[:map [:title :string]]`).TextKey())
	assert.Empty(t, made(t, `[:map [:n :int]]`).TextKey())
	assert.Empty(t, made(t, `[:map [:title {:optional true} :string]]`).TextKey())
}

// LLM-041: lowered schemas, and schemas that fall back to the next form.
func TestLower(t *testing.T) {
	for _, tt := range []struct{ form, want string }{
		{`[:map [:a :int]]`, `{"additionalProperties":false,"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}`},
		{`[:map [:a {:optional true} [:string {:min 1 :max 9}]]]`,
			`{"additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"type":"object"}`},
		{`[:map [:a [:vector [:enum :x :y]]] [:b [:and :string [:re "x"]]]]`, `"items"`},
		{`[:map [:a [:tuple :int :string]]]`, `"items":{"anyOf":[{"type":"integer"},{"type":"string"}]}`},
		{`[:map [:a [:maybe [:or :int :string]]]]`, `"null"`},
		{`[:map [:a [:ref :ferment/text]]]`, `"a":{"type":"string"}`},
		{`[:map [:a :map]]`, ""},                        // an open map
		{`[:map [:a :any]]`, ""},                        // any value
		{`[:map [:a [:map-of :string :int]]]`, ""},      // any keys
		{`[:or [:map [:a :int]] [:map [:b :int]]]`, ""}, // alternatives at the root
		{`[:vector :int]`, ""},
		{`[:map]`, ""},
	} {
		got, ok := Lower(made(t, tt.form).wire)
		assert.Equal(t, tt.want != "", ok, tt.form)
		assert.Contains(t, string(got), tt.want, tt.form)
	}
	deep := ":int"
	for range 12 {
		deep = "[:map [:a " + deep + "]]"
	}
	_, ok := Lower(made(t, deep).wire)
	assert.False(t, ok, "deep")
	_, ok = Lower([]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}}}}}`))
	assert.False(t, ok, "recursion")
	_, ok = Lower([]byte(`7`))
	assert.False(t, ok)
}

// LLM-040: the first available form, or exactly the required one.
func TestAsk(t *testing.T) {
	closed, open := made(t, `[:map [:a :int]]`), made(t, `[:map [:a :map]]`)
	array, number := made(t, `[:vector :int]`), made(t, `[:and :int [:int {:min 1}]]`)
	for _, tt := range []struct {
		shape        *Shape
		mode, preset string
		want         chat.Form
		ok           bool
	}{
		{closed, "auto", "openai", chat.Native, true},
		{closed, "auto", "anthropic", chat.Native, true},
		{closed, "auto", "mlx", chat.Prompt, true},
		{closed, "native", "mlx", "", false},
		{closed, "json", "openai", chat.JSON, true},
		{closed, "json", "anthropic", "", false},
		{closed, "prompt", "openai", chat.Prompt, true},
		{open, "auto", "openai", chat.JSON, true},
		{open, "auto", "anthropic", chat.Prompt, true},
		{open, "native", "openai", "", false},
		{array, "auto", "openai", chat.Prompt, true},
		{array, "json", "openai", "", false},
		{number, "auto", "openai", chat.Prompt, true},
		{number, "auto", "ollama", chat.Prompt, true},
	} {
		out, ok := tt.shape.Ask(tt.mode, preset(t, tt.preset))
		assert.Equal(t, tt.ok, ok, "%s %s", tt.mode, tt.preset)
		if ok {
			assert.Equal(t, tt.want, out.Form, "%s %s", tt.mode, tt.preset)
			assert.Equal(t, "res__sample", out.Name)
		}
	}
	assert.Contains(t, closed.Instruction(), `"integer"`)
}

// LLM-043: the places where values are found; nothing is guessed.
func TestRead(t *testing.T) {
	s := made(t, `[:map [:kind :keyword] [:n {:optional true} :int]]`)
	for _, tt := range []struct{ name, text, want, how string }{
		{"JSON", `{"kind":"a/b","n":1}`, `{:kind :a/b :n 1}`, ""},
		{"JSON with a null for a key that is missing", ` {"kind":"x","n":null} `, `{:kind :x}`, ""},
		{"EDN", `{:kind :x :n 2}`, `{:kind :x :n 2}`, "edn"},
		{"the last fence", "no:\n```json\n{\"kind\":\"a\"}\n```\nyes:\n```\n{\"kind\":\"b\"}\n```\n", `{:kind :b}`, "fenced"},
		{"a fence with EDN", "```edn\n{:kind :x}\n```", `{:kind :x}`, "fenced"},
		{"inside a sentence", `Here [as asked]: {"kind":"}","n":3}. Bye {`, `{:kind "}" :n 3}`, "embedded"},
		{"inside, EDN", `So {:kind :x} it is`, `{:kind :x}`, "embedded"},
		{"the first one inside", `Not {"kind":"a"} but {"kind":"b"}`, `{:kind :a}`, "embedded"},
		{"a fence before what is inside", "Take {\"kind\":\"a\"}:\n```\n{\"kind\":\"b\"}\n```\n", `{:kind :b}`, "fenced"},
		{"quotes of another kind, fenced", "```\n{'kind': 'a'}\n```", "drift", ""},
		{"cut, fenced", "```json\n{\"kind\":\"a\"\n```", "drift", ""},
		{"the JSON form of a large number", `{"kind":"a","n":"1"}`, `{:kind :a :n 1}`, ""},
		{"a text for a number", `{"kind":"a","n":"one"}`, "invalid", ""},
		{"EDN is not coerced", `{:kind "a"}`, "invalid", ""},
		{"prose", `I cannot do that.`, "drift", ""},
		{"cut", `{"kind":"a"`, "drift", ""},
		{"almost JSON", `{'kind': 'a',}`, "drift", ""},
		{"nothing", ``, "drift", ""},
		{"a scalar", `"a"`, "drift", ""},
		{"another value", `{"kind":7}`, "invalid", ""},
		{"another kind", `[1]`, "invalid", ""},
	} {
		v, how, problem := s.Read(tt.text)
		switch {
		case tt.want == "drift":
			require.NotNil(t, problem, tt.name)
			assert.False(t, problem.Parsed, tt.name)
		case tt.want == "invalid" || strings.Contains(tt.want, `"}"`):
			if tt.want == "invalid" {
				require.NotNil(t, problem, tt.name)
				assert.NotEmpty(t, problem.Findings, tt.name)
				continue
			}
			assert.Equal(t, tt.how, how, tt.name)
			n, _ := v.Key("n").AsInt()
			assert.EqualValues(t, 3, n)
		default:
			require.Nil(t, problem, tt.name)
			assert.Equal(t, tt.want, v.String(), tt.name)
			assert.Equal(t, tt.how, how, tt.name)
		}
	}
}

// TXT-001, TXT-002, LLM-043: reasoning is removed before a value is looked for.
func TestReadWithoutReasoning(t *testing.T) {
	s := made(t, `[:map [:kind :keyword] [:note {:optional true} :string]]`)
	const draft, value, fence = `{"kind":"draft"}`, `{"kind":"a"}`, "```"
	for _, tt := range []struct{ name, text, want, how string }{
		{"a draft in reasoning", "<think>\nMaybe " + draft + ", but no.\n</think>\n\n" + value, `{:kind :a}`, ""},
		{"other tags", "<thinking>" + draft + "</thinking>" + value, `{:kind :a}`, ""},
		{"in capitals", "<REASONING>" + draft + "</Reasoning>" + value, `{:kind :a}`, ""},
		{"nested", "<think>a<think>b</think>" + draft + "</think>" + value, `{:kind :a}`, ""},
		{"a closing tag alone", "Maybe " + draft + "\n</think>\n" + value, `{:kind :a}`, ""},
		{"two closing tags", "Maybe " + draft + "\n</think>\n" + draft + "</think>" + value, `{:kind :a}`, ""},
		{"braces in reasoning", "<think>the set {a, b} and {c: [1</think>\n" + value, `{:kind :a}`, ""},
		{
			"a fence in reasoning", "<think>\n" + fence + "json\n" + draft + "\n" + fence + "\nno.\n</think>\n" + value,
			`{:kind :a}`, "",
		},
		{"EDN with a tag in a text", `{:kind :a :note "<think>x</think>y"}`, `{:kind :a :note "<think>x</think>y"}`, "edn"},
		{"EDN behind reasoning", "<think>" + draft + "</think> {:kind :a}", `{:kind :a}`, "edn"},
		{
			"a fence behind reasoning", "<think>" + draft + "</think>\n" + fence + "json\n" + value + "\n" + fence,
			`{:kind :a}`, "fenced",
		},
		{"a sentence behind reasoning", "<think>" + draft + "</think> It is " + value + ".", `{:kind :a}`, "embedded"},
		{"an unclosed fence in reasoning", fence + "json\n" + draft + "\n</think>\n" + value, `{:kind :a}`, "embedded"},
		{
			"a fence that reasoning opens and the answer closes",
			fence + "json\n" + draft + "\n</think>\n" + fence + "json\n" + value + "\n" + fence, `{:kind :a}`, "embedded",
		},
		{"a tag in a string", `{"kind":"a","note":"ends with </think>, begins with <think>"}`,
			`{:kind :a :note "ends with </think>, begins with <think>"}`, ""},
		{"a tag in a string behind reasoning", "<think>" + draft + `</think>{"kind":"a","note":"</think>"}`,
			`{:kind :a :note "</think>"}`, ""},
		{"a tag in a string in a fence", fence + "\n" + `{"kind":"a","note":"</think>"}` + "\n" + fence,
			`{:kind :a :note "</think>"}`, "fenced"},
		{"no value behind reasoning", "<think>" + draft + "</think>\nI cannot say.", "drift", ""},
		{"no value behind a closing tag", draft + "</think>\nI cannot say.", "drift", ""},
		{
			"no value behind an unclosed span", fence + "\n" + draft + "\n" + fence + "\nor `hm</think>\nI cannot say.",
			"drift", "",
		},
		{"reasoning alone", "<think>" + draft + "</think>", "drift", ""},
		{"reasoning that does not end", "<think>\n" + draft, "drift", ""},
		{"another value behind reasoning", "<think>" + draft + `</think>{"kind":7}`, "invalid", ""},
	} {
		v, how, problem := s.Read(tt.text)
		if tt.want == "drift" || tt.want == "invalid" {
			if assert.NotNil(t, problem, "%s: %s", tt.name, v) {
				assert.Equal(t, tt.want == "invalid", problem.Parsed, tt.name)
			}
			continue
		}
		if assert.Nil(t, problem, tt.name) {
			assert.Equal(t, tt.want, v.String(), tt.name)
			assert.Equal(t, tt.how, how, tt.name)
		}
	}
}

// LLM-043: an array is found like an object.
func TestReadArrays(t *testing.T) {
	s := made(t, `[:vector :keyword]`)
	for text, how := range map[string]string{
		`["a","b"]`:                         "",
		`[:a :b]`:                           "edn",
		"```\n[\"a\",\"b\"]\n```":           "fenced",
		`They are ["a","b"] and not ["c"].`: "embedded",
	} {
		v, found, problem := s.Read(text)
		require.Nil(t, problem, text)
		assert.Equal(t, `[:a :b]`, v.String(), text)
		assert.Equal(t, how, found, text)
	}
}

// LLM-043: a scalar is found if the schema allows one, as the whole text or in a fence.
func TestReadScalars(t *testing.T) {
	for _, tt := range []struct{ form, text, want string }{
		{`:int`, `5`, `5`},
		{`:int`, "<think>4</think>\n```json\n5\n```", `5`},
		{`:int`, `It is 5.`, "drift"},
		{`:int`, `five`, "drift"},
		{`:int`, `"five"`, "invalid"},
		{`:int`, `{"n":5}`, "invalid"},
		{`:boolean`, ` true `, `true`},
		{`[:enum :yes :no]`, `"yes"`, `:yes`},
		{`:string`, `"the </think> tag"`, `"the </think> tag"`},
		{`:string`, `plain prose`, "drift"},
		{`[:maybe [:map [:n :int]]]`, `null`, `nil`},
		{`[:or [:vector :int] [:ref :ferment/text]]`, `"a"`, `"a"`},
		{`[:map [:n :int]]`, `5`, "drift"},
	} {
		v, _, problem := made(t, tt.form).Read(tt.text)
		got := v.String()
		if problem != nil {
			got = map[bool]string{true: "invalid", false: "drift"}[problem.Parsed]
		}
		assert.Equal(t, tt.want, got, "%s: %s", tt.form, tt.text)
	}
}

// LLM-041: a value that fits the schema fits the lowered form once missing keys
// are null, and comes back as it was.
func TestLoweringAcceptsWhatTheSchemaAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form, value := drawMap(t, 2)
		compiled := schema.MustCompile(form)
		require.True(t, compiled.Valid(value), "%s %s", form, value)
		text, err := edn.WriteJSON(compiled.JSONSchema())
		require.NoError(t, err)
		lowered, ok := Lower(text)
		require.True(t, ok, form)
		var doc any
		require.NoError(t, json.Unmarshal(lowered, &doc))
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("s.json", doc))
		checker, err := c.Compile("s.json")
		require.NoError(t, err)

		full := withNulls(compiled, value)
		wire, err := edn.WriteJSON(full)
		require.NoError(t, err)
		var instance any
		require.NoError(t, json.Unmarshal(wire, &instance))
		require.NoError(t, checker.Validate(instance), "%s\n%s", lowered, wire)

		s, err := New("res/x", form, edn.Nil())
		require.NoError(t, err)
		back, how, problem := s.Read(string(wire))
		require.Nil(t, problem)
		require.Empty(t, how)
		require.True(t, edn.Equal(value, back), "%s became %s", value, back)
	})
}

// drawMap draws a schema of a map and a value that fits it.
func drawMap(t *rapid.T, depth int) (form, value edn.Value) {
	forms, v := []edn.Value{edn.K("map")}, edn.MapBuilder{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c-d", "e?"}), 1, 3, rapid.ID).Draw(t, "keys") {
		part, inner := drawPart(t, depth)
		entry := []edn.Value{edn.K(name)}
		if rapid.Bool().Draw(t, "optional") {
			entry = append(entry, edn.MustMap(edn.K("optional"), edn.Bool(true)))
			if rapid.Bool().Draw(t, "missing") {
				forms = append(forms, edn.Vector(append(entry, part)...))
				continue
			}
		}
		forms = append(forms, edn.Vector(append(entry, part)...))
		v.Key(name, inner)
	}
	return edn.Vector(forms...), v.Map()
}

func drawPart(t *rapid.T, depth int) (form, value edn.Value) {
	kinds := []string{"int", "string", "keyword", "enum", "boolean"}
	if depth > 0 {
		kinds = append(kinds, "map", "vector")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "int":
		return edn.MustRead(`[:int {:min -9 :max 9}]`), edn.Int(rapid.Int64Range(-9, 9).Draw(t, "int"))
	case "keyword":
		return edn.K("keyword"), edn.K(rapid.SampledFrom([]string{"x", "y/z"}).Draw(t, "keyword"))
	case "enum":
		return edn.MustRead(`[:enum :p :q]`), edn.K(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "member"))
	case "boolean":
		return edn.K("boolean"), edn.Bool(rapid.Bool().Draw(t, "bool"))
	case "map":
		return drawMap(t, depth-1)
	case "vector":
		form, value = drawPart(t, depth-1)
		return edn.Vector(edn.K("vector"), form), edn.Vector(value)
	}
	return edn.MustRead(`[:string {:min 1}]`), edn.Text(rapid.StringN(1, 5, -1).Draw(t, "string"))
}

// withNulls writes null for the keys that a map lacks, as a strict provider
// does.
func withNulls(s *schema.Schema, v edn.Value) edn.Value {
	switch s.Kind() {
	case schema.KindMap:
		for _, e := range s.Entries() {
			part, there := v.Get(e.Key)
			if there {
				part = withNulls(e.Schema, part)
			}
			v = v.Assoc(e.Key, part)
		}
	case schema.KindVector:
		var parts []edn.Value
		for part := range v.Elems() {
			parts = append(parts, withNulls(s.Children()[0], part))
		}
		return edn.Vector(parts...)
	}
	return v
}

// LLM-051: no text makes the reader panic, and what it accepts fits.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, "```\n{}\n```", `x {"a":[1,{"b":"]"}]} y`, `{:a 1}`, `[[[[`, `}{`} {
		f.Add(seed)
	}
	form := edn.MustRead(`[:map [:a :int]]`)
	s, err := New("res/x", form, edn.Nil())
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		if v, _, problem := s.Read(text); problem == nil && !s.Takes(v) {
			t.Fatalf("accepted %s", v)
		}
	})
}

// LLM-043: a program is all of the answer, or the content of the block around it. A part of a program is
// never taken for it.
func TestProgram(t *testing.T) {
	const unclear = "unclear"
	const fence = "```"
	diff := "--- a/README.md\n+++ b/README.md\n@@ -1,5 +1,5 @@\n # T\n " + fence + "sh\n-make\n+make all\n " + fence + "\n end\n"
	docstring := "\"\"\"Use:\n" + fence + "\nexample\n" + fence + "\n\"\"\"\ndef f(): pass\n"
	for _, tt := range []struct{ answer, program, how string }{
		{"package a\n", "package a\n", ""},
		{"", "", ""},
		{"\n    if x:\n        y\n", "    if x:\n        y\n", ""},

		// A block around the program.
		{"Here it is:\n```go\npackage a\n\tx\n```\nDone.", "package a\n\tx\n", "fenced"},
		{"```go\npackage a\n```\n", "package a\n", "fenced"},
		{"```go\npackage a\n```\n\nIt is empty.\n", "package a\n", "fenced"},
		{"```markdown\n# T\n```sh\nls\n```\nend\n```", "# T\n```sh\nls\n```\nend\n", "fenced"},
		{"````\n# T\n```\nls\n```\nend\n````\n", "# T\n```\nls\n```\nend\n", "fenced"},
		{"```diff\n" + diff + "```", diff, "fenced"},
		{"Done:\n```python\n" + strings.ReplaceAll(docstring, fence, "~~~") + "```", strings.ReplaceAll(docstring, fence, "~~~"), "fenced"},

		// A block in the program.
		{docstring, docstring, ""},
		{diff, diff, ""},
		{"def f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n", "def f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n", ""},
		{"s = `\n```\n", "s = `\n```\n", ""},

		// A document, or a program with an explanation.
		{"# Title\n\n```sh\nmake\n```\n\nMore text.\n", unclear, ""},
		{"A tool.\n\nInstall it:\n```sh\nmake\n```\n", unclear, ""},
		{"```\nbanner\n```\n\n# Title\n\nText.\n", unclear, ""},
		{"```\na\n```\nand\n```\nb\n```", unclear, ""},
		{"Here it is:\n\n```go\npackage a\n```\n\nUse it so:\n\n```sh\ngo run .\n```\n", unclear, ""},
		{"Here:\n  ```python\n  a=1\n  ```\n", unclear, ""},
		{"```\ncut", unclear, ""},

		// Reasoning before it, and tags in it.
		{"<think>```\nno\n```</think>\n--- a\n+++ b\n", "--- a\n+++ b\n", ""},
		{"<think>a</think>\n\n<think>b</think>\nx = 1\n", "x = 1\n", ""},
		{"<think>never closed", "", ""},
		{"Let me think.\n```\ndraft\n</think>\n\nx = 1\n", "x = 1\n", ""},
		{"Say so.</think>\n\nx = 1\n", "x = 1\n", ""},
		{"```\ndraft\n```\n</think>\nx = 1\n", "x = 1\n", ""},
		{"So.\n</think>\n</think>\n\n</think>\nx = 1\n", "x = 1\n", ""},
		{"~~~\ndraft\n</think>\n```\nP = ''\n</think>\n''\n```\n", "P = ''\n</think>\n''\n", "fenced"},
		{" \n<think>a</think>x = 1\n", "x = 1\n", ""},
		{"<think>it ends with </think> so\n</think>\n```\nx = 1\n```\n", "x = 1\n", "fenced"},
		{"return s.split(\"</think>\")[-1]\n\nprint(f)\n", "return s.split(\"</think>\")[-1]\n\nprint(f)\n", ""},
		{"TAG = \"<think>\"\nEND = 1\n", "TAG = \"<think>\"\nEND = 1\n", ""},
		{"<think>a</think>TAG = \"<think>\"\n", "TAG = \"<think>\"\n", ""},
		{"P = ''\n<think>\n{}\n</think>\n''\n", "P = ''\n<think>\n{}\n</think>\n''\n", ""},
		{"```\nP = ''\n</think>\n''\n```\n", "P = ''\n</think>\n''\n", "fenced"},
		{"+// strips </think>\n+x()\n", "+// strips </think>\n+x()\n", ""},
	} {
		program, how, clear := Program(tt.answer)
		if !clear {
			program = unclear
		}
		assert.Equal(t, [2]string{tt.program, tt.how}, [2]string{program, how}, tt.answer)
	}
}
