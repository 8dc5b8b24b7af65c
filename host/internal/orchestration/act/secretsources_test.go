package act_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sourcesWorld has an intent ask/pin whose answer has a secret, and an intent text/respond
// whose input has one. a/clerk, a person, and a/adds serve ask/pin, a/one answers with what
// it was told, a/plan with a plan.
func sourcesWorld(t testing.TB, change ...func(*dispatchtest.Spec)) *dispatchtest.World {
	t.Helper()
	pin := func(id, more string) string {
		return "{:cap/id :" + id + " :cap/kind :solver :cap/intents #{:ask/pin} :io/in-schema :req/any :io/out-schema :res/any " + more + "}"
	}
	spec := dispatchtest.Spec{
		Caps: []string{
			pin("a/clerk", ":cap/cost {:usd 0}"), pin("a/adds", ":cap/effects #{:fs/write}"),
			pin("a/pins", ""), pin("a/puts", ":cap/effects #{:fs/write} :cap/idempotent? true"),
			dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/plan", ":cap/can-produce #{:value :plan}"),
		},
		Humans: map[string]registry.Human{"a/clerk": {
			Deadline: time.Hour, OnDeadline: registry.DeadlineDefault, Default: edn.MustRead(`{:pin "` + secretAnswer + `-default"}`),
		}},
		Schemas: map[string]string{
			"t/token": `[:map [:token {:secret true :optional true} :string]]`,
			"t/pin":   `[:map [:pin {:secret true} :string]]`,
		},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "t/token", Out: "res/any", ResultTypes: []string{"value", "plan"}},
			{ID: "ask/pin", In: "req/any", Out: "t/pin", Cacheable: true, CacheScope: registry.CachePrincipal},
		},
	}
	for _, f := range change {
		f(&spec)
	}
	w := dispatchtest.New(t, spec)
	w.Func("a/one", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustMap(edn.K("said"), c.Request.Key("input").Key("token"))}
	})
	w.Func("a/adds", func(context.Context, dispatch.Call) dispatchtest.Step { return value(`{:pin "` + secretAnswer + `"}`) })
	return w
}

// pinPlan passes the pin of a candidate to a/one.
const pinPlan = `{:nodes [
	  {:op :call :id "pin" :intent :ask/pin :dispatch {:candidates [:%s]} :input {} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token {:slot/path [:x :out :pin]}} :as :y}
	  {:op :emit :input {:slot/path [:y :out]}}]}`

// assertTold checks that the last call of a/one got a secret and no hash.
func assertTold(t *testing.T, w *dispatchtest.World, secret string) {
	t.Helper()
	var told string
	for _, c := range w.Calls() {
		assert.False(t, journal.Masked(c.Request), "%s", c.Request)
		if c.CapID == "a/one" {
			told, _ = c.Request.Key("input").Key("token").AsString()
		}
	}
	assert.Equal(t, secret, told)
}

// JRN-022, RUN-034: an answer of the cache has no secret in the records of the run that gets
// it, whether it finds it there or waits for the act that gives it.
func TestSecretsOfTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sourcesWorld(t)
		w.On("a/pins", dispatchtest.Step{Value: edn.MustRead(`{:pin "` + secretAnswer + `"}`), Delay: time.Second})
		s := service(t, w, caching(time.Now))
		text := `{:proto 1 :trace {:id "r"} :input {} :task {:intent :ask/pin :dispatch {:candidates [:a/pins]}}}`
		begin := func() func() ending { return start(context.Background(), t, s, request(text)) }
		leader, follower := begin(), begin()
		for name, wait := range map[string]func() ending{"leader": leader, "follower": follower, "later": begin()} {
			e := wait()
			require.Nil(t, e.err, "%s: %v", name, e.err)
			assert.Contains(t, e.response.Key("result").String(), secretAnswer, "%s: the caller gets the answer", name)
			assertSilent(t, e.records)
		}
	})
}

