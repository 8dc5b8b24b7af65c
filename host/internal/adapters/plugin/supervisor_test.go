//go:build linux

package plugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

const lived = "stopped>starting(start) starting>configuring(started) configuring>ready(ready)"

// SUP-002: a sound plugin passes through its states, each change with a cause.
func TestPluginLives(t *testing.T) {
	b := run(t, as("good")).ready()
	assert.Equal(t, `{:text "hello"}`, b.mustAsk(`{:text "hello"}`).String())
	pid := b.pid()
	require.NoError(t, b.Supervisor.Close(context.Background()))
	assert.Equal(t, lived+" ready>draining(stop) draining>stopped(stopped)", b.steps())
	gone(t, pid, 0)
	last := b.to(t, Stopped, 1)
	require.NotNil(t, last.Report)
	assert.Equal(t, "exit status 0", last.Report.Exit.String(), "it was asked and went")
	assert.Equal(t, pid, last.PID)
	assert.Equal(t, 1, last.Generation)
}

// WIRE-002: the content of Configure.
func TestPluginSetup(t *testing.T) {
	t.Parallel()
	s := as("good")
	b := run(t, s).ready()
	got := b.mustAsk(`{:do "setup"}`)
	root, _ := got.Key("root").AsString()
	place, err := filepath.Rel(filepath.Join(b.dataDir, "work"), root)
	require.NoError(t, err)
	assert.Regexp(t, `^[0-9a-f]{8}/p/0$`, place, "apart from other hosts with the same data")
	dir, _ := got.Key("dir").AsString()
	assert.Equal(t, root, dir, "the working directory is the plugin's own")
	assert.Equal(t, "{}", got.Key("config").String(), "no config block is an empty one")
	info, err := os.Stat(root)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	// The directory of the instance: files of a crashed process are removed.
	require.NoError(t, os.WriteFile(filepath.Join(root, "litter"), nil, 0o600))
	_, err = b.ask(context.Background(), `{:do "kill"}`)
	require.Error(t, err)
	b.to(t, Ready, 2)
	assert.NoFileExists(t, filepath.Join(root, "litter"))
	generation, _ := b.mustAsk(`{:do "setup"}`).Key("generation").AsInt()
	assert.EqualValues(t, 2, generation)

	s.Name, s.Workdir = "elsewhere", t.TempDir()
	b.begin(s)
	b.ready()
	dir, _ = b.mustAsk(`{:do "setup"}`).Key("dir").AsString()
	assert.Equal(t, s.Workdir, dir)
}

// SUP-005: after any kind of exit the next process works. Each kind has its own
// row, because each was a defect of some host.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		do     string
		policy RestartPolicy
		cause  Cause
		says   string
	}{
		"exit 0":  {`{:do "exit" :code 0}`, Always, CauseCrashed, "ended with exit status 0"},
		"exit 1":  {`{:do "exit" :code 1}`, OnFailure, CauseCrashed, "ended with exit status 1"},
		"SIGKILL": {`{:do "kill"}`, OnFailure, CauseCrashed, "was killed by SIGKILL"},
		"panic":   {`{:do "abort"}`, OnFailure, CauseCrashed, "panic: the engine fell off"},
		"SIGSTOP": {`{:do "freeze"}`, OnFailure, CauseUnresponsive, "does not answer health probes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := as("good")
			s.Restart.Policy = row.policy
			s.StopGrace = 200 * time.Millisecond
			if row.cause == CauseUnresponsive {
				s.Health.Interval, s.Health.Timeout, s.Health.Misses = 100*time.Millisecond, 1500*time.Millisecond, 2
			}
			b := run(t, s).ready()
			_, err := b.ask(context.Background(), row.do)
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.says)
			if row.cause == CauseUnresponsive {
				assert.ErrorIs(t, err, contract.OfType("runtime/unresponsive"))
			} else {
				assert.ErrorIs(t, err, contract.OfType("runtime/crashed"))
			}
			down := b.to(t, Backoff, 1)
			assert.Equal(t, row.cause, down.Cause)
			require.NotNil(t, down.Err)
			require.NotNil(t, down.Report)
			b.to(t, Ready, 2)
			a, err := b.ask(context.Background(), `{:x 1}`)
			require.NoError(t, err)
			assert.Equal(t, 2, a.Generation)
			assert.NotEqual(t, down.PID, b.pid())
		})
	}
}

