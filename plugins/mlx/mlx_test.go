//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/server"
	"github.com/fermenthq/ferment/plugins/mlx/internal/servertest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// quick are short limits for tests.
var quick = server.Rungs{Quit: 300 * time.Millisecond, Interrupt: 300 * time.Millisecond, Terminate: 300 * time.Millisecond, Kill: patience}

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	servertest.Main(os.Args)
	sdktest.Main(m, newPlugin(transport.System(), quick))
}

// block numbers the tests of this process, so that each has its own ports.
var block atomic.Int64

// rig is a plugin with a scripted server.
type rig struct {
	*sdktest.Plugin
	t    testing.TB
	mark string
}

func config(t testing.TB, mark, more string, words ...string) edn.Value {
	t.Helper()
	var command []edn.Value
	for _, w := range servertest.Command(append(words, "mark="+mark)...) {
		command = append(command, edn.Text(w))
	}
	c := edn.MustRead(`{:serve {"voice" {:intents ["model/chat" "text/respond"]}} :env {"GORACE" "atexit_sleep_ms=0"} :drain 500}`).
		AssocKey("model", edn.Text(fmt.Sprintf("model-%d-%d", os.Getpid(), block.Add(1)))).
		AssocKey("command", edn.Vector(command...))
	if more != "" {
		c = c.Merge(edn.MustRead(more))
	}
	return c
}

func newRig(t testing.TB, more string, words ...string) *rig {
	r := &rig{t: t, mark: filepath.Join(t.TempDir(), "mark")}
	t.Cleanup(r.left) // after the end of the plugin
	r.Plugin = sdktest.Serve(t, newPlugin(transport.System(), quick), sdktest.WithConfig(config(t, r.mark, more, words...)), sdktest.WithoutLeakCheck())
	return r
}

// pids returns the server processes so far.
func (r *rig) pids() []int {
	text, err := os.ReadFile(r.mark)
	if err != nil {
		return nil
	}
	var all []int
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "start "); ok {
			n, err := strconv.Atoi(pid)
			require.NoError(r.t, err)
			all = append(all, n)
		}
	}
	return all
}

// left fails the test if a process is left.
func (r *rig) left() { gone(r.t, r.pids()...) }

func gone(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		assert.Eventually(t, func() bool { return !alive(pid) }, patience, 5*time.Millisecond, "process %d is left", pid)
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// outcome is the result of a call.
type outcome struct {
	text     string
	err      *contract.Error
	response edn.Value
}

func (r *rig) ask(ctx context.Context, says, session string, on func(wire.Event)) outcome {
	c := sdktest.Call{Capability: "mlx/voice", Intent: "text/respond", Input: edn.MustMap(edn.K("prompt"), edn.Text(says)), OnEvent: on}
	if session != "" {
		c.Fields = edn.MustMap(edn.K("session/id"), edn.Text(session))
	}
	return r.do(ctx, c)
}

func (r *rig) do(ctx context.Context, c sdktest.Call) outcome {
	var o outcome
	var err error
	if o.response, err = r.Do(ctx, c); err != nil {
		o.err = contract.AsError(err)
		return o
	}
	_, o.err = contract.CheckResponse(o.response, contract.ResultRules{})
	o.text, _ = o.response.Key("result").Key("out").Key("text").AsString()
	return o
}

// must returns the answer of a call that must succeed.
func (r *rig) must(says, session string) string {
	r.t.Helper()
	o := r.ask(r.t.Context(), says, session, nil)
	require.Nil(r.t, o.err, "%v", o.err)
	return o.text
}

// fails returns the error of a call that must fail.
func (r *rig) fails(says string) *contract.Error {
	r.t.Helper()
	o := r.ask(r.t.Context(), says, "", nil)
	require.NotNil(r.t, o.err, "%s", o.response)
	return o.err
}

// operate returns the answer to an operator's command.
func (r *rig) operate(intent, session string) edn.Value {
	r.t.Helper()
	input := edn.MustMap()
	if session != "" {
		input = input.AssocKey("session/id", edn.Text(session))
	}
	o := r.do(r.t.Context(), sdktest.Call{Capability: "mlx/server", Intent: intent, Input: input})
	require.Nil(r.t, o.err, "%v", o.err)
	return o.response.Key("result").Key("out")
}

// states formats the workers of a status: session, state.
func states(status edn.Value) string {
	var all []string
	for w := range status.Key("workers").Elems() {
		session, _ := w.Key("session/id").AsString()
		state, _ := w.Key("state").AsKeyword()
		all = append(all, strings.TrimSpace(session+" "+state))
	}
	return strings.Join(all, ", ")
}

// MLX-001, MLX-005, MLX-006, MLX-010, LM-003: a call starts the server and the
// next call uses it, also one of another session: "shared" is the default.
// Requests name the started model and have a token limit.
func TestAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	assert.Empty(t, r.pids(), "lazy")
	first := r.must("hello", "")
	assert.Equal(t, first, r.must("hello again", "someone"))
	assert.Len(t, r.pids(), 1)
	assert.Equal(t, "default_model 4096 1", r.must("model", ""))
	o := r.do(t.Context(), sdktest.Call{Capability: "mlx/voice", Intent: "model/chat", Input: edn.MustRead(`{:messages [{:role :user :content "model"}]}`), Fields: edn.MustRead(`{:budget {:max-tokens 7}}`)})
	require.Nil(t, o.err, "%v", o.err)
	assert.Equal(t, "default_model 7 1", o.text)
	usage := o.response.Key("result").Key("usage")
	assert.Equal(t, ":live 9 3 :exact", fmt.Sprint(usage.Key("mode"), " ", usage.Key("tokens-in"), " ", usage.Key("tokens-out"), " ", usage.Key("tokens-mark")))
	assert.Equal(t, ":exact", usage.Key("cost-mark").String(), "a server of one's own is free")
	assert.Equal(t, `:mlx`, o.response.Key("invoke/meta").Key("provider").Key("type").String())

	o = r.do(t.Context(), sdktest.Call{Capability: "mlx/voice", Intent: "text/respond", Input: edn.MustRead(`{:prompt "x"}`), Fields: edn.MustRead(`{:model "another/model"}`)})
	require.NotNil(t, o.err)
	assert.Equal(t, "provider/request-invalid", o.err.Type)
	assert.Equal(t, contract.ClassStop, o.err.Class)
	status := r.operate("model/status", "")
	assert.Equal(t, "ready", states(status))
	assert.Positive(t, status.Key("first-token-ms").String())
}

