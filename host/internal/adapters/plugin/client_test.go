//go:build linux

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WIRE-004: the call context arrives, and the answer names the process that
// answered.
func TestInvoke(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	c := request(`{:do "context"}`)
	c.Attempt, c.EffectKey, c.Effects = 3, "b3:k", []string{"fs/read", "none"}
	c.Epoch = 2
	c.Deadline = time.Now().Add(time.Minute)
	a, err := b.client.Invoke(context.Background(), c)
	require.NoError(t, err)
	assert.Equal(t, `{:attempt 3 :deadline "false" :effects "fs/read none" :key "b3:k" :node "n1" :run "r1" :trace "`+
		spans.AttemptContext("r1", 2, c.Path, 3).TraceParent(false)+`"}`, out(a).String())
	assert.Equal(t, "p", a.Plugin)
	assert.Equal(t, 1, a.Generation)
	assert.Regexp(t, "^b3:[0-9a-f]{64}$", a.Binary)
	assert.Equal(t, dispatch.CapState{Ready: true, Plugin: "p", Edition: 1, Generation: 1, Binary: a.Binary}, b.client.State("t/echo"))

	var pieces []string
	c = request(`{:do "stream"}`)
	c.OnDelta = func(v edn.Value) { pieces = append(pieces, v.String()) }
	_, err = b.client.Invoke(context.Background(), c)
	require.NoError(t, err)
	assert.Equal(t, []string{`{:text "0"}`, `{:text "1"}`, `{:text "2"}`}, pieces)
}

// WIRE-003: a text of 1 MiB is transferred in both directions.
func TestInvokeLargeText(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	text := strings.Repeat("ą", 1<<19)
	assert.Equal(t, `{:text "`+text+`"}`, b.mustAsk(`{:text "`+text+`"}`).String())
	// An answer above the limit is an error of the plugin and has no other
	// effect.
	_, err := b.ask(context.Background(), `{:do "big" :size 17000000}`)
	assert.ErrorIs(t, err, contract.OfType("runtime/protocol"))
	b.mustAsk(`{}`)
	assert.Equal(t, lived, b.steps())
}

// Settings may lower the message limit.
func TestMaxMessage(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.MaxMessage = 64 << 10
	b := run(t, s).ready()
	b.mustAsk(`{:do "big" :size 10000}`)
	_, err := b.ask(context.Background(), `{:do "big" :size 200000}`)
	assert.ErrorIs(t, err, contract.OfType("runtime/protocol"))
}

// Every error is typed (evaluation.md section 15) and has the location of the
// call.
func TestInvokeErrors(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	_, err := b.ask(context.Background(), `{:do "fail"}`)
	e := typed(t, err)
	assert.Equal(t, "input/invalid", e.Type)
	assert.Contains(t, e.Message, "no such thing")
	assert.Equal(t, `{:attempt 1 :cap/id :t/echo :node "n1"}`, e.Where.String())

	c := request(`{}`)
	c.CapID = "no/body"
	_, err = b.client.Invoke(context.Background(), c)
	assert.Equal(t, "cap/not-found", typed(t, err).Type)
	assert.Equal(t, "cap/not-found", typed(t, b.client.Await(context.Background(), "no/body")).Type)
	assert.False(t, b.client.State("no/body").Ready)

	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	cancel()
	assert.Equal(t, "canceled", typed(t, <-hung).Type)
	b.inFlight(0)
	// The plugin's context was cancelled too: it has no call in flight.
	assert.Equal(t, lived, b.steps())
}

func typed(t *testing.T, err error) *contract.Error {
	t.Helper()
	var e *contract.Error
	require.ErrorAs(t, err, &e)
	return e
}