// SUP-003: the error of a plugin whose answers to probes violate the contract says
// so, because its author looks for a hanging process otherwise.
func TestProbeAnsweredWrongly(t *testing.T) {
	t.Parallel()
	s := as("long-health")
	s.Health.Interval, s.Health.Timeout, s.Health.Misses = 50*time.Millisecond, 10*time.Second, 2
	s.Restart.Backoff, s.Restart.MaxBackoff = time.Hour, time.Hour
	b := prepare(t, nil)
	b.begin(s)
	failed := b.until(t, "a failed start", func(tr Transition) bool { return tr.To == Backoff })
	require.NotNil(t, failed.Err)
	assert.Equal(t, "runtime/unresponsive", failed.Err.Type)
	assert.Contains(t, failed.Err.Message, "larger than max")
}

// A plugin whose process runs but whose connection is lost is replaced, because
// it misses its probes; calls that cannot be sent were never started.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	s := as("good")
	s.Health.Interval, s.Health.Timeout, s.Health.Misses = 100*time.Millisecond, 1500*time.Millisecond, 2
	b := run(t, s).ready()
	u, err := b.unit("p")
	require.NoError(t, err)
	require.NoError(t, u.all()[0].living.Load().conn.Close())
	_, err = b.ask(context.Background(), `{}`)
	require.Error(t, err)
	down := b.to(t, Backoff, 1)
	assert.Equal(t, CauseUnresponsive, down.Cause)
	b.to(t, Ready, 2)
	b.mustAsk(`{}`)
}

// SUP-005; plugins.md section 8: a crash loop ends in quarantine with its
// reason, the host stays healthy, and an operator restarts the plugin.
func TestCrashLoop(t *testing.T) {
	s := as("exit-3")
	s.Restart.Max = 3
	other := as("good")
	other.Name = "other"
	b := run(t, s, other)
	q := b.until(t, "quarantine", func(tr Transition) bool { return tr.Plugin == "p" && tr.To == Quarantined })
	assert.Equal(t, CauseCrashLoop, q.Cause)
	assert.Equal(t, 4, q.Generation, "one start and three restarts")
	assert.Contains(t, q.Err.Error(), "failed 4 times within 1m0s")
	assert.Contains(t, q.Err.Error(), "no licence", "and why")

	state := b.client.State("p/echo")
	assert.False(t, state.Ready)
	assert.False(t, state.Respawning)
	assert.Equal(t, "runtime/quarantined", state.Reason)
	err := b.client.Await(context.Background(), "p/echo")
	assert.ErrorIs(t, err, contract.OfType("runtime/quarantined"))
	_, err = b.client.Invoke(context.Background(), call("p/echo", `{}`))
	assert.ErrorIs(t, err, contract.OfType("runtime/quarantined"))
	assert.Contains(t, contract.AsError(err).Message, "no licence", "the message has the first cause")

	require.NoError(t, b.client.Await(context.Background(), "other/echo"))
	_, err = b.client.Invoke(context.Background(), call("other/echo", `{}`))
	require.NoError(t, err)

	require.NoError(t, b.Release("p"))
	again := b.until(t, "start", func(tr Transition) bool { return tr.Plugin == "p" && tr.Cause == CauseRelease })
	assert.Equal(t, 5, again.Generation)
}

// SUP-005: permanent failures are not retried.
func TestConfigureFailures(t *testing.T) {
	t.Parallel()
	for mood, row := range map[string]struct {
		to    State
		cause Cause
		typ   string
		says  string
	}{
		"findings":      {Quarantined, CauseConfig, "config/plugin-schema", "[:depth]: is too deep"},
		"disagree":      {Quarantined, CauseProtocol, "runtime/protocol", "Configure returned another description than Describe"},
		"die":           {Backoff, CauseStartFailed, "runtime/start-failed", "cannot go on"},
		"hang":          {Backoff, CauseStartFailed, "runtime/start-failed", "did not accept its configuration within"},
		"hang-describe": {Backoff, CauseStartFailed, "runtime/start-failed", "did not describe itself within"},
		"downstream":    {Backoff, CauseStartFailed, "provider/unavailable", "the model server is away"},
	} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			s := as("good")
			s.Config = edn.MustMap(edn.K("mood"), edn.Text(mood))
			s.StartTimeout, s.ConfigureTimeout = patience, patience
			switch mood {
			case "hang":
				s.ConfigureTimeout = 500 * time.Millisecond
			case "hang-describe":
				s.StartTimeout = 5 * time.Second // it must start within that
			}
			s.Restart.Backoff, s.Restart.MaxBackoff = time.Hour, time.Hour
			b := run(t, s)
			got := b.to(t, row.to, 1)
			assert.Equal(t, row.cause, got.Cause)
			assert.Equal(t, row.typ, got.Err.Type)
			assert.Contains(t, got.Err.Error(), row.says)
			require.NotNil(t, got.Report)
			gone(t, got.Report.PID, patience)
		})
	}
}

