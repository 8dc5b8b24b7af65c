package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// runLimit stops a hanging command, so that the test fails instead of waiting.
const runLimit = 3 * time.Minute

// world is a directory with a configuration, as a user of the program has it.
type world struct {
	t   testing.TB
	dir string
	rt  string // the runtime directory of its hosts, which identifies their processes
	env []string
	dsn string // of the PostgreSQL database with its journal; empty: it has a file
}

// worlds counts the worlds.
var worlds atomic.Int64

// newWorld creates the directory. files alternates names and contents.
func newWorld(t testing.TB, files ...string) *world {
	t.Helper()
	// A short path: it contains sockets.
	w := &world{t: t, dir: t.TempDir(), rt: filepath.Join(built.root, "rt", strconv.FormatInt(worlds.Add(1), 36))}
	require.NoError(t, os.Mkdir(w.rt, 0o700))
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + built.home, "XDG_RUNTIME_DIR=" + w.rt}
	profiled := false
	for i := 0; i < len(files); i += 2 {
		w.write(files[i], files[i+1])
		profiled = profiled || strings.Contains(files[i+1], "  profile ")
	}
	if !profiled { // the profile in which programs need no lock file entry
		w.env = append(w.env, "FERMENT_PROFILE=dev")
	}
	return w
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// ended is the result of a command.
type ended struct {
	code           int
	stdout, stderr string // stderr is unwrapped
}

// hanging is the line end and the indent inside a wrapped sentence; lines of excerpts begin with a number or a bar.
var hanging = regexp.MustCompile(`\n {6,}([^ |0-9\n])`)

// unwrapped joins the lines of wrapped sentences, whose ends depend on the names of temporary directories.
func unwrapped(text string) string { return hanging.ReplaceAllString(text, " $1") }

// value parses standard output as one EDN value.
func (e ended) value(t testing.TB) edn.Value {
	t.Helper()
	v, err := edn.ReadString(e.stdout, edn.WithLimits(edn.Body))
	require.NoError(t, err, "standard output: %s\nstandard error: %s", e.stdout, e.stderr)
	return v
}

// run runs a command and waits for its end.
func (w *world) run(args ...string) ended { return w.feed("", args...) }

// feed runs a command with text on its standard input.
func (w *world) feed(stdin string, args ...string) ended {
	w.t.Helper()
	p := w.start(stdin, args...)
	return p.wait()
}

// process is a running command. Its standard error is collected line by line.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout bytes.Buffer
	args   []string
	err    error
	over   chan struct{} // closed at its end

	mu    sync.Mutex
	rest  []byte // of standard error, after the last complete line
	lines []string
	grown chan struct{} // closed when there are more lines
}

// shell runs a line in a shell with the program in PATH.
func (w *world) shell(line string) ended {
	w.t.Helper()
	return w.launch("", "sh", "-c", "PATH="+filepath.Dir(built.ferment)+":$PATH; "+line).wait()
}

// start starts a command.
func (w *world) start(stdin string, args ...string) *process {
	w.t.Helper()
	return w.launch(stdin, built.ferment, args...)
}

func (w *world) launch(stdin, program string, args ...string) *process {
	w.t.Helper()
	return w.launchLimit(runLimit, stdin, program, args...)
}

func (w *world) launchLimit(limit time.Duration, stdin, program string, args ...string) *process {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.Stdin = strings.NewReader(stdin)
	// A process that outlives the command and holds its output is a failure,
	// and must not block the test.
	cmd.WaitDelay = 5 * time.Second
	p := &process{t: w.t, cmd: cmd, args: args, over: make(chan struct{}), grown: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, p
	require.NoError(w.t, cmd.Start())
	go func() {
		defer cancel()
		p.err = cmd.Wait()
		close(p.over)
	}()
	w.t.Cleanup(func() { // the process of a failed test
		cancel()
		<-p.over
	})
	return p
}

// Write collects standard error of the command.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 {
			break
		}
		p.lines = append(p.lines, string(p.rest[:i+1]))
		p.rest = p.rest[i+1:]
	}
	close(p.grown)
	p.grown = make(chan struct{})
	return len(b), nil
}

