package plugin

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// limiter lets a number of calls through at a time and a number of others wait
// for them in order. Its limit may change while it is in use.
type limiter struct {
	mu      sync.Mutex
	limit   int // 0: none
	queue   int
	running int
	waiting []*waiter
	closed  *contract.Error
}

type waiter struct {
	place chan struct{} // closed when the waiter has a place or the limiter is closed
	gone  bool
}

func newLimiter(limit, queue int) *limiter { return &limiter{limit: limit, queue: queue} }

// enter takes a place, waiting for one if need be. The error is typed: the
// queue is full, ctx has ended, or the limiter was closed.
func (l *limiter) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.closed != nil {
		defer l.mu.Unlock()
		return l.closed
	}
	if l.limit == 0 || l.running < l.limit && len(l.waiting) == 0 {
		l.running++
		l.mu.Unlock()
		return nil
	}
	if len(l.waiting) >= l.queue {
		defer l.mu.Unlock()
		return contract.Errorf("runtime/overloaded", "%d calls are in flight and %d wait", l.running, len(l.waiting)).
			WithDetail("in-flight", edn.Int(int64(l.running))).WithDetail("queued", edn.Int(int64(len(l.waiting))))
	}
	w := &waiter{place: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()

	select {
	case <-w.place:
		l.mu.Lock()
		defer l.mu.Unlock()
		if w.gone {
			return l.closed
		}
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == w {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return ended(ctx)
		}
	}
	if !w.gone {
		l.leave() // the place came at the same moment
	}
	return ended(ctx)
}

// exit gives a place back.
func (l *limiter) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
}

// leave needs l.mu.
func (l *limiter) leave() {
	l.running--
	l.admit()
}

// admit needs l.mu.
func (l *limiter) admit() {
	for len(l.waiting) > 0 && (l.limit == 0 || l.running < l.limit) {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.running++
		close(w.place)
	}
}

// resize changes the limit; 0 lifts it.
func (l *limiter) resize(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	l.admit()
}

// close refuses everybody who waits or comes later. Those with a place keep it.
func (l *limiter) close(why *contract.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return
	}
	l.closed = why
	for _, w := range l.waiting {
		w.gone = true
		close(w.place)
	}
	l.waiting = nil
}

// load is how many calls run and wait.
func (l *limiter) load() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, len(l.waiting)
}

// ended is the typed error of a context that has ended.
func ended(ctx context.Context) *contract.Error {
	return contract.AsError(context.Cause(ctx))
}
