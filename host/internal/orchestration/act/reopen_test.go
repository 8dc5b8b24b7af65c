package act_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
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
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// reopenWorld serves attempts by their number, so that every host serves them in the
// same way: a/flaky fails as the first attempt of a node, a/late as one of the first two,
// a/tardy fails after a second, and a/slow answers its first one only when it is canceled. a/nests answers with a plan
// whose second node fails at first.
func reopenWorld(t testing.TB) *dispatchtest.World {
	t.Helper()
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/flaky", ""), dispatchtest.Cap("a/late", ""), dispatchtest.Cap("a/slow", ""),
			dispatchtest.Cap("a/down", ""), dispatchtest.Cap("a/nests", ":cap/can-produce #{:value :plan}"),
			dispatchtest.Cap("a/pays", ":cap/cost {:usd 0.01M}"),
			dispatchtest.Cap("a/adds", ":cap/effects #{:fs/write}"),
			dispatchtest.Cap("a/wrong", ""), dispatchtest.Cap("a/tardy", ""),
		},
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}}},
		Checks: []quality.Check{{Check: registry.Check{Name: "good", Kind: registry.CheckCondition}, Judge: func(s quality.Subject) quality.Outcome {
			if s.Result.Key("good").Truthy() {
				return quality.Passed()
			}
			return quality.Failed(quality.Finding{Message: "it is not good"})
		}}},
	})
	failsUpTo := func(n int) func(context.Context, dispatch.Call) dispatchtest.Step {
		return func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
			if c.Attempt <= n {
				return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
			}
			step := answerInput(ctx, c)
			step.Usage = edn.MustRead(`{:cost-usd 0.01M :cost-mark :exact}`)
			return step
		}
	}
	w.Func("a/one", answerInput).Func("a/adds", answerInput).Func("a/flaky", failsUpTo(1)).Func("a/pays", failsUpTo(1)).Func("a/late", failsUpTo(2)).
		Func("a/down", failsUpTo(99))
	w.Func("a/tardy", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		step := failsUpTo(1)(ctx, c)
		step.Delay = time.Second
		return step
	})
	w.Func("a/slow", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		if c.Attempt == 1 {
			return dispatchtest.Step{Hang: true}
		}
		return answerInput(ctx, c)
	})
	w.Func("a/wrong", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
		if c.Attempt == 1 {
			return value(`{:good false}`)
		}
		return answerInput(ctx, c)
	})
	w.Func("a/nests", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Plan: edn.MustRead(`{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt "within"} :as :w}
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky]} :input {:prompt {:slot/id :w :slot/path [:out :by]}} :as :x}
		  {:op :emit :input {:good true :was {:slot/id :x :slot/path [:out]}}}]}`)}
	})
	return w
}

