package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// flow is an environment with the intents flow/make, whose answers have schema
// out, and flow/take, whose input has schema in.
func flow(t testing.TB, out, in string) plan.Env {
	t.Helper()
	specs := schema.Builtin()
	specs["res/made"] = edn.MustRead(out)
	specs["req/taken"] = edn.MustRead(in)
	schemas, err := schema.NewRegistry(specs)
	require.NoError(t, err)
	r, err := registry.New(registry.Spec{
		Schemas: schemas,
		Capabilities: []registry.Capability{
			serve("flow/maker", "tool", "flow/make", "req/any", "res/made"),
			serve("flow/taker", "tool", "flow/take", "req/taken", "res/any"),
		},
	})
	require.NoError(t, err)
	return plan.Env{Registry: r}
}

// finds reports whether a check has a finding in the nodes. Errors of other
// checks fail the test.
func finds(t testing.TB, env plan.Env, check, nodes string) bool {
	t.Helper()
	found := false
	p, fs := readPlan(t, "{:nodes ["+nodes+"]}")
	require.NotNil(t, p, "%v", fs)
	for _, f := range plan.Check(p, env) {
		found = found || f.Check == check
		if f.Severity == plan.Error {
			assert.Equal(t, check, f.Check, nodes)
		}
	}
	return found
}

// nest wraps a form in n others.
func nest(before, form, after string, n int) string {
	return strings.Repeat(before, n) + form + strings.Repeat(after, n)
}

