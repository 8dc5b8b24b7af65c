package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// judges compares the time that a cached grade adds to a call with one hop to a plugin with as many
// bytes (JDG-007, JDG-014).
func judges(p pace) ([]row, error) {
	a, err := startAlone()
	if err != nil {
		return nil, err
	}
	defer a.close()
	text := strings.Repeat("All claims follow from the source. ", 30)[:1024]
	request := edn.MustMap(edn.K("proto"), edn.Int(1), edn.K("task"), edn.MustMap(edn.K("intent"), edn.K("bench/echo")), edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(text)))
	var hits, hops []time.Duration
	for range p.rounds {
		with, err := perCall(text, true)
		if err != nil {
			return nil, err
		}
		without, err := perCall(text, false)
		if err != nil {
			return nil, err
		}
		hits = append(hits, max(0, with-without))
		begun := time.Now()
		for range p.calls {
			if err := a.call(context.Background(), request); err != nil {
				return nil, err
			}
		}
		hops = append(hops, time.Since(begun)/time.Duration(p.calls))
	}
	return []row{against("cached grade, 1 KiB", median(hits), "plugin hop", median(hops), 0.05)}, nil
}

// nowhere is a recorder that discards all records.
type nowhere struct{}

// Record implements dispatch.Recorder.
func (nowhere) Record(edn.Value, string, journal.Body) error { return nil }

// Sync implements dispatch.Recorder.
func (nowhere) Sync() error { return nil }

// perCall returns the time of one call inside the host, without a judge or with one whose grade is
// cached.
func perCall(text string, judged bool) (time.Duration, error) {
	cost, err := perStep(1, func(b *testing.B) error {
		w := dispatchtest.New(b, dispatchtest.Spec{
			Caps:   []string{dispatchtest.Cap("a/one", ""), `{:cap/id :a/judge :cap/kind :judge :cap/intents #{:eval/grade} :io/in-schema :req/eval :io/out-schema :res/eval}`},
			Judges: []registry.Judge{{Name: "j", Intent: registry.IntentGrade, Enabled: true, Votes: 3, MaxAttempts: 1, Memo: true, ScorePath: []string{"score"}}},
		})
		w.Dispatcher.Executor, w.Dispatcher.Grades = answers{edn.Text(text)}, dispatch.NewGrades(16)
		var layer policy.Layer
		if judged {
			layer.Judge = policy.Of("j", policy.Origin{})
		}
		pol, err := layer.Resolve()
		if err != nil {
			return err
		}
		callPolicy, ctx := w.Dispatcher.CallPolicy(pol, "text/respond", ""), context.Background()
		run := &dispatch.Run{ID: "run_bench", Seed: 1, Trace: edn.MustRead(`{:id "t"}`), Recorder: nowhere{}, Base: ctx}
		path := edn.Vector(edn.Int(0))
		for b.Loop() {
			// Each call gets a new value, as from a client, because a value caches its hash.
			input := edn.MustMap(edn.K("prompt"), edn.Text("Sum it up."))
			if r := w.Dispatcher.Serve(ctx, run, &dispatch.Work{Op: "call", Node: "n", Path: path, Intent: "text/respond", Policy: callPolicy, Input: input}); r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
	return cost.per, err
}

// answers returns a grade for calls of the judge, and a text for all others.
type answers struct{ text edn.Value }

// Invoke implements dispatch.Executor.
func (a answers) Invoke(_ context.Context, c dispatch.Call) (dispatch.Answer, error) {
	if c.CapID == "a/judge" {
		return dispatch.Answer{Response: contract.ValueResult(edn.MustMap(edn.K("score"), edn.MustDecimal("0.9")))}, nil
	}
	return dispatch.Answer{Response: contract.ValueResult(edn.MustMap(edn.K("text"), a.text))}, nil
}

// State implements dispatch.Executor.
func (answers) State(string) dispatch.CapState { return dispatch.CapState{Ready: true} }

// Await implements dispatch.Executor.
func (answers) Await(context.Context, string) error { return nil }
