package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// peopleWorld has a/clerk and a/boss, whom people answer, and a/one, which does so
// itself. The clerk has an hour.
func peopleWorld(t testing.TB, onDeadline string) *dispatchtest.World {
	t.Helper()
	clerk := registry.Human{Deadline: time.Hour, OnDeadline: onDeadline, Default: edn.MustRead(`{:approved false}`)}
	if onDeadline == "" {
		clerk = registry.Human{}
	}
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			dispatchtest.Cap("a/clerk", ":cap/cost {:usd 0}"), dispatchtest.Cap("a/boss", ":cap/cost {:usd 0}"), dispatchtest.Cap("a/one", ""),
		},
		Humans:  map[string]registry.Human{"a/clerk": clerk, "a/boss": {}},
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/approval"}},
		Schemas: map[string]string{"res/approval": `[:map [:approved :boolean]]`},
	})
	w.Func("a/one", answerApproved)
	return w
}

func answerApproved(ctx context.Context, c dispatch.Call) dispatchtest.Step {
	step := answerInput(ctx, c)
	step.Value = step.Value.AssocKey("approved", edn.Bool(true))
	return step
}

const (
	askClerk = `{:proto 1 :trace {:id "r"} :deadline-ms 86400000 :input {:amount 70} :task {:intent :text/respond
	  :dispatch {:candidates [:a/clerk :a/boss] :retry {:fallback-max 1}}}}`
	// bothPlan asks two people beside a call, and needs all three.
	bothPlan = `{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/clerk]} :input {:n 1} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/boss]} :input {:n 2} :as :y}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {:n 3} :as :z}
	  {:op :emit :input [{:slot/path [:x :out :approved]} {:slot/path [:y :out :approved]} {:slot/path [:z :out :by]}]}]}`
)

// started starts an act and waits until nothing but people can continue it. It
// needs a synctest bubble.
func started(t *testing.T, s *act.Service, text string) *act.Run {
	t.Helper()
	run, refused := s.Start(t.Context(), request(text))
	require.Nil(t, refused, "%v", refused)
	synctest.Wait()
	return run
}

// open returns the ids of the open interrupts of a run.
func openOf(t *testing.T, s *act.Service, run string) (ids []string) {
	t.Helper()
	records, err := s.Config().Journal.Records(run)
	require.NoError(t, err)
	for _, i := range journal.OpenInterrupts(records) {
		ids = append(ids, i.Body.(*journal.InterruptOpened).Interrupt)
	}
	slices.Sort(ids)
	return ids
}

// endOf waits for the end of a run and verifies its records, also by a replay
// (JRN-050).
func endOf(t *testing.T, s *act.Service, run *act.Run) (edn.Value, *contract.Error) {
	t.Helper()
	response, err := run.Wait()
	for i, rec := range run.Records() {
		dispatchtest.Verify(t, rec)
		require.Equal(t, i+1, rec.Seq)
	}
	_, missed := act.Replay(t.Context(), s.Config(), run.ID(), decoded(t, run.Records()))
	assert.Nil(t, missed, "replay: %v", missed)
	return response.Key("result").Key("out"), err
}

// JRN-045, RUN-011: a call of a human capability opens an interrupt, and the run
// waits without a worker. The answer is checked and taken once, also from two
// people at once. JRN-050: the run is replayed without people.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Settings{Workers: 1, MaxQueued: 9, Classes: []queue.Class{{Name: "sync", Workers: 1, MaxQueued: 9, Weight: 1}}}, time.Now)
		s := service(t, peopleWorld(t, ""), func(c *act.Config) { c.Queue = q })
		run := started(t, s, askClerk)
		assert.Equal(t, []string{"0-1-1"}, openOf(t, s, run.ID()))
		assert.True(t, run.AwaitsPeople())
		assert.Equal(t, 0, q.Loads()[0].Running)
		other := started(t, s, `{:proto 1 :trace {:id "o"} :input {:n 1} :task {:intent :text/respond :dispatch {:candidates [:a/one]}}}`)
		_, err := other.Wait()
		require.Nil(t, err, "%v", err)

		err = run.Answer("0-1-1", edn.MustRead(`{:approved "yes"}`), "eve")
		require.NotNil(t, err)
		assert.Equal(t, "interrupt/answer-invalid", err.Type)
		assert.Equal(t, []string{"0-1-1"}, openOf(t, s, run.ID()), "it stays open")
		assert.Equal(t, "interrupt/not-found", run.Answer("9-1-1", edn.Nil(), "eve").Type)

		var both sync.WaitGroup
		errs := make([]*contract.Error, 2)
		for i := range errs {
			both.Go(func() {
				errs[i] = run.Answer("0-1-1", edn.MustRead(fmt.Sprintf(`{:approved true :who %d}`, i)), fmt.Sprint("person ", i))
			})
		}
		both.Wait()
		won := slices.Index(errs, nil)
		require.GreaterOrEqual(t, won, 0)
		require.NotNil(t, errs[1-won])
		assert.Equal(t, "interrupt/answered", errs[1-won].Type)
		out, err := endOf(t, s, run)
		require.Nil(t, err, "%v", err)
		assert.Equal(t, fmt.Sprintf(`{:approved true :who %d}`, won), out.String())
		assert.False(t, run.AwaitsPeople())
		for _, rec := range run.Records() {
			if end, ok := rec.Body.(*journal.InterruptAnswered); ok {
				assert.Equal(t, fmt.Sprint("person ", won), end.By)
			}
		}
		assert.Equal(t, 0, q.Loads()[0].Running)
	})
}