// CHECK-020: a written input that cannot fit whatever its slots hold is
// reported; one that may fit is not.
func TestInputsThatMayFit(t *testing.T) {
	const never, maybe = true, false
	for _, tt := range []struct {
		in, input string
		want      bool
	}{
		{"[:map [:a :int]]", "{:a 1}", maybe},
		{"[:map [:a :int]]", `{:a "x"}`, never},
		{"[:map [:a :int]]", "{:a S}", maybe},
		{"[:map [:a :int]]", "S", maybe},
		{"[:map [:a :int]]", "{:b S}", never},
		{"[:map [:a :int] [:b {:optional true} :int]]", "{:a S}", maybe},
		{"[:map [:a :int] [:b {:optional true} :int]]", `{:a S :b "x"}`, never},
		{"[:map [:a :int] [:b {:optional true} :int]]", `{:a 1 :b S :c 1}`, maybe},
		{"[:map {:closed true} [:a :int]]", "{:a S :c 1}", never},
		{"[:map {:closed true} [:a :int] [:c :int]]", "{:a S :c 1}", maybe},
		{"[:map [:a [:map [:b :int]]] [:c :int]]", "{:a {:b S} :c 1}", maybe},
		{"[:map [:a [:map [:b :int]]] [:c :int]]", "{:a {:d S} :c 1}", never},
		{"[:map [:a [:map [:b :int]]] [:c :int]]", `{:a {:b S} :c "x"}`, never},
		{"[:maybe [:map [:a :int]]]", "{:a S}", maybe},
		{"[:maybe [:map [:a :int]]]", "{:b S}", never},
		{"[:or [:map [:a :int]] [:map [:b :int]]]", "{:b S}", maybe},
		{"[:or [:map [:a :int]] [:map [:b :int]]]", "{:c S}", never},
		{"[:and [:map [:a :int]] [:map [:b :int]]]", "{:a S :b 1}", maybe},
		{"[:and [:map [:a :int]] [:map [:b :int]]]", `{:a S :b "x"}`, never},
		{"[:map [:l [:vector :int]]]", "{:l [1 S 3]}", maybe},
		{"[:map [:l [:vector :int]]]", `{:l [1 S "x"]}`, never},
		{"[:map [:l [:vector :int]]]", `{:l ["x" S 3]}`, never},
		{"[:map [:l [:vector [:map [:a :int]]]]]", "{:l [{:a 1} {:a S} {:a 3}]}", maybe},
		{"[:map [:l [:vector [:map [:a :int]]]]]", "{:l [{:a 1} {:b S}]}", never},
		{"[:map [:l [:vector [:map [:a :int]]]]]", "{:l [{:a S} {:a S} {:b S}]}", never},
		{"[:map [:l [:tuple :int :string]]]", `{:l [S "x"]}`, maybe},
		{"[:map [:l :any]]", `{:l [S "x"]}`, maybe},
		{"[:map [:l [:tuple :int :string]]]", `{:l [S 1]}`, never},
		{"[:map [:l [:tuple :int :string]]]", `{:l [S "x" "y"]}`, never},
		{"[:map [:l [:map-of :keyword :int]]]", `{:l {:a S :b 1}}`, maybe},
		{"[:map [:l [:map-of :keyword :int]]]", `{:l {:a S :b "x"}}`, never},
		{"[:map [:l [:map-of :keyword :int]]]", `{:l {"a" S}}`, never},
		{"[:map [:l [:maybe [:vector :int]]]]", `{:l [S "x"]}`, never},
		{"[:map [:l [:vector [:maybe [:vector :int]]]]]", `{:l [[S] nil]}`, maybe},
		{"[:map [:l [:vector [:maybe [:vector :int]]]]]", `{:l [[S "x"] nil]}`, never},
		{"[:map [:l [:not :int]]]", "{:l [S]}", maybe},
		{"[:map [:l [:ref :req/any]]]", "{:l {:a S}}", maybe},
		{"[:map [:l [:ref :req/any]]]", "{:l [S]}", never},

		// Beyond 32 levels the check accepts everything.
		{"[:map [:l " + nest("[:maybe ", "[:vector :int]", "]", 31) + "]]", `{:l [S "x"]}`, never},
		{"[:map [:l " + nest("[:maybe ", "[:vector :int]", "]", 32) + "]]", `{:l [S "x"]}`, maybe},
		{"[:map [:l " + nest("[:vector ", ":int", "]", 32) + "]]", `{:l ` + nest("[", `S "x"`, "]", 32) + `}`, never},
		{"[:map [:l " + nest("[:vector ", ":int", "]", 33) + "]]", `{:l ` + nest("[", `S "x"`, "]", 33) + `}`, maybe},
		{"[:map [:l [:enum [1] [2]]]]", "{:l [S]}", maybe},

		// A collection of another kind never fits, whatever its elements.
		{"[:map [:a :int]]", "[S]", never},
		{"[:or [:map [:a :int]] [:map [:b :int]]]", "[S]", never},
		{"[:map [:a [:map]]]", "{:a [S]}", never},
		{"[:map [:a [:map-of :keyword :int]]]", "{:a [S]}", never},
		{"[:map [:a [:map-of :keyword :int]]]", "{:a {:k S}}", maybe},
		{"[:map [:a :int]]", "{:a [S]}", never},
		{"[:map [:a :string]]", "{:a {:b S}}", never},
		{"[:map [:a [:vector :any]]]", "{:a {:b S}}", never},
		{"[:map [:a [:vector :any]]]", "{:a (S)}", never},
		{"[:map [:a [:vector :any]]]", "{:a [S]}", maybe},
		{"[:map [:a [:vector]]]", "{:a [S]}", maybe},
		{"[:map [:a [:list :any]]]", "{:a [S]}", never},
		{"[:map [:a [:list :any]]]", "{:a (S)}", maybe},
		{"[:map [:a [:sequential :any]]]", "{:a (S)}", maybe},
		{"[:map [:a [:sequential :any]]]", "{:a [S]}", maybe},
		{"[:map [:a [:sequential :any]]]", "{:a #{S}}", never},
		{"[:map [:a [:set :any]]]", "{:a [S]}", never},
		{"[:map [:a [:set :any]]]", "{:a #{S}}", maybe},
		{"[:map [:a [:tuple :any]]]", "{:a #{S}}", never},
		{"[:map [:a [:and [:vector :any] :any]]]", "{:a {:b S}}", never},
	} {
		node := fmt.Sprintf(`{:op :call :intent :flow/make :as :s} {:op :call :intent :flow/take :as :r :input %s} {:op :emit :input :r}`,
			strings.ReplaceAll(tt.input, "S", "{:slot/path [:s :out]}"))
		assert.Equal(t, tt.want, finds(t, flow(t, ":any", tt.in), "CHECK-020", node), "%s for %s", tt.input, tt.in)
	}
	// An unwritten input is an empty map.
	const none = `{:op :call :intent :flow/take :as :r} {:op :emit :input :r}`
	assert.True(t, finds(t, flow(t, ":any", "[:map [:a :int]]"), "CHECK-020", none))
	assert.False(t, finds(t, flow(t, ":any", "[:map [:a {:optional true} :int]]"), "CHECK-020", none))
}

