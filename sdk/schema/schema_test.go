package schema

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

func read(t testing.TB, text string) edn.Value {
	t.Helper()
	v, err := edn.ReadString(text)
	require.NoError(t, err, "%s", text)
	return v
}

func compiled(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile(read(t, text))
	require.NoError(t, err, "%s", text)
	return s
}

// texts returns the findings as "path message".
func texts(list []Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, edn.Vector(f.Path...).String()+" "+f.Message)
	}
	return out
}

// SCH-001, SCH-007: every type word with accepted and rejected values.
func TestKinds(t *testing.T) {
	for _, c := range []struct{ schema, accepts, refuses string }{
		{":any", `[nil true 1 1.0 1M "s" \c :k sym (1) [1] {1 2} #{1} #foo 1]`, `[]`},
		{":nil", "[nil]", `[false 0 "" [] {}]`},
		{":boolean", "[true false]", `[nil 0 1 "true" :true]`},
		{":int", "[0 -7 99999999999999999999]", `[1.0 1M "1" nil]`},
		{":double", "[0.0 -1.5e3]", `[1 1M "1.0"]`},
		{":decimal", "[1M 1.50M -0.1M]", `[1 1.0 "1"]`},
		{":number", "[1 1.0 1M 99999999999999999999]", `["1" nil \1]`},
		{":string", `["" "a"]`, `[\a :a a nil]`},
		{":char", `[\a \newline]`, `["a" 97]`},
		{":keyword", "[:a :a/b]", `["a" a nil]`},
		{":symbol", "[a a/b]", `[:a "a"]`},
		{":inst", `[#inst "2026-11-20T10:00:00Z"]`, `["2026-11-20T10:00:00Z" 0]`},
		{":uuid", `[#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]`, `["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]`},
		{":map", "[{} {:a 1} {1 2}]", "[[] nil #{}]"},
		{"[:map]", "[{} {:a 1}]", "[[]]"},
		{"[:map [:a :int]]", `[{:a 1} {:a 1 :b 2}]`, `[{} {:b 1} {:a "1"} {"a" 1} {:a nil}]`},
		{"[:map [:a {:optional true} :int]]", `[{} {:a 1} {:b "x"}]`, `[{:a "1"} {:a nil}]`},
		{"[:map {:closed true} [:a :int] [:b {:optional true} :int]]", `[{:a 1} {:a 1 :b 2}]`, `[{:a 1 :c 2} {:b 1} {:a 1 :b 2 :c 3}]`},
		{`[:map ["a" :int] [1 :int]]`, `[{"a" 1 1 1}]`, `[{:a 1 1 1} {"a" 1}]`},
		{"[:map {:min 1 :max 2}]", "[{1 1} {1 1 2 2}]", "[{} {1 1 2 2 3 3}]"},
		{"[:map-of :keyword :int]", "[{} {:a 1 :b 2}]", `[{"a" 1} {:a "1"} [:a 1]]`},
		{"[:map-of {:min 1} :any :any]", "[{1 2}]", "[{}]"},
		{":vector", "[[] [1 :a]]", "[(1) #{} nil]"},
		{"[:vector :int]", "[[] [1 2]]", `[[1 "2"] (1)]`},
		{"[:list :int]", "[() (1 2)]", "[[1] (:a)]"},
		{":list", "[(1 :a)]", "[[]]"},
		{"[:sequential :int]", "[[1] (1) []]", "[#{1} [:a] (:a)]"},
		{"[:set :int]", "[#{} #{1 2}]", "[[1] #{:a}]"},
		{"[:set {:max 1} :any]", "[#{1}]", "[#{1 2}]"},
		{"[:tuple :int :string]", `[[1 "a"]]`, `[[1] [1 "a" 2] ["a" 1] (1 "a")]`},
		{"[:tuple]", `[[]]`, `[[1] ()]`},
		{`[:enum :a "b" 3 nil]`, `[:a "b" 3 nil]`, `[:b "a" 3.0 3M]`},
		{"[:enum {} {:a 1}]", "[{:a 1}]", "[{}]"},
		{"[:maybe :int]", "[nil 1]", `["1" false]`},
		{"[:or :int :string]", `[1 "a"]`, "[:a nil 1.0]"},
		{"[:and :int [:not [:enum 0]]]", "[1]", `[0 "1"]`},
		{"[:not :int]", `["a" nil]`, "[1]"},
		{`[:re "^a+$"]`, `["a" "aaa"]`, `["b" "" :a]`},
		{`[:re "b"]`, `["abc"]`, `["ac"]`},
		{"[:ref :ferment/text]", `["a" " a "]`, `["" " \n\t\f\r" nil 1]`},
		{"[:int {:min 1 :max 3}]", "[1 2 3]", "[0 4 99999999999999999999 -99999999999999999999]"},
		{"[:number {:min 0 :max 1}]", "[0 1 0.0 1.0 0.5 0.5M 1M]", "[-1 2 1.0000001 -0.0001M 1.0000000000000000001M 2M]"},
		{"[:number {:min 0.1}]", "[0.1 0.1M 1]", "[0 0.09 0.09999M]"},
		{"[:decimal {:min 0.5M}]", "[0.5M 1M]", "[0.49M 1]"},
		{"[:double {:min -1.5 :max 9007199254740993}]", "[-1.5 0.0]", "[-1.6 1e17]"},
		{"[:int {:max 9007199254740993}]", "[9007199254740993]", "[9007199254740994]"},
		{"[:int {:max 1e30}]", "[1 99999999999999999999]", "[99999999999999999999999999999999999]"},
		{"[:string {:min 2 :max 3}]", `["ab" "żół" "𝄞𝄞"]`, `["a" "abcd" "𝄞"]`},
		{"[:vector {:min 1 :max 2} :any]", "[[1] [1 2]]", "[[] [1 2 3]]"},
	} {
		s := compiled(t, c.schema)
		for v := range read(t, c.accepts).Elems() {
			assert.Empty(t, texts(s.Validate(v)), "%s should accept %s", c.schema, v)
			assert.True(t, s.Valid(v), "%s should accept %s", c.schema, v)
		}
		for v := range read(t, c.refuses).Elems() {
			assert.False(t, s.Valid(v), "%s should refuse %s", c.schema, v)
			assert.NotEmpty(t, s.Validate(v), "%s should refuse %s", c.schema, v)
		}
	}
}

