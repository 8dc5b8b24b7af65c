package schema

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// pair draws a schema and a value that often fits it.
func pair(t *rapid.T, typed bool) (*Schema, edn.Value) {
	form := genForm(3, typed).Draw(t, "form")
	s, err := Compile(form)
	if err != nil {
		t.Fatalf("%v\n%s", err, form)
	}
	if typed || rapid.IntRange(0, 3).Draw(t, "fit") > 0 {
		return s, drawFor(t, s)
	}
	return s, drawAny(t, 3)
}

func with(word string, forms ...edn.Value) *Schema {
	return MustCompile(edn.Vector(append([]edn.Value{edn.K(word)}, forms...)...))
}

// SCH-020: [:and s s] = s, [:not [:not s]] = s, [:or s s] = s; the findings
// agree with Valid, respect their limit and are sorted.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := pair(t, false)
		ok := s.Valid(v)
		f := s.Spec()
		for _, same := range []*Schema{with("and", f, f), with("or", f, f), with("not", edn.Vector(edn.K("not"), f)), MustCompile(s.normal())} {
			if same.Valid(v) != ok {
				t.Fatalf("%s and %s disagree about %s", s, same, v)
			}
		}
		if with("not", f).Valid(v) == ok {
			t.Fatalf("%s and its negation agree about %s", s, v)
		}
		if !with("maybe", f).Valid(edn.Nil()) {
			t.Fatalf("[:maybe %s] refuses nil", s)
		}
		list := s.Validate(v)
		if ok != (len(list) == 0) {
			t.Fatalf("%s on %s: valid %v, findings %v", s, v, ok, list)
		}
		for i := 1; i < len(list); i++ {
			if comparePaths(list[i-1].Path, list[i].Path) > 0 {
				t.Fatalf("findings out of order: %v", texts(list))
			}
		}
	})
}

// SCH-020: a closed map rejects exactly the extra keys.
func TestClosedMapLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := drawMap(t, func() edn.Value { return drawForm(t, 1, false) })
		open := MustCompile(edn.MustRead(strings.Replace(form.String(), ":closed true", "", 1)))
		closed := MustCompile(edn.MustRead(strings.Replace(open.String(), "[:map {", "[:map {:closed true ", 1)))
		v := drawFor(t, open)
		extra := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x1", "x2", "other/x"}), rapid.ID).Draw(t, "extra")
		for _, key := range extra {
			v = v.AssocKey(key, edn.Int(1))
		}
		want := open.Valid(v) && len(extra) == 0
		if closed.Valid(v) != want {
			t.Fatalf("%s on %s: got %v", closed, v, !want)
		}
		unknown := 0
		for _, f := range closed.Validate(v) {
			if strings.HasPrefix(f.Message, "unknown key") && len(f.Path) == 1 {
				unknown++
			}
		}
		if unknown != len(extra) {
			t.Fatalf("%d findings about %d extra keys", unknown, len(extra))
		}
	})
}

// VAL-041: typed parts of a value survive writing and reading as JSON.
func TestJSONLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := pair(t, true)
		if !s.Valid(v) {
			return // an element count that a set or map-of did not reach
		}
		text, err := edn.WriteJSON(v)
		if err != nil {
			return // VAL-040: two keys with one name
		}
		back, err := edn.ReadJSON(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got := s.CoerceJSON(back); !edn.Equal(got, v) {
			t.Fatalf("%s\n%s\nbecame %s\nthrough %s", s, v, got, text)
		}
	})
}

// Coercion does not change a value that fits.
func TestCoercionKeepsWhatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := pair(t, false)
		c := s.CoerceJSON(v)
		if s.Valid(v) && !s.Valid(c) {
			t.Fatalf("%s accepts %s but not its coercion %s", s, v, c)
		}
		if again := s.CoerceJSON(c); s.Valid(c) && !edn.Equal(again, c) {
			t.Fatalf("%s: %s becomes %s", s, c, again)
		}
	})
}

// SCH-012: export then import gives an equal schema, also through JSON text.
func TestExportImport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := MustCompile(genForm(3, false).Draw(t, "form"))
		text, err := edn.WriteJSON(s.JSONSchema())
		if err != nil {
			t.Fatalf("%v", err)
		}
		v, err := edn.ReadJSON(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !edn.Equal(v, s.JSONSchema()) {
			t.Fatalf("the export is not what JSON gives back:\n%s\n%s", s.JSONSchema(), v)
		}
		spec, defs, err := FromJSONSchema(v)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		back, err := Compile(spec)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, spec, text)
		}
		if !equalSchemas(s, back) {
			t.Fatalf("%s\n%s\n%s", s.normal(), back.normal(), text)
		}
		for name, def := range defs {
			if !edn.Equal(MustCompile(def).normal(), MustCompile(Builtin()[name]).normal()) {
				t.Fatalf("definition %s changed: %s", name, def)
			}
		}
	})
}

