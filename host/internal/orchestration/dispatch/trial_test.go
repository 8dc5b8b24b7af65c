package dispatch_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// trialExecutor is an executor with an edition on trial: it stores reported
// verdicts, and has every call judged for the answer of the shadow.
type trialExecutor struct {
	dispatch.Executor
	shadow edn.Value // whole envelope; nil: no shadow

	reported []bool
	shadowed []dispatch.Call
	verdict  [][2]bool // pass, counts
}

func (x *trialExecutor) Judged(_ string, _ dispatch.Answer, pass bool) {
	x.reported = append(x.reported, pass)
}
func (x *trialExecutor) Shadowing(string) bool { return !x.shadow.IsNil() }
func (x *trialExecutor) Shadow(c dispatch.Call, judge dispatch.Judge) {
	x.shadowed = append(x.shadowed, c)
	pass, counts := judge(context.Background(), dispatch.Answer{Response: x.shadow})
	x.verdict = append(x.verdict, [2]bool{pass, counts})
}

func trying(w *dispatchtest.World, shadow string) *trialExecutor {
	x := &trialExecutor{Executor: w.Executor}
	if shadow != "" {
		x.shadow = edn.MustRead(shadow)
	}
	w.Dispatcher.Executor = x
	return x
}

// SUP-006: the executor gets the verdict of the gates on each answer, so that
// an edition on trial is compared by the same gates.
func TestGatesReportToTrials(t *testing.T) {
	w := judged(t, judge("t/judge", ""))
	x := trying(w, "")
	w.On("t/a", out(`{:move "e4"}`))
	w.On("t/judge", out("false"), out("true"))
	l := retries(1, 0)
	l.Must = policy.NamesOf(here, "verified")
	r := serve(t, w, order{layer: l})
	require.Nil(t, r.Err)
	assert.Equal(t, []bool{false, true}, x.reported)

	x.reported = nil
	w.On("t/a", fails("input/invalid"))
	serve(t, w, order{})
	assert.Empty(t, x.reported, "an error is no answer")
}

// BRK-002: a check that failed to run says nothing about the answer.
func TestFailedChecksAreNoSample(t *testing.T) {
	w := judged(t, judge("t/judge", ""))
	x := trying(w, `{:result {:type :value :out {:move "d4"}}}`)
	w.On("t/a", out(`{:move "e4"}`))
	w.On("t/judge", fails("runtime/crashed"))
	r := serve(t, w, order{layer: must("verified")})
	require.NotNil(t, r.Err)
	assert.Empty(t, x.reported)
	assert.Equal(t, [][2]bool{{false, false}}, x.verdict)
}

// SUP-006: a shadow gets the same request and the same gates, and leaves no
// trace in the run.
func TestShadow(t *testing.T) {
	for name, tc := range map[string]struct {
		answer       string
		judge        string
		pass, counts bool
	}{
		"passes":   {`{:result {:type :value :out {:move "d4"}}}`, "true", true, true},
		"fails":    {`{:result {:type :value :out {:move "d4"}}}`, "false", false, true},
		"no form":  {`7`, "true", false, true},
		"no value": {`{:result {:type :error :error {:type :input/invalid}}}`, "true", false, true},
		"a plan":   {`{:result {:type :plan :plan {:nodes [{:op :emit :input 1}]}}}`, "true", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := judged(t, judge("t/judge", ""))
			x := trying(w, tc.answer)
			w.On("t/a", out(`{:move "e4"}`))
			w.Func("t/judge", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
				if c.Request.Key("input").Key("move").Equal(edn.Text("e4")) {
					return out("true")
				}
				return out(tc.judge)
			})
			r := serve(t, w, order{layer: must("verified")})
			require.Nil(t, r.Err)
			assert.Equal(t, `{:move "e4"}`, r.Out.String())
			require.Len(t, x.shadowed, 1)
			assert.Equal(t, "t/a", x.shadowed[0].CapID)
			assert.Equal(t, [][2]bool{{tc.pass, tc.counts}}, x.verdict)
			assert.Equal(t, []bool{true}, x.reported)
			assert.Len(t, r.verdicts(t), 2, "its verdicts are not recorded")
			assert.Len(t, r.finished(), 1)
		})
	}
	t.Run("calls with effects have none", func(t *testing.T) {
		w := world(t, ":cap/effects #{:fs/write}")
		x := trying(w, `{:result {:type :value :out {:move "d4"}}}`)
		w.On("t/a", out(`{:move "e4"}`))
		serve(t, w, order{layer: policy.Layer{Effects: policy.Of([]string{"fs/write"}, here)}})
		assert.Empty(t, x.shadowed)
	})
}

// BUD-003, BUD-005, SUP-006: the host pays for the gates of a shadow, not the
// caller, also after the end of the run; without budget the answer is not a
// sample.
func TestShadowIsPaidByTheHost(t *testing.T) {
	for _, row := range []struct {
		name, left string
		votes      string // paid by the host
		counts     bool
	}{
		{"enough", "{:max-judge-calls 9}", "2", true},
		{"too little", "{:max-usd 0.001M}", "nil", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := judgeWorld{caps: []string{grader("t/grader", ":cap/cost {:usd 0.002M}")}}.world(t)
			free(t, w, "t/a")
			x := trying(w, `{:result {:type :value :out {:text "y"}}}`)
			later := &delayed{trialExecutor: x}
			w.Dispatcher.Executor = later
			w.On("t/a", out(`{:text "x"}`))
			w.Func("t/grader", func(_ context.Context, c dispatch.Call) dispatchtest.Step {
				assert.Equal(t, c.Request.Key("input").Key("task/result").Key("text").Equal(edn.Text("y")), c.Shadow, "what a judge asks for a shadow is no part of the run either")
				if c.Shadow {
					return score("0.5")
				}
				return score("0.9")
			})
			ledger := budget.NewMemory(nil)
			host := budget.Scope{Kind: budget.Tenant, ID: "host", Limits: limitsIn(t, row.left)}
			r := serve(t, w, order{layer: by("must", "0.8M"), limits: "{:max-judge-calls 1}", ledger: ledger, host: budget.Chain{host}})
			require.Nil(t, r.Err)
			r.account.Close(context.Background())

			pass, counts := later.judge(context.Background(), dispatch.Answer{Response: x.shadow})
			assert.Equal(t, []bool{false, row.counts}, []bool{pass, counts})
			all, err := ledger.Balances(context.Background(), []budget.Scope{host, {Kind: budget.Node, ID: "n"}})
			require.NoError(t, err)
			assert.Equal(t, row.votes, all[0].Used.Value().Key("judge-calls").String())
			assert.Equal(t, "1", all[1].Used.Value().Key("judge-calls").String(), "the node has paid for its own vote")
			assert.True(t, all[0].Reserved.IsZero())
			for _, rec := range r.records {
				if v, ok := rec.Body.(*journal.GateVerdict); ok {
					assert.True(t, v.Pass, "the verdict on the shadow is not recorded")
				}
			}
		})
	}
}

// delayed judges a shadow when the test triggers it.
type delayed struct {
	*trialExecutor
	judge dispatch.Judge
}

func (x *delayed) Shadow(_ dispatch.Call, judge dispatch.Judge) { x.judge = judge }
