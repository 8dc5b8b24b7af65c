package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// runByHand builds a plugin and runs it without a host.
func runByHand(t *testing.T, program string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(buildProgram(t, program))
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	return string(out), exit.ExitCode()
}

// buildProgram compiles a program of testdata, stripped like released plugins.
func buildProgram(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./testdata/"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// WIRE-001: a plugin started by hand prints one sentence and exits with 2.
// WIRE-005: so does one whose host speaks another protocol revision; the
// sentence names the side to upgrade.
func TestStartedByHand(t *testing.T) {
	program := buildProgram(t, "minimal")
	for _, tt := range []struct {
		name string
		env  []string
		says string
	}{
		{"by hand", nil, "greeter 1.0.0 is a Ferment plugin: name it in the command of a plugin block in ferment.hcl, a ferment host starts it.\n"},
		{"newer host", []string{wire.CookieKey + "=" + wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=3,2"},
			"greeter 1.0.0: :runtime/protocol: the plugin speaks protocol 1, the host 2, 3: upgrade the plugin\n"},
		{"older host", []string{wire.CookieKey + "=" + wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=0"},
			"greeter 1.0.0: :runtime/protocol: the plugin speaks protocol 1, the host 0: upgrade the host\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(program)
			cmd.Env = tt.env
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, 2, exit.ExitCode())
			assert.Equal(t, tt.says, string(out))
		})
	}
}

// WIRE-005: hosts and plugins of different revisions work together, or one of
// them fails with a sentence that names the side to upgrade. Each row starts a
// real process; the golden file holds the outcomes.
func TestHandshakeAcrossRevisions(t *testing.T) {
	this, other := buildProgram(t, "minimal"), buildProgram(t, "future")
	var golden strings.Builder
	for _, tt := range []struct {
		host    []int
		program []string
		plugin  int
	}{
		{[]int{1}, []string{this}, 1},
		{[]int{1, 2}, []string{this}, 1},
		{[]int{2}, []string{this}, 1},
		{[]int{2, 3}, []string{this}, 1},
		{[]int{0}, []string{this}, 1},
		{[]int{1}, []string{other, "1"}, 1},
		{[]int{1}, []string{other}, 2},
		{[]int{1}, []string{other, "0"}, 0},
		{[]int{1, 2}, []string{other}, 2},
	} {
		fmt.Fprintf(&golden, "host %v, plugin %d: %s\n", tt.host, tt.plugin, handshake(t, tt.host, tt.program))
	}
	want, err := os.ReadFile("testdata/handshakes.golden")
	require.NoError(t, err)
	assert.Equal(t, string(want), golden.String())
}

// handshake starts a program as a host with the given revisions does, and
// returns the outcome.
func handshake(t *testing.T, revisions []int, program []string) string {
	t.Helper()
	dir := t.TempDir()
	cfg := wire.ClientConfig()
	cfg.StartTimeout = 10 * time.Second
	cfg.Logger = hclog.NewNullLogger()
	cfg.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: dir}
	cfg.VersionedPlugins = map[int]goplugin.PluginSet{}
	for _, n := range revisions {
		cfg.VersionedPlugins[n] = cfg.Plugins
	}
	cfg.ProtocolVersion, cfg.Plugins = uint(revisions[0]), nil
	var r *launch.Runner
	cfg.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
		r = launch.NewRunner(launch.RunnerConfig{Command: launch.Command{Path: program[0], Args: program[1:], Env: cmd.Env}, SocketDir: sockets})
		return r, nil
	}
	require.NoError(t, wire.Secure(cfg))
	client := goplugin.NewClient(cfg)
	defer client.Kill()
	_, err := client.Start()
	if err == nil {
		protocol, err := client.Client()
		require.NoError(t, err)
		raw, err := protocol.Dispense(wire.PluginKey)
		require.NoError(t, err)
		d, err := raw.(*wire.Client).Describe(t.Context(), edn.Nil(), wire.HostInfo{Version: "9", Features: []string{"telepathy"}})
		require.NoError(t, err)
		parsed, err := d.Parse()
		require.NoError(t, err)
		return fmt.Sprintf("they speak %d; the host learns of %s with the features %v", client.NegotiatedVersion(), parsed.Name, parsed.Features)
	}
	var incompatible *contract.Error
	if errors.As(wire.ExplainStart(err), &incompatible) {
		return "the host says: " + incompatible.Error()
	}
	<-r.Process().Settled()
	<-r.Drained()
	tail := r.Report().Tail
	require.NotEmpty(t, tail)
	return fmt.Sprintf("the plugin says: %s (%s)", tail[len(tail)-1], r.Report().Exit)
}

