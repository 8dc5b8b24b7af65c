package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CHECK-049: an input key that resembles a key which its open schema names and
// the input lacks is a warning at the key. Other keys may be intended.
func TestMisspeltInputKeys(t *testing.T) {
	const open = "[:map [:clauses {:optional true} [:vector [:map [:weight {:optional true} :int]]]] [:limit {:optional true} [:maybe [:map [:seconds {:optional true} :int]]]]]"
	for _, tt := range []struct{ in, input, want, near string }{
		{open, "{:clause 1}", "[:clause]", ":clauses"},
		{open, "{:clauses []}", "", ""},
		{open, "{:clauses [] :clause 1}", "", ""},
		{open, "{:other 1}", "", ""},
		{open, "{:other {:slot/id :v}}", "", ""},
		{open, "{:clause {:slot/id :v}}", "[:clause]", ":clauses"},
		{open, `{"clause" 1}`, "", ""},
		{"[:map [:a [:map [:x {:optional true} :int]]]]", `{:a {"k" {:slot/id :v}}}`, "", ""},
		{open, "{:slot/id :v}", "", ""},
		{open, "{}", "", ""},
		{open, "{:limit {:second 1}}", "[:limit :second]", ":seconds"},
		{open, "{:limit {:seconds 1}}", "", ""},
		{open, "{:limit {:slot/id :v}}", "", ""},
		{open, "{:clauses [{:weight 1} {:wieght 1}]}", "[:clauses 1 :wieght]", ":weight"},
		{open, "{:clauses [{:slot/id :v} {:wieght {:slot/id :v}}]}", "[:clauses 1 :wieght]", ":weight"},
		{open, "{:limits {:x 1}}", "[:limits]", ":limit"},
		{"[:map [:l [:map-of :keyword [:map [:weight {:optional true} :int]]]]]", "{:l {:a {:wieght 1}}}", "[:l :a :wieght]",
			":weight"},
		{"[:map [:l [:tuple :int [:map [:weight {:optional true} :int]]]]]", "{:l [1 {:wieght 1}]}", "[:l 1 :wieght]",
			":weight"},
		{"[:or [:map [:clauses :int]] [:map [:text :string]]]", `{:text "t" :clause 1}`, "[:clause]", ":clauses"},
		{"[:or [:map [:clauses :int]] [:map [:text :string]]]", `{:text "t" :texts 1}`, "", ""},
		{"[:or [:map [:clauses {:optional true} :int]] :any]", "{:clause 1}", "", ""},
		{"[:or [:map [:clauses {:optional true} :int]] [:map-of :keyword :int]]", "{:clause 1}", "", ""},
		{"[:map [:l [:or [:map [:weight {:optional true} :int]] :any]]]", "{:l {:wieght 1}}", "", ""},
		{"[:map [:l [:map [:limit {:optional true} :int] [:limits {:optional true} :int]]]]", "{:l {:limit 1}}", "", ""},
		{"[:map [:l [:map [:slot/ids {:optional true} :int]]]]", "{:l {:slot/id :v}}", "", ""},
		{":map", "{:clause 1}", "", ""},
		{":any", "{:clause 1}", "", ""},
		{`[:map ["clauses" {:optional true} :int]]`, "{:clause 1}", "", ""},
	} {
		text := `{:nodes [{:op :call :intent :flow/take :input ` + tt.input + `}]}`
		p, fs := readPlan(t, text)
		require.NotNil(t, p, "%v", fs)
		env := flow(t, ":any", tt.in)
		env.Outer = func(name string) bool { return name == "v" }
		got, near := "", ""
		for _, f := range plan.Check(p, env) {
			require.Equal(t, "warning CHECK-049", f.Severity.String()+" "+f.Check, f.Message)
			got, near = edn.Vector(f.Path[3:]...).String(), f.Nearest.String()
		}
		assert.Equal(t, tt.want+tt.near, got+near, "%s for %s", tt.input, tt.in)
	}
	assert.Equal(t, []string{"CHECK-049 [:nodes 0 :input :clause]", "CHECK-049 [:nodes 0 :input :limt]"}, places(t,
		flow(t, ":any", open), `{:nodes [{:op :call :intent :flow/take :input {:clause 1 :limt 1}}]}`))
	// With a closed schema it is an error.
	got := places(t, flow(t, ":any", "[:map {:closed true} [:clauses :int]]"),
		`{:nodes [{:op :call :intent :flow/take :input {:clause 1}}]}`)
	assert.NotContains(t, got, "CHECK-049 [:nodes 0 :input :clause]")
	assert.Contains(t, got, "CHECK-020 [:nodes 0 :input :clause]")
	assert.Equal(t, []string{"CHECK-049 [:nodes 0 :input :clause]"}, places(t, flow(t, ":any", open),
		`{:nodes [{:op :tool :tool/id :flow/taker :effects {:allowed #{:none}} :input {:clause 1}}]}`), "a tool")
}

