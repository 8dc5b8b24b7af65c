package eval

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/contract"
)

// errSibling is the cause of a node's cancellation when another node ends the
// plan.
var errSibling = errors.New("another node of the plan failed")

// steps are the nodes of a plan, or the items of a map.
type steps interface {
	// skip is called when i is ready; true settles it without running.
	skip(i int) bool
	// quick reports whether i only computes; it then runs on the owner's
	// goroutine.
	quick(i int) bool
	// do runs i and returns the error that ends the plan, or nil. It is called
	// once per i, possibly concurrently, and calls begun as soon as the next
	// one may start.
	do(ctx context.Context, i int, begun func()) *contract.Error
	// commit makes the effect of i visible.
	commit(i int) *contract.Error
}

// schedule runs steps in the order of their dependencies. The goroutine that
// calls run is the owner: only it calls skip and commit.
type schedule struct {
	steps
	n     int
	graph *plan.Graph // nil: no dependencies
	limit int         // concurrent steps; at least 1

	waits   []int32 // unsettled predecessors, by node
	ready   indexHeap
	cancels map[int]context.CancelCauseFunc
	begun   chan struct{}
	done    chan completion
	running int

	failed  int // lowest index that failed, n if none did
	failure *contract.Error
	others  int    // further failures
	wanted  []bool // after a failure: steps that may still run
}

type completion struct {
	index int
	err   *contract.Error
}

// run returns the error that is first in program order, and its index. All
// goroutines that it started have ended.
func (s *schedule) run(ctx context.Context) (int, *contract.Error) {
	s.failed = s.n
	s.begin()
	for {
		for s.startable(ctx) {
			i := s.ready.pop()
			s.start(ctx, i)
		}
		if s.running == 0 {
			break
		}
		c := <-s.done
		s.running--
		s.cancels[c.index](nil)
		delete(s.cancels, c.index)
		s.settle(c.index, c.err)
	}
	return s.failed, s.failure
}

func (s *schedule) begin() {
	s.ready.grow(s.n)
	if s.graph == nil {
		for i := range s.n {
			s.ready.push(i)
		}
		return
	}
	s.waits = make([]int32, s.n)
	for i := range s.n {
		d := s.graph.InDegree(i)
		s.waits[i] = int32(d)
		if d == 0 {
			s.ready.push(i)
		}
	}
}

// startable drops ready nodes that are no longer wanted and reports whether
// the lowest one may start.
func (s *schedule) startable(ctx context.Context) bool {
	for s.ready.len() > 0 && !s.isWanted(s.ready.peek()) {
		s.ready.pop()
	}
	if s.ready.len() == 0 || s.running >= s.limit {
		return false
	}
	if err := ctx.Err(); err != nil && s.running == 0 && s.failure == nil {
		// The run has ended and no node reports it.
		s.failed, s.failure = s.ready.peek(), endOfRun(ctx)
		s.want()
		return false
	}
	return ctx.Err() == nil
}

func (s *schedule) start(ctx context.Context, i int) {
	if s.skip(i) {
		s.release(i)
		return
	}
	if s.quick(i) || (s.running == 0 && (s.limit == 1 || s.ready.len() == 0)) {
		// Nothing can run concurrently, so no goroutine is needed.
		s.settle(i, s.do(ctx, i, nothing))
		return
	}
	if s.done == nil {
		s.begun = make(chan struct{})
		s.done = make(chan completion, min(s.limit, s.n))
		s.cancels = make(map[int]context.CancelCauseFunc)
	}
	own, cancel := context.WithCancelCause(ctx)
	s.cancels[i] = cancel
	s.running++
	go s.beside(own, i)
	<-s.begun
}

// beside runs a node on a goroutine of its own. The owner waits until it has
// begun: nodes that are ready together begin in program order, which makes
// transcripts deterministic.
func (s *schedule) beside(ctx context.Context, i int) {
	told := false
	begun := func() {
		if !told {
			told = true
			s.begun <- struct{}{}
		}
	}
	err := s.do(ctx, i, begun)
	begun()
	s.done <- completion{i, err}
}

func nothing() {}

// settle commits a finished node, or records its error.
func (s *schedule) settle(i int, err *contract.Error) {
	if err == nil {
		err = s.commit(i)
	}
	if err == nil {
		s.release(i)
		return
	}
	if s.failure != nil && !s.isWanted(i) && err.Type == "canceled" {
		return // it was canceled
	}
	if s.failure != nil {
		s.others++
	}
	if i < s.failed {
		s.failed, s.failure = i, err
		s.want()
		for k, cancel := range s.cancels {
			if !s.wanted[k] {
				cancel(errSibling)
			}
		}
	}
}

func (s *schedule) release(i int) {
	if s.graph == nil {
		return
	}
	for _, k := range s.graph.Succs(i) {
		s.waits[k]--
		if s.waits[k] == 0 {
			s.ready.push(int(k))
		}
	}
}

func (s *schedule) isWanted(i int) bool { return s.wanted == nil || s.wanted[i] }

// want keeps the nodes before the failed node in program order, with their
// dependencies. Any of them may fail too, and would then be the error to
// report; running them to the end makes the outcome independent of timing.
func (s *schedule) want() {
	s.wanted = make([]bool, s.n)
	stack := make([]int, 0, s.failed)
	for i := range s.failed {
		s.wanted[i] = true
		stack = append(stack, i)
	}
	for s.graph != nil && len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, p := range s.graph.Preds(i) {
			if !s.wanted[p] {
				s.wanted[p] = true
				stack = append(stack, int(p))
			}
		}
	}
	if s.failed < s.n {
		s.wanted[s.failed] = false
	}
}

// endOfRun returns the error of a run that may not start more nodes.
func endOfRun(ctx context.Context) *contract.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return contract.Errorf("timeout/hard", "the deadline of the run passed")
	}
	return contract.Errorf("canceled", "the run was canceled")
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
