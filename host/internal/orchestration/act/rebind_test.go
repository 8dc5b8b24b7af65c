package act_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// partCaps are capabilities that each serve an intent of the same name.
var partCaps = map[string]string{
	"p/render": "",
	"p/once":   ":cap/effects #{:fs/write}",
	"p/idem":   ":cap/effects #{:fs/write} :cap/idempotent? true",
	"p/ask":    "",
	"p/plan":   ":cap/can-produce #{:value :plan}",
}

// parts is a world with the capabilities of partCaps except some. Their intents are
// unknown, apart from p/kept, which is declared.
func parts(t testing.TB, without ...string) *dispatchtest.World {
	t.Helper()
	return partsOf(t, partCaps, "", without...)
}

// partsOf is parts with other declarations of the capabilities, and with the setting
// on_unknown of the intent p/kept.
func partsOf(t testing.TB, caps map[string]string, onUnknown string, without ...string) *dispatchtest.World {
	t.Helper()
	spec := dispatchtest.Spec{Intents: []registry.Intent{{ID: "p/kept", In: "req/any", Out: "res/any", OnUnknown: onUnknown}}}
	for id, more := range caps {
		if !slices.Contains(without, id) {
			spec.Caps = append(spec.Caps, "{:cap/id :"+id+" :cap/kind :solver :cap/intents #{:"+id+" :p/kept} :io/in-schema :req/any :io/out-schema :res/any "+more+"}")
		}
	}
	w := dispatchtest.New(t, spec)
	for id := range partCaps {
		w.Func(id, answerInput)
	}
	return w
}

// partsPlan renders, has an effect that must not be repeated, and asks.
const partsPlan = `{:nodes [
  {:op :call :id "t" :intent :p/render :input {:n 1} :as :t}
  {:op :plan :id "in" :as :in :plan {:nodes [
    {:op :call :id "d" :intent :p/once :input {:n {:slot/path [:t :out :of]}} :as :d}
    {:op :call :id "x" :intent :p/ask :input {:n {:slot/path [:d :out :of]}} :as :x}
    {:op :emit :input [{:slot/path [:d :out :by]} {:slot/path [:x :out :by]}]}]}}
  {:op :emit :input [{:slot/path [:t :out :by]} {:slot/path [:in :out]}]}]}`

// cutBefore returns the records before the first one that is, so that a host that
// stopped there had written them; with that record if with is set.
func cutBefore(t testing.TB, records []journal.Record, with bool, is func(journal.Record) bool) []journal.Record {
	t.Helper()
	i := slices.IndexFunc(records, is)
	require.Positive(t, i)
	if with {
		i++
	}
	return records[:i]
}

// reconfigured is a host whose configuration is another than that of the first one.
func reconfigured(c *act.Config) { c.Hash = edn.Hash(edn.Text("another")) }

// rebound resumes a run under another configuration.
func rebound(t *testing.T, w *dispatchtest.World, records []journal.Record, how act.Resumption) ([]journal.Record, *contract.Error) {
	t.Helper()
	return resumed(t, w, records, how, reconfigured)
}

func startsCall(capID string) func(journal.Record) bool {
	return func(r journal.Record) bool {
		b, ok := r.Body.(*journal.AttemptStarted)
		return ok && b.CapID == capID
	}
}

// wholeRun returns the records of an act under a configuration that has everything.
func wholeRun(t testing.TB, text string) []journal.Record {
	t.Helper()
	_, err, records := do(t, service(t, parts(t), suspending), text)
	require.Nil(t, err, "%v", err)
	return records
}

// suspendedWith asserts that the last record suspends a run, and returns it.
func suspendedWith(t testing.TB, records []journal.Record, err *contract.Error, why string) *journal.RunSuspended {
	t.Helper()
	require.NotNil(t, err)
	require.Equal(t, "run/suspended", err.Type, "%v", err)
	last, ok := records[len(records)-1].Body.(*journal.RunSuspended)
	require.True(t, ok, "the last record is %s", records[len(records)-1].Body.Kind())
	require.Equal(t, why, last.Why)
	return last
}

var decide = act.Resumption{Why: journal.ResumedDecision}

