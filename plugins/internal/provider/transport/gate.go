package transport

import (
	"context"
	"errors"
	"sync"
)

// ErrFull says that as many wait as may.
var ErrFull = errors.New("the queue is full")

// Gate lets a number of calls through at once and lets others wait in order.
type Gate struct {
	mu      sync.Mutex
	free    int
	most    int // who may wait
	waiting []chan struct{}
}

// NewGate makes a gate.
func NewGate(inFlight, queue int) *Gate { return &Gate{free: inFlight, most: queue} }

// Enter waits for a place. The error is ErrFull, or that of ctx.
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
			g.Leave() // the place was given at the same moment
		}
		return ctx.Err()
	}
}

// forget takes a place in the queue back; false if it is not there any more.
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

// Leave gives a place back.
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
