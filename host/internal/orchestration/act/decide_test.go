package act_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// losing is a world in which the process of a/adds ends in each of its first calls.
func losing(t testing.TB, calls int) *dispatchtest.World {
	w := resumeWorld(t)
	w.Func("a/adds", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		if calls--; calls >= 0 {
			return dispatchtest.Step{Err: contract.Errorf("runtime/crashed", "the process ended")}
		}
		return answerInput(ctx, c)
	})
	return w
}

// givesRoutes lets a/adds answer in the schema res/route, which accepts no empty answer.
func givesRoutes(t testing.TB, w *dispatchtest.World) *dispatchtest.World {
	c, ok := w.Registry.Capability("a/adds")
	require.True(t, ok)
	c.OutSchema = contract.SchemaRef{Name: "res/route"}
	return w
}

func suspending(c *act.Config) { c.Effects, c.Suspends = dispatchtest.Open(), true }

// resumed resumes a run from its records and returns all of them, with its error.
func resumed(t *testing.T, w *dispatchtest.World, records []journal.Record, how act.Resumption, opts ...func(*act.Config)) ([]journal.Record, *contract.Error) {
	t.Helper()
	past, kept := decoded(t, records), journal.NewMemory()
	kept.Load(past[0].Run, past)
	s := service(t, w, append(opts, suspending, func(c *act.Config) { c.Journal = kept })...)
	run, refused := s.Resume(t.Context(), past[0].Run, past, how)
	require.Nil(t, refused, "%v", refused)
	_, err := run.Wait()
	all := run.Records()
	for i, rec := range all {
		dispatchtest.Verify(t, rec)
		require.Equal(t, i+1, rec.Seq)
	}
	return all, err
}

// suspendedRun runs an act to its suspension.
func suspendedRun(t *testing.T, w *dispatchtest.World, text string) ([]journal.Record, *journal.RunSuspended) {
	t.Helper()
	run, refused := service(t, w, suspending).Start(t.Context(), request(text))
	require.Nil(t, refused, "%v", refused)
	response, err := run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "run/suspended", err.Type, "%v", err)
	assert.Equal(t, edn.K("run/suspended"), response.Key("error").Key("type"))
	assert.Equal(t, edn.Text(run.ID()), response.Key("run/id"))
	records := run.Records()
	last, ok := records[len(records)-1].Body.(*journal.RunSuspended)
	require.True(t, ok, "the last record is %s", records[len(records)-1].Body.Kind())
	assert.Empty(t, underWay(records), "nothing else is cut")
	return records, last
}

const (
	effectful = `:dispatch {:candidates [:a/adds :a/one] :retry {:fallback-max 1 :same-cap-max 1}}`
	writes    = `:effects {:allowed #{:fs/write}}`
	// payPlan has a call of class once, calls that do not depend on it, and one that
	// does.
	payPlan = `{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds :a/one] :retry {:fallback-max 1} :allow-failure? true} :input {:n 1} :as :pay}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n 2} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/two]} :input {:n {:slot/path [:x :out :by]}} :as :y}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n {:slot/path [:pay :out :by] :slot/default :nobody}} :as :z}
	  {:op :emit :input [{:slot/path [:pay :out] :slot/default :nothing} {:slot/path [:y :out :of :n]} {:slot/path [:z :out :of :n]}]}]}`
)

func deciding(node, choice string, value edn.Value) act.Resumption {
	return act.Resumption{Why: journal.ResumedDecision, Decisions: []act.Decision{{Node: node, Choice: choice, Value: value, By: "uid/7"}}}
}

// LED-002, LED-005: what is reserved for a whole run stays reserved while the run is
// suspended. Its costs count once in every scope, also if the limits would not let a
// new run begin.
func TestBudgetOfASuspendedRun(t *testing.T) {
	kept, ledger := journal.NewMemory(), budget.NewMemory(nil)
	tenant := block(t, "{:max-attempts 9}")
	tenant.RefuseWorst = true
	s := service(t, losing(t, 1), suspending, budgets(policy.Budgets{Tenant: tenant, User: block(t, "{:max-attempts 9}")}),
		func(c *act.Config) { c.Journal, c.Ledger = kept, ledger })
	figures := func() (out []string) {
		all, err := ledger.Balances(t.Context(), []budget.Scope{{Kind: budget.Tenant, ID: act.Tenant}, {Kind: budget.User, ID: "local"}})
		require.NoError(t, err)
		for _, b := range all {
			out = append(out, fmt.Sprintf("%s used %d reserved %d", b.Scope.Kind, b.Used.Count(policy.Attempts), b.Reserved.Count(policy.Attempts)))
		}
		return out
	}
	run, refused := s.Start(t.Context(), request(ownPlan(payPlan, "", writes)))
	require.Nil(t, refused, "%v", refused)
	_, err := run.Wait()
	require.NotNil(t, err)
	require.Equal(t, "run/suspended", err.Type, "%v", err)
	assert.Equal(t, []string{"tenant used 0 reserved 5", "user used 3 reserved 0"}, figures())
	past := decoded(t, run.Records())
	kept.Load(run.ID(), past)
	again, refused := s.Resume(t.Context(), run.ID(), past, deciding("n0", journal.DecisionRetry, edn.Nil()))
	require.Nil(t, refused, "%v", refused)
	_, err = again.Wait()
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []string{"tenant used 5 reserved 0", "user used 5 reserved 0"}, figures())
	_, spent, open := settled(t, again.Records(), "tenant")
	assert.Equal(t, int64(5), spent.Count(policy.Attempts), "settled for the run at once")
	assert.Zero(t, open)
}

