package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// found is what a check finds, without positions.
func found(t *testing.T, env plan.Env, nodes string) []string {
	t.Helper()
	out := []string{}
	for _, line := range lines(t, "{:nodes ["+nodes+"]}", env) {
		_, text, _ := strings.Cut(line, ": ")
		out = append(out, text)
	}
	return out
}

// CHECK-003, CHECK-020: each slot of an input that cannot fit is a finding of its own, whatever another place of the
// same schema wants of the same slot; CHECK-049 is decided for each key.
func TestSeveralSlotsOfOneInput(t *testing.T) {
	const (
		two    = "[:map [:x :int] [:y :int]]"
		mixed  = "[:map [:a :string] [:b :int]]"
		given  = `{:op :let :value "a" :as :s} `
		made   = `{:op :call :intent :flow/make :as :s} `
		seldom = `{:op :let :value 1 :when {:failed? :y} :as :s} `
	)
	take := func(input string) string {
		return `{:op :call :intent :flow/take :as :r :input ` + input + `} {:op :emit :input :r}`
	}
	mapOver := func(over, body string) string {
		return `{:op :map :over ` + over + ` :item :s :as :p :body [` + body + `]} {:op :emit :input :p}`
	}
	s := "{:slot/id :s}"
	known := func(path string) string {
		return `error CHECK-020 :s is "a", which can never fit :req/taken in [:nodes ` + path + `]`
	}
	describes := func(slot, path string) string {
		return "error CHECK-020 [:s :out " + slot + "] of schema :res/made can never fit :req/taken in [:nodes 1 :input " + path + "]"
	}
	unnamed := func(key, path, near string) string {
		return "warning CHECK-049 :req/taken does not name the key " + key + ", in [:nodes 0 :input " + path + "]; nearest is " + near
	}
	for _, tt := range []struct {
		out, in, nodes string
		want           []string
	}{
		{":any", two, given + `{:op :let :value "b" :as :u} ` + take("{:x {:slot/id :s} :y {:slot/id :u}}"), []string{
			known("2 :input :x"), strings.NewReplacer(":s is", ":u is", `"a"`, `"b"`).Replace(known("2 :input :y"))}},
		{":any", "[:map [:x :any]]", given + take("{:x "+s+"}"), nil},
		{":any", "[:map [:x [:or :any :int]]]", given + take("{:x "+s+"}"), nil},
		{":any", "[:map {:closed true} [:x :int]]", given + take("{:x 1 :z "+s+"}"),
			[]string{"error CHECK-020 the :input of :flow/take: unknown key, in [:nodes 1 :input :z]"}},
		{mixed, two, made + take("{:x {:slot/path [:s :out :a]} :y {:slot/path [:s :out :b]}}"), []string{describes(":a", ":x")}},
		{mixed, two, made + take("{:x {:slot/path [:s :out :b]} :y {:slot/path [:s :out :a]}}"), []string{describes(":a", ":y")}},
		{mixed, "[:map [:x :int] [:y :string]]", made + take("{:x {:slot/path [:s :out :a]} :y {:slot/path [:s :out :a]}}"),
			[]string{describes(":a", ":x")}},
		{mixed, "[:map [:x :string] [:y :int]]", made + take("{:x {:slot/path [:s :out :a]} :y {:slot/path [:s :out :a]}}"),
			[]string{describes(":a", ":y")}},
		{"[:map [:a :string]]", "[:map [:x [:map [:out :any]]] [:y :int]]",
			made + take("{:x {:slot/id :s} :y {:slot/path [:s :out]}}"),
			[]string{"error CHECK-020 [:s :out] of schema :res/made can never fit :req/taken in [:nodes 1 :input :y]"}},

		// The items of a written list are followed up to 64.
		{":any", "[:map [:x :int]]", mapOver("["+strings.Repeat(`"a" `, 64)+"]", take("{:x "+s+"}")), []string{known("0 :body 0 :input :x")}},
		{":any", "[:map [:x :int]]", mapOver("["+strings.Repeat(`"a" `, 65)+"]", take("{:x "+s+"}")), nil},
		{":any", "[:map [:x :int]]", `{:op :let :value ["a"] :as :l} ` + mapOver("[{:slot/id :l}]", take("{:x "+s+"}")), nil},

		// Slots that may be empty.
		{":any", "[:map [:x :int]]", `{:op :call :intent :flow/make :as :y} ` + seldom + take("{:x "+s+"}"), []string{
			"warning CHECK-045 slot :s may be unfilled because node n1 has a condition; use :slot/default or :when in [:nodes 2 :input :x]"}},
		{":any", ":any", `{:op :let :value 1 :when false :as :s} {:op :emit :input 1 :when {:present? :s}}`, []string{
			"warning CHECK-041 node n0 never runs: its condition is always false, in [:nodes 0]"}},
		{":any", ":any", `{:op :let :value 1 :when false :as :s} {:op :plan :when {:failed? :s} :as :p :plan {:nodes [{:op :emit :input :s}]}} {:op :emit :input :p}`, []string{
			"warning CHECK-041 node n0 never runs: its condition is always false, in [:nodes 0]",
			"warning CHECK-045 slot :p may be unfilled because node n1 has a condition; use :slot/default or :when in [:nodes 2 :input]"}},

		// No input is an empty one.
		{":any", "[:map [:x :int]]", `{:op :call :intent :flow/take}`,
			[]string{"error CHECK-020 the :input of :flow/take: required key is missing, in [:nodes 0 :input :x]"}},
		{":any", "[:map [:x {:optional true} :int]]", `{:op :call :intent :flow/take}`, nil},

		// Keys that an open schema does not name.
		{":any", "[:map [:limit {:optional true} [:map [:seconds {:optional true} :int]]] [:clauses {:optional true} :any]]",
			take("{:limit {:second {:slot/id :v}} :clause 2}"),
			[]string{unnamed(":second", ":limit :second", ":seconds"), unnamed(":clause", ":clause", ":clauses")}},
		{":any", "[:map [:l {:optional true} [:vector [:or [:map [:weight {:optional true} :int]] :any]]]]",
			take("{:l [{:wieght {:slot/id :v}}]}"), nil},
		{":any", "[:map [:a {:optional true} :int] [:b {:optional true} [:map [:weight {:optional true} :int]]]]",
			take("{:a {:slot/id :v} :b {:wieght 1}}"), []string{unnamed(":wieght", ":b :wieght", ":weight")}},
		{":any", "[:map [:a {:optional true} :int] [:weight {:optional true} :int]]",
			take("{:a {:slot/id :v} :wieght {:slot/id :v}}"), []string{unnamed(":wieght", ":wieght", ":weight")}},
		{":any", "[:map [:a {:optional true} [:map [:x {:optional true} :int]]] [:weight {:optional true} :int]]",
			take(`{:a {"k" {:slot/id :v}} :wieght 1}`), []string{unnamed(":wieght", ":wieght", ":weight")}},

		// What a map goes over.
		{"[:map [:n :int]]", ":any", made + mapOver("{:slot/path [:s :out :n]}", "{:op :emit :input :s}"),
			[]string{"error CHECK-020 [:s :out :n] of schema :res/made is no collection, in [:nodes 1 :over]"}},
		{"[:map [:n [:vector :int]]]", ":any", made + mapOver("{:slot/path [:s :out :n]}", "{:op :emit :input :s}"), nil},
		{"[:map [:n [:or :int :any]]]", ":any", made + mapOver("{:slot/path [:s :out :n]}", "{:op :emit :input :s}"), nil},
		{"[:map [:n :int]]", ":any", made + `{:op :plan :as :q :plan {:nodes [` + mapOver("{:slot/path [:s :out :n]}", "{:op :emit :input :s}") + `]}} {:op :emit :input :q}`, nil},
	} {
		env := flow(t, tt.out, tt.in)
		env.Outer = func(name string) bool { return name == "v" }
		assert.Equal(t, append([]string{}, tt.want...), found(t, env, tt.nodes), "%s, %s: %.200s", tt.out, tt.in, tt.nodes)
	}
}

