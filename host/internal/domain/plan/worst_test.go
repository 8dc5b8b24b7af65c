package plan_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func priced(usd string, more ...func(*contract.Capability)) func(*contract.Capability) {
	return func(c *contract.Capability) {
		c.Cost.USD = edn.MustRead(usd)
		for _, f := range more {
			f(c)
		}
	}
}

// pricedEnv is an environment with prices: :t/a costs a cent, :t/b, which
// repairs, 0.4 cents, the check 0.15 cents.
func pricedEnv(t testing.TB) plan.Env {
	checks, err := quality.NewSet(quality.Check{Check: registry.Check{Name: "judged", Kind: registry.CheckCapability, Intent: "t/judge", Timeout: time.Second}})
	require.NoError(t, err)
	spec := testSpec(t)
	r, err := registry.New(registry.Spec{
		Schemas: spec.Schemas, Checks: checks.Declarations(),
		Judges: []registry.Judge{
			{Name: "three", Intent: registry.IntentGrade, Capability: "t/grader", Enabled: true, Votes: 3, MaxAttempts: 1},
			{Name: "two-of-them", Intent: registry.IntentGrade, Enabled: true, Votes: 3, MaxAttempts: 2},
			{Name: "off", Intent: registry.IntentGrade, Votes: 3, MaxAttempts: 1},
		},
		Intents: []registry.Intent{{ID: "t/ask", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}}, {ID: "t/judge", In: "req/any", Out: "res/any"}, {ID: "t/model", In: "req/any", Out: "res/any"}, {ID: "t/reason", In: "req/any", Out: "res/any"}, {ID: "t/plan", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}}},
		Capabilities: []registry.Capability{
			serve("t/a", "solver", "t/ask", "req/any", "res/any", priced("0.010M", func(c *contract.Capability) { c.Limits.Timeout = 2 * time.Second })),
			serve("t/b", "solver", "t/ask", "req/any", "res/any", priced("0.004M", func(c *contract.Capability) { c.Repairs = true; c.Limits.Timeout = time.Second })),
			serve("t/grader", "judge", registry.IntentGrade, "req/any", "res/any", priced("0.001M", func(c *contract.Capability) { c.Limits.Timeout = time.Second })),
			serve("t/rules", "judge", registry.IntentGrade, "req/any", "res/any", priced("0.0001M", func(c *contract.Capability) { c.Deterministic = true; c.Limits.Timeout = time.Second })),
			serve("t/judge", "checker", "t/judge", "req/any", "res/any", priced("0.0015M")),
			serve("t/model", "llm", "t/model", "req/any", "res/any", func(c *contract.Capability) {
				c.Cost.USDInPerMTok, c.Cost.USDOutPerMTok = edn.Int(1), edn.Int(10)
				c.Limits.ContextTokens, c.Limits.MaxTokens = 1000, 100
			}),
			serve("t/reasoner", "llm", "t/reason", "req/any", "res/any", func(c *contract.Capability) {
				c.Cost.USDInPerMTok, c.Cost.USDOutPerMTok = edn.Int(1), edn.Int(10)
				c.Limits.MaxTokens, c.Limits.HeadroomTokens = 100, 2000
			}),
			serve("t/planner", "solver", "t/plan", "req/any", "res/any", priced("1"), canPlan),
			serve("t/free", "solver", "t/free", "req/any", "res/any", priced("0")),
			serve("t/secret", "solver", "t/secret", "req/any", "res/any"),
		},
	})
	require.NoError(t, err)
	return plan.Env{Registry: r}
}