// MLX-005: model names that the operator allows.
func TestAllowedModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, `{:allow-models ["adapter"]}`)
	o := r.do(t.Context(), sdktest.Call{Capability: "mlx/voice", Intent: "text/respond", Input: edn.MustRead(`{:prompt "model"}`), Fields: edn.MustRead(`{:model "adapter"}`)})
	require.Nil(t, o.err, "%v", o.err)
	assert.Equal(t, "adapter 4096 1", o.text)
}

// MLX-009: a server that dies during a call is restarted, and the call is
// repeated if no piece of the answer was emitted; both requests are reported.
func TestDiesInACall(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	o := r.ask(t.Context(), "die-once:"+filepath.Join(t.TempDir(), "died"), "", nil)
	require.Nil(t, o.err, "%v", o.err)
	pids := r.pids()
	require.Len(t, pids, 2)
	assert.Equal(t, fmt.Sprint("answer of ", pids[1]), o.text)
	assert.Equal(t, fmt.Sprintf("[{:deaths 1 :error :model/died :pid %d}]", pids[0]), o.response.Key("invoke/meta").Key("attempts").String())
	assert.Equal(t, "1", r.operate("model/status", "").Key("deaths").String())

	for _, how := range []string{"die", "exit", "hang-up"} { // the second request dies like the first
		r := newRig(t, "")
		err := r.fails(how)
		assert.Equal(t, "model/died", err.Type, "%v", err)
		assert.Equal(t, []any{contract.ClassSwitch, contract.SourceDownstream, true}, []any{err.Class, err.Source, err.Retryable})
		assert.Len(t, r.pids(), 2)
	}
}

// MLX-009: a call is not repeated after a piece of the answer was emitted.
func TestDiesAfterAPiece(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	seen := ""
	o := r.ask(t.Context(), "die-late", "", func(e wire.Event) {
		text, _ := e.Value.Key("text").AsString()
		seen += text
	})
	require.NotNil(t, o.err)
	assert.Equal(t, "model/died", o.err.Type, "%v", o.err)
	assert.Equal(t, "a piece", seen)
	assert.Len(t, r.pids(), 1)
	assert.Equal(t, ":at-least", o.response.Key("result").Key("usage").Key("tokens-mark").String(), "%s", o.response)
	assert.NotEmpty(t, r.must("hello", ""), "the next call starts it again")
}