// ERR-009: a missed deadline is a timeout of the work, unless the plugin does
// not answer a probe either.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		frozen bool
		typ    string
		source contract.Source
	}{
		"slow work":        {false, "timeout/hard", contract.SourceDownstream},
		"a stopped plugin": {true, "runtime/unresponsive", contract.SourcePlugin},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := as("good")
			// The probe before the deadline has a margin of a quarter of its timeout. It
			// is made if nothing was heard for as long as the timeout.
			timeout := 2 * time.Second
			if raceDetector {
				timeout = 4 * time.Second
			}
			s.Health.Interval, s.Health.Timeout, s.Health.Misses = time.Hour, timeout, 3
			s.StopGrace = 100 * time.Millisecond
			b := run(t, s).ready()
			if row.frozen {
				freeze(t, b.pid())
			}
			c := request(`{:do "hang"}`)
			c.Deadline = time.Now().Add(3 * timeout)
			_, err := b.client.Invoke(context.Background(), c)
			e := typed(t, err)
			assert.Equal(t, row.typ, e.Type)
			assert.Equal(t, row.source, e.Source)
			assert.Greater(t, time.Now(), c.Deadline.Add(-timeout))
			assert.Less(t, time.Now(), c.Deadline.Add(30*time.Second))
			assert.Equal(t, lived, b.steps(), "one miss does not restart")
		})
	}
}

// ATT-013: a call that is told to stop reports its usage.
func TestStoppedCallTellsItsUsage(t *testing.T) {
	t.Parallel()
	b := run(t, as("muxed")).ready()
	stop := make(chan struct{})
	c := request(`{:do "spend"}`)
	c.Stop, c.OnDelta = stop, func(edn.Value) { close(stop) }
	answer, err := b.client.Invoke(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "{:tokens-out 7}", answer.Response.Key("result").Key("usage").String())
}

// The types of errors by gRPC status code.
func TestCallError(t *testing.T) {
	wrapped := func(typ string, code codes.Code, text string) error {
		return contract.Errorf(typ, "invoke: %w", &wire.TransportError{Code: code, Err: status.Error(code, text)})
	}
	for name, row := range map[string]struct {
		err error
		typ string
	}{
		"unavailable before dispatch": {wrapped("runtime/crashed", codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial unix"`), "runtime/not-ready"},
		"lost":                        {wrapped("runtime/crashed", codes.Unavailable, "error reading from server: EOF"), "runtime/crashed"},
		"exhausted":                   {wrapped("runtime/protocol", codes.ResourceExhausted, "too many streams"), "runtime/overloaded"},
		"too large to send":           {wrapped("runtime/protocol", codes.ResourceExhausted, "trying to send message larger than max (2 vs. 1)"), "runtime/protocol"},
		"too large to receive":        {wrapped("runtime/protocol", codes.ResourceExhausted, "grpc: received message larger than max (2 vs. 1)"), "runtime/protocol"},
		"unimplemented":               {wrapped("runtime/protocol", codes.Unimplemented, "unknown service"), "runtime/protocol"},
		"deadline":                    {wrapped("timeout/hard", codes.DeadlineExceeded, "x"), "timeout/hard"},
		"an untyped error":            {errors.New("what is this"), "runtime/internal"},
	} {
		assert.Equal(t, row.typ, callError(row.err).Type, name)
	}
}

// ENV-010: as many calls run as the plugin can take, as many wait as the queue
// holds, the others fail at once.
func TestInvokeQueue(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Config = edn.MustRead(`{:places 2}`)
	s.Queue = 3
	b := run(t, s).ready()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() { _, _ = b.ask(ctx, `{:do "hang"}`) })
	}
	b.inFlight(2)
	answers := make(chan error, 3)
	for range 3 {
		go func() { _, err := b.ask(context.Background(), `{}`); answers <- err }()
	}
	require.Eventually(t, func() bool { return b.Status()[0].Queued == 3 }, patience, time.Millisecond)
	_, err := b.ask(context.Background(), `{}`)
	e := typed(t, err)
	assert.Equal(t, "runtime/overloaded", e.Type)
	assert.Equal(t, contract.SourceHost, e.Source)
	assert.Equal(t, `{:in-flight 2 :queued 3}`, e.Details.String())
	cancel()
	for range 3 {
		assert.NoError(t, <-answers)
	}
	calls.Wait()
}

