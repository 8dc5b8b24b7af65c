//go:build linux

package plugin

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	records "github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The figures of plugins.md section 8 for calls through dispatch: a call
// survives the loss of its process.

// node is a node of a plan whose candidates are the plugins of a bench.
type node struct {
	dispatcher *dispatch.Dispatcher
	policy     *dispatch.CallPolicy
	records    *dispatchtest.Records
	calls      atomic.Int64
}

// node returns a node with so many retries per candidate and so many fallbacks.
// A candidate is a capability, or a plugin that serves one.
func (b *bench) node(same, fallback int, candidates ...string) *node {
	var caps []string
	for _, id := range candidates {
		if !strings.Contains(id, "/") {
			id += "/echo"
		}
		caps = append(caps, dispatchtest.Cap(id, ""))
	}
	w := dispatchtest.New(b.t, dispatchtest.Spec{Caps: caps})
	w.Dispatcher.Executor = b.client
	here := policy.Origin{Source: policy.SourceNode}
	layer := policy.Layer{SameCapMax: policy.Of(same, here), FallbackMax: policy.Of(fallback, here)}
	p, err := layer.Resolve()
	require.NoError(b.t, err)
	return &node{dispatcher: w.Dispatcher, policy: w.Dispatcher.CallPolicy(p, "text/respond", ""), records: dispatchtest.NewRecords(b.t)}
}

func (n *node) serve(ctx context.Context, input string) *dispatch.Result {
	id := "run_" + strconv.FormatInt(n.calls.Add(1), 10)
	return n.dispatcher.Serve(ctx, &dispatch.Run{ID: id, Trace: edn.MustRead(`{:id "t"}`), Recorder: n.records, Base: ctx}, &dispatch.Work{
		Op: "call", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: "text/respond", Policy: n.policy, Input: edn.MustRead(input),
	})
}

// One crash with 50 calls in flight is one diagnostic with their number, and
// all 50 are answered: by the next process, a standby, the next candidate, or
// the edition that was promoted meanwhile.
func TestFiftyCallsOutliveACrash(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		same, fallback int
		change         func(*Settings)
	}{
		"the next generation": {1, 0, func(*Settings) {}},
		"a warm process":      {1, 0, func(s *Settings) { s.Instances.Standby = 1 }},
		"the next candidate":  {0, 1, func(s *Settings) { s.Restart.Policy = Never }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, other := as("good"), as("good")
			s.Config = edn.MustRead(`{:mood "stalls"}`)
			other.Name = "q"
			row.change(&s)
			b := run(t, other, s).ready()
			require.NoError(t, b.Await(within(t), "q"))
			if s.Instances.Standby > 0 {
				b.eventually(1, "a warm process", warm)
			}
			var victim Status
			for _, st := range b.Status() {
				if st.Plugin == "p" && st.Role == Working {
					victim = st
				}
			}
			n := b.node(row.same, row.fallback, "p", "q")
			results := make([]*dispatch.Result, 50)
			var calls sync.WaitGroup
			for i := range results {
				calls.Go(func() {
					results[i] = n.serve(within(t), `{:do "stall" :generation `+strconv.Itoa(victim.Generation)+`}`)
				})
			}
			require.Eventually(t, func() bool {
				return b.sum(func(st Status) int {
					if st.PID == victim.PID {
						return st.InFlight
					}
					return 0
				}) == 50
			}, patience, time.Millisecond)
			require.NoError(t, syscall.Kill(victim.PID, syscall.SIGKILL))
			calls.Wait()
			for _, r := range results {
				require.Nil(t, r.Err)
				assert.Len(t, r.Attempts, 2)
				assert.Equal(t, "runtime/crashed", r.Attempts[0].Failure)
			}
			var crashes []Transition
			for _, tr := range b.journal.all() {
				if tr.Report != nil && tr.Cause == CauseCrashed {
					crashes = append(crashes, tr)
				}
			}
			require.Len(t, crashes, 1, b.steps())
			assert.Equal(t, 50, crashes[0].Calls)
			said := 0
			b.journal.mu.Lock()
			for _, l := range b.journal.lines {
				if strings.Contains(l.Message, "was killed by SIGKILL") {
					said++
				}
			}
			b.journal.mu.Unlock()
			assert.Equal(t, 1, said, "one diagnostic in the log")
		})
	}
}

// ATT-008 row 7, SUP-005: calls whose candidates are all in one plugin survive
// its process repeatedly: each waits for the next process and asks the next
// candidate, and its record shows the wait.
func TestCallsWaitForTheirOnlyPlugin(t *testing.T) {
	t.Parallel()
	const rounds, calls = 5, 8
	s := as("good")
	s.Config = edn.MustRead(`{:mood "stalls"}`)
	s.Restart.Max = 2 * rounds
	b := run(t, s).ready()
	n := b.node(0, 1, "p/echo", "p/again")
	for range rounds {
		require.NoError(t, b.Await(within(t), "p"))
		victim := b.Status()[0]
		results := make([]*dispatch.Result, calls)
		var callers sync.WaitGroup
		for i := range results {
			callers.Go(func() {
				results[i] = n.serve(within(t), `{:do "stall" :generation `+strconv.Itoa(victim.Generation)+`}`)
			})
		}
		b.inFlight(calls)
		require.NoError(t, syscall.Kill(victim.PID, syscall.SIGKILL))
		callers.Wait()
		for _, r := range results {
			require.Nil(t, r.Err)
			require.GreaterOrEqual(t, len(r.Attempts), 2)
			assert.Equal(t, "p/again", r.CapID)
		}
	}
	waited := 0
	for _, r := range n.records.All() {
		if a, ok := r.Body.(*records.AttemptStarted); ok && a.Waited > 0 {
			assert.Equal(t, "p/again", a.CapID)
			waited++
		}
	}
	assert.GreaterOrEqual(t, waited, rounds*calls)
}

// chaosCalls is the number of calls that random kills must not lose.
const chaosCalls = 2000

// children returns the live child processes with an argument.
func children(t testing.TB, arg string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	parent := "PPid:\t" + strconv.Itoa(os.Getpid()) + "\n"
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil || !strings.Contains(string(status), parent) {
			continue
		}
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && strings.Contains(string(text), arg) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// takeover is the time from the end of a process to the next answer.
func takeover(b *bench) time.Duration {
	b.t.Helper()
	b.eventually(1, "one that works", working)
	pid := 0
	for _, st := range b.Status() {
		if working(st) {
			pid = st.PID
		}
	}
	exit := make(chan time.Time, 1)
	go func() {
		died(pid, patience)
		exit <- time.Now()
	}()
	require.NoError(b.t, syscall.Kill(pid, syscall.SIGKILL))
	for {
		ctx := within(b.t)
		if _, err := b.ask(ctx, `{}`); err == nil {
			answered := time.Now()
			select {
			case at := <-exit:
				return answered.Sub(at)
			default: // the old process answered before its end
				continue
			}
		}
		require.NoError(b.t, b.client.Await(ctx, "t/echo"))
	}
}

// The cost of a crash for the next call, with and without a standby.
func BenchmarkTakeover(b *testing.B) {
	for name, standby := range map[string]int{"cold": 0, "standby": 1} {
		b.Run(name, func(b *testing.B) {
			s := pool(1, 1, standby)
			s.Restart.Max, s.Restart.Backoff, s.Restart.MaxBackoff = 1000, 0, 0
			up := run(b, s).ready()
			var total time.Duration
			for b.Loop() {
				if standby > 0 {
					up.eventually(1, "a warm one", warm)
				}
				total += takeover(up)
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/takeover")
		})
	}
}
