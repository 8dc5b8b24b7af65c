package eval

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Undecided is a node whose call may have had its effect, and must not be made
// again without a decision. If Lacks is set, the call was not made: Lacks is the reason
// for which the present configuration cannot make it.
type Undecided struct {
	Path  edn.Value
	Node  string
	Lacks *contract.Error
}

// undecided holds the nodes of a run that wait for a decision. The other nodes continue
// until none can; then the run is suspended. working counts goroutines that work: the
// owner of a schedule, unless it waits for its steps, and each step beside it. Plan
// answers of parallel attempts count as one, so such a run may be suspended while some
// of them still work: their running calls are then lost, as in a crash.
type undecided struct {
	working atomic.Int64
	suspend func([]Undecided)
	mu      sync.Mutex
	nodes   []Undecided
}

// begin counts a step that will run beside its owner.
func (u *undecided) begin() { u.working.Add(1) }

// rest stops counting a goroutine that waits for others or for a decision. If no
// goroutine works any more and a node is undecided, it suspends the run.
func (u *undecided) rest() {
	if u.working.Add(-1) > 0 || u.suspend == nil {
		return
	}
	u.mu.Lock()
	nodes := slices.Clone(u.nodes) // suspend may be called by several goroutines at once
	u.mu.Unlock()
	if len(nodes) > 0 {
		u.suspend(nodes)
	}
}

// wait adds a node that waits for a decision, blocks until ctx ends, and returns
// canceled.
func (u *undecided) wait(ctx context.Context, node Undecided) *contract.Error {
	u.mu.Lock()
	u.nodes = append(u.nodes, node)
	u.mu.Unlock()
	u.rest()
	<-ctx.Done()
	u.working.Add(1)
	return contract.Errorf("canceled", "node %s: the run did not wait for a decision", node.Node)
}
