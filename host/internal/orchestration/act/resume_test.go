package act_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// resumeWorld serves every call in the same way, whichever host makes it. a/bad
// gives an answer that its gate refuses and is good in a repair round, a/down
// fails, a/plan answers with a plan, and a/check is a gate.
func resumeWorld(t testing.TB) *dispatchtest.World {
	t.Helper()
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/two", ""), dispatchtest.Cap("a/down", ""), dispatchtest.Cap("a/bad", ":cap/repairs? true"),
			dispatchtest.Cap("a/plan", ":cap/can-produce #{:value :plan}"),
			dispatchtest.Cap("a/pays", ":cap/cost {:usd 0.01M}"),
			dispatchtest.Cap("a/puts", ":cap/effects #{:fs/write} :cap/idempotent? true"),
			dispatchtest.Cap("a/adds", ":cap/effects #{:fs/write}"),
			dispatchtest.Cap("a/stuck", ":cap/effects #{:fs/write} :cap/idempotent? true"),
			router("r/pick", ""), router("r/thinks", ":cap/limits {:max-tokens 150 :headroom-tokens 2000}"), router("r/plan", ":cap/can-produce #{:value :plan}"), router("r/down", ""), router("r/prose", ""),
			`{:cap/id :a/check :cap/kind :solver :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any}`,
		},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}},
			{ID: "text/verify", In: "req/any", Out: "res/any"},
			{ID: "route/decide", In: "req/route", Out: "res/route", ResultTypes: []string{"value", "plan"}},
		},
		Checks: []quality.Check{
			{Check: registry.Check{Name: "good", Kind: registry.CheckCondition}, Judge: func(s quality.Subject) quality.Outcome {
				if s.Result.Key("good").Truthy() {
					return quality.Passed()
				}
				return quality.Failed(quality.Finding{Message: "it is not good"})
			}},
			{Check: registry.Check{Name: "checked", Kind: registry.CheckCapability, Intent: "text/verify"}},
		},
	})
	w.Func("a/one", answerInput).Func("a/two", answerInput).Func("a/puts", answerInput).Func("a/adds", answerInput).Func("a/pays", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		step := answerInput(ctx, c)
		step.Usage = edn.MustRead(`{:cost-usd 0.01M :cost-mark :exact}`)
		return step
	})
	w.Func("a/down", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
	})
	w.Func("a/stuck", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "the disk is away")}
	})
	w.Func("a/bad", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustMap(edn.K("good"), edn.Bool(c.Request.Key("context").HasKey("repair")))}
	})
	w.Func("a/plan", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Plan: edn.MustRead(`{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt "within"} :as :w}
		  {:op :emit :input {:good true :was {:slot/id :w :slot/path [:out]}}}]}`)}
	})
	routers(w)
	w.Func("a/check", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:ok? true}`)}
	})
	return w
}

func answerInput(_ context.Context, c dispatch.Call) dispatchtest.Step {
	return dispatchtest.Step{Value: edn.MustMap(edn.K("good"), edn.Bool(true), edn.K("by"), edn.K(c.CapID), edn.K("of"), c.Request.Key("input"))}
}

// resumeCases are acts whose runs are cut at every record.
var resumeCases = map[string]string{
	"one call": asking("[:a/one]", "", "{}", ""),
	"fallback": asking("[:a/down :a/two]", ":retry {:fallback-max 1}", "{}", ""),
	"retry":    asking("[:a/down :a/two]", ":retry {:same-cap-max 1 :fallback-max 1}", "{}", ""),
	"repair":   asking("[:a/bad]", ":repair {:max 1}", "{}", ":done {:must #{:good}}"),
	"refused":  asking("[:a/bad :a/one]", ":retry {:fallback-max 1}", "{}", ":done {:must #{:good}}"),
	"checked":  asking("[:a/one]", "", "{}", ":done {:must #{:good :checked}}"),
	"plan":     asking("[:a/plan]", "", "{}", ""),
	"budget":   asking("[:a/pays]", "", "{:max-usd 1M}", ""),
	"effect":   asking("[:a/puts :a/one]", ":retry {:fallback-max 1}", "{}", ":effects {:allowed #{:fs/write}}"),
	"once":     asking("[:a/adds :a/one]", ":retry {:fallback-max 1}", "{}", ":effects {:allowed #{:fs/write}}"),
	"race":     asking("[:a/one :a/down]", ":strategy :race :race {:width 2} :retry {:fallback-max 1}", "{}", ""),
	"learned":  asking("[:a/down :a/two]", ":policy :learned :retry {:fallback-max 1}", "{}", ""),
	"fails":    asking("[:a/down]", "", "{}", ""),

	"routed":               asking("[:a/one :a/two]", "", "{}", routedBy("r/pick", "")),
	"routed, other follow": asking("[:a/one :a/down :a/two]", ":retry {:fallback-max 1}", "{:max-usd 1M}", routedBy("r/pick", "")),
	"routed by a plan":     asking("[:a/one :a/two]", "", "{}", routedBy("r/plan", "")),
	"routed, open":         asking("[:a/one :a/two]", "", "{}", routedBy("r/down", "")),
	"routed, closed":       asking("[:a/one :a/two]", "", "{}", routedBy("r/down", ":strict? true")),
	"routed by prose":      asking("[:a/one :a/two]", "", "{}", routedBy("r/prose", ":on-error :fail-open")),
	"streams":              asking("[:a/one]", "", "{}", ":response/type :stream"),
	"own plan": ownPlan(`{:nodes [
	  {:op :let :value {:n 1} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt {:slot/id :x}} :as :first}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/down :a/two] :retry {:fallback-max 1}} :input {:prompt {:slot/path [:first :out]}} :as :second}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :when {:failed? :first} :input {} :as :third}
	  {:op :emit :input [{:slot/path [:first :out]} {:slot/path [:second :out]}]}]}`, "", ""),
	"nested": ownPlan(`{:nodes [
	  {:op :let :value [1 2 3] :as :numbers}
	  {:op :map :over :numbers :item :i :as :all :max-parallel 1 :body [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n {:slot/id :i}} :as :r}
	    {:op :emit :input {:slot/path [:r :out :of]}}]}
	  {:op :plan :as :inner :plan {:nodes [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/plan]} :input {} :as :p}
	    {:op :emit :input {:slot/path [:p :out]}}]}}
	  {:op :emit :input {:all {:slot/path [:all :out]} :inner {:slot/path [:inner :out]}}}]}`, "", ""),
	"kept failure": ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/down] :allow-failure? true} :input {} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt {:slot/path [:x :error :message]}} :as :y}
	  {:op :emit :input {:why {:slot/path [:x :error :type]} :y {:slot/path [:y :out]}}}]}`, "", ""),
	"kept failure of a write": ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/stuck :a/one] :allow-failure? true} :input {} :as :x}
	  {:op :emit :input {:why {:slot/path [:x :error]}}}]}`, "", ":effects {:allowed #{:fs/write}}"),
	"kept failure before a call": ownPlan(`{:nodes [
	  {:op :plan :as :inner :plan {:nodes [
	    {:op :let :value {:a 1} :as :x}
	    {:op :call :intent :text/respond :dispatch {:allow-failure? true} :input {:prompt {:slot/path [:x :missing]}} :as :y}
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {} :as :z}
	    {:op :emit :input {:slot/path [:z :out]}}]}}
	  {:op :emit :input {:slot/id :inner}}]}`, "", ""),
	"failed item": ownPlan(`{:nodes [
	  {:op :map :over [1 2] :item :i :as :all :max-parallel 1 :on-item-error :keep :body [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/stuck :a/one]} :input {:n {:slot/id :i}} :as :r}
	    {:op :emit :input {:slot/path [:r :out]}}]}
	  {:op :emit :input {:slot/id :all}}]}`, "", ":effects {:allowed #{:fs/write}}"),
	"tournament": asking("[:a/two :a/one :a/down]", ":strategy :tournament :tournament {:width 3} :retry {:fallback-max 2}", "{}", ""),
}

var crashed = act.Resumption{Why: journal.ResumedCrash}

// made identifies a call: equal ones have the same effect.
func made(c dispatch.Call) string { return c.EffectKey + " " + c.CapID }

// JRN-040, JRN-041, JRN-043: a run that is cut after any of its records and
// resumed by a new host ends as it would have; what is recorded is not done again,
// a call under way is repeated with its effect key by its own candidate, and one of
// class once is not repeated at all.
func TestResumeAfterAnyRecord(t *testing.T) {
	for name, text := range resumeCases {
		t.Run(name, func(t *testing.T) {
			open := func(c *act.Config) {
				c.Effects = dispatchtest.Open()
				c.Deadlines.Usual = time.Hour // all resumed runs began when this one does
			}
			_, err, records := do(t, service(t, resumeWorld(t), open), text)
			require.NotEmpty(t, records, "%v", err)
			want := finished(t, records)
			for n := 1; n < len(records); n++ {
				again := assertResumes(t, name, records, want, records[:n])
				for m := n + 1; m < len(again); m += 3 { // and the second host ends as well
					assertResumes(t, name, records, want, again[:m])
				}
			}
		})
	}
}

// assertResumes resumes a run of a case from its first records, and returns all
// records. The uninterrupted run has the records whole and ends with want.
func assertResumes(t *testing.T, name string, whole []journal.Record, want *journal.RunFinished, first []journal.Record) []journal.Record {
	t.Helper()
	w, kept := resumeWorld(t), journal.NewMemory()
	past := decoded(t, first)
	kept.Load(past[0].Run, past)
	s := service(t, w, func(c *act.Config) { c.Effects, c.Journal = dispatchtest.Open(), kept })
	run, refused := s.Resume(t.Context(), past[0].Run, past, crashed)
	require.Nil(t, refused, "after %d records", len(past))
	<-run.Done()
	all := run.Records()
	for i, rec := range all {
		dispatchtest.Verify(t, rec)
		require.Equal(t, i+1, rec.Seq)
	}
	last := past[len(past)-1]
	at := fmt.Sprintf("after %d records, %s of epoch %d", len(past), last.Body.Kind(), last.Epoch)
	if slices.ContainsFunc(underWay(past), (*journal.Tried).HadEffectOnce) {
		assert.Equal(t, "effects/outcome-unknown", finished(t, all).Err.Type, at)
		assert.Empty(t, w.Calls(), at)
		return all
	}
	assertSameEnd(t, want, finished(t, all), at)
	if _, missed := act.Replay(t.Context(), s.Config(), past[0].Run, decoded(t, all)); missed != nil { // JRN-050
		t.Errorf("%s: replay: %v", at, missed)
	}
	calls := answered(past)
	for _, c := range w.Calls() {
		calls[made(c)]++
		assert.False(t, c.CapID == "a/one" && name == "effect", "%s: another candidate has the effect", at)
	}
	for call, times := range answered(whole) {
		assert.Equal(t, times, calls[call], "%s: calls of %s", at, call)
	}
	return all
}

// latency is measured: two runs of one plan differ in it.
var latency = regexp.MustCompile(`:latency-ms \d+`)

// assertSameEnd compares how runs end.
func assertSameEnd(t *testing.T, want, got *journal.RunFinished, at string) {
	t.Helper()
	assert.Equal(t, want.Status, got.Status, at)
	if want.Err != nil && assert.NotNil(t, got.Err, at) {
		assert.Equal(t, want.Err.Type, got.Err.Type, at)
	}
	for _, key := range []string{"result", "quality"} {
		part := func(end *journal.RunFinished) string {
			return latency.ReplaceAllString(end.Response.Value().Key(key).Dissoc(edn.K("usage")).String(), ":latency-ms 0")
		}
		assert.Equal(t, part(want), part(got), "%s: %s", at, key)
	}
}

func finished(t *testing.T, records []journal.Record) *journal.RunFinished {
	t.Helper()
	end, ok := records[len(records)-1].Body.(*journal.RunFinished)
	require.True(t, ok, "the last record is %s", records[len(records)-1].Body.Kind())
	return end
}

// decoded returns records as a store gives them back.
func decoded(t *testing.T, records []journal.Record) []journal.Record {
	t.Helper()
	values := map[string]edn.Value{}
	d := journal.Decoder{Values: func(hash string) edn.Value { return values[hash] }}
	out := make([]journal.Record, len(records))
	for i, rec := range records {
		rec.Refs(func(ref journal.Ref) { values[ref.Hash()] = ref.Value() })
		var err error
		out[i], err = d.Decode(edn.MustRead(rec.Value().String()))
		require.NoError(t, err)
	}
	return out
}

// underWay returns the attempts without an end.
func underWay(records []journal.Record) (out []*journal.Tried) {
	h := journal.NewHistory(records)
	for _, rec := range records {
		if start, ok := rec.Body.(*journal.AttemptStarted); ok {
			for _, tried := range h.At(rec.Path).Attempts {
				if tried.Started == start && tried.Lost {
					out = append(out, tried)
				}
			}
		}
	}
	return out
}

// answered counts the calls with an end.
func answered(records []journal.Record) map[string]int {
	out := map[string]int{}
	h := journal.NewHistory(records)
	for _, rec := range records {
		if start, ok := rec.Body.(*journal.AttemptStarted); ok {
			for _, tried := range h.At(rec.Path).Attempts {
				if tried.Started == start && !tried.Lost {
					out[start.EffectKey+" "+start.CapID]++
				}
			}
		}
	}
	return out
}

// JRN-050: a run whose host stopped during a call of another candidate than the first is replayed
// with an equal result, if the first one is available again at the resume.
func TestReplayAfterALostFallback(t *testing.T) {
	for name, text := range map[string]string{
		"tournament": asking("[:a/one :a/two]", ":strategy :tournament :tournament {:width 2}", "{}", ""),
		"cascade":    asking("[:a/down :a/two]", ":retry {:fallback-max 1}", "{}", ""),
	} {
		t.Run(name, func(t *testing.T) {
			w := resumeWorld(t)
			for _, id := range []string{"a/one", "a/down"} {
				w.SetState(id, dispatch.CapState{})
			}
			_, err, whole := do(t, service(t, w), text)
			require.Nil(t, err, "%v", err)
			all, err := resumed(t, resumeWorld(t), cutBefore(t, whole, true, startsCall("a/two")), crashed)
			require.Nil(t, err, "%v", err)
			_, missed := act.Replay(t.Context(), service(t, resumeWorld(t)).Config(), all[0].Run, decoded(t, all))
			assert.Nil(t, missed, "%v", missed)
		})
	}
}

// JRN-040: a tournament that found one candidate ready, and so tries its candidates in turn, has as many
// after a restart: the recorded answer of the second is taken without a call.
func TestResumedCascadeOfATournament(t *testing.T) {
	text := asking("[:a/down :a/two]", ":strategy :tournament :tournament {:width 2} :retry {:fallback-max 0}", "{}", "")
	w := resumeWorld(t)
	w.SetState("a/two", dispatch.CapState{})
	w.Func("a/down", func(context.Context, dispatch.Call) dispatchtest.Step {
		w.SetState("a/two", dispatch.CapState{Ready: true})
		return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "down")}
	})
	_, err, whole := do(t, service(t, w), text)
	require.Nil(t, err, "%v", err)
	committed := func(r journal.Record) bool { return r.Body.Kind() == journal.KindNodeCommitted }
	later := resumeWorld(t)
	all, err := resumed(t, later, cutBefore(t, whole, false, committed), crashed)
	require.Nil(t, err, "%v", err)
	assert.Empty(t, later.Calls())
	_, missed := act.Replay(t.Context(), service(t, resumeWorld(t)).Config(), all[0].Run, decoded(t, all))
	assert.Nil(t, missed, "%v", missed)
}

// JRN-050: the replay of a run that passed its deadline while no host executed it, or was canceled
// while it was suspended, ends in the same way, also if the failure of the open node would be kept.
func TestReplayOfARunThatDidNotGoOn(t *testing.T) {
	call := `{:op :call :intent :text/respond :dispatch {:candidates [:a/adds] %s} :input {} :as :x}`
	for name, node := range map[string]string{
		"allowed failure": fmt.Sprintf(call, ":allow-failure? true"),
		"kept item":       `{:op :map :over [1] :as :all :on-item-error :keep :body [` + fmt.Sprintf(call, "") + `]}`,
	} {
		text := ownPlan(`{:nodes [`+node+` {:op :emit :input {:v 1}}]}`, "", writes)
		_, err, whole := do(t, service(t, resumeWorld(t), suspending), text)
		require.Nil(t, err, "%v", err)
		past := cutBefore(t, whole, true, startsCall("a/adds"))
		assertReplays := func(all []journal.Record, status string) {
			require.Equal(t, status, finished(t, all).Status, name)
			_, missed := act.Replay(t.Context(), service(t, resumeWorld(t), suspending).Config(), all[0].Run, decoded(t, all))
			assert.Nil(t, missed, "%s, %s: %v", name, status, missed)
		}
		all, _ := resumed(t, resumeWorld(t), past, crashed)
		all, _ = resumed(t, resumeWorld(t), all, act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: "uid/7"}})
		assertReplays(all, journal.StatusCanceled)

		late := decoded(t, past)
		accepted := *late[0].Body.(*journal.RunAccepted)
		accepted.DeadlineAt = late[0].At
		late[0].Body = &accepted
		all, _ = resumed(t, resumeWorld(t), late, crashed)
		assertReplays(all, journal.StatusExpired)
	}
}

// JRN-040: what cannot be resumed is refused.
func TestNotResumable(t *testing.T) {
	w := resumeWorld(t)
	s := service(t, w)
	_, err, records := do(t, s, resumeCases["one call"])
	require.Nil(t, err)
	_, refused := s.Resume(t.Context(), records[0].Run, records, crashed)
	require.NotNil(t, refused)
	assert.Equal(t, "run/not-resumable", refused.Type)
	_, refused = s.Resume(t.Context(), "run_x", nil, crashed)
	require.NotNil(t, refused)
	assert.Equal(t, "run/not-resumable", refused.Type)

	older := records[0]
	body := *older.Body.(*journal.RunAccepted)
	body.Evaluator++
	older.Body = &body
	_, refused = s.Resume(t.Context(), older.Run, []journal.Record{older}, crashed)
	require.NotNil(t, refused)
	assert.Equal(t, "run/evaluator-unknown", refused.Type)
}

// LED-005: the budget of a resumed run has what was spent before, and what was
// reserved for a call under way.
func TestBudgetOfAResumedRun(t *testing.T) {
	w := resumeWorld(t)
	text := ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/pays]} :input {:n 1} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/pays]} :input {:n {:slot/path [:x :out]}} :as :y}
	  {:op :emit :input {:slot/path [:y :out]}}]}`, "", ":budget {:max-usd 0.02M}")
	_, err, records := do(t, service(t, w), text)
	require.Nil(t, err, "%v", err)
	for n := 1; n < len(records); n++ {
		past := decoded(t, records[:n])
		kept := journal.NewMemory()
		kept.Load(past[0].Run, past)
		s := service(t, resumeWorld(t), budgets(policy.Budgets{}), func(c *act.Config) { c.Journal = kept })
		run, refused := s.Resume(t.Context(), past[0].Run, past, crashed)
		require.Nil(t, refused)
		_, err := run.Wait()
		lost := len(underWay(past)) > 0
		if lost { // the call that may have been paid leaves nothing for another
			require.NotNil(t, err, "after %d records", n)
			assert.Equal(t, "budget/exceeded", err.Type, "after %d records", n)
		} else {
			assert.Nil(t, err, "after %d records: %v", n, err)
		}
	}
}

