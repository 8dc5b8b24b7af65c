package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/routing"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// router returns a capability that serves :route/decide.
func router(id, more string) string {
	return "{:cap/id :" + id + " :cap/kind :solver :cap/intents #{:route/decide} :io/in-schema :req/route :io/out-schema :res/route " + more + "}"
}

// routedBy asks a router although the configuration does not.
func routedBy(id, more string) string {
	return fmt.Sprintf(":routing {:meta? true :cap/id :%s %s}", id, more)
}

// fiveNodes is the plan of the original router: a solver works the answer out
// for a voice that failed.
const fiveNodes = `{:nodes [
  {:op :call :id "voice-primary" :intent :text/respond :cap/id :a/one :input {:slot/id :input} :dispatch {:allow-failure? true} :as :voice-primary}
  {:op :call :id "solver" :when {:failed? :voice-primary} :intent :text/verify :input {:slot/id :input} :as :solver}
  {:op :call :id "voice-final" :when {:failed? :voice-primary} :intent :text/respond :cap/id :a/two :input {:prompt {:slot/path [:solver :out :ok?]}} :as :voice-final}
  {:op :emit :when {:not {:failed? :voice-primary}} :input {:slot/path [:voice-primary :out]}}
  {:op :emit :when {:failed? :voice-primary} :input {:slot/path [:voice-final :out]}}]}`

// routers answers for the routers of resumeWorld.
func routers(w *dispatchtest.World) {
	w.Func("r/pick", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:cap/id :a/two :constraints {:language :pl}}`)}
	})
	w.Func("r/plan", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Plan: edn.MustRead(fiveNodes)}
	})
	w.Func("r/down", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
	})
	w.Func("r/prose", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:text "I would ask a/two."}`)}
	})
}

// resolvedRoute returns the :route of the record of the plan of a run.
func resolvedRoute(records []journal.Record) edn.Value {
	for _, rec := range records {
		if b, ok := rec.Body.(*journal.PlanResolved); ok && rec.Path.Len() == 0 {
			return b.Route
		}
	}
	return edn.Nil()
}

// choosing returns a router with one answer.
func choosing(answer string) func(*dispatchtest.World) {
	return func(w *dispatchtest.World) {
		w.Func("r/pick", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Value: edn.MustRead(answer)}
		})
	}
}

func planned(plan string) func(*dispatchtest.World) {
	return func(w *dispatchtest.World) {
		w.Func("r/plan", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Plan: edn.MustRead(plan)}
		})
	}
}

// RTE-004, RTE-005: the router is asked first, as a node of the run that is
// recorded and started within it, and its decision orders the candidates.
func TestRouterDecision(t *testing.T) {
	w := resumeWorld(t)
	response, err, records := do(t, service(t, w), asking("[:a/one :a/two]", ":retry {:fallback-max 1}", "{}", routedBy("r/pick", "")))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"r/pick", "a/two"}, w.Dispatched())
	assert.Equal(t, ":a/two", response.Key("result").Key("out").Key("by").String())
	assert.Equal(t, `:pl`, w.Calls()[1].Request.Key("constraints").Key("language").String(), "what the decision says reaches the call")
	asked := w.Calls()[0].Request.Key("input")
	assert.Equal(t, `:text/respond`, asked.Key("request").Key("task").Key("intent").String())
	assert.Equal(t, `[:a/one :a/two]`, names(asked.Key("candidates"), "cap/id"))
	route := resolvedRoute(records)
	assert.Equal(t, `:decided :r/pick [:a/two :a/one]`, fmt.Sprint(route.Key("outcome"), " ", route.Key("cap/id"), " ", route.Key("candidates")))

	var kinds []string
	for _, rec := range records {
		if rec.Path.Len() == 0 || rec.Path.String() == `["route" 0]` || rec.Path.String() == `["route"]` {
			kinds = append(kinds, fmt.Sprint(rec.Path, " ", rec.Body.Kind()))
		}
	}
	assert.Less(t, slices.Index(kinds, `nil run/started`), slices.Index(kinds, `["route" 0] attempt/started`))
	assert.Less(t, slices.Index(kinds, `["route" 0] node/committed`), slices.Index(kinds, `[] plan/resolved`))
	assert.Contains(t, kinds, `["route" 0] gate/verdict`, "its answer passes the gates of its intent")
}

