package eval

import (
	"context"
	"errors"

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

// schedule runs steps in the order that order decides. The goroutine that calls run is
// the owner: only it calls skip and commit.
type schedule struct {
	steps
	order
	waiting *undecided

	cancels map[int]context.CancelCauseFunc // of steps beside the owner
	begun   chan struct{}
	done    chan completion
}

type completion struct {
	index int
	err   *contract.Error
}

// run runs all steps and returns the error that is first in program order, with the
// index of its step; the number of steps and nil if none failed. All goroutines that it
// started have ended.
func (s *schedule) run(ctx context.Context) (int, *contract.Error) {
	s.begin()
	for {
		for ctx.Err() == nil {
			i, ok := s.next()
			if !ok {
				break
			}
			s.start(ctx, i)
		}
		if ctx.Err() != nil {
			s.over(endOfRun(ctx))
		}
		if s.running == 0 {
			return s.failed, s.failure
		}
		s.waiting.rest()
		c := <-s.done // the owner takes over the count of that step in waiting
		s.cancels[c.index](nil)
		delete(s.cancels, c.index)
		s.settle(c.index, c.err)
	}
}

func (s *schedule) start(ctx context.Context, i int) {
	if s.skip(i) {
		s.skipped(i)
		return
	}
	if s.quick(i) || s.alone() { // no goroutine is needed
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
	s.waiting.begin()
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

// settle commits a finished step, or keeps its error and cancels those that are
// no longer wanted.
func (s *schedule) settle(i int, err *contract.Error) {
	if err == nil {
		err = s.commit(i)
	}
	if !s.settled(i, err) {
		return
	}
	for k, cancel := range s.cancels {
		if !s.isWanted(k) {
			cancel(errSibling)
		}
	}
}

// endOfRun returns the error of a run that may not start more nodes.
func endOfRun(ctx context.Context) *contract.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return contract.Errorf("timeout/hard", "the deadline of the run passed")
	}
	return contract.Errorf("canceled", "the run was canceled")
}
