//go:build linux && slow

package plugin

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// The number of places stays constant while processes are killed.
func TestPoolUnderChaos(t *testing.T) {
	s := pool(2, 4, 1)
	s.Queue, s.Instances.MaxCalls, s.Instances.IdleTTL = 1000, 40, 20*time.Millisecond
	s.Restart.Max, s.Restart.Backoff, s.Restart.MaxBackoff = 1000, 0, 0
	b := run(t, s).ready()
	over := make(chan struct{})
	var calls sync.WaitGroup
	var answered atomic.Int64
	for range 6 {
		calls.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if _, err := b.ask(ctx, `{}`); err == nil {
					answered.Add(1)
				} else {
					assert.Contains(t, []string{"runtime/crashed", "runtime/not-ready"}, contract.AsError(err).Type, err)
					assert.NoError(t, b.client.Await(ctx, "t/echo"))
				}
				cancel()
			}
		})
	}
	for n := range 15 {
		before := answered.Load()
		require.Eventually(t, func() bool { return answered.Load() > before+20 }, patience, time.Millisecond)
		switch n % 3 {
		case 0:
			if pid := child(t, "role:good"); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		case 1:
			require.NoError(t, b.Swap(within(t), "p", CauseSwap))
		case 2:
			p, err := b.Prepare(within(t), Change{Update: []Settings{s}})
			require.NoError(t, err)
			p.Commit()
		}
	}
	close(over)
	calls.Wait()
	b.eventually(0, "no call is left", func(st Status) bool { return st.InFlight > 0 || st.Queued > 0 })
	u, err := b.unit("p")
	require.NoError(t, err)
	u.mu.Lock()
	for _, s := range u.current.ready {
		assert.Zero(t, s.running)
	}
	u.mu.Unlock()
}