// BUD-008: the worst case of every form of node.
func TestWorstCase(t *testing.T) {
	ask := `{:op :call :intent :t/ask :input {:q 1} :as :x :dispatch {:candidates [:t/a :t/b] `
	for _, row := range []struct{ name, nodes, worst, line, open string }{
		{"the example of two candidates", ask + `:retry {:same-cap-max 1 :fallback-max 1} :repair {:max 1}} :done {:must #{:judged}}}`, `{:attempts 5 :roundtrips 5 :usd 0.047M :wall-ms 12000}`, "roundtrips 5, attempts 5, usd 0.047, wall 12s", ""},
		{"one try of one candidate", `{:op :call :intent :t/ask :input {:q 1} :as :x}`, `{:attempts 1 :roundtrips 1 :usd 0.01M :wall-ms 2000}`, "", ""},
		{"any of the candidates may be the one", ask + `}}`, `{:attempts 1 :roundtrips 1 :usd 0.01M :wall-ms 2000}`, "", ""},
		{"a race asks as many as it is wide", ask + `:strategy :race :race {:width 2}}}`, `{:attempts 2 :roundtrips 2 :usd 0.014M :wall-ms 3000}`, "", ""},
		{"a node's own budget is a bound", ask + `:retry {:same-cap-max 16}} :budget {:max-usd 0.05M :max-attempts 3}}`, `{:attempts 3 :roundtrips 17 :usd 0.05M :wall-ms 34000}`, "", ""},
		{"a deadline is a bound", ask + `:retry {:same-cap-max 16}} :deadline-ms 1500}`, `{:attempts 17 :roundtrips 17 :usd 0.17M :wall-ms 1500}`, "", ""},
		{"a wall budget is a bound", ask + `:retry {:same-cap-max 16}} :budget {:max-wall-ms 1500}}`, `{:attempts 17 :roundtrips 17 :usd 0.17M :wall-ms 1500}`, "", ""},
		{"the lower one of wall budget and deadline", ask + `:retry {:same-cap-max 16}} :budget {:max-wall-ms 1500} :deadline-ms 1200}`, `{:attempts 17 :roundtrips 17 :usd 0.17M :wall-ms 1200}`, "", ""},
		{"a wall budget bounds what has no timeout", `{:op :call :intent :t/free :input {:q 1} :as :x :budget {:max-wall-ms 5}}`, `{:attempts 1 :roundtrips 1 :wall-ms 5}`, "", ""},
		{"a wall budget above the worst case", `{:op :call :intent :t/ask :input {:q 1} :as :x :budget {:max-wall-ms 9000}}`, `{:attempts 1 :roundtrips 1 :usd 0.01M :wall-ms 2000}`, "", ""},
		{"wall budgets whose sum no duration holds", `{:op :call :intent :t/free :input {:q 1} :as :x :budget {:max-wall-ms 9000000000000}} {:op :call :intent :t/free :input {:q {:slot/id :x}} :as :y :budget {:max-wall-ms 9000000000000}}`, `{:attempts 2 :roundtrips 2 :wall-ms 9223372036854}`, "", ""},
		{"a condition is taken as true", `{:op :let :value true :as :y} {:op :call :when :y :intent :t/ask :input {:q 1} :as :x}`, `{:attempts 1 :roundtrips 1 :usd 0.01M :wall-ms 2000}`, "", ""},
		{"side by side is not longer", `{:op :call :intent :t/ask :input {:q 1} :as :x} {:op :call :intent :t/ask :input {:q 2} :as :y}`, `{:attempts 2 :roundtrips 2 :usd 0.02M :wall-ms 2000}`, "", ""},
		{"one after another is", `{:op :call :id "a" :intent :t/ask :input {:q 1} :as :x} {:op :call :intent :t/ask :input {:q {:slot/id :x}} :as :y}`, `{:attempts 2 :roundtrips 2 :usd 0.02M :wall-ms 4000}`, "", ""},
		{"a map by its items", `{:op :map :over [1 2 3 4 5] :item :n :max-parallel 2 :body [{:op :call :intent :t/ask :input {:q {:slot/id :n}} :as :x}] :as :ys}`, `{:attempts 5 :depth 1 :roundtrips 5 :usd 0.05M :wall-ms 6000}`, "", ""},
		{"a map over a slot by the most that there may be", `{:op :let :value [1] :as :l} {:op :map :over :l :item :n :body [{:op :call :intent :t/ask :input {:q {:slot/id :n}} :as :x}] :as :ys}`, `{:attempts 1000 :depth 1 :roundtrips 1000 :usd 10M :wall-ms 500000}`, "", ""},
		{"an inline plan by its nodes", `{:op :plan :plan {:nodes [{:op :plan :plan {:nodes [{:op :call :intent :t/ask :input {:q 1} :as :x}]} :as :y}]} :as :z}`, `{:attempts 1 :depth 2 :roundtrips 1 :usd 0.01M :wall-ms 2000}`, "", ""},
		{"nothing", `{:op :let :value 1 :as :x} {:op :emit :input :x}`, `{}`, "", ""},
		{"tokens by their bounds", `{:op :call :intent :t/model :input {:q 1} :as :x :budget {:max-tokens 50}}`, `{:attempts 1 :roundtrips 1 :tokens-in 28 :tokens-out 50 :usd 0.000528M}`, "", ""},
		{"reasoning comes on top", `{:op :call :intent :t/reason :input {:q 1} :as :x :budget {:max-tokens 50}}`, `{:attempts 1 :roundtrips 1 :tokens-in 28 :tokens-out 2050 :usd 0.020528M}`, "", ""},
		{"tokens of an unknown question", `{:op :let :value 1 :as :y} {:op :call :intent :t/model :input {:q {:slot/id :y}} :as :x}`, `{:attempts 1 :roundtrips 1 :tokens-in 1000 :tokens-out 100 :usd 0.002M}`, "", ""},
		{"free is a price", `{:op :call :intent :t/free :input {:q 1} :as :x}`, `{:attempts 1 :roundtrips 1}`, "roundtrips 1, attempts 1", ""},
		{"no price is none", `{:op :call :intent :t/secret :input {:q 1} :as :x}`, `{:attempts 1 :roundtrips 1}`, "roundtrips 1, attempts 1, usd unknown", "usd"},
		{"who may answer with a plan has no bound", `{:op :call :intent :t/plan :input {:q 1} :as :x}`, `{}`, "tokens-in unbounded, tokens-out unbounded, roundtrips unbounded, attempts unbounded, judge-calls unbounded, usd unbounded", "tokens-in tokens-out roundtrips attempts judge-calls usd"},
		{"but that of its node", `{:op :call :intent :t/plan :input {:q 1} :as :x :budget {:max-usd 3 :max-attempts 4}}`, `{:attempts 4 :usd 3M}`, "", "tokens-in tokens-out roundtrips judge-calls"},
	} {
		t.Run(row.name, func(t *testing.T) {
			env := pricedEnv(t)
			p, _ := plan.Parse(edn.MustRead("{:nodes ["+row.nodes+"]}"), nil)
			require.NotNil(t, p)
			findings := plan.Check(p, env) // includes those of Parse
			require.False(t, plan.HasErrors(findings), "%v", findings)
			w := plan.WorstCase(p, env)
			assert.Equal(t, row.worst, w.Value().String())
			if row.line != "" {
				assert.Equal(t, row.line, w.String())
			}
			open := ""
			for x := range w.OpenValue().Elems() {
				d, _ := x.Key("dimension").AsKeyword()
				if open != "" {
					open += " "
				}
				open += d
			}
			assert.Equal(t, row.open, open)
		})
	}
}

