package eval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// constant answers every call immediately with one value, so that only the
// work of the evaluator is measured.
type constant struct{ answer dispatch.Answer }

func (c *constant) Invoke(context.Context, dispatch.Call) (dispatch.Answer, error) {
	return c.answer, nil
}
func (c *constant) State(string) dispatch.CapState      { return dispatch.CapState{Ready: true} }
func (c *constant) Await(context.Context, string) error { return nil }

const benchSteps = 100

// BenchmarkEvaluatorStep measures one step of a chain of 100: a let that reads
// the step before it, and a whole call (policy, binding, attempt, gate,
// commit, five records) to an executor that answers immediately.
func BenchmarkEvaluatorStep(b *testing.B) {
	chain := func(node string) string {
		var nodes strings.Builder
		for i := range benchSteps {
			fmt.Fprintf(&nodes, node, max(0, i-1), i)
		}
		return `{:mode :strict :nodes [{:op :let :value {:n 1} :as :s0} ` + nodes.String() + `]}`
	}
	skipFirst := func(s string) string { return strings.Replace(s, ":as :s0} {", ":as :start} {", 1) }
	for _, bc := range []struct{ name, plan string }{
		{"let", skipFirst(chain(`{:op :let :value {:n 1 :before {:slot/path [:s%d :n] :slot/default 0}} :as :s%d}`))},
		{"call", skipFirst(chain(`{:op :call :intent :text/respond :input {:n 1 :before {:slot/path [:s%d :n] :slot/default 0}} :as :s%d}`))},
	} {
		bc.plan = strings.ReplaceAll(bc.plan, ":slot/path [:s0 :n] :slot/default 0}} :as :s0", ":slot/path [:start :n] :slot/default 0}} :as :s0")
		b.Run(bc.name, func(b *testing.B) { benchPlan(b, bc.plan) })
	}
}

func benchPlan(b *testing.B, text string) {
	w := dispatchtest.New(b, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}})
	w.Dispatcher.Executor = &constant{dispatch.Answer{Response: contract.ValueResult(edn.MustRead(`{:n 2 :text "hello"}`))}}
	env := plan.Env{Registry: w.Registry, Policies: w.Policies}
	p, findings := plan.Parse(edn.MustRead(text), nil)
	require.NotNil(b, p)
	require.Nil(b, plan.FindingsError(findings, contract.SourceRequest))
	prog, err := plan.Link(p, env)
	require.Nil(b, err)
	ev := evaluator(w)
	ctx := context.Background()
	trace := edn.MustRead(`{:id "t"}`)
	b.ReportAllocs()
	for b.Loop() {
		out := ev.Run(ctx, &eval.Task{
			Run: "run_bench", Seed: 1, Source: "request", Program: prog, Trace: trace,
			Recorder: eval.NewRecorder(ctx, journal.NewMemory(), dispatch.SystemClock{}, "run_bench", 1),
			Started:  &journal.RunStarted{Host: "h", Boot: "b", Config: "b3:0000000000000000000000000000000000000000000000000000000000000000"},
		})
		if out.Err != nil {
			b.Fatal(out.Err)
		}
	}
	steps := float64(b.N * benchSteps)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/steps, "ns/step")
}
