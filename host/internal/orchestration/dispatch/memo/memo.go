package memo

import (
	"container/list"
	"context"
	"sync"
)

// Memo maps keys to computed values.
type Memo[K comparable, V any] struct {
	most int

	mu      sync.Mutex
	entries map[K]*list.Element // of entry
	order   *list.List          // most recently used first
	flights map[K]*flight[V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

type flight[V any] struct {
	done  chan struct{}
	value V
	ok    bool
}

// New returns a memo of at most most entries, at least one.
func New[K comparable, V any](most int) *Memo[K, V] {
	return &Memo[K, V]{
		most:    max(1, most),
		entries: map[K]*list.Element{},
		order:   list.New(),
		flights: map[K]*flight[V]{},
	}
}

// Get returns the cached value of the key.
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
	m.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// Do returns the cached value of the key, or computes it with work. work
// reports whether its value may be cached; otherwise only this caller gets it.
// known is true if the value was cached or computed by another call. A caller
// whose ctx ends while it waits for another computation calls work itself,
// which must handle the ended ctx.
func (m *Memo[K, V]) Do(ctx context.Context, key K, work func() (V, bool)) (v V, known bool) {
	for {
		m.mu.Lock()
		if v, ok := m.get(key); ok {
			m.mu.Unlock()
			return v, true
		}
		f, flying := m.flights[key]
		if !flying {
			f = &flight[V]{done: make(chan struct{})}
			m.flights[key] = f
			m.mu.Unlock()
			return m.fly(key, f, work), false
		}
		m.mu.Unlock()
		select {
		case <-f.done:
			if f.ok {
				return f.value, true
			}
		case <-ctx.Done():
			v, _ = work()
			return v, false
		}
	}
}

// fly computes the value for all waiting callers and wakes them even after a
// panic.
func (m *Memo[K, V]) fly(key K, f *flight[V], work func() (V, bool)) V {
	defer func() {
		m.mu.Lock()
		delete(m.flights, key)
		if f.ok {
			m.put(key, f.value)
		}
		m.mu.Unlock()
		close(f.done)
	}()
	value, ok := work()
	f.value, f.ok = value, ok
	return value
}

func (m *Memo[K, V]) put(key K, v V) {
	m.entries[key] = m.order.PushFront(entry[K, V]{key, v})
	for m.order.Len() > m.most {
		last := m.order.Back()
		m.order.Remove(last)
		delete(m.entries, last.Value.(entry[K, V]).key)
	}
}

// Drop removes the cached value of the key if stale reports true for it.
func (m *Memo[K, V]) Drop(key K, stale func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && stale(e.Value.(entry[K, V]).value) {
		m.order.Remove(e)
		delete(m.entries, key)
	}
}