// JRN-040: nodes whose end is recorded need nothing of the present configuration: neither
// their capability nor its effects. Strict replay answers for them from the records.
func TestResumeNeedsOnlyWhatIsLeft(t *testing.T) {
	whole := wholeRun(t, ownPlan(partsPlan, "", writes))
	want := finished(t, whole)
	past := cutBefore(t, whole, false, startsCall("p/ask"))
	w := parts(t, "p/render", "p/once")
	all, err := rebound(t, w, past, crashed)
	require.Nil(t, err, "%v", err)
	assertSameEnd(t, want, finished(t, all), "without their plugins")
	for _, c := range w.Calls() {
		assert.Equal(t, "p/ask", c.CapID)
	}
	kept := journal.NewMemory()
	kept.Load(past[0].Run, decoded(t, past))
	denying := service(t, parts(t), func(c *act.Config) { c.Journal, c.Suspends = kept, true })
	run, refused := denying.Resume(t.Context(), past[0].Run, decoded(t, past), crashed)
	require.Nil(t, refused, "%v", refused)
	_, err = run.Wait()
	require.Nil(t, err, "%v", err)
	assertSameEnd(t, want, finished(t, run.Records()), "without the effect")
	for _, records := range [][]journal.Record{whole, all} {
		for _, without := range [][]string{nil, {"p/render"}, {"p/render", "p/once", "p/ask"}} {
			s := service(t, parts(t, without...), func(c *act.Config) { c.Effects = &policy.Effects{} })
			_, missed := act.Replay(t.Context(), s.Config(), records[0].Run, decoded(t, records))
			assert.Nil(t, missed, "replay without %v: %v", without, missed)
		}
	}
	single := wholeRun(t, `{:proto 1 :trace {:id "r"} :task {:intent :p/render} :input {:n 1}}`)
	_, missed := act.Replay(t.Context(), service(t, parts(t, "p/render")).Config(), single[0].Run, decoded(t, single))
	assert.Nil(t, missed, "replay of one call: %v", missed)
}

// JRN-040, JRN-041: a call of class once with an unknown outcome needs its decision,
// whatever the configuration lacks. What is left then waits until the configuration has it.
func TestDecisionComesBeforeTheConfiguration(t *testing.T) {
	single := `{:proto 1 :trace {:id "r"} :task {:intent :%s :dispatch {:candidates [:p/once]}} :input {:n 2} ` + writes + `}`
	for name, tc := range map[string]struct{ text, node string }{
		"plan":            {ownPlan(partsPlan, "", writes), "d"},
		"unknown intent":  {fmt.Sprintf(single, "p/once"), "act"},
		"declared intent": {fmt.Sprintf(single, "p/kept"), "act"},
	} {
		whole := wholeRun(t, tc.text)
		past := cutBefore(t, whole, true, startsCall("p/once"))
		for _, without := range [][]string{{"p/render"}, {"p/render", "p/once"}, {"p/once", "p/ask"}} {
			t.Run(name, func(t *testing.T) {
				lacking := parts(t, without...)
				all, err := rebound(t, lacking, past, crashed)
				if name != "plan" && without[0] == "p/render" && len(without) == 1 {
					suspendedWith(t, all, err, "effects/outcome-unknown") // nothing that it needs is missing
					return
				}
				last := suspendedWith(t, all, err, "effects/outcome-unknown")
				require.Len(t, last.Open, 1)
				assert.Equal(t, []any{tc.node, "p/once", 1}, []any{last.Open[0].Node, last.Open[0].CapID, last.Open[0].Attempt})
				for _, lost := range underWay(all) {
					assert.True(t, lost.Closed, "the end of the lost call is recorded")
				}
				assert.Empty(t, lacking.Calls())

				given, err := rebound(t, parts(t, "p/render", "p/once"), all, deciding(tc.node, journal.DecisionDone, edn.MustRead(`{:by :p/once :of {}}`)))
				require.Nil(t, err, "%v", err)
				assert.Contains(t, finished(t, given).Response.Value().Key("result").String(), ":p/once", "nothing else is needed")

				all, err = rebound(t, parts(t, "p/once", "p/ask"), all, deciding(tc.node, journal.DecisionRetry, edn.Nil()))
				lost := suspendedWith(t, all, err, journal.WhyNotReady)
				assert.Empty(t, lost.Open)
				require.NotNil(t, lost.Err)
				for range 2 { // it can be left as often as the configuration lacks something
					all, err = rebound(t, parts(t, "p/once"), all, decide)
					suspendedWith(t, all, err, journal.WhyNotReady)
				}
				back := parts(t)
				all, err = rebound(t, back, all, decide)
				require.Nil(t, err, "%v", err)
				assertSameEnd(t, finished(t, whole), finished(t, all), "with everything back")
				calls := 0
				for _, c := range back.Calls() {
					if c.CapID == "p/once" {
						calls++
					}
				}
				assert.Equal(t, 1, calls, "it is called as decided")
			})
		}
	}
}