// CHECK-020, SCH-011: the value of a slot is followed into the schema of its
// producer; only a certain misfit is reported.
func TestSlotsThatMayFit(t *testing.T) {
	const never, maybe = true, false
	for _, tt := range []struct {
		out, path, in, input string
		want                 bool
	}{
		{"[:map [:a :int]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a :string]]", ":out :a", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a :string]]", ":quality", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a :string]]", ":out :b", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:maybe :string]]]", ":out :a", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:maybe :int]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:or :string :keyword]]]", ":out :a", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:or :string :int]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:or :string [:not :int]]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:or [:not :int] :string]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:or :string [:or :keyword :any]]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:map [:b :string]]]]", ":out :a :b", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:map-of :keyword :string]]]", ":out :a :b", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:map-of :keyword :int]]]", ":out :a :b", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:vector :string]]]", ":out :a 0", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:vector :int]]]", ":out :a 0", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:vector :string]]]", ":out :a :b", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:tuple :int :string]]]", ":out :a 0", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:tuple :int :string]]]", ":out :a 1", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:tuple :int :string]]]", ":out :a 2", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:tuple :string :int]]]", ":out :a 0", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:tuple :string :int]]]", ":out :a :b", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:type :string]]", ":error :type", "[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:text :string]]", "", "[:map [:x :string]]", "{:x S}", maybe},

		// Beyond 32 levels and 64 alternatives the check accepts everything.
		{"[:map [:a " + nest("[:maybe ", ":string", "]", 32) + "]]", ":out :a",
			"[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a " + nest("[:maybe ", ":string", "]", 33) + "]]", ":out :a",
			"[:map [:x :int]]", "{:x S}", maybe},
		{"[:map [:a [:or" + strings.Repeat(" :string", 65) + "]]]", ":out :a", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a [:or" + strings.Repeat(" :string", 66) + "]]]", ":out :a", "[:map [:x :int]]", "{:x S}", maybe},

		{"[:map [:a :string]]", "", "[:map [:x :int]]", "{:x S}", never},
		{"[:map [:a :string]]", "", "[:map [:x [:map [:out :any]]]]", "{:x S}", maybe},
		{"[:map [:a :string]]", ":out", "[:map [:x [:map [:a :int]]]]", "{:x S}", never},
		{"[:map [:a :string]]", ":out", "[:map [:x [:map [:a :string]]]]", "{:x S}", maybe},
		{"[:map [:a :string]]", ":out :a", "[:map [:x [:or :int :keyword]]]", "{:x S}", never},
		{"[:map [:a :string]]", ":out :a", "[:map [:x [:or :int :string]]]", "{:x S}", maybe},
		{"[:map [:a :string]]", ":out :a", "[:map [:x [:and :int :any]]]", "{:x S}", never},
		{"[:map [:a :string]]", ":out :a", "[:map [:x [:map-of :keyword :int]]]", "{:x {:y S}}", never},
		{"[:map [:a :string]]", ":out :a", "[:map [:x [:vector :int]]]", "{:x [S]}", never},
	} {
		slot := "{:slot/id :s}"
		if tt.path != "" {
			slot = "{:slot/path [:s " + tt.path + "]}"
		}
		nodes := fmt.Sprintf(`{:op :call :intent :flow/make :as :s} {:op :call :intent :flow/take :as :r :input %s} {:op :emit :input :r}`,
			strings.ReplaceAll(tt.input, "S", slot))
		got := finds(t, flow(t, tt.out, tt.in), "CHECK-020", nodes)
		assert.Equal(t, tt.want, got, "%s of %s for %s", tt.path, tt.out, tt.in)
	}
}

// CHECK-020, SCH-011: the decision about one slot is not reused for another
// slot of the same producer in the same place.
func TestSlotsOfOneProducer(t *testing.T) {
	env := flow(t, "[:map [:a :string]]", "[:map [:x [:map [:a :int]]]]")
	take := func(slot string) string { return ` {:op :call :intent :flow/take :input {:x ` + slot + `}}` }
	for _, first := range []string{`{:slot/id :s}`, `{:slot/path [:s :quality]}`} {
		got := lines(t, `{:nodes [{:op :call :intent :flow/make :as :s}`+take(first)+take(`{:slot/path [:s :out]}`)+`]}`, env)
		require.Len(t, got, 1)
		assert.Contains(t, got[0], "CHECK-020 [:s :out] of schema :res/made")
		assert.Contains(t, got[0], "in [:nodes 2 :input :x]")
	}
	// It is reused for the same one.
	got := lines(t, `{:nodes [{:op :call :intent :flow/make :as :s}`+strings.Repeat(take(`{:slot/path [:s :out]}`), 2)+
		strings.Repeat(take(`{:slot/path [:s :quality]}`), 2)+`]}`, env)
	require.Len(t, got, 2)
	assert.Contains(t, got[1], "in [:nodes 2 :input :x]")
	// The reverse case for another place.
	const mixed = "[:map [:a :string] [:b :int]]"
	for in, bad := range map[string]string{"[:map [:x :int] [:y :string]]": ":x", "[:map [:x :string] [:y :int]]": ":y"} {
		got := lines(t, `{:nodes [{:op :call :intent :flow/make :as :s} {:op :call :intent :flow/take :input `+
			`{:x {:slot/path [:s :out :a]} :y {:slot/path [:s :out :a]}}}]}`, flow(t, mixed, in))
		require.Len(t, got, 1)
		assert.Contains(t, got[0], "CHECK-020 [:s :out :a] of schema :res/made")
		assert.Contains(t, got[0], "in [:nodes 1 :input "+bad+"]")
	}
}

