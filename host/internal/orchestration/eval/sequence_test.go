package eval_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var update = flag.Bool("update", false, "write the golden files")

func fails(typ string) dispatchtest.Step {
	return dispatchtest.Step{Err: contract.Errorf(typ, "scripted failure"), Delay: time.Millisecond}
}

func answers(text string) dispatchtest.Step {
	return dispatchtest.Step{Value: edn.MustRead(text), Delay: 2 * time.Millisecond}
}

func plans(text string) dispatchtest.Step {
	return dispatchtest.Step{Plan: edn.MustRead(text), Delay: time.Millisecond}
}

// abc is a world of three candidates, a checker, and two checks of results.
func abc(t testing.TB) *dispatchtest.World {
	named := func(name, key string) quality.Check {
		return quality.Check{
			Check: registry.Check{Name: name, Kind: registry.CheckCondition},
			Judge: func(s quality.Subject) quality.Outcome {
				if s.Result.Key(key).Truthy() {
					return quality.Passed()
				}
				return quality.Failed(quality.Finding{Path: []edn.Value{edn.K(key)}, Message: "wants :" + key})
			},
		}
	}
	return dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			dispatchtest.Cap("t/a", `:cap/can-produce #{:value :plan}`), dispatchtest.Cap("t/b", ""), dispatchtest.Cap("t/c", ""),
			`{:cap/id :t/checker :cap/kind :checker :cap/intents #{:t/verify} :io/in-schema :req/any :io/out-schema :res/any}`,
		},
		Checks: []quality.Check{
			named("good", "good"), named("nice", "nice"),
			{Check: registry.Check{Name: "verified", Kind: registry.CheckCapability, Intent: "t/verify"}},
		},
	})
}

const abcCall = `{:nodes [{:op :call :id "call" :intent :text/respond :input {:prompt "p"} :as :x
  :dispatch {:candidates [:t/a :t/b :t/c] :retry {:same-cap-max %s :fallback-max %s}}} {:op :emit :input :x}]}`

func cascade(same, fallback string) string {
	return strings.Replace(strings.Replace(abcCall, "%s", same, 1), "%s", fallback, 1)
}

