package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
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

// fleeting is an executor whose candidates are gone again as soon as they were
// waited for, a number of times.
type fleeting struct {
	*dispatchtest.Executor
	times int
}

func (f *fleeting) Await(ctx context.Context, capID string) error {
	err := f.Executor.Await(ctx, capID)
	if err == nil && f.times > 0 {
		f.times--
		f.SetState(capID, dispatch.CapState{Respawning: true})
		time.AfterFunc(200*time.Millisecond, func() { f.SetState(capID, dispatch.CapState{Ready: true}) })
	}
	return err
}

// ATT-007, BIND-008: a candidate that came back and went again before it was
// bound is waited for again, for ten seconds in all.
func TestNodeWaitsAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		times   int
		took    time.Duration
		failure string
	}{
		"once":    {times: 1, took: 300 * time.Millisecond},
		"often":   {times: 10, took: 2100 * time.Millisecond},
		"forever": {times: 1000, took: 10 * time.Second, failure: "unsupported/intent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "")
				w.Dispatcher.Executor = &fleeting{Executor: w.Executor, times: tc.times}
				w.SetState("t/a", dispatch.CapState{Respawning: true})
				time.AfterFunc(100*time.Millisecond, func() { w.SetState("t/a", dispatch.CapState{Ready: true}) })
				begun := time.Now()
				r := serve(t, w, order{})
				assert.Equal(t, tc.took, time.Since(begun))
				if tc.failure != "" {
					assert.Equal(t, tc.failure, r.failure())
					return
				}
				require.Nil(t, r.Err)
				assert.Equal(t, "t/a", r.CapID)
			})
		})
	}
}

// late is an executor whose candidates are ready by the time that somebody asks
// what becomes of them.
type late struct {
	*dispatchtest.Executor
	asked int
}

func (l *late) State(capID string) dispatch.CapState {
	if l.asked++; l.asked > 2 { // which the first look at all of them takes
		return dispatch.CapState{Ready: true}
	}
	return l.Executor.State(capID)
}

func (l *late) Await(context.Context, string) error { return nil }

// BIND-008: who becomes ready between two looks is not taken for one that is
// gone.
func TestReadyBetweenTwoLooks(t *testing.T) {
	w := world(t, "")
	w.Dispatcher.Executor = &late{Executor: w.Executor}
	w.SetState("t/a", dispatch.CapState{Respawning: true})
	r := serve(t, w, order{})
	require.Nil(t, r.Err)
	assert.Equal(t, "t/a", r.CapID)
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