// SUP-005: a configuration error caused by a file that is being replaced is
// retried.
func TestConfigureWhileAFileIsReplaced(t *testing.T) {
	s := as("good")
	s.Isolation.Level = confine.None // the plugin itself replaces the file
	file := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	s.Config = edn.MustMap(edn.K("mood"), edn.Text("replaced"), edn.K("file"), edn.Text(file))
	s.ConfigFiles = []string{file}
	s.Restart.Backoff, s.Restart.MaxBackoff = time.Hour, time.Hour
	got := run(t, s).to(t, Backoff, 1)
	assert.Equal(t, CauseStartFailed, got.Cause)
	assert.Equal(t, "config/plugin-schema", got.Err.Type)
}

// SUP-003: alive, responsive and ready are kept apart.
func TestHealth(t *testing.T) {
	t.Parallel()
	t.Run("not ready leaves it alone", func(t *testing.T) {
		b := run(t, as("good")).ready()
		pid := b.pid()
		b.mustAsk(`{:do "health" :state "degraded" :reason "half of the disks"}`)
		degraded := b.to(t, Degraded, 1)
		assert.True(t, degraded.Callable)
		b.mustAsk(`{}`)
		b.mustAsk(`{:do "health" :state "not-ready" :reason "no disks"}`)
		b.to(t, Degraded, 2)
		_, err := b.ask(context.Background(), `{}`)
		assert.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
		assert.Equal(t, contract.SourceDownstream, contract.AsError(err).Source, "the plugin said whose fault it is")
		state := b.client.State("t/echo")
		assert.Equal(t, "runtime/not-ready", state.Reason)
		assert.False(t, state.Respawning)
		assert.Contains(t, state.Why.Error(), "no disks")
		assert.Equal(t, pid, b.pid())
	})
	t.Run("never ready", func(t *testing.T) {
		s := as("good")
		s.Config = edn.MustRead(`{:mood "not-ready"}`)
		b := run(t, s)
		never := b.to(t, Degraded, 1)
		assert.Equal(t, CauseNotReady, never.Cause)
		assert.ErrorIs(t, b.Await(context.Background(), s.Name), contract.OfType("runtime/not-ready"), "Await does not wait for a reported state")
	})
	t.Run("ready late", func(t *testing.T) {
		s := as("good")
		s.Config = edn.MustRead(`{:mood "starting"}`)
		s.Health.ReadyTimeout = 100 * time.Millisecond
		b := run(t, s)
		late := b.to(t, Degraded, 1)
		assert.Equal(t, CauseReadyTimeout, late.Cause)
		assert.False(t, late.Callable)
		assert.Contains(t, late.Err.Error(), "within 100ms")
		st := b.Status()[0]
		assert.NotZero(t, st.PID)
		assert.Zero(t, st.Restarts)
	})
	t.Run("a lower limit", func(t *testing.T) {
		s := as("good")
		s.Queue = 0
		b := run(t, s).ready()
		b.mustAsk(`{:do "health" :state "ready" :places 1}`)
		require.Eventually(t, func() bool { return b.Status()[0].Health.MaxInFlight == 1 }, patience, time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		hung := make(chan error, 1)
		go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
		b.inFlight(1)
		_, err := b.ask(context.Background(), `{}`)
		assert.ErrorIs(t, err, contract.OfType("runtime/overloaded"))
		cancel()
		assert.ErrorIs(t, <-hung, contract.OfType("canceled"))
	})
}

// ERR-004: a crash that cuts fifty calls is one diagnostic with a count, and
// one error for all of them.
func TestOneDiagnosticForManyCalls(t *testing.T) {
	s := as("good")
	s.Restart.Policy = Never
	b := run(t, s).ready()
	errs := make([]error, 50)
	var calls sync.WaitGroup
	for n := range errs {
		calls.Go(func() { _, errs[n] = b.ask(context.Background(), `{:do "hang"}`) })
	}
	b.inFlight(50)
	require.NoError(t, syscall.Kill(b.pid(), syscall.SIGKILL))
	calls.Wait()
	down := b.to(t, Stopped, 1)
	assert.Equal(t, 50, down.Calls)
	assert.Equal(t, lived+" ready>stopped(crashed)", b.steps())
	for _, err := range errs {
		e := contract.AsError(err)
		assert.Equal(t, "runtime/crashed", e.Type)
		assert.Equal(t, down.Err.Message, e.Message)
		assert.Equal(t, "plugin p (instance 1) was killed by SIGKILL", e.Message)
		n, _ := e.Details.Key("calls").AsInt()
		assert.EqualValues(t, 50, n)
		signal, _ := e.Details.Key("signal").AsInt()
		assert.EqualValues(t, 9, signal)
		id, _ := e.Where.Key("cap/id").AsKeyword()
		assert.Equal(t, "t/echo", id)
		assert.Equal(t, contract.SourcePlugin, e.Source)
	}
}

// ATT-007: the callers of a killed plugin get their error within 10 ms of the
// exit, and the state then reports a restart. On a busy machine a goroutine may
// be delayed longer: the best of several runs counts, and under the race detector
// only that they get it.
func TestCrashReachesCallersFast(t *testing.T) {
	const most = 15
	limit := atMost(10 * time.Millisecond)
	s := as("good")
	s.Restart.Max = most
	b := run(t, s).ready()
	var took []time.Duration
	for round := 0; round < 5 || slices.Min(took) >= limit && round < most; round++ {
		b.to(t, Ready, round+1)
		told := make(chan time.Time, 1)
		go func() {
			_, err := b.ask(context.Background(), `{:do "hang"}`)
			at := time.Now()
			if assert.ErrorIs(t, err, contract.OfType("runtime/crashed")) {
				state := b.client.State("t/echo")
				assert.True(t, state.Respawning || state.Ready)
			}
			told <- at
		}()
		b.inFlight(1)
		pid := b.pid()
		exit := make(chan time.Time, 1)
		go func() {
			died(pid, patience)
			exit <- time.Now()
		}()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		took = append(took, (<-told).Sub(<-exit))
	}
	t.Log(took)
	assert.Less(t, slices.Min(took), limit)
}

// SUP-004: a plugin that is drained finishes its calls and takes no new ones.
func TestDrain(t *testing.T) {
	s := as("good")
	b := run(t, s).ready()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hung := make(chan error, 1)
	go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	require.NoError(t, b.Drain("p"))
	b.to(t, Draining, 1)
	_, err := b.ask(context.Background(), `{}`)
	assert.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
	assert.ErrorIs(t, b.client.Await(context.Background(), "t/echo"), contract.OfType("runtime/not-ready"), "Await does not wait for a stopped plugin")
	select {
	case err := <-hung:
		require.Fail(t, "the call was cut", err)
	default:
	}
	cancel() // the call ends by itself
	assert.ErrorIs(t, <-hung, contract.OfType("canceled"))
	b.to(t, Stopped, 1)
	require.NoError(t, b.Release("p"))
	b.to(t, Ready, 2)
	b.mustAsk(`{}`)

	// A release during the drain takes effect after it.
	ctx, cancel = context.WithCancel(context.Background())
	go func() { _, err := b.ask(ctx, `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	require.NoError(t, b.Drain("p"))
	b.to(t, Draining, 2)
	require.NoError(t, b.Release("p"))
	cancel()
	assert.Error(t, <-hung)
	b.to(t, Ready, 3)
}

// SUP-004, SUP-006: the plugin is told of the drain while calls are in flight. A call that it
// rejects because of that goes to the process that takes its place.
func TestDrainIsAnnounced(t *testing.T) {
	for name, input := range map[string]string{
		"the call ends":       `{:do "until-drained" :generation 1}`,
		"the call is refused": `{:do "until-drained" :generation 1 :refuse? true}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := run(t, as("good")).ready()
			answered := make(chan error, 1)
			go func() { _, err := b.ask(context.Background(), input); answered <- err }()
			b.inFlight(1)
			require.NoError(t, b.Swap(context.Background(), "p", CauseSwap))
			require.NoError(t, <-answered)
		})
	}
}