// A plugin with an invalid declaration prints every problem and exits with 1.
func TestServeWrongPlugin(t *testing.T) {
	out, code := runByHand(t, "wrong", wire.CookieKey+"="+wire.CookieValue)
	assert.Equal(t, 1, code)
	for _, says := range []string{`plugin name "Bad Name"`, "Version is empty", `"no-namespace"`, "demo/twice is declared twice"} {
		assert.Contains(t, out, says)
	}
}

// SDK-003: a minimal plugin is below 20 MB on disk and, idle, in memory.
func TestMinimalPluginIsSmall(t *testing.T) {
	const most = 20_000_000
	path := buildProgram(t, "minimal")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(most))

	in, err := conformance.Process([]string{path}, nil).Start(t.Context())
	require.NoError(t, err)
	defer in.Stop()
	_, err = in.Client().Probe(t.Context())
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(in.PID()) + "/status")
	require.NoError(t, err)
	rss := residentKB(t, string(status))
	t.Logf("binary %.1f MB, resident %.1f MB", float64(info.Size())/1e6, float64(rss)/1e3)
	assert.Less(t, rss*1024, most)
}

func residentKB(t *testing.T, status string) int {
	t.Helper()
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(status)
	require.Len(t, m, 2)
	kb, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return kb
}

// SDK-003: every dependency of a plugin is on the list.
func TestDependenciesStaySmall(t *testing.T) {
	allowed := []string{
		"github.com/fermenthq/ferment/sdk",
		"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "github.com/hashicorp/yamux",
		"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc/status", "github.com/golang/protobuf",
		"olympos.io/encoding/edn", "lukechampine.com/blake3", "github.com/klauspost/cpuid/v2",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "golang.org/x/exp",
		"github.com/oklog/run", "github.com/fatih/color", "github.com/mattn/go-colorable", "github.com/mattn/go-isatty",
	}
	notForAll := []string{"launch", "confine", "conformance", "sdktest"}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		".", "./wire", "./edn", "./schema", "./contract", "./text").Output()
	require.NoError(t, err)
	for pkg := range strings.FieldsSeq(string(out)) {
		ok := false
		for _, prefix := range allowed {
			ok = ok || pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
		}
		assert.True(t, ok, "%s is not on the list of dependencies", pkg)
		for _, name := range notForAll {
			assert.NotEqual(t, "github.com/fermenthq/ferment/sdk/"+name, pkg, "plugins that do not ask for it do not get it")
		}
	}
}

// The handshake variables are not in the environment of the author's code, nor
// of its child processes.
func TestHandshakeLeavesTheEnvironment(t *testing.T) {
	p := sdktest.Start(t, sdktest.WithEnv("MINE=1"))
	env := p.MustInvoke("test/env", nil).Key("value")
	require.False(t, env.IsNil())
	for pair := range env.Elems() {
		name, _ := pair.AsString()
		assert.False(t, strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, wire.CookieKey), "%s", name)
	}
	child := text(p.MustInvoke("test/child", nil))
	assert.Contains(t, child, "MINE=1")
	assert.NotContains(t, child, "PLUGIN_")
}

// SUP-009: log lines are JSON objects with level and call; printed text does
// not end the plugin.
func TestLogLines(t *testing.T) {
	p := sdktest.Start(t)
	_, err := p.Do(t.Context(), sdktest.Call{Capability: "test/print", Context: wire.CallContext{Run: "r-9", Node: "n-2", Attempt: 1}})
	require.NoError(t, err)
	var line map[string]any
	require.Eventually(t, func() bool {
		for _, text := range p.Log() {
			if strings.Contains(text, "a line of the log") {
				return json.Unmarshal([]byte(text), &line) == nil
			}
		}
		return false
	}, 30*time.Second, 5*time.Millisecond)
	assert.Equal(t, "warn", line["@level"])
	assert.Equal(t, "a line of the log", line["@message"])
	assert.Equal(t, "r-9", line["run"])
	assert.Equal(t, "n-2", line["node"])
	assert.Equal(t, "test/print", line["capability"])
	assert.InDelta(t, 7, line["n"], 0)
	_, err = time.Parse("2006-01-02T15:04:05.000000Z07:00", line["@timestamp"].(string))
	require.NoError(t, err)
}

