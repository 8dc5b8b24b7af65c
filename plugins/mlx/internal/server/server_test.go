//go:build unix

package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
	"github.com/fermenthq/ferment/plugins/mlx/internal/servertest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

func TestMain(m *testing.M) {
	servertest.Main(os.Args)
	goleak.VerifyTestMain(m)
}

// patience is the timeout of a test's expectations.
const patience = 30 * time.Second

// rig is a plan for one scripted server, and its results.
type rig struct {
	*Plan
	t    testing.TB
	pids []int
}

// lastPort is the last port used by a test of this process. The ports lie below
// the ephemeral range, from which parallel tests get theirs.
var lastPort atomic.Uint32

// freePorts returns free ports.
func freePorts(t testing.TB, n int) []uint16 {
	t.Helper()
	lastPort.CompareAndSwap(0, uint32(10_000+os.Getpid()%90*100))
	var ports []uint16
	for len(ports) < n {
		port := uint16(lastPort.Add(1))
		// A process that a parallel test is starting would hold the socket
		// until its exec.
		syscall.ForkLock.RLock()
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err == nil {
			err = l.Close()
		}
		syscall.ForkLock.RUnlock()
		if err != nil {
			continue
		}
		ports = append(ports, port)
	}
	return ports
}

func newRig(t testing.TB, words ...string) *rig {
	command := servertest.Command(words...)
	r := &rig{t: t, Plan: &Plan{
		Command: func(port uint16) []string {
			c := append([]string(nil), command...)
			c[2] = strconv.Itoa(int(port))
			return c
		},
		Env:   []string{"GORACE=atexit_sleep_ms=0"},
		Ports: freePorts(t, 1), ReadyPath: "/health", Path: "/v1/chat/completions",
		Question: []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`),
		Startup:  patience, Clock: transport.System(), Rungs: DefaultRungs(), Hint: "install it",
	}}
	return r
}

func (r *rig) start() (*Server, *contract.Error) {
	return r.Start(r.t.Context(), func(uint16) bool { return false }, func(pid int, _ uint16) { r.pids = append(r.pids, pid) })
}

// up starts a server that becomes ready, and stops it with the test.
func (r *rig) up() *Server {
	r.t.Helper()
	s, err := r.start()
	require.Nil(r.t, err, "%v", err)
	r.t.Cleanup(func() {
		s.Kill()
		s.Gone()
	})
	return s
}

// gone fails the test if a process of the rig is left.
func (r *rig) gone(also ...int) {
	r.t.Helper()
	for _, pid := range append(r.pids, also...) {
		require.Eventually(r.t, func() bool { return !alive(pid) }, patience, 5*time.Millisecond, "process %d is left", pid)
	}
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// MLX-004, MLX-021, MLX-003: the result of a start for every behavior of a
// server; no process is left of a failed one.
func TestStart(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		words   []string
		change  func(*rig)
		typ     string // "": it becomes ready
		message string
		spawns  int // -1: none
	}{
		"answers at once":            {},
		"loads for a while":          {words: []string{"loading=3"}},
		"has no ready path":          {words: []string{"nohealth"}},
		"has not loaded weights yet": {words: []string{"first=503:loading"}},
		"fails the first question":   {words: []string{"first=500:not yet"}},
		"refuses the question":       {words: []string{`first=404:{"error":"no such model"}`}, typ: "model/start-failed", message: "no such model"},
		"is no model server":         {words: []string{"first=200:<html>"}, typ: "model/start-failed", message: "without :choices"},
		"ends":                       {words: []string{"say=it is broken", "exit=3"}, typ: "model/start-failed", message: "exit status 3: it is broken"},
		"ends cleanly":               {words: []string{"exit=0"}, typ: "model/start-failed", message: "exit status 0"},
		"has no library":             {words: []string{"say=ModuleNotFoundError: No module named 'mlx'", "exit=1"}, typ: "model/unavailable", message: "No module named 'mlx'"},
		"is for another machine":     {words: []string{"say=mlx requires macOS 13.5", "exit=1"}, typ: "model/unavailable", message: "requires macOS"},
		"is no command of a shell":   {words: []string{"exit=127"}, typ: "model/unavailable"},
		"has no memory":              {words: []string{"say=RuntimeError: [metal::malloc] Unable to allocate 9 bytes", "exit=1"}, typ: "model/out-of-memory"},
		"has no memory for it":       {words: []string{"first=503:out of memory"}, typ: "model/out-of-memory"},
		"takes too long":             {words: []string{"never"}, change: func(r *rig) { r.Startup = 300 * time.Millisecond }, typ: "model/start-timeout", message: "nothing"},
		"loads for too long":         {words: []string{"loading=1000000"}, change: func(r *rig) { r.Startup = 3 * time.Second }, typ: "model/start-timeout", message: "status 503 to /health"},
		"never takes the question":   {words: []string{"each=501:no"}, change: func(r *rig) { r.Startup = 3 * time.Second }, typ: "model/start-timeout", message: "status 501 to /v1/chat/completions"},
		"is deaf and takes too long": {words: []string{"never", "deaf", "fork"}, change: func(r *rig) { r.Startup = 300 * time.Millisecond }, typ: "model/start-timeout"},
		"answers elsewhere":          {words: []string{"elsewhere"}, change: func(r *rig) { r.Startup = 3 * time.Second }, typ: "model/start-timeout"},
		"writes a lot":               {words: []string{"spew=67108864"}},
		"is not there":               {change: func(r *rig) { r.Command = func(uint16) []string { return []string{"no-such-server"} } }, typ: "model/unavailable", message: "no-such-server is not in PATH", spawns: -1},
		"is not executable":          {change: func(r *rig) { r.Command = func(uint16) []string { return []string{"/etc/passwd"} } }, typ: "model/unavailable", message: "/etc/passwd: is not executable", spawns: -1},
		"is a directory":             {change: func(r *rig) { r.Command = func(uint16) []string { return []string{"/etc"} } }, typ: "model/unavailable", message: "is a directory", spawns: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, row.words...)
			if row.change != nil {
				row.change(r)
			}
			s, err := r.start()
			for err != nil && err.Type == "model/port-in-use" { // another process took the free port
				r = newRig(t, row.words...)
				if row.change != nil {
					row.change(r)
				}
				s, err = r.start()
			}
			if err != nil && err.Type == "model/start-timeout" && !strings.Contains(err.Message, row.message) {
				// A busy machine did not start the server within the short time.
				r = newRig(t, row.words...)
				r.Startup = patience
				s, err = r.start()
			}
			if row.typ == "" {
				require.Nil(t, err, "%v", err)
				assert.LessOrEqual(t, len(strings.Join(s.tail.Lines(), "")), launch.TailBytes)
				s.Kill()
				s.Gone()
				r.gone()
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, row.typ, err.Type, "%v", err)
			assert.Contains(t, err.Message, row.message)
			r.gone()
			if row.spawns == -1 {
				assert.Empty(t, r.pids)
				assert.Equal(t, "install it", err.Hint)
			} else {
				assert.Len(t, r.pids, 1)
			}
			if strings.HasPrefix(row.message, "exit status 3") {
				assert.Equal(t, `["it is broken"]`, err.Details.Key("output").String())
				assert.Equal(t, "3", err.Details.Key("exit/status").String())
			}
		})
	}
}

// MLX-006: a server that listens on more than loopback is stopped.
func TestOpenServer(t *testing.T) {
	t.Parallel()
	if len(launch.Listeners(mine(t))) == 0 {
		return // the system does not report listeners
	}
	r := newRig(t, "open")
	_, err := r.start()
	require.NotNil(t, err)
	assert.Equal(t, "model/start-failed", err.Type)
	assert.Contains(t, err.Message, "0.0.0.0")
	r.gone()
}

// mine returns a port on which this process listens.
func mine(t testing.TB) uint16 {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// MLX-003: a used fixed port is an error at once that names the process using
// it, and no process is started; of several ports a free one is found.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	taken := mine(t)
	r.Ports, r.Fixed = []uint16{taken}, true
	_, err := r.start()
	require.NotNil(t, err)
	assert.Equal(t, "model/port-in-use", err.Type)
	assert.Equal(t, edn.Vector(edn.Int(int64(taken))).String(), err.Details.Key("ports").String())
	if len(launch.Listeners(taken)) > 0 {
		assert.Equal(t, edn.Vector(edn.Int(int64(os.Getpid()))).String(), err.Details.Key("pids").String())
	}
	assert.Empty(t, r.pids)

	r.Ports, r.Fixed = append([]uint16{taken}, freePorts(t, 1)...), false
	assert.Equal(t, r.Ports[1], r.up().Port())
}

// MLX-003: another process takes the port between check and start. A fixed port
// is then in use; of several ports the next is tried, three times.
func TestPortRace(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name          string
		fixed         bool
		thefts, tries int
	}{{"fixed", true, 1, 1}, {"one theft", false, 1, 2}, {"too many thefts", false, 5, 3}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			r := newRig(t, "gate="+gate)
			r.Ports, r.Fixed = freePorts(t, 5), row.fixed
			var tried []uint16
			s, err := r.Start(t.Context(), func(uint16) bool { return false }, func(_ int, port uint16) {
				if tried = append(tried, port); len(tried) <= row.thefts {
					occupy(t, port)
				}
				require.NoError(t, os.WriteFile(fmt.Sprintf("%s-%d", gate, port), nil, 0o600))
			})
			assert.Len(t, tried, row.tries)
			if row.thefts < row.tries {
				require.Nil(t, err, "%v", err)
				assert.Equal(t, tried[1], s.Port())
				s.Kill()
				s.Gone()
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, "model/port-in-use", err.Type)
		})
	}
}

// MLX-003: a model server that this process must not see takes the port between
// check and start. Its answers do not make this server ready.
func TestUnseenThief(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	r := newRig(t, "gate="+gate)
	r.Ports = freePorts(t, 2)
	r.listen = func(port uint16) []launch.Listener {
		all := launch.Listeners(port)
		for i, l := range all {
			if !slices.ContainsFunc(l.Sessions, func(pid int) bool { return slices.Contains(r.pids, pid) }) {
				all[i].PIDs, all[i].Sessions = nil, nil
			}
		}
		return all
	}
	var thief *Server
	s, err := r.Start(t.Context(), func(uint16) bool { return false }, func(pid int, port uint16) {
		if r.pids = append(r.pids, pid); thief == nil {
			other := newRig(t)
			other.Ports = []uint16{port}
			thief = other.up()
			time.AfterFunc(firstProbe, func() { _ = os.WriteFile(gate, nil, 0o600) })
		}
	})
	require.Nil(t, err, "%v", err)
	defer s.Gone()
	defer s.Kill()
	assert.Equal(t, r.Ports[0], thief.Port())
	assert.Equal(t, r.Ports[1], s.Port())
	assert.Len(t, r.pids, 2)
}

// A server whose listener this process cannot see, such as one that runs as
// another user, becomes ready nevertheless.
func TestUnseenListener(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := 0
	r.listen = func(uint16) []launch.Listener {
		asked++
		return []launch.Listener{{Addr: netip.MustParseAddr("127.0.0.1")}}
	}
	assert.Equal(t, r.Ports[0], r.up().Port())
	assert.Equal(t, maxDoubts+1, asked)
}

// occupy listens on a port. Processes that other tests are starting may briefly
// hold the socket that checked the port.
func occupy(t testing.TB, port uint16) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err == nil
	}, patience, time.Millisecond)
}

// A canceled start ends at once, together with its process.
func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, "never", "deaf")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.Start(ctx, func(uint16) bool { return false }, func(pid int, _ uint16) {
		r.pids = append(r.pids, pid)
		cancel()
	})
	require.NotNil(t, err)
	r.gone()
}

// MLX-008: the limits of the contract.
func TestRungsOfTheContract(t *testing.T) {
	const two = 2 * time.Second
	assert.Equal(t, Rungs{Quit: two, Interrupt: two, Terminate: two, Kill: two}, DefaultRungs())
}

// MLX-008: each step is tried in turn; the last is SIGKILL to all.
func TestStopLadder(t *testing.T) {
	t.Parallel()
	// Only steps that the server ignores are waited for in full, so only these
	// limits are short.
	patient := Rungs{Quit: patience, Interrupt: patience, Terminate: patience, Kill: patience}
	unread, deaf := patient, patient
	unread.Quit = 300 * time.Millisecond
	deaf.Interrupt, deaf.Terminate = time.Second, time.Second
	for name, row := range map[string]struct {
		words  []string
		change func(*Plan)
		busy   bool
		steps  string
		heard  string
	}{
		"a path":                    {change: func(p *Plan) { p.QuitPath = "/quit" }, steps: "quit", heard: "quit"},
		"a line":                    {words: []string{"stdin"}, change: func(p *Plan) { p.QuitLine = "bye" }, steps: "quit", heard: "bye"},
		"a line that nobody reads":  {change: func(p *Plan) { p.QuitLine = "bye" }, steps: "quit interrupt", heard: "interrupt"},
		"a path that is not there":  {change: func(p *Plan) { p.QuitPath = "/nowhere" }, steps: "quit interrupt", heard: "interrupt"},
		"an interrupt":              {steps: "interrupt", heard: "interrupt"},
		"deaf":                      {words: []string{"deaf"}, steps: "interrupt terminate kill", heard: "interrupt terminated"},
		"deaf with a deaf child":    {words: []string{"deaf", "fork"}, steps: "interrupt terminate kill", heard: "interrupt terminated"},
		"a child that outlives it":  {words: []string{"fork"}, steps: "interrupt", heard: "interrupt"},
		"a call that does not end":  {busy: true, change: func(p *Plan) { p.Drain = 200 * time.Millisecond }, steps: "drain interrupt", heard: "interrupt"},
		"idle, so nothing to drain": {change: func(p *Plan) { p.Drain = patience }, steps: "drain interrupt", heard: "interrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "mark")
			r := newRig(t, append(row.words, "mark="+mark)...)
			r.Rungs = patient
			switch {
			case strings.HasPrefix(row.steps, "quit interrupt"):
				r.Rungs = unread
			case strings.HasSuffix(row.steps, "kill"):
				r.Rungs = deaf
			}
			if row.change != nil {
				row.change(r.Plan)
			}
			s := r.up()
			idle := make(chan struct{})
			if !row.busy {
				close(idle)
			}
			var steps []string
			for _, step := range s.Stop(context.Background(), idle) {
				steps = append(steps, step.Name)
			}
			s.Gone()
			if row.change == nil || r.Drain == 0 {
				steps = without(steps, "drain")
			}
			assert.Equal(t, row.steps, strings.Join(steps, " "))
			pids, heard := marks(t, mark)
			assert.Equal(t, row.heard, heard)
			r.gone(pids...)
		})
	}
}

func without(all []string, word string) []string {
	var kept []string
	for _, s := range all {
		if s != word {
			kept = append(kept, s)
		}
	}
	return kept
}

// marks returns the processes that a server recorded, and the signals it
// received.
func marks(t testing.TB, file string) (pids []int, heard string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var words []string
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "start "); ok {
			n, err := strconv.Atoi(pid)
			require.NoError(t, err)
			pids = append(pids, n)
			continue
		}
		words = append(words, strings.TrimSpace(line))
	}
	return pids, strings.Join(words, " ")
}

// MLX-021: a server stopped by SIGSTOP does not respond and is killed
// nevertheless.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Rungs = Rungs{Interrupt: 100 * time.Millisecond, Terminate: 100 * time.Millisecond, Kill: patience}
	s := r.up()
	assert.True(t, s.Responds(t.Context()))
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
		return err != nil || strings.Contains(string(stat), ") T ")
	}, patience, time.Millisecond)
	assert.False(t, s.Responds(t.Context()))
	s.Stop(context.Background(), nil)
	s.Gone()
	r.gone()
}

// MLX-009: the causes of a server's death.
func TestDied(t *testing.T) {
	t.Parallel()
	s := newRig(t).up()
	begin := time.Now()
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	s.Gone()
	err := s.Died()
	assert.Equal(t, "model/died", err.Type)
	assert.Equal(t, strconv.Itoa(int(syscall.SIGKILL)), err.Details.Key("exit/signal").String())
	assert.Less(t, time.Since(begin), patience)
}

// MLX-007: when this process is killed, a second one kills the server and its
// whole session. The plugin's own tests cover the rest.
func TestGuard(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	r := newRig(t, "deaf", "fork", "mark="+mark)
	r.Reaper = launch.NewReaper("")
	s := r.up()
	pids, _ := marks(t, mark)
	require.Len(t, pids, 2)
	require.NoError(t, r.Reaper.Close(), "its end has it kill what it was told of")
	r.gone(pids...)
	s.Gone()
}
