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

// ATT-007, BIND-008: a node whose candidates are all restarting waits for the
// first that is ready; it does not wait for one that is not restarting, nor
// longer than its deadline or that of its run, or ten seconds without both.
func TestNodeWaitsForRespawn(t *testing.T) {
	respawning, gone := dispatch.CapState{Respawning: true}, dispatch.CapState{}
	for name, tc := range map[string]struct {
		a, b     dispatch.CapState
		back     time.Duration // of t/b; 0: never
		deadline time.Duration
		run      time.Duration // deadline of the run
		took     time.Duration
		failure  string
	}{
		"one comes back":      {a: respawning, b: respawning, back: 200 * time.Millisecond, took: 200 * time.Millisecond},
		"the other is gone":   {a: gone, b: respawning, back: time.Second, took: time.Second},
		"none comes back":     {a: gone, b: gone, failure: "unsupported/intent"},
		"deadline":            {a: respawning, b: respawning, deadline: time.Second, took: time.Second, failure: "unsupported/intent"},
		"longer than a while": {a: respawning, b: respawning, back: time.Minute, took: 10 * time.Second, failure: "unsupported/intent"},
		"long before the deadline": {
			a: respawning, b: respawning, back: time.Minute, deadline: 2 * time.Minute, took: time.Minute,
		},
		"long before that of the run": {a: respawning, b: respawning, back: time.Minute, run: 2 * time.Minute, took: time.Minute},
		"deadline of the run":         {a: respawning, b: respawning, run: 20 * time.Second, took: 20 * time.Second, failure: "unsupported/intent"},
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
				ctx := t.Context()
				if tc.run > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.run)
					defer cancel()
				}
				begun := time.Now()
				r := serve(t, w, order{ctx: ctx, layer: retries(0, 1), deadline: tc.deadline})
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

// flappingExecutor is an executor whose candidates exit again after Await, a
// number of times.
type flappingExecutor struct {
	*dispatchtest.Executor
	times int
}

func (f *flappingExecutor) Await(ctx context.Context, capID string) error {
	err := f.Executor.Await(ctx, capID)
	if err == nil && f.times > 0 {
		f.times--
		f.SetState(capID, dispatch.CapState{Respawning: true})
		time.AfterFunc(200*time.Millisecond, func() { f.SetState(capID, dispatch.CapState{Ready: true}) })
	}
	return err
}

// ATT-007, BIND-008: a candidate that exited again before it was bound is
// awaited again, for ten seconds in total.
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
				w.Dispatcher.Executor = &flappingExecutor{Executor: w.Executor, times: tc.times}
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

// lateExecutor is an executor whose candidates become ready between two calls
// of State.
type lateExecutor struct {
	*dispatchtest.Executor
	asked int
}

func (l *lateExecutor) State(capID string) dispatch.CapState {
	if l.asked++; l.asked > 2 { // the first two calls are those of the first binding
		return dispatch.CapState{Ready: true}
	}
	return l.Executor.State(capID)
}

func (l *lateExecutor) Await(context.Context, string) error { return nil }

// BIND-008: a candidate that becomes ready between two checks counts as
// available.
func TestReadyBetweenTwoLooks(t *testing.T) {
	w := world(t, "")
	w.Dispatcher.Executor = &lateExecutor{Executor: w.Executor}
	w.SetState("t/a", dispatch.CapState{Respawning: true})
	r := serve(t, w, order{})
	require.Nil(t, r.Err)
	assert.Equal(t, "t/a", r.CapID)
}

// ATT-008 row 6: a call whose process exits while it waits for a place was not
// delivered. If the process respawns and no other candidate is ready, the
// operation waits for it; otherwise the next candidate is tried at once.
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
		"no tries are configured": {dispatch.CapState{}, 0, true, "t/a", 200 * time.Millisecond},
		"it does not come back":   {dispatch.CapState{}, 1, false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "")
				w.SetState("t/b", tc.other)
				went := dispatchtest.Step{Gone: true}
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