// CHECK-021, CHECK-025: why nobody can serve a call, at the key of the node that leaves nobody.
func TestWhyNobodyServes(t *testing.T) {
	const respond = `{:op :call :intent :text/respond :input {:prompt "p"}`
	const write = `{:op :call :intent :fs/write :input {:path "a" :content "b"} :effects {:allowed #{:fs/write}}`
	excluded := []string{"error CHECK-025 no candidate can serve :text/respond: all are excluded, in [:nodes 0 :dispatch :exclude]"}
	for nodes, want := range map[string][]string{
		respond + ` :cap/id :llm/voice :dispatch {:exclude [:llm/voice]}}`:       excluded,
		respond + ` :dispatch {:candidates [:llm/voice] :exclude [:llm/voice]}}`: excluded,
		respond + ` :dispatch {:exclude [:llm/voice]}}`:                          excluded,
		`{:op :call :intent :idle/nobody :dispatch {:exclude [:llm/voice]}}`:     {"error CHECK-025 nothing serves :idle/nobody in [:nodes 0 :intent]"},
		`{:op :call :intent :idle/nobody :dispatch {:candidates [:llm/voice] :exclude [:llm/voice]}}`: {
			"error CHECK-025 no candidate can serve :idle/nobody: all are excluded, in [:nodes 0 :intent]"},
		`{:op :call :intent :idle/nobody :cap/id :llm/voice}`: {
			"error CHECK-025 no candidate can serve :idle/nobody in [:nodes 0 :intent]: :llm/voice is intent/not-supported"},
		`{:op :call :intent :idle/nobody :requires {:cap/kind :solver}}`: {
			"error CHECK-025 nothing serves :idle/nobody in [:nodes 0 :intent]"},
		respond + ` :requires {:cap/kind :solver :cap/tags #{:x}}}`: {
			"error CHECK-025 no candidate can serve :text/respond in [:nodes 0 :requires :cap/kind]: :llm/voice is requires/cap-kind-mismatch"},
		write + ` :requires {:effects/allowed #{:none}}}`: {
			"error CHECK-025 no candidate can serve :fs/write in [:nodes 0 :requires :effects/allowed]: :fs/write is effects/not-allowed"},
		write + ` :requires {:effects/allowed #{:fs/write}}}`: {},
		`{:op :tool :tool/id :fs/read :input {}}`:             {"error CHECK-015 the op :tool needs :effects in [:nodes 0]"},
		`{:op :tool :tool/id :fs/read :input {} :dispatch {:retry {:same-cap-max 1} :switch-on #{:class/retry}}}`: {
			"error CHECK-015 the op :tool needs :effects in [:nodes 0]"},
	} {
		assert.Equal(t, want, found(t, testEnv(t), nodes), nodes)
	}
}

