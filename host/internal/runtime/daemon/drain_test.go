package daemon

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
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
				h.runs.current = &generation{loaded: &setup.Loaded{Config: &config.Config{Host: config.Host{MaxRuns: 9}}}, service: service}
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

// OPS-004, JRN-045: the drain does not wait for a run that begins to wait for a person after it began.
func TestDrainEndsAtAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{
			Caps:   []string{dispatchtest.Cap("a/one", ""), dispatchtest.Cap("a/clerk", ":cap/cost {:usd 0}")},
			Humans: map[string]registry.Human{"a/clerk": {}},
		})
		w.On("a/one", dispatchtest.Step{Delay: 3 * time.Second})
		h := &Host{runs: newRuns(), journal: journal.NewMemory()}
		service, err := act.New(act.Config{
			Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: h.journal, Hash: edn.Hash(edn.Nil()),
		})
		require.NoError(t, err)
		h.runs.closed = true
		h.runs.current = &generation{loaded: &setup.Loaded{Config: &config.Config{Host: config.Host{MaxRuns: 9}}}, service: service}
		turn, refused := h.Take()
		require.Nil(t, refused)
		ended := make(chan *contract.Error, 1)
		go func() {
			_, err := turn.Do(context.Background(), act.Act{Request: edn.MustRead(
				`{:proto 1 :trace {:id "r"} :task {:intent :plan/run} :deadline-ms 86400000 :input {:plan {:nodes [
				  {:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {} :as :x}
				  {:op :call :intent :text/respond :dispatch {:candidates [:a/clerk]} :input {:x {:slot/id :x}} :as :y}]}}}`)})
			ended <- err
			turn.Release()
		}()
		synctest.Wait()
		begun := time.Now()
		h.drain(context.Background(), time.Hour)
		assert.InDelta(t, 3000, time.Since(begun).Milliseconds(), 150, "it looks again every 100 ms")
		require.NotNil(t, <-ended)
	})
}

// giving is a store that gives runs away.
type giving func(context.Context) (int, error)

// HandOver implements giver.
func (g giving) HandOver(ctx context.Context) (int, error) { return g(ctx) }

// goingDown is a daemon whose host executes a run until the result is called.
func goingDown(t *testing.T) (d *Daemon, end func()) {
	h := &Host{runs: newRuns()}
	h.runs.closed = true
	h.runs.current = &generation{loaded: &setup.Loaded{Config: &config.Config{Host: config.Host{DrainTimeout: time.Hour}}}}
	turn, refused := h.Take()
	require.Nil(t, refused)
	d = &Daemon{log: hclog.NewNullLogger()}
	d.host.Store(h)
	return d, turn.Release
}

// OPS-004: a daemon gives runs to other hosts only when it takes no acts any more, which
// could continue them.
func TestHandOverFollowsTheEndOfActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, end := goingDown(t)
		var refusals []*contract.Error
		d.drainRuns(context.Background(), giving(func(context.Context) (int, error) {
			_, refused := d.host.Load().Take()
			if refusals = append(refusals, refused); len(refusals) == 3 {
				end()
			}
			return 0, nil
		}))
		require.GreaterOrEqual(t, len(refusals), 3, "it looks again")
		for _, refused := range refusals {
			require.NotNil(t, refused)
			assert.Equal(t, "runtime/draining", refused.Type)
		}
	})
}

// OPS-004: a second signal skips the wait for a database that does not answer.
func TestSecondSignalSkipsTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, end := goingDown(t)
		stuck := make(chan struct{})
		ctx, hurry := context.WithCancel(context.Background())
		over := make(chan struct{})
		go func() {
			defer close(over)
			d.drainRuns(ctx, giving(func(context.Context) (int, error) { <-stuck; return 0, nil }))
		}()
		synctest.Wait()
		end()
		synctest.Wait()
		select {
		case <-over:
			assert.Fail(t, "the run that is being given away is not awaited")
		default:
		}
		hurry()
		synctest.Wait()
		select {
		case <-over:
		default:
			assert.Fail(t, "the signal did not end the wait")
		}
		close(stuck)
		<-over
	})
}

// synced is a journal whose records are durable at once.
type synced struct{ *journal.Memory }

// Sync implements journal.Syncer.
func (synced) Sync(context.Context, string) error { return nil }

