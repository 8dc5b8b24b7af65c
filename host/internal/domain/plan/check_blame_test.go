package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fitting are the findings CHECK-020 of a call whose input has slots: S is named by
// the schema of its producer, O is not.
func fitting(t testing.TB, out, in, before, input string) []plan.Finding {
	t.Helper()
	p, fs := readPlan(t, fmt.Sprintf(`{:nodes [{:op :call :intent :flow/make :as :s} %s{:op :call :intent :flow/take :as :r :input %s} {:op :emit :input :r}]}`,
		before, strings.NewReplacer("S", "{:slot/path [:s :a]}", "O", "{:slot/path [:s :other]}").Replace(input)))
	require.NotNil(t, p, "%v", fs)
	var found []plan.Finding
	for _, f := range plan.Check(p, flow(t, out, in)) {
		if f.Check == "CHECK-020" {
			found = append(found, f)
		}
	}
	return found
}

// CHECK-020: the finding about a slot says what its producer gives and what is wanted,
// at the first required part that never fits.
func TestMisfitIsDescribed(t *testing.T) {
	for _, tt := range []struct{ out, in, is, wants string }{
		{"[:map [:b :string]]", "[:map [:b :int]]", ":string at [:b]", ":int there"},
		{"[:map [:c [:map [:b :string]]]]", "[:map [:c [:map [:b :int]]]]", ":string at [:c :b]", ":int there"},
		{"[:map [:ok :int] [:b :string]]", "[:map [:ok :int] [:b :int]]", ":string at [:b]", ":int there"},
		{"[:map [:o :string] [:b :string]]", "[:map [:o {:optional true} :int] [:b :int]]", ":string at [:b]", ":int there"},
		{"[:map [:b :string]]", "[:map [:a :int] [:b :int]]", ":string at [:b]", ":int there"},
		{"[:map {:closed true} [:c :int]]", "[:map [:b :int]]", "a map without [:b]", ":int there"},
		{"[:map {:closed true} [:c :int]]", "[:or [:map [:b :int]] [:map [:d :keyword]]]", "a map without [:b] or [:d]", ":int or :keyword there"},
		{"[:map [:o :string]]", "[:map [:o {:optional true} :int]]", "[:map [:o :string]]", "[:map [:o {:optional true} :int]]"},

		// Alternatives that fail at different parts are described as a whole.
		{"[:map [:b :string] [:c :string]]", "[:or [:map [:b :int]] [:map [:c :int]]]",
			"[:map [:b :string] [:c :string]]", "[:map [:b :int]] or [:map [:c :int]]"},
		{"[:map {:closed true} [:b :string]]", "[:or [:map [:b :int]] [:map [:c :int]]]",
			"[:map {:closed true} [:b :string]]", "[:map [:b :int]] or [:map [:c :int]]"},
		{":string", "[:map [:b :int]]", ":string", "[:map [:b :int]]"},
		{"[:map [:b :string]]", ":int", "[:map [:b :string]]", ":int"},

		// Long schemas and many alternatives are cut.
		{":int", "[:map [:a2345678 :string] [:b2345 :int]]", ":int", "[:map [:a2345678 :string] [:b2345 :int]]"},
		{":int", "[:map [:a2345678 :string] [:b23456 :int]]", ":int", ":map"},
		{":int", "[:or :string :keyword :uuid]", ":int", ":string, :keyword or :uuid"},
		{":int", "[:or :string :keyword :uuid :boolean :inst]", ":int", ":string, :keyword, :uuid or 2 others"},
	} {
		found := fitting(t, "[:map [:a "+tt.out+"]]", "[:map [:x "+tt.in+"]]", "", "{:x S}")
		require.Len(t, found, 1, "%s for %s", tt.out, tt.in)
		assert.Equal(t, plan.Error, found[0].Severity)
		assert.Equal(t, "[:s :a] of schema :res/made is "+tt.is+" and can never fit :req/taken, which wants "+tt.wants+
			", in [:nodes 1 :input :x]", found[0].Message)
	}
}

// CHECK-020: an input that no alternative of its schema permits is blamed at the part
// at which those that fit furthest fail.
func TestInputIsBlamed(t *testing.T) {
	deep := func(n int) string { return "[:map [:l " + nest("[:vector ", ":int", "]", n) + "]]" }
	lists := func(n int) string { return nest("[", "[O]", "]", n) }
	zeros := func(n int) string { return strings.Repeat(" 0", n) }
	const one = "{:op :let :value 1 :as :v} "
	for _, tt := range []struct{ in, before, input, at, says, never string }{
		{"[:or [:map [:x :int]] [:map [:x :keyword]]]", "", "{:x [S]}", "[:x]", "can never fit :int or :keyword,", ""},
		{"[:or :string [:map [:x :int]]]", "", "{:x [S]}", "[:x]", "can never fit :int", ":string"},
		{"[:or [:map [:x :int]] :string]", "", "{:x [S]}", "[:x]", "can never fit :int", ":string"},
		{"[:or [:map [:a :int]] [:map [:b :int]] [:map [:c [:map [:d :int]]]]]", "", "{:a [S] :b [S] :c {:d [S]}}", "[:c :d]",
			"can never fit :int", ""},
		{"[:or [:map [:a :int]] [:map [:b :int]]]", "", "{:a S :b S}", "[]", "", "there"},
		{"[:or [:map {:closed true}] [:map [:x :int]] [:map [:y :int]]]", "", "{:x S :z 1}", "[:x]",
			"[:s :a] can never fit :req/taken, which wants :int there, in", ""},

		// What the alternatives permit beside a slot can exclude the value that is known of it.
		{"[:or [:map [:t :any] [:d [:map {:closed true} [:v {:optional true} :any]]]] [:map [:t :string] [:d [:map]]]]",
			one, "{:t {:slot/id :v} :d {:u 1}}", "[:t]", ":v is 1 and can never fit :req/taken, in", ""},
		{"[:or [:map [:t :any] [:d [:map {:closed true} [:v {:optional true} :any]]]] [:map [:t :string] [:d [:map]]]]",
			one, "{:t {:slot/id :v} :d {:u O}}", "[:d :u]", "[:s :other] can never fit :req/taken, in", ""},
		{"[:or " + deep(30) + " [:map [:z :int]]]", `{:op :let :value "x" :as :v} `,
			"{:l " + nest("[", "1 {:slot/id :v}", "]", 30) + "}", "[:l" + zeros(29) + " 1]", "which wants :int there", ""},

		// Parts are followed to the depth to which they are checked, and no further.
		{deep(31), "", "{:l " + lists(31) + "}", "[:l" + zeros(31) + "]", "can never fit :int,", ""},
		{"[:maybe " + deep(30) + "]", "", "{:l " + lists(30) + "}", "[:l" + zeros(30) + "]", "can never fit :int,", ""},
		{deep(32), "", "{:l [" + lists(31) + " {:k O}]}", "[:l 1]", "{:k ", ""},
		{"[:maybe " + deep(31) + "]", "", "{:l [" + lists(30) + " {:k O}]}", "[:l 1]", "{:k ", ""},
	} {
		found := fitting(t, "[:map [:a :string]]", tt.in, tt.before, tt.input)
		require.Len(t, found, 1, "%s for %s", tt.input, tt.in)
		assert.Equal(t, tt.at, edn.Vector(found[0].Path[3:]...).String(), "%s for %s", tt.input, tt.in)
		assert.Contains(t, found[0].Message, tt.says)
		if tt.never != "" {
			assert.NotContains(t, found[0].Message, tt.never)
		}
	}
}