// reopenCases are acts that fail, and complete when they are reopened. The number of
// calls is that of both: plans whose nodes do not wait for each other are strict, since no
// other call may be in progress when one fails.
var reopenCases = map[string]struct {
	text  string
	calls int
}{
	"one call": {asking("[:a/flaky]", "", "{}", ""), 2},
	"retries":  {asking("[:a/late]", ":retry {:same-cap-max 1}", "{}", ""), 3},
	"fallback": {asking("[:a/down :a/late]", ":retry {:fallback-max 1}", "{}", ""), 4},
	"refused":  {asking("[:a/wrong]", "", "{}", ":done {:must #{:good}}"), 2},
	"budget":   {asking("[:a/pays]", "", "{:max-usd 1M}", ""), 2},
	"race":     {asking("[:a/flaky :a/down]", ":strategy :race :race {:width 2} :retry {:fallback-max 1}", "{}", ""), 4},
	"streams":  {asking("[:a/flaky]", "", "{}", ":response/type :stream"), 2},
	"nests":    {asking("[:a/nests]", "", "{}", ""), 4},
	"own plan": {ownPlan(`{:mode :strict :nodes [
	  {:op :let :value {:n 1} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt {:slot/id :x}} :as :first}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/down] :allow-failure? true} :input {} :as :kept}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky]} :input {:prompt {:slot/path [:first :out :by]}} :as :second}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:prompt {:slot/path [:second :out :by]}} :as :third}
	  {:op :emit :input [{:slot/path [:kept :error :type]} {:slot/path [:third :out :of]}]}]}`, "", ""), 5},
	"items": {ownPlan(`{:mode :strict :nodes [
	  {:op :let :value [1 2] :as :numbers}
	  {:op :map :over :numbers :item :i :as :kept :max-parallel 1 :on-item-error :keep :body [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/down]} :input {:n {:slot/id :i}} :as :r}]}
	  {:op :map :over :numbers :item :i :as :all :max-parallel 1 :body [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n {:slot/id :i}} :as :r}
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky]} :input {:n {:slot/id :i}} :as :s}
	    {:op :emit :input {:slot/path [:s :out :of]}}]}
	  {:op :plan :as :inner :plan {:nodes [
	    {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {} :as :p}
	    {:op :emit :input {:slot/path [:p :out]}}]}}
	  {:op :emit :input {:all {:slot/path [:all :out]} :inner {:slot/path [:inner :out]}}}]}`, "", ""), 9},
	"effect": {ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :input {:n 1} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky]} :input {:n {:slot/path [:x :out :by]}} :as :y}
	  {:op :emit :input {:slot/path [:y :out]}}]}`, "", writes), 3},
}

// reopened runs an act until it has failed, and continues it as often as it fails.
func reopened(t *testing.T, text string) []journal.Record {
	t.Helper()
	open := func(c *act.Config) { c.Effects = dispatchtest.Open() }
	_, err, records := do(t, service(t, reopenWorld(t), open), text)
	require.NotNil(t, err)
	for finished(t, records).Status == journal.StatusFailed {
		records = reopen(t, reopenWorld(t), records)
	}
	return records
}

var continued = act.Resumption{Why: journal.ResumedDecision, By: "uid/7"}

// reopen continues a failed run on another host and returns all of its records.
func reopen(t *testing.T, w *dispatchtest.World, records []journal.Record) []journal.Record {
	t.Helper()
	all, _ := resumed(t, w, records, continued)
	require.Greater(t, len(all), len(records))
	again, ok := all[len(records)].Body.(*journal.RunResumed)
	require.True(t, ok)
	assert.Equal(t, "uid/7", again.By)
	assert.Equal(t, records[len(records)-1].Epoch+1, all[len(records)].Epoch)
	return all
}

// RUN-022, RUN-015, JRN-043: a failed run that goes on calls only what is not committed,
// with new attempt numbers and the same effect keys, and ends as if it had not failed. So
// it does after a crash behind any of its records, and in a strict replay (JRN-040,
// JRN-050).
func TestReopenAfterAnyRecord(t *testing.T) {
	for name, tc := range reopenCases {
		t.Run(name, func(t *testing.T) {
			whole := reopened(t, tc.text)
			want := finished(t, whole)
			assert.Equal(t, journal.StatusCompleted, want.Status)
			made, attempts, keys := 0, map[string]int{}, map[string]string{}
			for _, rec := range whole {
				start, ok := rec.Body.(*journal.AttemptStarted)
				if !ok {
					continue
				}
				made++
				at := rec.Path.String()
				assert.Greater(t, start.Attempt, attempts[at], "attempts of a node go on with new numbers")
				attempts[at] = start.Attempt
				if before, ok := keys[at]; ok && start.Round == 0 {
					assert.Equal(t, before, start.EffectKey, "%s has its effect key", at)
				}
				keys[at] = start.EffectKey
			}
			assert.Equal(t, tc.calls, made)
			assertReplays(t, whole)
			w := reopenWorld(t)
			again := filled(t, service(t, w, suspending), decoded(t, whole), dispatch.Fill{})
			assert.Empty(t, w.Calls())
			diff := journal.Compare(whole, again)
			assert.True(t, diff.Equal(), "a replay differs (JRN-051): %s", diff.Value())
			first := slices.IndexFunc(whole, func(r journal.Record) bool { return r.Body.Kind() == journal.KindRunResumed }) + 1
			for n := first; n < len(whole); n++ {
				if ends(whole[n-1]) {
					continue // it has failed again
				}
				again := assertReopens(t, whole, whole[:n])
				for m := n + 1; m < len(again); m += 3 {
					if !ends(again[m-1]) {
						assertReopens(t, whole, again[:m])
					}
				}
			}
		})
	}
}

func ends(rec journal.Record) bool { return rec.Body.Kind() == journal.KindRunFinished }

func assertReplays(t *testing.T, records []journal.Record) {
	t.Helper()
	w := reopenWorld(t)
	hash, missed := act.Replay(t.Context(), service(t, w, suspending).Config(), records[0].Run, decoded(t, records))
	require.Nil(t, missed, "%v", missed)
	assert.Equal(t, edn.Hash(finished(t, records).Response.Value().Key("result").Key("out")), hash)
	assert.Empty(t, w.Calls())
}

// assertReopens resumes a run that was reopened from its first records, until it
// completes, and compares it with the one that was not interrupted.
func assertReopens(t *testing.T, whole, first []journal.Record) []journal.Record {
	t.Helper()
	want, w := finished(t, whole), reopenWorld(t)
	all, _ := resumed(t, w, first, crashed)
	for finished(t, all).Status == journal.StatusFailed {
		all = reopen(t, w, all)
	}
	last := first[len(first)-1]
	at := fmt.Sprintf("after %d records, %s of epoch %d", len(first), last.Body.Kind(), last.Epoch)
	assertSameEnd(t, want, finished(t, all), at)
	committed := journal.NewHistory(first)
	for _, c := range w.Calls() {
		assert.False(t, committed.At(c.Path).IsCommitted() && c.CapID != "a/nests", "%s: %s is called again", at, c.Path)
	}
	assertReplays(t, all)
	return all
}

// RUN-022: the budget of a run that goes on counts what it spent before it failed.
func TestBudgetOfAReopenedRun(t *testing.T) {
	text := ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/pays]} :input {:n 1} :as :x}
	  {:op :emit :input {:slot/path [:x :out]}}]}`, "", ":budget {:max-usd 0.01M}")
	_, err, records := do(t, service(t, reopenWorld(t), budgets(policy.Budgets{})), text)
	require.NotNil(t, err)
	require.Equal(t, "provider/unavailable", err.Type)
	spent, ok := records[len(records)-1].Body.(*journal.RunFinished)
	require.True(t, ok)
	require.NotNil(t, spent)
	all, err := resumed(t, reopenWorld(t), records, continued, budgets(policy.Budgets{}))
	require.NotNil(t, err)
	assert.Equal(t, "budget/exceeded", err.Type, "%v", err)
	assert.Equal(t, journal.StatusFailed, finished(t, all).Status)
	_, refused := service(t, reopenWorld(t)).Resume(t.Context(), all[0].Run, all, continued)
	require.NotNil(t, refused)
	assert.Equal(t, "run/not-resumable", refused.Type, "the class of its error is final now")
}

