package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
)

// ATT-007, BIND-008: a node whose candidates are all being restarted waits for
// the first that is back; one that nothing brings back is not waited for, and
// none is for longer than the deadline or ten seconds.
func TestNodeWaitsForRespawn(t *testing.T) {
	respawning, gone := dispatch.CapState{Respawning: true}, dispatch.CapState{}
	for name, tc := range map[string]struct {
		a, b     dispatch.CapState
		back     time.Duration // of t/b; 0: never
		deadline time.Duration
		took     time.Duration
		failure  string
	}{
		"one comes back":      {a: respawning, b: respawning, back: 200 * time.Millisecond, took: 200 * time.Millisecond},
		"the other is gone":   {a: gone, b: respawning, back: time.Second, took: time.Second},
		"none comes back":     {a: gone, b: gone, failure: "unsupported/intent"},
		"deadline":            {a: respawning, b: respawning, deadline: time.Second, took: time.Second, failure: "unsupported/intent"},
		"longer than a while": {a: respawning, b: respawning, back: time.Minute, took: 10 * time.Second, failure: "unsupported/intent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "")
				w.SetState("t/a", tc.a)
				w.SetState("t/b", tc.b)
				if tc.back > 0 {
					stop := time.AfterFunc(tc.back, func() { w.SetState("t/b", dispatch.CapState{Ready: true}) })
					defer stop.Stop()
				}
				begun := time.Now()
				r := serve(t, w, order{layer: retries(0, 1), deadline: tc.deadline})
				assert.Equal(t, tc.took, time.Since(begun))
				if tc.failure == "" {
					require.Nil(t, r.Err)
					assert.Equal(t, []string{"t/b"}, w.Dispatched())
					return
				}
				assert.Equal(t, tc.failure, r.failure())
			})
		})
	}
}

// ATT-008 row 6: a candidate that goes while the call waits for a place in it
// was never asked. If it comes back and nobody else is there, it is waited for;
// the next candidate is asked at once.
func TestCandidateThatWentIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		other    dispatch.CapState
		same     int
		comeback bool
		served   string
		took     time.Duration
	}{
		"it is the only one":      {dispatch.CapState{}, 1, true, "t/a", 200 * time.Millisecond},
		"another one is there":    {dispatch.CapState{Ready: true}, 1, true, "t/b", 0},
		"no tries are configured": {dispatch.CapState{}, 0, true, "", 0},
		"it does not come back":   {dispatch.CapState{}, 1, false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "")
				w.SetState("t/b", tc.other)
				went := fails("runtime/not-ready")
				went.After = func() { w.SetState("t/a", dispatch.CapState{Respawning: tc.comeback}) }
				w.On("t/a", went, out(`{:ok true}`))
				stop := time.AfterFunc(200*time.Millisecond, func() { w.SetState("t/a", dispatch.CapState{Ready: tc.comeback}) })
				defer stop.Stop()
				begun := time.Now()
				r := serve(t, w, order{layer: retries(tc.same, 1)})
				assert.Equal(t, tc.took, time.Since(begun))
				if tc.served == "" {
					assert.Equal(t, "runtime/not-ready", r.failure())
					return
				}
				require.Nil(t, r.Err)
				assert.Equal(t, tc.served, r.CapID)
			})
		})
	}
}