// RUN-008: relative paths of a resumed run are relative to the directory that its
// caller has named.
func TestResumeKeepsTheDirectory(t *testing.T) {
	a := request(ask + `}`)
	a.Request = a.Request.AssocKey("input", edn.MustRead(`{:dir "sub"}`))
	a.Dir = "/home/ann"
	w := resumeWorld(t)
	run, refused := service(t, w).Start(t.Context(), a)
	require.Nil(t, refused)
	<-run.Done()
	past := decoded(t, run.Records()[:1])
	kept := journal.NewMemory()
	kept.Load(run.ID(), past)
	next := resumeWorld(t)
	again, refused := service(t, next, func(c *act.Config) { c.Journal = kept }).Resume(t.Context(), run.ID(), past, crashed)
	require.Nil(t, refused)
	_, err := again.Wait()
	require.Nil(t, err)
	for _, world := range []*dispatchtest.World{w, next} {
		dir, _ := world.Calls()[0].Request.Key("input").Key("dir").AsString()
		assert.Equal(t, "/home/ann/sub", dir)
	}
}

// RUN-016: a run that was under way in three crashes in a row is suspended;
// a shutdown between them begins the count anew.
func TestPoisonRun(t *testing.T) {
	_, err, records := do(t, service(t, resumeWorld(t)), resumeCases["own plan"])
	require.Nil(t, err)
	crash, restart := journal.ResumedCrash, journal.ResumedRestart
	for _, tc := range []struct {
		why    []string
		poison bool
	}{
		{[]string{crash, crash}, false},
		{[]string{crash, crash, crash}, true},
		{[]string{crash, crash, restart, crash, crash}, false},
		{[]string{crash, restart, crash, crash, crash}, true},
		{[]string{restart, restart, restart, restart}, false},
	} {
		past := decoded(t, records[:5])
		var all []journal.Record
		w := resumeWorld(t)
		for _, why := range tc.why {
			w = resumeWorld(t)
			kept := journal.NewMemory()
			kept.Load(past[0].Run, past)
			run, refused := service(t, w, func(c *act.Config) { c.Journal = kept }).Resume(t.Context(), past[0].Run, past, act.Resumption{Why: why})
			require.Nil(t, refused)
			<-run.Done()
			all = run.Records()
			past = decoded(t, all[:len(past)+1]) // the next crash comes at once
			require.Equal(t, journal.KindRunResumed, past[len(past)-1].Body.Kind())
		}
		if !tc.poison {
			assert.Equal(t, journal.StatusCompleted, finished(t, all).Status, "%v", tc.why)
			continue
		}
		assert.Equal(t, &journal.RunSuspended{Why: "run/poison"}, all[len(all)-1].Body, "%v", tc.why)
		assert.Empty(t, w.Calls(), "nothing is called that may crash the host")
		all, _ = resumed(t, resumeWorld(t), all, act.Resumption{Why: journal.ResumedDecision})
		assert.Equal(t, journal.StatusCompleted, finished(t, all).Status, "%v", tc.why)
	}
}

