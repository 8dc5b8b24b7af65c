package sdk

import (
	"context"
	"sync"
)

// limiter counts concurrent calls; the zero value has no limit. The mutex of
// the gate guards it.
type limiter struct {
	most, now int
}

func (l *limiter) full() bool { return l.most > 0 && l.now >= l.most }

// gate admits calls, counts them, and rejects new ones after close.
type gate struct {
	mu     sync.Mutex
	limit  limiter
	closed bool
	calls  map[*admitted]struct{}
	idle   []chan struct{} // closed when the last call leaves
}

type admitted struct {
	slot   *limiter
	cancel context.CancelCauseFunc
}

type refusal uint8

const (
	admit refusal = iota
	refuseClosed
	refuseFull
)

// enter admits a call or returns the reason for rejecting it. The caller must
// call leave for an admitted call.
func (g *gate) enter(slot *limiter, cancel context.CancelCauseFunc) (*admitted, refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, refuseClosed
	case g.limit.full() || slot.full():
		return nil, refuseFull
	}
	g.limit.now++
	slot.now++
	if g.calls == nil {
		g.calls = map[*admitted]struct{}{}
	}
	a := &admitted{slot: slot, cancel: cancel}
	g.calls[a] = struct{}{}
	return a, admit
}

func (g *gate) leave(a *admitted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit.now--
	a.slot.now--
	delete(g.calls, a)
	if len(g.calls) == 0 {
		for _, ch := range g.idle {
			close(ch)
		}
		g.idle = nil
	}
}

func (g *gate) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.calls)
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait reports whether all calls ended before ctx.
func (g *gate) wait(ctx context.Context) bool {
	g.mu.Lock()
	if len(g.calls) == 0 {
		g.mu.Unlock()
		return true
	}
	empty := make(chan struct{})
	g.idle = append(g.idle, empty)
	g.mu.Unlock()
	select {
	case <-empty:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain waits for the calls in flight until ctx ends, then cancels those that still
// run and returns their number.
func (g *gate) drain(ctx context.Context) int {
	if g.wait(ctx) {
		return 0
	}
	return g.cancelAll(errDrained)
}

// cancelAll cancels the calls in flight and returns their number.
func (g *gate) cancelAll(cause error) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for a := range g.calls {
		a.cancel(cause)
	}
	return len(g.calls)
}
