package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// served is a running daemon.
type served struct {
	*process
	w       *world
	address string // of its first listener
	socket  string
	pid     int
	client  *http.Client
}

// logLine is one line of the daemon's log.
type logLine map[string]any

func (l logLine) text(key string) string { s, _ := l[key].(string); return s }

// logged returns the first log line from an index on that fits.
func (p *process) logged(from int, fits func(logLine) bool) (logLine, int, bool) {
	for i := from; ; i++ {
		text, ok := p.line(i)
		if !ok {
			return nil, i, false
		}
		var l logLine
		if json.Unmarshal([]byte(text), &l) == nil && fits(l) {
			return l, i, true
		}
	}
}

func said(message string) func(logLine) bool {
	return func(l logLine) bool { return l.text("@message") == message }
}

// serve starts a daemon and waits until it is ready.
func (w *world) serve(args ...string) *served {
	w.t.Helper()
	return w.serveLimit(runLimit, args...)
}

func (w *world) serveLimit(limit time.Duration, args ...string) *served {
	w.t.Helper()
	p := w.launchLimit(limit, "", built.ferment, append([]string{"serve"}, args...)...)
	l, _, ok := p.logged(0, said("ready"))
	if !ok {
		got := p.wait()
		require.Fail(w.t, "the daemon does not get ready", "exit %d\n%s", got.code, got.stderr)
	}
	s := &served{process: p, w: w, pid: p.cmd.Process.Pid, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for _, a := range l["listen"].([]any) {
		if address := a.(string); strings.HasPrefix(address, "/") {
			s.socket = address
		} else if s.address == "" {
			s.address = address
		}
	}
	require.False(w.t, strings.HasSuffix(s.address, ":7180"), "a test takes a free port: others may use the usual one")
	w.t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (a answer) value(t testing.TB) edn.Value {
	t.Helper()
	require.NoError(t, a.err)
	v, err := edn.Read(a.body, edn.WithLimits(edn.Body))
	require.NoError(t, err, "%d %s", a.status, a.body)
	return v
}

func (a answer) failure(t testing.TB) string {
	t.Helper()
	return word(a.value(t).Key("error").Key("type"))
}

func (s *served) request(ctx context.Context, method, path, body string, header ...string) answer {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/edn")
	}
	r.Header.Set("Accept", "application/edn")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return perform(s.client, r)
}

func perform(c *http.Client, r *http.Request) answer {
	resp, err := c.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: text, err: err}
}

// ask calls an intent.
func (s *served) ask(intent, input string) answer {
	return s.request(context.Background(), "POST", "/v1/act", envelopeOf(intent, input, ""))
}

func envelopeOf(intent, input, more string) string {
	return fmt.Sprintf(`{:proto 1 :trace {:id "t"} :task {:intent :%s} :input %s %s}`, intent, input, more)
}

// stop stops the daemon and requires a clean exit.
func (s *served) stop() ended {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	got := s.wait()
	require.Equal(s.t, 0, got.code, got.stderr)
	return got
}

const testProfile = "ferment {\n  profile = \"test\"\n}\n\n"

// answering is a world with a plugin that answers immediately, a slow one, and
// one that never answers.
func answering(t testing.TB, more ...string) *world {
	return newWorld(t,
		"ferment.hcl", testProfile+scripted("mine")+strings.Join(more, "\n"),
		"mine.edn", `{:capabilities
 {:mine/data {:intents #{:mine/data} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1 :list [1 2.5 3M #{:a}]}}]}
  :mine/slow {:intents #{:mine/slow} :in-schema :req/any :out-schema :res/any :steps [{:delay-ms 700 :value {:n 2}}]}
  :mine/hang {:intents #{:mine/hang} :in-schema :req/any :out-schema :res/any :steps [{:hang true}]}}}`)
}

// OPS-001, OPS-002, OPS-004, HTTP-007, FX-005: a daemon becomes ready, reports
// the confinement of its plugins, answers, and shuts down without leaving a
// process, socket, token or scratch directory. AUTH-030: socket and token are
// private, and each daemon process has its own token; httpapi tests their use.
func TestServe(t *testing.T) {
	t.Parallel()
	w := answering(t)
	s := w.serve()
	a := s.ask("mine/data", "{}")
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, "{:list [1 2.5 3M #{:a}] :n 1}", a.value(t).Key("result").Key("out").String())
	assert.Regexp(t, `^run_[0-9A-Z]{26}$`, a.header.Get("Ferment-Run-Id"))
	ready := s.request(context.Background(), "GET", "/ready", "").value(t)
	assert.Equal(t, ":test", ready.Key("profile").String())
	health := s.request(context.Background(), "GET", "/health", "").value(t)
	assert.Equal(t, "{:best-effort 0 :enforcement {:kernel 1} :level :strict :udp :held}", health.Key("isolation").String())
	for path, mode := range map[string]os.FileMode{"var": 0o700, "var/run": 0o700, "var/run/admin.sock": 0o600, "var/run/admin.token": 0o600, "var/LOCK": 0o600} {
		info, err := os.Stat(filepath.Join(w.dir, path))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), path)
	}
	token, err := os.ReadFile(filepath.Join(w.dir, "var/run/admin.token"))
	require.NoError(t, err)
	s.stop()
	next := w.serve()
	nextToken, err := os.ReadFile(filepath.Join(w.dir, "var/run/admin.token"))
	require.NoError(t, err)
	assert.NotEqual(t, string(token), string(nextToken))
	next.stop()
	for _, path := range []string{"var/run/admin.sock", "var/run/admin.token"} {
		assert.NoFileExists(t, filepath.Join(w.dir, path))
	}
	left, err := os.ReadDir(filepath.Join(w.dir, "var", "work"))
	require.NoError(t, err)
	assert.Empty(t, left, "scratch directories")
	assert.Empty(t, w.left(endLimit))
}