// JRN-022, JRN-045: the answer of a person and the default in its place have no secret in the
// records; the calls after it get them. After a restart the recorded answer is known only as
// a hash: then no call gets it.
func TestSecretsOfPeople(t *testing.T) {
	text := ownPlan(fmt.Sprintf(pinPlan, "a/clerk"), "", ":deadline-ms 86400000")
	for name, tc := range map[string]struct {
		answer string
		want   string
	}{
		"answer":  {`{:pin "` + secretAnswer + `" :extra 3}`, secretAnswer},
		"default": {"", secretAnswer + "-default"},
	} {
		t.Run(name, func(t *testing.T) {
			var whole []journal.Record
			key := bytes.Repeat([]byte{7}, 32)
			synctest.Test(t, func(t *testing.T) {
				w := sourcesWorld(t)
				s := service(t, w, func(c *act.Config) { c.SecretKey = key })
				run := started(t, s, text)
				if tc.answer != "" {
					require.Nil(t, run.Answer("0-1-1", edn.MustRead(tc.answer), "clerk"))
				}
				_, err := endOf(t, s, run)
				require.Nil(t, err, "%v", err)
				assertTold(t, w, tc.want)
				whole = run.Records()
				assertSilent(t, whole)
			})
			for cut := 2; cut < len(whole); cut++ {
				synctest.Test(t, func(t *testing.T) {
					past, kept := decoded(t, whole[:cut]), journal.NewMemory()
					kept.Load(past[0].Run, past)
					w := sourcesWorld(t)
					s := service(t, w, func(c *act.Config) { c.Journal, c.SecretKey = kept, key })
					run, refused := s.Resume(t.Context(), past[0].Run, past, crashed)
					require.Nil(t, refused, "%v", refused)
					synctest.Wait()
					for _, id := range openOf(t, s, run.ID()) {
						if tc.answer != "" {
							require.Nil(t, run.Answer(id, edn.MustRead(tc.answer), "clerk"), "after %d records", cut)
						}
					}
					_, err := run.Wait()
					for _, c := range w.Calls() {
						assert.False(t, journal.Masked(c.Request), "after %d records: %s", cut, c.Request)
					}
					if err != nil {
						assert.Equal(t, "run/secret-missing", err.Type, "after %d records: %v", cut, err)
					}
					assertSilent(t, run.Records())
				})
			}
		})
	}
}

// JRN-022, JRN-044: the value of a decision in the place of an answer has no secret in the
// records; the calls after it get it.
func TestSecretsOfDecisions(t *testing.T) {
	decided := deciding("pin", journal.DecisionDone, edn.MustRead(`{:pin "`+secretAnswer+`"}`))
	lost := func() *dispatchtest.World {
		w := sourcesWorld(t)
		w.Func("a/adds", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Crash: true} })
		return w
	}
	records, _ := suspendedRun(t, lost(), ownPlan(fmt.Sprintf(pinPlan, "a/adds"), "", writes))
	w := sourcesWorld(t)
	all, err := resumed(t, w, records, decided)
	require.Nil(t, err, "%v", err)
	assertTold(t, w, secretAnswer)
	assertSilent(t, all)

	records, _ = suspendedRun(t, lost(), `{:proto 1 :trace {:id "r"} :input {} :task {:intent :ask/pin :dispatch {:candidates [:a/adds]}} `+writes+`}`)
	decided.Decisions[0].Node = ""
	all, err = resumed(t, sourcesWorld(t), records, decided)
	require.Nil(t, err, "%v", err)
	assertSilent(t, all)
}

