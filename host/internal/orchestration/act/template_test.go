package act_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// solveAndSay is a plan that solves, then has a voice say the solution.
const solveAndSay = `{:nodes [
	{:op :call :intent :problem/solve :input {:slot/id :input} :context {:slot/id :context} :as :solver}
	{:op :call :intent :text/respond :input {:prompt {:slot/path [:solver :text]}} :as :voice}
	{:op :emit :input {:text {:slot/path [:voice :out :text]}}}]}`

// templateWorld has an intent with a plan; nil: without one.
func templateWorld(t *testing.T, plan string) *dispatchtest.World {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			`{:cap/id :a/solver :cap/kind :solver :cap/intents #{:problem/solve} :io/in-schema :req/any :io/out-schema :res/any}`,
			`{:cap/id :a/spare :cap/kind :solver :cap/intents #{:problem/solve} :io/in-schema :req/any :io/out-schema :res/any}`,
			dispatchtest.Cap("a/voice", ""),
		},
		Intents: []registry.Intent{
			{ID: "problem/solve", In: "req/any", Out: "res/text", Plan: edn.MustRead(plan)},
			{ID: "text/respond", In: "req/any", Out: "res/any"},
		},
	})
	w.Func("a/solver", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		problem, _ := c.Request.Key("input").Key("problem").AsString()
		return dispatchtest.Step{Value: edn.MustMap(edn.K("text"), edn.Text("solved "+problem))}
	})
	w.Func("a/spare", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:text "spare"}`)}
	})
	w.Func("a/voice", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		prompt, _ := c.Request.Key("input").Key("prompt").AsString()
		return dispatchtest.Step{Value: edn.MustMap(edn.K("text"), edn.Text("said "+prompt))}
	})
	return w
}

// solving is a request of this intent.
func solving(more string) string {
	return `{:proto 1 :trace {:id "t"} :task {:intent :problem/solve} :input {:problem "{:slot/id :x}"} ` + more + `}`
}

// RTE-002, SLOT-001: the template of an intent is the plan of its acts. Its nodes read the
// request, [:solver :text] is the text of the result :solver, and what the request says of
// calls holds for each of them.
func TestTemplate(t *testing.T) {
	w := templateWorld(t, solveAndSay)
	response, err, records := do(t, service(t, w), solving(`:constraints {:language :pl} :context {:note "n"}`))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"a/solver", "a/voice"}, w.Dispatched())
	assert.Equal(t, `"said solved {:slot/id :x}"`, response.Key("result").Key("out").Key("text").String())
	assert.Equal(t, `"n"`, w.Calls()[0].Request.Key("context").Key("note").String())
	for _, c := range w.Calls() {
		assert.Equal(t, ":pl", c.Request.Key("constraints").Key("language").String(), c.CapID)
	}
	for _, rec := range records {
		if b, ok := rec.Body.(*journal.PlanResolved); ok && rec.Path.Len() == 0 {
			assert.Equal(t, "template", b.Source)
		}
	}
}

// RTE-002: acts share the plan of a template, also one with calls whose intent follows
// from their capability. The race detector finds an act that changes it.
func TestTemplateIsShared(t *testing.T) {
	w := templateWorld(t, `{:nodes [
		{:op :map :over [1 2] :fn {:cap/ref :a/solver} :as :all}
		{:op :emit :input {:text "done"}}]}`)
	s := service(t, w)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := s.Do(t.Context(), request(solving("")))
			assert.Nil(t, err, "%v", err)
		})
	}
	all.Wait()
	assert.Len(t, w.Calls(), 16)
}

// RTE-002, JRN-040: a run that is resumed after any of its records goes on with the plan
// that it began with, whatever the configuration has for its intent by then.
func TestResumedRunKeepsItsPlan(t *testing.T) {
	const other = `{:nodes [
		{:op :call :intent :text/respond :input {:prompt "other"} :as :first}
		{:op :call :intent :text/respond :input {:prompt "more"} :as :second}
		{:op :emit :input {:text {:slot/path [:second :out :text]}}}]}`
	for name, c := range map[string]struct{ before, after string }{
		"changed": {solveAndSay, other},
		"removed": {solveAndSay, "nil"},
		"added":   {"nil", other},
		"kept":    {solveAndSay, solveAndSay},
	} {
		t.Run(name, func(t *testing.T) {
			_, err, records := do(t, service(t, templateWorld(t, c.before)), solving(""))
			require.Nil(t, err, "%v", err)
			want := finished(t, records)
			begun := slices.IndexFunc(records, func(r journal.Record) bool {
				return r.Body.Kind() == journal.KindPlanResolved && r.Path.Len() == 0
			})
			require.GreaterOrEqual(t, begun, 0)
			for n := begun + 1; n < len(records); n++ {
				past, kept := decoded(t, records[:n]), journal.NewMemory()
				kept.Load(past[0].Run, past)
				s := service(t, templateWorld(t, c.after), func(c *act.Config) { c.Journal = kept })
				run, err := s.Resume(t.Context(), past[0].Run, past, crashed)
				require.Nil(t, err, "%v", err)
				<-run.Done()
				assertSameEnd(t, want, finished(t, run.Records()), fmt.Sprintf("after %d records", n))
			}
		})
	}
}

// RTE-002: what the acts of a template may call is known before plugins start.
func TestReachOfATemplate(t *testing.T) {
	w := templateWorld(t, solveAndSay)
	c := act.Config{Registry: w.Registry, Policies: w.Policies, Checks: w.Checks}
	for text, want := range map[string][]string{
		solving(""): {"a/solver", "a/spare", "a/voice"},
		`{:proto 1 :trace {:id "t"} :task {:intent :problem/solve :cap/id :a/spare} :input {}}`: {"a/spare"},
	} {
		ids, err := act.Reach(c, request(text))
		require.Nil(t, err, "%v", err)
		assert.Equal(t, want, ids, text)
	}
}

// RTE-002: a request that names a capability is one call of that.
func TestTemplateIsLeftOutForACapability(t *testing.T) {
	w := templateWorld(t, solveAndSay)
	response, err, _ := do(t, service(t, w), `{:proto 1 :trace {:id "t"} :task {:intent :problem/solve :cap/id :a/spare} :input {}}`)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"a/spare"}, w.Dispatched())
	assert.Equal(t, `"spare"`, response.Key("result").Key("out").Key("text").String())
}

// RTE-002, RTE-009: the act of a template ends with the error of its node, and with an
// answer that does not fit its intent as any plan.
func TestTemplateFails(t *testing.T) {
	w := templateWorld(t, solveAndSay)
	w.Func("a/voice", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:text "  "}`)}
	})
	_, err, _ := do(t, service(t, w), solving(""))
	require.ErrorIs(t, err, contract.OfType("schema/invalid"))
	w.Func("a/voice", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("provider/refused", "it does not say that")}
	})
	_, err, _ = do(t, service(t, w), solving(""))
	require.NotNil(t, err)
	assert.Equal(t, []string{"a/solver", "a/voice", "a/solver", "a/voice"}, w.Dispatched())
}
