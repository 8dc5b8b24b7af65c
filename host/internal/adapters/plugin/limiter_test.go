package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

func TestLimiterOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 10)
		require.NoError(t, l.enter(t.Context()))
		var order []int
		var all sync.WaitGroup
		for n := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * time.Second)
				if assert.NoError(t, l.enter(t.Context())) {
					order = append(order, n)
					l.exit()
				}
			})
		}
		time.Sleep(time.Minute)
		running, waiting := l.load()
		assert.Equal(t, [2]int{1, 5}, [2]int{running, waiting})
		l.exit()
		all.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, order, "first come, first served")
	})
}

func TestLimiterGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 2)
		require.NoError(t, l.enter(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := l.enter(ctx)
		assert.ErrorIs(t, err, contract.OfType("timeout/hard"))
		_, waiting := l.load()
		assert.Zero(t, waiting, "a waiter that gives up leaves the queue")
		l.exit()
		require.NoError(t, l.enter(t.Context()))
	})
}

func TestLimiterResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, 10)
		require.NoError(t, l.enter(t.Context()))
		var in atomic.Int32
		for range 4 {
			go func() {
				if l.enter(t.Context()) == nil {
					in.Add(1)
				}
			}()
		}
		synctest.Wait()
		assert.Zero(t, in.Load())
		l.resize(3, 10)
		synctest.Wait()
		assert.EqualValues(t, 2, in.Load())
		l.resize(0, 10)
		synctest.Wait()
		assert.EqualValues(t, 4, in.Load())
		l.resize(1, 10)
		assert.NoError(t, newLimiter(0, 0).enter(t.Context()), "no limit, no queue")
	})
}

// The number of places stays constant, whichever waiters give up.
func TestLimiterStress(t *testing.T) {
	l := newLimiter(3, 1000)
	var running, most atomic.Int32
	var all sync.WaitGroup
	for n := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n%7)*time.Millisecond)
			defer cancel()
			if l.enter(ctx) != nil {
				return
			}
			now := running.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			running.Add(-1)
			l.exit()
		})
	}
	all.Wait()
	in, waiting := l.load()
	assert.Equal(t, [2]int{0, 0}, [2]int{in, waiting})
	assert.LessOrEqual(t, most.Load(), int32(3))
}

// load returns the numbers of running and waiting calls.
func (l *limiter) load() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, len(l.waiting)
}
