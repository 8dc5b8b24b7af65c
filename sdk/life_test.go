package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// waiting returns a capability whose calls wait until release is closed or
// their context ends; causes receives the cause of each end.
func waiting(opts ...sdk.Option) (c sdk.Capability, release chan struct{}, causes chan error) {
	release, causes = make(chan struct{}), make(chan error, 100)
	c = sdk.Func("t/wait", sdk.Intents("t/wait"), func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-release:
			causes <- nil
			return "released", nil
		case <-ctx.Done():
			causes <- context.Cause(ctx)
			return "", ctx.Err()
		}
	}, opts...)
	return c, release, causes
}

// ENV-010: calls above the limit of the capability or of the plugin are
// rejected at once.
func TestMaxInFlight(t *testing.T) {
	for name, p := range map[string]func(sdk.Capability) sdk.Plugin{
		"capability": func(c sdk.Capability) sdk.Plugin { sdk.MaxInFlight(2)(&c); return plugin(c) },
		"plugin":     func(c sdk.Capability) sdk.Plugin { p := plugin(c); p.MaxInFlight = 2; return p },
	} {
		t.Run(name, func(t *testing.T) {
			c, release, _ := waiting()
			served := sdktest.Serve(t, p(c))
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() {
					out, err := served.Invoke("t/wait", nil)
					assert.NoError(t, err)
					assert.Equal(t, "released", text(out))
				})
			}
			awaitInFlight(t, served, 2)
			_, err := served.Invoke("t/wait", nil)
			require.ErrorIs(t, err, contract.OfType("runtime/overloaded"))
			close(release)
			calls.Wait()
			assert.Equal(t, "released", text(served.MustInvoke("t/wait", nil)), "the places are free again")
		})
	}
}

// SDK-001: the context of a call ends with its caller, and with its deadline.
func TestCallsEndWithTheirCaller(t *testing.T) {
	c, _, causes := waiting()
	served := sdktest.Serve(t, plugin(c))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := served.Do(ctx, sdktest.Call{Capability: "t/wait"})
		over <- err
	}()
	awaitInFlight(t, served, 1)
	cancel()
	require.ErrorIs(t, <-over, contract.OfType("canceled"))
	require.ErrorIs(t, <-causes, context.Canceled)

	_, err := served.Do(t.Context(), sdktest.Call{Capability: "t/wait", Context: wire.CallContext{Deadline: time.Now().Add(20 * time.Millisecond)}})
	require.ErrorIs(t, err, contract.OfType("timeout/hard"))
	require.Error(t, <-causes)
	awaitInFlight(t, served, 0)
}

// WIRE-002, SUP-004: Drain rejects new calls, waits for those in flight, and
// cancels them at the deadline.
func TestDrain(t *testing.T) {
	c, release, causes := waiting()
	served := sdktest.Serve(t, plugin(c))
	over := make(chan error, 1)
	call := func() {
		_, err := served.Do(t.Context(), sdktest.Call{Capability: "t/wait"})
		over <- err
	}
	go call()
	awaitInFlight(t, served, 1)
	drained := make(chan int, 1)
	go func() {
		n, err := served.Client().Drain(t.Context(), time.Now().Add(time.Minute), "test")
		assert.NoError(t, err)
		drained <- n
	}()
	require.Eventually(t, func() bool {
		h, err := served.Client().Probe(t.Context())
		return err == nil && h.State == wire.HealthDraining && h.InFlight == 1
	}, 30*time.Second, time.Millisecond)
	_, err := served.Do(t.Context(), sdktest.Call{Capability: "t/wait"})
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	close(release)
	require.NoError(t, <-over)
	require.NoError(t, <-causes)
	assert.Equal(t, 0, <-drained)
}

func TestDrainDeadline(t *testing.T) {
	c, _, causes := waiting()
	served := sdktest.Serve(t, plugin(c))
	over := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := served.Do(t.Context(), sdktest.Call{Capability: "t/wait"})
			over <- err
		}()
	}
	awaitInFlight(t, served, 2)
	n, err := served.Client().Drain(t.Context(), time.Now().Add(10*time.Millisecond), "test")
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	for range 2 {
		require.ErrorIs(t, <-over, contract.OfType("runtime/not-ready"), "the caller learns that the plugin gave the call up")
		require.ErrorIs(t, <-causes, contract.OfType("runtime/not-ready"))
	}
}

