package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// Runner starts one plugin process for go-plugin. go-plugin receives one
// handshake line and, when the process has ended, the end of both streams; all
// other output goes to Output and into the report. A Runner can be started
// once.
type Runner struct {
	command   Command
	socketDir string
	output    func(Line)
	accept    func(Handshake) error
	redact    func(string, int) string

	hostOut, hostErr *io.PipeReader // what go-plugin reads
	feedOut, feedErr *io.PipeWriter

	tail    Tail
	drained chan struct{} // closed when both streams were read to their end
	last    chan struct{} // closed when the content at the exit was read

	mu        sync.Mutex
	proc      *Process
	head      []byte
	noise     int64
	handshake *Handshake
	refused   error
}

var _ runner.Runner = (*Runner)(nil)

// RunnerConfig configures a Runner.
type RunnerConfig struct {
	Command Command
	// SocketDir is the directory below which the plugin must listen. Other
	// addresses are rejected.
	SocketDir string
	// Output receives every line but the handshake, from two goroutines. It
	// must not block for long. May be nil.
	Output func(Line)
	// Redact returns the redacted first most bytes of a line. It sees the bytes
	// after them too, because a secret may begin before the cut. May be nil.
	Redact func(line string, most int) string
	// Accept checks the handshake before go-plugin sees it; its error fails the
	// start and is returned by Refused. May be nil.
	Accept func(Handshake) error
}

// NewRunner returns a runner that is not started.
func NewRunner(c RunnerConfig) *Runner {
	r := &Runner{
		command: c.Command, socketDir: c.SocketDir, output: c.Output, accept: c.Accept, redact: c.Redact,
		drained: make(chan struct{}), last: make(chan struct{}),
	}
	if r.output == nil {
		r.output = func(Line) {}
	}
	if r.redact == nil {
		r.redact = func(text string, most int) string { return text[:min(most, len(text))] }
	}
	r.hostOut, r.feedOut = io.Pipe()
	r.hostErr, r.feedErr = io.Pipe()
	return r
}

// Start implements runner.Runner.
func (r *Runner) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc != nil {
		return errors.New("start plugin: the runner was already started")
	}
	proc, err := Start(r.command)
	if err != nil {
		return err
	}
	r.proc = proc
	stdout, stderr := newPipe(proc.Stdout()), newPipe(proc.Stderr())
	var readers sync.WaitGroup
	readers.Go(func() { r.readStdout(proc, stdout) })
	readers.Go(func() { r.readStderr(proc, stderr) })
	go func() {
		readers.Wait()
		close(r.drained)
	}()
	go func() {
		<-proc.Done()
		// Closed now, not at the end of the pipes, which other processes may
		// hold open.
		_ = r.feedOut.Close()
		_ = r.feedErr.Close()
		stdout.written()
		stderr.written()
		<-stdout.reached
		<-stderr.reached
		close(r.last)
	}()
	return nil
}

// readStdout passes the first line that is a handshake on.
func (r *Runner) readStdout(proc *Process, from *pipe) {
	defer func() { _ = proc.Stdout().Close() }()
	defer from.ends()
	waiting := true
	scanLines(from, Stdout, func(l Line) {
		if waiting && l.Cut == 0 {
			if h, ok := ParseHandshake(l.Text); ok {
				waiting = false
				r.offer(h, l.Text)
				return
			}
		}
		r.stray(l)
	})
	if waiting {
		_ = r.feedOut.Close() // no handshake will come: fail before the timeout
	}
}

// offer checks the handshake and passes it on.
func (r *Runner) offer(h Handshake, line string) {
	var err error
	if r.accept != nil {
		err = r.accept(h)
	}
	r.mu.Lock()
	r.handshake, r.refused = &h, err
	r.mu.Unlock()
	if err != nil {
		_ = r.feedOut.CloseWithError(err)
		return
	}
	_, _ = io.WriteString(r.feedOut, line+"\n")
}

// kept returns the redacted and shortened line.
func (r *Runner) kept(l Line) Line {
	l.Cut += int64(max(0, len(l.Text)-MaxLine))
	l.Text = r.redact(l.Text, MaxLine)
	return l
}

func (r *Runner) stray(l Line) {
	l = r.kept(l)
	r.mu.Lock()
	text := l.Text
	if r.noise > 0 {
		text = "\n" + text
	}
	r.noise += int64(len(text)) + l.Cut
	if room := outputHead - len(r.head); room > 0 {
		r.head = append(r.head, text[:min(len(text), room)]...)
	}
	r.mu.Unlock()
	r.tail.Add(l.Text)
	r.output(l)
}

func (r *Runner) readStderr(proc *Process, from *pipe) {
	defer func() { _ = proc.Stderr().Close() }()
	defer from.ends()
	scanLines(from, Stderr, r.Keep)
}

// Keep records a line that was not read from the pipes of the process. It is
// added to the report and passed to Output.
func (r *Runner) Keep(l Line) {
	l = r.kept(l)
	r.tail.Add(l.Text)
	r.output(l)
}

// Process returns the started process, nil before Start.
func (r *Runner) Process() *Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// Handshake returns the handshake line of the plugin, if it sent one.
func (r *Runner) Handshake() (Handshake, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handshake == nil {
		return Handshake{}, false
	}
	return *r.handshake, true
}

