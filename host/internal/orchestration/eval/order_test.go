package eval

import (
	"fmt"
	"maps"
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
	rank := rng.Perm(n) // a node may need later ones, which do not need it
	for i := range n {
		var names []string
		for k := range n {
			if rank[k] < rank[i] && rng.IntN(n) < 2 {
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
				waits := slices.ContainsFunc(needs[i], func(need int) bool { return !settled[need] })
				assert.True(t, settled[i] || waits, "seed %d: %d precedes the failed %d", seed, i, live.failed)
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

// naiveOrder decides like an order, by looking at all steps each time.
type naiveOrder struct {
	needs    [][]int
	limit    int
	started  map[int]bool
	settled  map[int]bool // without a failure
	running  []int
	failures map[int]bool
	unwanted map[int]bool // by the first failure in program order
}

func (m *naiveOrder) mayStart(i int) bool {
	unsettled := func(need int) bool { return !m.settled[need] }
	return !m.started[i] && !m.unwanted[i] && !slices.ContainsFunc(m.needs[i], unsettled)
}

// start starts what may start, the lowest first.
func (m *naiveOrder) start() {
	for i := 0; i < len(m.needs) && len(m.running) < m.limit; i++ {
		if m.mayStart(i) {
			m.started[i] = true
			m.running = append(m.running, i)
		}
	}
}

// fail marks what is unwanted after a failure: the steps from the first failed one on
// that none before it needs.
func (m *naiveOrder) fail(i int) {
	m.failures[i] = true
	first := slices.Min(slices.Collect(maps.Keys(m.failures)))
	wanted := map[int]bool{}
	var want func(int)
	want = func(i int) {
		wanted[i] = true
		for _, need := range m.needs[i] {
			want(need)
		}
	}
	for i := range first {
		want(i)
	}
	for i := range m.needs {
		m.unwanted[i] = !wanted[i]
	}
}

// SCHED-004, SCHED-009, SCHED-010: of the steps whose needs are settled the lowest start
// first, as many as the limit permits. After a failure only those before it in program
// order start; the first in program order is reported and the others are counted,
// without those that were canceled for it.
func TestOrderFollowsANaiveOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(40)
		graph, needs := graphOf(t, rng, n)
		limit := 1 + rng.IntN(6)
		o := &order{n: n, graph: graph, limit: limit}
		m := &naiveOrder{needs: needs, limit: limit, started: map[int]bool{}, settled: map[int]bool{}, failures: map[int]bool{},
			unwanted: map[int]bool{}}
		o.begin()
		running := starts(o, nil)
		m.start()
		for len(running) > 0 {
			require.Equal(t, m.running, running, "seed %d", seed)
			ready := false
			for i := range n {
				ready = ready || m.mayStart(i)
			}
			if len(m.failures) == 0 {
				require.Equal(t, len(running) == 1 && (limit == 1 || !ready), o.alone(), "seed %d", seed)
			}
			i := running[rng.IntN(len(running))]
			running = slices.DeleteFunc(running, func(k int) bool { return k == i })
			m.running = slices.Clone(running)
			var err *contract.Error
			switch rng.IntN(30) {
			case 0, 1:
				err = contract.Errorf("eval/low-score", "step %d", i)
			case 2:
				err = contract.Errorf("canceled", "step %d", i)
			}
			lost := len(m.failures) > 0 && m.unwanted[i] && err != nil && err.Type == "canceled"
			switch {
			case rng.IntN(8) == 0:
				o.skipped(i)
				m.settled[i] = true
			case err == nil:
				require.False(t, o.settled(i, nil))
				m.settled[i] = true
			default:
				first := o.failure == nil || i < o.failed
				require.Equal(t, first && !lost, o.settled(i, err), "seed %d: fewer are wanted", seed)
				if !lost {
					m.fail(i)
				}
			}
			running = starts(o, running)
			m.start()
		}
		require.Empty(t, m.running)
		if len(m.failures) == 0 {
			require.Nil(t, o.failure)
			require.Equal(t, n, o.failed)
			require.Len(t, m.settled, n)
			continue
		}
		require.Equal(t, slices.Min(slices.Collect(maps.Keys(m.failures))), o.failed, "seed %d", seed)
		require.Equal(t, fmt.Sprint("step ", o.failed), o.failure.Message)
		require.Equal(t, len(m.failures)-1, o.others, "seed %d", seed)
	}
}

// SCHED-009: steps without dependencies start in program order too; the end of a run
// fails the first step that could still start, and none if one runs or has failed.
func TestOrderWithoutGraph(t *testing.T) {
	t.Parallel()
	o := &order{n: 5, limit: 2}
	o.begin()
	running := starts(o, nil)
	assert.Equal(t, []int{0, 1}, running)
	o.over(contract.Errorf("canceled", "over"))
	assert.Nil(t, o.failure, "steps run: their ends are reported")
	assert.False(t, o.settled(1, nil))
	assert.Equal(t, []int{0, 2}, starts(o, []int{0}))
	o.skipped(0)
	o.skipped(2)
	o.over(contract.Errorf("canceled", "over"))
	assert.Equal(t, 3, o.failed)
	assert.Equal(t, 0, o.running)
	o.over(contract.Errorf("timeout/hard", "once more"))
	assert.Equal(t, "canceled", o.failure.Type)
	assert.Equal(t, 3, o.failed)

	some := &order{n: 3, limit: 2}
	some.begin()
	_, _ = some.next()
	some.over(contract.Errorf("canceled", "over"))
	assert.Nil(t, some.failure, "another step could start, but one runs")

	all := &order{n: 2, limit: 1}
	all.begin()
	for i := range 2 {
		assert.Equal(t, []int{i}, starts(all, nil))
		assert.True(t, all.alone())
		all.settled(i, nil)
	}
	all.over(contract.Errorf("canceled", "over"))
	assert.Nil(t, all.failure, "nothing is left to start")
}
