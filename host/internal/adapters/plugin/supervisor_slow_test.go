//go:build linux && slow

package plugin

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Whenever a process is killed, also during its start: every call ends with an
// answer or a typed error, and the plugin is ready in the end.
func TestRandomKills(t *testing.T) {
	s := as("good")
	s.Restart.Max, s.Restart.Backoff, s.Restart.MaxBackoff = 1000, 0, 0
	b := run(t, s).ready()
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	dice := rand.New(rand.NewPCG(uint64(seed), 1))
	over := make(chan struct{})
	var calls sync.WaitGroup
	var answered, cut atomic.Int64
	for range 4 {
		calls.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				_, err := b.ask(ctx, `{:do "stream"}`)
				if err == nil {
					answered.Add(1)
				} else {
					cut.Add(1)
					assert.Contains(t, []string{"runtime/crashed", "runtime/not-ready"}, contract.AsError(err).Type, err)
					assert.NoError(t, b.client.Await(ctx, "t/echo"))
				}
				cancel()
			}
		})
	}
	for range 25 {
		// Each process answers at least one call, also on a slow machine.
		before := answered.Load()
		require.Eventually(t, func() bool { return answered.Load() > before }, patience, time.Millisecond)
		waitFor(over, time.Duration(dice.IntN(30))*time.Millisecond)
		if pid := child(t, "role:good"); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	close(over)
	calls.Wait()
	// The last kill may not have been noticed yet.
	require.Eventually(t, func() bool {
		_, err := b.ask(context.Background(), `{}`)
		return err == nil
	}, patience, time.Millisecond)
	assert.Positive(t, answered.Load())
	assert.Positive(t, cut.Load())
}
