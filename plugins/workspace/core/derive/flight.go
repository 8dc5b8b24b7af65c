package derive

import (
	"context"
	"slices"
	"sync"
)

// key names what at most one request computes at a time.
type key struct{ path, typ string }

// flight holds the keys that are being computed.
type flight struct {
	mu   sync.Mutex
	busy map[key]chan struct{}
}

// acquire takes all keys at once as soon as none of them is taken. It reports
// whether it had to wait: then another request may have done the work. Requests
// take their keys level by level in the same order, so they cannot wait for each
// other in a circle.
func (f *flight) acquire(ctx context.Context, keys []key) (waited bool, err error) {
	for {
		f.mu.Lock()
		taken := slices.IndexFunc(keys, func(k key) bool { return f.busy[k] != nil })
		if taken < 0 {
			if f.busy == nil {
				f.busy = map[key]chan struct{}{}
			}
			done := make(chan struct{})
			for _, k := range keys {
				f.busy[k] = done
			}
			f.mu.Unlock()
			return waited, nil
		}
		wait := f.busy[keys[taken]]
		f.mu.Unlock()
		waited = true
		select {
		case <-wait:
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

// release gives keys back that one acquire took.
func (f *flight) release(keys []key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, k := range keys {
		if i == 0 {
			close(f.busy[k])
		}
		delete(f.busy, k)
	}
}

// limiter bounds the calls of each agent.
type limiter struct {
	mu    sync.Mutex
	slots map[string]chan struct{}
}

// enter waits for one of n slots of a name.
func (l *limiter) enter(ctx context.Context, name string, n int) (leave func(), err error) {
	l.mu.Lock()
	if l.slots == nil {
		l.slots = map[string]chan struct{}{}
	}
	slots := l.slots[name]
	if slots == nil || cap(slots) != n {
		slots = make(chan struct{}, n) // calls of an earlier size finish in their own
		l.slots[name] = slots
	}
	l.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
