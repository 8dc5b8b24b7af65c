package memo_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
