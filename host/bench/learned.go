package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/sdk/edn"
)

// learnedArms is the number of candidates that are ordered (LRN-006).
const learnedArms = 8

// ordering compares the time that the learned order of candidates adds to a call with one hop to a
// plugin with 1 KiB (LRN-006).
func ordering(p pace) ([]row, error) {
	a, err := startAlone()
	if err != nil {
		return nil, err
	}
	defer a.close()
	text := strings.Repeat("All claims follow from the source. ", 30)[:1024]
	request := edn.MustMap(edn.K("proto"), edn.Int(1), edn.K("task"), edn.MustMap(edn.K("intent"), edn.K("bench/echo")), edn.K("input"), edn.MustMap(edn.K("text"), edn.Text(text)))
	var orders, hops []time.Duration
	for range p.rounds {
		with, err := perOrder(policy.Learning)
		if err != nil {
			return nil, err
		}
		without, err := perOrder(policy.Declared)
		if err != nil {
			return nil, err
		}
		orders = append(orders, max(0, with-without))
		begun := time.Now()
		for range p.calls {
			if err := a.call(context.Background(), request); err != nil {
				return nil, err
			}
		}
		hops = append(hops, time.Since(begun)/time.Duration(p.calls))
	}
	return []row{against("learned order of 8 candidates", median(orders), "plugin hop", median(hops), 0.5)}, nil
}

// trained is a store whose counts do not change with outcomes: a host adds outcomes outside its
// calls.
type trained struct{ learned.Memory }

// Learn implements learned.Store.
func (*trained) Learn(learned.Key, func(string) string, func()) {}

// perOrder returns the time of one call inside the host under a dispatch policy, including drawing
// and recording the order.
func perOrder(by string) (time.Duration, error) {
	cost, err := perStep(1, func(b *testing.B) error {
		var spec dispatchtest.Spec
		for i := range learnedArms {
			spec.Caps = append(spec.Caps, dispatchtest.Cap(fmt.Sprintf("a/c%d", i), ""))
		}
		w := dispatchtest.New(b, spec)
		w.Dispatcher.Executor = answers{edn.Text("x")}
		pol, err := policy.Layer{Ordering: policy.Of(by, policy.Origin{}), FallbackMax: policy.Of(1, policy.Origin{})}.Resolve()
		if err != nil {
			return err
		}
		counts := &trained{}
		for i := range learnedArms {
			for n := range 8 * learnedArms {
				if arm := (bandit.Arm{CapID: fmt.Sprintf("a/c%d", i), Major: 1}); pol.Learned != nil {
					learned.NewBook(&counts.Memory, nil).Add(learned.Key{Intent: "text/respond"},
						bandit.Outcome{Arm: arm, Pass: n%learnedArms <= i, At: time.Now()}, pol.Learned)
				}
			}
		}
		w.Dispatcher.Learned = learned.NewBook(counts, nil)
		callPolicy, ctx := w.Dispatcher.CallPolicy(pol, "text/respond", ""), context.Background()
		run := &dispatch.Run{ID: "run_bench", Seed: 1, Trace: edn.MustRead(`{:id "t"}`), Recorder: nowhere{}, Base: ctx}
		path := edn.Vector(edn.Int(0))
		for b.Loop() {
			input := edn.MustMap(edn.K("prompt"), edn.Text("Sum it up."))
			if r := w.Dispatcher.Serve(ctx, run, &dispatch.Work{Op: "call", Node: "n", Path: path, Intent: "text/respond", Policy: callPolicy, Input: input}); r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
	return cost.per, err
}