// OPS-004: a run in progress at SIGTERM gets its answer, later ones are
// rejected with a retry time, and the exit is clean.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	s := answering(t).serve()
	slow := make(chan answer, 1)
	go func() { slow <- s.ask("mine/slow", "{}") }()
	require.Eventually(t, func() bool { return s.inFlight("mine") == 1 }, 10*time.Second, 5*time.Millisecond)
	s.signal(syscall.SIGTERM)
	require.Eventually(t, func() bool {
		return s.request(context.Background(), "GET", "/ready", "").status == 503
	}, 10*time.Second, 2*time.Millisecond)
	refused := s.ask("mine/data", "{}")
	assert.Equal(t, 503, refused.status)
	assert.Equal(t, "runtime/draining", refused.failure(t))
	assert.Equal(t, "1", refused.header.Get("Retry-After"))
	a := <-slow
	assert.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, 0, s.wait().code)
	assert.Empty(t, s.w.left(endLimit))
}

// admin executes an action over the admin socket.
func (s *served) admin(action string) answer {
	s.t.Helper()
	return s.operator("POST", "/v1/admin", action)
}

// operator sends a request over the admin socket.
func (s *served) operator(method, path, body string, header ...string) answer {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.w.dir, "var", "run", "admin.token"))
	require.NoError(s.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}}}
	r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/edn")
	}
	r.Header.Set("Accept", "application/edn")
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return perform(client, r)
}

// inFlight returns the number of calls in progress that the process of a
// plugin reports.
func (s *served) inFlight(name string) int {
	for p := range s.admin(`{:action :plugin-list}`).value(s.t).Key("result").Key("plugins").Elems() {
		if text, _ := p.Key("plugin").AsString(); text != name {
			continue
		}
		n := int64(0)
		for i := range p.Key("instances").Elems() {
			calls, _ := i.Key("in-flight").AsInt()
			n += calls
		}
		return int(n)
	}
	return -1
}

// OPS-004: runs that exceed the drain timeout are canceled; a second signal
// skips the waiting.
func TestServeDrainEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		drain   string
		signals int
	}{
		"drain_timeout": {`"200ms"`, 1},
		"second signal": {`"10m"`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := answering(t)
			text, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
			require.NoError(t, err)
			w.write("ferment.hcl", strings.Replace(string(text), "profile = \"test\"", "profile = \"test\"\n  drain_timeout = "+tc.drain, 1))
			s := w.serve()
			hang := make(chan answer, 1)
			go func() { hang <- s.ask("mine/hang", "{}") }()
			require.Eventually(t, func() bool { return s.inFlight("mine") == 1 }, 10*time.Second, 5*time.Millisecond)
			s.signal(syscall.SIGTERM)
			if tc.signals > 1 {
				_, _, ok := s.logged(0, said("signal"))
				require.True(t, ok)
				s.signal(syscall.SIGTERM)
			}
			a := <-hang
			require.NoError(t, a.err)
			assert.Equal(t, "canceled", a.failure(t))
			details := a.value(t).Key("error").Key("details")
			assert.Equal(t, `"host" "the daemon is going down"`, details.Key("by").String()+" "+details.Key("why").String())
			assert.Equal(t, 0, s.wait().code)
			assert.Empty(t, w.left(endLimit))
		})
	}
}