// RTE-005, LRN-002: the policy learned does not reorder the candidate that a router chose. It is a
// decision without chance.
func TestRouterDecisionStaysFirst(t *testing.T) {
	for seed := range int64(4) {
		w := resumeWorld(t)
		book, _ := trained("a/one", "a/two")
		s := service(t, w, func(c *act.Config) { c.Learned, c.NewSeed = book, func() int64 { return seed } })
		_, err, records := do(t, s, asking("[:a/one :a/two]", ":policy :learned :retry {:fallback-max 1}", "{}", routedBy("r/pick", "")))
		require.Nil(t, err, "%v", err)
		assert.Equal(t, []string{"r/pick", "a/two"}, w.Dispatched())
		decided := learnedDecisions(records)
		l := decided[len(decided)-1]
		require.NotNil(t, l)
		assert.Equal(t, []string{"a/two", "a/one"}, l.Order)
		assert.Equal(t, []any{1.0, false, "", false}, []any{l.Propensity, l.Explored, l.Seed, l.Cold})
	}
}

func names(list edn.Value, key string) string {
	var out []edn.Value
	for v := range list.Elems() {
		out = append(out, v.Key(key))
	}
	return edn.Vector(out...).String()
}

// RTE-005: the plan of a router becomes the plan of the act: it is recorded as
// such, and its nodes read the input of the act.
func TestRouterPlan(t *testing.T) {
	for name, c := range map[string]struct {
		down  bool
		by    string
		calls []string
	}{
		"the first voice answers": {false, ":a/one", []string{"r/plan", "a/one"}},
		"the solver helps":        {true, ":a/two", []string{"r/plan", "a/one", "a/check", "a/two"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			if c.down {
				w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
					return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
				})
			}
			response, err, records := do(t, service(t, w), asking("[:a/one :a/two]", "", "{}", routedBy("r/plan", "")))
			require.Nil(t, err, "%v", err)
			assert.Equal(t, c.by, response.Key("result").Key("out").Key("by").String())
			assert.Equal(t, c.calls, w.Dispatched())
			assert.Equal(t, ":planned", resolvedRoute(records).Key("outcome").String())
			for _, rec := range records {
				if b, ok := rec.Body.(*journal.PlanResolved); ok && rec.Path.Len() == 0 {
					assert.Equal(t, "route", b.Source)
					assert.Equal(t, edn.Hash(edn.MustRead(fiveNodes)), b.Plan.Hash())
				}
			}
		})
	}
}

// unusable are answers that are no decision, or permit more than the act, with
// their reasons. The act has the checks good as must, at most 900 tokens, and no
// effects (RTE-005, RTE-006).
var unusable = []struct {
	name, reason string
	by           string
	answer       func(*dispatchtest.World)
}{
	{"prose", "", "r/prose", func(*dispatchtest.World) {}},
	{"nothing", "", "r/pick", choosing(`{}`)},
	{"an unknown key", ":route/decide-unknown-keys", "r/pick", choosing(`{:cap/id :a/two :plan {}}`)},
	{"an error", ":route/decide-error-not-allowed", "r/pick", choosing(`{:cap/id :a/two :error {:type :x/y}}`)},
	{"an unknown key of dispatch", ":route/decide-dispatch-unknown-keys", "r/pick", choosing(`{:cap/id :a/two :dispatch {:race {:width 2}}}`)},
	{"no count", ":route/decide-retry-fallback-max-not-nonneg-int", "r/pick", choosing(`{:cap/id :a/two :dispatch {:retry {:fallback-max -1}}}`)},
	{"no keywords", ":route/decide-checks-hard-not-keywords", "r/pick", choosing(`{:cap/id :a/two :dispatch {:checks/hard [1]}}`)},
	{"an unknown check", ":route/decide-invalid", "r/pick", choosing(`{:cap/id :a/two :done {:must #{:no/such}}}`)},
	{"another capability", ":route/widened", "r/pick", choosing(`{:cap/id :a/pays}`)},
	{"no capability", ":route/widened", "r/pick", choosing(`{:cap/id :no/such}`)},
	{"another candidate", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :dispatch {:candidates [:a/pays]}}`)},
	{"an effect", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :effects {:allowed #{:fs/write}}}`)},
	{"more tokens", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :budget {:max-tokens 901}}`)},
	{"more attempts", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :budget {:max-attempts 51}}`)},
	{"fewer gates", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :dispatch {:checks/hard []}}`)},
	{"a lower score", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :done {:score-min 0.1}}`)},
	{"more retries", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :dispatch {:retry {:same-cap-max 9}}}`)},
	{"another constraint", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :constraints {:language :de}}`)},
	{"the web", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :constraints {:no-web false}}`)},
	{"longer text", ":route/widened", "r/pick", choosing(`{:cap/id :a/two :constraints {:max-chars 5000}}`)},
	{"an invalid plan", ":route/decide-invalid", "r/plan", planned(`{:nodes [{:op :call :intent :no/such :as :x} {:op :emit :input :x}]}`)},
	{"an empty plan", ":route/widened", "r/plan", planned(`{:nodes []}`)},
	{"a plan with another capability", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :call :intent :text/respond :cap/id :a/pays :input {} :as :x} {:op :emit :input :x}]}`)},
	{"a plan of another intent", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :call :intent :text/verify :input {} :as :x} {:op :emit :input :x}]}`)},
	{"a plan that answers itself", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :call :intent :text/respond :cap/id :a/one :input {} :as :x} {:op :emit :input {:good true}}]}`)},
	{"a plan without a gate", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :call :intent :text/respond :cap/id :a/one :input {} :dispatch {:checks/hard []} :as :x} {:op :emit :input :x}]}`)},
	{"a plan that asks a router", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :call :intent :route/decide :input {:request {}} :as :r} {:op :call :intent :text/respond :cap/id :a/one :input {} :as :x} {:op :emit :input :x}]}`)},
	{"a plan with a map", ":route/widened", "r/plan",
		planned(`{:nodes [{:op :map :over [1 2] :item :i :body [{:op :emit :input 1}] :as :m} {:op :call :intent :text/respond :cap/id :a/one :input {} :as :x} {:op :emit :input :x}]}`)},
	{"a plan with too many nodes", ":route/widened", "r/plan", planned(manyNodes(33))},
}