// ATT-008 row 7, BIND-005, SUP-005: if all candidates are in one plugin and its
// process crashes, the call waits for the next process and tries the next
// candidate, and the record of that attempt has the time waited. The deadline
// of the node, a quarantine, the number of candidates and the recovery class of
// the call bound the wait.
func TestCallOutlivesItsProcess(t *testing.T) {
	const respawn = 15 * time.Second // longer than any wait without a deadline
	for name, tc := range map[string]struct {
		effects  string
		fallback int
		deadline time.Duration
		back     dispatch.CapState // after respawn
		asked    []string
		failure  string
		took     time.Duration
	}{
		"the next candidate": {
			fallback: 1, deadline: time.Minute, back: dispatch.CapState{Ready: true}, asked: []string{"t/a", "t/b"}, took: respawn,
		},
		"the deadline comes first": {
			fallback: 1, deadline: time.Second, asked: []string{"t/a"}, failure: "runtime/crashed", took: time.Second,
		},
		"quarantine": {
			fallback: 1, deadline: time.Minute, back: dispatch.CapState{Reason: "runtime/quarantined"},
			asked: []string{"t/a"}, failure: "runtime/crashed", took: respawn,
		},
		"no candidate is left": {
			deadline: time.Minute, back: dispatch.CapState{Ready: true}, asked: []string{"t/a"}, failure: "runtime/crashed",
		},
		"an effect that may have happened": {
			effects: ":cap/effects #{:fs/write}", fallback: 1, deadline: time.Minute, back: dispatch.CapState{Ready: true},
			asked: []string{"t/a"}, failure: "effects/outcome-unknown",
		},
		"an effect that only its own capability repeats": {
			effects: ":cap/effects #{:fs/write} :cap/idempotent? true", fallback: 1, deadline: time.Minute,
			back: dispatch.CapState{Ready: true}, asked: []string{"t/a"}, failure: "runtime/crashed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, tc.effects, tc.effects)
				both := func(st dispatch.CapState) {
					w.SetState("t/a", st)
					w.SetState("t/b", st)
				}
				w.On("t/a", dispatchtest.Step{Crash: true, After: func() { both(dispatch.CapState{Respawning: true}) }})
				stop := time.AfterFunc(respawn, func() { both(tc.back) })
				defer stop.Stop()
				begun := time.Now()
				r := serve(t, w, order{layer: retries(0, tc.fallback), deadline: tc.deadline})
				assert.Equal(t, tc.took, time.Since(begun))
				assert.Equal(t, tc.failure, r.failure())
				assert.Equal(t, tc.asked, w.Dispatched())
				assert.Equal(t, len(tc.asked), len(r.started()))
				if tc.failure == "" {
					assert.Equal(t, tc.took, r.started()[1].Waited)
				}
			})
		})
	}
}

// ATT-008, BIND-005: an undelivered call uses neither a retry nor a candidate,
// however often it happens: it is repeated when the process is back, or another
// candidate is tried at once.
func TestUndeliveredIsNoTry(t *testing.T) {
	for name, tc := range map[string]struct {
		same, fallback int
		steps          []dispatchtest.Step
		other          dispatch.CapState
		asked          []string
		failure        string
	}{
		"again and again": {
			steps: []dispatchtest.Step{{Gone: true}, {Gone: true}, {Gone: true}, out(`{:ok true}`)}, asked: []string{"t/a", "t/a", "t/a", "t/a"},
		},
		"another candidate": {
			steps: []dispatchtest.Step{{Gone: true}}, other: dispatch.CapState{Ready: true}, asked: []string{"t/a", "t/b"},
		},
		"between the tries": {
			same:  1,
			steps: []dispatchtest.Step{{Crash: true}, {Gone: true}, {Gone: true}, out(`{:ok true}`)}, asked: []string{"t/a", "t/a", "t/a", "t/a"},
		},
		"no more tries than there are": {
			same:  1,
			steps: []dispatchtest.Step{{Gone: true}, {Crash: true}, {Gone: true}, {Crash: true}, out(`{:ok true}`)},
			asked: []string{"t/a", "t/a", "t/a", "t/a"}, failure: "runtime/crashed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world(t, "", "")
				w.SetState("t/b", tc.other)
				for _, step := range tc.steps {
					if step.Gone || step.Crash {
						step.After = func() {
							w.SetState("t/a", dispatch.CapState{Respawning: true})
							time.AfterFunc(time.Second, func() { w.SetState("t/a", dispatch.CapState{Ready: true}) })
						}
					}
					w.On("t/a", step)
				}
				r := serve(t, w, order{layer: retries(tc.same, tc.fallback), deadline: time.Minute})
				assert.Equal(t, tc.failure, r.failure())
				assert.Equal(t, tc.asked, w.Dispatched())
				time.Sleep(time.Second) // fake time until the last respawn
			})
		})
	}
}