// JRN-022, JRN-046: the value of a decision about a request of a plugin has no secret in the
// records, also where the plugin repeats it; the plugin gets it.
func TestSecretsOfDecidedHostCalls(t *testing.T) {
	var told edn.Value
	build := func(kept *journal.Memory) *act.Service {
		w := sourcesWorld(t)
		var s *act.Service
		w.Func("a/puts", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
			ask := fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :ask/pin :dispatch {:candidates [:a/adds]}} :input {:n %d} %s}`, c.Attempt, writes)
			response, err, _ := s.Within(ctx, act.HostCall{N: 1, Parent: c, Act: act.Act{
				Request: edn.MustRead(ask), Roles: []string{policy.RoleAdmin}, Principal: "p", PrincipalType: "plugin", Stack: []string{c.CapID},
			}})
			if err == nil && c.Attempt == 1 {
				err = contract.Errorf("runtime/crashed", "the process ended")
			}
			if err != nil {
				return dispatchtest.Step{Err: err}
			}
			told = response.Key("result").Key("out")
			return dispatchtest.Step{Value: told}
		})
		s = service(t, w, suspending, func(c *act.Config) { c.Journal = kept })
		return s
	}
	run, refused := build(journal.NewMemory()).Start(t.Context(), request(
		`{:proto 1 :trace {:id "r"} :input {} :task {:intent :ask/pin :dispatch {:candidates [:a/puts] :retry {:same-cap-max 1}}} `+writes+`}`))
	require.Nil(t, refused, "%v", refused)
	_, err := run.Wait()
	require.NotNil(t, err)
	require.Equal(t, "run/suspended", err.Type, "%v", err)
	past, kept := decoded(t, run.Records()), journal.NewMemory()
	kept.Load(run.ID(), past)
	decision := edn.MustRead(`{:pin "` + secretAnswer + `-by-hand"}`)
	run, refused = build(kept).Resume(t.Context(), run.ID(), past, deciding(`[0 "h1"]`, journal.DecisionDone, decision))
	require.Nil(t, refused, "%v", refused)
	_, err = run.Wait()
	require.Nil(t, err, "%v", err)
	assert.Equal(t, decision.String(), told.String())
	assertSilent(t, run.Records())
}

// JRN-022: a literal that fills a marked input has no trace in the records, whether the plan is
// the answer of a capability or the template of an intent. A run that is cut in such a plan
// repeats no call of it that was made.
func TestSecretsOfPlans(t *testing.T) {
	const nodes = `{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token "` + secretText + `"} :as :x}
	  {:op :emit :input {:slot/path [:x :out]}}]}`
	build := func() *dispatchtest.World {
		w := sourcesWorld(t, func(s *dispatchtest.Spec) {
			s.Intents = append(s.Intents, registry.Intent{ID: "plan/template", In: "req/any", Out: "res/any", Plan: edn.MustRead(nodes)})
		})
		w.Func("a/plan", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Plan: edn.MustRead(nodes)}
		})
		return w
	}
	for name, text := range map[string]string{
		"answer":   `{:proto 1 :trace {:id "r"} :input {} :task {:intent :text/respond :dispatch {:candidates [:a/plan]}}}`,
		"template": `{:proto 1 :trace {:id "r"} :input {} :task {:intent :plan/template}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := build()
			response, err, records := do(t, service(t, w), text)
			require.Nil(t, err, "%v", err)
			assert.Contains(t, response.Key("result").String(), secretText)
			assertTold(t, w, secretText)
			assertSilent(t, records)
			for n := 1; n < len(records); n++ {
				w := build()
				all, err := resumed(t, w, records[:n], crashed)
				if err != nil {
					assert.Equal(t, "run/secret-missing", err.Type, "after %d records: %v", n, err)
				}
				assertSilent(t, all)
				ended := answered(decoded(t, records[:n]))
				for _, c := range w.Calls() {
					assert.False(t, journal.Masked(c.Request), "after %d records: %s", n, c.Request)
					assert.Zero(t, ended[made(c)], "after %d records: %s", n, made(c))
				}
			}
		})
	}
}

