package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func judge(id, more string) string {
	return `{:cap/id :` + id + ` :cap/kind :checker :cap/intents #{:t/verify} :io/in-schema :req/any :io/out-schema :res/any ` + more + `}`
}

func verified(name string) quality.Check {
	return quality.Check{Check: registry.Check{
		Name: name, Kind: registry.CheckCapability, Intent: "t/verify",
		Params: edn.MustRead(`{:strict true}`), Timeout: time.Second,
	}}
}

func judged(t testing.TB, judges ...string) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: append(caps(""), judges...), Checks: []quality.Check{verified("verified"), verified("second")}})
}

func must(names ...string) policy.Layer {
	return policy.Layer{Must: policy.NamesOf(here, names...)}
}

func (s served) verdicts(t testing.TB) map[string]*journal.GateVerdict {
	t.Helper()
	out := map[string]*journal.GateVerdict{}
	for _, r := range s.records {
		if v, ok := r.Body.(*journal.GateVerdict); ok {
			out[v.Gate] = v
		}
	}
	return out
}

// GATE-009: the input of a capability check, and the answers it accepts.
func TestCapabilityCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  string
		pass    bool
		finding string
	}{
		"true":             {`{:result {:type :value :out true}}`, true, ""},
		"false":            {`{:result {:type :value :out false}}`, false, "check :verified failed"},
		"map passes":       {`{:result {:type :value :out {:legal? true}}}`, true, ""},
		"first key counts": {`{:result {:type :value :out {:ok? false :legal? true}}}`, false, "check :verified failed"},
		"findings":         {`{:result {:type :value :out {:valid? false :findings [{:message "clause 17"}]}}}`, false, "clause 17"},
		"no verdict":       {`{:result {:type :value :out {:n 1}}}`, false, "the answer has none of"},
		"a plan":           {`{:result {:type :plan :plan {:nodes []}}}`, false, "could not be called"},
		"no envelope":      {`7`, false, "could not be called"},
	} {
		t.Run(name, func(t *testing.T) {
			w := judged(t, judge("t/judge", ""))
			w.On("t/a", out(`{:move "e4"}`))
			w.On("t/judge", dispatchtest.Step{Raw: edn.MustRead(tc.answer)})
			r := serve(t, w, order{layer: must("verified"), input: `{:fen "x" :move "old"}`})
			v := r.verdicts(t)["verified"]
			require.NotNil(t, v)
			assert.Equal(t, tc.pass, v.Pass)
			assert.Equal(t, "t/judge", v.CapID)
			assert.Equal(t, "1.0.0", v.CapVersion)
			assert.Equal(t, 2, v.Tier)
			if tc.pass {
				assert.Nil(t, r.Err)
			} else {
				assert.Equal(t, "eval/must-failed", r.failure())
				first, _ := v.Findings.Value().Nth(0)
				assert.Contains(t, first.Key("message").String(), tc.finding)
			}
			call := w.Calls()[1]
			in := call.Request.Key("input")
			assert.Equal(t, `"e4"`, in.Key("move").String(), "the answer wins over the request")
			assert.Equal(t, `"x"`, in.Key("fen").String())
			assert.Equal(t, `true`, in.Key("strict").String())
			assert.Equal(t, `{:move "e4"}`, in.Key("check/result").String())
			assert.Equal(t, `:text/respond`, in.Key("check/request").Key("intent").String())
			assert.Equal(t, []string{"t/a"}, call.Stack)
		})
	}
}