// CHECK-020, SCH-011: the alternatives of a schema that a slot may fill depend
// on the rest of the input. A slot that fits only if its producer returns keys
// that its schema does not name is a warning. The finding is at the slot or the
// collection that causes it.
func TestAlternativesThatMayFit(t *testing.T) {
	const made, letText = "[:map [:a :string] [:l [:vector :int]]]", `{:op :let :value [1] :as :v} `
	const either = "[:or [:map {:closed true}] [:map [:x :int]] [:map [:y :int]]]"
	for _, tt := range []struct{ out, in, before, input, want string }{
		{made, either, "", "{:x S}", "error [:nodes 1 :input :x]"},
		{made, either, "", "{:x S :y 1}", ""},
		{made, either, "", "{:x S :z 1}", "error [:nodes 1 :input :x]"},
		{made, either, "", "{:x 1 :y S}", ""},
		{made, either, "", "{:x S :y S}", "error [:nodes 1 :input]"},
		{made, either, "", "{:x {:slot/path [:s :a] :slot/default 1}}", ""},
		{made, either, "", "{:x {:slot/path [:s :quality]}}", ""},
		{made, either, "", "{:x {:slot/path [:s :invoke/meta]}}", ""},
		{made, either, "", "{:x {:slot/id :s}}", "error [:nodes 1 :input :x]"},
		{made, "[:or [:map [:x :string]] [:map [:y :int]]]", "", "{:x {:slot/id :s}}", ""},
		{made, either, letText, "{:x {:slot/id :v}}", "error [:nodes 2 :input :x]"},
		{made, either, letText, "{:x {:slot/path [:v 0]}}", ""},
		{made, either, "", "[S]", "error [:nodes 1 :input]"},
		{made, "[:map [:x [:vector :int]]]", "", `{:x ("x" {:slot/path [:s :other]})}`, "error [:nodes 1 :input :x]"},
		{made, "[:map [:x [:map [:y [:maybe :int]]]]]", "", "{:x {:y [S]}}", "error [:nodes 1 :input :x :y]"},
		{made, "[:map [:x [:vector [:map [:y :int]]]]]", "", "{:x [S {:y [S]}]}",
			"error [:nodes 1 :input :x 0] error [:nodes 1 :input :x 1 :y]"},

		{"[:or [:map [:a :string]] [:map [:b :int]]]", "[:map [:x :int]]", "", "{:x S}", "warning [:nodes 1 :input :x]"},
		{"[:or [:map [:a :string]] [:map [:a :int]]]", "[:map [:x :int]]", "", "{:x S}", ""},
		{"[:or [:map [:a :string]] :any]", "[:map [:x :int]]", "", "{:x S}", ""},
		{"[:or [:map [:a :string]] [:map {:closed true} [:b :int]]]", "[:map [:x :int]]", "", "{:x S}",
			"error [:nodes 1 :input :x]"},
		{"[:map [:b :int]]", "[:map [:x :int]]", "", "{:x S}", ""},
		{"[:or [:map [:a :string]] [:map [:b :int]]]", "[:map [:x :int] [:z :int]]", "", "{:x S :z S}",
			"warning [:nodes 1 :input :x]"},
	} {
		text := fmt.Sprintf(`{:nodes [%s{:op :call :intent :flow/make :as :s} {:op :call :intent :flow/take :as :r :input %s} {:op :emit :input :r}]}`,
			tt.before, strings.ReplaceAll(tt.input, "S", "{:slot/path [:s :a]}"))
		assert.Equal(t, tt.want, strings.Join(misfits(t, flow(t, tt.out, tt.in), text), " "), "%s of %s for %s", tt.input,
			tt.out, tt.in)
	}
}