func manyNodes(n int) string {
	nodes := ""
	for i := range n {
		nodes += fmt.Sprintf("{:op :let :value %d :as :v%d}", i, i)
	}
	return "{:nodes [" + nodes + "{:op :call :intent :text/respond :cap/id :a/one :input {} :as :x} {:op :emit :input :x}]}"
}

// gatedWorld is resumeWorld with the gate good, a least score and the shortest
// texts for :text/respond.
func gatedWorld(t testing.TB) *dispatchtest.World {
	w := resumeWorld(t)
	from := policy.Origin{Source: policy.SourceIntent}
	w.Policies.Intents = map[string]policy.Layer{"text/respond": {
		Checks:      policy.Additive{Add: policy.Of(policy.NamesOf(from, "good"), from)},
		ScoreMin:    policy.Of(edn.MustFloat(0.5), from),
		Constraints: policy.FieldsOf(edn.MustRead("{:max-chars 100 :language :pl :no-web true}"), from),
	}}
	return w
}

// RTE-005, RTE-006, RTE-007: an answer that is not a decision, or permits more, never
// changes the act. Closed, the act fails with the reason and calls nothing else;
// open, it goes on as without a router, with a warning, and that is recorded.
func TestUnusableDecisions(t *testing.T) {
	ask := func(by, more string) string {
		return asking("[:a/one :a/two]", "", "{:max-tokens 900 :max-attempts 50}", routedBy(by, more))
	}
	for _, c := range unusable {
		t.Run(c.name, func(t *testing.T) {
			w := gatedWorld(t)
			c.answer(w)
			_, err, records := do(t, service(t, w), ask(c.by, ":strict? true"))
			require.NotNil(t, err)
			assert.Equal(t, "route/decide-failed", err.Type)
			if c.reason != "" {
				assert.Equal(t, c.reason, err.Details.Key("reason").String(), "%s", err.Message)
			}
			assert.Equal(t, ":route/decide", err.Details.Key("route/intent").String())
			assert.Equal(t, []string{c.by}, w.Dispatched(), "nothing else was called")
			assert.Equal(t, contract.ClassStop, err.Class)
			assert.NotEmpty(t, records)

			w = gatedWorld(t)
			c.answer(w)
			response, err, records := do(t, service(t, w), ask(c.by, ""))
			require.Nil(t, err, "%v", err)
			assert.Equal(t, []string{c.by, "a/one"}, w.Dispatched())
			route := resolvedRoute(records)
			assert.Equal(t, ":static", route.Key("outcome").String())
			if c.reason != "" {
				assert.Equal(t, c.reason, route.Key("reason").String())
			}
			first, _ := response.Key("warnings").Nth(0)
			assert.Equal(t, ":route/decide-failed", first.Key("type").String())
		})
	}
}