// The exit codes of section 9, of the real program.
func TestServeExitCodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code int
		args []string
		say  string
		// prepare changes the world before the daemon starts.
		prepare func(t *testing.T, w *world)
	}{
		"usage":                {code: 64, args: []string{"--nope"}, say: "unknown flag"},
		"arguments":            {code: 64, args: []string{"now"}, say: "takes no arguments"},
		"profile that is none": {code: 64, args: []string{"--profile", "prd"}, say: "prod"},
		"no configuration":     {code: 78, args: []string{"--config", "absent.hcl"}, say: "absent.hcl"},
		"wrong configuration": {code: 78, say: "config/unknown-name", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", "nope {}\n")
		}},
		"open listener": {code: 78, say: "; next: it needs auth", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", testProfile+"http {\n  listen = [\"0.0.0.0:0\"]\n}\n")
		}},
		"admin socket too long": {code: 78, say: "admin_socket", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", testProfile+"http {\n  admin_socket = \""+strings.Repeat("x", 120)+"\"\n}\n")
		}},
		"required plugin": {code: 69, say: "required plugin mine", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", testProfile+fmt.Sprintf("plugin \"mine\" {\n  command = [%q, %q]\n}\n", built.helper, roleRefuser))
		}},
		"address in use": {code: 69, say: "address already in use", prepare: func(t *testing.T, w *world) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			w.write("ferment.hcl", testProfile+"http {\n  listen = [\""+l.Addr().String()+"\"]\n}\n")
		}},
		"no such name": {code: 69, say: "name an address of this machine in http.listen", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", testProfile+"http {\n  listen = [\"ferment.invalid:0\"]\n}\n")
		}},
		"runtime directory": {code: 78, say: "runtime directory", prepare: func(t *testing.T, w *world) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ferment"), nil, 0o600))
			w.env = append(w.env, "XDG_RUNTIME_DIR="+dir)
		}},
		"second daemon": {code: 73, say: "is held by the daemon with process id", prepare: func(_ *testing.T, w *world) {
			w.serve()
		}},
		"data directory open to others": {code: 77, say: "chmod 700", prepare: func(t *testing.T, w *world) {
			require.NoError(t, os.Mkdir(filepath.Join(w.dir, "var"), 0o755))
			require.NoError(t, os.Chmod(filepath.Join(w.dir, "var"), 0o755))
		}},
		"later format": {code: 78, say: "format 2", prepare: func(t *testing.T, w *world) {
			require.NoError(t, os.Mkdir(filepath.Join(w.dir, "var"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "var", "FORMAT"), []byte("2\n"), 0o600))
		}},
		"format that is none": {code: 78, say: "FORMAT", prepare: func(t *testing.T, w *world) {
			require.NoError(t, os.Mkdir(filepath.Join(w.dir, "var"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(w.dir, "var", "FORMAT"), []byte("x\n"), 0o600))
		}},
		"data directory in a place for none": {code: 78, say: "/proc/ferment cannot be created", prepare: func(_ *testing.T, w *world) {
			w.write("ferment.hcl", strings.Replace(testProfile, "profile = \"test\"", "profile = \"test\"\n  data_dir = \"/proc/ferment\"", 1))
		}},
		"data directory that is a file": {code: 78, say: "var", prepare: func(_ *testing.T, w *world) {
			w.write("var", "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := answering(t)
			if tc.prepare != nil {
				tc.prepare(t, w)
			}
			got := w.run(append([]string{"serve"}, tc.args...)...)
			assert.Equal(t, tc.code, got.code, got.stderr)
			assert.Contains(t, got.stderr, tc.say)
			assert.NotContains(t, got.stderr, "goroutine ")
			assert.Empty(t, got.stdout)
			if tc.code == 64 {
				return // the command line is parsed before the log exists
			}
			var last map[string]any
			for line := range strings.Lines(got.stderr) {
				last = nil
				require.NoError(t, json.Unmarshal([]byte(line), &last), "every line of a JSON log is JSON: %s", line)
			}
			assert.Equal(t, "error", last["@level"])
			for _, key := range []string{"type", "message", "hint"} {
				assert.NotEmpty(t, last[key], key)
			}
		})
	}
}

// OPS-002: whatever a data directory has in the place of one of its files or directories, serve says
// which path it is and that a restart would change nothing.
func TestServeInAForeignDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+onDisk)
	w.serve().stop()
	for _, name := range []string{"LOCK", "FORMAT", "secrets.key", "ferment.db", "run", "run/admin.token", "blobs"} {
		at, aside := filepath.Join(w.dir, "var", name), filepath.Join(w.dir, "aside")
		was, err := os.Stat(at)
		if err == nil {
			require.NoError(t, os.Rename(at, aside))
		}
		if err == nil && was.IsDir() {
			require.NoError(t, os.WriteFile(at, []byte("x"), 0o600))
		} else {
			require.NoError(t, os.MkdirAll(filepath.Join(at, "x"), 0o700))
		}
		got := w.run("serve")
		assert.Contains(t, []int{65, 77, 78}, got.code, "%s: %s", name, got.stderr)
		assert.Contains(t, got.stderr, filepath.Base(name))
		require.NoError(t, os.RemoveAll(at))
		if err == nil {
			require.NoError(t, os.Rename(aside, at))
		}
	}
	key := filepath.Join(w.dir, "var", "secrets.key")
	require.NoError(t, os.Chmod(key, 0o644))
	open := w.run("serve")
	assert.Equal(t, 77, open.code, open.stderr)
	assert.Contains(t, open.stderr, "chmod 600 ")
	require.NoError(t, os.Chmod(key, 0o600))
	for _, text := range []string{"", "zz", strings.Repeat("0", 62)} {
		require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
		got := w.run("serve")
		assert.Equal(t, 78, got.code, got.stderr)
		assert.Contains(t, got.stderr, "secrets.key")
		assert.Contains(t, got.stderr, "backup")
	}
}