// JRN-022: a literal that reaches a marked input through slots has no trace in the records.
func TestSecretsOfSlots(t *testing.T) {
	call := func(token string) string {
		return `{:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token ` + token + `} :as :r}`
	}
	const emit = ` {:op :emit :input {:done true}}]}`
	for name, plan := range map[string]string{
		"items":             `{:nodes [{:op :map :over [{:t "SECRET"} {:t "SECRET-2"}] :item :i :body [` + call(`{:slot/path [:i :t]}`) + `] :as :m}` + emit,
		"items of a name":   `{:bindings {:all [["SECRET"] ["SECRET-2"]]} :nodes [{:op :map :over :all :body [` + call(`{:slot/path [:item 0]}`) + `] :as :m}` + emit,
		"inputs of a map":   `{:nodes [{:op :map :over [{:token "SECRET"}] :fn {:cap/ref :a/one} :intent :text/respond :as :m}` + emit,
		"default":           `{:nodes [` + call(`{:slot/path [:x :none] :slot/default "SECRET"}`) + emit,
		"chain of lets":     `{:nodes [{:op :let :value "SECRET" :as :x} {:op :let :value {:v [{:slot/id :x}]} :as :y} ` + call(`{:slot/path [:y :v 0]}`) + emit,
		"let of the outer":  `{:nodes [{:op :let :value "SECRET" :as :x} {:op :plan :plan {:nodes [` + call(`{:slot/id :x}`) + emit + ` :as :p}` + emit,
		"inner bindings":    `{:nodes [{:op :plan :bindings {:tok "SECRET"} :plan {:nodes [` + call(`{:slot/id :tok}`) + emit + ` :as :p}` + emit,
		"bindings of plans": `{:nodes [{:op :plan :plan {:bindings {:tok "SECRET"} :nodes [` + call(`{:slot/id :tok}`) + emit + ` :as :p}` + emit,
		"outcome of a plan": `{:nodes [{:op :plan :plan {:nodes [{:op :emit :input {:v "SECRET"}}]} :as :p} ` + call(`{:slot/path [:p :out :v]}`) + emit,
		"outcome of a map": `{:nodes [{:op :map :over ["SECRET"] :body [{:op :emit :input {:v {:slot/id :item}}}] :as :m} ` +
			call(`{:slot/path [:m :out 0 :v]}`) + emit,
	} {
		t.Run(name, func(t *testing.T) {
			w := sourcesWorld(t)
			_, err, records := do(t, service(t, w), ownPlan(strings.ReplaceAll(plan, "SECRET", secretText), "", ""))
			require.Nil(t, err, "%v", err)
			require.NotEmpty(t, w.Calls())
			for _, c := range w.Calls() {
				assert.Contains(t, c.Request.Key("input").String(), secretText, "the plugin gets the secret")
			}
			assertSilent(t, records)
		})
	}
}

// JRN-022: the bindings of a request hold over those of its plan, whose data has no nodes.
func TestSecretsOfRequestBindings(t *testing.T) {
	w := sourcesWorld(t)
	plan := `{:bindings {:tok "of the plan" :data [{:op :let :as :tok :value "no node"}]} :nodes [
		{:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:token {:slot/id :tok}} :as :r}
		{:op :emit :input {:done true}}]}`
	_, err, records := do(t, service(t, w), ownPlan(plan, `:bindings {:tok "`+secretText+`"}`, ""))
	require.Nil(t, err, "%v", err)
	require.Len(t, w.Calls(), 1)
	assert.Contains(t, w.Calls()[0].Request.Key("input").String(), secretText)
	assertSilent(t, records)
}