// CHECK-025: of many candidates that cannot serve a call the first four are named, and of several reasons the key of
// the node without which one could.
func TestManyRejectedCandidates(t *testing.T) {
	spec := testSpec(t)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		spec.Capabilities = append(spec.Capabilities, serve("many/"+name, "llm", "many/serve", "req/any", "res/any"))
	}
	spec.Capabilities = append(spec.Capabilities,
		serve("mix/writer", "llm", "mix/serve", "req/any", "res/any", withEffects("fs/write")),
		serve("mix/other", "tool", "mix/serve", "req/any", "res/any", func(c *contract.Capability) { c.Tags = []string{"t"} }))
	r, err := registry.New(spec)
	require.NoError(t, err)
	env := plan.Env{Registry: r}
	assert.Equal(t, []string{"error CHECK-025 no candidate can serve :many/serve in [:nodes 0 :requires :cap/kind]: " +
		":many/a is requires/cap-kind-mismatch, :many/b is requires/cap-kind-mismatch, :many/c is requires/cap-kind-mismatch, " +
		":many/d is requires/cap-kind-mismatch, and 2 more"},
		found(t, env, `{:op :call :intent :many/serve :requires {:cap/kind :solver}}`))
	assert.Equal(t, []string{"error CHECK-025 no candidate can serve :mix/serve in [:nodes 0 :requires :cap/kind]: " +
		":mix/writer is effects/not-allowed, :mix/other is requires/cap-kind-mismatch"},
		found(t, env, `{:op :call :intent :mix/serve :effects {:allowed #{:none :fs/write}} :requires {:cap/kind :llm :effects/allowed #{:none}}}`))
}

// CHECK-018: a later node is looked for in all plans around, and named by its place.
func TestLaterNodes(t *testing.T) {
	nest := func(inner, rest string) string {
		return `{:op :plan :as :p :plan {:nodes [{:op :plan :as :q :plan {:nodes [` + inner + `]}} {:op :emit :input :q}]}} ` + rest
	}
	for nodes, want := range map[string][]string{
		nest(`{:op :emit :input :later}`, `{:op :let :value 1 :as :later} {:op :emit :input :p}`): {
			"error CHECK-018 slot :later is filled later, by node 1 at 1:149; move the emit or use :slot/default"},
		nest(`{:op :emit :input :p}`, `{:op :emit :input :p}`): {
			"error CHECK-018 node n0 reads slot :p, which it fills itself; rename one of them or use :slot/default, in " +
				"[:nodes 0 :plan :nodes 0 :plan :nodes 0 :input]"},
	} {
		assert.Equal(t, want, found(t, testEnv(t), nodes), nodes)
	}
}