// CHECK-020: the input of a tool is checked against its schema like that of a
// call; against an unknown schema nothing is checked.
func TestAlternativesOfTools(t *testing.T) {
	env := flow(t, "[:map [:a :string]]", "[:or [:map [:x :int]] [:map [:y :int]]]")
	const before = `{:nodes [{:op :call :intent :flow/make :as :s} `
	assert.Equal(t, []string{"error [:nodes 1 :input :x]"}, misfits(t, env,
		before+`{:op :tool :tool/id :flow/taker :effects {:allowed #{:none}} :input {:x {:slot/path [:s :a]}}}]}`))
	assert.Equal(t, []string{"CHECK-013 [:nodes 0 :output :schema]"}, places(t, flow(t, ":any", "[:map [:x :int]]"),
		`{:nodes [{:op :call :intent :flow/make :output {:schema :res/unknown} :as :s}
		{:op :call :intent :flow/take :input {:x {:slot/path [:s :a]}}}]}`))
	assert.Equal(t, []string{"CHECK-013 [:nodes 1 :requires :in-schema]"}, places(t, env,
		before+`{:op :call :intent :flow/take :requires {:in-schema :req/unknown} :input {:x {:slot/path [:s :a]}}}]}`))
	assert.Empty(t, misfits(t, env,
		before+`{:op :map :over [{:x 1}] :fn {:cap/ref :flow/taker}} {:op :emit :input [{:slot/path [:s :a]}]}]}`))
}

// misfits lists severity and path of the findings CHECK-020 of a plan.
func misfits(t testing.TB, env plan.Env, text string) []string {
	t.Helper()
	p, fs := readPlan(t, text)
	require.NotNil(t, p, "%v", fs)
	var out []string
	for _, f := range plan.Check(p, env) {
		if f.Check == "CHECK-020" {
			out = append(out, f.Severity.String()+" "+edn.Vector(f.Path...).String())
		}
	}
	return out
}

// CHECK-020: a map node over a value that cannot be a collection is reported.
func TestMapOverSlots(t *testing.T) {
	const never, maybe = true, false
	for _, tt := range []struct {
		out, path string
		want      bool
	}{
		{"[:map [:a :int]]", ":out :a", never},
		{"[:map [:a :string]]", ":out :a", never},
		{"[:map [:a :uuid]]", ":out :a", never},
		{`[:map [:a [:re "x"]]]`, ":out :a", never},
		{"[:map [:a [:or :int :string]]]", ":out :a", never},
		{"[:map [:a [:or :int [:vector :int]]]]", ":out :a", maybe},
		{"[:map [:a [:vector :int]]]", ":out :a", maybe},
		{"[:map [:a [:set :int]]]", ":out :a", maybe},
		{"[:map [:a :any]]", ":out :a", maybe},
		{"[:map [:a [:and :int [:not :string]]]]", ":out :a", maybe},
		{"[:map [:a :int]]", ":out :b", maybe},
		{"[:map [:a [:or :int :any]]]", ":out :a", maybe},
		{"[:map [:a :int]]", ":quality", maybe},
		{":int", ":out", never},
		{"[:vector :int]", ":out", maybe},
	} {
		nodes := fmt.Sprintf(`{:op :call :intent :flow/make :as :s} {:op :map :over {:slot/path [:s %s]} :as :r :body [{:op :emit :input :item}]} {:op :emit :input :r}`, tt.path)
		assert.Equal(t, tt.want, finds(t, flow(t, tt.out, ":any"), "CHECK-020", nodes), "%s of %s", tt.path, tt.out)
	}
	// For a whole result the map runs over its :out.
	const whole = `{:op :call :intent :flow/make :as :s} {:op :map :over :s :as :r :body [{:op :emit :input :item}]} ` +
		`{:op :emit :input :r}`
	assert.True(t, finds(t, flow(t, ":int", ":any"), "CHECK-020", whole))
	assert.False(t, finds(t, flow(t, "[:vector :int]", ":any"), "CHECK-020", whole))
	assert.False(t, finds(t, flow(t, ":map", ":any"), "CHECK-020", whole))
	assert.Empty(t, places(t, flow(t, ":any", ":any"),
		`{:bindings {:s {:a [1]}} :nodes [{:op :map :over {:slot/path [:s :a]} :body [{:op :emit :input :item}]}]}`))
}