// JRN-005: a daemon whose disk fails while it makes the tables of a new journal ends with the exit
// code of a disk.
func TestServeWithoutSpaceForTables(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"120", "200", "400"} { // in units of the shell, 512 or 1024 bytes
		w := newWorld(t, "ferment.hcl", testProfile+onDisk)
		got := w.shell("ulimit -f " + size + "; exec ferment serve")
		assert.Equal(t, 74, got.code, "%s: %s", size, got.stderr)
	}
}

// OPS-002: an act without a daemon names the data directory that cannot be created, and the setting.
func TestActWithoutADataDirectory(t *testing.T) {
	t.Parallel()
	w := answering(t)
	w.write("ferment.hcl", strings.Replace(testProfile+scripted("mine"), "profile = \"test\"", "profile = \"test\"\n  data_dir = \"/proc/ferment\"", 1))
	got := w.run("act", "t/say", "{}", "-o", "edn")
	assert.Equal(t, 3, got.code, got.stderr)
	problem, err := edn.ReadString(got.stderr)
	require.NoError(t, err)
	message, _ := problem.Key("error").Key("message").AsString()
	hint, _ := problem.Key("error").Key("hint").AsString()
	assert.Contains(t, message, "/proc/ferment")
	assert.Contains(t, hint, "data_dir")
}

// CLI-001: a failed start is reported in the format of the log, or in the
// requested one.
func TestServeFailureFollowsTheLog(t *testing.T) {
	t.Parallel()
	w := answering(t)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(w.dir, "var")))
	asked := w.run("serve", "--edn")
	assert.Equal(t, 78, asked.code)
	assert.Contains(t, asked.stderr, "{:error {")
	w.write("ferment.hcl", testProfile+"log {\n  format = \"text\"\n}\n")
	text := w.run("serve")
	assert.Equal(t, 78, text.code)
	assert.Regexp(t, `(?m)^error: `, text.stderr)
	assert.NoFileExists(t, filepath.Join(w.dir, "nowhere"))
}

// The lock, socket and token of a killed daemon do not prevent the next start.
func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	w := answering(t)
	first := w.serve()
	first.signal(syscall.SIGKILL)
	<-first.over
	second := w.serve()
	assert.Equal(t, 200, second.ask("mine/data", "{}").status)
	second.stop()
}

// notified adds a service manager to the world and returns its messages.
func (w *world) notified() <-chan string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	heard := make(chan string, 100)
	go func() {
		defer close(heard)
		for {
			b := make([]byte, 4096)
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			heard <- string(bytes.TrimSpace(b[:n]))
		}
	}()
	w.env = append(w.env, "NOTIFY_SOCKET="+path)
	return heard
}

// OPS-001, OPS-003, OPS-004: the messages to the service manager, in order.
func TestServeNotifies(t *testing.T) {
	t.Parallel()
	w := answering(t)
	heard := w.notified()
	w.env = append(w.env, "WATCHDOG_USEC=200000")
	s := w.serve()
	until := func(first string) string {
		for m := range heard {
			if strings.HasPrefix(m, first) {
				return m
			}
			assert.Regexp(t, "^(WATCHDOG=1|EXTEND_TIMEOUT_USEC=|READY=1)", m)
		}
		require.Fail(t, "not heard", first)
		return ""
	}
	until("READY=1")
	until("WATCHDOG=1")
	until("WATCHDOG=1")
	s.stop()
	until("STOPPING=1")
}

// OPS-005: watchdog pings come from the main loop and nothing slow delays
// them: neither a plugin that does not start during a reload, nor a run that
// delays the shutdown.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	w := answering(t)
	heard := w.notified()
	w.env = append(w.env, "WATCHDOG_USEC=400000")
	s := w.serve()
	after := func(first string) { // two pings after a message
		t.Helper()
		seen, pings := false, 0
		for m := range heard {
			seen = seen || strings.HasPrefix(m, first)
			if seen && m == "WATCHDOG=1" {
				if pings++; pings == 2 {
					return
				}
			}
			require.False(t, seen && strings.HasPrefix(m, "READY=1"), "the reload was over before there were two signs of life")
		}
	}
	w.rewrite("ferment.hcl", "plugin \"mine\"", fmt.Sprintf("plugin \"silent\" {\n  command       = [%q, %q]\n  start_timeout = \"20s\"\n}\n\nplugin \"mine\"", built.helper, roleSleeper))
	s.signal(syscall.SIGHUP)
	after("RELOADING=1")
	hang := make(chan answer, 1)
	go func() { hang <- s.ask("mine/hang", "{}") }()
	require.Eventually(t, func() bool { return s.inFlight("mine") == 1 }, 10*time.Second, 5*time.Millisecond)
	s.signal(syscall.SIGTERM)
	after("STOPPING=1")
	s.signal(syscall.SIGTERM)
	<-hang
	assert.Equal(t, 0, s.wait().code)
	assert.Empty(t, w.left(endLimit))
}