// Refused returns the error with which Accept rejected the handshake, or nil.
func (r *Runner) Refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// ErrNoHandshake means that the program ran and sent no handshake.
var ErrNoHandshake = errors.New("no handshake")

// StartError explains why a start failed, for which go-plugin returned err: the
// handshake was rejected, the program ended, or it printed something else.
// After a handshake it returns err.
func (r *Runner) StartError(err error) error {
	if refused := r.Refused(); refused != nil {
		return refused
	}
	rep := r.Report()
	_, shook := r.Handshake()
	switch {
	case rep.PID == 0, shook:
		return err
	case rep.Exited && !rep.Killed:
		return fmt.Errorf("it ended before the handshake: %s%s", rep, rep.causeSuffix())
	case rep.Output != "" && errors.Is(err, ErrNoHandshake):
		return fmt.Errorf("%w: it printed %q%s", err, Clip(rep.Output, 80), rep.causeSuffix())
	case rep.Output != "":
		return fmt.Errorf("%w: it printed %q%s", ErrNoHandshake, Clip(rep.Output, 80), rep.causeSuffix())
	case errors.Is(err, ErrNoHandshake):
		return fmt.Errorf("%w%s", err, rep.causeSuffix())
	}
	return fmt.Errorf("%w: it closed its standard output%s", ErrNoHandshake, rep.causeSuffix())
}

// Drained is closed when all output of the process was read: a moment after the
// exit, or OutputGrace after it if another process holds its pipes.
func (r *Runner) Drained() <-chan struct{} { return r.drained }

// LastLines is closed when every complete line that was in the pipes at the
// exit has been handled, even if other processes hold the pipes; at the latest
// after Drained.
func (r *Runner) LastLines() <-chan struct{} { return r.last }

// Report returns the facts about the process that are known at the time of the
// call.
func (r *Runner) Report() Report {
	r.mu.Lock()
	rep := Report{Output: strings.ToValidUTF8(string(r.head), "\uFFFD"), Noise: r.noise}
	proc := r.proc
	r.mu.Unlock()
	rep.Tail, rep.Panic = r.tail.Lines(), r.tail.panicText()
	if proc == nil {
		return rep
	}
	rep.PID = proc.PID()
	select {
	case <-proc.Done():
		rep.Exited, rep.Exit, rep.Killed, rep.Escaped = true, proc.Exit(), proc.Killed(), proc.outlived()
	default:
	}
	return rep
}

// diagnoseWait is the time for which Diagnose waits for the exit of a process that
// closed its output.
const diagnoseWait = 100 * time.Millisecond

// Diagnose implements runner.Runner.
func (r *Runner) Diagnose(context.Context) string {
	if proc := r.Process(); proc != nil {
		timer := time.NewTimer(diagnoseWait)
		defer timer.Stop()
		select {
		case <-proc.Done():
		case <-timer.C:
		}
	}
	return r.Report().String()
}

// Stdout implements runner.Runner: the handshake line, and EOF when the process
// ends. Without a handshake the reader gives no bytes, and EOF when the output
// ends; after one that Accept rejected, the error of Accept.
func (r *Runner) Stdout() io.ReadCloser { return r.hostOut }

// Stderr implements runner.Runner: the reader gives no bytes, and EOF when the
// process ends.
func (r *Runner) Stderr() io.ReadCloser { return r.hostErr }

// Name implements runner.Runner.
func (r *Runner) Name() string { return filepath.Base(r.command.Path) }

// ID implements runner.Runner: the process id, empty before Start.
func (r *Runner) ID() string {
	if proc := r.Process(); proc != nil {
		return strconv.Itoa(proc.PID())
	}
	return ""
}

// Wait implements runner.Runner. It returns when the process has exited or ctx
// ends. The error is nil for a clean exit only.
func (r *Runner) Wait(ctx context.Context) error {
	proc := r.Process()
	if proc == nil {
		return errors.New("wait for plugin: not started")
	}
	select {
	case <-proc.Done():
		if exit := proc.Exit(); !exit.Clean() {
			return errors.New(exit.String())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kill implements runner.Runner with Process.Kill. Before Start it does nothing.
func (r *Runner) Kill(context.Context) error {
	if proc := r.Process(); proc != nil {
		return proc.Kill()
	}
	return nil
}

// PluginToHost implements runner.Runner. It accepts only unix sockets in the
// socket directory. Connect with Dial, which is not affected by later changes
// of the path.
func (r *Runner) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" {
		return "", "", fmt.Errorf("plugin listens on %s %s: expected a unix socket", network, address)
	}
	rel, err := socketBelow(r.socketDir, address)
	if err != nil {
		return "", "", err
	}
	if _, release, err := pinSocket(r.socketDir, rel); err == nil {
		release()
	} else if errors.Is(err, errNoSocket) {
		return "", "", fmt.Errorf("plugin listens on %s: %w", address, err)
	}
	return network, address, nil
}

// Dial connects to the socket of the handshake; the given address is ignored.
// It follows no symbolic link that the plugin made.
func (r *Runner) Dial(ctx context.Context, _ string) (net.Conn, error) {
	h, ok := r.Handshake()
	if !ok {
		return nil, ErrNoHandshake
	}
	return dialBelow(ctx, r.socketDir, h.Address)
}

// HostToPlugin implements runner.Runner.
func (r *Runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