// CHECK-020: a value that the plan itself writes is followed to its readers.
func TestKnownValuesThatMayFit(t *testing.T) {
	const never, maybe = true, false
	const in = "[:map [:x :int]]"
	take := func(slot string) string {
		return `{:op :call :intent :flow/take :as :r :input {:x ` + slot + `}} {:op :emit :input :r}`
	}
	nested := func(slot string) string { return `[` + take(slot) + `]} {:op :emit :input :p}` }
	s := "{:slot/id :s}"
	for _, tt := range []struct {
		nodes string
		want  bool
	}{
		{`{:op :let :value 1 :as :s} ` + take(s), maybe},
		{`{:op :let :value "1" :as :s} ` + take(s), never},
		{`{:op :let :value "1" :when true :as :s} ` + take(s), never},
		{`{:op :let :value 1 :as :y} {:op :let :value ["1" {:slot/id :y}] :as :s} ` + take(s), maybe},
		{`{:op :let :value {:a "1"} :as :s} ` + take("{:slot/path [:s :a]}"), never},
		{`{:op :let :value {:a 1} :as :s} ` + take("{:slot/path [:s :a]}"), maybe},
		{`{:op :let :value {:a "1"} :as :s} ` + take("{:slot/path [:s :b] :slot/default 1}"), maybe},
		{`{:op :let :value {:y "1"} :as :s} {:op :call :intent :flow/take :as :r :input ` + s + `} {:op :emit :input :r}`, never},
		{`{:op :let :value {:x 1} :as :s} {:op :call :intent :flow/take :as :r :input ` + s + `} {:op :emit :input :r}`, maybe},
		{`{:op :let :value "1" :as :s} {:op :plan :as :p :plan {:nodes ` + strings.Replace(nested(s), "]}", "]}}", 1), never},
		{`{:op :map :over ["a" "b"] :item :s :as :p :body ` + nested(s), never},
		{`{:op :map :over ["a" 1] :item :s :as :p :body ` + nested(s), maybe},
		{`{:op :map :over [] :item :s :as :p :body ` + nested(s), maybe},
		{`{:op :let :value ["a"] :as :l} {:op :map :over :l :item :s :as :p :body ` + nested(s), never},
		{`{:op :call :intent :flow/make :as :l} {:op :map :over :l :item :s :as :p :body ` + nested(s), maybe},
		{`{:op :let :value [[["x" "a"] 1]] :as :l} {:op :map :over [{:slot/id :l}] :item :s :as :p :body ` +
			nested("{:slot/path [:s 0 1]}"), maybe},
		{`{:op :map :over [` + strings.Repeat(`"a" `, 64) + `] :item :s :as :p :body ` + nested(s), never},
		{`{:op :map :over [` + strings.Repeat(`"a" `, 65) + `] :item :s :as :p :body ` + nested(s), maybe},
		{`{:op :map :over [{:x 1}] :item :i :as :p :fn {:cap/ref :flow/taker}} {:op :emit :input :p}`, maybe},
		{`{:op :map :over [{:x "1"} {:x 1}] :item :i :as :p :fn {:cap/ref :flow/taker}} {:op :emit :input :p}`, maybe},
		{`{:op :map :over [{:x "1"} {}] :item :i :as :p :fn {:cap/ref :flow/taker}} {:op :emit :input :p}`, never},
		{`{:op :map :over ["a"] :item :i :as :p :fn {:cap/ref :flow/taker}} {:op :emit :input :p}`, never}, // the item becomes {:value "a"}

		{`{:op :let :value "text" :as :s} {:op :map :over :s :as :p :body [{:op :emit :input :item}]} {:op :emit :input :p}`, never},
		{`{:op :let :value {:a 5} :as :s} {:op :map :over {:slot/path [:s :a]} :as :p :body [{:op :emit :input :item}]} {:op :emit :input :p}`, never},
		{`{:op :let :value {:a 5} :as :s} {:op :map :over :s :as :p :body [{:op :emit :input :item}]} {:op :emit :input :p}`, maybe},
		{`{:op :let :value #{5} :as :s} {:op :map :over :s :as :p :body [{:op :emit :input :item}]} {:op :emit :input :p}`, maybe},
		{`{:op :let :value (5) :as :s} {:op :map :over :s :as :p :body [{:op :emit :input :item}]} {:op :emit :input :p}`, maybe},
		{`{:op :let :value [5] :as :s} {:op :map :over :s :item :i :as :p :body [{:op :map :over :i :item :j :as :q :body [{:op :emit :input :j}]} {:op :emit :input :q}]} {:op :emit :input :p}`, never},
		{`{:op :let :value [[5]] :as :s} {:op :map :over :s :item :i :as :p :body [{:op :map :over :i :item :j :as :q :body [{:op :emit :input :j}]} {:op :emit :input :q}]} {:op :emit :input :p}`, maybe},
		{`{:op :plan :as :p :bindings {:s "text"} :plan {:nodes [{:op :map :over :s :as :q :body [{:op :emit :input :item}]} {:op :emit :input :q}]}} {:op :emit :input :p}`, never},
	} {
		assert.Equal(t, tt.want, finds(t, flow(t, ":any", in), "CHECK-020", tt.nodes), tt.nodes)
	}
	written := `{:op :let :value "1" :as :s} ` + take(s)
	assert.False(t, finds(t, flow(t, ":any", "[:map [:x [:or :int [:not :int]]]]"), "CHECK-020", written))
	assert.Equal(t, []string{"CHECK-013 [:nodes 1 :requires :in-schema]"}, places(t, flow(t, ":any", in),
		`{:nodes [{:op :let :value "1" :as :s} {:op :call :intent :flow/take :requires {:in-schema :req/unknown} `+
			`:input {:x {:slot/id :s}}}]}`))
}