// SUP-003: the author's hook determines readiness; each change is sent.
func TestHealth(t *testing.T) {
	say := make(chan sdk.Status)
	p := plugin(answering("x"))
	p.Health = func(ctx context.Context, report func(sdk.Status)) {
		for {
			select {
			case s := <-say:
				report(s)
			case <-ctx.Done():
				return
			}
		}
	}
	served := sdktest.Serve(t, p, sdktest.Unconfigured())
	seen := make(chan wire.Health, 10)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = served.Client().Watch(ctx, func(h wire.Health) error { seen <- h; return nil })
	}()
	assert.Equal(t, wire.HealthStarting, (<-seen).State)
	_, err := served.Client().Configure(t.Context(), wire.Setup{}, nil)
	require.NoError(t, err)
	assert.Equal(t, wire.HealthStarting, (<-seen).State)

	limited := sdk.Degraded("slow disk")
	limited.Source, limited.MaxInFlight, limited.Attributes = contract.SourceDownstream, 3, edn.MustRead(`{:free 1}`)
	limited.Capabilities = []sdk.CapabilityStatus{{ID: "t/x", Warmth: sdk.Cold, Queued: 2, Places: 1, Deaths: 3}}
	for _, s := range []sdk.Status{sdk.Ready(), limited, sdk.NotReady("no model")} {
		say <- s
		got := <-seen
		assert.Equal(t, s.State, got.State)
		assert.Equal(t, s.Capabilities, got.Capabilities)
		assert.Equal(t, s.Reason, got.Reason)
		assert.Equal(t, s.Source, got.Source)
		assert.Equal(t, s.MaxInFlight, got.MaxInFlight)
		assert.True(t, edn.Equal(s.Attributes, got.Attributes))
	}
	h, err := served.Client().Probe(t.Context())
	require.NoError(t, err)
	assert.False(t, h.State.Callable())
	cancel()
	<-watched
}

// Background work of a hook runs until the plugin ends.
func TestLifetime(t *testing.T) {
	configured, ended := make(chan struct{}), make(chan error, 1)
	p := sdk.Plugin{Name: "c", Version: "1", Capabilities: []sdk.Capability{answering("x")}, Config: sdk.Config[struct{}]{
		Start: func(ctx context.Context, _ struct{}) error {
			life := sdk.Lifetime(ctx)
			go func() {
				<-ctx.Done() // Configure has returned
				if life.Err() != nil || sdk.Root(life) == "" {
					ended <- errors.New("the lifetime ended with Configure")
					return
				}
				close(configured)
				<-life.Done()
				ended <- nil
			}()
			return nil
		},
	}}
	served := sdktest.Serve(t, p)
	served.MustInvoke("t/f", nil)
	select {
	case <-configured: // the plugin is still running
	case err := <-ended:
		require.NoError(t, err)
	}
	served.Instance().Stop()
	require.NoError(t, <-ended)
	assert.Equal(t, t.Context(), sdk.Lifetime(t.Context()))
}

// SDK-002: a panic in a hook is contained.
func TestHooksThatPanic(t *testing.T) {
	p := plugin(answering("x"))
	p.Health = func(_ context.Context, report func(sdk.Status)) { panic("in health") }
	p.EndRun = func(context.Context, string) error { panic("in end run") }
	p.Close = func(context.Context) error { panic("in close") }
	served := sdktest.Serve(t, p, sdktest.Unconfigured())
	_, err := served.Client().Configure(t.Context(), wire.Setup{}, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		h, err := served.Client().Probe(t.Context())
		return err == nil && h.State == wire.HealthNotReady && strings.Contains(h.Reason, "in health")
	}, 30*time.Second, time.Millisecond)
	require.ErrorContains(t, served.Client().EndRun(t.Context(), "r"), "in end run")
}

// WIRE-002: the EndRun hook receives the run and a context of the plugin.
func TestEndRun(t *testing.T) {
	ended := make(chan string, 2)
	p := plugin(answering("x"))
	p.EndRun = func(ctx context.Context, run string) error {
		ended <- run + " in " + sdk.Root(ctx)
		if run == "bad" {
			return errors.New("cannot clean up")
		}
		return nil
	}
	served := sdktest.Serve(t, p)
	require.NoError(t, served.Client().EndRun(t.Context(), "r-1"))
	assert.Equal(t, "r-1 in "+served.Root(), <-ended)
	require.ErrorContains(t, served.Client().EndRun(t.Context(), "bad"), "cannot clean up")
}