// SCH-001, SCH-008, SCH-009, contracts.md 7: invalid forms, with the path of
// every problem.
func TestCompileRefuses(t *testing.T) {
	for form, want := range map[string]string{
		`"string"`:                         "[] a schema is a keyword or a vector",
		`[]`:                               "[] a schema is a keyword or a vector",
		`["map"]`:                          "[0] a schema vector begins with a type keyword",
		`:strin`:                           "[] unknown schema type :strin (did you mean :string?)",
		`:req/text`:                        "[] unknown schema type :req/text (write [:ref :req/text]",
		`[:vector [:strong]]`:              "[1] unknown schema type :strong (did you mean :string?)",
		`[:int 1]`:                         "[1] :int takes no children",
		`[:vector :int :int]`:              "[] :vector takes at most one",
		`[:map-of :int]`:                   "[] :map-of takes a key schema and a value schema",
		`[:maybe]`:                         "[] :maybe takes one schema",
		`[:not :int :int]`:                 "[] :not takes one schema",
		`[:or]`:                            "[] :or takes at least one schema",
		`[:enum]`:                          "[] :enum takes at least one value",
		`[:enum :a :b :a]`:                 "[3] :a is listed twice",
		`[:map :a]`:                        "[1] a map entry is",
		`[:map [:a]]`:                      "[1] a map entry is",
		`[:map [:a {} :int 1]]`:            "[1] a map entry is",
		`[:map [:a 1 :int]]`:               "[1 1] the properties of a map entry are a map",
		`[:map [:a :int] [:a :int]]`:       "[2 0] key :a is named twice",
		`[:map [:a {:optionl true} :int]]`: "[1 1 :optionl] unknown property :optionl of a map entry (did you mean :optional?)",
		`[:map [:a {:optional 1} :int]]`:   "[1 1 :optional] should be true or false",
		`[:int {:mn 1}]`:                   "[1 :mn] unknown property :mn of :int (did you mean :min?)",
		`[:keyword {:min 1}]`:              "[1 :min] unknown property :min of :keyword",
		`[:int {"min" 1}]`:                 `[1 "min"] unknown property "min" of :int`,
		`[:int {:min "1"}]`:                "[1 :min] should be a number",
		`[:string {:min -1}]`:              "[1 :min] should be a whole number",
		`[:int {:min 2 :max 1}]`:           "[1] :min is above :max",
		`[:string {:min 2 :max 1}]`:        "[1] :min is above :max",
		`[:string {:secret "yes"}]`:        "[1 :secret] should be true or false",
		`[:string {:title :a}]`:            "[1 :title] should be a string",
		`[:string {:unit :metres}]`:        "[1 :unit] should be :path",
		`[:map {:closed 1}]`:               "[1 :closed] should be true or false",
		`[:map [:a {:labels -1} :any]]`:    "[1 1 :labels] should be a whole number",
		`[:map [:a {:when true} :any]]`:    "[1 1 :when] should be a map",
		`[:re "("]`:                        "[1] the pattern is not valid",
		`[:re "(?=a)"]`:                    "[1] the pattern is not valid",
		`[:re "((x?){500}){2}y{1000}"]`:    "[1] the pattern needs",
		`[:re :a]`:                         "[1] the pattern of :re is a string",
		`[:re "a" "b"]`:                    "[] :re takes one string",
		`[:ref "a"]`:                       "[1] the name of :ref is a keyword",
		`[:ref :req/txt]`:                  "[1] unknown schema name :req/txt (did you mean :req/text?)",
		`[:ref]`:                           "[] :ref takes one keyword",
		`[:map [:a :strin] [:b :nt]]`:      "and 1 more problems",
		`[:re "` + strings.Repeat("a", 5000) + `"]`: "[1] the pattern has more than",
	} {
		_, err := Compile(read(t, form))
		require.Error(t, err, "%s", form)
		var ce *CompileError
		require.ErrorAs(t, err, &ce)
		text := err.Error()
		if path, message, ok := strings.Cut(want, "] "); ok && strings.HasPrefix(want, "[") {
			assert.Equal(t, path+"]", edn.Vector(ce.Problems[0].Path...).String(), "%s: %s", form, text)
			words, hint, _ := strings.Cut(message, " (")
			assert.Contains(t, ce.Problems[0].Message, words, form)
			assert.Contains(t, ce.Problems[0].Hint, strings.TrimSuffix(hint, ")"), form)
			continue
		}
		assert.Contains(t, text, want, form)
	}
}