// RTE-009: the error of a closed failure has the source of the failing call and
// the details of its attempts.
func TestClosedFailure(t *testing.T) {
	w := resumeWorld(t)
	_, err, _ := do(t, service(t, w), asking("[:a/one]", "", "{}", routedBy("r/down", ":on-error :fail-closed :strict? false")))
	require.NotNil(t, err)
	assert.Equal(t, "route/decide-failed", err.Type)
	assert.Equal(t, 502, err.HTTPStatus())
	assert.Equal(t, contract.ErrorFromValue(edn.MustRead(`{:type :provider/unavailable}`), contract.SourcePlugin).Type, err.Cause.Type)
	assert.Equal(t, err.Cause.Source, err.Source)
	d := err.Details
	assert.Equal(t, `:provider/unavailable "route" [:r/down] 1`, fmt.Sprint(d.Key("failure/type"), " ", d.Key("node"), " ", d.Key("candidates"), " ", d.Key("attempts").Len()))
	for _, key := range []string{"route/cap-id", "retry-policy", "switch-on", "rejected-candidates"} {
		assert.True(t, d.HasKey(key), "%s in %s", key, d)
	}
}

// RTE-006: force of the configuration lets a decision replace the pinned
// capability and the gates; that of a request only its own pin.
func TestForce(t *testing.T) {
	yes := true
	pinned := `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :cap/id :a/one} :input {:prompt "p"} :routing {:meta? true :cap/id :r/pick %s}}`
	for name, c := range map[string]struct {
		settings routing.Settings
		more     string
		answer   string
		by       string
		outcome  string
	}{
		"a pin stays":                  {routing.Settings{}, "", `{:cap/id :a/two}`, "a/one", ":decided"},
		"the request gives up its pin": {routing.Settings{}, ":force? true", `{:cap/id :a/two}`, "a/two", ":decided"},
		"the request keeps its gates":  {routing.Settings{}, ":force? true", `{:cap/id :a/two :dispatch {:checks/hard [:checked]}}`, "a/one", ":static"},
		"the operator's force":         {routing.Settings{Router: routing.Profile{Force: &yes}}, "", `{:cap/id :a/two}`, "a/two", ":decided"},
		"the request declines force":   {routing.Settings{Router: routing.Profile{Force: &yes}}, ":force? false", `{:cap/id :a/two}`, "a/one", ":decided"},
		"no force widens effects":      {routing.Settings{Router: routing.Profile{Force: &yes}}, "", `{:cap/id :a/two :effects {:allowed #{:fs/write}}}`, "a/one", ":static"},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatedWorld(t)
			choosing(c.answer)(w)
			_, err, records := do(t, service(t, w, func(a *act.Config) { a.Routing = &c.settings }), fmt.Sprintf(pinned, c.more))
			require.Nil(t, err, "%v", err)
			calls := w.Dispatched()
			assert.Contains(t, calls, c.by)
			assert.Equal(t, c.outcome, resolvedRoute(records).Key("outcome").String())
		})
	}
}

// RTE-004: a router gets at most its share of the time and of the tokens of the
// act, and the act goes on without it.
func TestShare(t *testing.T) {
	w := resumeWorld(t)
	w.Func("r/pick", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustMap(edn.K("cap/id"), edn.K("a/two"))}
	})
	_, err, _ := do(t, service(t, w), asking("[:a/one :a/two]", "", "{:max-tokens-out 1000 :max-tokens-in 500}", routedBy("r/pick", "")))
	require.Nil(t, err, "%v", err)
	call := w.Calls()[0]
	limits := call.Request.Key("budget")
	assert.Equal(t, "200 200", fmt.Sprint(limits.Key("max-tokens"), " ", limits.Key("max-tokens-out")))
	assert.Equal(t, "100", limits.Key("max-tokens-in").String())
	left := time.Until(call.Deadline)
	assert.LessOrEqual(t, left, 4*time.Second, "a fifth of 20 s")
	assert.Greater(t, left, 2*time.Second)
}