// JRN-045: without an answer until its deadline, an interrupt is denied, answered
// by default, or escalated to the next candidate.
func TestInterruptDeadline(t *testing.T) {
	for then, want := range map[string]string{
		registry.DeadlineDeny:     "interrupt/unanswered",
		registry.DeadlineDefault:  `{:approved false}`,
		registry.DeadlineEscalate: `{:approved true}`,
	} {
		t.Run(then, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := service(t, peopleWorld(t, then))
				run := started(t, s, askClerk)
				begun := time.Now()
				if then == registry.DeadlineEscalate {
					<-time.After(time.Hour)
					synctest.Wait()
					assert.Equal(t, []string{"0-1-2"}, openOf(t, s, run.ID()))
					late := run.Answer("0-1-1", edn.MustRead(`{:approved true}`), "clerk")
					require.NotNil(t, late)
					assert.Equal(t, "interrupt/answered", late.Type)
					require.Nil(t, run.Answer("0-1-2", edn.MustRead(`{:approved true}`), "boss"))
				}
				out, err := endOf(t, s, run)
				assert.Equal(t, time.Hour, time.Since(begun))
				if then == registry.DeadlineDeny {
					require.NotNil(t, err)
					assert.Equal(t, want, err.Type)
					return
				}
				require.Nil(t, err, "%v", err)
				assert.Equal(t, want, out.String())
			})
		})
	}
}

// JRN-045, RUN-013: a run that waits for people is canceled at once, and takes no
// answer any more.
func TestInterruptCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, peopleWorld(t, ""))
		run := started(t, s, askClerk)
		require.True(t, run.Cancel("uid/7", "no need"))
		_, err := run.Wait()
		require.NotNil(t, err)
		assert.Equal(t, "canceled", err.Type)
		assert.Equal(t, "interrupt/not-found", run.Answer("0-1-1", edn.MustRead(`{:approved true}`), "clerk").Type)
		assert.Empty(t, journal.OpenInterrupts(run.Records()))
	})
}

// JRN-040, JRN-045: cut after any record, a run that asks two people goes on with
// the same questions, asks none again that was answered, repeats no sibling that
// has finished, and ends in the same way.
func TestInterruptResumes(t *testing.T) {
	var whole []journal.Record
	yes := edn.MustRead(`{:approved true}`)
	text := ownPlan(bothPlan, "", ":deadline-ms 86400000")
	synctest.Test(t, func(t *testing.T) {
		s := service(t, peopleWorld(t, ""))
		run := started(t, s, text)
		assert.Equal(t, []string{"0-1-1", "1-1-1"}, openOf(t, s, run.ID()), "several at once")
		for _, id := range []string{"1-1-1", "0-1-1"} {
			require.Nil(t, run.Answer(id, yes, "clerk"))
			synctest.Wait()
		}
		out, err := endOf(t, s, run)
		require.Nil(t, err, "%v", err)
		assert.Equal(t, `{:value [true true :a/one]}`, out.String())
		whole = run.Records()
	})
	for cut := 2; cut < len(whole); cut++ {
		synctest.Test(t, func(t *testing.T) {
			past, kept := decoded(t, whole[:cut]), journal.NewMemory()
			kept.Load(past[0].Run, past)
			w := peopleWorld(t, "")
			s := service(t, w, func(c *act.Config) { c.Journal = kept })
			run, refused := s.Resume(t.Context(), past[0].Run, past, act.Resumption{Why: journal.ResumedCrash})
			require.Nil(t, refused, "%v", refused)
			synctest.Wait()
			given, ended := 0, false
			for _, i := range journal.OpenInterrupts(past) {
				assert.Contains(t, openOf(t, s, run.ID()), i.Body.(*journal.InterruptOpened).Interrupt, "cut after record %d", cut)
			}
			for _, rec := range past {
				switch rec.Body.(type) {
				case *journal.InterruptAnswered:
					given++
				case *journal.AttemptFinished:
					ended = ended || rec.Path.String() == "[2]"
				}
			}
			open := openOf(t, s, run.ID())
			assert.Len(t, open, 2-given, "cut after record %d", cut)
			if ended {
				assert.Empty(t, w.Calls(), "cut after record %d", cut)
			}
			for _, id := range open {
				require.Nil(t, run.Answer(id, yes, "clerk"), "cut after record %d", cut)
			}
			out, err := endOf(t, s, run)
			require.Nil(t, err, "cut after record %d: %v", cut, err)
			assert.Equal(t, `{:value [true true :a/one]}`, out.String())
		})
	}
}