// SDK-002: a panic of a call is a typed error with the stack; the process
// continues.
func TestPanicIsAnError(t *testing.T) {
	p := sdktest.Start(t)
	_, err := p.Invoke("test/panic", nil)
	require.ErrorIs(t, err, contract.OfType("runtime/invoke-failed"))
	e := contract.AsError(err)
	assert.Contains(t, e.Message, "as asked")
	assert.NotContains(t, e.Message, "goroutine", "a message has no stack")
	assert.Equal(t, `"as asked"`, e.Details.Key("panic").String())
	own, _ := e.Details.Key("stack").Nth(0)
	assert.Contains(t, own.String(), "fixture", "the first frame is the one of the author that panicked")
	assert.NotContains(t, e.Details.Key("stack").String(), "sdk.(*Service)", "what called the author is in the log")
	assert.NotEmpty(t, text(p.MustInvoke("test/memory", nil)), "the plugin lives on")
}

// SUP-001, SUP-004: closing standard input ends the process in order, also with
// calls in flight that ignore their context.
func TestStdinEndsTheProcess(t *testing.T) {
	for _, busy := range []string{"", "test/wait", "test/stubborn"} {
		t.Run("busy with "+busy, func(t *testing.T) {
			p := sdktest.Start(t)
			over := make(chan struct{})
			go func() {
				defer close(over)
				if busy != "" {
					_, _ = p.Do(context.Background(), sdktest.Call{Capability: busy})
				}
			}()
			if busy != "" {
				awaitInFlight(t, p, 1)
			}
			began := time.Now()
			p.Instance().Release()
			<-p.Instance().Done()
			<-over
			assert.Less(t, time.Since(began), 30*time.Second)
			assert.True(t, p.Instance().(conformance.Reporter).Report().Exit.Clean())
			assert.FileExists(t, filepath.Join(p.Root(), "closed"), "the Close hook ran")
		})
	}
}

func awaitInFlight(t *testing.T, p *sdktest.Plugin, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		h, err := p.Client().Probe(t.Context())
		return err == nil && h.InFlight == n
	}, 30*time.Second, 2*time.Millisecond)
}

// SUP-004: SIGTERM ends the process in order; SIGINT is ignored.
func TestSignals(t *testing.T) {
	p := sdktest.Start(t)
	require.NoError(t, syscall.Kill(p.Instance().PID(), syscall.SIGINT))
	_, err := p.Client().Probe(t.Context())
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(p.Instance().PID(), syscall.SIGTERM))
	<-p.Instance().Done()
	assert.Contains(t, p.Instance().(conformance.Reporter).Report().Exit.String(), "143")
	assert.FileExists(t, filepath.Join(p.Root(), "closed"))
}

// Memory stays bounded when calls allocate many times the limit in total.
func TestMemoryStaysBounded(t *testing.T) {
	p := sdktest.Start(t)
	big := strings.Repeat("x", 256<<10)
	for range 60 {
		p.MustInvoke("test/root", map[string]any{"ignored": big})
	}
	kb := residentKB(t, text(p.MustInvoke("test/memory", nil)))
	t.Logf("resident %.1f MB after 60 calls of 256 KiB", float64(kb)/1e3)
	assert.Less(t, kb, 200<<10)
}

// evaluation.md section 17: the collector runs less often by default, with a
// memory limit that follows the live heap; the environment takes precedence.
func TestCollector(t *testing.T) {
	for _, tt := range []struct {
		name    string
		env     []string
		mib     int
		percent int
		limit   func(int64) bool
	}{
		{"small heap", nil, 1, 400, func(n int64) bool { return n == 256<<20 }},
		{"large heap", nil, 300, 400, func(n int64) bool { return n >= 600<<20 && n < 900<<20 }},
		{"environment", []string{"GOGC=50", "GOMEMLIMIT=64MiB"}, 1, 50, func(n int64) bool { return n == 64<<20 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := sdktest.Start(t, sdktest.WithEnv(tt.env...))
			var got collected
			require.NoError(t, edn.Decode(p.MustInvoke("test/collector", map[string]any{"mib": tt.mib}), &got))
			assert.Equal(t, tt.percent, got.Percent)
			assert.True(t, tt.limit(got.Limit), "limit %d MiB", got.Limit>>20)
		})
	}
}
