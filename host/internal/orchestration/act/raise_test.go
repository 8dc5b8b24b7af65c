package act_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// cheap limits the budget of text/respond.
func cheap(w *dispatchtest.World) *dispatchtest.World {
	from := policy.Origin{Source: policy.SourceIntent}
	w.Policies.Default.Budget = policy.FieldsOf(edn.MustRead("{:max-tokens 900 :max-usd 0.5M}"), policy.Origin{Source: policy.SourceDefault})
	w.Policies.Intents = map[string]policy.Layer{"text/respond": {Budget: policy.FieldsOf(edn.MustRead("{:max-tokens 400}"), from)}}
	return w
}

func cheapWorld(t testing.TB, more ...string) *dispatchtest.World {
	w := cheap(priced(t, more...))
	w.On("a/one", value(`{:good true}`))
	w.On("a/two", value(`{:good true}`))
	return w
}

func shipped(c *act.Config) { c.Access = policy.ShippedAccess() }

// closed is an access in which no role may raise a budget.
func closed(c *act.Config) {
	c.Access = policy.ShippedAccess()
	c.Access.Operations[policy.RaiseBudget] = policy.Rule{Forbidden: []string{policy.RoleAny}}
}

func by(role, text string) act.Act {
	a := request(text)
	a.Principal, a.PrincipalType, a.Roles = "ada", "user", []string{role}
	return a
}

// sent runs an act to its end, and returns the budget of its last call.
func sent(t *testing.T, w *dispatchtest.World, s *act.Service, a act.Act) (budget string, records []journal.Record) {
	t.Helper()
	run, refused := s.Start(t.Context(), a)
	require.Nil(t, refused, "%v", refused)
	_, err := run.Wait()
	require.Nil(t, err, "%v", err)
	calls := w.Calls()
	return calls[len(calls)-1].Request.Key("budget").String(), decoded(t, run.Records())
}

// decisions returns what was decided when the run was accepted.
func decisions(records []journal.Record) (what []string) {
	for _, d := range records[0].Body.(*journal.RunAccepted).Access {
		what = append(what, d.Key("what").String()+" "+d.Key("reason").String())
	}
	return what
}

const raises = "{:max-tokens 700 :usd 2}"

// POL-001, PRM-006, AUTH-011, AUTH-013: a request above the budget of its intent needs
// the operation budget/raise, and its run records the decision. A lower budget needs
// nothing; another caller is refused with the limit, and nothing runs.
func TestRaisedBudget(t *testing.T) {
	for _, row := range []struct{ name, role, budget, sent, refused string }{
		{"raised", policy.RoleOperator, raises, "{:max-tokens 700 :max-usd 2 :usd 2}", ""},
		{"one of two", policy.RoleOperator, "{:max-tokens 700 :max-usd 0.1M}", "{:max-tokens 700 :max-usd 0.1M}", ""},
		{"the other stays", policy.RoleOperator, "{:max-tokens 700}", "{:max-tokens 700 :max-usd 0.5M}", ""},
		{"lowered", policy.RoleUser, "{:max-tokens 100}", "{:max-tokens 100 :max-usd 0.5M}", ""},
		{"equal", policy.RoleUser, "{:max-tokens 400}", "{:max-tokens 400 :max-usd 0.5M}", ""},
		{"not permitted", policy.RoleUser, "{:max-tokens 401}", "", "[:budget :max-tokens] [:number {:max 400}]"},
		{"not permitted money", policy.RoleUser, "{:usd 0.51M}", "", "[:budget :max-usd] [:number {:max 0.5M}]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := cheapWorld(t)
			s := service(t, w, shipped)
			a := by(row.role, asking("[:a/one]", "", row.budget, ""))
			if row.refused != "" {
				_, refused := s.Start(t.Context(), a)
				require.NotNil(t, refused)
				assert.Equal(t, "invalid-request", refused.Type)
				assert.Equal(t, ":budget/raised", refused.Details.Key("reason").String())
				assert.Equal(t, row.refused, refused.Details.Key("path").String()+" "+refused.Details.Key("expected").String())
				assert.Contains(t, refused.Hint, policy.RaiseBudget)
				assert.Empty(t, w.Calls())
				return
			}
			budget, records := sent(t, w, s, a)
			assert.Equal(t, edn.MustRead(row.sent).Dissoc(edn.K("usd")).String(), edn.MustRead(budget).Dissoc(edn.K("usd")).String())
			if row.role == policy.RoleOperator {
				assert.Equal(t, []string{":budget/raise :any"}, decisions(records))
			} else {
				assert.Empty(t, decisions(records))
			}
			_, missed := act.Replay(t.Context(), s.Config(), records[0].Run, records)
			assert.Nil(t, missed, "%v", missed)
		})
	}
}

