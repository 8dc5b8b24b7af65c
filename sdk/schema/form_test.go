package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/edn"
)

// view returns a form after writing and reading it as JSON.
func view(t require.TestingT, form edn.Value) edn.Value {
	text, err := edn.WriteJSON(form)
	require.NoError(t, err)
	v, err := edn.ReadJSON(text)
	require.NoError(t, err)
	return v
}

// plainValues returns a form whose values (enum members, defaults) were written
// and read as JSON.
func plainValues(t require.TestingT, form edn.Value) edn.Value {
	switch form.Kind() {
	case edn.KindMap:
		if d, ok := form.Get(edn.K("default")); ok {
			form = form.AssocKey("default", view(t, d))
		}
		return form
	case edn.KindVector:
		var parts []edn.Value
		head, _ := form.Nth(0)
		for part := range form.Elems() {
			if word, _ := head.AsKeyword(); word == "enum" && len(parts) > 0 && (len(parts) > 1 || !part.IsMap()) {
				part = view(t, part)
			}
			parts = append(parts, plainValues(t, part))
		}
		return edn.Vector(parts...)
	}
	return form
}

// VAL-006 (property): a schema and its JSON view are the same schema, except
// for the values in it. A schema in EDN, also in a string, stays unchanged.
func TestFormAndItsViewAreOneSchema(t *testing.T) {
	check := func(t require.TestingT, form edn.Value) {
		got, err := ReadForm(view(t, form))
		require.NoError(t, err)
		require.Equal(t, plainValues(t, form).String(), got.String())
		_, err = Compile(got)
		require.NoError(t, err)

		same, err := ReadForm(form)
		require.NoError(t, err)
		require.True(t, edn.Equal(form, same))
		if form.IsVector() {
			same, err = ReadForm(edn.Text(form.String()))
			require.NoError(t, err)
			require.True(t, edn.Equal(form, same))
		}
	}
	for name, form := range Builtin() {
		t.Run(name, func(t *testing.T) { check(t, form) })
	}
	rapid.Check(t, func(r *rapid.T) { check(r, genForm(4, rapid.Bool().Draw(r, "typed")).Draw(r, "form")) })
}

// VAL-006 (property): values read from JSON fit a schema exactly if they fit
// the schema of its view.
func TestViewTakesTheSameJSON(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		form := plainValues(r, genForm(3, true).Draw(r, "form"))
		s, err := Compile(form)
		require.NoError(r, err)
		read, err := ReadForm(view(r, form))
		require.NoError(r, err)
		of, err := Compile(read)
		require.NoError(r, err)
		v := drawFor(r, s)
		text, err := edn.WriteJSON(v)
		if err != nil {
			return // two keys with the same name
		}
		doc, err := edn.ReadJSON(text)
		require.NoError(r, err)
		require.Equal(r, s.Valid(s.CoerceJSON(doc)), of.Valid(of.CoerceJSON(doc)))
		require.True(r, edn.Equal(s.CoerceJSON(doc), of.CoerceJSON(doc)))
	})
}

// VAL-006: the strings of a view that become keywords.
func TestReadForm(t *testing.T) {
	for name, tt := range map[string]struct{ json, want string }{
		"a tool":                      {`["map", ["path", "string"]]`, `[:map [:path :string]]`},
		"a word":                      {`"string"`, `:string`},
		"a word with a colon":         {`":string"`, `:string`},
		"words with a colon":          {`[":map", ["path", ":string"]]`, `[:map [:path :string]]`},
		"properties":                  {`["map", {"closed": true}, ["n", {"optional": true}, ["int", {"min": 1}]]]`, `[:map {:closed true} [:n {:optional true} [:int {:min 1}]]]`},
		"an enum has values":          {`["enum", "a", ":b", 1, null]`, `[:enum "a" ":b" 1 nil]`},
		"a pattern":                   {`["re", "^string$"]`, `[:re "^string$"]`},
		"a name":                      {`["ref", "req/text"]`, `[:ref :req/text]`},
		"a name with a colon":         {`["ref", ":req/text"]`, `[:ref :req/text]`},
		"a key that is not a keyword": {`["map", ["a b", "int"]]`, `[:map ["a b" :int]]`},
		"a key with a namespace":      {`["map", ["tool/id", "keyword"]]`, `[:map [:tool/id :keyword]]`},
		"a unit":                      {`["string", {"unit": "path"}]`, `[:string {:unit :path}]`},
		"a default":                   {`["map", ["a", {"optional": true, "default": "int"}, "int"]]`, `[:map [:a {:default "int" :optional true} :int]]`},
		"a bound that is a decimal":   {`["decimal", {"min": "1.50"}]`, `[:decimal {:min 1.50M}]`},
		"a bound beyond JSON":         {`["int", {"max": "123456789012345678901"}]`, `[:int {:max 123456789012345678901N}]`},
		"a length":                    {`["string", {"min": 1}]`, `[:string {:min 1}]`},
		"nested":                      {`["vector", ["maybe", ["tuple", "int", ["set", "keyword"]]]]`, `[:vector [:maybe [:tuple :int [:set :keyword]]]]`},
		"EDN in a string":             {`" [:map [\"path\" :string]]"`, `[:map ["path" :string]]`},
		"no word of schemas":          {`["maps", ["a", "b"]]`, `[:maps [:a :b]]`},
		"no word at all":              {`["a b"]`, `["a b"]`},
		"no schema":                   {`{"type": "object"}`, `{:type "object"}`},
		"nothing":                     {`[]`, `[]`},
	} {
		v, err := edn.ReadJSON([]byte(tt.json))
		require.NoError(t, err, name)
		got, err := ReadForm(v)
		require.NoError(t, err, name)
		assert.True(t, edn.Equal(edn.MustRead(tt.want), got), "%s: %s", name, got)
	}
	for _, text := range []string{`[:map ["path" :string]]`, `[:enum "a"]`, `[:map ["a" ["string" "x"]]]`, `:string`, `[]`, `{}`, `nil`, `7`} {
		got, err := ReadForm(edn.MustRead(text))
		require.NoError(t, err)
		assert.True(t, edn.Equal(edn.MustRead(text), got), "EDN stays: %s", text)
	}
	_, err := ReadForm(edn.Text("[:map"))
	require.Error(t, err)
}
