package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
)

// search finds the next candidate that was not tried.
type search struct {
	n          *node
	candidates *candidates
	machine    *flow.Machine
	waited     time.Duration // for respawning processes since the last attempt
}

// next binds again and returns the best candidate that was not tried; ok is
// false if there is none or the limit is reached.
func (s *search) next() (string, bool) {
	if s.machine.Exhausted() {
		return "", false
	}
	if !s.machine.Fresh() {
		s.candidates.bind()
	}
	return s.machine.Next(flow.Situation{Accepted: s.candidates.binding.Accepted})
}

// await returns the best candidate that was not tried. If none is available and one is
// respawning, it waits for that one: until the deadline of the node or its run, or for
// reviveWait without either. A respawned candidate may exit again before it is bound; the
// wait then repeats until the supervisor quarantines it.
func (s *search) await(ctx context.Context) (capID string, ok bool) {
	if capID, ok = s.next(); ok || len(s.respawning()) == 0 {
		return capID, ok
	}
	begun := s.n.now()
	defer func() { s.waited += s.n.now().Sub(begun) }()
	ctx, cancel := s.n.reviving(ctx)
	defer cancel()
	for !ok && !s.n.expired(ctx) && s.awaitAny(ctx) {
		s.candidates.bind()
		capID, ok = s.next()
	}
	return capID, ok
}

// respawning returns the candidates that were not tried and will become ready
// without an operator.
func (s *search) respawning() []string {
	if s.machine.Exhausted() {
		return nil
	}
	return slices.DeleteFunc(s.candidates.returning(), s.machine.Tried)
}

// awaitAny waits until a respawning candidate is ready and reports whether one
// is.
func (s *search) awaitAny(ctx context.Context) bool {
	coming := s.respawning()
	if len(coming) == 0 {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan bool, len(coming))
	for _, id := range coming {
		go func() { back <- s.n.awaitReady(ctx, id) == nil }()
	}
	ready := false
	for range coming {
		if <-back {
			ready = true
			cancel() // one is enough
		}
	}
	return ready
}

// awaitLastBreaker waits until the breaker of the last candidate admits calls
// again. It returns false if other candidates are left or the breaker does not
// reopen before the deadline.
func (s *search) awaitLastBreaker(ctx context.Context, cs *stats.Candidate) bool {
	if _, left := s.next(); left {
		return false
	}
	wait, ok := cs.ReopensIn(s.n.now())
	return ok && s.n.sleep(ctx, wait)
}
