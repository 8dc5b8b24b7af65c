package eval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// graphOf returns the graph of a plan with n nodes and random needs, and the
// needs of each node.
func graphOf(t *testing.T, rng *rand.Rand, n int) (*plan.Graph, [][]int) {
	t.Helper()
	needs := make([][]int, n)
	var nodes strings.Builder
	for i := range n {
		var names []string
		for k := range i {
			if rng.IntN(n) < 2 {
				needs[i] = append(needs[i], k)
				names = append(names, fmt.Sprintf("%q", fmt.Sprint("n", k)))
			}
		}
		fmt.Fprintf(&nodes, `{:op :let :id "n%d" :as :v%d :value %d :needs [%s]} `, i, i, i, strings.Join(names, " "))
	}
	reg, err := registry.New(registry.Spec{})
	require.NoError(t, err)
	env := plan.Env{Registry: reg, Policies: &policy.Book{}}
	prog, findings, refused := prepare(edn.MustRead("{:mode :lazy :nodes ["+nodes.String()+"]}"), nil, env, contract.SourceHost)
	require.Nil(t, refused, "%v", findings)
	return prog.Graph, needs
}

// outcome is an event of an order.
type outcome struct {
	step int // -1: the run is over
	skip bool
	err  *contract.Error
}

// apply applies an event and then starts what may start; running are the steps
// that run afterwards.
func (e outcome) apply(o *order, running []int) []int {
	switch {
	case e.step < 0:
		o.over(e.err)
		return running // nothing starts any more
	case e.skip:
		o.skipped(e.step)
	default:
		o.settled(e.step, e.err)
	}
	return starts(o, slices.DeleteFunc(running, func(i int) bool { return i == e.step }))
}

func starts(o *order, running []int) []int {
	for {
		i, ok := o.next()
		if !ok {
			return running
		}
		running = append(running, i)
	}
}

// The law of the scheduler over generated plans with failures, skipped nodes,
// limits and runs that are ended: the events up to any point lead another order
// to the same running steps and the same failure. A step starts after those that
// it needs, and once.
func TestLawOfOrder(t *testing.T) {
	t.Parallel()
	ended, failedRuns := 0, 0
	for seed := range uint64(2_000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 1 + rng.IntN(12)
		graph, needs := graphOf(t, rng, n)
		limit := 1 + rng.IntN(4)
		live := &order{n: n, graph: graph, limit: limit}
		live.begin()
		running := starts(live, nil)
		var events []outcome
		var states []string
		state := func(o *order, running []int) string { return fmt.Sprint(running, o.failed, o.failure, o.others) }
		settled, seen := map[int]bool{}, map[int]bool{}
		for len(running) > 0 {
			require.LessOrEqual(t, len(running), limit)
			for _, i := range running {
				if seen[i] {
					continue
				}
				seen[i] = true
				for _, need := range needs[i] {
					require.True(t, settled[need], "seed %d: %d starts before %d", seed, i, need)
				}
			}
			e := outcome{step: running[rng.IntN(len(running))]}
			switch rng.IntN(10) {
			case 0:
				e.err = contract.Errorf("eval/low-score", "step %d", e.step)
			case 1:
				e.skip = true
			}
			settled[e.step] = e.err == nil
			running = e.apply(live, running)
			events, states = append(events, e), append(states, state(live, running))
		}
		if rng.IntN(2) == 0 { // over after everything has ended changes nothing
			e := outcome{step: -1, err: contract.Errorf("canceled", "over")}
			before := state(live, running)
			running = e.apply(live, running)
			require.Equal(t, before, state(live, running))
		}
		switch live.failure {
		case nil:
			ended++
			assert.Len(t, settled, n, "seed %d: all have run", seed)
		default:
			failedRuns++
			for i := range live.failed {
				assert.True(t, settled[i], "seed %d: %d precedes the failed %d", seed, i, live.failed)
			}
		}
		again := &order{n: n, graph: graph, limit: limit}
		again.begin()
		running = starts(again, nil)
		for k, e := range events {
			running = e.apply(again, running)
			require.Equal(t, states[k], state(again, running), "seed %d after %d events", seed, k+1)
		}
	}
	assert.Greater(t, ended, 500)
	assert.Greater(t, failedRuns, 500)
}

// A run that is over before a step could start fails at that step.
func TestOrderIsOver(t *testing.T) {
	t.Parallel()
	o := &order{n: 3, limit: 2}
	o.begin()
	o.over(contract.Errorf("canceled", "over"))
	assert.Equal(t, 0, o.failed)
	assert.Equal(t, "canceled", o.failure.Type)
	_, ok := o.next()
	assert.False(t, ok)
}
