package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SCH-008: Replace finds the marked values in every branch.
func TestReplace(t *testing.T) {
	r, err := NewRegistry(specsOf(t, map[string]string{
		"tree": "[:map [:secret {:secret true} :string] [:kids {:optional true} [:vector [:ref :tree]]]]",
	}))
	require.NoError(t, err)
	tree, _ := r.Lookup("tree")
	hide := func([]edn.Value, edn.Value) edn.Value { return edn.K("hidden") }
	for _, c := range []struct {
		schema      *Schema
		value, want string
	}{
		{tree, `{:secret "a" :kids [{:secret "b" :x 1}]}`, `{:secret :hidden :kids [{:secret :hidden :x 1}]}`},
		{compiled(t, "[:map-of :keyword [:string {:secret true}]]"), `{:a "1" :b "2"}`, `{:a :hidden :b :hidden}`},
		{compiled(t, "[:set [:string {:secret true}]]"), `#{"1" "2"}`, `#{:hidden}`},
		{compiled(t, "[:tuple :int [:string {:secret true}]]"), `[1 "2" "3"]`, `[1 :hidden "3"]`},
		{compiled(t, "[:list [:string {:secret true}]]"), `("1")`, `(:hidden)`},
		{compiled(t, "[:or [:map [:a :int]] [:map [:b {:secret true} :int]] [:string {:secret true}]]"), `{:a 1 :b 2}`, `:hidden`},
		{compiled(t, "[:or [:map [:a :int]] [:map [:b {:secret true} :int]]]"), `{:a 1 :b "not an int"}`, `{:a 1 :b :hidden}`},
		{compiled(t, "[:and :map [:maybe [:map [:b {:secret true} :int]]]]"), `{:b {:c 1}}`, `{:b :hidden}`},
		{compiled(t, "[:string {:secret true}]"), `"x"`, `:hidden`},
	} {
		v := read(t, c.value)
		assert.Equal(t, read(t, c.want).String(), c.schema.Replace(v, Secret, hide).String(), c.schema.String())
		assert.Equal(t, v.String(), c.schema.Replace(v, IsPath, hide).String(), "nothing is a path")
	}
}

// daemon.md RUN-008: f receives the path of each value.
func TestReplacePaths(t *testing.T) {
	s := compiled(t, "[:map [:dir {:unit :path} :string] [:more [:vector [:string {:unit :path}]]]]")
	var seen []string
	got := s.Replace(read(t, `{:dir "a" :more ["b" 3] :name "c"}`), IsPath, func(path []edn.Value, v edn.Value) edn.Value {
		seen = append(seen, edn.Vector(path...).String())
		text, ok := v.AsString()
		if !ok {
			return v
		}
		return edn.Text("/root/" + strings.TrimPrefix(text, "/"))
	})
	assert.Equal(t, `{:dir "/root/a" :more ["/root/b" 3] :name "c"}`, got.String())
	assert.ElementsMatch(t, []string{"[:dir]", "[:more 0]", "[:more 1]"}, seen)
}
