package eval_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// planner is a world where :t/plan answers with plans and :t/echo with its input.
func planner(t testing.TB, more ...string) *dispatchtest.World {
	return echo(t, append(more, dispatchtest.Cap("t/plan", ":cap/can-produce #{:value :plan}"))...)
}

func ask(more string) string {
	return `{:op :call :id "ask" :intent :text/respond :input {:q 1} :as :x :dispatch {:candidates [:t/plan :t/echo] ` + more + `}}`
}

func planStep(text, bindings string) dispatchtest.Step {
	s := dispatchtest.Step{Plan: edn.MustRead(text)}
	if bindings != "" {
		s.Bindings = edn.MustRead(bindings)
	}
	return s
}

// SCHED-005, EVAL-030: a plan answer sees a copy of the environment and its
// bindings; its slots stay local; its emitted value is the answer.
func TestPlanAnswer(t *testing.T) {
	w := planner(t)
	w.On("t/plan", planStep(`{:nodes [`+call("in", `{:a {:slot/id :outer} :b {:slot/id :given}}`, ":as :inner")+` {:op :emit :input {:slot/path [:inner :out]}}]}`, `{:given "b"}`))
	r := run(t, w, `{:nodes [{:op :let :value "a" :as :outer} `+ask("")+`
	  {:op :emit :input {:got {:slot/path [:x :out]} :leak {:slot/id :inner :slot/default "none"} :ok {:slot/path [:x :plan/run :ok?]}}}]}`, withBindings(`{:inner "binding"}`))
	require.Nil(t, r.Err)
	assert.Equal(t, `{:got {:a "a" :b "b"} :leak "binding" :ok true}`, r.out())

	paths := map[string]bool{}
	for _, rec := range r.records {
		paths[rec.Path.String()] = true
	}
	child := ""
	for p := range paths {
		if strings.HasPrefix(p, `[1 "p`) && strings.Count(p, " ") == 1 {
			child = p
		}
	}
	require.NotEmpty(t, child, "IR-010: the plan stands at its own path")
	assert.Len(t, child, len(`[1 "p12345678"]`))
	assert.True(t, paths[strings.TrimSuffix(child, "]")+" 0]"])
}