// Calls that wait for a place when the plugin dies were never sent: they fail
// at once.
func TestQueuedCallsOfADeadPlugin(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.MaxInFlight = 1
	s.Restart.Backoff, s.Restart.MaxBackoff = time.Hour, time.Hour
	b := run(t, s).ready()
	hung := make(chan error, 1)
	go func() { _, err := b.ask(context.Background(), `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	queued := make(chan error, 1)
	go func() { _, err := b.ask(context.Background(), `{}`); queued <- err }()
	require.Eventually(t, func() bool { return b.Status()[0].Queued == 1 }, patience, time.Millisecond)
	require.NoError(t, syscall.Kill(b.pid(), syscall.SIGKILL))
	assert.Equal(t, "runtime/crashed", typed(t, <-hung).Type)
	assert.Equal(t, "runtime/not-ready", typed(t, <-queued).Type)
	assert.Equal(t, 1, b.to(t, Backoff, 1).Calls)

	// ATT-008 row 6: the plugin comes back, but not before this deadline.
	state := b.client.State("t/echo")
	assert.True(t, state.Respawning)
	assert.Equal(t, "runtime/not-ready", state.Reason)
	assert.ErrorIs(t, state.Why, contract.OfType("runtime/crashed"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	assert.Equal(t, "runtime/not-ready", typed(t, b.client.Await(ctx, "t/echo")).Type)
}

// A capability may have a lower limit than its plugin.
func TestCapabilityLimit(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Queue = 0
	b := run(t, s).ready()
	c, err := b.Client(map[string]Route{"a/one": {Plugin: "p", MaxInFlight: 1}, "a/other": {Plugin: "p"}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := c.Invoke(ctx, call("a/one", `{:do "hang"}`)); hung <- err }()
	b.inFlight(1)
	_, err = c.Invoke(context.Background(), call("a/one", `{}`))
	assert.Equal(t, "runtime/overloaded", typed(t, err).Type)
	_, err = c.Invoke(context.Background(), call("a/other", `{}`))
	assert.NoError(t, err)
	cancel()
	assert.Error(t, <-hung)
}

// WIRE-003: the configured encoding is used.
func TestEncoding(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Encoding = "json"
	b := run(t, s).ready()
	assert.Equal(t, `{:x 1.5 :y [true nil]}`, b.mustAsk(`{:x 1.5 :y [true nil]}`).String())
}

// asked answers calls of plugins and records them.
type asked struct {
	mu     sync.Mutex
	parent dispatch.Call
	last   HostCall
	answer func(ctx context.Context, request edn.Value) (edn.Value, error)
}

func (a *asked) HostInvoke(ctx context.Context, c HostCall) (edn.Value, error) {
	a.mu.Lock()
	a.parent = c.Parent
	a.last = c
	a.mu.Unlock()
	if err := c.Emit(edn.MustMap(edn.K("text"), edn.Text("piece for "+c.Plugin))); err != nil {
		return edn.Nil(), err
	}
	return a.answer(ctx, c.Request)
}

// A plugin may call its host, only within the call that it works on.
func TestHostCalls(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.CallDepth = 2
	b := run(t, s).ready()
	ask := `{:do "ask" :request {:task {:intent :t/other}}}`
	_, err := b.ask(context.Background(), ask)
	assert.Equal(t, "runtime/not-ready", typed(t, err).Type, "no handler is set yet")

	host := &asked{answer: func(_ context.Context, request edn.Value) (edn.Value, error) {
		return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), request.Key("task"))), nil
	}}
	b.AnswerCalls(host)
	got := b.mustAsk(ask)
	assert.Equal(t, `{:result {:out {:intent :t/other} :type :value}}`, got.String())
	assert.Equal(t, "n1", host.parent.Node)
	assert.Equal(t, "r1", host.parent.Run)

	_, err = b.ask(context.Background(), `{:do "ask-as" :id "zz"}`)
	assert.Equal(t, "auth/forbidden", typed(t, err).Type, "the handle of no call in flight")

	// WIRE-004: recursive calls end at the depth limit.
	deep := request(ask)
	deep.Stack = []string{"a/b", "c/d"}
	_, err = b.client.Invoke(context.Background(), deep)
	assert.Equal(t, "plan/too-deep", typed(t, err).Type)

	// The end of the call cancels its host calls.
	began, over := make(chan struct{}), make(chan error, 1)
	host.answer = func(ctx context.Context, _ edn.Value) (edn.Value, error) {
		close(began)
		<-ctx.Done()
		over <- ctx.Err()
		return edn.Nil(), ctx.Err()
	}
	ctx, cancel := context.WithCancel(context.Background())
	hung := make(chan error, 1)
	go func() { _, err := b.ask(ctx, ask); hung <- err }()
	<-began
	cancel()
	assert.Equal(t, "canceled", typed(t, <-hung).Type)
	assert.ErrorIs(t, <-over, context.Canceled)
}

// IR-014, WS-164: a call has at most 64 requests in flight. Their total has a limit, which
// grows with the time: a call without end that makes a request per second is not refused.
func TestHostCallsOfOneCall(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	c := &inFlight{began: now}
	for range wire.MaxHostCallsPerCall {
		_, err := c.begin(now)
		require.Nil(t, err)
	}
	_, err := c.begin(now)
	require.NotNil(t, err)
	assert.Equal(t, "runtime/overloaded", err.Type)
	for range wire.MaxHostCallsPerCall {
		c.done()
	}
	one := func() *contract.Error {
		_, err := c.begin(now)
		if err == nil {
			c.done()
		}
		return err
	}
	for range wire.MaxHostCallsTotal - wire.MaxHostCallsPerCall {
		require.Nil(t, one())
	}
	err = one()
	require.NotNil(t, err)
	assert.Equal(t, "plan/too-large", err.Type)
	for range 2 * wire.MaxHostCallsTotal {
		now = now.Add(time.Second)
		require.Nil(t, one())
	}
	require.NotNil(t, one())
}

// WIRE-004: a request that meets a defect of the host gets runtime/internal, and the log
// of the plugin has the stack. The host and the plugin go on.
func TestHostCallPanics(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	host := &asked{answer: func(context.Context, edn.Value) (edn.Value, error) { panic("a defect") }}
	b.AnswerCalls(host)
	_, err := b.ask(context.Background(), `{:do "ask" :request {:task {:intent :t/other}}}`)
	require.Equal(t, "runtime/internal", typed(t, err).Type)
	b.mustAsk(`{:x 1}`)
	logged := b.logged("the host panicked")
	require.Len(t, logged, 1)
	assert.Equal(t, "r1", logged[0].Run)
	assert.Contains(t, logged[0].Fields["stack"], "TestHostCallPanics")
}

// IR-014, CNV-014: handles are valid for their call only, while it lasts, also more
// than 64 times one after the other; host calls in flight at its end are ended before
// its answer is accepted.
func TestHandles(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	host := &asked{answer: func(_ context.Context, request edn.Value) (edn.Value, error) {
		return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), request)), nil
	}}
	b.AnswerCalls(host)
	b.mustAsk(`{:do "ask" :request {:task {:intent :t/other}} :model {:cap/ref :b/x} :deep [{:k #{{:cap/ref :a/y}}} {:cap/ref :no/handle :more 1}]}`)
	assert.Equal(t, []string{"a/y", "b/x"}, host.last.Granted)
	assert.Equal(t, 1, host.last.N)

	b.mustAsk(`{:do "ask-often" :n 65 :request {:task {:intent :t/other}}}`)
	assert.Equal(t, 65, host.last.N)

	ended := false
	host.answer = func(ctx context.Context, _ edn.Value) (edn.Value, error) {
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // a caller that does not wait would be faster
		ended = true
		return edn.Nil(), ctx.Err()
	}
	b.mustAsk(`{:do "ask-and-answer" :request {:task {:intent :t/other}}}`)
	assert.True(t, ended, "nothing of a call goes on when it has ended")

	_, err := b.ask(context.Background(), `{:do "ask-kept" :request {:task {:intent :t/other}}}`)
	assert.Equal(t, "auth/forbidden", typed(t, err).Type, "a call that has ended")
}

// A call for which all possible executors wait is rejected at once, not at its
// deadline.
func TestWaitsForItself(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Settings){"plugin": func(s *Settings) { s.MaxInFlight = 1 }, "nothing": func(*Settings) {}} {
		t.Run(what, func(t *testing.T) {
			s := as("good")
			change(&s)
			b := run(t, s).ready()
			host := &asked{}
			host.answer = func(ctx context.Context, _ edn.Value) (edn.Value, error) {
				a, err := b.client.Invoke(ctx, request(`{:do "echo"}`))
				return a.Response, err
			}
			b.AnswerCalls(host)
			_, err := b.ask(context.Background(), `{:do "ask" :request {:task {:intent :t/other}}}`)
			if what == "nothing" {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, "runtime/overloaded", typed(t, err).Type)
			assert.Contains(t, err.Error(), "deadlock: all")
		})
	}
}

// The store of a plugin outlives its processes (needed by SCR-002).
func TestStateOutlivesProcess(t *testing.T) {
	t.Parallel()
	b := run(t, as("good")).ready()
	for range 3 {
		b.mustAsk(`{:do "count"}`)
	}
	_, err := b.ask(context.Background(), `{:do "kill"}`)
	require.Error(t, err)
	b.to(t, Ready, 2)
	assert.Equal(t, "{:n 4}", b.mustAsk(`{:do "count"}`).String())
}

func TestStateStore(t *testing.T) {
	s := newStateStore()
	v := func(n uint64) *uint64 { return &n }
	step := func(c wire.StateChange) wire.Stored {
		t.Helper()
		got, err := s.apply(c)
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, wire.Stored{}, step(wire.StateChange{Op: wire.StateGet, Key: "a"}))
	assert.EqualValues(t, 1, step(wire.StateChange{Op: wire.StatePut, Key: "a", Value: edn.Int(1), IfVersion: v(0)}).Version)
	again := step(wire.StateChange{Op: wire.StatePut, Key: "a", Value: edn.Int(2), IfVersion: v(0)})
	assert.True(t, again.Conflict)
	assert.Equal(t, "1", again.Value.String())
	assert.EqualValues(t, 2, step(wire.StateChange{Op: wire.StatePut, Key: "a", Value: edn.Int(2), IfVersion: v(1)}).Version)
	assert.True(t, step(wire.StateChange{Op: wire.StateDelete, Key: "a", IfVersion: v(1)}).Conflict)
	assert.False(t, step(wire.StateChange{Op: wire.StateDelete, Key: "a", IfVersion: v(2)}).Conflict)
	assert.Zero(t, s.bytes)
	assert.EqualValues(t, 3, step(wire.StateChange{Op: wire.StatePut, Key: "a", Value: edn.Nil()}).Version, "a version is never used twice")

	for i := range wire.MaxStateKeys - 1 {
		step(wire.StateChange{Op: wire.StatePut, Key: fmt.Sprint("k", i), Value: edn.Int(1)})
	}
	_, err := s.apply(wire.StateChange{Op: wire.StatePut, Key: "one more", Value: edn.Int(1)})
	assert.Equal(t, "runtime/overloaded", typed(t, err).Type)
	step(wire.StateChange{Op: wire.StatePut, Key: "a", Value: edn.Int(5)})
	large := edn.Text(strings.Repeat("x", wire.MaxStateValue-100))
	for i := range wire.MaxStateKeys - 1 {
		if _, err = s.apply(wire.StateChange{Op: wire.StatePut, Key: fmt.Sprint("k", i), Value: large}); err != nil {
			break
		}
	}
	assert.Equal(t, "runtime/overloaded", typed(t, err).Type)
	assert.LessOrEqual(t, s.bytes, wire.MaxStateBytes)
}

// BIND-009, OPS-001: a capability of an unusable plugin is known and not ready,
// with the reason; no call waits for it.
func TestUnusablePlugin(t *testing.T) {
	t.Parallel()
	b := run(t, as("good"))
	why := contract.Errorf("capability/invalid-metadata", "its schema is wrong")
	c, err := b.Client(map[string]Route{"t/echo": {Plugin: "p"}, "bad/echo": {Plugin: "bad", Unusable: why}})
	require.NoError(t, err)
	defer c.Close()
	st := c.State("bad/echo")
	assert.Equal(t, "runtime/not-ready", st.Reason)
	assert.False(t, st.Ready || st.Standby || st.Respawning)
	require.ErrorIs(t, st.Why, contract.OfType("capability/invalid-metadata"))
	require.ErrorIs(t, c.Await(within(t), "bad/echo"), contract.OfType("runtime/not-ready"))
	_, err = c.Invoke(within(t), call("bad/echo", `{}`))
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	assert.NoError(t, c.Await(within(t), "t/echo"))
}