// JRN-045: two people are asked in a race: the first answer is taken, and the other
// question is closed.
func TestInterruptRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := service(t, peopleWorld(t, ""))
		run := started(t, s, `{:proto 1 :trace {:id "r"} :input {:n 1} :task {:intent :text/respond
		  :dispatch {:candidates [:a/clerk :a/boss] :strategy :race}}}`)
		require.Equal(t, []string{"0-1-1", "0-1-2"}, openOf(t, s, run.ID()))
		assert.True(t, run.AwaitsPeople())
		require.Nil(t, run.Answer("0-1-2", edn.MustRead(`{:approved true}`), "boss"))
		out, err := endOf(t, s, run)
		require.Nil(t, err, "%v", err)
		assert.Equal(t, `{:approved true}`, out.String())
	})
}

// RUN-016, JRN-045: a run that only waited for people in several crashes is not
// held back.
func TestInterruptIsNotPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := peopleWorld(t, "")
		s := service(t, w)
		run := started(t, s, askClerk)
		for range 5 {
			records, err := s.Config().Journal.Records(run.ID())
			require.NoError(t, err)
			past, kept := decoded(t, records), journal.NewMemory()
			run.Interrupt()
			_, _ = run.Wait()
			kept.Load(run.ID(), past)
			s = service(t, w, func(c *act.Config) { c.Journal = kept })
			var refused *contract.Error
			run, refused = s.Resume(t.Context(), run.ID(), past, act.Resumption{Why: journal.ResumedCrash})
			require.Nil(t, refused, "%v", refused)
			synctest.Wait()
			require.Equal(t, []string{"0-1-1"}, openOf(t, s, run.ID()))
		}
		require.Nil(t, run.Answer("0-1-1", edn.MustRead(`{:approved true}`), "clerk"))
		_, err := run.Wait()
		require.Nil(t, err, "%v", err)
	})
}