// RTE-004, BUD-002: a router that reasons is called if its share has room for its answer and half
// of its headroom, and may use the rest of that share.
func TestShareOfRouterThatReasons(t *testing.T) {
	for limit, reserved := range map[string]string{"20000": "2150", "6000": "1200", "1000": ""} {
		w := resumeWorld(t)
		w.Func("r/thinks", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Value: edn.MustMap(edn.K("cap/id"), edn.K("a/two"))}
		})
		_, err, _ := do(t, service(t, w), asking("[:a/one :a/two]", "", "{:max-tokens-out "+limit+"}", routedBy("r/thinks", "")))
		require.Nil(t, err, "%v", err)
		if reserved == "" {
			assert.Equal(t, []string{"a/one"}, w.Dispatched())
			continue
		}
		require.Equal(t, []string{"r/thinks", "a/two"}, w.Dispatched())
		assert.Equal(t, reserved, w.Calls()[0].Budget.Key("reserved-tokens-out").String(), limit)
	}
}

// RTE-004: a router that does not answer within its share does not hold the act.
func TestLateRouter(t *testing.T) {
	w := resumeWorld(t)
	w.Func("r/pick", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Hang: true} })
	request := edn.MustRead(asking("[:a/one]", "", "{}", routedBy("r/pick", ""))).AssocKey("deadline-ms", edn.Int(500))
	_, err, records := do(t, service(t, w), request.String())
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"r/pick", "a/one"}, w.Dispatched())
	assert.Equal(t, ":static :timeout/hard", fmt.Sprint(resolvedRoute(records).Key("outcome"), " ", resolvedRoute(records).Key("failure/type")))
}

// RTE-004: neither a request of another intent nor the router's own is routed;
// the request decides within the configuration.
func TestAsked(t *testing.T) {
	yes := true
	on := &routing.Settings{Router: routing.Profile{Meta: &yes, Capability: "r/pick"}}
	for name, c := range map[string]struct {
		request string
		asked   bool
	}{
		"routed":             {asking("[:a/one :a/two]", "", "{}", ""), true},
		"declined":           {asking("[:a/one :a/two]", "", "{}", ":routing {:meta? false}"), false},
		"low latency":        {asking("[:a/one :a/two]", "", "{}", ":routing {:profile :low-latency}"), false},
		"strict":             {asking("[:a/one :a/two]", "", "{}", ":routing {:profile :strict-meta}"), true},
		"another intent":     {`{:proto 1 :trace {:id "r"} :task {:intent :text/verify} :input {}}`, false},
		"of the router":      {`{:proto 1 :trace {:id "r"} :task {:intent :route/decide :cap/id :r/pick} :input {:request {}}}`, false},
		"a plan of its own":  {ownPlan(`{:nodes [{:op :call :intent :text/respond :cap/id :a/one :input {} :as :x} {:op :emit :input :x}]}`, "", ""), false},
		"a job is no matter": {asking("[:a/one :a/two]", "", "{}", ":response/type :stream"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			_, err, records := do(t, service(t, w, func(a *act.Config) { a.Routing = on }), c.request)
			require.Nil(t, err, "%v", err)
			assert.Equal(t, c.asked, !resolvedRoute(records).IsNil())
			if c.asked {
				assert.Equal(t, "r/pick", w.Dispatched()[0])
			}
		})
	}
	for name, request := range map[string]string{
		"profile": asking("[:a/one]", "", "{}", ":routing {:profile :strict-mete}"),
		"intent":  asking("[:a/one]", "", "{}", ":routing {:intent :text/verify}"),
	} {
		_, err, records := do(t, service(t, resumeWorld(t)), request)
		require.NotNil(t, err, name)
		assert.Equal(t, "invalid-request", err.Type)
		assert.Empty(t, records, "it is rejected before it is accepted")
	}
	_, err, _ := do(t, service(t, resumeWorld(t)), asking("[:a/one]", "", "{}", routedBy("no/such", "")))
	require.NotNil(t, err)
	assert.Equal(t, "cap/not-found", err.Type)
}