// SCH-009: the size of a schema is limited, also for enumerations.
func TestCompileLimitsSize(t *testing.T) {
	var members []string
	for i := range maxNodes + 1 {
		members = append(members, fmt.Sprint(i))
	}
	for _, form := range []string{
		"[:enum " + strings.Join(members, " ") + "]",
		"[:tuple " + strings.Repeat(":int ", maxNodes+1) + "]",
		strings.Repeat("[:vector ", 100) + "[:tuple " + strings.Repeat(":int ", maxNodes) + "]" + strings.Repeat("]", 100),
	} {
		_, err := Compile(read(t, form))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "more than 10000 nodes")
	}
	_, err := Compile(read(t, "[:tuple "+strings.Repeat(":int ", maxNodes-1)+"]"))
	assert.NoError(t, err)
}

// SCH-008: properties are kept and do not affect validation.
func TestProperties(t *testing.T) {
	s := compiled(t, `[:map {:title "T" :description "D"}
		[:path {:optional true :unit :path :doc "where" :deprecated "dir" :when {:engine "uci"}} :string]
		[:model {:block true :labels 1 :free true :default nil} :any]
		[:n [:int {:default 3 :secret true :deprecated true}]]]`)
	assert.Equal(t, Props{Title: "T", Description: "D"}, s.Props())
	path, ok := s.Entry(edn.K("path"))
	require.True(t, ok)
	assert.True(t, path.Optional)
	assert.Equal(t, "path", path.Props.Unit)
	assert.Equal(t, "where", path.Props.Doc)
	assert.True(t, path.Props.Deprecated)
	assert.Equal(t, "dir", path.Props.Replacement)
	assert.Equal(t, `{:engine "uci"}`, path.Props.When.String())
	model, _ := s.Entry(edn.K("model"))
	assert.True(t, model.Props.Block && model.Props.Free && model.Props.HasDefault)
	assert.Equal(t, 1, model.Props.Labels)
	n, _ := s.Entry(edn.K("n"))
	assert.True(t, n.Schema.Props().Secret && n.Schema.Props().Deprecated)
	assert.Equal(t, "3", n.Schema.Props().Default.String())
	assert.False(t, s.Valid(read(t, "{:model 1}")), "a default does not stand in for a missing key")
}