// ISO-003: gaps under best_effort are shown in /health, in doctor and in the
// log of the plugin. This build sets no CPU shares, so one gap exists on every
// machine.
func TestBestEffortShows(t *testing.T) {
	t.Parallel()
	w := answering(t)
	w.rewrite("ferment.hcl", "plugin \"mine\" {", "plugin \"mine\" {\n  isolation {\n    cpu = 0.5\n  }")
	got := w.run("doctor")
	assert.NotEqual(t, 0, got.code, "a written limit that is not held: %s", got.stdout)
	w.rewrite("ferment.hcl", "cpu = 0.5", "cpu = 0.5\n    best_effort = true")
	s := w.serve()
	health := s.request(t.Context(), "GET", "/health", "").value(t)
	assert.Equal(t, "1", health.Key("isolation").Key("best-effort").String())
	found := strings.Join(strings.Fields(w.run("doctor").stdout), " ")
	assert.Contains(t, found, "mine weak best_effort = true leaves open what this machine cannot enforce")
	logs := w.run("plugin", "logs", "mine")
	assert.Contains(t, logs.stdout, "best_effort")
	s.stop()
}

// OPS-001: SIGTERM during the start of plugins cancels the start.
func TestServeStoppedWhileStarting(t *testing.T) {
	t.Parallel()
	w := answering(t)
	w.write("mine.edn", `{:capabilities {:mine/data {:intents #{:mine/data} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}}}`)
	p := w.start("", "serve")
	_, _, ok := p.logged(0, said("started: listeners"))
	require.True(t, ok)
	p.signal(syscall.SIGTERM)
	got := p.wait()
	assert.Equal(t, 0, got.code, got.stderr)
	assert.NoFileExists(t, filepath.Join(w.dir, "var", "run", "admin.token"))
	assert.Empty(t, w.left(endLimit))
}

// examplesOf returns the examples in the help of a command and its
// subcommands.
func examplesOf(t *testing.T, w *world, verb string) []string {
	help := w.run(append(strings.Fields(verb), "--help")...)
	require.Equal(t, 0, help.code, help.stderr)
	all := section(help.stdout, "Examples:")
	for _, sub := range section(help.stdout, "Available Commands:") {
		all = append(all, examplesOf(t, w, verb+" "+strings.Fields(sub)[0])...)
	}
	return all
}

// budgets are the budgets that the examples show and adjust.
const budgets = `
budget "tenant" {
  max_attempts = 100
  max_usd      = 10
}
budget "user" {
  max_usd = 1
}
`

