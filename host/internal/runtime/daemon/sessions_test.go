package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The times of the sessions of the tests.
const (
	testSweep = time.Minute
	testIdle  = 5 * time.Minute
)

var ann = session.Caller{Principal: "user/ann"}

// sessionDaemon is a daemon that keeps the sessions of a store in memory, until the test
// ends or stop is called. Its intents are those of w.
func sessionDaemon(t *testing.T, w *dispatchtest.World) (h *Host, store *session.Memory, stop func()) {
	t.Helper()
	store = &session.Memory{}
	rules := session.Rules{
		MaxVars: 9, MaxKeyChars: 99, MaxValueBytes: 999, MaxHot: 2, IdleTTL: testIdle, SummaryChars: 100,
		Window: session.Window{Turns: 2, Chars: 1000},
	}
	loaded := &setup.Loaded{Config: &config.Config{
		Host:       config.Host{MaxRuns: 9},
		Session:    config.Session{Rules: rules, Sweep: testSweep},
		Generation: &build.Generation{Registry: w.Registry},
	}}
	h = &Host{runs: newRuns(), journal: journal.NewMemory()}
	h.sessions = session.New(store, rules, nil, nil)
	h.conversations = conversation.New(&conversation.Memory{}, h.sessions, conversationRules(loaded), nil)
	service, err := act.New(act.Config{
		Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: h.journal, Hash: edn.Hash(edn.Nil()),
	})
	require.NoError(t, err)
	h.runs.closed = true // there are no plugins to tell of the end of a run
	h.runs.current = &generation{loaded: loaded, service: service}
	d := &Daemon{log: hclog.NewNullLogger()}
	d.host.Store(h)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		d.keepSessions(ctx)
	}()
	stop = func() {
		cancel()
		<-over
	}
	t.Cleanup(stop)
	return h, store, stop
}

// pass lets the clock go on, and the daemon do what is due then.
func pass(by time.Duration) {
	time.Sleep(by)
	synctest.Wait()
}

// SES-012, SES-020, SES-002: the daemon deletes expired variables and writes the times of
// accesses each minute and when it ends, freezes a session that was not used for the idle
// time at the next sweep, and one above the maximum at once.
func TestSessionSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store, stop := sessionDaemon(t, dispatchtest.New(t, dispatchtest.Spec{}))
		ctx := t.Context()
		open := func(id string) {
			_, err := h.sessions.Open(ctx, ann, session.Ref{ID: id}, edn.Nil())
			require.Nil(t, err)
			synctest.Wait()
		}
		kept := func(id string) session.Session {
			found, ok, err := store.Session(ctx, id)
			require.NoError(t, err)
			require.True(t, ok)
			return found
		}
		begun := time.Now()
		open("s-1")
		_, err := h.sessions.Put(ctx, ann, session.Ref{ID: "s-1"}, map[string]edn.Value{"k": edn.Int(1)}, 90*time.Second)
		require.Nil(t, err)

		pass(100 * time.Second) // after the first sweep and the end of the variable
		vars, failure := store.Vars(ctx, "s-1")
		require.NoError(t, failure)
		assert.Len(t, vars, 1, "it is invisible, and still there")
		_, err = h.sessions.Get(ctx, ann, "s-1")
		require.Nil(t, err)
		assert.Zero(t, kept("s-1").Accessed.Sub(begun.UTC()).Truncate(time.Second), "not written yet")
		pass(20 * time.Second)
		vars, failure = store.Vars(ctx, "s-1")
		require.NoError(t, failure)
		assert.Empty(t, vars)
		assert.Equal(t, 100*time.Second, kept("s-1").Accessed.Sub(begun.UTC()).Round(time.Second))

		pass(testIdle - 21*time.Second) // just before its idle time has passed, and after a sweep
		assert.False(t, kept("s-1").Frozen)
		pass(testSweep)
		assert.True(t, kept("s-1").Frozen)
		assert.Equal(t, session.ByIdleTTL, kept("s-1").FrozenBy)

		for _, id := range []string{"s-2", "s-3", "s-4"} {
			time.Sleep(time.Second)
			open(id)
		}
		assert.Equal(t, session.ByHotLimit, kept("s-2").FrozenBy, "without a sweep")
		assert.False(t, kept("s-3").Frozen)

		pass(time.Second)
		_, err = h.sessions.Get(ctx, ann, "s-3")
		require.Nil(t, err)
		stop()
		assert.Zero(t, time.Since(kept("s-3").Accessed).Truncate(time.Second), "written at the end")
	})
}

// SES-016, SES-020: while a model makes a summary, sessions are frozen and swept all the
// same.
func TestSummariesDelayNoSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{
			Caps:    []string{`{:cap/id :a/sum :cap/kind :llm :cap/intents #{:context/summarize} :io/in-schema :req/any :io/out-schema :res/any}`},
			Intents: []registry.Intent{{ID: summarizes, In: "req/any", Out: "res/any", ResultTypes: []string{"value"}}},
		})
		w.On("a/sum", dispatchtest.Step{Value: edn.MustRead(`{:summary "short"}`), Delay: testSweep + 30*time.Second})
		h, store, _ := sessionDaemon(t, w)
		ctx := t.Context()
		kept := func(id string) session.Session {
			found, _, err := store.Session(ctx, id)
			require.NoError(t, err)
			return found
		}
		open := func(id string) session.Session {
			of, err := h.sessions.Open(ctx, ann, session.Ref{ID: id}, edn.Nil())
			require.Nil(t, err)
			synctest.Wait()
			return of
		}
		of := open("s-1")
		turn := session.Turn{Role: "user", Text: "words", Run: "run_1", At: time.Now()}
		release := h.sessions.Use("s-1")
		require.Nil(t, h.sessions.Append(ctx, of.Identity(), []session.Turn{turn, turn, turn, turn, turn}))
		release()
		synctest.Wait()
		require.Equal(t, []string{"a/sum"}, w.Dispatched())

		_, err := h.sessions.Put(ctx, ann, session.Ref{ID: "s-1"}, map[string]edn.Value{"k": edn.Int(1)}, time.Second)
		require.Nil(t, err)
		for _, id := range []string{"s-2", "s-3"} {
			time.Sleep(time.Second)
			open(id)
		}
		assert.Equal(t, []any{true, session.ByHotLimit}, []any{kept("s-1").Frozen, kept("s-1").FrozenBy})
		pass(testSweep)
		vars, failure := store.Vars(ctx, "s-1")
		require.NoError(t, failure)
		assert.Empty(t, vars)
		assert.True(t, kept("s-1").Notes.Key("summary").IsNil(), "the model still works")
		pass(testSweep)
		assert.Equal(t, `"short"`, kept("s-1").Notes.Key("summary").String())
	})
}
