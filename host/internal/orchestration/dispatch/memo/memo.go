package memo

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Bounds limit the entries of a Memo. A zero Bytes or TTL is no limit.
type Bounds[V any] struct {
	// Entries is the largest number of entries. Less than 1 means 1.
	Entries int
	// Bytes is the largest sum of the sizes that Size returns. A single value that
	// is larger is not cached.
	Bytes int64
	Size  func(V) int64
	// TTL is the lifetime of an entry. It requires the clock Now.
	TTL time.Duration
	Now func() time.Time
}

// Memo maps keys to computed values. It is safe for concurrent use. New or Bounded makes
// one.
type Memo[K comparable, V any] struct {
	mu      sync.Mutex
	bounds  Bounds[V]
	entries map[K]*list.Element // of entry
	order   *list.List          // most recently used first
	bytes   int64
	flights map[K]*Claim[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int64
	until time.Time // zero: it does not expire
}

// Claim is a running computation of a value. The caller that computes it and the
// callers that wait for it share the Claim.
type Claim[K comparable, V any] struct {
	memo  *Memo[K, V]
	key   K
	done  chan struct{}
	value V
	ok    bool
}

// New returns a memo of at most most entries (1 if most is smaller) without other
// bounds.
func New[K comparable, V any](most int) *Memo[K, V] {
	return Bounded[K](Bounds[V]{Entries: most})
}

// Bounded returns a memo with bounds.
func Bounded[K comparable, V any](b Bounds[V]) *Memo[K, V] {
	return &Memo[K, V]{
		bounds:  b,
		entries: map[K]*list.Element{},
		order:   list.New(),
		flights: map[K]*Claim[K, V]{},
	}
}

// Bound changes the bounds and evicts entries beyond them. The remaining entries
// keep their expiry times, so b.Now must be set if the old bounds had a TTL.
func (m *Memo[K, V]) Bound(b Bounds[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bounds = b
	m.evict()
}

// Get returns the cached value of the key. ok is false if there is none or it has expired.
func (m *Memo[K, V]) Get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.get(key)
}

func (m *Memo[K, V]) get(key K) (v V, ok bool) {
	e, ok := m.entries[key]
	if !ok {
		return v, false
	}
	x := e.Value.(entry[K, V])
	if !x.until.IsZero() && !m.bounds.Now().Before(x.until) {
		m.remove(e)
		return v, false
	}
	m.order.MoveToFront(e)
	return x.value, true
}

// Claim returns the cached value of the key; known reports whether there is one.
// Otherwise it returns the computation c. If leads is true, the caller must compute
// the value and call Settle; otherwise another caller does, and this one waits for
// Done and then uses Value or, if that reports false, claims the key again.
func (m *Memo[K, V]) Claim(key K) (v V, known bool, c *Claim[K, V], leads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.get(key); ok {
		return v, true, nil, false
	}
	if c := m.flights[key]; c != nil {
		return v, false, c, false
	}
	c = &Claim[K, V]{memo: m, key: key, done: make(chan struct{})}
	m.flights[key] = c
	return v, false, c, true
}

// Settle ends the computation. If ok is true, the value is cached and shared with
// the waiting callers; otherwise they get nothing. The leading caller must call it
// exactly once.
func (c *Claim[K, V]) Settle(v V, ok bool) {
	c.memo.mu.Lock()
	delete(c.memo.flights, c.key)
	if c.value, c.ok = v, ok; ok {
		c.memo.put(c.key, v)
	}
	c.memo.mu.Unlock()
	close(c.done)
}

// Done is closed when the computation has ended.
func (c *Claim[K, V]) Done() <-chan struct{} { return c.done }

// Value returns the computed value. It must be called after Done is closed, and
// returns false if the leading caller did not share the value.
func (c *Claim[K, V]) Value() (V, bool) { return c.value, c.ok }

// Do returns the cached value of the key, or computes it with work. work
// reports whether its value may be cached; otherwise only this caller gets it.
// known is true if the value was cached or computed by another call. A caller
// whose ctx ends while it waits for another computation calls work itself,
// which must handle the ended ctx.
func (m *Memo[K, V]) Do(ctx context.Context, key K, work func() (V, bool)) (v V, known bool) {
	for {
		v, known, c, leads := m.Claim(key)
		switch {
		case known:
			return v, true
		case leads:
			return c.fly(work), false
		}
		select {
		case <-c.Done():
			if v, ok := c.Value(); ok {
				return v, true
			}
		case <-ctx.Done():
			v, _ = work()
			return v, false
		}
	}
}

// fly computes the value for all waiting callers and wakes them even after a
// panic.
func (c *Claim[K, V]) fly(work func() (V, bool)) V {
	var value V
	ok := false
	defer func() { c.Settle(value, ok) }()
	value, ok = work()
	return value
}

// Put caches a value that was computed without a claim.
func (m *Memo[K, V]) Put(key K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, v)
}

func (m *Memo[K, V]) put(key K, v V) {
	if old, ok := m.entries[key]; ok {
		m.remove(old)
	}
	x := entry[K, V]{key: key, value: v}
	if m.bounds.Size != nil {
		x.bytes = m.bounds.Size(v)
	}
	if m.bounds.TTL > 0 {
		x.until = m.bounds.Now().Add(m.bounds.TTL)
	}
	if m.bounds.Bytes > 0 && x.bytes > m.bounds.Bytes {
		return // it would evict all others first
	}
	m.entries[key] = m.order.PushFront(x)
	m.bytes += x.bytes
	m.evict()
}

// evict removes the least recently used entries beyond the bounds.
func (m *Memo[K, V]) evict() {
	for m.order.Len() > max(1, m.bounds.Entries) || m.bounds.Bytes > 0 && m.bytes > m.bounds.Bytes {
		m.remove(m.order.Back())
	}
}

func (m *Memo[K, V]) remove(e *list.Element) {
	x := m.order.Remove(e).(entry[K, V])
	delete(m.entries, x.key)
	m.bytes -= x.bytes
}

// DropAll removes the cached values for which stale reports true. stale must not call the
// Memo.
func (m *Memo[K, V]) DropAll(stale func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if stale(e.Value.(entry[K, V]).value) {
			m.remove(e)
		}
	}
}

// Drop removes the cached value of the key if stale reports true for it. stale must not
// call the Memo.
func (m *Memo[K, V]) Drop(key K, stale func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && stale(e.Value.(entry[K, V]).value) {
		m.remove(e)
	}
}
