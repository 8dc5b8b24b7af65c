package derive

import (
	"context"
	"slices"
	"sync"
)

// key identifies a frame that at most one request computes at a time.
type key struct{ path, typ string }

// flight holds the keys that are being computed, and the transaction that has the
// last result of each while any request runs.
type flight struct {
	mu     sync.Mutex
	busy   map[key]chan struct{}
	done   map[key]uint64
	active int
}

// enter counts a request that reads snapshots. It must be left.
func (f *flight) enter() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active++
}

func (f *flight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active--; f.active == 0 {
		f.done = nil // no snapshot is older than these
	}
}

// acquire waits until none of the keys is in use, then takes all of them at once. outdated reports
// whether another request committed a result for one of them after the transaction seq, so that a
// snapshot at seq lacks it. Requests take their keys level by level in the same order, so they
// cannot deadlock.
func (f *flight) acquire(ctx context.Context, keys []key, seq uint64) (outdated bool, err error) {
	for {
		f.mu.Lock()
		taken := slices.IndexFunc(keys, func(k key) bool { return f.busy[k] != nil })
		if taken < 0 {
			defer f.mu.Unlock()
			if f.busy == nil {
				f.busy = map[key]chan struct{}{}
			}
			done := make(chan struct{})
			for _, k := range keys {
				f.busy[k] = done
				outdated = outdated || f.done[k] > seq
			}
			return outdated, nil
		}
		wait := f.busy[keys[taken]]
		f.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// release releases the keys of one call of acquire. seq is the transaction with their results, 0 if
// there is none.
func (f *flight) release(keys []key, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = map[key]uint64{}
	}
	for i, k := range keys {
		if i == 0 {
			close(f.busy[k])
		}
		delete(f.busy, k)
		f.done[k] = max(f.done[k], seq)
	}
}

// limiter bounds the concurrent calls of each agent, over all requests.
type limiter struct {
	mu      sync.Mutex
	running map[string]int
	left    chan struct{} // closed when a call ends
}

// enter waits until fewer than n calls of a name run. n may differ between requests.
func (l *limiter) enter(ctx context.Context, name string, n int) (leave func(), err error) {
	for {
		l.mu.Lock()
		if l.running == nil {
			l.running, l.left = map[string]int{}, make(chan struct{})
		}
		if l.running[name] < n {
			l.running[name]++
			l.mu.Unlock()
			return func() { l.leave(name) }, nil
		}
		left := l.left
		l.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *limiter) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[name]--
	close(l.left)
	l.left = make(chan struct{})
}