// OPS-004: with a durable journal a run that is left at the end of the drain stops
// at its next record and is open in the journal, so that the next daemon goes on.
func TestDrainLeavesRunsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}})
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Minute}, dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
		kept := journal.NewMemory()
		c := act.Config{
			Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: synced{kept}, Hash: edn.Hash(edn.Nil()),
		}
		service, err := act.New(c)
		require.NoError(t, err)
		h := &Host{runs: newRuns(), journal: c.Journal}
		h.runs.closed = true
		h.runs.current = &generation{loaded: &setup.Loaded{Config: &config.Config{Host: config.Host{MaxRuns: 9}}}, service: service}
		taken, refused := h.Take()
		require.Nil(t, refused)
		ended := make(chan *contract.Error, 1)
		var run string
		go func() {
			_, err := taken.Do(context.Background(), act.Act{
				Accepted: func(id string) { run = id },
				Request:  edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {}}`),
			})
			ended <- err
			taken.Release()
		}()
		synctest.Wait()
		records, err := kept.Records(run)
		require.NoError(t, err)
		begun := time.Now()
		h.drain(context.Background(), time.Second)
		assert.Less(t, time.Since(begun), 2*time.Second)
		failure := <-ended
		require.NotNil(t, failure)
		assert.Equal(t, "runtime/draining", failure.Type)
		assert.False(t, failure.Retryable, "the run goes on: to send the act again would execute it twice")
		for _, r := range records {
			assert.NotEqual(t, journal.KindRunFinished, r.Body.Kind())
		}

		next := journal.NewMemory()
		next.Load(run, records)
		c.Journal = synced{next}
		service, err = act.New(c)
		require.NoError(t, err)
		h = &Host{runs: newRuns(), journal: c.Journal}
		h.runs.closed = true
		h.runs.current = &generation{loaded: &setup.Loaded{Config: &config.Config{Host: config.Host{MaxRuns: 9}}}, service: service}
		cursor := next.Follow(run, len(records))
		_, refused = h.resume(run, act.Resumption{Why: journal.ResumedRestart})
		require.Nil(t, refused)
		var last journal.Record
		for {
			rec, ok, err := cursor.Next(context.Background())
			require.NoError(t, err)
			if !ok {
				break
			}
			last = rec
		}
		end, ok := last.Body.(*journal.RunFinished)
		require.True(t, ok)
		assert.Equal(t, journal.StatusCompleted, end.Status)
		assert.Equal(t, 2, last.Epoch)
		h.runs.after.Wait()
	})
}

// another is a journal whose runs another host executes, once their id is set.
type another struct {
	synced
	run *atomic.Value
}

// Keyed implements act.KeyFinder.
func (a another) Keyed(context.Context, string) (string, error) {
	run, _ := a.run.Load().(string)
	return run, nil
}

// Elsewhere implements act.Sharer.
func (another) Elsewhere(context.Context, string) (bool, error) { return true, nil }

// OPS-004, RUN-007: a caller that waits for a run of another host holds up no drain, and its
// turn ends when it leaves. RUN-010: a run is in progress when its id is announced.
func TestDrainWithoutRunsOfOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{dispatchtest.Cap("a/one", "")}})
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Hour})
		kept := another{synced{journal.NewMemory()}, &atomic.Value{}}
		serving := func() *Host {
			service, err := act.New(act.Config{
				Registry: w.Registry,
				Policies: w.Policies,
				Checks:   w.Checks,
				Executor: w,
				Journal:  kept,
				Keys:     &act.Keys{},
				Hash:     edn.Hash(edn.Nil()),
			})
			require.NoError(t, err)
			h := &Host{runs: newRuns(), journal: kept}
			h.runs.closed = true
			limits := &config.Config{Host: config.Host{MaxRuns: 9}}
			h.runs.current = &generation{loaded: &setup.Loaded{Config: limits}, service: service}
			return h
		}
		come := func(ctx context.Context, h *Host, stream bool) <-chan *contract.Error {
			taken, refused := h.Take()
			require.Nil(t, refused)
			ended := make(chan *contract.Error, 1)
			a := act.Act{
				Accepted: func(id string) {
					if kept.run.CompareAndSwap(nil, id) {
						assert.Equal(t, "running", h.runs.stateOf(id))
					}
				},
				Request: edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {}
				  :deadline-ms 86400000 :idempotency/key "k"}`),
			}
			go func() {
				defer taken.Release()
				if stream {
					_, err := taken.Watch(ctx, a, func([]journal.Event) error { return nil })
					ended <- err
					return
				}
				_, err := taken.Do(ctx, a)
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		there, here := serving(), serving()
		come(t.Context(), there, false)
		require.NotNil(t, kept.run.Load())
		ctx, leave := context.WithCancel(t.Context())
		gone := come(ctx, here, false)
		leave()
		assert.Equal(t, "canceled", (<-gone).Type)
		synctest.Wait()
		assert.Zero(t, here.runs.taken)

		waits, streams := come(t.Context(), here, false), come(t.Context(), here, true)
		begun := time.Now()
		here.drain(t.Context(), time.Minute)
		assert.Zero(t, time.Since(begun))
		for _, ended := range []<-chan *contract.Error{waits, streams} {
			failure := <-ended
			assert.Equal(t, "runtime/draining", failure.Type)
			assert.True(t, failure.Retryable)
		}
		there.drain(t.Context(), time.Second)
	})
}

// JRN-006: without space for records no act is accepted.
func TestFullJournalRejectsActs(t *testing.T) {
	full := true
	h := &Host{full: func() bool { return full }}
	require.NotNil(t, h.admits())
	assert.Equal(t, "journal/full", h.admits().Type)
	full = false
	assert.Nil(t, h.admits())
	assert.Nil(t, (&Host{}).admits(), "runs in memory")
}