// BUD-001, BUD-008: the wall budgets of the request and of the configuration
// end the run and bound its worst case.
func TestWorstCaseWithinWallBudgets(t *testing.T) {
	const (
		ask  = `{:op :call :intent :t/ask :input {:q 1} :as :x}` // takes at most 2 s
		free = `{:op :call :intent :t/free :input {:q 1} :as :x}`
		long = `{:op :let :value [1] :as :l} {:op :map :over :l :as :m :body [{:op :map :over :l :as :k :body [` +
			`{:op :call :intent :t/free :input {} :as :x :budget {:max-wall-ms 9000000000000}}]}]}`
	)
	for _, row := range []struct {
		nodes, request string
		budgets        *policy.Budgets
		want           time.Duration
	}{
		{ask, "{}", nil, 2 * time.Second},
		{ask, "{:max-wall-ms 700}", nil, 700 * time.Millisecond},
		{ask, "{:max-wall-ms 0}", nil, time.Nanosecond},
		{ask, "{:max-wall-ms 2001}", nil, 2 * time.Second},
		{ask, "{:max-wall-ms 700}", &policy.Budgets{Run: policy.ScopeBudget{Wall: time.Second}}, 700 * time.Millisecond},
		{ask, "{:max-wall-ms 700}", &policy.Budgets{Run: policy.ScopeBudget{Wall: time.Millisecond}}, time.Millisecond},
		{ask, "{}", &policy.Budgets{User: policy.ScopeBudget{Wall: 3 * time.Second}, Tenant: policy.ScopeBudget{Wall: time.Second}}, time.Second},
		{free, "{}", nil, 0},
		{free, "{}", &policy.Budgets{Run: policy.ScopeBudget{Wall: time.Second}}, time.Second},
		{`{:op :emit :input 1}`, "{}", &policy.Budgets{Run: policy.ScopeBudget{Wall: time.Second}}, 0},
		{long, "{}", nil, math.MaxInt64},
		{long, "{}", &policy.Budgets{Run: policy.ScopeBudget{Wall: time.Second}}, time.Second},
	} {
		env := pricedEnv(t)
		env.Budgets = row.budgets
		env.Request.Budget = policy.FieldsOf(edn.MustRead(row.request), policy.Origin{Source: policy.SourceRequest})
		p, _ := readPlan(t, "{:nodes ["+row.nodes+"]}")
		require.NotNil(t, p)
		w := plan.WorstCase(p, env)
		assert.Equal(t, row.want, w.Wall, "%s with %s and %+v", row.nodes, row.request, row.budgets)
	}
}