// BUD-007, CHECK-046: where a node or the policy of its intent limits money, a
// candidate without a price is a warning.
func TestUnknownPrices(t *testing.T) {
	free := func(c *contract.Capability) { c.Cost.USD = edn.MustRead("0M") }
	perToken := func(c *contract.Capability) {
		c.Cost.USDInPerMTok, c.Cost.USDOutPerMTok = edn.MustRead("1M"), edn.MustRead("2M")
	}
	half := func(c *contract.Capability) { c.Cost.USDInPerMTok = edn.MustRead("1M") }
	limits := func(text string) policy.Fields { return policy.FieldsOf(edn.MustRead(text), policy.Origin{}) }
	const node, at, tool = `:budget {:max-usd 1M}`, "CHECK-046 [:nodes 0 :budget :max-usd]",
		"{:op :tool :tool/id :p/one :effects {:allowed #{:none}} "
	for _, tt := range []struct {
		name     string
		one, two func(*contract.Capability)
		node     string
		change   func(*plan.Env)
		want     string
	}{
		{"unknown", nil, nil, node, nil, at},
		{"one known", free, nil, node, nil, at},
		{"known", free, free, node, nil, ""},
		{"by token", free, perToken, node, nil, ""},
		{"half of a price", free, half, node, nil, at},
		{"no limit", nil, nil, "", nil, ""},
		{"another limit", nil, nil, ":budget {:max-attempts 2}", nil, ""},
		{"the known one is asked", free, nil, node + " :cap/id :p/one", nil, ""},
		{"the unknown one is asked", nil, free, node + " :cap/id :p/one", nil, at},
		{"candidates of a slot", nil, nil, node + " :dispatch {:candidates [{:slot/id :v}]}", nil, ""},
		{"at least", free, nil, node, func(env *plan.Env) {
			env.Budgets = &policy.Budgets{Run: policy.ScopeBudget{Written: true, AtLeast: true}}
		}, ""},
		{"at least what", nil, nil, node, func(env *plan.Env) {
			env.Budgets = &policy.Budgets{Run: policy.ScopeBudget{Written: true, AtLeast: true}}
		}, at},
		{"limit of the intent", nil, nil, "", func(env *plan.Env) {
			env.Policies = &policy.Book{Intents: map[string]policy.Layer{"p/call": {Budget: limits("{:max-usd 1M}")}}}
		}, "CHECK-046 [:nodes 0 :intent]"},
		{"limit of the request", nil, nil, "", func(env *plan.Env) { env.Request.Budget = limits("{:max-usd 1M}") }, ""},
		{"limit of both", nil, nil, node, func(env *plan.Env) { env.Request.Budget = limits("{:max-usd 1M}") }, at},
	} {
		one, two := serve("p/one", "tool", "p/call", "req/any", "res/any"), serve("p/two", "tool", "p/call", "req/any",
			"res/any")
		for c, change := range map[*registry.Capability]func(*contract.Capability){&one: tt.one, &two: tt.two} {
			if change != nil {
				change(&c.Capability)
			}
		}
		spec := testSpec(t)
		spec.Capabilities = []registry.Capability{one, two}
		r, err := registry.New(spec)
		require.NoError(t, err)
		env := plan.Env{Registry: r, Outer: func(name string) bool { return name == "v" }}
		if tt.change != nil {
			tt.change(&env)
		}
		got := places(t, env, `{:nodes [{:op :call :intent :p/call `+tt.node+`}]}`)
		assert.Equal(t, tt.want, append(got, "")[0], tt.name)
		if tt.name == "unknown" || tt.name == "known" {
			assert.Equal(t, tt.want, append(places(t, env, "{:nodes ["+tool+node+"}]}"), "")[0], "tool: "+tt.name)
		}
	}
	spec := testSpec(t)
	spec.Capabilities = []registry.Capability{
		serve("fs/read-file", "tool", "fs/read-file", "req/any", "res/any", withEffects("fs/read"))}
	r, err := registry.New(spec)
	require.NoError(t, err)
	assert.Equal(t, []string{at}, places(t, plan.Env{Registry: r},
		`{:nodes [{:op :tool :tool/id :fs/read :effects {:allowed #{:fs/read}} `+node+`}]}`), "a tool by its alias")
}