// independent compiles an export with another implementation of JSON Schema.
func independent(t require.TestingT, s *Schema) *jsonschema.Schema {
	text, err := edn.WriteJSON(s.JSONSchema())
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:///s.json", doc))
	c.DefaultDraft(jsonschema.Draft2020)
	out, err := c.Compile("mem:///s.json")
	require.NoError(t, err, "%s", text)
	return out
}

// SCH-004, SCH-020, SCH-012: an independent validator accepts the JSON of every
// value that the schema accepts. The reverse holds for values that are read
// from JSON and coerced, except where SCH-012 leaves a check to `format` or an
// extension.
func TestExportAgreesWithIndependentValidator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := pair(t, rapid.Bool().Draw(t, "typed"))
		text, err := edn.WriteJSON(v)
		if err != nil || strings.Contains(s.String(), ":not") || looserInJSON(v) {
			return
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%v", err)
		}
		other := independent(t, s).Validate(doc)
		read, err := edn.ReadJSON(text)
		if err != nil {
			t.Fatalf("%v", err)
		}
		ok := s.Valid(s.CoerceJSON(read))
		if s.Valid(v) && ok && other != nil {
			t.Fatalf("%s accepts %s, its export does not: %v", s, v, other)
		}
		if onlyPlainJSON(s) && (other == nil) != ok {
			t.Fatalf("%s about %s: export says %v, schema says %v", s, text, other, texts(s.Validate(s.CoerceJSON(read))))
		}
	})
}

// looserInJSON reports whether the value contains numbers that JSON represents
// as strings, or a set in which 3 and 3.0 may differ, which are equal in JSON.
func looserInJSON(v edn.Value) bool {
	text := v.String()
	return strings.Contains(text, "99999999999999999999N") || holdsDecimal(v) ||
		strings.Contains(text, "#{") && strings.Contains(text, ".0")
}

func holdsDecimal(v edn.Value) bool {
	found := v.IsDecimal()
	for key, val := range v.All() {
		found = found || holdsDecimal(val) || !key.IsInt() && !edn.Equal(key, val) && holdsDecimal(key)
	}
	return found
}

// onlyPlainJSON reports whether the schema has no kinds that JSON Schema checks
// less strictly.
func onlyPlainJSON(s *Schema) bool {
	form := s.normal().String()
	for _, word := range []string{":char", ":keyword", ":symbol", ":decimal", ":inst", ":uuid", ":int", ":double", ":set", ":map-of", ":enum", ":and"} {
		if strings.Contains(form, word) {
			return false
		}
	}
	return true
}

// The built-in schemas with the independent validator and the rows of SCH-013.
// The export accepts rejected rows whose kind does not exist in JSON: a keyword
// in the place of a string, a list for a vector.
func TestBuiltinExports(t *testing.T) {
	r, err := NewRegistry(Builtin())
	require.NoError(t, err)
	for _, row := range builtinTable {
		s, _ := r.Lookup(row.name)
		other := independent(t, s)
		for v := range read(t, row.accepts).Elems() {
			text, err := edn.WriteJSON(v)
			require.NoError(t, err)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			if !looserInJSON(v) {
				assert.NoError(t, other.Validate(doc), "%s: %s", row.name, text)
			}
		}
		for v := range read(t, row.refuses).Elems() {
			text, err := edn.WriteJSON(v)
			require.NoError(t, err)
			back, err := edn.ReadJSON(text)
			require.NoError(t, err)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			if !s.Valid(s.CoerceJSON(back)) && !bytes.Contains(text, []byte("1.0")) {
				assert.Error(t, other.Validate(doc), "%s: %s", row.name, text)
			}
		}
	}
}

// SCH-011: Yes and No hold for every value.
func TestSatisfiesIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, v := pair(t, false)
		other := MustCompile(genForm(2, false).Draw(t, "other"))
		if rapid.Bool().Draw(t, "related") {
			other = with(rapid.SampledFrom([]string{"or", "and", "maybe", "not"}).Draw(t, "word"), s.Spec())
		}
		if !s.Valid(v) {
			return
		}
		switch answer := Satisfies(s, other); {
		case answer == Yes && !other.Valid(v):
			t.Fatalf("%s satisfies %s, but not with %s", s, other, v)
		case answer == No && other.Valid(v):
			t.Fatalf("%s never satisfies %s, but %s does", s, other, v)
		}
		if Satisfies(s, s) != Yes {
			t.Fatalf("%s does not satisfy itself", s)
		}
	})
}