// GATE-009: one retry if the error class is retry, none otherwise; a check that
// fails to run fails a must gate.
func TestCapabilityCheckRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []dispatchtest.Step
		asked int
		pass  bool
	}{
		"class retry, then fine":   {[]dispatchtest.Step{fails("provider/unavailable"), out(`{:ok? true}`)}, 2, true},
		"class retry, twice":       {[]dispatchtest.Step{fails("provider/unavailable")}, 2, false},
		"class switch":             {[]dispatchtest.Step{fails("runtime/invoke-failed"), out(`{:ok? true}`)}, 1, false},
		"class stop":               {[]dispatchtest.Step{fails("input/invalid"), out(`{:ok? true}`)}, 1, false},
		"lost, and there again":    {[]dispatchtest.Step{{Crash: true}, out(`{:ok? true}`)}, 2, true},
		"silence beyond its limit": {[]dispatchtest.Step{{Hang: true}}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := judged(t, judge("t/judge", ""))
				w.On("t/a", out(`{:n 1}`))
				w.On("t/judge", tc.steps...)
				begun := time.Now()
				r := serve(t, w, order{layer: must("verified")})
				assert.Equal(t, tc.pass, r.Err == nil)
				assert.Len(t, w.Calls(), 1+tc.asked)
				assert.LessOrEqual(t, time.Since(begun), time.Second)
				if !tc.pass {
					first, _ := r.verdicts(t)["verified"].Findings.Value().Nth(0)
					assert.Equal(t, ":check/error", first.Key("code").String())
				}
			})
		})
	}
}

// GATE-009: a capability does not check its own answer; the next one does, and
// without a next one the check fails.
func TestNoSelfJudging(t *testing.T) {
	both := `{:cap/id :t/both :cap/kind :solver :cap/intents #{:text/respond :t/verify} :io/in-schema :req/any :io/out-schema :res/any}`
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{both, judge("t/judge", "")}, Checks: []quality.Check{verified("verified")}})
	w.On("t/both", out(`{:n 1}`))
	w.On("t/judge", out(`{:ok? true}`))
	r := serve(t, w, order{layer: must("verified")})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/both", "t/judge"}, w.Dispatched())

	w = dispatchtest.New(t, dispatchtest.Spec{Caps: []string{both}, Checks: []quality.Check{verified("verified")}})
	w.On("t/both", out(`{:n 1 :ok? true}`))
	r = serve(t, w, order{layer: must("verified")})
	assert.Equal(t, "eval/must-failed", r.failure())
	assert.Equal(t, []string{"t/both"}, w.Dispatched())
}

// GATE-009: a check may only read.
func TestChecksOnlyRead(t *testing.T) {
	w := judged(t, judge("t/writer", ":cap/effects #{:fs/write}"), judge("t/reader", ":cap/effects #{:fs/read}"))
	w.On("t/a", out(`{:n 1}`))
	w.On("t/reader", out(`{:ok? true}`))
	r := serve(t, w, order{layer: must("verified")})
	require.Nil(t, r.Err)
	assert.Equal(t, []string{"t/a", "t/reader"}, w.Dispatched())
}

// A respawning checker is awaited within the timeout of the check.
func TestCheckerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := judged(t, judge("t/judge", ""))
		w.On("t/a", out(`{:n 1}`))
		w.On("t/judge", out(`{:ok? true}`))
		w.SetState("t/judge", dispatch.CapState{Respawning: true})
		time.AfterFunc(300*time.Millisecond, func() { w.SetState("t/judge", dispatch.CapState{Ready: true}) })
		r := serve(t, w, order{layer: must("verified")})
		assert.Nil(t, r.Err)

		w.SetState("t/judge", dispatch.CapState{Respawning: true})
		begun := time.Now()
		r = serve(t, w, order{layer: must("verified")})
		assert.Equal(t, "eval/must-failed", r.failure())
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