// RTE-004, RTE-007: no router is asked for the plan of an intent. An act that should be routed says so: closed
// it fails before it is accepted, open it has a warning. One that names a capability is one call, and routed.
func TestPlanOfAnIntentIsNotRouted(t *testing.T) {
	yes := true
	on := &routing.Settings{Router: routing.Profile{Meta: &yes, Capability: "r/pick"}, MetaIntents: []string{"text/respond"}}
	template := edn.MustRead(`{:nodes [{:op :call :intent :text/respond :cap/id :a/one :input {:slot/id :input} :as :x}
		{:op :emit :input {:slot/path [:x :out]}}]}`)
	for name, row := range map[string]struct {
		more, task      string
		failed          string
		warned, decided bool
	}{
		"open":             {"", "", "", true, false},
		"closed":           {":routing {:profile :strict-meta}", "", "route/decide-failed", false, false},
		"declined":         {":routing {:meta? false}", "", "", false, false},
		"no such profile":  {":routing {:profile :strict-mete}", "", "invalid-request", false, false},
		"named capability": {"", ":cap/id :a/two", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			in, _ := w.Registry.Intent("text/respond")
			in.Plan = template
			response, err, records := do(t, service(t, w, func(a *act.Config) { a.Routing = on }),
				fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond %s} :input {:prompt "p"} %s}`, row.task, row.more))
			assert.Equal(t, row.decided, !resolvedRoute(records).IsNil())
			if row.failed != "" {
				require.NotNil(t, err)
				assert.Equal(t, row.failed, err.Type)
				assert.Empty(t, w.Calls())
				assert.Empty(t, records, "it is rejected before it is accepted")
				return
			}
			require.Nil(t, err, "%v", err)
			first, _ := response.Key("warnings").Nth(0)
			assert.Equal(t, row.warned, first.Key("type").String() == ":route/decide-failed")
		})
	}
}

// RTE-004, RTE-006: a run that is resumed after a decision was recorded keeps it, also where the constraints of
// the configuration would now refuse it.
func TestRecordedDecisionIsKept(t *testing.T) {
	answer := choosing(`{:cap/id :a/two :constraints {:language :de}}`)
	w := resumeWorld(t)
	answer(w)
	_, err, records := do(t, service(t, w), asking("[:a/one :a/two]", "", "{}", routedBy("r/pick", ":strict? true")))
	require.Nil(t, err, "%v", err)
	cut := slices.IndexFunc(records, func(r journal.Record) bool {
		b, ok := r.Body.(*journal.PlanResolved)
		return ok && r.Path.Len() == 0 && !b.Route.IsNil()
	})
	require.Positive(t, cut)

	stricter := gatedWorld(t)
	answer(stricter)
	all, err := resumed(t, stricter, records[:cut+1], crashed)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"a/two"}, stricter.Dispatched())
	assert.Greater(t, len(all), cut+1)
}

// RTE-006: what is reserved for a whole run covers its router too.
func TestRouterWithinReservation(t *testing.T) {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", ":cap/cost {:usd 0.01M}"), router("r/pick", ":cap/cost {:usd 0.001M}")},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/any", Out: "res/any"}, {ID: "route/decide", In: "req/route", Out: "res/route"},
		},
	})
	choosing(`{:cap/id :a/one}`)(w)
	for limit, ok := range map[string]bool{"0.011M": true, "0.0105M": false} {
		run := block(t, "{:max-usd "+limit+"}")
		run.RefuseWorst = true
		_, err, _ := do(t, service(t, w, budgets(policy.Budgets{Run: run})), asking("[:a/one]", "", "{}", routedBy("r/pick", "")))
		assert.Equal(t, ok, err == nil, "%s: %v", limit, err)
	}
}

// JRN-022, RTE-004: a router reads no secret of the request, and neither do the
// records of its call; the capability gets it.
func TestRouterReadsNoSecret(t *testing.T) {
	w := secretWorld(t)
	choosing(`{:cap/id :a/flaky :dispatch {:candidates [:a/one]}}`)(w)
	s := service(t, w)
	text := strings.TrimSuffix(secretCases["intent"], "}") + " :routing {:meta? true :cap/id :r/pick}}"
	text = strings.Replace(text, "[:a/one]", "[:a/one :a/flaky] :retry {:fallback-max 1}", 1)
	_, err, records := do(t, s, text)
	require.Nil(t, err, "%v", err)
	assertSilent(t, records)
	calls := w.Calls()
	assert.Equal(t, []string{"r/pick", "a/flaky", "a/one"}, w.Dispatched())
	assert.NotContains(t, calls[0].Request.String(), secretText)
	assert.NotContains(t, calls[0].Request.String(), secretNumber)
	token, _ := calls[1].Request.Key("input").Key("token").AsString()
	assert.Equal(t, secretText, token)
}
