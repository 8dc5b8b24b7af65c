package memo_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/memo"
)

// JDG-007: concurrent calls for one key get the same value, computed once.
func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memo.New[string, int](8)
		var worked atomic.Int64
		gate := make(chan struct{})
		var group sync.WaitGroup
		known := make([]bool, 64)
		for i := range known {
			group.Go(func() {
				var v int
				v, known[i] = m.Do(context.Background(), "k", func() (int, bool) {
					worked.Add(1)
					<-gate
					return 7, true
				})
				assert.Equal(t, 7, v)
			})
		}
		synctest.Wait()
		close(gate)
		group.Wait()
		assert.EqualValues(t, 1, worked.Load())
		first := 0
		for _, k := range known {
			if !k {
				first++
			}
		}
		assert.Equal(t, 1, first)
	})
}

// JDG-007: failures are not cached, a panic wakes the waiting callers, and no
// caller waits beyond its context.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memo.New[string, int](8)
		v, known := m.Do(context.Background(), "k", func() (int, bool) { return 1, false })
		assert.Equal(t, 1, v)
		assert.False(t, known)
		assert.Zero(t, m.Len())

		gate := make(chan struct{})
		go func() {
			defer func() { assert.NotNil(t, recover()) }()
			m.Do(context.Background(), "k", func() (int, bool) { <-gate; panic("boom") })
		}()
		synctest.Wait()
		done := make(chan int)
		go func() {
			v, _ := m.Do(context.Background(), "k", func() (int, bool) { return 2, true })
			done <- v
		}()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			v, known := m.Do(ctx, "k", func() (int, bool) { return 3, false })
			assert.False(t, known)
			done <- v
		}()
		synctest.Wait()
		cancel()
		assert.Equal(t, 3, <-done)
		close(gate)
		assert.Equal(t, 2, <-done)
		v, known = m.Do(context.Background(), "k", func() (int, bool) { return 4, true })
		assert.Equal(t, 2, v)
		assert.True(t, known)
	})
}

// JDG-007: a memo never exceeds its size, used entries stay, and a key keeps
// its value while it is cached.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 5).Draw(t, "most")
		m := memo.New[int, int](most)
		var model []int // most recently used first
		next := 0
		values := map[int]int{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 8).Draw(t, "key")
			next++
			v, known := m.Do(context.Background(), key, func() (int, bool) { return next, true })
			at := -1
			for i, k := range model {
				if k == key {
					at = i
				}
			}
			assert.Equal(t, at >= 0, known)
			if at >= 0 {
				model = append(model[:at], model[at+1:]...)
				assert.Equal(t, values[key], v)
			}
			values[key] = v
			model = append([]int{key}, model...)
			model = model[:min(len(model), most)]
			assert.Equal(t, len(model), m.Len())
		}
	})
}

// RUN-033: entries are bounded by their number, their bytes and their age; a value that
// is larger than all of them together is not kept, and a new value of a key replaces the
// old one.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		b := memo.Bounds[int]{
			Entries: rapid.IntRange(1, 4).Draw(t, "entries"),
			Bytes:   int64(rapid.IntRange(0, 12).Draw(t, "bytes")),
			Size:    func(v int) int64 { return int64(v) },
			TTL:     time.Duration(rapid.IntRange(0, 5).Draw(t, "ttl")),
			Now:     func() time.Time { return now },
		}
		m := memo.Bounded[int](b)
		type kept struct {
			key, value int
			until      time.Time
		}
		var model []kept // most recently used first
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "later")))
			key := rapid.IntRange(0, 5).Draw(t, "key")
			at := slices.IndexFunc(model, func(k kept) bool { return k.key == key })
			if rapid.Bool().Draw(t, "put") {
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
				value := rapid.IntRange(0, 14).Draw(t, "value")
				m.Put(key, value)
				if b.Bytes == 0 || int64(value) <= b.Bytes {
					model = slices.Insert(model, 0, kept{key, value, now.Add(b.TTL)})
				}
				sum := func() (n int64) {
					for _, k := range model {
						n += int64(k.value)
					}
					return n
				}
				for len(model) > b.Entries || b.Bytes > 0 && sum() > b.Bytes {
					model = model[:len(model)-1]
				}
				continue
			}
			v, ok := m.Get(key)
			if at >= 0 && b.TTL > 0 && !now.Before(model[at].until) {
				model, at = slices.Delete(model, at, at+1), -1
			}
			assert.Equal(t, at >= 0, ok)
			if at >= 0 {
				used := model[at]
				assert.Equal(t, used.value, v)
				model = slices.Insert(slices.Delete(model, at, at+1), 0, used)
			}
		}
		assert.Equal(t, len(model), m.Len())
		m.Bound(memo.Bounds[int]{Entries: 1})
		assert.LessOrEqual(t, m.Len(), 1)
	})
}

// RUN-034: one caller leads. The others get its value, also if that is too large to be
// kept; after a failure one of them leads.
func TestClaim(t *testing.T) {
	m := memo.Bounded[string](memo.Bounds[int]{Entries: 1, Bytes: 10, Size: func(v int) int64 { return int64(v) }})
	_, known, first, leads := m.Claim("k")
	assert.False(t, known)
	assert.True(t, leads)
	_, _, second, leads := m.Claim("k")
	assert.False(t, leads)
	first.Settle(0, false)
	<-second.Done()
	_, ok := second.Value()
	assert.False(t, ok)
	_, _, third, leads := m.Claim("k")
	assert.True(t, leads)
	_, _, fourth, _ := m.Claim("k")
	third.Settle(99, true)
	<-fourth.Done()
	v, ok := fourth.Value()
	assert.True(t, ok)
	assert.Equal(t, 99, v)
	assert.Zero(t, m.Len())
}