// ATT-006, GATE-009: a check ends with the deadline of its node, whatever its own
// timeout is, and an answer that comes later does not count.
func TestCheckEndsWithItsNode(t *testing.T) {
	const deadline = 200 * time.Millisecond
	for name, state := range map[string]struct {
		step dispatchtest.Step
		gone bool // the checker is restarting and does not come back
	}{
		"no answer":    {step: dispatchtest.Step{Hang: true}},
		"late answer":  {step: dispatchtest.Step{Value: edn.MustRead(`{:ok? true}`), Delay: deadline + time.Millisecond}},
		"does not run": {gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := judged(t, judge("t/judge", ""))
				w.On("t/a", out(`{:n 1}`))
				w.On("t/judge", state.step)
				if state.gone {
					w.SetState("t/judge", dispatch.CapState{Respawning: true})
				}
				begun := time.Now()
				r := serve(t, w, order{layer: must("verified"), deadline: deadline})
				assert.Equal(t, deadline, time.Since(begun))
				assert.Equal(t, "eval/must-failed", r.failure())
				for _, call := range w.Calls()[1:] {
					assert.Equal(t, deadline, call.Deadline.Sub(begun))
				}
			})
		})
	}
}

// BUD-002, LED-003: a check that was not asked costs nothing, one that failed otherwise
// costs what was reserved.
func TestUnsentChecksCostNothing(t *testing.T) {
	unsent := contract.Errorf("provider/unavailable", "no route").WithClass(contract.ClassStop).
		WithDetail("sent?", edn.Bool(false))
	reply := func(e *contract.Error) dispatchtest.Step {
		result := edn.MustMap(edn.K("type"), edn.K("error"), edn.K("error"), e.Value())
		return dispatchtest.Step{Raw: edn.MustMap(edn.K("result"), result)}
	}
	for name, tc := range map[string]struct {
		step dispatchtest.Step
		cost string // of the check
	}{
		"overloaded":             {dispatchtest.Step{Err: contract.Errorf("runtime/overloaded", "busy")}, "0"},
		"not sent":               {dispatchtest.Step{Err: unsent}, "0"},
		"not sent, as an answer": {reply(unsent), "0"},
		"no answer":              {dispatchtest.Step{Hang: true}, "0.5"},
		"failed":                 {fails("runtime/invoke-failed"), "0.5"},
		"passed":                 {out(`{:ok? true}`), "0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := judged(t, judge("t/judge", ":cap/cost {:usd 0.5M}"))
				free(t, w, "t/a")
				w.On("t/a", out(`{:n 1}`))
				w.On("t/judge", tc.step)
				r := serve(t, w, order{layer: must("verified"), limits: `{:max-usd 10M}`})
				require.NotNil(t, r.verdicts(t)["verified"])
				settled := 0
				for _, rec := range r.records {
					if s, ok := rec.Body.(*journal.BudgetSettled); ok && s.Of.For == "check" {
						settled++
						cost := s.Amount.Key("usd")
						assert.True(t, edn.Equal(cost, edn.MustRead(tc.cost+"M")) || tc.cost == "0" && cost.IsNil(), "%s", s.Amount)
					}
				}
				assert.Positive(t, settled)

				plain := serve(t, w, order{layer: must("verified")})
				usage := plain.verdicts(t)["verified"].Usage
				assert.Equal(t, tc.cost == "0", usage.Key("cost-usd").IsNil(), "without a budget: %s", usage)
			})
		})
	}
}

// EVAL-040: tiers run in order, capability checks of one tier in parallel; the
// first tier with a failed must gate is the last and runs completely.
func TestTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := judged(t, judge("t/judge", ""))
		w.On("t/a", out(`{:n 1}`))
		w.On("t/judge", dispatchtest.Step{Value: edn.MustRead(`{:ok? true}`), Delay: 100 * time.Millisecond})
		begun := time.Now()
		r := serve(t, w, order{layer: must("verified", "second")})
		require.Nil(t, r.Err)
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		var gates []string
		for _, rec := range r.records {
			if v, ok := rec.Body.(*journal.GateVerdict); ok {
				gates = append(gates, v.Gate)
			}
		}
		assert.Equal(t, []string{"schema-valid", "second", "verified"}, gates, "recorded by tier and name")

		w = judged(t, judge("t/judge", ""))
		w.On("t/a", out(`"no map"`))
		r = serve(t, w, order{layer: must("verified", "json-valid", "missing")})
		assert.Equal(t, "schema/invalid", r.failure(), "GATE-004")
		assert.Equal(t, []string{"t/a"}, w.Dispatched(), "GATE-003: nothing dearer is asked")
		assert.Len(t, r.verdicts(t), 3, "the failed tier is finished")
	})
}