// LED-005: a resumed run whose request the configuration does not allow any more is
// suspended with its reservations. When it ends, what it had reserved and spent is settled.
func TestBudgetOfARefusedResume(t *testing.T) {
	w := resumeWorld(t)
	tenant := block(t, "{:max-attempts 9}")
	tenant.RefuseWorst = true
	text := ownPlan(payPlan, "", writes)
	_, err, records := do(t, service(t, w, budgets(policy.Budgets{Tenant: tenant}), func(c *act.Config) { c.Effects = dispatchtest.Open() }), text)
	require.Nil(t, err, "%v", err)
	for n := 2; n < len(records); n++ {
		past := records[:n]
		made := 0
		for _, rec := range past {
			if _, ok := rec.Body.(*journal.AttemptStarted); ok {
				made++
			}
		}
		forbidding := func(c *act.Config) { c.Limits = &plan.Limits{} }
		all, err := resumed(t, resumeWorld(t), past, crashed, budgets(policy.Budgets{}), forbidding, reconfigured)
		require.NotNil(t, err, "after %d records", n)
		require.Equal(t, "run/suspended", err.Type, "after %d records", n)
		all, err = resumed(t, resumeWorld(t), all, act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: "uid/7"}},
			budgets(policy.Budgets{}), forbidding)
		require.NotNil(t, err, "after %d records", n)
		_, total, left := settled(t, all, "tenant")
		assert.Zero(t, left, "after %d records", n)
		assert.Equal(t, int64(made), total.Count(policy.Attempts), "after %d records", n)
	}
}

// JRN-042, JRN-044: a call that may have had its effect is neither repeated nor
// switched. What does not depend on it goes on; then the run is suspended, and a
// decision continues it.
func TestDecision(t *testing.T) {
	value := edn.MustRead(`{:by :hand}`)
	for choice, tc := range map[string]struct {
		how   act.Resumption
		calls []string // after the decision
		out   string
	}{
		"retry": {deciding("n0", journal.DecisionRetry, edn.Nil()), []string{"a/adds", "a/one"}, `{:value [{:by :a/adds :good true :of {:n 1}} :a/one :a/adds]}`},
		"done":  {deciding("[0]", journal.DecisionDone, value), []string{"a/one"}, `{:value [{:by :hand} :a/one :hand]}`},
		"fail":  {deciding("n0", journal.DecisionFail, edn.Nil()), []string{"a/one"}, `{:value [:nothing :a/one :nobody]}`},
	} {
		t.Run(choice, func(t *testing.T) {
			first := losing(t, 1)
			records, why := suspendedRun(t, first, ownPlan(payPlan, "", writes))
			require.Len(t, why.Open, 1)
			q := why.Open[0]
			assert.Equal(t, "[0] n0 1 a/adds", q.Path.String()+" "+q.Node+" "+edn.Int(int64(q.Attempt)).String()+" "+q.CapID)
			assert.ElementsMatch(t, []string{"a/adds", "a/one", "a/two"}, capsOf(first.Calls()), "what does not depend on it goes on")

			again := resumeWorld(t)
			all, err := resumed(t, again, records, tc.how)
			require.Nil(t, err, "%v", err)
			assert.Equal(t, tc.calls, capsOf(again.Calls()))
			assert.Equal(t, tc.out, finished(t, all).Response.Value().Key("result").Key("out").String())
			for _, c := range again.Calls() {
				if c.CapID == "a/adds" {
					assert.Equal(t, q.EffectKey, c.EffectKey)
				}
			}
			hash, err := act.Replay(t.Context(), service(t, resumeWorld(t), suspending).Config(), all[0].Run, decoded(t, all))
			require.Nil(t, err, "%v", err)
			assert.Equal(t, edn.Hash(edn.MustRead(tc.out)), hash)
			for n := len(records) + 1; n < len(all); n++ { // the host of the resume may be killed too
				end, err := resumed(t, resumeWorld(t), all[:n], crashed)
				if slices.ContainsFunc(underWay(decoded(t, all[:n])), (*journal.Tried).HadEffectOnce) {
					require.NotNil(t, err, "after %d records", n)
					assert.Equal(t, "run/suspended", err.Type, "after %d records", n)
					continue
				}
				require.Nil(t, err, "after %d records: %v", n, err)
				assert.Equal(t, tc.out, finished(t, end).Response.Value().Key("result").Key("out").String(), "after %d records", n)
			}
		})
	}
}