// CALL-013: the patterns of a description are counted before any of them is compiled, about as they are
// compiled.
func TestPatternInstructions(t *testing.T) {
	for pattern, least := range map[string]int{
		`x`: 1, `^[a-z]+$`: 3, `x{990}`: 990, `(ab|cd){10,40}`: 160, `((a{10}){10})`: 100, `\d{4}-\d{2}`: 7, `(`: 0, `x*y?`: 4,
	} {
		spec := edn.Vector(edn.K("map"), edn.Vector(edn.K("a"), edn.Vector(edn.K("re"), edn.Text(pattern))))
		n := PatternInstructions(map[string]edn.Value{"s": spec})
		assert.GreaterOrEqual(t, n, least, pattern)
		assert.LessOrEqual(t, n, 2*least+40, pattern)
	}
	many := []edn.Value{edn.K("or")}
	for i := range 5000 {
		many = append(many, edn.Vector(edn.K("re"), edn.Text(fmt.Sprintf("x{990}%d", i))))
	}
	assert.Greater(t, PatternInstructions(map[string]edn.Value{"s": edn.Vector(many...)}), MaxPatterns)
	for name, spec := range builtinSpecs() {
		assert.Less(t, PatternInstructions(map[string]edn.Value{name: spec}), MaxPatterns/10, name)
	}
}

// SCH-009: rings of references without a collection are rejected; other
// recursion is as deep as the value.
func TestRecursion(t *testing.T) {
	for _, specs := range []map[string]string{
		{"a": "[:ref :a]"},
		{"a": "[:or :int [:ref :b]]", "b": "[:maybe [:ref :a]]"},
		{"a": "[:and :int [:not [:ref :a]]]"},
	} {
		_, err := NewRegistry(specsOf(t, specs))
		require.Error(t, err)
		assert.Contains(t, err.Error(), "without consuming input")
	}
	const long = 100_000 // each link is looked at once
	chain := map[string]edn.Value{fmt.Sprint("s", long): edn.K("int")}
	for i := range long {
		chain[fmt.Sprint("s", i)] = edn.Vector(edn.K("ref"), edn.K(fmt.Sprint("s", i+1)))
	}
	_, err := NewRegistry(chain)
	require.NoError(t, err)
	r, err := NewRegistry(specsOf(t, map[string]string{
		"tree": "[:map {:closed true} [:v :int] [:kids {:optional true} [:vector [:ref :tree]]]]",
		"json": "[:or :nil :boolean :number :string [:vector [:ref :json]] [:map-of :string [:ref :json]]]",
	}))
	require.NoError(t, err)
	tree, _ := r.Lookup("tree")
	assert.True(t, tree.Valid(read(t, "{:v 1 :kids [{:v 2} {:v 3 :kids [{:v 4}]}]}")))
	assert.Equal(t, []string{"[:kids 1 :kids 0 :v] should be an integer"},
		texts(tree.Validate(read(t, "{:v 1 :kids [{:v 2} {:v 3 :kids [{:v :x}]}]}"))))
	json, _ := r.Lookup("json")
	deep := strings.Repeat("[", 120) + strings.Repeat("]", 120)
	assert.True(t, json.Valid(read(t, deep)))
	assert.False(t, json.Valid(read(t, strings.Replace(deep, "[]", "[:a]", 1))))
}

