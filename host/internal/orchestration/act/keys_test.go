package act_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// keeper is a journal that keeps finished runs and finds them by their key.
type keeper struct {
	*journal.Memory
	mu   sync.Mutex
	keys map[string]string
	runs map[string][]journal.Record
}

func newKeeper() *keeper {
	return &keeper{Memory: journal.NewMemory(), keys: map[string]string{}, runs: map[string][]journal.Record{}}
}

// Append implements journal.Journal.
func (k *keeper) Append(ctx context.Context, r journal.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if accepted, ok := r.Body.(*journal.RunAccepted); ok && accepted.Key != "" {
		k.keys[accepted.Key] = r.Run
	}
	k.runs[r.Run] = append(k.runs[r.Run], r)
	return k.Memory.Append(ctx, r)
}

// Open keeps the records of the run too.
func (k *keeper) Open(string) journal.Journal { return k }

// Records implements act.Journal.
func (k *keeper) Records(run string) ([]journal.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[run], nil
}

// Drop implements act.Journal: the run may be reopened.
func (k *keeper) Drop(string) {}

// Keyed implements act.KeyFinder.
func (k *keeper) Keyed(_ context.Context, hash string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[hash], nil
}

const keyed = `:idempotency/key "k-1"`

// RUN-020, RUN-022: 64 callers with one key give one run; all have its response,
// and so has a later caller, from the journal. Another request or another caller
// does not get it.
func TestOneRunPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Second})
		kept := newKeeper()
		s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} })
		var callers sync.WaitGroup
		var mu sync.Mutex
		runs, attached := map[string]int{}, 0
		for range 64 {
			callers.Go(func() {
				r, err := s.Start(context.Background(), request(ask+keyed+"}"))
				if !assert.Nil(t, err) {
					return
				}
				response, err := r.Wait()
				assert.Nil(t, err)
				assert.Equal(t, `{:n 1}`, response.Key("result").Key("out").String())
				assert.False(t, r.Stored())
				mu.Lock()
				defer mu.Unlock()
				runs[r.ID()]++
				if r.Attached() {
					attached++
				}
			})
		}
		callers.Wait()
		assert.Len(t, runs, 1)
		assert.Equal(t, 63, attached)
		assert.Len(t, w.Calls(), 1)

		response, err := s.Do(context.Background(), request(ask+keyed+` :deadline-ms 500 :request/id "again"}`))
		require.Nil(t, err, "%v", err)
		assert.Equal(t, `{:n 1}`, response.Key("result").Key("out").String(), "transport keys do not count (RUN-021)")
		r, err := s.Start(context.Background(), request(ask+keyed+"}"))
		require.Nil(t, err)
		assert.True(t, r.Stored())
		var events []string
		require.NoError(t, r.Watch(context.Background(), func(e journal.Event) error {
			events = append(events, e.Name)
			return nil
		}))
		assert.Equal(t, "finished", events[len(events)-1])
		assert.Len(t, w.Calls(), 1)

		_, err = s.Do(context.Background(), request(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "other"} `+keyed+"}"))
		require.NotNil(t, err)
		assert.Equal(t, "idempotency/mismatch", err.Type)
		ann := request(ask + keyed + "}")
		ann.Principal, ann.PrincipalType = "ann", "user"
		r, err = s.Start(context.Background(), ann)
		require.Nil(t, err)
		assert.False(t, r.Attached(), "a key is that of its caller")
		_, _ = r.Wait()
	})
}

// RUN-007, RUN-022: a run with a key goes on without its caller, a failure is the
// answer to its key, and an act that is rejected leaves the key free.
func TestKeysOfOtherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Second})
		kept := newKeeper()
		s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} })
		ctx, leave := context.WithCancel(context.Background())
		r, err := s.Start(ctx, request(ask+keyed+"}"))
		require.Nil(t, err)
		leave()
		_, err = r.Wait()
		assert.Nil(t, err, "the run goes on")

		const failing = `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/two]}} :input {} :idempotency/key "k-2"`
		w.On("a/two", dispatchtest.Step{Err: contract.Errorf("input/invalid", "no")})
		for range 2 {
			_, err = s.Do(context.Background(), request(failing+"}"))
			require.NotNil(t, err)
			assert.Equal(t, "input/invalid", err.Type)
		}
		calls := len(w.Calls())
		_, err = s.Do(context.Background(), request(failing+` :effects 7}`))
		require.NotNil(t, err)
		assert.Equal(t, "invalid-request", err.Type)
		assert.Len(t, w.Calls(), calls)

		for _, plan := range []string{"7", `[{:op :emit :input 1}]`} {
			_, err = s.Do(context.Background(), request(`{:proto 1 :trace {:id "r"} :task {:intent :plan/run} :idempotency/key "k-3" :input {:plan {:nodes `+plan+`}}}`))
		}
		assert.Nil(t, err, "the first act was rejected, and is no run: %v", err)
	})
}

// RUN-020: without a journal that finds keys an act with one is rejected.
func TestNoKeysInMemory(t *testing.T) {
	w := two(t)
	_, err := service(t, w).Do(t.Context(), request(ask+keyed+"}"))
	require.NotNil(t, err)
	assert.Equal(t, "db/not-configured", err.Type)
	assert.Empty(t, w.Calls())
}

// RUN-006, RUN-022: a caller who attaches to a run waits until its own deadline, also as
// a reader of its events; the run goes on for the others.
func TestAttachedCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: 10 * time.Second})
		s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = newKeeper(), &act.Keys{} })
		first, err := s.Start(t.Context(), request(ask+keyed+"}"))
		require.Nil(t, err)
		begun := time.Now()
		second, err := s.Start(t.Context(), request(ask+keyed+" :deadline-ms 3000}"))
		require.Nil(t, err)
		require.True(t, second.Attached())
		assert.ErrorIs(t, second.Watch(t.Context(), func(journal.Event) error { return nil }), context.Canceled)
		assert.Equal(t, 3*time.Second, time.Since(begun))
		response, err := second.Wait()
		require.NotNil(t, err)
		assert.Equal(t, "queue/deadline-exceeded", err.Type)
		assert.Equal(t, edn.Text(first.ID()), response.Key("run/id"))
		assert.Equal(t, 3*time.Second, time.Since(begun))
		third, err := s.Start(t.Context(), request(ask+keyed+" :deadline-ms 30000}"))
		require.Nil(t, err)
		for _, r := range []*act.Run{first, third} {
			response, err := r.Wait()
			require.Nil(t, err, "%v", err)
			assert.Equal(t, `{:n 1}`, response.Key("result").Key("out").String())
		}
		assert.Equal(t, 10*time.Second, time.Since(begun))
	})
}

// abroad is the journal as a host sees it whose runs another host executes.
type abroad struct{ *keeper }

// Elsewhere implements act.Sharer.
func (abroad) Elsewhere(context.Context, string) (bool, error) { return true, nil }

// RUN-006, RUN-007, RUN-022: a caller of a run of another host waits no longer than its own
// deadline, and not when it has left; the run goes on. One that waits gets the response.
func TestCallersOfRunsOfOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := two(t)
		w.On("a/one", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Delay: time.Minute})
		kept := newKeeper()
		there := service(t, w, func(c *act.Config) { c.Journal, c.Keys = kept, &act.Keys{} })
		here := service(t, w, func(c *act.Config) { c.Journal, c.Keys = abroad{kept}, &act.Keys{} })
		first, err := there.Start(t.Context(), request(ask+keyed+"}"))
		require.Nil(t, err)
		synctest.Wait()
		begun := time.Now()
		come := func(ctx context.Context, more string) (edn.Value, *contract.Error) {
			return here.Do(ctx, request(ask+keyed+more+"}"))
		}
		left, leave := context.WithTimeout(t.Context(), 2*time.Second)
		defer leave()
		for _, tc := range []struct {
			ctx   context.Context
			more  string
			typ   string
			after time.Duration
		}{
			{t.Context(), " :deadline-ms 1000", "queue/deadline-exceeded", time.Second},
			{left, "", "canceled", 2 * time.Second},
			{t.Context(), "", "", time.Minute},
		} {
			response, err := come(tc.ctx, tc.more)
			assert.Equal(t, tc.after, time.Since(begun))
			id, _ := response.Key("run/id").AsString()
			assert.Equal(t, first.ID(), id, tc.typ)
			if tc.typ == "" {
				require.Nil(t, err)
				assert.Equal(t, `{:n 1}`, response.Key("result").Key("out").String())
			} else {
				require.NotNil(t, err)
				assert.Equal(t, tc.typ, err.Type)
			}
		}
		assert.Len(t, w.Calls(), 1)
	})
}

// RUN-010: the id of a run is announced once the run is durable and can be found.
func TestAnnouncedOnceDurable(t *testing.T) {
	kept := &syncs{Memory: journal.NewMemory()}
	w := two(t)
	w.On("a/one", value(`{:n 1}`))
	s := service(t, w, func(c *act.Config) { c.Journal = kept })
	for name, start := range map[string]func(act.Act) *contract.Error{
		"started": func(a act.Act) *contract.Error {
			r, err := s.Start(t.Context(), a)
			if err == nil {
				_, err = r.Wait()
			}
			return err
		},
		"done": func(a act.Act) *contract.Error {
			_, err := s.Do(t.Context(), a)
			return err
		},
	} {
		a, started, announced := request(ask+"}"), "", ""
		kept.n.Store(0)
		a.Started = func(r *act.Run) { started = r.ID() }
		a.Accepted = func(id string) {
			announced = id
			assert.Equal(t, int64(1), kept.n.Load(), name)
			if name == "started" {
				assert.Equal(t, id, started)
			}
		}
		require.Nil(t, start(a), name)
		assert.NotEmpty(t, announced, name)
	}
}

// syncs counts the waits for durable records.
type syncs struct {
	*journal.Memory
	n atomic.Int64
}

// Sync implements journal.Syncer.
func (s *syncs) Sync(context.Context, string) error {
	s.n.Add(1)
	return nil
}