// ERR-009: the source of a refused answer depends on the kind of its author.
func TestSourceOfGateFailures(t *testing.T) {
	for kind, want := range map[string]contract.Source{"llm": contract.SourceDownstream, "solver": contract.SourcePlugin} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
			`{:cap/id :t/a :cap/kind :` + kind + ` :cap/intents #{:text/respond} :io/in-schema :req/any :io/out-schema :res/any}`,
		}})
		w.On("t/a", out(`7`))
		r := serve(t, w, order{})
		assert.Equal(t, want, r.Err.Source, kind)
	}
}

// A panic in a capability check is a finding and does not end the host.
func TestCheckPanics(t *testing.T) {
	w := judged(t, judge("t/judge", ""))
	w.On("t/a", out(`{:n 1}`))
	w.On("t/judge", dispatchtest.Step{Panic: "boom"})
	r := serve(t, w, order{layer: must("verified")})
	assert.Equal(t, "eval/must-failed", r.failure())
	assert.Equal(t, "runtime/internal", r.verdicts(t)["verified"].Err.Type)
}

// RUN-013: a canceled call ends at once without further attempts.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "", "")
		w.On("t/a", dispatchtest.Step{Hang: true})
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		begun := time.Now()
		r := serve(t, w, order{layer: retries(3, 3), ctx: ctx})
		assert.Equal(t, "canceled", r.failure())
		assert.Equal(t, []string{"canceled"}, r.finished())
		assert.Equal(t, 10*time.Millisecond, time.Since(begun))
		assert.Equal(t, []string{"t/a"}, w.Dispatched())
	})
}

// SCHED-010: a call of class once is awaited when a sibling fails; the end of
// the run cancels it.
func TestOnceIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, ":cap/effects #{:fs/write}")
		w.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Second})
		sibling, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		begun := time.Now()
		r := serve(t, w, order{ctx: sibling, base: context.Background()})
		assert.Equal(t, time.Second, time.Since(begun))
		assert.Nil(t, r.Err)
		assert.Equal(t, []string{"ok"}, r.finished())

		base, end := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, end)
		begun = time.Now()
		r = serve(t, w, order{ctx: base, base: base})
		assert.Equal(t, 10*time.Millisecond, time.Since(begun))
		assert.Equal(t, []string{"canceled"}, r.finished())
	})
}

// ATT-008 rows 6 and 7: the wait for the process is bounded by the deadline.
func TestAwaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world(t, "", "")
		w.On("t/a", dispatchtest.Step{Crash: true, After: func() { w.SetState("t/a", dispatch.CapState{Respawning: true}) }})
		w.On("t/b", out(`{:n 2}`))
		begun := time.Now()
		r := serve(t, w, order{layer: retries(1, 1), deadline: time.Second})
		assert.Equal(t, "runtime/crashed", r.failure(), "nothing is started after the deadline")
		assert.Equal(t, time.Second, time.Since(begun))

		w = world(t, "", "")
		w.On("t/a", dispatchtest.Step{Crash: true, After: func() {
			w.SetState("t/a", dispatch.CapState{Respawning: true})
			time.AfterFunc(50*time.Millisecond, func() { w.SetState("t/a", dispatch.CapState{Reason: "runtime/quarantined"}) })
		}})
		w.On("t/b", out(`{:n 2}`))
		r = serve(t, w, order{layer: retries(1, 1), deadline: time.Second})
		require.Nil(t, r.Err)
		assert.Equal(t, []string{"t/a", "t/b"}, w.Dispatched())
	})
}
