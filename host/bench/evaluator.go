package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	planner "github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// constant answers every call at once, so that only the work of the evaluator is measured.
type constant struct{ answer dispatch.Answer }

// Invoke implements dispatch.Executor.
func (c *constant) Invoke(context.Context, dispatch.Call) (dispatch.Answer, error) {
	return c.answer, nil
}

// State implements dispatch.Executor.
func (c *constant) State(string) dispatch.CapState { return dispatch.CapState{Ready: true} }

// Await implements dispatch.Executor.
func (c *constant) Await(context.Context, string) error { return nil }

// chainLength is the number of steps of one run.
const chainLength = 100

// evaluator measures a step of a chain without a plugin: a let that reads the previous step, and a
// complete call with policy, binding, attempt, gate, commit and records.
func evaluator(p pace) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		name, node string
		steps      time.Duration
		allocs     float64
	}{
		{"evaluator step: let", `{:op :let :value {:n 1 :before {:slot/path [:s%d :n]}} :as :s%d} `, 2 * time.Microsecond, 8},
		{"evaluator step: gated call", `{:op :call :intent :text/respond :input {:n 1 :before {:slot/path [:s%d :n] :slot/default 0}} :as :s%d} `, 0, 0},
	} {
		var nodes strings.Builder
		for i := range chainLength {
			fmt.Fprintf(&nodes, c.node, i, i+1)
		}
		text := `{:mode :strict :nodes [{:op :let :value {:n 1} :as :s0} ` + nodes.String() + `]}`
		ours, theirs, err := steps(p, text)
		if err != nil {
			return nil, err
		}
		per, allocs := ours.per, ours.allocs
		r := row{work: c.name, ours: ours.String(), peer: "eino " + theirs.String(), ratio: float64(ours.per) / float64(theirs.per), within: true}
		if c.steps > 0 {
			r.goal, r.within = fmt.Sprintf("<= %s, %.0f allocs", figure(c.steps), c.allocs), per <= c.steps && allocs <= c.allocs
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// stepCost is the cost of one step: time and allocations.
type stepCost struct {
	per    time.Duration
	allocs float64
}

// String shows both.
func (s stepCost) String() string { return fmt.Sprintf("%s, %.1f allocs", figure(s.per), s.allocs) }

// steps returns the median cost of a step of the plan and of a node of the eino graph, measured in
// alternating rounds.
func steps(p pace, text string) (ours, theirs stepCost, err error) {
	var mine, peers []time.Duration
	for range p.rounds {
		cost, err := perStep(chainLength, func(b *testing.B) error { return chain(b, text) })
		if err != nil {
			return ours, theirs, err
		}
		mine, ours.allocs = append(mine, cost.per), cost.allocs
		if cost, err = perStep(einoLength, einoRun); err != nil {
			return ours, theirs, err
		}
		peers, theirs.allocs = append(peers, cost.per), cost.allocs
	}
	ours.per, theirs.per = median(mine), median(peers)
	return ours, theirs, nil
}

func perStep(n int, run func(b *testing.B) error) (stepCost, error) {
	failed := errors.New("the benchmark did not run")
	result := testing.Benchmark(func(b *testing.B) { failed = run(b) })
	if failed != nil {
		return stepCost{}, failed
	}
	return stepCost{time.Duration(result.NsPerOp() / int64(n)), float64(result.AllocsPerOp()) / float64(n)}, nil
}

func chain(b *testing.B, text string) error {
	w := dispatchtest.New(b, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}})
	w.Dispatcher.Executor = &constant{dispatch.Answer{Response: contract.ValueResult(edn.MustRead(`{:n 2 :text "hello"}`))}}
	env := planner.Env{Registry: w.Registry, Policies: w.Policies}
	parsed, findings := planner.Parse(edn.MustRead(text), nil)
	if err := planner.FindingsError(findings, contract.SourceRequest); err != nil {
		return err
	}
	program, err := planner.Link(parsed, env)
	if err != nil {
		return err
	}
	ev := &eval.Evaluator{Registry: w.Registry, Policies: w.Policies, Clock: dispatch.SystemClock{}, Limits: planner.DefaultLimits(), Dispatcher: w.Dispatcher}
	ctx, trace := context.Background(), edn.MustRead(`{:id "t"}`)
	b.ReportAllocs()
	for b.Loop() {
		out := ev.Run(ctx, &eval.Task{
			Run: "run_bench", Seed: 1, Source: "request", Program: program, Trace: trace,
			Recorder: eval.NewRecorder(ctx, journal.NewMemory(), dispatch.SystemClock{}, "run_bench", 1),
			Started:  &journal.RunStarted{Host: "h", Boot: "b", Config: edn.Hash(edn.Nil())},
		})
		if out.Err != nil {
			return out.Err
		}
	}
	return nil
}