// RUN-022, JRN-041: a call of class once whose answer was refused has had its effect. A
// run that goes on does not make it again without a decision.
func TestReopenDoesNotRepeatEffects(t *testing.T) {
	w := reopenWorld(t)
	w.Func("a/adds", func(context.Context, dispatch.Call) dispatchtest.Step { return value(`{:good false}`) })
	_, err, records := do(t, service(t, w, suspending), asking("[:a/adds]", "", "{}", writes+" :done {:must #{:good}}"))
	require.NotNil(t, err)
	require.Equal(t, "eval/must-failed", err.Type, "%v", err)
	again := reopenWorld(t)
	all, err := resumed(t, again, records, continued)
	require.NotNil(t, err)
	assert.Equal(t, "run/suspended", err.Type, "%v", err)
	assert.Empty(t, again.Calls())
	why, ok := all[len(all)-1].Body.(*journal.RunSuspended)
	require.True(t, ok)
	require.Len(t, why.Open, 1)
	assert.Equal(t, "a/adds", why.Open[0].CapID)
	for choice, calls := range map[string]int{journal.DecisionRetry: 1, journal.DecisionDone: 0} {
		given := edn.Nil()
		if choice == journal.DecisionDone {
			given = edn.MustRead(`{:good true}`)
		}
		again = reopenWorld(t)
		end, err := resumed(t, again, all, deciding("act", choice, given))
		require.Nil(t, err, "%s: %v", choice, err)
		assert.Len(t, again.Calls(), calls, choice)
		for _, c := range again.Calls() {
			assert.Equal(t, why.Open[0].EffectKey, c.EffectKey)
			assert.Equal(t, 2, c.Attempt)
		}
		assertReplays(t, end)
	}
}

// RUN-022: siblings of the node that failed were canceled; they are executed again.
func TestReopenCanceledSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := ownPlan(`{:mode :lazy :nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/tardy]} :input {:n 1} :as :x}
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/slow]} :input {:n 2} :as :y}
		  {:op :emit :input [{:slot/path [:x :out :by]} {:slot/path [:y :out :by]}]}]}`, "", "")
		whole := reopened(t, text)
		assert.Equal(t, `{:value [:a/tardy :a/slow]}`, finished(t, whole).Response.Value().Key("result").Key("out").String())
		assertReplays(t, whole)
	})
}