// hostile are schemas that peers may publish, with values for which a check without limits
// takes long: for each its size and its schema.
func hostile(t *testing.T) map[string]struct {
	schema *Schema
	value  edn.Value
} {
	maps := `[:map [:a [:ref :maps]] [:b :int]] [:map [:a [:ref :maps]] [:c :int]] [:map [:a [:ref :maps]] [:d :int]]`
	many := func(n int, form string) string { return "[:or " + strings.Repeat(form+" ", n) + "]" }
	entries := func(format string) (text string) {
		for i := range 700 {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	r, err := NewRegistry(specsOf(t, map[string]string{
		"tuples":  "[:or [:tuple [:ref :tuples] :int] [:tuple [:ref :tuples] :string] :nil]",
		"not":     "[:not [:ref :tuples]]",
		"maps":    "[:or :int " + maps + "]",
		"pattern": many(4, `[:re "(a|b|c){300}d"]`),
		"length":  many(2000, "[:string {:min 300000 :max 300001}]"),
		"blank":   many(2000, `[:re "\\S"]`),
		"enum":    "[:vector " + many(3, "[:enum"+entries(" %d")+"]") + "]",
		"wide":    "[:vector [:map" + entries(" [:k%d {:optional true} :int]") + "]]",
		"typos":   "[:vector [:map {:closed true}" + entries(" [:some-long-key-with-number-%d {:optional true} :int]") + "]]",
		"key":     many(2000, "[:map-of :int :int]"),
		"choice":  many(90, "[:map [:x [:enum 1]] [:y [:enum 1]]]"),
	}))
	require.NoError(t, err)
	texts := map[string]string{
		"tuples":  strings.Repeat("[", 60) + "nil" + strings.Repeat(" :k]", 60),
		"maps":    strings.Repeat("{:a ", 100) + "nil" + strings.Repeat("}", 100),
		"pattern": `"` + strings.Repeat("abc", 100_000) + `"`,
		"length":  `"` + strings.Repeat("é", 290_000) + `"`,
		"blank":   `"` + strings.Repeat(" ", 400_000) + `"`,
		"enum":    "[" + strings.Repeat("a ", 20_000) + "]",
		"wide":    "[" + strings.Repeat("{} ", 20_000) + "1]",
		"typos":   "[" + strings.Repeat("{:some-long-key-with-numberr-1 1 :some-long-key-with-nummber-2 2} ", 300) + "]",
		"key":     `{"` + strings.Repeat("1", 100_000) + `" 1}`,
		"choice":  "{:x 1 :y 2}",
	}
	texts["not"] = texts["tuples"]
	all := map[string]struct {
		schema *Schema
		value  edn.Value
	}{}
	for name, text := range texts {
		s, _ := r.Lookup(name)
		v, err := edn.ReadString(text)
		require.NoError(t, err, name)
		all[name] = struct {
			schema *Schema
			value  edn.Value
		}{s, v}
	}
	return all
}

// looks is a context that ends when it is asked for the given number of times.
type looks struct {
	context.Context
	left int
}

func (l *looks) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

// WIRE-003: the work of a check is bounded in proportion to the size of the value, and a check
// ends with its context, whatever schema and value a peer sends.
func TestWorkIsBounded(t *testing.T) {
	for name, pair := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			if name != "choice" { // a few steps
				soon := &looks{Context: t.Context(), left: 5}
				assert.False(t, pair.schema.ValidContext(soon, pair.value))
				assert.GreaterOrEqual(t, soon.left, -2, "the check ended when its context did")
				soon = &looks{Context: t.Context(), left: 5}
				assert.NotEmpty(t, pair.schema.ValidateContext(soon, pair.value))
				assert.GreaterOrEqual(t, soon.left, -4, "the check ended when its context did")
			}
		})
	}
}

// A schema that tries a deep value repeatedly ends and rejects it, also under :not; a small
// value takes few steps.
func TestStepsAreBounded(t *testing.T) {
	all := hostile(t)
	tuples := all["tuples"]
	assert.Contains(t, tuples.schema.Validate(tuples.value)[0].Message, "cannot be checked in")
	assert.True(t, edn.Equal(tuples.value, tuples.schema.CoerceJSON(tuples.value)))
	assert.False(t, all["not"].schema.Valid(tuples.value))
	for _, name := range []string{"tuples", "maps"} {
		pair := all[name]
		most := (freeUnits + sizeOf(pair.value, maxSteps)) * stepsPerUnit
		checked, explained := newMeter(t.Context(), pair.value), newMeter(t.Context(), pair.value)
		pair.schema.accepts(pair.value, &checked)
		(&explainer{meter: &explained}).value(pair.schema, pair.value)
		assert.LessOrEqual(t, checked.limit, most, "%s", name)
		assert.LessOrEqual(t, explained.limit, most, "%s", name)
		assert.Negative(t, checked.left, "%s", name)
		assert.Less(t, most, 200_000, "%s", name)
	}
}

func specsOf(t testing.TB, texts map[string]string) map[string]edn.Value {
	t.Helper()
	specs := make(map[string]edn.Value)
	for name, text := range texts {
		specs[name] = read(t, text)
	}
	return specs
}