// CLI-006: the examples of the commands that need a daemon work; those that
// stop it are last.
func TestHelpExamplesOfDaemon(t *testing.T) {
	t.Parallel()
	elsewhere := newWorld(t, "ferment.hcl", testProfile+shipped("chess", "chess")+onDisk)
	there := elsewhere.serve()
	require.Equal(t, 200, there.ask("chess/best-move", `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`).status)
	there.stop()
	file := elsewhere.run("runs", "export", "last")
	require.Equal(t, 0, file.code, file.stderr)
	const crash = ":in-schema :req/any :out-schema :res/any :cost {:usd 0.01M} :recovery-rules [[[:q] 1 :once]]"
	w := newWorld(t,
		"elsewhere.edn", file.stdout,
		"pay.edn", script(":t/pay", ":t/pay", crash, sigkill),
		"mail.edn", script(":t/mail", ":t/mail", crash, sigkill),
		"ferment.hcl", testProfile+shipped("chess", "chess")+scripted("pay")+scripted("mail")+budgets+onDisk+people,
		"site/ferment.hcl", testProfile+shipped("chess", "chess"),
		"action.edn", "{:action :plugin-list}")
	for _, line := range examplesOf(t, w, "serve") {
		s := w.serve(strings.Fields(strings.TrimPrefix(line, "ferment serve"))...)
		s.stop()
	}
	s := w.serve()
	var last, after []string
	run := func(line string) {
		got := w.shell(line)
		assert.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
	}
	n := 0
	w.data("user", "add", "ann", "--no-password", "--tenant", "lab") // the examples of budgets name both
	require.Equal(t, 0, w.run("act", "chess/best-move", `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`).code)
	for _, verb := range []string{"runs", "status", "plugin", "admin", "diff", "config"} {
		for _, line := range examplesOf(t, w, verb) {
			switch {
			case !ofDaemon(line):
			case strings.HasPrefix(line, "ferment admin drain"), strings.HasPrefix(line, "ferment runs purge"),
				strings.HasPrefix(line, "ferment runs resume"), strings.HasPrefix(line, "ferment runs answer"):
				last = append(last, line)
			case slices.ContainsFunc([]string{"journal-repair", "migrate", "restore", "rollback"}, func(verb string) bool {
				return strings.HasPrefix(line, "ferment admin "+verb)
			}):
				after = append(after, line)
			default:
				n++
				run(line)
			}
		}
	}
	require.Greater(t, n, 6)
	for _, line := range last {
		if strings.HasPrefix(line, "ferment runs answer") {
			a := s.request(t.Context(), "POST", "/v1/act", envelopeOf("refund/approve", "{}", ":response/type :accepted"))
			require.Equal(t, 202, a.status, "%s", a.body)
			id, _ := a.value(t).Key("job/id").AsString()
			s.becomes(id, "waiting")
		}
		if strings.HasPrefix(line, "ferment runs resume") {
			q, status := "1", 409
			if !strings.Contains(line, "--decide") {
				q, status = "2", 502 // the effect of this call may be repeated: its run fails
			}
			calls := `{:op :call :id "pay" :intent :t/pay :input {:q ` + q + `} :as :p}`
			if strings.Contains(line, "mail") {
				calls += `{:op :call :id "mail" :intent :t/mail :input {:q 1} :as :m}`
			}
			got := s.request(t.Context(), "POST", "/v1/act", envelopeOf("plan/run", "{:plan {:nodes ["+calls+"{:op :emit :input 1}]}}", ""))
			require.Equal(t, status, got.status, "%s", got.body)
		}
		run(line)
	}
	assert.Equal(t, 0, s.wait().code)
	for _, line := range after {
		if strings.HasPrefix(line, "ferment admin restore") {
			require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "var")))
		}
		run(line)
	}
}

// CLI-003, CLI-007: the output about plugins and acts is that of the daemon,
// if one runs; --local works without it.
func TestVerbsAskTheDaemon(t *testing.T) {
	t.Parallel()
	w := answering(t)
	without := w.run("status", "--edn")
	assert.Equal(t, 3, without.code, without.stderr)
	assert.Contains(t, without.stderr, "no daemon serves")
	lost := w.run("status", "--config", "absent.hcl")
	assert.Equal(t, 3, lost.code, lost.stderr)
	assert.Contains(t, lost.stderr, `file "absent.hcl" cannot be read`, "without it nobody knows where a daemon would be")
	assert.NotContains(t, lost.stderr, "no daemon serves")
	s := w.serve()
	status := w.run("status")
	assert.Equal(t, 0, status.code, status.stderr)
	assert.Contains(t, status.stdout, "ready, profile test")
	assert.NotContains(t, status.stdout, "%!")
	list := w.run("plugin", "list", "--edn")
	require.Equal(t, 0, list.code, list.stderr)
	mine, _ := list.value(t).Key("plugins").Nth(0)
	process, _ := mine.Key("instances").Nth(0)
	pid, _ := process.Key("pid").AsInt()
	assert.Contains(t, processesUnder(built.plugins), int(pid), "the process of the daemon")
	inspect := w.run("plugin", "inspect", "mine")
	assert.Equal(t, 0, inspect.code, inspect.stderr)
	assert.Contains(t, inspect.stdout, "ready for")

	there := w.run("act", "mine/data", "{}", "--edn")
	require.Equal(t, 0, there.code, there.stderr)
	here := w.run("act", "mine/data", "{}", "--edn", "--local")
	require.Equal(t, 0, here.code, here.stderr)
	assert.Equal(t, here.value(t).Key("result").String(), there.value(t).Key("result").String())
	assert.Equal(t, 2, w.run("act", "mine/data", "{}", "--report").code, "no records come from a daemon")
	bad := w.run("act", "mine/nope", "{}")
	assert.Equal(t, 2, bad.code, bad.stderr)
	nobody := w.run("plugin", "restart", "mime")
	assert.Equal(t, 5, nobody.code, nobody.stderr)
	assert.Contains(t, nobody.stderr, "did you mean mine?")
	require.Eventually(t, func() bool { // the daemon may restart it meanwhile
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "var", "run", "admin.token"), []byte("wrong\n"), 0o600))
		return w.run("status").code == 4
	}, 20*time.Second, time.Millisecond, "a wrong token")
	s.stop()
	assert.Equal(t, 3, w.run("plugin", "restart", "mine").code)
	assert.Equal(t, 3, w.run("--server", "http://127.0.0.1:1", "status").code)
}