// RUN-022: the idempotency key of a failed run continues it, at most five times; its
// response is then that of every caller. An error of the class that is final is never
// tried again.
func TestReopenByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := reopenWorld(t)
		down := true
		w.Func("a/down", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
			if down {
				return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
			}
			return answerInput(ctx, c)
		})
		kept := newKeeper()
		s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} })
		text := ownPlan(`{:nodes [
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n 1} :as :x}
		  {:op :call :intent :text/respond :dispatch {:candidates [:a/down]} :input {:n {:slot/path [:x :out :by]}} :as :y}
		  {:op :emit :input {:slot/path [:y :out :by]}}]}`, "", keyed)
		var id string
		for n := range 6 {
			r, err := s.Start(t.Context(), request(text))
			require.Nil(t, err)
			_, err = r.Wait()
			require.NotNil(t, err)
			assert.Equal(t, "provider/unavailable", err.Type)
			assert.False(t, r.Attached())
			if n == 0 {
				id = r.ID()
			}
			assert.Equal(t, id, r.ID(), "it is one run")
			assert.Equal(t, n+1, r.Records()[len(r.Records())-1].Epoch)
			time.Sleep(time.Minute) // the deadline of each is its own
		}
		assert.Len(t, w.Calls(), 7, "the first node is committed")
		_, err := s.Do(t.Context(), request(text))
		require.NotNil(t, err)
		assert.Equal(t, "idempotency/exhausted", err.Type)
		assert.Equal(t, "provider/unavailable", err.Cause.Type)
		assert.Len(t, w.Calls(), 7)

		down = false
		records, _ := kept.Records(id)
		r, err := s.Resume(t.Context(), id, records, continued)
		require.Nil(t, err, "a caller may continue it all the same: %v", err)
		_, err = r.Wait()
		require.Nil(t, err, "%v", err)
		r, err = s.Start(t.Context(), request(text))
		require.Nil(t, err)
		assert.True(t, r.Stored())
		response, err := r.Wait()
		require.Nil(t, err)
		assert.Equal(t, `{:value :a/down}`, response.Key("result").Key("out").String())
		assert.Len(t, w.Calls(), 8)

		var events []string
		require.NoError(t, r.Watch(t.Context(), func(e journal.Event) error {
			events = append(events, e.Name)
			return nil
		}))
		count := func(name string) (n int) {
			for _, e := range events {
				if e == name {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 6, count("reopened"))
		assert.Equal(t, 1, count("finished"), "a late watcher sees only the last end (RUN-044)")
		assert.Equal(t, "finished", events[len(events)-1])
	})
}

// RUN-022: 16 callers with the key of a failed run continue it once.
func TestReopenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := reopenWorld(t)
		kept := newKeeper()
		s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} })
		text := asking("[:a/flaky]", "", "{}", keyed)
		_, err := s.Do(t.Context(), request(text))
		require.NotNil(t, err)
		ends := make(chan *contract.Error)
		for range 16 {
			go func() {
				_, err := s.Do(context.Background(), request(text))
				ends <- err
			}()
		}
		for range 16 {
			assert.Nil(t, <-ends)
		}
		assert.Len(t, w.Calls(), 2)
	})
}

// failingJob is a job whose calls fail.
func failingJob(t *testing.T, w *dispatchtest.World, text string, retry act.Retry) (*act.Service, *act.Run, *journal.Memory) {
	t.Helper()
	kept := journal.NewMemory()
	one := queue.New(queue.Settings{Workers: 1, MaxQueued: 9, Classes: []queue.Class{{Name: "batch", Workers: 1, MaxQueued: 9, Weight: 1}}}, time.Now)
	s := service(t, w, func(c *act.Config) {
		c.Journal, c.Queue, c.Retry, c.Classes = memory{kept}, one, retry, act.Classes{Names: []string{"batch"}, Accepted: "batch"}
	})
	run, err := s.Submit(request(text))
	require.Nil(t, err, "%v", err)
	return s, run, kept
}