// A credential that is limited to other operations does not raise a budget (AUTH-003).
func TestNarrowCredentialDoesNotRaise(t *testing.T) {
	a := by(policy.RoleAdmin, asking("[:a/one]", "", raises, ""))
	a.Narrow = &policy.Narrowing{Operations: []string{policy.Act}}
	_, refused := service(t, cheapWorld(t), shipped).Start(t.Context(), a)
	require.NotNil(t, refused)
	assert.Equal(t, ":budget/raised", refused.Details.Key("reason").String())
}

// PRM-006, LED-002: the blocks of the configuration limit raised budgets too: what one
// answer may have is cut, and what a run may cost is reserved.
func TestRaisedBudgetStaysBelowTheBlocks(t *testing.T) {
	run := block(t, "{:max-usd 0.005M}")
	run.Calls = policy.FieldsOf(edn.MustRead("{:max-tokens 500}"), policy.Origin{Source: policy.SourceDefault})
	limited := budgets(policy.Budgets{Run: run})
	w := cheapWorld(t)
	w.Policies.Default = policy.Merge(w.Policies.Default, policy.Layer{Budget: run.Calls})
	budget, _ := sent(t, w, service(t, w, shipped, limited), by(policy.RoleOperator, asking("[:a/two]", "", "{:max-tokens 700}", "")))
	assert.Equal(t, "500", edn.MustRead(budget).Key("max-tokens").String())

	started, refused := service(t, w, shipped, limited).Start(t.Context(), by(policy.RoleOperator, asking("[:a/one]", "", raises, "")))
	require.Nil(t, refused, "%v", refused)
	_, err := started.Wait()
	require.NotNil(t, err, "a call of a/one costs 0.01 USD")
	assert.Equal(t, "budget/exceeded", err.Type)

	// A limit of a block is not that of the intent: a request above it is not refused.
	w.Policies.Intents = nil
	budget, records := sent(t, w, service(t, w, shipped, limited), by(policy.RoleUser, asking("[:a/two]", "", "{:max-tokens 700}", "")))
	assert.Equal(t, "500", edn.MustRead(budget).Key("max-tokens").String())
	assert.Empty(t, decisions(records))
}

// RTE-006: a router lowers a raised budget, and does not raise it further.
func TestRouterLowersRaisedBudget(t *testing.T) {
	for decided, tokens := range map[string]string{"600": "600", "701": "700"} {
		w := cheap(resumeWorld(t))
		w.Policies.Default = policy.Layer{} // its capabilities have no price
		choosing("{:cap/id :a/two :budget {:max-tokens " + decided + "}}")(w)
		budget, _ := sent(t, w, service(t, w, shipped), by(policy.RoleOperator, asking("[:a/one :a/two]", "", "{:max-tokens 700}", routedBy("r/pick", ""))))
		assert.Equal(t, tokens, edn.MustRead(budget).Key("max-tokens").String(), decided)
	}
}

// The budget of a plan is for all of its nodes together, so it raises none of theirs;
// nor do a node and a request of a plugin raise theirs (contracts.md 2.2).
func TestOtherActsDoNotRaise(t *testing.T) {
	w := cheapWorld(t, dispatchtest.Cap("a/puts", ":cap/cost {:usd 0.01M}"))
	s := service(t, w, shipped)
	plan := ownPlan(`{:nodes [{:op :call :intent :text/respond :budget {:max-tokens 800} :dispatch {:candidates [:a/one]} :input {} :as :x}
	  {:op :emit :input {:slot/path [:x :out]}}]}`, "", ":budget "+raises)
	budget, records := sent(t, w, s, by(policy.RoleAdmin, plan))
	assert.Equal(t, "400", edn.MustRead(budget).Key("max-tokens").String())
	assert.Empty(t, decisions(records))

	w.Func("a/puts", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		inner := by(policy.RoleAdmin, asking("[:a/two]", "", raises, ""))
		inner.PrincipalType, inner.Stack, inner.Within, inner.AtLeast = "plugin", []string{c.CapID}, c.Within, c.AtLeast
		_, err, known := s.Within(ctx, act.HostCall{N: 1, Parent: c, Act: inner})
		assert.True(t, known)
		return dispatchtest.Step{Value: edn.MustRead("{:good true}"), Err: err}
	})
	budget, _ = sent(t, w, s, by(policy.RoleAdmin, asking("[:a/puts]", "", "{}", "")))
	assert.Equal(t, "400", edn.MustRead(budget).Key("max-tokens").String(), "the last call is that of a/two")

	w = dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{dispatchtest.Cap("a/one", ":cap/cost {:usd 0.01M}")},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/any", Out: "res/any"},
			{ID: "text/explain", In: "req/any", Out: "res/any", Plan: edn.MustRead(`{:nodes [
			  {:op :call :intent :text/respond :input {} :as :x} {:op :emit :input {:slot/path [:x :out]}}]}`)},
		},
	})
	cheap(w).On("a/one", value(`{}`))
	a := by(policy.RoleAdmin, `{:proto 1 :trace {:id "r"} :task {:intent :text/explain} :input {} :budget {:max-tokens 700}}`)
	budget, records = sent(t, w, service(t, w, shipped), a)
	assert.Equal(t, "400", edn.MustRead(budget).Key("max-tokens").String())
	assert.Empty(t, decisions(records))
}

