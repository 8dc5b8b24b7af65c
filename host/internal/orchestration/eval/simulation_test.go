package eval_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// EVAL-070, SCHED-003: no order of completion changes result, slots, verdicts
// or the records of a node. Each generated plan runs once in program order,
// and once in each other mode with another order; every hundredth runs in a
// hundred orders.
func TestManyPlansInAnyOrder(t *testing.T) {
	plans := proof.Size(t, "generated plans", usualSimPlans, 10_000)
	shards := runtime.GOMAXPROCS(0)
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			base := generatedBase(t)
			env := plan.Env{Registry: base.Registry, Policies: base.Policies}
			for n, seed := 0, uint64(shard); n < plans/shards; seed += uint64(shards) {
				r := rand.New(rand.NewPCG(seed, 70))
				source := (&gen{pick: func(_ string, below int) int { return r.IntN(below) }}).plan()
				p, findings := plan.Parse(source, nil)
				if p != nil {
					findings = plan.Check(p, env)
				}
				if plan.HasErrors(findings) {
					continue
				}
				n++
				orders := 1
				if n%100 == 0 {
					orders = 50
				}
				assertTimeless(t, base, env, source, seed, orders)
			}
		})
	}
}

// assertTimeless runs a plan in several orders of each mode.
func assertTimeless(t *testing.T, base *dispatchtest.World, env plan.Env, source edn.Value, seed uint64, orders int) {
	t.Helper()
	in := func(mode string, order uint64) told {
		return tellUnverified(t, generatedWorld(base, order), env, source.AssocKey("mode", edn.K(mode)))
	}
	want := in("strict", 0)
	before := want.before()
	for i := range uint64(orders) {
		for k, mode := range []string{"hybrid", "lazy"} {
			got := in(mode, 1+seed*1000+2*i+uint64(k))
			if got.out != want.out || got.fails != want.fails {
				t.Fatalf("seed %d, %s, order %d: %s %s, not %s %s\n%s", seed, mode, i, got.fails, got.out, want.fails, want.out, source)
			}
			if b := got.before(); b != before {
				t.Fatalf("seed %d, %s, order %d: records differ: %s\n%s", seed, mode, i, difference(before, b), source)
			}
		}
	}
}

// tellUnverified is tell without schema checks of the records.
func tellUnverified(t *testing.T, w *dispatchtest.World, env plan.Env, source edn.Value) told {
	t.Helper()
	p, _ := plan.Parse(source, nil)
	prog, err := plan.Link(p, env)
	require.Nil(t, err)
	var r ran
	synctest.Test(t, func(*testing.T) {
		mem := journal.NewMemory()
		ctx := context.Background()
		r.Outcome = evaluator(w).Run(ctx, &eval.Task{
			Run: "run_test", Seed: 1, Source: "request", Trace: edn.MustMap(), Program: prog,
			Recorder: eval.NewRecorder(ctx, mem, dispatch.SystemClock{}, "run_test", 1),
			Started:  &journal.RunStarted{Host: "h", Boot: "b", Config: someConfig},
		})
		r.records, _ = mem.Records("run_test") // never fails
	})
	return toldOf(r)
}

var someConfig = edn.Hash(edn.Nil())