// The sequences of evaluation.md section 7 and common scenarios, each as the
// transcript that ferment run --transcript prints (EVAL-061, SCR-004).
func TestSequences(t *testing.T) {
	for _, tc := range []struct {
		name       string
		plan       string
		script     func(w *dispatchtest.World)
		dispatched string
		out        string
		fails      string
	}{
		{
			name: "cascade-same1-fallback2", plan: cascade("1", "2"),
			script: func(w *dispatchtest.World) {
				w.On("t/a", fails("provider/unavailable"), fails("provider/unavailable"))
				w.On("t/b", fails("runtime/invoke-failed"))
				w.On("t/c", answers(`{:n 3}`))
			},
			dispatched: "t/a t/a t/b t/c", out: `{:n 3}`,
		},
		{
			name: "cascade-same0-fallback0", plan: cascade("0", "0"),
			script:     func(w *dispatchtest.World) { w.On("t/a", fails("provider/unavailable")) },
			dispatched: "t/a", fails: "provider/unavailable",
		},
		{
			name: "crash-respawned", plan: cascade("1", "1"),
			script: func(w *dispatchtest.World) {
				w.On("t/a", crash(w, dispatch.CapState{Respawning: true}, 50*time.Millisecond), crash(w, dispatch.CapState{Respawning: true}, 0))
				w.On("t/b", answers(`{:n 2}`))
			},
			dispatched: "t/a t/a t/b", out: `{:n 2}`,
		},
		{
			name: "crash-quarantined", plan: cascade("1", "1"),
			script: func(w *dispatchtest.World) {
				w.On("t/a", crash(w, dispatch.CapState{Reason: "runtime/quarantined"}, 0))
				w.On("t/b", answers(`{:n 2}`))
			},
			dispatched: "t/a t/b", out: `{:n 2}`,
		},
		{
			name: "gate-retry-then-switch", plan: strings.Replace(cascade("1", "1"), `:as :x`, `:as :x :done {:must #{:good}}`, 1),
			script: func(w *dispatchtest.World) {
				w.On("t/a", answers(`{:n 1}`), answers(`{:n 2}`))
				w.On("t/b", answers(`{:good true}`))
			},
			dispatched: "t/a t/a t/b", out: `{:good true}`,
		},
		{
			name: "must-failed", plan: strings.Replace(cascade("0", "0"), `:as :x`, `:as :x :done {:must #{:good :verified}}`, 1),
			script:     func(w *dispatchtest.World) { w.On("t/a", answers(`{:n 1}`)) },
			dispatched: "t/a", fails: "eval/must-failed",
		},
		{
			name: "low-score", plan: strings.Replace(cascade("0", "1"), `:as :x`, `:as :x :done {:should #{:good :nice} :score-min 0.8}`, 1),
			script: func(w *dispatchtest.World) {
				w.On("t/a", answers(`{:good true}`))
				w.On("t/b", answers(`{:good true :nice true}`))
			},
			dispatched: "t/a t/b", out: `{:good true :nice true}`,
		},
		{
			name: "capability-check", plan: strings.Replace(cascade("0", "1"), `:as :x`, `:as :x :done {:must #{:verified}}`, 1),
			script: func(w *dispatchtest.World) {
				w.On("t/a", answers(`{:n 1}`))
				w.On("t/b", answers(`{:n 2}`))
				w.On("t/checker", answers(`{:ok? false :findings [{:message "no" :path [:n]}]}`), answers(`{:ok? true}`))
			},
			dispatched: "t/a t/checker t/b t/checker", out: `{:n 2}`,
		},
		{
			name: "allow-failure",
			plan: `{:nodes [{:op :call :id "first" :intent :text/respond :input {:prompt "p"} :as :x :dispatch {:candidates [:t/a] :allow-failure? true}}
			  {:op :call :id "second" :when {:failed? :x} :intent :text/respond :input {:why {:slot/path [:x :failure/type]}} :as :y :dispatch {:candidates [:t/b]}}
			  {:op :emit :input {:x {:slot/path [:x :failure/type]} :y {:slot/path [:y :n]}}}]}`,
			script: func(w *dispatchtest.World) {
				w.On("t/a", fails("input/invalid"))
				w.On("t/b", answers(`{:n 2}`))
			},
			dispatched: "t/a t/b", out: `{:x :input/invalid :y 2}`,
		},
		{
			name: "nested-plan", plan: cascade("0", "0"),
			script: func(w *dispatchtest.World) {
				w.On("t/a", plans(`{:nodes [{:op :call :id "inner" :intent :text/respond :input {:prompt "q"} :as :i :dispatch {:candidates [:t/b]}} {:op :emit :input {:final :i}}]}`))
				w.On("t/b", answers(`{:text "inner"}`))
			},
			dispatched: "t/a t/b", out: `{:final {:text "inner"}}`,
		},
		{
			name: "nested-plan-fails-over", plan: cascade("0", "1"),
			script: func(w *dispatchtest.World) {
				w.On("t/a", plans(`{:nodes [{:op :call :id "inner" :intent :text/respond :input {:prompt "q"} :as :i :dispatch {:candidates [:t/c]}} {:op :emit :input :i}]}`))
				w.On("t/c", fails("input/invalid"))
				w.On("t/b", answers(`{:text "plain"}`))
			},
			dispatched: "t/a t/c t/b", out: `{:text "plain"}`,
		},
		{
			name: "map-keeps-item-errors",
			plan: `{:nodes [{:op :let :value [1 2 3] :as :ns}
			  {:op :map :over :ns :item :n :as :ys :max-parallel 1 :on-item-error :keep
			   :body [{:op :call :intent :text/respond :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/a]}} {:op :emit :input {:slot/path [:r :n]}}]}
			  {:op :emit :input {:oks {:slot/path [:ys :out 0]} :bad {:slot/path [:ys :out 1 :failure/type]} :last {:slot/path [:ys :out 2]}}}]}`,
			script: func(w *dispatchtest.World) {
				w.On("t/a", answers(`{:n 10}`), fails("input/invalid"), answers(`{:n 30}`))
			},
			dispatched: "t/a t/a t/a", out: `{:bad :input/invalid :last 30 :oks 10}`,
		},
		{
			name: "parallel-branches",
			plan: `{:nodes [{:op :call :id "a" :intent :text/respond :input {:prompt "A"} :as :x :dispatch {:candidates [:t/a]}}
			  {:op :call :id "b" :intent :text/respond :input {:prompt "B"} :as :y :dispatch {:candidates [:t/b]}}
			  {:op :call :id "c" :intent :text/respond :input {:x {:slot/path [:x :n]} :y {:slot/path [:y :n]}} :as :z :dispatch {:candidates [:t/c]}}
			  {:op :emit :input :z}]}`,
			script: func(w *dispatchtest.World) {
				w.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: 30 * time.Millisecond})
				w.On("t/b", dispatchtest.Step{Value: edn.MustRead(`{:n 2}`), Delay: 10 * time.Millisecond})
				w.On("t/c", answers(`{:n 3}`))
			},
			dispatched: "t/a t/b t/c", out: `{:n 3}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := abc(t)
				tc.script(w)
				r := run(t, w, tc.plan)
				assert.Equal(t, tc.fails, r.failure())
				if tc.fails == "" {
					require.Nil(t, r.Err)
					assert.Equal(t, tc.out, r.out())
				}
				assert.ElementsMatch(t, strings.Fields(tc.dispatched), w.Dispatched())
				golden(t, filepath.Join("testdata", "sequences", tc.name+".edn"), journal.Transcript(r.records))
			})
		})
	}
}

// crash kills the process of :t/a; it restarts after a while if back is set.
func crash(w *dispatchtest.World, st dispatch.CapState, back time.Duration) dispatchtest.Step {
	return dispatchtest.Step{Crash: true, Delay: time.Millisecond, After: func() {
		w.SetState("t/a", st)
		if back > 0 {
			time.AfterFunc(back, func() { w.SetState("t/a", dispatch.CapState{Ready: true}) })
		}
	}}
}

func golden(t *testing.T, file string, v edn.Value) {
	t.Helper()
	text := string(edn.WritePretty(v, edn.PrettyOptions{Width: 140})) + "\n"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// ATT-007: the next candidate starts within 10 ms of the exit.
func TestNextCandidateStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := abc(t)
		w.On("t/a", crash(w, dispatch.CapState{Respawning: true}, time.Hour))
		w.On("t/b", answers(`{:n 2}`))
		r := run(t, w, cascade("0", "1"))
		require.Nil(t, r.Err)
		begun := w.Begun()
		assert.LessOrEqual(t, begun[1].Sub(begun[0]), time.Millisecond+10*time.Millisecond)
	})
}