// JRN-022: the search for secrets in a plan is bounded by its size, however many values its slots may have.
func TestSearchForSecretsIsBounded(t *testing.T) {
	many := "[" + strings.Repeat("0 ", 20_000)
	w := sourcesWorld(t)
	for name, nodes := range map[string]string{
		"a large template over many items": `{:op :map :over :xs :item :i :body [{:op :let :as :b :value ` + many + `{:slot/id :i}]}]}`,
		"names that double":                strings.Repeat(`{:op :let :as :x :when {:slot/id :x} :value [{:slot/id :x} {:slot/id :xs}]} `, 200),
	} {
		plan := edn.MustRead(`{:nodes [` + nodes + `]}`)
		mask := journal.NewMask([]byte("key"))
		dispatch.LearnPlan(w.Registry, mask, plan, edn.MustRead(`{:xs `+many+`] :x 1}`))
		assert.False(t, mask.Any(), name)
	}
}

// JRN-022, JRN-046: after a restart, a request of a plugin whose recorded answer has a secret fails with
// run/secret-missing: the plugin never gets the hash.
func TestLostSecretsOfHostCalls(t *testing.T) {
	var told []edn.Value
	var failed *contract.Error
	build := func(kept *journal.Memory) *act.Service {
		w := sourcesWorld(t)
		var s *act.Service
		w.Func("a/puts", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
			ask := `{:proto 1 :trace {:id "r"} :task {:intent :ask/pin :dispatch {:candidates [:a/pins]}} :input {}}`
			response, err, _ := s.Within(ctx, act.HostCall{N: 1, Parent: c, Act: act.Act{
				Request: edn.MustRead(ask), Roles: []string{policy.RoleAdmin}, Principal: "p", PrincipalType: "plugin", Stack: []string{c.CapID},
			}})
			if failed = err; err != nil {
				return dispatchtest.Step{Err: err}
			}
			told = append(told, response)
			return value(`{:pin "other"}`)
		})
		w.On("a/pins", value(`{:pin "`+secretAnswer+`"}`))
		s = service(t, w, suspending, func(c *act.Config) { c.Journal = kept })
		return s
	}
	_, err, records := do(t, build(journal.NewMemory()),
		`{:proto 1 :trace {:id "r"} :input {} :task {:intent :ask/pin :dispatch {:candidates [:a/puts]}} `+writes+`}`)
	require.Nil(t, err, "%v", err)
	assertSilent(t, records)
	for n, rec := range records {
		if rec.Body.Kind() != journal.KindNodeCommitted || rec.Path.String() != `[0 "h1" 0]` {
			continue
		}
		past, kept := decoded(t, records[:n+1]), journal.NewMemory()
		kept.Load(past[0].Run, past)
		told, failed = nil, nil
		run, refused := build(kept).Resume(t.Context(), past[0].Run, past, crashed)
		require.Nil(t, refused, "%v", refused)
		_, _ = run.Wait()
		assert.Empty(t, told)
		require.NotNil(t, failed)
		assert.Equal(t, "run/secret-missing", failed.Type)
		return
	}
	t.Fatal("the request of the plugin was not committed")
}

// JRN-022, RUN-021: the fingerprint of a keyed request in a session is that of what its caller sent,
// also if the caller repeats a secret that the session fills in: the same request has the same run.
func TestKeyedSecretsOfSessions(t *testing.T) {
	rules := session.Permissive()
	rules.Bindings = []session.Binding{{Var: "session/api-token", Target: []string{"input", "token"}, Coerce: "identity"}}
	x := newTalkIn(t, sourcesWorld(t), rules)
	x.put(`{:session/api-token "` + secretText + `"}`)
	kept := newKeeper()
	x.Service = service(t, x.world, func(c *act.Config) { c.Sessions, c.Journal, c.Keys = x.sessions, kept, &act.Keys{} })
	const text = `{:proto 1 :trace {:id "t"} :session/id "s" :idempotency/key "k" :task {:intent :text/respond :dispatch {:candidates [:a/one]}}
	  :input {:prompt "use ` + secretText + ` now"}}`
	for range 2 {
		_, _, err := x.ask(text)
		require.Nil(t, err, "%v", err)
	}
	assert.Len(t, x.world.Calls(), 1)
	require.Len(t, kept.runs, 1)
	for _, records := range kept.runs {
		assertSilent(t, records)
	}
}
