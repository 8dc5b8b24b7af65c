package act_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
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
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// brief summarizes a record, with its node.
func brief(r journal.Record) string {
	text := string(r.Body.Kind())
	switch b := r.Body.(type) {
	case *journal.AttemptStarted:
		text += fmt.Sprintf(" %d %s", b.Attempt, strings.TrimPrefix(b.CapID, "a/"))
	case *journal.AttemptChunk:
		text += fmt.Sprintf(" %d %s %q", b.Attempt, b.Visible, b.Text())
	case *journal.AttemptRetracted:
		text += fmt.Sprintf(" %d %s", b.Attempt, b.Reason)
	case *journal.AttemptFinished:
		text += fmt.Sprintf(" %d %s", b.Attempt, b.Outcome)
	case *journal.GateVerdict:
		text += fmt.Sprintf(" %s %v", b.Gate, b.Pass)
	case *journal.BudgetReserved:
		text += " for " + b.For
	case *journal.BudgetSettled:
		text += " for " + b.Of.For
	case *journal.NodeCommitted:
		text += fmt.Sprintf(" %s %d", strings.TrimPrefix(b.CapID, "a/"), b.Attempt)
	}
	if r.Node != "" {
		text = r.Node + ": " + text
	}
	return text
}

// EVAL-020, EVAL-050, EVAL-040: the records of an attempt are in the order of
// its steps. Nothing is called before it is reserved and recorded, text is
// shown within its attempt, an attempt is settled before its gates are
// reserved, gates precede the commit of a node, and dependent nodes start
// after it.
func TestOrderOfTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checker := `{:cap/id :a/checker :cap/kind :checker :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any :cap/cost {:usd 0.002M}}`
		planner := dispatchtest.Cap("a/planner", ":cap/can-produce #{:value :plan} :cap/cost {:usd 0}")
		w := priced(t, checker, planner)
		w.On("a/planner", dispatchtest.Step{Plan: edn.MustRead(`{:nodes [{:op :call :id "inner" :intent :text/respond :input {} :dispatch {:candidates [:a/two]} :as :i} {:op :emit :input :i}]}`)})
		w.On("a/one",
			dispatchtest.Step{Pieces: []string{"lost"}, Gap: time.Second, Err: contract.Errorf("provider/unavailable", "no")},
			dispatchtest.Step{Pieces: []string{"poor"}, Gap: time.Second, Value: edn.MustRead(`{:text "poor" :good false}`)},
			dispatchtest.Step{Pieces: []string{"fine"}, Gap: time.Second, Value: edn.MustRead(`{:text "fine" :good true}`)})
		w.On("a/two", value(`{:good true}`))
		w.On("a/checker", value(`{:ok? true}`))
		w.Policies.Intents = map[string]policy.Layer{"text/respond": {Stream: policy.Of(policy.Provisional, policy.Origin{Source: policy.SourceIntent})}}
		s := service(t, w, budgets(policy.Budgets{User: block(t, "{:max-attempts 100}")}))
		_, err, records := do(t, s, ownPlan(`{:nodes [
		  {:op :call :id "plan" :intent :text/respond :input {} :dispatch {:candidates [:a/planner]} :as :p}
		  {:op :call :id "call" :intent :text/respond :input {:p {:slot/path [:p :good]}} :as :x :done {:must #{:good :verified}}
		   :dispatch {:candidates [:a/one] :retry {:same-cap-max 1} :repair {:max 1}}}
		  {:op :emit :id "say" :input :x}]}`, "", ":response/type :stream"))
		require.Nil(t, err, "%v", err)
		var got []string
		for _, r := range records {
			got = append(got, brief(r))
		}
		assert.Equal(t, []string{
			"run/accepted", "plan/resolved", "run/started",
			"plan: node/resolved",
			"plan: budget/reserved for attempt", "plan: attempt/started 1 planner", "plan: attempt/finished 1 ok", "plan: budget/settled for attempt",
			"plan: plan/resolved", "plan: budget/reserved for plan",
			"inner: node/resolved",
			"inner: budget/reserved for attempt", "inner: attempt/started 1 two", "inner: attempt/finished 1 ok", "inner: budget/settled for attempt",
			"inner: gate/verdict schema-valid true", "inner: node/committed two 1",
			"n1: node/committed  0",
			"plan: budget/settled for plan",
			"plan: gate/verdict schema-valid true", "plan: node/committed planner 1",
			"call: node/resolved",
			"call: budget/reserved for attempt", "call: attempt/started 1 one", `call: attempt/chunk 1 provisional "lost"`, "call: attempt/finished 1 error", "call: budget/settled for attempt",
			"call: attempt/retracted 1 provider/unavailable",
			"call: budget/reserved for attempt", "call: attempt/started 2 one", `call: attempt/chunk 2 provisional "poor"`, "call: attempt/finished 2 ok", "call: budget/settled for attempt",
			"call: gate/verdict schema-valid true", "call: gate/verdict good false", "call: attempt/retracted 2 eval/must-failed",
			"call: budget/reserved for repair", "call: attempt/started 3 one", `call: attempt/chunk 3 provisional "fine"`, "call: attempt/finished 3 ok", "call: budget/settled for repair",
			"call: gate/verdict schema-valid true", "call: gate/verdict good true",
			"call: budget/reserved for check", "call: budget/settled for check", "call: gate/verdict verified true",
			"call: node/committed one 3",
			"say: node/committed  0",
			"run/finished",
		}, got)

		committed, ok := records[len(records)-3].Body.(*journal.NodeCommitted)
		require.True(t, ok)
		assert.True(t, committed.Value.Set(), "the slot")
		v := records[len(records)-3].Value()
		assert.Equal(t, "1M :a/one 3", fmt.Sprint(v.Key("score"), " ", v.Key("cap/id"), " ", v.Key("attempt")), "score and winner")
	})
}