// EVAL-030: a plan that fails its checks is an error of the attempt, class
// repair; none of its nodes runs.
func TestPlanAnswerIsChecked(t *testing.T) {
	for name, tc := range map[string]struct{ plan, typ string }{
		"unknown op":      {`{:nodes [{:op :nonsense}]}`, "plan/invalid"},
		"unfilled slot":   {`{:nodes [{:op :emit :input {:slot/id :nobody}}]}`, "plan/invalid"},
		"no plan":         {`7`, "plan/invalid"},
		"too many nodes":  {`{:nodes [` + strings.Repeat(`{:op :let :value 1} `, 1001) + `]}`, "plan/invalid"},
		"beyond effects":  {`{:nodes [` + write("w", `{}`, "") + `]}`, "plan/invalid"},
		"answers nothing": {`{:nodes []}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := planner(t)
			w.On("t/plan", planStep(tc.plan, ""))
			layer := policy.Layer{Effects: policy.Of([]string{"none"}, policy.Origin{Source: policy.SourceRequest})}
			r := run(t, w, `{:nodes [`+ask("")+`]}`, withLayer(layer))
			assert.Equal(t, tc.typ, r.failure())
			if tc.typ != "" {
				assert.Equal(t, contract.ClassRepair, r.Err.Class)
				assert.Equal(t, contract.SourcePlugin, r.Err.Source)
			}
			assert.Equal(t, []string{"t/plan"}, w.Dispatched())
		})
	}
}

// EVAL-030: an error inside is the error of the attempt, class switch, and the
// next candidate serves; with a :once effect in it no other may.
func TestPlanAnswerFails(t *testing.T) {
	w := planner(t)
	w.On("t/plan", planStep(`{:nodes [`+call("in", `{:fail :input/invalid}`, "")+`]}`, ""))
	r := run(t, w, `{:nodes [`+ask(":retry {:fallback-max 1}")+` {:op :emit :input :x}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:q 1}`, r.out())

	w = planner(t)
	w.On("t/plan", planStep(`{:nodes [`+write("w", `{}`, "")+" "+call("in", `{:fail :input/invalid}`, `:needs ["w"]`)+`]}`, ""))
	r = run(t, w, `{:nodes [`+ask(":retry {:fallback-max 1}")+`]}`)
	assert.Equal(t, "input/invalid", r.failure())
	assert.Equal(t, []string{"t/plan", "t/write", "t/echo"}, w.Dispatched(), "the effect is done: no second candidate")
}

// GATE-006: the gates of the caller judge the value that a plan answer
// emitted.
func TestGatesJudgePlanAnswers(t *testing.T) {
	w := abc(t)
	w.On("t/a", planStep(`{:nodes [{:op :emit :input {:n 1}}]}`, ""))
	w.On("t/b", value(`{:good true}`))
	r := run(t, w, strings.Replace(cascade("0", "1"), `:as :x`, `:as :x :done {:must #{:good}}`, 1))
	require.Nil(t, r.Err)
	assert.Equal(t, `{:good true}`, r.out())
}

// JRN-043, IR-010: equal plans of two attempts share paths and effect keys,
// different ones never do.
func TestPathsOfPlanAnswers(t *testing.T) {
	for _, tc := range []struct {
		second int
		want   int
	}{{1, 1}, {2, 2}} {
		w := abc(t)
		good := func(n int) string {
			return fmt.Sprintf(`{:nodes [{:op :call :id "in" :intent :text/respond :input {:n %d} :as :i :dispatch {:candidates [:t/c]}} {:op :emit :input :i}]}`, n)
		}
		w.On("t/a", planStep(good(1), ""), planStep(good(tc.second), ""))
		w.On("t/c", value(`{:n 1}`), value(`{:good true}`))
		r := run(t, w, strings.Replace(cascade("1", "0"), `:as :x`, `:as :x :done {:must #{:good}}`, 1))
		require.Nil(t, r.Err)
		seen := map[string]bool{}
		for _, c := range w.Calls() {
			if c.CapID == "t/c" {
				seen[c.EffectKey] = true
			}
		}
		assert.Len(t, seen, tc.want)
	}
}

// SCHED-005, section 16: a capability that calls itself through plan answers
// without end, alone or alternating with another, ends as plan/too-deep.
func TestEndlessPlans(t *testing.T) {
	self := func(next string) dispatchtest.Step {
		return planStep(`{:nodes [{:op :call :intent :text/respond :input {} :as :x :dispatch {:candidates [:`+next+`]}} {:op :emit :input :x}]}`, "")
	}
	w := planner(t, dispatchtest.Cap("t/other", ":cap/can-produce #{:value :plan}"))
	w.On("t/plan", self("t/other"))
	w.On("t/other", self("t/plan"))
	r := run(t, w, `{:nodes [`+ask(":retry {:same-cap-max 2 :fallback-max 3}")+`]}`)
	assert.Equal(t, "plan/too-deep", r.failure())
	assert.Len(t, w.Calls(), 17, "16 levels below the root")
	assert.Len(t, w.Calls()[16].Stack, 16)
}

// Section 15: the total number of nodes of a run is limited.
func TestTooManyNodes(t *testing.T) {
	w := planner(t)
	r := run(t, w, `{:nodes [{:op :let :value [1 2 3 4 5 6 7 8 9] :as :ns} {:op :map :over :ns :body [{:op :let :value 1} {:op :let :value 2}] :as :ys}]}`,
		withLimits(func(l *plan.Limits) { l.RunNodes = 12 }))
	assert.Equal(t, "plan/too-large", r.failure())
}

// IR-001: an inline plan equals a call that answered with it.
func TestInlinePlan(t *testing.T) {
	r := run(t, planner(t), `{:nodes [{:op :let :value 1 :as :a}
	  {:op :plan :plan {:nodes [{:op :let :value {:a {:slot/id :a} :b {:slot/id :b}} :as :c} {:op :emit :input {:slot/id :c}}]} :bindings {:b 2} :as :p}
	  {:op :emit :input {:p {:slot/path [:p :out]} :ok {:slot/path [:p :plan/run :ok?]}}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:ok true :p {:a 1 :b 2}}`, r.out())
	r = run(t, planner(t), `{:nodes [{:op :plan :plan {:nodes [`+call("in", `{:fail :input/invalid}`, "")+`]} :as :p}]}`)
	assert.Equal(t, "input/invalid", r.failure())
	assert.Equal(t, `[0 0]`, r.Err.Where.Key("path").String(), "the place inside")
}

// IR-006, IR-011: results keep the order of the input, whatever completes
// first.
func TestMapKeepsOrder(t *testing.T) {
	for over, want := range map[string]string{
		`[30 10 20]`:     `[{:i 0 :v 30} {:i 1 :v 10} {:i 2 :v 20}]`,
		`(2 1)`:          `[{:i 0 :v 2} {:i 1 :v 1}]`,
		`#{3 1 2}`:       `[{:i 0 :v 1} {:i 1 :v 2} {:i 2 :v 3}]`,
		`{:b 2 :a 1}`:    `[{:i 0 :v [:a 1]} {:i 1 :v [:b 2]}]`,
		`[]`:             `[]`,
		`[nil {:n 1} 7]`: `[{:i 0 :v 0} {:i 1 :v {:n 1}} {:i 2 :v 7}]`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, echo(t), `{:nodes [{:op :let :value `+over+` :as :xs}
			  {:op :map :over :xs :item :x :as :ys :body [`+call("c", `{:v {:slot/id :x :slot/default 0} :i {:slot/id :item/index}}`, ":as :r")+` {:op :emit :input :r}]}
			  {:op :emit :input {:slot/path [:ys :out]}}]}`)
			require.Nil(t, r.Err, over)
			assert.Equal(t, want, r.Out.Key("value").String(), over)
		})
	}
}

// IR-006: at most :max-parallel concurrent items; IR-012: a body with effects
// runs one item at a time, in order.
func TestMapParallelism(t *testing.T) {
	body := func(node string) string {
		return `{:nodes [{:op :let :value [1 2 3 4 5 6] :as :xs} {:op :map :over :xs :max-parallel 3 :as :ys :body [` + node + `]}]}`
	}
	synctest.Test(t, func(t *testing.T) {
		w := echo(t)
		begun := time.Now()
		r := run(t, w, body(call("c", `{:ms 10}`, "")))
		require.Nil(t, r.Err)
		assert.Equal(t, 3, w.Most())
		assert.Equal(t, 20*time.Millisecond, time.Since(begun))

		w = echo(t)
		r = run(t, w, body(write("c", `{:ms 10 :n {:slot/id :item}}`, "")))
		require.Nil(t, r.Err)
		assert.Equal(t, 1, w.Most())
		var order []string
		for _, c := range w.Calls() {
			order = append(order, c.Request.Key("input").Key("n").String())
		}
		assert.Equal(t, "1 2 3 4 5 6", strings.Join(order, " "))
	})
}

// IR-011: without an emit the result of an item is the :out of its last node.
func TestMapItemValue(t *testing.T) {
	r := run(t, echo(t), `{:nodes [{:op :let :value [1 2] :as :xs}
	  {:op :map :over :xs :as :ys :body [`+call("c", `{:n {:slot/id :item}}`, "")+`]}
	  {:op :map :over :xs :as :zs :body [{:op :let :value {:twice [{:slot/id :item} {:slot/id :item}]}}]}
	  {:op :emit :input {:ys {:slot/path [:ys :out]} :zs {:slot/path [:zs :out]}}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `{:ys [{:n 1} {:n 2}] :zs [{:twice [1 1]} {:twice [2 2]}]}`, r.out())
}

// IR-009, IR-011: a map over the whole slot of a call runs over its :out,
// never over the metadata beside it.
func TestMapOverWholeSlot(t *testing.T) {
	r := run(t, echo(t), `{:nodes [`+call("c", `{:b 2 :a 1}`, ":as :s")+`
	  {:op :map :over :s :item :x :as :ys :body [{:op :emit :input {:v {:slot/id :x}}}]}
	  {:op :emit :input {:slot/path [:ys :out]}}]}`)
	require.Nil(t, r.Err)
	assert.Equal(t, `[{:v [:a 1]} {:v [:b 2]}]`, r.Out.Key("value").String())
}

// IR-013: :fail reports the first item in order; :keep puts the error in its
// place, even if all items fail.
func TestMapItemErrors(t *testing.T) {
	text := func(keep, item string) string {
		return `{:nodes [{:op :let :value [{:ms 30 :fail :provider/error} {:ms 10 :fail :input/invalid} {:ms 1}] :as :xs}
		  {:op :map :over :xs :as :ys ` + keep + ` :body [{:op :call :id "c" :intent :text/respond :input {:slot/id :item} :dispatch {:candidates [:t/echo]}}]}
		  {:op :emit :input ` + item + `}]}`
	}
	synctest.Test(t, func(t *testing.T) {
		r := run(t, echo(t), text("", `:ys`))
		assert.Equal(t, "provider/error", r.failure())
		assert.Equal(t, `[1 "i0" 0]`, r.Err.Where.Key("path").String())

		r = run(t, echo(t), text(":on-item-error :keep", `{:a {:slot/path [:ys :out 0 :failure/type]} :b {:slot/path [:ys :out 1 :error :type]} :c {:slot/path [:ys :out 2]} :failed {:slot/path [:ys :plan/run :items/failed]}}`))
		require.Nil(t, r.Err)
		assert.Equal(t, `{:a :provider/error :b :input/invalid :c {:ms 1} :failed 2}`, r.out())

		all := strings.Replace(text(":on-item-error :keep", `{:a {:slot/path [:ys :out 2 :failure/type]} :failed {:slot/path [:ys :plan/run :items/failed]}}`), "{:ms 1}", "{:ms 1 :fail :provider/refused}", 1)
		r = run(t, echo(t), all)
		require.Nil(t, r.Err)
		assert.Equal(t, `{:a :provider/refused :failed 3}`, r.out())
	})
}

// IR-011, section 15: values that are not collections.
func TestMapOverNothingOfTheKind(t *testing.T) {
	for over, typ := range map[string]string{`7`: "plan/invalid", `"text"`: "plan/invalid"} {
		r := run(t, echo(t), `{:nodes [{:op :let :value {:slot/id :given :slot/default `+over+`} :as :xs} {:op :map :over :xs :body [{:op :let :value 1}] :as :ys}]}`)
		assert.Equal(t, typ, r.failure(), over)
	}
	r := run(t, echo(t), `{:nodes [{:op :let :when {:slot/path [:given :go] :slot/default false} :value 1 :as :xs} {:op :map :over :xs :body [{:op :let :value 1}] :as :ys}]}`)
	assert.Equal(t, "slot/unresolved", r.failure())
	r = run(t, echo(t), `{:nodes [{:op :let :value [`+strings.Repeat("1 ", 1001)+`] :as :xs} {:op :map :over :xs :body [{:op :let :value 1}] :as :ys}]}`)
	assert.Equal(t, "plan/too-large", r.failure())
}

// IR-010: paths include items and inline plans; every attempt of a transcript
// has its node in the plan.
func TestPathsOfNestedNodes(t *testing.T) {
	r := run(t, echo(t), `{:nodes [{:op :let :value [1] :as :xs}
	  {:op :map :over :xs :as :ys :body [{:op :plan :as :p :plan {:nodes [`+call("deep", `{:n {:slot/id :item}}`, ":as :slot-name")+`]}}]}]}`)
	require.Nil(t, r.Err)
	entry, _ := journal.Transcript(r.records).Nth(0)
	assert.Equal(t, `[1 "i0" 0 0]`, entry.Key("path").String())
	assert.Equal(t, `:slot-name`, entry.Key("as").String())
	assert.Equal(t, `"deep"`, entry.Key("node").String())
}