// SCH-011: the results that plan checks rely on.
func TestSatisfies(t *testing.T) {
	for _, c := range []struct {
		s, t string
		want Tri
	}{
		{":int", ":number", Yes},
		{":number", ":int", Unknown},
		{":int", ":double", No},
		{":int", ":string", No},
		{":any", ":int", Unknown},
		{":int", ":any", Yes},
		{"[:int {:min 1 :max 3}]", "[:int {:min 0}]", Yes},
		{"[:int {:min 5}]", "[:int {:max 4}]", No},
		{"[:int {:min 1}]", "[:number {:min 2}]", Unknown},
		{"[:enum :a :b]", ":keyword", Yes},
		{"[:enum :a :b]", "[:enum :b :c]", Unknown},
		{"[:enum :a]", "[:enum :b]", No},
		{":keyword", "[:enum 1 2]", No},
		{":keyword", "[:enum :a]", Unknown},
		{`[:re "a"]`, ":string", Yes},
		{`[:re "a"]`, `[:re "b"]`, Unknown},
		{`[:re "a"]`, ":int", No},
		{"[:string {:min 3}]", "[:string {:max 2}]", No},
		{"[:maybe :int]", ":int", Unknown},
		{"[:maybe :int]", ":string", No},
		{":int", "[:maybe :int]", Yes},
		{":nil", "[:maybe :int]", Yes},
		{"[:or :int :string]", ":keyword", No},
		{"[:or :int :string]", ":int", Unknown},
		{":int", "[:or :string :int]", Yes},
		{":int", "[:or :string :keyword]", No},
		{"[:and :int [:not [:enum 3]]]", ":int", Yes},
		{":int", "[:not :string]", Yes},
		{":int", "[:not :number]", No},
		{"[:map [:a :int]]", "[:map [:a :number]]", Yes},
		{"[:map [:a :int]]", "[:map [:a :string]]", No},
		{"[:map [:a {:optional true} :int]]", "[:map [:a :string]]", No},
		{"[:map [:a {:optional true} :int]]", "[:map [:a {:optional true} :string]]", Unknown},
		{"[:map [:a {:optional true} :int]]", "[:map [:a :int]]", Unknown},
		{"[:map [:b :int]]", "[:map [:a :int]]", Unknown},
		{"[:map {:closed true} [:b :int]]", "[:map [:a :int]]", No},
		{"[:map [:b :int]]", "[:map {:closed true} [:a {:optional true} :int]]", No},
		{"[:map {:closed true} [:a :int]]", "[:map {:closed true} [:a :int] [:b {:optional true} :int]]", Yes},
		{"[:map-of :keyword :int]", ":map", Yes},
		{"[:map-of :string :int]", "[:map [:a :int]]", No},
		{"[:map {:closed true} [:a :int]]", "[:map-of :keyword :number]", Yes},
		{"[:map [:a :int]]", "[:map-of :keyword :string]", No},
		{"[:vector :int]", "[:sequential :number]", Yes},
		{"[:vector :int]", "[:list :int]", No},
		{"[:sequential :int]", "[:vector :int]", Unknown},
		{"[:vector :int]", "[:vector :string]", Unknown},
		{"[:vector {:min 1} :int]", "[:vector :string]", No},
		{"[:tuple :int :int]", "[:vector :int]", Yes},
		{"[:tuple :int]", "[:tuple :int :int]", No},
		{"[:tuple :int :string]", "[:vector :int]", No},
		{"[:set :int]", "[:vector :int]", No},
		{"[:ref :res/chess.move+pv+eval]", "[:map [:move :string]]", Yes},
		{"[:ref :res/chess.move+pv+eval]", "[:ref :req/text]", Unknown},
		{"[:map {:closed true} [:depth :int]]", "[:ref :req/text]", No},
		{"[:map [:text :int]]", "[:or [:map [:text :string]]]", No},
	} {
		assert.Equal(t, c.want, Satisfies(compiled(t, c.s), compiled(t, c.t)), "%s -> %s", c.s, c.t)
	}
	assert.Equal(t, "yes no unknown", Yes.String()+" "+No.String()+" "+Unknown.String())
}

func TestSatisfiesRecursive(t *testing.T) {
	r, err := NewRegistry(specsOf(t, map[string]string{
		"a": "[:map [:v :int] [:next [:maybe [:ref :a]]]]",
		"b": "[:map [:v :number] [:next [:maybe [:ref :b]]]]",
		"c": "[:map [:v :string] [:next [:maybe [:ref :c]]]]",
	}))
	require.NoError(t, err)
	get := func(name string) *Schema { s, _ := r.Lookup(name); return s }
	assert.Equal(t, Yes, Satisfies(get("a"), get("a")))
	assert.Equal(t, Unknown, Satisfies(get("a"), get("b")))
	assert.Equal(t, No, Satisfies(get("a"), get("c")))
}