// RUN-007, CLI-004: an interrupt of act cancels the run in the daemon and
// prints its run id, streamed or not. A proxy between the two observes the id
// of each run. TestInterruptDetaches has acts with a key.
func TestInterruptCancelsThere(t *testing.T) {
	t.Parallel()
	w := answering(t)
	s := w.serve()
	ids := make(chan string, 1)
	admin := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "localhost"}) },
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) {}, // the client is gone
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			early := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				ids <- h.Get("Ferment-Run-Id")
				return nil
			}}
			resp, err := admin.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), early)))
			if err == nil && resp.Header.Get("Content-Type") == "text/event-stream" {
				ids <- resp.Header.Get("Ferment-Run-Id")
			}
			return resp, err
		}),
	})
	dir, err := os.MkdirTemp("", "c") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "var", "run"), 0o700))
	for _, name := range []string{"ferment.hcl", "var/run/admin.token"} {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	proxy.Listener, err = net.Listen("unix", filepath.Join(dir, "var", "run", "admin.sock"))
	require.NoError(t, err)
	proxy.Start()
	defer proxy.Close()
	seen := map[string]bool{}
	const most = 5 // a busy client may be interrupted before it has read the id
	for _, flags := range []string{"", " --stream --edn >&2"} {
		var said []string
		for try := 0; said == nil && try < most; try++ {
			p := w.launch("", "sh", "-c", "cd "+dir+" && exec "+built.ferment+" act mine/hang '{}'"+flags)
			require.Eventually(t, func() bool { return s.inFlight("mine") == 1 }, 20*time.Second, 5*time.Millisecond)
			id := <-ids
			if flags != "" {
				p.line(0) // the first event, which has the id
			}
			p.signal(syscall.SIGINT)
			got := p.wait()
			assert.Equal(t, 130, got.code)
			said = regexp.MustCompile(`canceling run (run_[0-9A-Z]{26})`).FindStringSubmatch(got.stderr)
			if said != nil {
				assert.Equal(t, id, said[1])
			}
			require.Eventually(t, func() bool { return s.inFlight("mine") == 0 }, 20*time.Second, 5*time.Millisecond)
		}
		require.NotNil(t, said, "no id with the flags %q", flags)
		seen[said[1]] = true
	}
	assert.Len(t, seen, 2, "each run has its own id")
	s.stop()
}

// CLI-004, RUN-007: an interrupt of act leaves the run of an idempotency key alone, wherever
// the key is from.
func TestInterruptDetaches(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	w.write("keyed.edn", envelopeOf("mine/hang", "{}", `:idempotency/key "k-1"`))
	s := w.serve()
	for _, of := range []string{"keyed.edn", "mine/hang '{}' --key k-2"} {
		p := w.launch("", "sh", "-c", "exec "+built.ferment+" act "+of+" --stream --edn >&2")
		p.line(0) // the first event, which has the id
		p.signal(syscall.SIGINT)
		got := p.wait()
		assert.Equal(t, 130, got.code, of)
		said := regexp.MustCompile(`run (run_[0-9A-Z]{26}) goes on`).FindStringSubmatch(got.stderr)
		require.NotNil(t, said, "%s: %s", of, got.stderr)
		assert.Equal(t, []string{said[1]}, w.recorded(t, "running"), of)
		require.Equal(t, 0, w.run("runs", "cancel", said[1]).code, of)
		require.Eventually(t, func() bool { return len(w.recorded(t, "running")) == 0 }, runLimit, 20*time.Millisecond)
	}
	s.stop()
}

// roundTrip adapts a function to http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// RUN-007: a caller that closes its connection cancels its run immediately.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := answering(t).serve()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan answer, 1)
	go func() { gone <- s.request(ctx, "POST", "/v1/act", envelopeOf("mine/hang", "{}", "")) }()
	require.Eventually(t, func() bool { return s.inFlight("mine") == 1 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, (<-gone).err, context.Canceled)
	require.Eventually(t, func() bool { return s.inFlight("mine") == 0 }, 20*time.Second, 5*time.Millisecond)
	s.stop()
}