// SCH-006: unknown names in all forms are reported at once, each with the
// nearest one.
func TestRegistryReportsEverything(t *testing.T) {
	specs := Builtin()
	specs["my/a"] = read(t, "[:map [:x [:ref :req/texd]]]")
	specs["my/b"] = read(t, "[:vector :strng]")
	_, err := NewRegistry(specs)
	var ce *CompileError
	require.ErrorAs(t, err, &ce)
	require.Len(t, ce.Problems, 2)
	assert.Equal(t, "my/a", ce.Problems[0].Schema)
	assert.Equal(t, "did you mean :req/text?", ce.Problems[0].Hint)
	assert.Equal(t, "[1 1 1]", edn.Vector(ce.Problems[0].Path...).String())
	assert.Equal(t, "my/b", ce.Problems[1].Schema)
	assert.Equal(t, `{:hint "did you mean :string?" :message "unknown schema type :strng" :path [1] :schema :my/b}`, mustNth(ce.Value(), 1).String())

	r, err := NewRegistry(Builtin())
	require.NoError(t, err)
	assert.Equal(t, "req/text", r.Nearest("req/txt"))
	assert.Empty(t, r.Nearest("something/else"))
	assert.Contains(t, r.Names(), "res/eval")
	assert.Len(t, r.schemas, len(Builtin()))
	_, ok := r.Lookup("req/txt")
	assert.False(t, ok)
}

func mustNth(v edn.Value, i int) edn.Value { e, _ := v.Nth(i); return e }

func TestBuiltinIsTheCallersMap(t *testing.T) {
	a := Builtin()
	delete(a, "req/text")
	assert.Contains(t, Builtin(), "req/text")
}

func TestAccessors(t *testing.T) {
	r, err := NewRegistry(specsOf(t, map[string]string{
		"pos":  "[:map [:fen :string] [:moves [:vector [:tuple :string :int]]]]",
		"game": "[:map [:start [:maybe [:ref :pos]]] [:tags [:map-of :keyword :string]] [:ids [:set :uuid]] [:x [:or [:map [:a :int]] [:map [:a :string] [:b :int]]]]]",
	}))
	require.NoError(t, err)
	game, _ := r.Lookup("game")
	assert.Equal(t, "game", game.Name())
	for path, want := range map[string]string{
		"[]":                  game.String(),
		"[:start]":            "[:maybe [:ref :pos]]",
		"[:start :fen]":       ":string",
		"[:start :moves 3 1]": ":int",
		"[:tags :any]":        ":string",
		"[:x :b]":             ":int",
	} {
		var steps []edn.Value
		for step := range read(t, path).Elems() {
			steps = append(steps, step)
		}
		s, ok := game.At(steps...)
		require.True(t, ok, path)
		assert.Equal(t, want, s.String(), path)
	}
	for _, path := range []string{"[:nope]", "[:start :moves :k]", "[:start :moves 0 2]", "[:x :a]"} {
		var steps []edn.Value
		for step := range read(t, path).Elems() {
			steps = append(steps, step)
		}
		_, ok := game.At(steps...)
		assert.False(t, ok, path)
	}
	assert.Len(t, game.Branches(edn.K("x"), edn.K("a")), 2)

	start, _ := game.Entry(edn.K("start"))
	assert.Equal(t, KindRef, start.Schema.Children()[0].Kind())
	assert.Equal(t, KindMap, start.Schema.Children()[0].Deref().Kind())
	assert.Equal(t, "pos", start.Schema.Children()[0].Children()[0].Name())
	lowest, highest := compiled(t, "[:string {:min 1 :max 5}]").Bounds()
	assert.Equal(t, "1 5", lowest.String()+" "+highest.String())
	lowest, highest = compiled(t, "[:number {:max 0.5M}]").Bounds()
	assert.Equal(t, "nil 0.5M", lowest.String()+" "+highest.String())
	assert.Equal(t, "[:a :b]", edn.Vector(compiled(t, "[:enum :a :b]").Members()...).String())
	assert.True(t, compiled(t, "[:map {:closed true}]").Closed())
	assert.Equal(t, "map-of", KindMapOf.String())
}

func TestConcurrentUse(t *testing.T) {
	s := compiled(t, "[:map [:a [:re \"x+\"]] [:b [:vector [:ref :ferment/text]]]]")
	good, bad := read(t, `{:a "xx" :b ["t"]}`), read(t, `{:a "y" :b [""]}`)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 100 {
				assert.True(t, s.Valid(good))
				assert.Len(t, s.Validate(bad), 2)
			}
		})
	}
	wg.Wait()
}
