//go:build linux

package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The test binary is its own reaper and every plugin that the tests need. The
// first argument selects the plugin, because a program that is only described
// gets no environment.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := strings.CutPrefix(os.Args[1], "role:"); ok {
			act, known := roles[role]
			if !known {
				fmt.Fprintln(os.Stderr, "unknown role", role)
				os.Exit(99)
			}
			played, _ = os.Executable() // a host is a role too
			linger()
			act(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(testMain(m))
}

// linger keeps a role alive whose goroutines all block: without cgo and a
// running timer, the runtime ends such a process as deadlocked.
func linger() { time.AfterFunc(1<<63-1, func() {}) }

// played is the program that runs the roles. It is the test binary, or under
// the race detector a copy built without it, because only the supervisor needs
// the detector and such a process starts many times slower.
var played string

func testMain(m *testing.M) int {
	var err error
	if played, err = os.Executable(); err == nil && raceDetector {
		var dir string
		if dir, err = os.MkdirTemp("", "fer-roles-"); err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			played = filepath.Join(dir, "roles")
			var out []byte
			if out, err = exec.Command("go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", played, ".").CombinedOutput(); err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the program that plays the roles:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience ends what hangs. It is long, because a busy machine may be slow.
const patience = 2 * time.Minute

// atMost is the limit of something that must be fast. Under the race detector,
// which also slows the supervisor, it only ends what hangs.
func atMost(limit time.Duration) time.Duration {
	if raceDetector {
		return 30 * time.Second
	}
	return limit
}

// quick keeps the race detector from waiting a second at each exit.
const quick = "atexit_sleep_ms=0"

// as returns the settings of a plugin with a role, with short times.
func as(role string, args ...string) Settings {
	s := DefaultSettings("p", append([]string{played, "role:" + role}, args...)...)
	s.Env = map[string]string{"GORACE": quick}
	s.Restart.Backoff, s.Restart.MaxBackoff, s.Restart.Jitter = 10*time.Millisecond, 20*time.Millisecond, 0
	s.StopGrace = time.Second
	return s
}

// journal records what a supervisor reports.
type journal struct {
	mu          sync.Mutex
	transitions []Transition
	lines       []Line
	stated      []Statement
	changed     chan struct{}
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

func (j *journal) Transition(t Transition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.transitions = append(j.transitions, t)
	j.wake()
}

func (j *journal) Health(told Statement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stated = append(j.stated, told)
	j.wake()
}

// last is the last statement.
func (j *journal) last() Statement {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stated[len(j.stated)-1]
}

func (j *journal) Log(l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
	j.wake()
}

// logged returns the lines whose message has a text.
func (j *journal) logged(text string) (out []Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.Contains(l.Message, text) {
			out = append(out, l)
		}
	}
	return out
}

func (j *journal) wake() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) all() []Transition {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Transition(nil), j.transitions...)
}

// steps formats the transitions: "starting>configuring(started)".
func (j *journal) steps() string {
	var words []string
	for _, t := range j.all() {
		words = append(words, fmt.Sprintf("%s>%s(%s)", t.From, t.To, t.Cause))
	}
	return strings.Join(words, " ")
}

// until waits for a matching transition.
func (j *journal) until(t testing.TB, what string, fits func(Transition) bool) Transition {
	t.Helper()
	return waitIn(t, j, what, func() (Transition, bool) {
		for _, tr := range j.transitions {
			if fits(tr) {
				return tr, true
			}
		}
		return Transition{}, false
	})
}

// to waits for the n-th transition to a state.
func (j *journal) to(t testing.TB, state State, n int) Transition {
	t.Helper()
	return waitIn(t, j, fmt.Sprintf("transition %d to %s", n, state), func() (Transition, bool) {
		seen := 0
		for _, tr := range j.transitions {
			if tr.To == state {
				if seen++; seen == n {
					return tr, true
				}
			}
		}
		return Transition{}, false
	})
}

// line waits for a line that contains text.
func (j *journal) line(t testing.TB, text string) Line {
	t.Helper()
	return waitIn(t, j, "line with "+text, func() (Line, bool) {
		for _, l := range j.lines {
			if strings.Contains(l.Message, text) {
				return l, true
			}
		}
		return Line{}, false
	})
}