// JRN-040, JRN-050, JRN-051: a run that goes on or is replayed has the budget with which
// it was accepted, whatever the rules say now; of a host with accounts, see recallRaise.
func TestRaisedBudgetIsRemembered(t *testing.T) {
	w := cheapWorld(t)
	text := asking("[:a/one]", "", raises, "")
	_, raised := sent(t, w, service(t, w, shipped), by(policy.RoleOperator, text))

	_, missed := act.Replay(t.Context(), service(t, w, closed).Config(), raised[0].Run, raised)
	require.Nil(t, missed, "%v", missed)

	again, err := resumed(t, w, raised[:1], crashed, closed)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, "completed", finished(t, again).Status)
	calls := w.Calls()
	assert.Equal(t, "700", calls[len(calls)-1].Request.Key("budget").Key("max-tokens").String())

	later := cheapWorld(t)
	replay := filled(t, service(t, later, closed), raised, dispatch.Fill{Swap: map[string]string{"a/one": "a/two"}})
	assert.Equal(t, "700", later.Calls()[0].Request.Key("budget").Key("max-tokens").String())
	assert.Equal(t, []string{":budget/raise :any"}, decisions(replay))

	// A run that was accepted without the decision has the budget of its intent.
	old := decoded(t, raised[:1])
	old[0].Body.(*journal.RunAccepted).Access = nil
	again, err = resumed(t, w, old, crashed, shipped)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, "completed", finished(t, again).Status)
	calls = w.Calls()
	assert.Equal(t, "400", calls[len(calls)-1].Request.Key("budget").Key("max-tokens").String())
}

// RUN-030: the answer to a raised budget is not that to the budget of the intent.
func TestRaisedBudgetInTheCache(t *testing.T) {
	w := cheap(cacheableWorld(t))
	s := service(t, w, shipped, caching(nil))
	key := func(budget string) string {
		key, err := s.CacheKey(by(policy.RoleOperator, asking("[:a/one]", "", budget, "")))
		require.Nil(t, err, "%v", err)
		return key
	}
	assert.NotEqual(t, key("{:max-tokens 100 :max-usd 2}"), key("{:max-tokens 100}"))
	assert.Equal(t, key("{:max-tokens 100 :max-usd 2}"), key("{:max-tokens 100 :max-usd 3}"), "money has no part in an answer")
}

// BUD-004: the worst case of a raised request is that of its own limits.
func TestWorstCaseOfARaisedBudget(t *testing.T) {
	w := cheapWorld(t)
	w.Policies.Intents["text/respond"] = policy.Layer{Budget: policy.FieldsOf(edn.MustRead("{:max-usd 0.002M}"), policy.Origin{Source: policy.SourceIntent})}
	s := service(t, w, shipped, budgets(policy.Budgets{Run: block(t, "{:max-usd 1}")}))
	_, records := sent(t, w, s, by(policy.RoleOperator, asking("[:a/one]", "", "{:max-usd 0.05M}", "")))
	var worst edn.Value
	for _, r := range records {
		if b, ok := r.Body.(*journal.PlanResolved); ok {
			worst = b.WorstCase
		}
	}
	assert.Equal(t, "0.01M", worst.Key("usd").String())
	assert.Nil(t, finished(t, records).Err)
}