// SCHED-010, JRN-042: when a node fails, a question to people that is earlier in program
// order stays open, because its failure would be the reported one; a later one is taken
// back at once. A call of class once is awaited in both cases, and a question that has the
// class once up to its deadline: it is answered then, and its outcome is never unknown.
func TestFailureBesidePeople(t *testing.T) {
	const (
		fails = `{:op :call :intent :text/respond :dispatch {:candidates [:a/bad] :retry {:fallback-max 0}} :input {:n 1} :as :f}`
		asks  = `{:op :call :intent :text/respond :dispatch {:candidates [:a/clerk]} :input {:n 2} :as :x}`
		once  = `{:op :call :intent :text/respond :dispatch {:candidates [:a/once]} :effects {:allowed #{:fs/write}} :input {:n 3} :as :o}`
		soon  = 10 * time.Second // the call of class once ends
	)
	for name, tc := range map[string]struct {
		plan    []string
		more    string        // of the people
		open    bool          // after the failure
		answer  time.Duration // when a person answers; 0: never
		ended   time.Duration
		outcome string // of the question
	}{
		"earlier":                 {plan: []string{asks, once, fails}, open: true, answer: time.Minute, ended: time.Minute, outcome: "ok"},
		"later":                   {plan: []string{fails, asks, once}, ended: soon, outcome: "canceled"},
		"of class once, answered": {plan: []string{fails, asks}, more: ":cap/effects #{:fs/write}", open: true, answer: time.Minute, ended: time.Minute, outcome: "ok"},
		"of class once, in vain":  {plan: []string{fails, asks}, more: ":cap/effects #{:fs/write}", open: true, ended: time.Hour, outcome: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := dispatchtest.New(t, dispatchtest.Spec{
					Caps: []string{
						dispatchtest.Cap("a/clerk", ":cap/cost {:usd 0} "+tc.more), dispatchtest.Cap("a/bad", ""),
						dispatchtest.Cap("a/once", ":cap/effects #{:fs/write}"),
					},
					Humans: map[string]registry.Human{"a/clerk": {Deadline: time.Hour, OnDeadline: registry.DeadlineDeny}},
				})
				w.On("a/bad", dispatchtest.Step{Err: contract.Errorf("input/invalid", "it does not work").WithRetryable(false), Delay: time.Second})
				w.On("a/once", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: soon})
				s := service(t, w, func(c *act.Config) { c.Effects = dispatchtest.Open() })
				begun := time.Now()
				run := started(t, s, `{:proto 1 :trace {:id "r"} :deadline-ms 86400000 :task {:intent :plan/run} :effects {:allowed #{:fs/write}}
				  :input {:plan {:nodes [`+strings.Join(tc.plan, " ")+`]}}}`)
				asked := openOf(t, s, run.ID())
				require.Len(t, asked, 1)
				time.Sleep(2 * time.Second) // the node has failed
				synctest.Wait()
				assert.Equal(t, tc.open, len(openOf(t, s, run.ID())) == 1)
				if tc.answer > 0 {
					time.Sleep(tc.answer - time.Since(begun))
					require.Nil(t, run.Answer(asked[0], edn.MustRead(`{:n 2}`), "ann"))
				}
				_, err := endOf(t, s, run)
				require.NotNil(t, err)
				assert.Equal(t, "input/invalid", err.Type)
				assert.Equal(t, tc.ended, time.Since(begun))
				outcomes := map[string]string{}
				for _, rec := range run.Records() {
					if end, ok := rec.Body.(*journal.AttemptFinished); ok {
						outcomes[rec.Node] = end.Outcome
					}
				}
				node := fmt.Sprint("n", slices.Index(tc.plan, asks))
				assert.Equal(t, tc.outcome, outcomes[node], "%v", outcomes)
			})
		})
	}
}

// SCHED-010, OPS-004, JRN-045: a run whose host goes down while it waits for people, in a
// call of class once whose sibling has failed, has no unknown outcome: the next host asks
// the same question again, and the run fails as it would have.
func TestInterruptedWaitOfClassOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := journal.NewMemory()
		host := func() *act.Service {
			w := dispatchtest.New(t, dispatchtest.Spec{
				Caps:   []string{dispatchtest.Cap("a/clerk", ":cap/cost {:usd 0} :cap/effects #{:fs/write}"), dispatchtest.Cap("a/bad", "")},
				Humans: map[string]registry.Human{"a/clerk": {}},
			})
			w.On("a/bad", dispatchtest.Step{Err: contract.Errorf("input/invalid", "it does not work").WithRetryable(false)})
			return service(t, w, func(c *act.Config) {
				c.Effects, c.Journal, c.Suspends = dispatchtest.Open(), kept, true
			})
		}
		run := started(t, host(), `{:proto 1 :trace {:id "r"} :deadline-ms 86400000 :task {:intent :plan/run} :effects {:allowed #{:fs/write}}
		  :input {:plan {:nodes [
		    {:op :call :intent :text/respond :dispatch {:candidates [:a/clerk]} :input {:n 1} :as :x}
		    {:op :call :intent :text/respond :dispatch {:candidates [:a/bad] :retry {:fallback-max 0}} :input {:n 2} :as :f}]}}}`)
		run.Interrupt()
		_, err := run.Wait()
		require.NotNil(t, err)
		assert.Equal(t, "runtime/draining", err.Type)
		past := decoded(t, run.Records())
		require.Len(t, journal.OpenInterrupts(past), 1)

		kept.Drop(run.ID())
		kept.Load(run.ID(), past)
		s := host()
		again, refused := s.Resume(t.Context(), run.ID(), past, act.Resumption{Why: journal.ResumedRestart})
		require.Nil(t, refused, "%v", refused)
		synctest.Wait()
		require.Equal(t, []string{"0-1-1"}, openOf(t, s, run.ID()))
		require.Nil(t, again.Answer("0-1-1", edn.MustRead(`{:n 1}`), "ann"))
		_, err = endOf(t, s, again)
		require.NotNil(t, err)
		assert.Equal(t, "input/invalid", err.Type)
	})
}