// JRN-041: a call with an unknown outcome that may be repeated by its record, and not under the
// present configuration, needs a decision: whether the host stopped during the call, after its
// process crashed, or after the run failed and was continued.
func TestStricterClassDecides(t *testing.T) {
	once := maps.Clone(partCaps)
	once["p/idem"] = partCaps["p/once"]
	crashes := func(w *dispatchtest.World, capID string) *dispatchtest.World {
		w.Func(capID, func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Crash: true} })
		return w
	}
	for name, tc := range map[string]struct {
		capID      string
		first, now func() *dispatchtest.World
	}{
		"capability": {
			"p/idem",
			func() *dispatchtest.World { return parts(t) },
			func() *dispatchtest.World { return partsOf(t, once, "") },
		},
		"on_unknown": {
			"p/once",
			func() *dispatchtest.World { return partsOf(t, partCaps, registry.UnknownRetries) },
			func() *dispatchtest.World { return partsOf(t, partCaps, registry.UnknownSuspends) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := `{:proto 1 :trace {:id "r"} :task {:intent :p/kept :dispatch {:candidates [:` + tc.capID +
				`] :retry {:same-cap-max 1}}} :input {:n 2} ` + writes + `}`
			run := func(w *dispatchtest.World) []journal.Record {
				_, _, records := do(t, service(t, w, suspending), text)
				return records
			}
			whole, failed := run(tc.first()), run(crashes(tc.first(), tc.capID))
			require.True(t, finished(t, failed).Err.Retryable)
			crashedOnce := cutBefore(t, failed, true, func(r journal.Record) bool {
				end, ok := r.Body.(*journal.AttemptFinished)
				return ok && end.Outcome == journal.OutcomeUnknown
			})
			for cut, past := range map[string][]journal.Record{
				"in the call":      cutBefore(t, whole, true, startsCall(tc.capID)),
				"after a crash":    crashedOnce,
				"after its answer": cutBefore(t, whole, false, func(r journal.Record) bool { return r.Body.Kind() == journal.KindNodeCommitted }),
				"failed":           failed,
			} {
				how := crashed
				if cut == "failed" {
					how = continued
				}
				w := tc.now()
				all, err := rebound(t, w, past, how)
				assert.Empty(t, w.Calls(), "%s: it is not repeated", cut)
				if cut == "after its answer" {
					require.Nil(t, err, "%s: %v", cut, err)
					continue
				}
				last := suspendedWith(t, all, err, "effects/outcome-unknown")
				require.Len(t, last.Open, 1, cut)
				assert.Equal(t, tc.capID, last.Open[0].CapID, cut)
				all, err = rebound(t, tc.now(), all, deciding("act", journal.DecisionRetry, edn.Nil()))
				require.Nil(t, err, "%s: %v", cut, err)
				_, missed := act.Replay(t.Context(), service(t, tc.now()).Config(), all[0].Run, decoded(t, all))
				assert.Nil(t, missed, "%s: replay: %v", cut, missed)
			}
		})
	}
}