// line waits for line i of standard error and returns it.
func (p *process) line(i int) (string, bool) {
	for {
		p.mu.Lock()
		grown, n := p.grown, len(p.lines)
		if i < n {
			line := p.lines[i]
			p.mu.Unlock()
			return line, true
		}
		p.mu.Unlock()
		select {
		case <-grown:
		case <-p.over:
			p.mu.Lock()
			n = len(p.lines)
			p.mu.Unlock()
			if i >= n {
				return "", false
			}
		}
	}
}

// event is a line of --progress edn.
type event struct {
	edn.Value
	at int // line
}

func (e event) word(key string) string {
	if s, ok := e.Key(key).AsKeyword(); ok {
		return s
	}
	s, _ := e.Key(key).AsString()
	return s
}

func (e event) number(key string) int {
	n, _ := e.Key(key).AsInt()
	return int(n)
}

// next returns the first event from a line on that fits; the command must run
// with --progress edn. It returns false if the command ended.
func (p *process) next(from int, fits func(event) bool) (event, bool) {
	for i := from; ; i++ {
		line, ok := p.line(i)
		if !ok {
			return event{}, false
		}
		if !strings.HasPrefix(line, "{") {
			continue
		}
		v, err := edn.ReadString(line)
		if err != nil {
			continue // a line of the response
		}
		if e := (event{v, i}); fits(e) {
			return e, true
		}
	}
}

// must is next for events that must occur.
func (p *process) must(what string, from int, fits func(event) bool) event {
	p.t.Helper()
	e, ok := p.next(from, fits)
	if !ok {
		got := p.wait()
		require.Fail(p.t, "no event: "+what, "exit %d\n%s", got.code, got.stderr)
	}
	return e
}

// entered matches the transition of a plugin to a state.
func entered(plugin, state string) func(event) bool {
	return func(e event) bool {
		return e.word("event") == "plugin" && e.word("plugin") == plugin && e.word("to") == state
	}
}

// asked matches the start of an attempt on a capability.
func asked(capability string) func(event) bool {
	return func(e event) bool {
		return e.word("event") == "attempt" && e.word("state") == "started" && e.word("cap/id") == capability
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) { // it may have exited already
		require.NoError(p.t, err)
	}
}

// wait waits for the end of the command.
func (p *process) wait() ended {
	p.t.Helper()
	<-p.over
	var exit *exec.ExitError
	got := ended{code: p.cmd.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: unwrapped(strings.Join(p.lines, "") + string(p.rest))}
	if p.err != nil && !errors.As(p.err, &exit) {
		assert.NoError(p.t, p.err, "ferment %s\n%s", strings.Join(p.args, " "), got.stderr)
	}
	return got
}

// scripted returns a plugin block whose answers are a script in a file of its
// name, with further attributes.
func scripted(name string, more ...string) string {
	return fmt.Sprintf("plugin %q {\n  command = [%q]\n  config {\n    script = %q\n  }\n%s\n}\n",
		name, filepath.Join(built.plugins, "scripted"), name+".edn", indent(more))
}

// shipped returns a plugin block of a program of the repository.
func shipped(name, program string, more ...string) string {
	return fmt.Sprintf("plugin %q {\n  command = [%q]\n%s\n}\n", name, filepath.Join(built.plugins, program), indent(more))
}

// testrunner returns the block of that plugin, which may test projects below
// dir with the programs of the machine and the helper of these tests.
func testrunner(dir string) string {
	return shipped("testrunner", "testrunner", `env_pass = ["PATH"]`, fmt.Sprintf("isolation {\n  exec        = [\"go\", \"/bin\", \"/usr/bin\", \"/usr/lib\", %q]\n  read_paths  = [%q]\n  write_paths = [%q]\n}",
		built.helper, dir, filepath.Join(built.root, "gocache")))
}

func indent(lines []string) string {
	var b strings.Builder
	for _, block := range lines {
		for line := range strings.Lines(block) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	return b.String()
}

// script returns a script of one capability for an intent.
func script(id, intent, rest string, steps ...string) string {
	return fmt.Sprintf("{:capabilities\n {%s\n  {:intents #{%s} %s\n   :steps [%s]}}}\n", id, intent, rest, strings.Join(steps, "\n           "))
}