// MLX-009: three deaths are a crash loop: the plugin is not ready, calls are
// rejected without a process, and an operator may retry.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	assert.Equal(t, "model/died", r.fails("die").Type)
	assert.Equal(t, "model/crash-loop", r.fails("die").Type)
	started := len(r.pids()) // one more for each port that was taken meanwhile
	assert.GreaterOrEqual(t, started, 3)
	err := r.fails("hello")
	assert.Equal(t, "model/crash-loop", err.Type)
	ms, _ := err.Details.Key("retry-after-ms").AsInt()
	assert.Greater(t, ms, int64(30_000))
	assert.False(t, err.Retryable)
	assert.Len(t, r.pids(), started)
	h := r.health(notReady)
	assert.Contains(t, h.Reason, ":model/crash-loop")
	assert.Equal(t, "3", h.Attributes.Key("deaths").String())
	r.operate("model/quit", "")
	r.health(func(h wire.Health) bool { return h.State == wire.HealthReady })
	assert.NotEmpty(t, r.must("hello", ""))
}

// notReady reports whether the server's capabilities are not ready while that
// of the operators is.
func notReady(h wire.Health) bool {
	for _, c := range h.Capabilities {
		if c.State != wire.HealthNotReady || c.ID == "mlx/server" {
			return false
		}
	}
	return len(h.Capabilities) > 0 && h.State == wire.HealthDegraded
}

// voice returns the health of the server's capability.
func voice(t testing.TB, h wire.Health) wire.CapabilityHealth {
	t.Helper()
	require.Len(t, h.Capabilities, 1)
	require.Equal(t, "mlx/voice", h.Capabilities[0].ID)
	return h.Capabilities[0]
}

// MLX-009: the health report holds the warmth of the server, the number of
// waiting calls, and each death, also that of a repeated call.
func TestHealthOfTheServer(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	r := newRig(t, `{:max-in-flight 1 :queue 3}`, "gate="+gate)
	warmth := func(want wire.Warmth) wire.CapabilityHealth {
		return voice(t, r.health(func(h wire.Health) bool { return h.State == wire.HealthReady && voice(t, h).Warmth == want }))
	}
	assert.Equal(t, wire.CapabilityHealth{ID: "mlx/voice", State: wire.HealthReady, Warmth: wire.Cold, Places: 1}, warmth(wire.Cold))
	hold := filepath.Join(t.TempDir(), "hold")
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { assert.Nil(t, r.ask(t.Context(), "hold:"+hold, "", nil).err) })
	}
	warmth(wire.Warming)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	busy := voice(t, r.health(func(h wire.Health) bool { return voice(t, h).Warmth == wire.Warm && voice(t, h).Queued == 2 }))
	assert.Equal(t, wire.CapabilityHealth{ID: "mlx/voice", State: wire.HealthReady, Warmth: wire.Warm, InFlight: 1, Queued: 2, Places: 1}, busy)
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	calls.Wait()
	idle := voice(t, r.health(func(h wire.Health) bool { return voice(t, h).Queued == 0 }))
	assert.Zero(t, idle.Deaths)

	// No call waits while the last one is served; its end is reported too.
	holds := []string{filepath.Join(t.TempDir(), "hold"), filepath.Join(t.TempDir(), "hold")}
	crowd := func(inFlight, queued int) {
		r.health(func(h wire.Health) bool { return voice(t, h).InFlight == inFlight && voice(t, h).Queued == queued })
	}
	for i, hold := range holds {
		calls.Go(func() { assert.Nil(t, r.ask(t.Context(), "hold:"+hold, "", nil).err) })
		require.Eventually(t, func() bool { // the first is in flight before the second starts
			text, _ := os.ReadFile(r.mark)
			return i > 0 || strings.Count(string(text), "hold") == 4
		}, patience, time.Millisecond)
	}
	crowd(1, 1)
	require.NoError(t, os.WriteFile(holds[0], nil, 0o600))
	crowd(1, 0)
	require.NoError(t, os.WriteFile(holds[1], nil, 0o600))
	crowd(0, 0)
	calls.Wait()

	saved := r.ask(t.Context(), "die-once:"+filepath.Join(t.TempDir(), "died"), "", nil)
	require.Nil(t, saved.err)
	attempts := saved.response.Key("invoke/meta").Key("attempts")
	require.Equal(t, 1, attempts.Len(), "%s", saved.response)
	for a := range attempts.Elems() {
		assert.Equal(t, ":model/died", a.Key("error").String())
		assert.Equal(t, "1", a.Key("deaths").String())
	}
	after := voice(t, r.health(func(h wire.Health) bool { return voice(t, h).Deaths > 0 && voice(t, h).Warmth == wire.Warm }))
	assert.Equal(t, []any{uint64(1), 1}, []any{after.Deaths, after.RecentDeaths})
	err := r.fails("die")
	assert.Equal(t, "model/crash-loop", err.Type, "two more")
	n, _ := err.Details.Key("deaths").AsInt()
	assert.Equal(t, int64(3), n)
	err = r.fails("hello")
	assert.Equal(t, "model/crash-loop", err.Type)
	assert.False(t, err.Details.HasKey("deaths"), "no death ended this call")
}