func waitIn[T any](t testing.TB, j *journal, what string, look func() (T, bool)) T {
	t.Helper()
	timeout := time.After(patience)
	for {
		j.mu.Lock()
		found, ok := look()
		changed := j.changed
		j.mu.Unlock()
		if ok {
			return found
		}
		select {
		case <-changed:
		case <-timeout:
			require.FailNow(t, "no "+what, j.steps())
		}
	}
}

// bench is a supervisor under test.
type bench struct {
	*Supervisor
	*journal
	t       testing.TB
	client  *Client
	runtime *rundir.Dir
	dataDir string
}

// run starts plugins and closes everything at the end of the test. Every role
// serves the capability t/echo.
func run(t testing.TB, plugins ...Settings) *bench {
	t.Helper()
	b := prepare(t, nil)
	b.begin(plugins...)
	return b
}

func prepare(t testing.TB, change func(*Options)) *bench {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "fp")
	require.NoError(t, err)
	dir, err := rundir.Open(filepath.Join(base, "f"))
	require.NoError(t, err)
	b := &bench{journal: newJournal(), t: t, runtime: dir, dataDir: t.TempDir()}
	o := Options{DataDir: b.dataDir, Runtime: dir, Host: wire.HostInfo{Version: "test", Features: wire.HostFeatures()}, Sink: b.journal}
	if change != nil {
		change(&o)
	}
	b.Supervisor, err = New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, b.Supervisor.Close(ctx))
		require.NoError(t, dir.Close())
		require.NoError(t, os.RemoveAll(base))
	})
	return b
}

func (b *bench) begin(plugins ...Settings) {
	b.t.Helper()
	require.NoError(b.t, b.Start(plugins...))
	routes := map[string]Route{}
	for _, p := range plugins {
		routes["t/echo"] = Route{Plugin: p.Name}
		routes[p.Name+"/echo"] = Route{Plugin: p.Name}
		routes[p.Name+"/again"] = Route{Plugin: p.Name}
	}
	var err error
	b.client, err = b.Client(routes)
	require.NoError(b.t, err)
}

// ready waits until the first plugin takes calls.
func (b *bench) ready() *bench {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(b.t, b.client.Await(ctx, "t/echo"), b.steps())
	return b
}

// ask makes a call whose input tells the plugin what to do.
func (b *bench) ask(ctx context.Context, input string) (dispatch.Answer, error) {
	return b.client.Invoke(ctx, request(input))
}

func request(input string) dispatch.Call {
	return dispatch.Call{
		CapID: "t/echo", Run: "r1", Node: "n1", Attempt: 1,
		Request: edn.MustRead(`{:proto 1 :task {:intent :t/echo :cap/id :t/echo} :input ` + input + `}`),
	}
}

// call is a request to one of several plugins.
func call(capID, input string) dispatch.Call {
	c := request(input)
	c.CapID = capID
	return c
}

// out returns the value of an answer.
func out(a dispatch.Answer) edn.Value { return a.Response.Key("result").Key("out") }

func (b *bench) mustAsk(input string) edn.Value {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := b.ask(ctx, input)
	require.NoError(b.t, err)
	return out(a)
}

// inFlight waits until the plugin has n calls in flight.
func (b *bench) inFlight(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.Status()[0].InFlight == n }, patience, time.Millisecond)
}

func (b *bench) pid() int { return b.Status()[0].PID }

// gone waits for the end of a process that need not be a child.
func gone(t testing.TB, pid int, limit time.Duration) {
	t.Helper()
	require.True(t, died(pid, limit), "process %d lives after %s", pid, limit)
}

func died(pid int, limit time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer func() { _ = unix.Close(fd) }()
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err == nil && n == 1 {
			return true
		}
	}
}

// Described returns the description of the current edition; false before the
// first Describe.
func (b *bench) Described(plugin string) (Described, bool) {
	u, err := b.unit(plugin)
	if err != nil {
		return Described{}, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if d := u.current.described.Load(); d != nil {
		return *d, true
	}
	return Described{}, false
}
