//go:build linux

package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gathered collects lines from the two goroutines of a runner.
type gathered struct {
	mu    sync.Mutex
	lines []Line
}

func (g *gathered) add(l Line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, l)
}

func (g *gathered) all() []Line {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Line(nil), g.lines...)
}

func run(t *testing.T, c RunnerConfig) *Runner {
	t.Helper()
	r := NewRunner(c)
	require.NoError(t, r.Start(context.Background()))
	t.Cleanup(func() {
		_ = r.Kill(context.Background())
		await(t, r.Process().Settled(), patience, "end of process")
		await(t, r.Drained(), patience, "end of output")
	})
	return r
}

// Pitfall 10: 200 kB of output before the handshake and a second handshake
// after it: one line passes, the rest is kept as output.
func TestRunnerPassesOneHandshakeLine(t *testing.T) {
	var got gathered
	r := run(t, RunnerConfig{Command: command("noise-handshake"), SocketDir: "/run/x/1", Output: got.add})
	in := bufio.NewReader(r.Stdout())
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, shake+"\n", line)
	h, ok := r.Handshake()
	require.True(t, ok)
	assert.Equal(t, Handshake{Core: 1, Version: 1, Network: "unix", Address: "/run/x/1/plugin-dir1/plugin2", Protocol: "grpc"}, h)

	require.NoError(t, r.Process().CloseStdin())
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	assert.Empty(t, string(rest))
	await(t, r.Drained(), patience, "end of output")
	lines := got.all()
	require.Len(t, lines, 4)
	assert.Equal(t, "starting up, please wait", lines[0].Text)
	assert.Equal(t, MaxLine, len(lines[1].Text))
	assert.EqualValues(t, 200_000-MaxLine, lines[1].Cut)
	assert.Equal(t, "and one more thing", lines[2].Text)
	assert.Equal(t, shake, lines[3].Text)
	require.NoError(t, r.Wait(context.Background()))
}

// SUP-010: an endless line costs neither memory nor more than the start
// timeout.
func TestRunnerEndlessLine(t *testing.T) {
	r := run(t, RunnerConfig{Command: command("endless-line")})
	require.Eventually(t, func() bool { return r.Process().Stdout() != nil && alive(r.Process().PID()) }, patience, time.Millisecond)
	require.NoError(t, r.Kill(context.Background()))
	await(t, r.Drained(), patience, "end of output")
	rest, err := io.ReadAll(r.Stdout())
	require.NoError(t, err)
	assert.Empty(t, rest, "nothing of it reaches go-plugin")
	assert.LessOrEqual(t, len(r.Report().Output), outputHead)
}

// SUP-010: a plugin that closes its output fails at once.
func TestRunnerClosedStdout(t *testing.T) {
	r := run(t, RunnerConfig{Command: command("close-stdout")})
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(io.Discard, r.Stdout()) }()
	await(t, read, patience, "end of stream")
	assert.Equal(t, "still running", r.Diagnose(context.Background()))
}

// Accept can reject a handshake, and Refused returns the reason.
func TestRunnerRefusesHandshake(t *testing.T) {
	refusal := errors.New("protocol version 1 is too old")
	r := run(t, RunnerConfig{Command: command("noise-handshake"), Accept: func(h Handshake) error {
		assert.Equal(t, 1, h.Version)
		return refusal
	}})
	_, err := io.ReadAll(r.Stdout())
	require.ErrorIs(t, err, refusal)
	assert.ErrorIs(t, r.Refused(), refusal)
}

// Pitfall 2: go-plugin's streams and its wait end with the process, even if a
// grandchild holds the pipes.
func TestRunnerStreamsEndAtExit(t *testing.T) {
	r := run(t, RunnerConfig{Command: command("leave-grandchild")})
	_, err := io.ReadAll(r.Stderr())
	require.NoError(t, err)
	require.EqualError(t, r.Wait(context.Background()), "exit status 5")
	step := r.Process().SignalStep("terminate", syscall.SIGTERM, time.Second)
	require.NoError(t, step.Do(context.Background()), "grace for a process that is already gone")
}

func TestRunnerReport(t *testing.T) {
	for _, row := range []struct{ role, text string }{
		{"exit-3", "exit status 3"},
		{"panic", "exit status 2; panic: the engine fell off"},
		{"300-lines", "exit status 1; last line: line 299"},
		{"session", `exit status 0; printed "true true" on standard output`},
	} {
		t.Run(row.role, func(t *testing.T) {
			r := run(t, RunnerConfig{Command: command(row.role)})
			await(t, r.Drained(), patience, "end of output")
			await(t, r.Process().Settled(), patience, "end of process")
			rep := r.Report()
			assert.Equal(t, row.text, rep.String())
			assert.Equal(t, r.Process().PID(), rep.PID)
			assert.Equal(t, row.text, r.Diagnose(context.Background()))
			switch row.role {
			case "panic":
				assert.Contains(t, strings.Join(rep.Panic, "\n"), "goroutine 1 [running]")
				assert.Equal(t, "before", rep.Tail[0])
			case "300-lines": // SUP-009: the last 200 lines
				require.Len(t, rep.Tail, tailLines)
				assert.Equal(t, "line 100", rep.Tail[0])
			}
		})
	}
}