// health waits for a health report.
func (r *rig) health(want func(wire.Health) bool) (h wire.Health) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	found := false
	_ = r.Client().Watch(ctx, func(now wire.Health) error {
		if h = now; want(now) {
			found = true
			cancel()
		}
		return nil
	})
	require.True(r.t, found, "the last health is %v", h)
	return h
}

// A server without memory: as an answer, and as an exit that is not repeated.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	err := r.fails("oom")
	assert.Equal(t, "model/out-of-memory", err.Type)
	assert.Contains(t, err.Message, "failed to allocate 9 GiB")
	assert.Equal(t, "model/out-of-memory", r.fails("oom-exit").Type)
	assert.Len(t, r.pids(), 1)
	assert.NotEmpty(t, r.must("hello", ""))
}

// MLX-021: a server that stops during a call is killed after the call's own
// timer, and the next call has another.
func TestStoppedInACall(t *testing.T) {
	t.Parallel()
	r := newRig(t, `{:timeouts {:connect 5000 :first-token 400 :silence 400 :stall 400 :total 60000}}`)
	err := r.fails("freeze")
	assert.Equal(t, "provider/timeout", err.Type)
	pids := r.pids()
	require.Len(t, pids, 1)
	gone(t, pids...)
	require.Eventually(t, func() bool { return r.ask(t.Context(), "hello", "", nil).err == nil }, patience, 10*time.Millisecond)
	status := r.operate("model/status", "")
	assert.Equal(t, "1", status.Key("deaths").String())
}

// MLX-012: where the server cannot run, calls are rejected without a process;
// the plugin reports why, gives a hint, and stays up.
func TestCannotRunHere(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	p := sdktest.Serve(t, newPlugin(transport.System(), quick), sdktest.Unconfigured(), sdktest.WithoutLeakCheck())
	_, cerr := p.Client().Configure(t.Context(), wire.Setup{Config: config(t, mark, `{:command ["no-such-server" "{port}"] :start "eager"}`)}, nil)
	require.NoError(t, cerr)
	r := &rig{Plugin: p, t: t, mark: mark}
	h := r.health(notReady)
	assert.Equal(t, ":model/unavailable: the model server cannot run here: no-such-server is not in PATH (install no-such-server, or set command)", h.Reason)
	err := r.fails("hello")
	assert.Equal(t, "model/unavailable", err.Type)
	assert.Equal(t, []any{contract.ClassSwitch, contract.SourceHost, false}, []any{err.Class, err.Source, err.Retryable})
	assert.NotEmpty(t, err.Hint)

	imports := newRig(t, "", "say=ImportError: no metal here", "exit=1")
	for range 20 {
		assert.Equal(t, "model/unavailable", imports.fails("hello").Type)
	}
	assert.Len(t, imports.pids(), 1, "never a restart loop")
}

// MLX-012: the rejection costs no more than reading a value. The bound applies
// to the median of many, as the machine may be busy; under the race detector it
// is far larger, because the detector slows every access.
func TestRefusalIsQuick(t *testing.T) {
	a := &adapter{clock: transport.System(), rungs: quick}
	s := settingsOf(t, `{:command ["no-such-server" "{port}"]}`)
	require.NoError(t, a.start(t.Context(), s))
	defer func() { require.NoError(t, a.close(context.Background())) }()
	h := a.service.Load()
	request := edn.MustRead(`{:input {:prompt "x"}}`)
	var took []time.Duration
	for range 1001 {
		begin := time.Now()
		_, err := h.answer(t.Context(), "voice", request, nil)
		took = append(took, time.Since(begin))
		require.ErrorIs(t, err, contract.OfType("model/unavailable"))
	}
	assert.LessOrEqual(t, median(took), refusalLimit)
}

