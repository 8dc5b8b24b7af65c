package transport

import (
	"context"
	"errors"
	"sync"
)

// ErrFull means that the queue is full.
var ErrFull = errors.New("the queue is full")

// Gate limits the number of concurrent calls and queues further calls in order.
// It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	free    int
	most    int // maximum length of the queue
	waiting []chan struct{}
}

// NewGate returns a gate for inFlight concurrent and queue waiting calls.
func NewGate(inFlight, queue int) *Gate { return &Gate{free: inFlight, most: queue} }

// Enter waits until the call is admitted. The error is ErrFull, or that of ctx.
// After success the caller must call Leave.
func (g *Gate) Enter(ctx context.Context) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	if len(g.waiting) >= g.most {
		g.mu.Unlock()
		return ErrFull
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		if !g.forget(turn) {
			g.Leave() // the place was assigned at the same moment
		}
		return ctx.Err()
	}
}

// forget removes an entry from the queue; false if it is no longer there.
func (g *Gate) forget(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == turn {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// Leave ends a call that Enter admitted, and admits the next waiting call.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	close(g.waiting[0])
	g.waiting = g.waiting[1:]
}