// SUP-001: the output of a process before its exit is known as soon as it was
// read, even if other processes keep writing, and however late the reader is.
func TestRunnerLastLines(t *testing.T) {
	var got gathered
	late := make(chan struct{})
	c := command("last-words")
	c.OutputGrace = time.Minute
	r := run(t, RunnerConfig{Command: c, SocketDir: t.TempDir(), Output: func(l Line) { <-late; got.add(l) }})
	t.Cleanup(func() { closeAll([]*os.File{r.Process().Stderr()}) }) // ends the writer
	await(t, r.Process().Done(), patience, "end of process")
	select {
	case <-r.LastLines():
		assert.Fail(t, "nothing was dealt with yet")
	default:
	}
	close(late)
	await(t, r.LastLines(), patience, "last lines")
	said := map[string]bool{}
	for _, l := range got.all() {
		said[l.Text] = true
	}
	for i := range 900 {
		require.True(t, said[fmt.Sprintf("word %03d of the last words", i)], i)
	}
	select {
	case <-r.Drained():
		assert.Fail(t, "the pipe is still held")
	default:
	}
}

// A process without output delays nothing.
func TestRunnerNoLastLines(t *testing.T) {
	for role, tail := range map[string]int{"exit-3": 0, "suicide": 0, "300-lines": tailLines} {
		r := run(t, RunnerConfig{Command: command(role), SocketDir: t.TempDir()})
		await(t, r.LastLines(), patience, "last lines of "+role)
		assert.Len(t, r.Report().Tail, tail, role)
	}
}

func TestRunnerWithoutProcess(t *testing.T) {
	r := NewRunner(RunnerConfig{Command: Command{Path: "/nonexistent/plugin"}})
	assert.Empty(t, r.ID())
	assert.Nil(t, r.Process())
	assert.NoError(t, r.Kill(context.Background()))
	assert.Error(t, r.Wait(context.Background()))
	assert.Equal(t, "not started", r.Diagnose(context.Background()))
	require.Error(t, r.Start(context.Background()))
	assert.Equal(t, "plugin", r.Name())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, r.Start(ended), context.Canceled)
}

func TestRunnerStartsOnce(t *testing.T) {
	r := run(t, RunnerConfig{Command: command("until-eof")})
	assert.Error(t, r.Start(context.Background()))
	assert.Equal(t, fmt.Sprint(r.Process().PID()), r.ID())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, r.Wait(ctx), context.Canceled)
	network, address, err := r.HostToPlugin("unix", "/a")
	require.NoError(t, err)
	assert.Equal(t, "unix /a", network+" "+address)
}

// The host dials the address in a handshake: only the socket directory is
// allowed (WIRE-001).
func TestPluginToHost(t *testing.T) {
	r := NewRunner(RunnerConfig{SocketDir: "/run/f/1"})
	for _, row := range []struct {
		network, address string
		ok               bool
	}{
		{"unix", "/run/f/1/plugin-dir7/plugin8", true},
		{"unix", "/run/f/1/s", true},
		{"unix", "/run/f/2/s", false},
		{"unix", "/run/f/1/../2/s", false},
		{"unix", "/run/f/11/s", false},
		{"unix", "/var/run/docker.sock", false},
		{"unix", "run/f/1/s", false},
		{"tcp", "127.0.0.1:80", false},
	} {
		_, address, err := r.PluginToHost(row.network, row.address)
		if row.ok {
			assert.NoError(t, err)
			assert.Equal(t, row.address, address)
		} else {
			assert.Error(t, err, row.address)
		}
	}
}

func TestParseHandshake(t *testing.T) {
	full := "1|1|unix|/tmp/x|grpc|" + strings.Repeat("A", 900) + "|true"
	for line, ok := range map[string]bool{
		full:                             true,
		"  1|1|unix|/tmp/x \r":           true,
		"1|2|tcp|127.0.0.1:9|netrpc":     true,
		"":                               false,
		"hello":                          false,
		"1|1|unix|":                      false,
		"1|1|udp|x":                      false,
		"one|1|unix|/tmp/x":              false,
		"1|-1|unix|/tmp/x":               false,
		"a|b|c|d":                        false,
		"1|1|unix|/tmp/x|grpc|c|m|extra": false,
		"1|1|unix|/" + strings.Repeat("x", maxHandshake): false,
	} {
		_, got := ParseHandshake(line)
		assert.Equal(t, ok, got, Clip(line, 60))
	}
}

