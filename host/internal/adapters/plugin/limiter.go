package plugin

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// limiter limits the number of concurrent calls. A limited number of further calls wait in order.
// Both limits may change while it is in use.
type limiter struct {
	mu      sync.Mutex
	limit   int // 0: unlimited
	queue   int
	running int
	waiting []*turn
}

type turn struct {
	place chan struct{} // closed when the waiter has a place
}

func newLimiter(limit, queue int) *limiter { return &limiter{limit: limit, queue: queue} }

// enter takes a place, and waits for one if necessary. The error is runtime/overloaded if the queue
// is full, else the cause of ctx as a *contract.Error.
func (l *limiter) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.limit == 0 || l.running < l.limit && len(l.waiting) == 0 {
		l.running++
		l.mu.Unlock()
		return nil
	}
	if len(l.waiting) >= l.queue {
		defer l.mu.Unlock()
		return contract.Errorf("runtime/overloaded",
			"the queue of the capability is full: %d calls are in flight and %d wait", l.running, len(l.waiting)).
			WithDetail("in-flight", edn.Int(int64(l.running))).WithDetail("queued", edn.Int(int64(len(l.waiting))))
	}
	w := &turn{place: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()

	select {
	case <-w.place:
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
	l.leave() // the place was assigned at the same moment
	return ended(ctx)
}

// exit returns a place.
func (l *limiter) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
}

// leave returns a place. The caller holds l.mu.
func (l *limiter) leave() {
	l.running--
	l.admit()
}

// admit gives free places to waiting calls, in order. The caller holds l.mu.
func (l *limiter) admit() {
	for len(l.waiting) > 0 && (l.limit == 0 || l.running < l.limit) {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.running++
		close(w.place)
	}
}

// resize changes the limit (0: no limit) and the length of the queue.
func (l *limiter) resize(limit, queue int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.queue = limit, queue
	l.admit()
}

// ended returns the cause of a context as a *contract.Error.
func ended(ctx context.Context) *contract.Error {
	return contract.AsError(context.Cause(ctx))
}
