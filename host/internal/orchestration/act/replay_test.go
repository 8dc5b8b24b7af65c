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
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-050: a replay calls no plugin and has the values of the run; a record that
// was changed is found.
func TestReplay(t *testing.T) {
	open := func(c *act.Config) { c.Effects = dispatchtest.Open() }
	for name, text := range resumeCases {
		t.Run(name, func(t *testing.T) {
			_, err, records := do(t, service(t, resumeWorld(t), open), text)
			require.NotEmpty(t, records, "%v", err)
			w := resumeWorld(t)
			s := service(t, w, open)
			want := edn.Hash(finished(t, records).Response.Value().Key("result").Key("out"))
			if err != nil {
				want = edn.Hash(edn.K(err.Type))
			}
			for range 3 {
				hash, missed := act.Replay(t.Context(), s.Config(), records[0].Run, decoded(t, records))
				require.Nil(t, missed, "%v", missed)
				assert.Equal(t, want, hash)
			}
			assert.Empty(t, w.Calls())

			for i, rec := range records {
				changed := decoded(t, records)
				switch body := rec.Body.(type) {
				case *journal.AttemptFinished:
					if body.Err != nil || refused(records, body.Attempt) {
						continue // another answer would not have been accepted either
					}
					other := *body
					other.Result = journal.RefTo(body.Result.Value().AssocKey("result", edn.MustRead(`{:type :value :out {:good true :by :another/one}}`)))
					other.ResultType = "value"
					changed[i].Body = &other
				case *journal.NodeCommitted:
					other := *body
					other.Value = journal.RefTo(edn.Text("another value"))
					changed[i].Body = &other
				default:
					continue
				}
				_, missed := act.Replay(t.Context(), s.Config(), rec.Run, changed)
				if assert.NotNil(t, missed, "record %d, %s", rec.Seq, rec.Body.Kind()) {
					assert.Equal(t, "replay/miss", missed.Type)
				}
			}
			assert.Empty(t, w.Calls())
		})
	}
}

// refused reports whether a gate refused the answer of an attempt, or another answer was
// better.
func refused(records []journal.Record, attempt int) bool {
	return slices.ContainsFunc(records, func(r journal.Record) bool {
		if c, ok := r.Body.(*journal.NodeCommitted); ok && slices.Contains(c.Outscored, attempt) {
			return true
		}
		v, ok := r.Body.(*journal.GateVerdict)
		return ok && v.Attempt == attempt && !v.Pass
	})
}

// JRN-050: an attempt without a record is a miss, and so is another plan.
func TestReplayMisses(t *testing.T) {
	s := service(t, resumeWorld(t))
	_, err, records := do(t, s, resumeCases["fallback"])
	require.Nil(t, err)
	for i, rec := range records {
		if _, ok := rec.Body.(*journal.AttemptStarted); ok {
			without := append(append([]journal.Record{}, records[:i]...), records[i+1:]...)
			_, missed := act.Replay(t.Context(), s.Config(), rec.Run, without)
			require.NotNil(t, missed, "without record %d", rec.Seq)
			assert.Equal(t, "replay/miss", missed.Type)
			assert.False(t, missed.Where.Key("node").IsNil(), "it says where: %v %s", missed, missed.Where)
		}
	}
	_, missed := act.Replay(t.Context(), s.Config(), records[0].Run, records[:len(records)-1])
	require.NotNil(t, missed)
	assert.Equal(t, "run/not-resumable", missed.Type)
	records, _ = suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	_, missed = act.Replay(t.Context(), s.Config(), records[0].Run, records)
	require.NotNil(t, missed)
	assert.Equal(t, "run/not-resumable", missed.Type)
}

// JRN-050: a run that passed its deadline is replayed as such, also if its nodes keep
// failures: the failure that ended the run was not kept.
func TestReplayOfAnExpiredRun(t *testing.T) {
	const call = `{:op :call :intent :text/respond :dispatch {:candidates [:a/one] %s} :input {} :as :x}`
	for name, node := range map[string]string{
		"kept failure": fmt.Sprintf(call, ":allow-failure? true"),
		"kept item": `{:op :map :over [1 2] :item :i :as :x :on-item-error :keep :body [` + fmt.Sprintf(call, "") + `
		  {:op :emit :input {:slot/id :x}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := resumeWorld(t)
				w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
					return dispatchtest.Step{Value: edn.MustRead(`{}`), Delay: 4 * time.Second}
				})
				_, err, records := do(t, service(t, w), ownPlan(`{:nodes [`+node+` {:op :emit :input {:x {:slot/id :x}}}]}`, "", ":deadline-ms 300"))
				require.NotNil(t, err)
				assert.Equal(t, journal.StatusExpired, finished(t, records).Status)
			})
		})
	}
}

// JRN-050: a replay counts no costs, and has the recorded value of a node that kept the
// failure of its budget after an attempt, whichever budget that was.
func TestReplayOfASpentBudget(t *testing.T) {
	for strategy, done := range map[string]string{
		"": "", ":strategy :race :race {:width 2}": "", ":strategy :tournament :tournament {:width 2}": "",
		":strategy :hedge :hedge {:after-ms 1}": "", ":repair {:max 2}": ":done {:must #{:good}}",
	} {
		node := func(budget string) string {
			return `{:nodes [{:op :call :intent :text/respond :dispatch {:candidates [:a/down :a/bad :a/two] :retry {:fallback-max 2} :allow-failure? true ` +
				strategy + `} ` + done + ` ` + budget + ` :input {} :as :x} {:op :emit :input {:x {:slot/id :x}}}]}`
		}
		for most := 1; most <= 2; most++ {
			limit := fmt.Sprintf("{:max-attempts %d}", most)
			for name, text := range map[string]string{
				"node":    ownPlan(node(":budget "+limit), "", ""),
				"request": ownPlan(node(""), "", ":budget "+limit),
			} {
				t.Run(fmt.Sprintf("%s, %d of %s", strategy, most, name), func(t *testing.T) {
					_, err, _ := do(t, service(t, resumeWorld(t)), text) // replays it
					require.Nil(t, err, "%v", err)
				})
			}
			run := policy.ScopeBudget{Written: true, Limits: block(t, limit).Limits}
			_, err, _ := do(t, service(t, resumeWorld(t), budgets(policy.Budgets{Run: run})), ownPlan(node(""), "", ""))
			require.Nil(t, err, "%v", err)
		}
	}
}