// SLOT-003, CHECK-017: a slot whose only writer never runs is never filled.
func TestSlotsOfNodesThatNeverRun(t *testing.T) {
	const never, maybe = true, false
	w := `{:op :let :value 1 :as :x} {:op :let :value 1 :when false :as :s} `
	for _, tt := range []struct {
		nodes string
		want  bool
	}{
		{w + `{:op :emit :input [{:slot/id :s} {:slot/id :x}]}`, never},
		{w + `{:op :emit :input :s}`, never},
		{w + `{:op :emit :input {:slot/path [:s :a]}}`, never},
		{w + `{:op :map :over :s :as :m :body [{:op :emit :input :item}]} {:op :emit :input :m}`, never},
		{w + `{:op :emit :input {:slot/id :s :slot/default 1}}`, maybe},
		{w + `{:op :emit :input :s :when {:present? :s}}`, maybe},
		{w + `{:op :emit :input :s :when false}`, maybe},
		{w + `{:op :emit :input :s :when true}`, never},
		{w + `{:op :emit :input 1 :when {:not {:present? :s}}}`, maybe},
		{w + `{:op :emit :input 1 :when {:or [true {:present? :s}]}}`, maybe},
		{w + `{:op :emit :input {:final :s}}`, never},
		{w + `{:op :plan :as :p :plan {:nodes [{:op :emit :input :s}]}} {:op :emit :input :p}`, never},
		{w + `{:op :plan :as :p :plan {:nodes [{:op :emit :input :s :when {:present? :s}}]}} {:op :emit :input 1}`, maybe},
		{w + `{:op :plan :as :p :when {:present? :s} :plan {:nodes [{:op :emit :input :s}]}} {:op :emit :input 1}`, maybe},
		{w + `{:op :plan :as :p :bindings {:s 1} :plan {:nodes [{:op :emit :input :s}]}} {:op :emit :input :p}`, maybe},
	} {
		assert.Equal(t, tt.want, finds(t, testEnv(t), "CHECK-017", tt.nodes), tt.nodes)
	}
}

// CHECK-049: a path key similar to one that the producer's schema names is a
// warning; a dissimilar key, or any key of an open schema without names, is
// not.
func TestMisspeltKeys(t *testing.T) {
	for _, tt := range []struct {
		out, path string
		want      bool
	}{
		{"[:map [:answer :int]]", ":out :answr", true},
		{"[:map [:answer :int]]", ":out :answer", false},
		{"[:map [:answer :int]]", ":out :other", false},
		{"[:map [:answer :int]]", ":answr", true},
		{"[:map [:answer [:map [:score :int]]]]", ":out :answer :scroe", true},
		{"[:map [:answer [:map [:score :int]]]]", ":out :answer :score", false},
		{"[:map [:answer :any]]", ":out :answer :scroe", false},
		{"[:or [:map [:answer :int]] [:map [:other :int]]]", ":out :answr", true},
		{"[:or [:map [:answer :int]] :int]", ":out :answr", false},
		{"[:or [:map [:answer :int]] :any]", ":out :answr", false},
		{"[:or [:map [:answer [:map [:score :int]]]] [:map-of :keyword :any]]", ":out :answer :scroe", false},
		{`[:map ["answer" :int]]`, ":out :answr", false},
		{"[:map [:answer :int]]", ":qualty :answr", false},
	} {
		nodes := fmt.Sprintf(`{:op :call :intent :flow/make :as :s} {:op :emit :input {:slot/path [:s %s]}}`, tt.path)
		assert.Equal(t, tt.want, finds(t, flow(t, tt.out, ":any"), "CHECK-049", nodes), "%s of %s", tt.path, tt.out)
	}
}