// HTTP-008: actions of operators on plugins take effect, and the audit log has
// their principal.
func TestPluginActions(t *testing.T) {
	t.Parallel()
	s := answering(t).serve()
	state := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			list := s.admin(`{:action :plugin-list}`).value(t).Key("result").Key("plugins")
			mine, _ := list.Nth(0)
			i, _ := mine.Key("instances").Nth(0)
			return word(i.Key("state")) == want
		}, 20*time.Second, 5*time.Millisecond, want)
	}
	for _, step := range []struct{ action, state string }{
		{`{:action :admin/plugin-drain :plugin "mine"}`, "stopped"},
		{`{:action :plugin-release :plugin "mine"}`, "ready"},
		{`{:action :plugin-quarantine :plugin "mine" :reason "too slow"}`, "quarantined"},
		{`{:action :plugin-restart :plugin "mine"}`, "ready"},
	} {
		a := s.admin(step.action)
		require.Equal(t, 202, a.status, "%s", a.body)
		state(step.state)
		if step.state == "quarantined" {
			refused := s.ask("mine/data", "{}")
			assert.Equal(t, 422, refused.status, "%s", refused.body)
			assert.Contains(t, string(refused.body), "runtime/quarantined")
			assert.Contains(t, string(s.admin(`{:action :plugin-list}`).body), "too slow")
			assert.Equal(t, 503, s.request(t.Context(), "GET", "/ready", "").status)
		}
	}
	assert.Equal(t, 200, s.ask("mine/data", "{}").status)
	logs := s.admin(`{:action :plugin-logs :plugin "mine" :lines 5}`)
	assert.Equal(t, 200, logs.status, "%s", logs.body)
	for action, status := range map[string]int{
		`{:action :plugin-restart :plugin "mime"}`:             404,
		`{:action :plugin-restart}`:                            400,
		`{:action :plugin-restart :plugin "mine" :force true}`: 400,
		`{:action :plugin-retsart :plugin "mine"}`:             400,
		`{:plugin "mine"}`:                                     400,
		`[]`:                                                   400,
		`{:action :plugin-list`:                                400,
	} {
		a := s.admin(action)
		assert.Equal(t, status, a.status, "%s\n%s", action, a.body)
		assert.Equal(t, "false", a.value(t).Key("ok?").String())
	}
	got := s.stop()
	assert.Regexp(t, `"@module":"ferment.audit".*"action":"admin/plugin-quarantine".*"principal":"uid/`, got.stderr)
}

// The commands of the README about serving work with the configuration of the
// repository, on another port.
func TestReadmeServe(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(built.module, "README.md"))
	require.NoError(t, err)
	_, after, ok := strings.Cut(string(readme), "## Serve\n")
	require.True(t, ok)
	blocks := strings.Split(strings.Split(after, "\n## ")[0], "```")
	require.Len(t, blocks, 5, "two blocks of commands")
	assert.Equal(t, "bin/ferment serve", strings.TrimSpace(strings.TrimPrefix(blocks[1], "sh")))

	w := newWorld(t)
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	text, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	w.write("ferment.hcl", string(text)+onDisk)
	w.env = append(w.env, "FERMENT_PROFILE=test")
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(tools, "curl"), []byte("#!/bin/sh\nexec "+built.helper+" "+roleCurl+" \"$@\"\n"), 0o755))
	s := w.serve()
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(blocks[3], "sh\n")) {
		n++
		line = strings.ReplaceAll(line, "127.0.0.1:7180", s.address)
		got := w.launch("", "sh", "-c", "PATH="+tools+":$PATH; "+line).wait()
		assert.Equal(t, 0, got.code, "%s\n%s\n%s", line, got.stdout, got.stderr)
		assert.NotEmpty(t, got.stdout, line)
		if strings.HasSuffix(strings.TrimSpace(line), " status") {
			oneScreen(t, w, got.stdout)
		}
	}
	assert.Greater(t, n, 8)
	assert.Equal(t, 0, s.wait().code)
}

// oneScreen checks the screen of status after three acts: 100 columns, 40 lines, and the
// same facts as JSON and EDN (CLI-001, OPS-009).
func oneScreen(t *testing.T, w *world, text string) {
	assert.LessOrEqual(t, strings.Count(text, "\n"), 40, text)
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSpace(line))), 100, line)
	}
	for _, line := range []string{`^ready, profile test, version `, `listen:   127\.0\.0\.1:\d+ `, `runs:     0 under way`, `journal:  sqlite, schema \d+, 3 runs, `,
		`confined: .+; processes: .+`, `weaker:   .*auth.required is false`, `since start  3 +100 % `, `chess  .* ready +\d+s +0 +0 `} {
		assert.Regexp(t, `(?m)^`+strings.TrimPrefix(line, "^"), text)
	}
	v := w.data("status")
	assert.Equal(t, "3", v.Key("kpi").Key("since-boot").Key("operations").String())
	assert.Equal(t, "3", v.Key("journal").Key("runs").String())
	assert.True(t, v.Key("journal").Key("writable?").Truthy())
	assert.NotEmpty(t, word(v.Key("isolation").Key("level")))
	asJSON := w.run("status", "--json")
	assert.Contains(t, asJSON.stdout, `"kpi":{`)
	assert.Equal(t, 1, strings.Count(asJSON.stdout, "\n"), "one object on one line")
}

// The log is JSON unless it goes to a terminal or the configuration requests
// text.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", "ferment {\n  profile = \"test\"\n}\n\nlog { format = \"text\" }\n")
	p := w.launch("", built.ferment, "serve")
	for i := 0; ; i++ {
		line, ok := p.line(i)
		require.True(t, ok, "the daemon ended before it was ready")
		require.False(t, strings.HasPrefix(line, "{"), line)
		if words := strings.Fields(line); len(words) > 3 && words[3] == "ready" {
			break
		}
	}
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.wait().code)
}
