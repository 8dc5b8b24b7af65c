package eval

import (
	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// order decides which steps run: a state machine without clock, goroutine or
// I/O. next returns the step to start; skipped, settled and over apply the results.
// An order to which the events of a recorded run are applied reaches the state of
// that run, even if the record is incomplete: the running steps are those that next
// has returned and that are not settled yet.
type order struct {
	n     int
	graph *plan.Graph // nil: no dependencies
	limit int         // concurrent steps; at least 1

	waits   []int32 // unsettled predecessors, by step
	ready   indexHeap
	running int

	failed  int // lowest index that failed, n if none did
	failure *contract.Error
	others  int    // further failures
	wanted  []bool // after a failure: steps that may still run
}

func (o *order) begin() {
	o.failed = o.n
	o.ready.grow(o.n)
	if o.graph == nil {
		for i := range o.n {
			o.ready.push(i)
		}
		return
	}
	o.waits = make([]int32, o.n)
	for i := range o.n {
		d := o.graph.InDegree(i)
		o.waits[i] = int32(d)
		if d == 0 {
			o.ready.push(i)
		}
	}
}

// next returns the lowest step that may start, if there is one. It drops those
// that are no longer wanted.
func (o *order) next() (i int, ok bool) {
	for o.ready.len() > 0 && !o.isWanted(o.ready.peek()) {
		o.ready.pop()
	}
	if o.ready.len() == 0 || o.running >= o.limit {
		return 0, false
	}
	o.running++
	return o.ready.pop(), true
}

// alone reports whether nothing can run beside the step that runs.
func (o *order) alone() bool { return o.running == 1 && (o.limit == 1 || o.ready.len() == 0) }

// over applies the end of the run with err: if no step runs and none has failed, the
// next ready step fails with err.
func (o *order) over(err *contract.Error) {
	if o.running > 0 || o.failure != nil {
		return
	}
	if i, ok := o.next(); ok {
		o.running--
		o.fail(i, err)
	}
}

// skipped settles a step that did not run.
func (o *order) skipped(i int) {
	o.running--
	o.release(i)
}

// settled settles a step that has ended. It reports whether other steps are no
// longer wanted.
func (o *order) settled(i int, err *contract.Error) (fewer bool) {
	o.running--
	if err == nil {
		o.release(i)
		return false
	}
	if o.failure != nil && !o.isWanted(i) && err.Type == "canceled" {
		return false // it was canceled
	}
	if o.failure != nil {
		o.others++
	}
	if i < o.failed {
		o.fail(i, err)
		return true
	}
	return false
}

func (o *order) fail(i int, err *contract.Error) {
	o.failed, o.failure = i, err
	o.want()
}

func (o *order) release(i int) {
	if o.graph == nil {
		return
	}
	for _, k := range o.graph.Succs(i) {
		o.waits[k]--
		if o.waits[k] == 0 {
			o.ready.push(int(k))
		}
	}
}

func (o *order) isWanted(i int) bool { return o.wanted == nil || o.wanted[i] }

// want keeps the nodes before the failed node in program order, with their
// dependencies. Any of them may fail too, and would then be the error to
// report; running them to the end makes the outcome independent of timing.
func (o *order) want() {
	o.wanted = make([]bool, o.n)
	stack := make([]int, 0, o.failed)
	for i := range o.failed {
		o.wanted[i] = true
		stack = append(stack, i)
	}
	for o.graph != nil && len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, p := range o.graph.Preds(i) {
			if !o.wanted[p] {
				o.wanted[p] = true
				stack = append(stack, int(p))
			}
		}
	}
}

// indexHeap is a minimum heap of indices. Most plans push in ascending order,
// which costs one comparison.
type indexHeap struct{ v []int32 }

func (h *indexHeap) grow(n int) { h.v = make([]int32, 0, n) }
func (h *indexHeap) len() int   { return len(h.v) }
func (h *indexHeap) peek() int  { return int(h.v[0]) }

func (h *indexHeap) push(i int) {
	h.v = append(h.v, int32(i))
	for k := len(h.v) - 1; k > 0; {
		up := (k - 1) / 2
		if h.v[up] <= h.v[k] {
			return
		}
		h.v[up], h.v[k] = h.v[k], h.v[up]
		k = up
	}
}

func (h *indexHeap) pop() int {
	top := h.v[0]
	last := len(h.v) - 1
	h.v[0] = h.v[last]
	h.v = h.v[:last]
	for k := 0; ; {
		low := 2*k + 1
		if low >= last {
			break
		}
		if r := low + 1; r < last && h.v[r] < h.v[low] {
			low = r
		}
		if h.v[k] <= h.v[low] {
			break
		}
		h.v[k], h.v[low] = h.v[low], h.v[k]
		k = low
	}
	return int(top)
}
