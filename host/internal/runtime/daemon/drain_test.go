package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// OPS-004: at the end of the drain runs are canceled, except those with a call
// whose recovery is once: these get ten seconds more. A second signal skips
// all of the waiting.
func TestDrainAwaitsOnce(t *testing.T) {
	const limit = 2 * time.Second
	for name, tc := range map[string]struct {
		more   string        // of the capability
		works  time.Duration // that the call takes
		signal time.Duration // when the second signal comes; 0: never
		ended  time.Duration
		ok     bool
	}{
		"none, within the drain":        {"", time.Second, 0, time.Second, true},
		"none, beyond the drain":        {"", 5 * time.Second, 0, limit, false},
		"idempotent, beyond the drain":  {":cap/effects #{:fs/write} :cap/idempotent? true", 5 * time.Second, 0, limit, false},
		"once, beyond the drain":        {":cap/effects #{:fs/write}", 9 * time.Second, 0, 9 * time.Second, true},
		"once, beyond what it is given": {":cap/effects #{:fs/write}", 20 * time.Second, 0, limit + 10*time.Second, false},
		"once, second signal":           {":cap/effects #{:fs/write}", 9 * time.Second, 5 * time.Second, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", tc.more)}})
				w.On("a/one", dispatchtest.Step{Delay: tc.works})
				h := &Host{runs: newRuns(), journal: journal.NewMemory()}
				service, err := act.New(act.Config{
					Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: h.journal,
					Effects: dispatchtest.Open(), Hash: edn.Hash(edn.Nil()),
				})
				require.NoError(t, err)
				h.runs.closed = true // there are no plugins to tell of the end of a run
				h.runs.current = &generation{loaded: &Loaded{Config: &config.Config{Host: config.Host{MaxRuns: 9}}}, service: service}
				turn, refused := h.Take()
				require.Nil(t, refused)
				begun := time.Now()
				type end struct {
					err *contract.Error
					at  time.Duration
				}
				ended := make(chan end, 1)
				go func() {
					_, err := turn.Do(context.Background(), act.Act{Request: edn.MustRead(
						`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {} :effects {:allowed #{:fs/write}}}`)})
					ended <- end{err, time.Since(begun)}
					turn.Release()
				}()
				synctest.Wait()
				require.Equal(t, []string{"a/one"}, w.Dispatched())
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if tc.signal > 0 {
					time.AfterFunc(tc.signal, cancel)
				}
				h.drain(ctx, limit)
				got := <-ended
				assert.Equal(t, tc.ok, got.err == nil, "%v", got.err)
				assert.InDelta(t, tc.ended.Milliseconds(), got.at.Milliseconds(), 150, "it looks again every 100 ms")
				_, refused = h.Take()
				require.NotNil(t, refused)
				assert.Equal(t, "runtime/draining", refused.Type)
			})
		})
	}
}