// SDK-001: a plugin calls another intent through its host on behalf of its
// call.
func TestHostInvoke(t *testing.T) {
	host := &sdktest.Host{}
	host.AnswerValue("t/inner", edn.MustRead(`{:text "from inside"}`))
	host.Answer("t/fails", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return edn.Nil(), contract.Errorf("budget/exceeded", "no money left")
	})
	host.Answer("t/error-response", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return edn.MustRead(`{:error {:type :mine/x :message "as an answer"}}`), nil
	})
	host.Answer("t/streams", func(_ context.Context, _ wire.Call, out *wire.Emitter) (edn.Value, error) {
		for _, word := range []string{"a", "b"} {
			if err := out.Delta(edn.Text(word)); err != nil {
				return edn.Nil(), err
			}
		}
		return edn.MustRead(`{:result {:type :value :out {:text "ab"}}}`), nil
	})
	type ask struct {
		Intent string `edn:"intent"`
	}
	p := plugin(sdk.Func("t/outer", sdk.Intents("t/outer"), func(ctx context.Context, x ask) (string, error) {
		var pieces []string
		answer, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{
			Intent: x.Intent, Capability: "x/y", Input: map[string]any{"q": 1}, Fields: edn.MustRead(`{:done {:score-min 0.5} :input :overridden}`),
			OnDelta: func(piece edn.Value) { pieces = append(pieces, piece.String()) },
		})
		if err != nil {
			return "", err
		}
		var got struct {
			Text string `edn:"text"`
		}
		if err := answer.Decode(&got); err != nil {
			return "", err
		}
		return fmt.Sprint(got.Text, pieces), nil
	}))
	served := sdktest.Serve(t, p, sdktest.WithHost(host))
	call := wire.CallContext{Run: "r", CallID: "c-7", Stack: []string{"top/one"}, TraceParent: "tp"}
	do := func(intent string) (edn.Value, error) {
		r, err := served.Do(t.Context(), sdktest.Call{Capability: "t/outer", Input: ask{intent}, Context: call})
		return r.Key("result").Key("out"), err
	}
	out, err := do("t/inner")
	require.NoError(t, err)
	assert.Equal(t, "from inside[]", text(out))
	asked := host.Calls()[0]
	assert.Equal(t, "c-7", asked.Context.CallID)
	assert.Equal(t, "tp", asked.Context.TraceParent)
	assert.Equal(t, []string{"top/one", "t/outer"}, asked.Context.Stack)
	assert.Equal(t, `{:done {:score-min 0.5} :input {:q 1} :proto 1 :stream? true :task {:cap/id :x/y :intent :t/inner} :trace {:id "test"}}`, asked.Request.String())

	out, err = do("t/streams")
	require.NoError(t, err)
	assert.Equal(t, `ab["a" "b"]`, text(out))
	_, err = do("t/fails")
	require.ErrorIs(t, err, contract.OfType("budget/exceeded"))
	_, err = do("t/error-response")
	require.ErrorIs(t, err, contract.OfType("mine/x"))
	_, err = do("not a name")
	require.ErrorContains(t, err, "intent")
}

// SDK-001, SCR-002: the plugin's store in its host.
func TestHostState(t *testing.T) {
	p := plugin(sdk.Raw("t/state", sdk.Intents("t/state"), func(ctx context.Context, _ edn.Value, _ *sdk.Stream) (edn.Value, error) {
		state := sdk.HostFrom(ctx).State()
		var log []string
		note := func(what string, v any, err error) { log = append(log, fmt.Sprint(what, " ", v, " ", err)) }
		_, version, err := state.Get(ctx, "k")
		note("absent", version, err)
		version, err = state.Put(ctx, "k", edn.MustRead(`{:n 1}`))
		note("put", version, err)
		current, ok, err := state.Swap(ctx, "k", 7, edn.Int(2))
		note("swap of an old version", fmt.Sprint(ok, current.Version, current.Value), err)
		current, ok, err = state.Swap(ctx, "k", 1, edn.Int(2))
		note("swap", fmt.Sprint(ok, current.Version, current.Value), err)
		_, ok, err = state.Swap(ctx, "k", 0, edn.Int(3))
		note("create what exists", ok, err)
		note("delete", "", state.Delete(ctx, "k"))
		note("delete again", "", state.Delete(ctx, "k"))
		_, _, err = state.Get(ctx, "")
		note("no key", contract.AsError(err).Type, nil)
		_, err = state.Put(ctx, "k", edn.Text(strings.Repeat("x", wire.MaxStateValue)))
		note("large", contract.AsError(err).Type, nil)
		return contract.ValueResult(edn.MustMap(edn.K("text"), edn.Text(strings.Join(log, "\n")))), nil
	}))
	served := sdktest.Serve(t, p)
	assert.Equal(t, strings.Join([]string{
		"absent 0 <nil>",
		"put 1 <nil>",
		"swap of an old version false 1 {:n 1} <nil>",
		"swap true 2 2 <nil>",
		"create what exists false <nil>",
		"delete  <nil>",
		"delete again  <nil>",
		"no key input/invalid <nil>",
		"large input/invalid <nil>",
	}, "\n"), text(served.MustInvoke("t/state", nil)))
}

// Without a host every method of Host returns the same typed error.
func TestNoHost(t *testing.T) {
	ctx := t.Context()
	_, err := sdk.HostFrom(ctx).Invoke(ctx, sdk.Ask{Intent: "t/x"})
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	_, _, err = sdk.HostFrom(ctx).State().Get(ctx, "k")
	require.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
}

// Concurrent calls of every kind, under the race detector.
func TestParallelCalls(t *testing.T) {
	p := plugin(
		sdk.Func("t/f", sdk.Intents("t/f"), func(ctx context.Context, x in) (out, error) {
			sdk.Logger(ctx).Info("call")
			sdk.ReportUsage(ctx, edn.MustRead(`{:tokens-in 1}`))
			return out{Text: x.Name}, nil
		}),
		sdk.StreamFunc("t/s", sdk.Intents("t/s"), func(_ context.Context, x in, s *sdk.Stream) (out, error) {
			return out{Text: x.Name}, s.Text(x.Name)
		}),
	)
	served := sdktest.Serve(t, p)
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			name := fmt.Sprint("n", i)
			got, err := served.Invoke([]string{"t/f", "t/s"}[i%2], in{Name: name})
			if assert.NoError(t, err) {
				assert.Equal(t, name, text(got))
			}
		})
	}
	calls.Wait()
}