// RUN-015: a job whose run fails with a retryable error goes on by itself, after a wait
// that doubles, as long as queue.retry.max_attempts and its deadline allow that. It has
// no worker while it waits, and no end is recorded in between.
func TestJobRetry(t *testing.T) {
	const accepted = ":response/type :accepted"
	for name, tc := range map[string]struct {
		text  string
		retry act.Retry
		waits []time.Duration
		fails string
	}{
		"off":       {asking("[:a/late]", "", "{}", accepted), act.Retry{MaxAttempts: 1, Backoff: time.Second}, nil, "provider/unavailable"},
		"completes": {asking("[:a/late]", "", "{}", accepted), act.Retry{MaxAttempts: 5, Backoff: time.Second}, []time.Duration{time.Second, 2 * time.Second}, ""},
		"in vain":   {asking("[:a/down]", "", "{}", accepted), act.Retry{MaxAttempts: 3, Backoff: time.Second}, []time.Duration{time.Second, 2 * time.Second}, "provider/unavailable"},
		"deadline":  {asking("[:a/down]", "", "{}", accepted), act.Retry{MaxAttempts: 9, Backoff: 15 * time.Second}, []time.Duration{15 * time.Second}, "provider/unavailable"},
		"refused":   {asking("[:a/wrong]", "", "{}", accepted+" :done {:must #{:good}}"), act.Retry{MaxAttempts: 9, Backoff: time.Second}, nil, "eval/must-failed"},
		"waits":     {asking("[:a/late]", "", "{}", ""), act.Retry{MaxAttempts: 9, Backoff: time.Second}, nil, "provider/unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := reopenWorld(t)
				s, run, kept := failingJob(t, w, tc.text, tc.retry)
				require.True(t, run.AwaitTurn())
				records, _ := kept.Records(run.ID())
				go func() { assert.Nil(t, s.Begin(run, records, "")) }()
				synctest.Wait()
				if len(tc.waits) > 0 {
					assert.True(t, run.Waiting())
				}
				_, err := run.Wait()
				if tc.fails == "" {
					require.Nil(t, err, "%v", err)
				} else {
					require.NotNil(t, err)
					assert.Equal(t, tc.fails, err.Type)
				}
				var waits []time.Duration
				begun := w.Begun()
				for i := range begun[1:] {
					waits = append(waits, begun[i+1].Sub(begun[i]))
				}
				assert.Equal(t, tc.waits, waits)
				records, _ = kept.Records(run.ID())
				ends := 0
				for i, rec := range records {
					dispatchtest.Verify(t, rec)
					if end, ok := rec.Body.(*journal.RunFinished); ok {
						ends++
						assert.Equal(t, len(records)-1, i)
						assert.Equal(t, tc.fails != "", end.Err != nil)
					}
					if again, ok := rec.Body.(*journal.RunResumed); ok {
						assert.Equal(t, journal.ResumedRetry, again.Why)
						assert.Equal(t, "provider/unavailable", again.Err.Type)
					}
				}
				assert.Equal(t, 1, ends)
				_, missed := act.Replay(t.Context(), s.Config(), run.ID(), decoded(t, records))
				assert.Nil(t, missed, "%v", missed)
			})
		})
	}
}

// RUN-015, RUN-013: a job that waits for its retry can be canceled, and one whose host
// ends waits on for it at the next one.
func TestJobRetryEnds(t *testing.T) {
	const text = ":response/type :accepted :deadline-ms 60000"
	synctest.Test(t, func(t *testing.T) {
		w := reopenWorld(t)
		failing := `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/flaky]}} :input {} ` + text + `}`
		s, run, kept := failingJob(t, w, failing, act.Retry{MaxAttempts: 2, Backoff: 30 * time.Second})
		require.True(t, run.AwaitTurn())
		records, _ := kept.Records(run.ID())
		go func() { _ = s.Begin(run, records, "") }()
		synctest.Wait()
		assert.True(t, run.Cancel("operator", "no need"))
		_, err := run.Wait()
		require.NotNil(t, err)
		assert.Equal(t, "canceled", err.Type, "%v", err)
		records, _ = kept.Records(run.ID())
		assert.Equal(t, journal.StatusCanceled, finished(t, records).Status)

		s, run, kept = failingJob(t, w, failing, act.Retry{MaxAttempts: 2, Backoff: 30 * time.Second})
		require.True(t, run.AwaitTurn())
		records, _ = kept.Records(run.ID())
		go func() { _ = s.Begin(run, records, "") }()
		synctest.Wait()
		run.Interrupt()
		_, err = run.Wait()
		require.NotNil(t, err)
		records, _ = kept.Records(run.ID())
		last, ok := records[len(records)-1].Body.(*journal.RunResumed)
		require.True(t, ok, "it stays open")

		begun := time.Now()
		next, err := s.Recall(t.Context(), run.ID(), records[0].Body.(*journal.RunAccepted), last)
		require.Nil(t, err)
		require.True(t, next.AwaitTurn())
		assert.Equal(t, 30*time.Second, time.Since(begun))
		require.Nil(t, s.Begin(next, records, journal.ResumedRestart))
		_, err = next.Wait()
		require.Nil(t, err, "%v", err)
	})
}