// JRN-040, RUN-010, RUN-022: a run whose remaining nodes the present configuration cannot
// execute is suspended with the reason, and continues once it can. Its key keeps no answer
// meanwhile. That holds for plans, single acts and acts that waited in the queue.
func TestResumeWithoutWhatIsLeft(t *testing.T) {
	idem := `{:proto 1 :trace {:id "r"} :task {:intent :%s :dispatch {:candidates [:p/idem]}} :input {:n 2} ` + writes + ` ` + keyed + `}`
	cases := map[string]struct{ text, capID string }{
		"plan":            {ownPlan(partsPlan, "", writes+" "+keyed), "p/ask"},
		"unknown intent":  {fmt.Sprintf(idem, "p/idem"), "p/idem"},
		"declared intent": {fmt.Sprintf(idem, "p/kept"), "p/idem"},
		"debug":           {strings.TrimSuffix(fmt.Sprintf(idem, "p/idem"), "}") + ` :routing {:debug/plan? true}}`, "p/idem"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kept := newKeeper()
			with := func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} }
			_, err, whole := do(t, service(t, parts(t), suspending, with), tc.text)
			require.Nil(t, err, "%v", err)
			for cut, past := range map[string][]journal.Record{
				"queued":  whole[:1],
				"begun":   cutBefore(t, whole, false, startsCall(tc.capID)),
				"in call": cutBefore(t, whole, true, startsCall(tc.capID)),
			} {
				lacking := parts(t, tc.capID)
				all, err := rebound(t, lacking, past, crashed)
				last := suspendedWith(t, all, err, journal.WhyNotReady)
				require.NotNil(t, last.Err, cut)
				assert.Contains(t, last.Err.Message, ":"+tc.capID, "%s: it says what is missing", cut)

				held := newKeeper()
				held.runs[all[0].Run] = decoded(t, all)
				held.keys[all[0].Body.(*journal.RunAccepted).Key] = all[0].Run
				s := service(t, lacking, suspending, func(c *act.Config) { c.Journal, c.Keys = held, &act.Keys{} })
				for range 2 {
					response, err := s.Do(t.Context(), request(tc.text))
					if name == "unknown intent" || name == "debug" { // rejected before its key is read
						require.NotNil(t, err, cut)
						continue
					}
					require.NotNil(t, err, cut)
					assert.Equal(t, "run/suspended", err.Type, "%s: %v", cut, err)
					assert.Equal(t, edn.Text(all[0].Run), response.Key("run/id"), "RUN-022: the answer is about that run")
				}

				all, err = rebound(t, parts(t), all, decide)
				require.Nil(t, err, "%s: %v", cut, err)
				assertSameEnd(t, finished(t, whole), finished(t, all), cut)
			}
		})
	}
}

// JRN-044: a run that cannot go on is canceled like any other, and without a durable journal
// it fails.
func TestEndOfARunThatCannotGoOn(t *testing.T) {
	whole := wholeRun(t, ownPlan(partsPlan, "", writes))
	past := cutBefore(t, whole, false, startsCall("p/ask"))
	all, err := rebound(t, parts(t, "p/ask"), past, crashed)
	suspendedWith(t, all, err, journal.WhyNotReady)
	all, err = rebound(t, parts(t, "p/ask"), all, act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: "uid/7"}})
	require.NotNil(t, err)
	assert.Equal(t, "canceled", err.Type)
	assert.Equal(t, journal.StatusCanceled, finished(t, all).Status)

	kept := journal.NewMemory()
	kept.Load(past[0].Run, decoded(t, past))
	s := service(t, parts(t, "p/ask"), func(c *act.Config) { c.Effects, c.Journal = dispatchtest.Open(), kept })
	run, refused := s.Resume(t.Context(), past[0].Run, decoded(t, past), crashed)
	require.Nil(t, refused, "%v", refused)
	_, err = run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "plan/invalid", err.Type)
}

// JRN-040: committed nodes of a plan with which a capability answered need nothing of the
// present configuration, either.
func TestResumeOfAPlanAnswer(t *testing.T) {
	world := func(without ...string) *dispatchtest.World {
		w := parts(t, without...)
		if !slices.Contains(without, "p/plan") {
			w.Func("p/plan", planAnswer(partsPlan))
		}
		return w
	}
	text := ownPlan(`{:nodes [{:op :call :intent :p/plan :input {} :as :p} {:op :emit :input {:slot/path [:p :out]}}]}`, "", writes)
	_, err, whole := do(t, service(t, world(), suspending), text)
	require.Nil(t, err, "%v", err)
	past := cutBefore(t, whole, false, startsCall("p/ask"))
	all, err := rebound(t, world("p/render", "p/once"), past, crashed)
	require.Nil(t, err, "%v", err)
	assertSameEnd(t, finished(t, whole), finished(t, all), "without what is committed")
	all, err = rebound(t, world("p/render", "p/ask"), past, crashed)
	suspendedWith(t, all, err, journal.WhyNotReady)
	all, err = rebound(t, world("p/render"), all, decide)
	require.Nil(t, err, "%v", err)
	assertSameEnd(t, finished(t, whole), finished(t, all), "with what is left")
}