func FuzzParseHandshake(f *testing.F) {
	f.Add(shake)
	f.Add("1|1|tcp|127.0.0.1:1234|grpc|cert|true")
	f.Add("||||||")
	f.Fuzz(func(t *testing.T, line string) {
		h, ok := ParseHandshake(line)
		if !ok {
			return
		}
		assert.NotEmpty(t, h.Address)
		again, ok := ParseHandshake(fmt.Sprintf("%d|%d|%s|%s|%s|%s", h.Core, h.Version, h.Network, h.Address, h.Protocol, h.Certificate))
		assert.True(t, ok)
		if strings.TrimSpace(h.Certificate) == h.Certificate {
			assert.Equal(t, h, again)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nb\n\nc"), 1)
	f.Add([]byte(strings.Repeat("z", MaxLine+7)+"\nend"), 4096)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		var read, written []Line
		scanLines(strings.NewReader(string(text)), Stdout, func(l Line) { read = append(read, l) })
		w := NewLineWriter(Stdout, func(l Line) { written = append(written, l) })
		for rest := text; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		_ = w.Close()
		total := strings.Count(string(text), "\n")
		for _, l := range read {
			assert.LessOrEqual(t, len(l.Text), readLine)
			total += len(l.Text) + int(l.Cut)
		}
		assert.LessOrEqual(t, total, len(text))
		// A carriage return at the very end belongs to the line.
		if !strings.HasSuffix(string(text), "\r") {
			assert.Equal(t, read, written)
		}
	})
}

func TestTailKeepsTheLastLines(t *testing.T) {
	var tail Tail
	assert.Empty(t, tail.Lines())
	for i := range tailLines + 50 {
		tail.Add(fmt.Sprintf("line %d %s", i, strings.Repeat("é", 300)))
	}
	lines := tail.Lines()
	require.Len(t, lines, tailLines)
	assert.True(t, strings.HasPrefix(lines[0], "line 50 "))
	assert.True(t, strings.HasPrefix(lines[tailLines-1], "line 249 "))
	assert.Nil(t, tail.panicText())
}

// MLX-021: the kept output is bounded, for lines of any length.
func TestTailIsBounded(t *testing.T) {
	var tail Tail
	for i := range tailLines + 50 {
		tail.Add(fmt.Sprintf("line %d %s", i, strings.Repeat("é", 4096)))
	}
	lines, size := tail.Lines(), 0
	for _, line := range lines {
		assert.LessOrEqual(t, len(line), tailLineSize+3)
		size += len(line)
	}
	assert.LessOrEqual(t, size, TailBytes)
	assert.Greater(t, size, TailBytes-2*tailLineSize)
	assert.True(t, strings.HasPrefix(lines[len(lines)-1], "line 249 "))
	tail.Add("short")
	assert.Equal(t, "short", tail.Lines()[len(tail.Lines())-1])
}

func TestEnvironment(t *testing.T) {
	host := map[string]string{"HOME": "/root", "SECRET": "x", "PLUGIN_CLIENT_CERT": "mine", "LANG": "C"}
	lookup := func(name string) (string, bool) { v, ok := host[name]; return v, ok }
	env := Environment(
		map[string]string{"LANG": "pl_PL", "COOKIE": "forged", "PLUGIN_MIN_PORT": "1", "": "x", "A=B": "x"},
		[]string{"HOME", "LANG", "PLUGIN_CLIENT_CERT", "ABSENT"}, lookup,
		[]string{"COOKIE=real", "PLUGIN_MIN_PORT=10000", "PLUGIN_CLIENT_CERT=theirs\nsecond line"},
	)
	// Pitfall 7: configured variables win over those of the host; pitfall 5:
	// the host's own certificate is not passed on.
	assert.Equal(t, []string{"COOKIE=real", "HOME=/root", "LANG=pl_PL", "PLUGIN_CLIENT_CERT=theirs\nsecond line", "PLUGIN_MIN_PORT=10000"}, env)
	assert.Equal(t, []string{}, Environment(nil, nil, os.LookupEnv, nil))
}

// SUP-009: the reported line of a failed program is the one with the error,
// also if a version follows it.
func TestReportTellsTheError(t *testing.T) {
	for name, tt := range map[string]struct {
		tail []string
		want string
	}{
		"python": {[]string{"Traceback (most recent call last):", "  File \"p.py\", line 1, in <module>", "ModuleNotFoundError: No module named 'grpc'"}, "exit status 1; last line: ModuleNotFoundError: No module named 'grpc'"},
		"node": {[]string{"node:internal/errors:540", "      throw error;", "      ^", "", "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@grpc/grpc-js'", "    at packageResolve (node:internal:1:1) {", "  code: 'ERR_MODULE_NOT_FOUND'", "}", "", "Node.js v20.20.2"},
			"exit status 1; last line: Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@grpc/grpc-js'"},
		"only a version": {[]string{"Node.js v20.20.2"}, "exit status 1; last line: Node.js v20.20.2"},
	} {
		assert.Equal(t, tt.want, Report{PID: 1, Exited: true, Exit: Exit{Code: 1}, Tail: tt.tail}.String(), name)
	}
}