// DET-002: the winner of a race, the duration of a call and its answer are not
// predictable; all three are in the records. Executors that repeat the
// recorded answers and durations give the same run: the same winner, the same
// answer, the same records.
func TestRecordsHoldWhatIsNotDetermined(t *testing.T) {
	const request = `{:nodes [
	  {:op :call :id "race" :intent :text/respond :input {} :as :x :dispatch {:candidates [:a/one :a/two :a/three] :strategy :race :race {:width 2} :retry {:fallback-max 2}} :done {:must #{:good}}}
	  {:op :call :id "hedge" :intent :text/respond :input {:n {:slot/path [:x :n]}} :as :y :dispatch {:candidates [:a/three :a/one] :strategy :hedge :hedge {:after-ms 40}}}
	  {:op :emit :input {:x {:slot/path [:x :n]} :y {:slot/path [:y :n]}}}]}`
	play := func(t *testing.T, step func(context.Context, dispatch.Call) dispatchtest.Step) ([]journal.Record, string) {
		w := priced(t, dispatchtest.Cap("a/three", ""))
		for _, id := range []string{"a/one", "a/two", "a/three"} {
			w.Func(id, step)
		}
		resp, err, records := do(t, service(t, w, func(c *act.Config) { c.NewID = func() string { return "run_same" } }), ownPlan(request, "", ""))
		if err != nil {
			return records, err.Type
		}
		return records, resp.Key("result").Key("out").String()
	}
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 1))
			type key struct {
				node, cap string
				attempt   int
			}
			drawn := map[key]dispatchtest.Step{}
			for _, node := range []string{"race", "hedge"} {
				for _, id := range []string{"a/one", "a/two", "a/three"} {
					for n := 1; n <= 4; n++ {
						st := value(fmt.Sprintf(`{:n %d :good %v}`, chance.IntN(1000), chance.IntN(4) > 0))
						if chance.IntN(5) == 0 {
							st = dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
						}
						st.Delay = time.Duration(1+chance.IntN(100)) * time.Millisecond
						drawn[key{node, id, n}] = st
					}
				}
			}
			records, out := play(t, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
				return drawn[key{c.Node, c.CapID, c.Attempt}]
			})

			again := map[key]dispatchtest.Step{}
			names := map[string]string{}
			for _, r := range records {
				switch b := r.Body.(type) {
				case *journal.AttemptStarted:
					names[fmt.Sprint(r.Node, b.Attempt)] = b.CapID
				case *journal.AttemptFinished:
					st := dispatchtest.Step{Delay: b.Latency, Err: b.Err}
					switch {
					case b.Outcome == journal.OutcomeCanceled:
						st = dispatchtest.Step{Hang: true}
					case b.Result.Set():
						st = dispatchtest.Step{Delay: b.Latency, Raw: b.Result.Value()}
					}
					again[key{r.Node, names[fmt.Sprint(r.Node, b.Attempt)], b.Attempt}] = st
				}
			}
			replayed, outAgain := play(t, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
				return again[key{c.Node, c.CapID, c.Attempt}]
			})
			assert.Equal(t, out, outAgain, "seed %d", seed)
			told := func(list []journal.Record) (out []string) {
				for _, r := range list {
					v := r.Value().Dissoc(edn.K("at"), edn.K("seed"), edn.K("deadline-at"))
					out = append(out, v.String())
				}
				return out
			}
			assert.Equal(t, told(records[3:]), told(replayed[3:]), "seed %d", seed)
		})
		if t.Failed() {
			return
		}
	}
}