// BUD-008: the example of the requirement, with a judge of three votes, and
// other judges.
func TestWorstCaseOfJudges(t *testing.T) {
	ask := `{:op :call :intent :t/ask :input {:q 1} :as :x :dispatch {:candidates [:t/a :t/b] :retry {:same-cap-max 1 :fallback-max 1} :repair {:max 1}}}`
	for judge, want := range map[string]string{
		"three":       `{:attempts 5 :judge-calls 15 :roundtrips 5 :usd 0.047M :wall-ms 22000}`,
		"two-of-them": `{:attempts 5 :judge-calls 40 :roundtrips 5 :usd 0.063M :wall-ms 47000}`,
		"off":         `{:attempts 5 :roundtrips 5 :usd 0.032M :wall-ms 7000}`,
	} {
		env := pricedEnv(t)
		env.Policies = &policy.Book{Intents: map[string]policy.Layer{"t/ask": {Judge: policy.Of(judge, policy.Origin{Source: policy.SourceIntent})}}}
		p, _ := plan.Parse(edn.MustRead("{:nodes ["+ask+"]}"), nil)
		require.NotNil(t, p)
		w := plan.WorstCase(p, env)
		assert.Equal(t, want, w.Value().String(), judge)
		assert.Equal(t, "[]", w.OpenValue().String())
	}
	env := pricedEnv(t)
	env.Policies = &policy.Book{Intents: map[string]policy.Layer{"t/ask": {Judge: policy.Of("three", policy.Origin{})}}}
	limits, err := policy.LimitsOf(edn.MustRead("{:max-usd 0.04M}"))
	require.NoError(t, err)
	env.Budgets = &policy.Budgets{Run: policy.ScopeBudget{Written: true, Limits: limits, RefuseWorst: true}}
	p, _ := plan.Parse(edn.MustRead("{:nodes ["+ask+"]}"), nil)
	w := plan.WorstCase(p, env)
	findings := plan.WithinBudget(&w, env, nil)
	require.Len(t, findings, 1)
	assert.Equal(t, "CHECK-023", findings[0].Check)
	assert.Equal(t, "the worst case is 0.047 usd, and the budget allows 0.04", findings[0].Message)
}

// CHECK-023, CHECK-046: a plan and the budgets that limit it.
func TestWithinBudget(t *testing.T) {
	block := func(limits string, refuse bool) policy.ScopeBudget {
		l, err := policy.LimitsOf(edn.MustRead(limits))
		require.NoError(t, err)
		return policy.ScopeBudget{Written: true, Limits: l, RefuseWorst: refuse}
	}
	dear := `{:op :call :intent :t/ask :input {:q 1} :as :x :dispatch {:retry {:same-cap-max 3} :switch-on #{:class/retry}}}`
	for _, row := range []struct {
		name, nodes string
		request     string
		run         policy.ScopeBudget
		want        []string
	}{
		{"within", dear, "{}", block("{:max-usd 0.04M}", true), nil},
		{"above", dear, "{}", block("{:max-usd 0.039M}", false), []string{"plan.edn:1:1: warning CHECK-023 the worst case is 0.04 usd, and the budget allows 0.039"}},
		{"above, refused", dear, "{}", block("{:max-usd 0.039M}", true), []string{"plan.edn:1:1: error CHECK-023 the worst case is 0.04 usd, and the budget allows 0.039"}},
		{"the request is tighter", dear, "{:max-attempts 2}", block("{:max-usd 1M :max-attempts 9}", true), []string{"plan.edn:1:1: error CHECK-023 the worst case is 4 attempts, and the budget allows 2"}},
		{"no bound", `{:op :call :intent :t/plan :input {:q 1} :as :x}`, "{:max-attempts 2}", policy.ScopeBudget{}, []string{"plan.edn:1:10: warning CHECK-046 the worst case of attempts has no bound: :t/planner may answer with a plan, in [:nodes 0]"}},
		{"no price, refused", `{:op :call :intent :t/secret :input {:q 1} :as :x}`, "{}", block("{:max-usd 1}", true), []string{"plan.edn:1:10: error CHECK-023 the worst case of usd has no bound: what a call to :t/secret costs is unknown: its price is unknown: set cost { usd = .. } in its capability block, in [:nodes 0]"}},
		{"no price where money is not limited", `{:op :call :intent :t/secret :input {:q 1} :as :x}`, "{:max-attempts 1}", policy.ScopeBudget{}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			env := pricedEnv(t)
			env.Budgets = &policy.Budgets{Run: row.run}
			env.Request.Budget = policy.FieldsOf(edn.MustRead(row.request), policy.Origin{Source: policy.SourceRequest})
			v, positions, err := edn.ReadWithPositions([]byte("{:nodes [" + row.nodes + "]}"))
			require.NoError(t, err)
			p, _ := plan.Parse(v, positions)
			w := plan.WorstCase(p, env)
			var got []string
			for _, f := range plan.WithinBudget(&w, env, p) {
				got = append(got, f.Render("plan.edn"))
			}
			assert.Equal(t, row.want, got)
		})
	}
}