// MLX-011: freeze stops the process and prevents starts, thaw starts one; reset
// changes nothing; quit stops it until the next call.
func TestOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	assert.Equal(t, "", states(r.operate("model/status", "")))
	r.must("hello", "")
	assert.Equal(t, "ready", states(r.operate("model/reset", "")))
	for _, intent := range []string{"model/freeze", "model/quit", "model/thaw"} {
		assert.Equal(t, "ready", states(r.operate(intent, "a")), "it is not the server of a session")
	}
	assert.Equal(t, "frozen", states(r.operate("model/freeze", "")))
	gone(t, r.pids()...)
	err := r.fails("hello")
	assert.Equal(t, "model/frozen", err.Type)
	assert.Equal(t, []any{contract.ClassSwitch, contract.SourceRequest}, []any{err.Class, err.Source})
	r.health(notReady)
	assert.Equal(t, "starting", states(r.operate("model/thaw", "")))
	r.must("hello", "")
	assert.Len(t, r.pids(), 2)
	assert.Equal(t, "cold", states(r.operate("model/quit", "")))
	gone(t, r.pids()...)
	r.must("hello", "")
	var causes []string
	for e := range r.operate("model/status", "").Key("events").Elems() {
		to, _ := e.Key("to").AsKeyword()
		cause, _ := e.Key("cause").AsKeyword()
		causes = append(causes, to+"("+cause+")")
	}
	assert.Equal(t, "starting(call) ready(answers) draining(session/manual-freeze) frozen(ended) cold(thaw) starting(thaw) ready(answers) draining(session/restart) cold(ended) starting(call) ready(answers)",
		strings.Join(causes, " "))
}

// MLX-010: with "per-session" each session has a server, up to the limit; then
// the one that was idle longest is stopped. A busy one is kept, and a call for
// which none is idle waits in the queue while there is room. TestOperators
// covers the reasons of operators, TestIdleTTL that of time.
func TestPerSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, `{:workers "per-session" :max-workers 2 :queue 1}`)
	a, b := r.must("hello", "a"), r.must("hello", "b")
	assert.NotEqual(t, a, b)
	assert.Equal(t, a, r.must("again", "a"))
	r.must("hello", "c")
	status := r.operate("model/status", "")
	assert.Equal(t, "a ready, c ready", states(status), "b was idle for longer than a")
	assert.Contains(t, status.Key("events").String(), ":cause :session/max-per-model")
	assert.Equal(t, a, r.must("again", "a"))

	assert.Equal(t, "a frozen, c ready", states(r.operate("model/freeze", "a")))
	assert.Equal(t, "model/frozen", r.ask(t.Context(), "hello", "a", nil).err.Type)
	r.must("hello", "d")
	r.operate("model/thaw", "a")
	r.operate("model/quit", "")

	hold := filepath.Join(t.TempDir(), "hold")
	var busy sync.WaitGroup
	for _, session := range []string{"x", "y"} {
		busy.Go(func() { assert.Nil(t, r.ask(t.Context(), "hold:"+hold, session, nil).err) })
	}
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(r.mark)
		return strings.Count(string(text), "hold") == 2
	}, patience, time.Millisecond)
	busy.Go(func() { assert.Nil(t, r.ask(t.Context(), "hello", "z", nil).err) }) // waits in the queue
	require.Eventually(t, func() bool { return r.operate("model/status", "").Key("waiting").String() == "1" }, patience, time.Millisecond)
	o := r.ask(t.Context(), "hello", "w", nil)
	require.NotNil(t, o.err)
	assert.Equal(t, "runtime/overloaded", o.err.Type)
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	busy.Wait()
}

// cold = "switch": a call does not wait for a loading server.
func TestColdSwitch(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	r := newRig(t, `{:cold "switch"}`, "gate="+gate)
	err := r.fails("hello")
	assert.Equal(t, "model/not-ready", err.Type)
	ms, _ := err.Details.Key("retry-after-ms").AsInt()
	assert.Positive(t, ms)
	r.health(notReady)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	r.health(func(h wire.Health) bool { return h.State == wire.HealthReady })
	assert.NotEmpty(t, r.must("hello", ""))
}