// RUN-043: text that was shown before a crash and is not part of an accepted answer is
// retracted before the resumed run shows any.
func TestShownTextIsRetractedOnResume(t *testing.T) {
	stream := func(w *dispatchtest.World) {
		w.Policies.Intents = map[string]policy.Layer{
			"text/respond": {Stream: policy.Of(policy.Provisional, policy.Origin{Source: policy.SourceIntent})},
		}
		w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Pieces: []string{"half ", "of it"}, Value: edn.MustRead(`{:text "half of it"}`)}
		})
	}
	w := resumeWorld(t)
	stream(w)
	_, err, records := do(t, service(t, w), asking("[:a/one]", "", "{}", ":response/type :stream"))
	require.Nil(t, err)
	shown := slices.IndexFunc(records, func(r journal.Record) bool { return r.Body.Kind() == journal.KindAttemptChunk })
	require.Positive(t, shown)
	past := decoded(t, records[:shown+1])
	kept := journal.NewMemory()
	kept.Load(past[0].Run, past)
	w = resumeWorld(t)
	stream(w)
	run, refused := service(t, w, func(c *act.Config) { c.Journal = kept }).Resume(t.Context(), past[0].Run, past, crashed)
	require.Nil(t, refused)
	_, err = run.Wait()
	require.Nil(t, err, "%v", err)
	var order []string
	for _, rec := range run.Records()[len(past):] {
		switch body := rec.Body.(type) {
		case *journal.AttemptRetracted:
			order = append(order, "retracted "+body.Reason)
			assert.Equal(t, past[shown].Path.String(), rec.Path.String())
		case *journal.AttemptChunk:
			order = append(order, "chunk")
		}
	}
	require.NotEmpty(t, order)
	assert.Equal(t, "retracted runtime/crashed", order[0])
	assert.Contains(t, order[1:], "chunk")
}