func capsOf(calls []dispatch.Call) (ids []string) {
	for _, c := range calls {
		ids = append(ids, c.CapID)
	}
	return ids
}

// JRN-042: a deadline that passes in a call does not say whether it had its effect.
func TestDeadlineLeavesAQuestion(t *testing.T) {
	w := resumeWorld(t)
	w.Func("a/adds", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
		<-ctx.Done()
		return dispatchtest.Step{Err: contract.AsError(context.Cause(ctx))}
	})
	_, why := suspendedRun(t, w, ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :deadline-ms 50 :dispatch {:candidates [:a/adds :a/one] :retry {:fallback-max 1}} :input {:n 1} :as :pay}
	  {:op :emit :input :pay}]}`, "", writes))
	require.Len(t, why.Open, 1)
	assert.Equal(t, "a/adds", why.Open[0].CapID)
	assert.Equal(t, []string{"a/adds"}, capsOf(w.Calls()), "nothing else is called for it")
}

// JRN-041: an intent says what happens to a run whose call of class once has an
// unknown outcome.
func TestUnknownOutcomes(t *testing.T) {
	once, twice := []string{"a/adds"}, []string{"a/adds", "a/adds"}
	for _, want := range []struct {
		intent, effect string
		calls          []string
		typ            string
	}{
		{"", "", once, "run/suspended"},
		{registry.UnknownFails, "", once, "effects/outcome-unknown"},
		{registry.UnknownRetries, "", twice, ""},
		{"", registry.UnknownFails, once, "effects/outcome-unknown"},
		{"", registry.UnknownRetries, twice, ""},
		{registry.UnknownSuspends, registry.UnknownRetries, once, "run/suspended"},
		{registry.UnknownFails, registry.UnknownRetries, once, "effects/outcome-unknown"},
		{registry.UnknownRetries, registry.UnknownSuspends, twice, ""},
	} {
		on := want.intent + " " + want.effect
		w := losing(t, 1)
		in, _ := w.Registry.Intent("text/respond")
		in.OnUnknown = want.intent
		treated := func(c *act.Config) {
			effects := *c.Effects
			effects.OnUnknown = map[string]string{"fs/write": want.effect}
			c.Effects = &effects
		}
		run, refused := service(t, w, suspending, treated).Start(t.Context(), request(ownPlan(`{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds :a/one] :retry {:same-cap-max 1 :fallback-max 1}} :input {:n 1} :as :pay}
		  {:op :emit :input {:slot/path [:pay :out :by]}}]}`, "", writes)))
		require.Nil(t, refused, "%v", refused)
		response, err := run.Wait()
		assert.Equal(t, want.calls, capsOf(w.Calls()), on)
		if want.typ == "" {
			require.Nil(t, err, "%v", err)
			assert.Equal(t, `{:value :a/adds}`, response.Key("result").Key("out").String())
			first, second := w.Calls()[0], w.Calls()[1]
			assert.Equal(t, first.EffectKey, second.EffectKey)
			continue
		}
		require.NotNil(t, err, on)
		assert.Equal(t, want.typ, err.Type, on)
	}
}

// JRN-041: with assume-done a node whose outcome is unknown goes on with an empty answer.
// If its schema accepts none, which is that of the intent or the one that the node requires,
// the run is suspended.
func TestAssumedDone(t *testing.T) {
	for out, want := range map[string]string{"res/any": "{:paid {}}", "res/route": "", "required": ""} {
		w := losing(t, 100)
		in, _ := w.Registry.Intent("text/respond")
		in.OnUnknown, in.Out = registry.UnknownIsDone, out
		requires := ""
		if out == "required" {
			in.Out, requires = "res/any", ":requires {:out-schema :res/route}"
			givesRoutes(t, w)
		}
		text := `{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} ` + requires + ` :input {:n 1} :as :pay}
		  {:op :emit :input {:paid {:slot/path [:pay :out]}}}]}`
		run, refused := service(t, w, suspending).Start(t.Context(), request(ownPlan(text, "", writes)))
		require.Nil(t, refused, "%v", refused)
		response, err := run.Wait()
		assert.Len(t, w.Calls(), 1, out)
		if want == "" {
			require.NotNil(t, err, out)
			assert.Equal(t, "run/suspended", err.Type, out)
			continue
		}
		require.Nil(t, err, "%s: %v", out, err)
		assert.Equal(t, want, response.Key("result").Key("out").String(), out)
		attempt := journal.NewHistory(run.Records()).At(edn.Vector(edn.Int(0))).Attempts[0]
		assert.Equal(t, journal.OutcomeUnknown, attempt.Finished.Outcome, "the record does not say that it was done")
	}
}

// JRN-044: each open question needs a decision, wherever its node is.
func TestDecisionsOfNestedNodes(t *testing.T) {
	text := ownPlan(`{:nodes [
	  {:op :map :over [1 2] :item :i :as :all :max-parallel 2 :body [
	    {:op :call :intent :text/respond `+effectful+` :input {:n {:slot/id :i}} :as :r}
	    {:op :emit :input {:slot/path [:r :out :of :n]}}]}
	  {:op :plan :as :inner :plan {:nodes [
	    {:op :call :intent :text/respond `+effectful+` :input {:n 3} :as :p}
	    {:op :emit :input {:slot/path [:p :out :of :n]}}]}}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/plan]} :input {} :as :answer}
	  {:op :emit :input [{:slot/path [:all :out]} {:slot/path [:inner :out]} {:slot/path [:answer :out]}]}]}`, "", writes)
	plans := func(w *dispatchtest.World) *dispatchtest.World {
		w.Func("a/plan", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Plan: edn.MustRead(`{:nodes [{:op :call :intent :text/respond ` + effectful + ` :input {:n 4} :as :w}
			  {:op :emit :input {:slot/path [:w :out :of :n]}}]}`)}
		})
		return w
	}
	records, decided := []journal.Record(nil), 0
	for lost := 1; lost > 0; {
		var why *journal.RunSuspended
		if records == nil {
			records, why = suspendedRun(t, plans(losing(t, 100)), text)
		} else {
			why, _ = records[len(records)-1].Body.(*journal.RunSuspended)
		}
		if lost = 0; why == nil {
			break
		}
		how := act.Resumption{Why: journal.ResumedDecision}
		for _, q := range why.Open {
			lost++
			how.Decisions = append(how.Decisions, act.Decision{Node: q.Path.String(), Choice: journal.DecisionRetry, By: "uid/7"})
		}
		decided += lost
		records, _ = resumed(t, plans(resumeWorld(t)), records, how)
	}
	assert.Positive(t, decided)
	assert.Equal(t, `{:value [[1 2] {:value 3} {:value 4}]}`, finished(t, records).Response.Value().Key("result").Key("out").String())
}

// JRN-044: a decision that does not fit is refused, and the run stays as it is.
func TestInvalidDecisions(t *testing.T) {
	records, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	past := decoded(t, records)
	for name, tc := range map[string]struct {
		how    act.Resumption
		typ    string
		reason string
	}{
		"none":          {act.Resumption{Why: journal.ResumedDecision}, "run/decision-required", "nil"},
		"another node":  {deciding("x", journal.DecisionRetry, edn.Nil()), "run/decision-invalid", ":node-unknown"},
		"another word":  {deciding("n0", "again", edn.Nil()), "run/decision-invalid", ":choice-unknown"},
		"no value":      {deciding("n0", journal.DecisionDone, edn.Nil()), "run/decision-invalid", ":value-missing"},
		"another value": {deciding("n0", journal.DecisionDone, edn.Int(1)), "run/decision-invalid", ":value-invalid"},
		"a value":       {deciding("n0", journal.DecisionFail, edn.Int(1)), "run/decision-invalid", ":value-unwanted"},
		"by itself":     {crashed, "run/suspended", "nil"},
	} {
		_, refused := service(t, resumeWorld(t), suspending).Resume(t.Context(), past[0].Run, past, tc.how)
		require.NotNil(t, refused, name)
		assert.Equal(t, tc.typ, refused.Type, name)
		assert.Equal(t, tc.reason, refused.Details.Key("reason").String(), name)
	}
	twice := deciding("n0", journal.DecisionRetry, edn.Nil())
	twice.Decisions = append(twice.Decisions, twice.Decisions[0])
	_, refused := service(t, resumeWorld(t), suspending).Resume(t.Context(), past[0].Run, past, twice)
	require.NotNil(t, refused)
	assert.Equal(t, "run/decision-invalid", refused.Type)
	assert.Equal(t, ":decided-twice", refused.Details.Key("reason").String())

	_, refused = service(t, resumeWorld(t), suspending).Resume(t.Context(), past[0].Run, past[:4], act.Resumption{Why: journal.ResumedDecision})
	require.NotNil(t, refused)
	assert.Equal(t, "run/not-resumable", refused.Type, "an open run is not suspended")
}

// JRN-044: a value in the place of an answer fits the schema that its node requires.
func TestDecisionsFitWhatTheNodeRequires(t *testing.T) {
	const text = `{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :requires {:out-schema :res/route} :input {:n 1} :as :pay}
	  {:op :emit :input {:slot/path [:pay :out]}}]}`
	records, _ := suspendedRun(t, givesRoutes(t, losing(t, 1)), ownPlan(text, "", writes))
	past := decoded(t, records)
	_, refused := service(t, givesRoutes(t, resumeWorld(t)), suspending).Resume(t.Context(), past[0].Run, past,
		deciding("n0", journal.DecisionDone, edn.MustRead(`{:by :hand}`)))
	require.NotNil(t, refused)
	assert.Equal(t, "run/decision-invalid", refused.Type)
	assert.Contains(t, refused.Message, ":res/route")
}

// JRN-044: a suspended run may be canceled. Its deadline does not pass while it
// waits.
func TestSuspendedRunEnds(t *testing.T) {
	records, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	w := resumeWorld(t)
	all, err := resumed(t, w, records, act.Resumption{Why: journal.ResumedDecision, Cancel: &journal.CancelRequested{By: "uid/7", Why: "enough"}})
	require.NotNil(t, err)
	assert.Equal(t, "canceled", err.Type)
	assert.Equal(t, journal.StatusCanceled, finished(t, all).Status)
	assert.Empty(t, w.Calls())

	late := deciding("n0", journal.DecisionRetry, edn.Nil())
	all, err = resumed(t, resumeWorld(t), records, late, func(c *act.Config) { c.Clock = ahead(24 * time.Hour) })
	require.Nil(t, err, "%v", err)
	assert.Equal(t, journal.StatusCompleted, finished(t, all).Status)
}

// RUN-013, JRN-041: a run that is canceled while a call of class once is under way ends
// canceled, and its error names the call. It is not suspended.
func TestCancelOfAOnceCall(t *testing.T) {
	w := resumeWorld(t)
	begun := make(chan struct{})
	w.Func("a/adds", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
		close(begun)
		<-ctx.Done()
		return dispatchtest.Step{Err: contract.AsError(context.Cause(ctx))}
	})
	run, refused := service(t, w, suspending).Start(t.Context(), request(ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :input {:n 1} :as :pay}
	  {:op :emit :input :pay}]}`, "", writes)))
	require.Nil(t, refused, "%v", refused)
	<-begun
	require.True(t, run.Cancel("uid/7", "enough"))
	_, err := run.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "canceled", err.Type)
	assert.Contains(t, err.Message, ":a/adds")
	assert.Equal(t, `"uid/7"`, err.Details.Key("by").String())
	assert.Equal(t, journal.StatusCanceled, finished(t, run.Records()).Status)
}

// JRN-044: a run that was suspended after the request to cancel it takes no decision:
// it would not be carried out.
func TestDecisionAfterACancel(t *testing.T) {
	records, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	last := len(records) - 1
	asked := records[last]
	asked.Body = &journal.CancelRequested{By: "uid/7"}
	asked.Path, asked.Node = edn.Nil(), ""
	records = slices.Insert(records, last, asked)
	for i := range records {
		records[i].Seq = i + 1
	}
	past := decoded(t, records)
	kept := journal.NewMemory()
	kept.Load(past[0].Run, past)
	s := service(t, resumeWorld(t), suspending, func(c *act.Config) { c.Journal = kept })
	_, refused := s.Resume(t.Context(), past[0].Run, past, deciding("n0", journal.DecisionRetry, edn.Nil()))
	require.NotNil(t, refused)
	assert.Equal(t, "run/not-resumable", refused.Type)
}

// ahead is a clock that is ahead of that of the machine.
type ahead time.Duration

func (a ahead) Now() time.Time { return time.Now().Add(time.Duration(a)) }

func (ahead) Wait(ctx context.Context, _ time.Duration) error { return ctx.Err() }