// JRN-040: a call that its input or the rights of the caller prevent fails in a resumed run as in
// one without interruption, also under another configuration. So does what an unchanged one lacks.
func TestResumeFailsAsWithoutInterruption(t *testing.T) {
	forbids := func(c *act.Config) {
		c.Access = policy.ShippedAccess()
		c.Access.Intents = policy.Rules{"p/ask": {Forbidden: []string{policy.RoleAdmin}, Any: []string{policy.RoleAny}}}
	}
	world := func(without ...string) *dispatchtest.World {
		w := parts(t, without...)
		w.Func("p/plan", planAnswer(`{:nodes [
		  {:op :call :intent :p/idem :input {:n 1} :as :i}
		  {:op :call :intent :p/ask :input {:n {:slot/path [:i :out :of]}} :as :x}
		  {:op :emit :input {:slot/path [:x :out]}}]}`))
		return w
	}
	answered := `{:op :call :intent :p/kept :dispatch {:candidates [:p/plan :p/render] :retry {:fallback-max 1} %s} :input {} :as :x}`
	plan := `{:nodes [{:op :call :intent :p/render :input {:n 1} :as :t} %s {:op :emit :input [{:slot/path [:t :out :by]} {:slot/id :x}]}]}`
	for name, tc := range map[string]struct {
		node   string
		status string
	}{
		"kept items": {`{:op :map :over [1 2] :item :i :as :x :on-item-error :keep :body [
		  {:op :call :intent :p/idem :input {:n {:slot/id :i}} :as :w}
		  {:op :call :intent :p/ask :input {:n {:slot/path [:w :out :of]}} :as :r}]}`, journal.StatusCompleted},
		"fallback": {fmt.Sprintf(answered, ""), journal.StatusCompleted},
		"race":     {fmt.Sprintf(answered, ":strategy :race :race {:width 2}"), journal.StatusCompleted},
		"call":     {`{:op :call :intent :p/ask :input {:n {:slot/path [:t :out :of]}} :as :x}`, journal.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			text := ownPlan(fmt.Sprintf(plan, tc.node), "", writes)
			_, _, whole := do(t, service(t, world(), suspending, forbids), text)
			want := finished(t, whole)
			require.Equal(t, tc.status, want.Status, "%v", want.Err)
			for n := 2; n < len(whole); n++ {
				for _, under := range []func(*act.Config){func(*act.Config) {}, reconfigured} {
					all, _ := resumed(t, world(), whole[:n], crashed, forbids, under)
					assertSameEnd(t, want, finished(t, all), fmt.Sprintf("after %d records", n))
				}
			}
		})
	}
	_, err, whole := do(t, service(t, world(), suspending), ownPlan(fmt.Sprintf(plan, fmt.Sprintf(answered, "")), "", writes))
	require.Nil(t, err, "%v", err)
	all, err := rebound(t, world("p/ask"), cutBefore(t, whole, false, startsCall("p/ask")), crashed)
	require.Nil(t, err, "%v", err)
	assert.Contains(t, finished(t, all).Response.Value().String(), ":by :p/render", "the other candidate answers")

	past := cutBefore(t, wholeRun(t, ownPlan(partsPlan, "", writes)), false, startsCall("p/ask"))
	all, err = resumed(t, parts(t, "p/ask"), past, crashed)
	require.NotNil(t, err)
	assert.Equal(t, "run/suspended", err.Type, "its plugin lacks the capability under the same configuration")
	end, ok := all[len(all)-1].Body.(*journal.RunSuspended)
	require.True(t, ok)
	assert.Equal(t, journal.WhyNotReady, end.Why)
}

func planAnswer(plan string) func(context.Context, dispatch.Call) dispatchtest.Step {
	return func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Plan: edn.MustRead(plan)}
	}
}