// start = "eager", a start that fails, and a call whose deadline passes while
// the server loads.
func TestStarts(t *testing.T) {
	t.Parallel()
	eager := newRig(t, `{:start "eager"}`)
	require.Eventually(t, func() bool { return states(eager.operate("model/status", "")) == "ready" }, patience, 5*time.Millisecond)

	broken := newRig(t, "", "say=it is broken", "exit=3")
	err := broken.fails("hello")
	assert.Equal(t, "model/start-failed", err.Type)
	assert.Equal(t, `["it is broken"]`, err.Details.Key("output").String())
	late := newRig(t, `{:startup-timeout 300}`, "never")
	assert.Equal(t, "model/start-timeout", late.fails("hello").Type)

	slow := newRig(t, "", "never", "deaf")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	o := slow.ask(ctx, "hello", "", nil)
	require.NotNil(t, o.err)
	assert.Equal(t, "starting", states(slow.operate("model/status", "")), "others may still want it")
}

// A canceled call ends; the server keeps running.
func TestCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := r.ask(ctx, "slow", "", func(wire.Event) { cancel() })
	require.NotNil(t, o.err)
	require.Eventually(t, func() bool { return states(r.operate("model/status", "")) == "ready" }, patience, time.Millisecond)
	assert.NotEmpty(t, r.must("hello", ""))
	assert.Len(t, r.pids(), 1)
}

// MLX-007: when the plugin is killed, one second later nothing is left of its
// server, even one that ignores signals, nor of its children.
func TestPluginIsKilled(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	p := sdktest.Start(t, sdktest.WithConfig(config(t, mark, "", "deaf", "fork")))
	r := &rig{Plugin: p, t: t, mark: mark}
	r.must("hello", "")
	pids := r.pids()
	require.Len(t, pids, 2)
	begin := time.Now()
	require.NoError(t, syscall.Kill(p.Instance().PID(), syscall.SIGKILL))
	gone(t, pids...)
	assert.Less(t, time.Since(begin), patience) // one second on an idle machine
}

// MLX-020: each error type that workers of model servers used to report is an
// alias of a current type.
func TestOldNames(t *testing.T) {
	for old, now := range map[string]string{
		"runtime-not-ready": "model/not-ready", "runtime-port-in-use": "model/port-in-use", "runtime-start-failed": "model/start-failed",
		"runtime-process-missing": "model/unavailable", "runtime-process-dead": "model/died", "runtime-process-io-unavailable": "model/died",
		"runtime-session-reset-failed": "model/not-ready", "invoke-failed": "provider/error", "invoke-timeout": "provider/timeout",
		"invoke-http-status": "provider/request-failed", "invoke-http-failed": "provider/unavailable", "invoke-http-url-missing": "provider/not-configured",
		"invoke-not-configured": "provider/not-configured", "quit-not-configured": "provider/not-configured",
		"reset-not-configured": "provider/not-configured", "unsupported-command": "provider/request-invalid",
	} {
		assert.Equal(t, now, contract.ResolveAlias(old), old)
		_, ok := contract.Lookup(now)
		assert.True(t, ok, now)
	}
}

// The description that a host gets before anything runs.
func TestDescription(t *testing.T) {
	t.Parallel()
	p := sdktest.Serve(t, newPlugin(transport.System(), quick), sdktest.Unconfigured(), sdktest.WithoutLeakCheck())
	raw, err := p.Client().Describe(t.Context(), edn.MustRead(`{:model "m" :port 8080 :serve {"voice" {:family "f" :intents ["text/respond"]} "meta" {}}}`), wire.HostInfo{})
	require.NoError(t, err)
	require.Empty(t, raw.Findings)
	d, err := raw.Parse()
	require.NoError(t, err)
	assert.Equal(t, []string{"fs/read", "fs/write", "net/loopback", "process/run", "process/self"}, d.Needs, "LM-002")
	assert.Equal(t, []uint16{8080}, d.Ports)
	var ids []string
	for _, c := range d.Capabilities {
		ids = append(ids, c.ID)
		assert.Equal(t, []string{"none"}, c.Effects)
	}
	assert.Equal(t, []string{"mlx/meta", "mlx/voice", "mlx/server"}, ids)
	raw, err = p.Client().Describe(t.Context(), edn.MustRead(`{:model "m" :max-workers 0 :port 65536 :comand [] :serve {"voice" {}}}`), wire.HostInfo{})
	require.NoError(t, err)
	text := fmt.Sprint(raw.Findings)
	for _, where := range []string{":max-workers", ":port", ":comand"} {
		assert.Contains(t, text, where, "LM-005, MLX-021")
	}
}