// SUP-004: calls that outlast the drain are cut, with the reason.
func TestDrainTimeout(t *testing.T) {
	s := as("good")
	s.DrainTimeout = 100 * time.Millisecond
	b := run(t, s).ready()
	hung := make(chan error, 1)
	go func() { _, err := b.ask(context.Background(), `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	begin := time.Now()
	require.NoError(t, b.Restart("p"))
	err := <-hung
	assert.ErrorIs(t, err, contract.OfType("runtime/crashed"))
	assert.Contains(t, err.Error(), "was stopped (restart)")
	assert.GreaterOrEqual(t, time.Since(begin), s.DrainTimeout)
	b.to(t, Ready, 2)
	assert.Equal(t, lived+" ready>draining(restart) draining>starting(restart) starting>configuring(started) configuring>ready(ready)", b.steps())
}

// When the context of Close ends, the remaining processes are killed.
func TestCloseInAHurry(t *testing.T) {
	s := as("good")
	s.StopGrace, s.DrainTimeout = time.Minute, time.Minute
	b := run(t, s).ready()
	hung := make(chan error, 1)
	go func() { _, err := b.ask(context.Background(), `{:do "hang"}`); hung <- err }()
	b.inFlight(1)
	pid := b.pid()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	require.NoError(t, b.Supervisor.Close(ctx))
	assert.Less(t, time.Since(begin), s.StopGrace/2)
	gone(t, pid, 0)
	assert.Error(t, <-hung)
}

func TestOperatorActions(t *testing.T) {
	b := run(t, as("good")).ready()
	require.NoError(t, b.Quarantine("p", "its answers are wrong"))
	q := b.to(t, Quarantined, 1)
	assert.Equal(t, CauseQuarantine, q.Cause)
	_, err := b.ask(context.Background(), `{}`)
	assert.ErrorIs(t, err, contract.OfType("runtime/quarantined"))
	assert.Contains(t, err.Error(), "its answers are wrong")
	require.NoError(t, b.Restart("p"))
	b.to(t, Ready, 2)

	err = b.Restart("pp")
	require.Error(t, err)
	assert.Contains(t, err.Error(), `did you mean "p"?`)
	assert.Error(t, b.Supervisor.Await(context.Background(), "q"))
	_, known := b.Described("q")
	assert.False(t, known)
	d, known := b.Described("p")
	require.True(t, known)
	assert.Equal(t, "fake", d.Name)
	st := b.Status()[0]
	assert.Equal(t, "1.0.0", st.Version)
	assert.Equal(t, d.Binary, st.Binary)

	assert.ErrorContains(t, b.Start(as("good")), "two plugins have the name")
	assert.Error(t, b.Start(Settings{Name: "x"}))
	_, err = b.Client(map[string]Route{"a/b": {Plugin: "nobody"}})
	assert.Error(t, err)
	require.NoError(t, b.Supervisor.Close(context.Background()))
	assert.Error(t, b.Start(as("good")))
}

// SUP-009 and ISO-005: lines have their source and time; logged lines keep
// their level; no line contains a secret.
func TestLogs(t *testing.T) {
	s := as("good")
	s.Config = edn.MustRead(`{:mood "print-secret" :key nil}`)
	s.Secrets = edn.MustRead(`{[:key] "canary-7f3a9"}`)
	b := run(t, s).ready()
	printed := b.line(t, "using key")
	assert.Equal(t, "using key [secret]", printed.Message)
	assert.Equal(t, 1, printed.Generation)
	assert.Equal(t, b.pid(), printed.PID)
	_, err := b.ask(context.Background(), `{:do "exit" :code 3}`)
	require.Error(t, err)
	assert.Contains(t, contract.AsError(err).Details.String(), "exiting on demand")
	assert.Equal(t, "r1", b.line(t, "exiting on demand").Run, "the run that was in flight")
	down := b.to(t, Backoff, 1)
	assert.Contains(t, strings.Join(down.Report.Tail, "\n"), "exiting on demand")

	require.NoError(t, b.Supervisor.Close(context.Background()))
	text, err2 := os.ReadFile(LogPath(b.dataDir, "p"))
	require.NoError(t, err2)
	assert.Contains(t, string(text), `"plugin":"p"`)
	assert.Contains(t, string(text), "ended with exit status 3", "what the plugin could not say itself")
	assert.Contains(t, string(text), `"run":"r1"`)
	for _, where := range []string{string(text), err.Error(), contract.AsError(err).Details.String(), strings.Join(down.Report.Tail, "\n")} {
		assert.NotContains(t, where, "canary")
	}
}

// WIRE-002: plugins that served a run are notified of its end, the others are
// not.
func TestEndRun(t *testing.T) {
	idle := as("good")
	idle.Name = "idle"
	b := run(t, as("good"), idle)
	for _, id := range []string{"p/echo", "idle/echo"} {
		require.NoError(t, b.client.Await(context.Background(), id))
	}
	_, err := b.client.Invoke(context.Background(), call("p/echo", `{}`))
	require.NoError(t, err)
	b.EndRun(context.Background(), "r1")
	b.EndRun(context.Background(), "r1")
	for id, want := range map[string]string{"p/echo": "r1", "idle/echo": ""} {
		a, err := b.client.Invoke(context.Background(), call(id, `{:do "ended"}`))
		require.NoError(t, err)
		runs, _ := out(a).Key("runs").AsString()
		assert.Equal(t, want, runs, id)
	}
}