// CHECK-045: reading a slot whose writer has a condition is a warning, unless
// the reader has the same condition or tests whether the slot is filled.
func TestConditionalSlots(t *testing.T) {
	for _, tt := range []struct {
		writer, reader string
		want           bool
	}{
		{":when {:failed? :x}", ":input :y", true},
		{"", ":input :y", false},
		{":when true", ":input :y", false},
		{":when {:failed? :x}", ":input :y :when {:failed? :x}", false},
		{":when {:failed? :x}", ":input :y :when {:present? :y}", false},
		{":when {:failed? :x}", ":input [{:slot/id :x} {:slot/id :y}] :when {:present? :x}", true},
		{":when {:failed? :x}", ":input {:slot/id :y :slot/default 1}", false},
	} {
		nodes := `{:op :let :value 1 :as :x} {:op :let :value 1 ` + tt.writer + ` :as :y} {:op :emit ` + tt.reader + `}`
		assert.Equal(t, tt.want, finds(t, testEnv(t), "CHECK-045", nodes), nodes)
	}
}

// CHECK-019: the message names the first nodes of a long cycle and the number
// of the others.
func TestLongCycle(t *testing.T) {
	for n, want := range map[int]string{
		8:  "n0 -> n7 -> n6 -> n5 -> n4 -> n3 -> n2 -> n1 -> n0",
		11: "n0 -> n10 -> n9 -> n8 -> n7 -> n6 -> n5 -> n4 -> (3 more) -> n0",
	} {
		var nodes []string
		for i := range n {
			nodes = append(nodes, fmt.Sprintf(`{:op :let :id "n%d" :value 1 :needs ["n%d"]}`, i, (i+n-1)%n))
		}
		p, _ := readPlan(t, "{:nodes ["+strings.Join(nodes, " ")+"]}")
		require.NotNil(t, p)
		all := plan.Check(p, testEnv(t))
		require.Len(t, all, 1)
		assert.Contains(t, all[0].Message, want)
	}
}

// CHECK-020: a finding about a schema with alternatives names all of them, and
// the part of the input at which the closest alternatives fail.
func TestAlternativesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		out, input, in, at string
		says               []string
	}{
		{"[:or [:map [:a :string]] [:map [:a :keyword]]]", "{:x A}", "[:map [:x :int]]", "[:nodes 1 :input :x]", []string{":string or :keyword", ":int"}},
		{"[:map [:a :string]]", "{:x A}", "[:or [:map [:x :int]] [:map [:x :keyword]]]", "[:nodes 1 :input :x]", []string{":string", ":int or :keyword"}},
		{"[:map [:a [:or :string :keyword]]]", "{:x A}", "[:map [:x :int]]", "[:nodes 1 :input :x]", []string{":string or :keyword"}},
		{"[:or [:map [:a [:map [:b :string]]]] [:map [:a [:map [:b :keyword]]]]]", "{:x A}", "[:map [:x [:map [:b :int]]]]", "[:nodes 1 :input :x]", []string{":string or :keyword at [:b]"}},
		{"[:map [:a :int]]", "{:prompt A}", "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{"text that is not blank"}},
		{"[:map [:a :int]]", `{:prompt ["p" A]}`, "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{`["p" `, "text that is not blank"}},
		{"[:map [:a :int]]", `{:prompt {:txt A}}`, "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{"{:txt ", "text that is not blank"}},
		{"[:map [:a :int]]", `{:prompt 7}`, "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{"got 7", "text that is not blank"}},
		{"[:map [:a :int]]", `{:prompt [1]}`, "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{"got [1]", "text that is not blank"}},
		{"[:map [:a :int]]", `{:prompt {:txt "a"}}`, "[:ref :req/text]", "[:nodes 1 :input :prompt]", []string{`got {:txt "a"}`, "text that is not blank"}},
		{"[:map [:a :int]]", `{:x A :y A}`, "[:or [:map [:x :string]] [:map [:y :string]]]", "[:nodes 1 :input]", nil},
	} {
		p, fs := readPlan(t, fmt.Sprintf(`{:nodes [{:op :call :intent :flow/make :as :s}
			{:op :call :intent :flow/take :as :r :input %s} {:op :emit :input :r}]}`, strings.ReplaceAll(tt.input, "A", "{:slot/path [:s :a]}")))
		require.NotNil(t, p, "%v", fs)
		found := false
		for _, f := range plan.Check(p, flow(t, tt.out, tt.in)) {
			if f.Check != "CHECK-020" || f.Severity != plan.Error {
				continue
			}
			found = true
			assert.Equal(t, tt.at, edn.Vector(f.Path...).String(), tt.input)
			for _, s := range tt.says {
				assert.Contains(t, f.Message, s, tt.input)
			}
		}
		assert.True(t, found, "%s for %s", tt.input, tt.in)
	}
}
