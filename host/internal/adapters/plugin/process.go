package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Times that are not configurable.
const (
	// reapWait is the maximum wait for a process after SIGKILL.
	reapWait = 2 * time.Second
	// tailWait is the time that a crash waits for the end of the output before the callers get
	// their error. It is part of their 10 ms (ATT-007).
	tailWait = 3 * time.Millisecond
	// lineWait is the maximum wait for lines that are still in the pipes of an ended process.
	lineWait = time.Second
	// shutdownMethod is the method of go-plugin's controller that stops a
	// plugin. It is called directly because the library's own call has no
	// deadline.
	shutdownMethod = "/plugin.GRPCController/Shutdown"
)

// process is one started plugin process. Its resources are created for this start and released with
// it.
type process struct {
	name        string
	incarnation int
	dir         string // of the sockets
	runner      *launch.Runner
	client      *goplugin.Client
	conn        *grpc.ClientConn
	wire        *wire.Client
	prints      []io.Closer

	// life is canceled when the process ends; its cause is the error for the users of the process.
	life context.Context
	end  context.CancelCauseFunc

	cleaned sync.Once
}

// launching is the input of spawn.
type launching struct {
	settings    Settings
	exe         *os.File // the opened and hashed program; nil: start by path
	incarnation int
	runtime     *rundir.Dir
	reaper      *launch.Reaper
	workdir     string
	temp        string                              // directory for temporary files; empty: the socket directory
	policy      func(sockets string) confine.Policy // returns the permissions of the process
	bare        bool                                // start without Env and EnvPass
	output      func(line launch.Line, pid int)     // may be nil
	redact      func(text string, most int) string  // may be nil
	// redactAnswers returns the function that redacts texts in answers; nil if there are no
	// secrets. It is used only if redact is set.
	redactAnswers func() func(text string) string
}

// spawn starts the program and connects to it. When ctx ends, the process is killed. After an error
// no process is left, and the report holds its exit and last output, as far as it was started.
func spawn(ctx context.Context, l launching) (*process, launch.Report, error) {
	dir, err := l.runtime.Instance()
	if err != nil {
		return nil, launch.Report{}, err
	}
	p := &process{name: l.settings.Name, incarnation: l.incarnation, dir: dir}
	p.life, p.end = context.WithCancelCause(context.Background())
	starting := make(chan connection, 1)
	var once handover
	cfg := p.config(ctx, l, &once)
	if err := wire.Secure(cfg); err != nil {
		p.discard(err)
		return nil, launch.Report{}, err
	}
	p.client = goplugin.NewClient(cfg)
	go func() { starting <- connect(p.client) }()
	var c connection
	select {
	case c = <-starting:
		err = c.err
	case <-ctx.Done():
		// The library holds its lock during a start, so the only way to abort a start is to kill
		// the process.
		once.abort()
		err = fmt.Errorf("%w within %s", launch.ErrNoHandshake, l.settings.StartTimeout)
		if errors.Is(ctx.Err(), context.Canceled) {
			err = context.Canceled
		}
		select {
		case c = <-starting:
		case <-time.After(reapWait):
		}
	}
	p.conn, p.wire, p.runner = c.conn, c.wire, once.taken()
	if p.wire != nil && l.redact != nil {
		p.wire.HideWith(func(text string) string { return l.redact(text, len(text)) }, l.redactAnswers)
	}
	if err == nil {
		return p, launch.Report{}, nil
	}
	p.discard(err)
	rep := launch.Report{}
	if p.runner != nil {
		rep = p.runner.Report()
		err = startError(err, p.runner)
	}
	return nil, rep, err
}

// startError replaces the long error text of the library.
func startError(err error, r *launch.Runner) error {
	var typed *contract.Error
	if r.Refused() == nil && (errors.As(err, &typed) || errors.Is(err, context.Canceled)) {
		return err
	}
	return wire.ExplainStart(r.StartError(err))
}

// handover passes the runner from the goroutine of the library to the one that
// may have to kill it.
type handover struct {
	mu      sync.Mutex
	runner  *launch.Runner
	aborted bool
}

func (h *handover) give(r *launch.Runner) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runner = r
	return !h.aborted
}

func (h *handover) taken() *launch.Runner {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runner
}

// keep records a line that a Go plugin prints after the library has redirected its streams.
func (h *handover) keep(line launch.Line) {
	if r := h.taken(); r != nil {
		r.Keep(line)
	}
}

// dial connects to the process.
func (h *handover) dial(ctx context.Context, address string) (net.Conn, error) {
	return h.taken().Dial(ctx, address)
}

// abort kills the process and prevents a later start.
func (h *handover) abort() {
	h.mu.Lock()
	h.aborted = true
	r := h.runner
	h.mu.Unlock()
	if r != nil {
		_ = r.Kill(context.Background())
	}
}

// config returns a new configuration for the library, which may be used only
// once.
func (p *process) config(ctx context.Context, l launching, once *handover) *goplugin.ClientConfig {
	c := wire.ClientConfig()
	c.StartTimeout = l.settings.StartTimeout + reapWait // longer than ctx, which should end first
	c.Logger = hclog.NewNullLogger()
	c.UnixSocketConfig = &goplugin.UnixSocketConfig{TempDir: p.dir}
	if n := l.settings.MaxMessage; n > 0 {
		c.GRPCDialOptions = append(c.GRPCDialOptions,
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(n), grpc.MaxCallSendMsgSize(n)))
	}
	c.GRPCDialOptions = append(c.GRPCDialOptions, grpc.WithContextDialer(once.dial))
	printed := launch.NewLineWriter(launch.Print, once.keep)
	printedErr := launch.NewLineWriter(launch.PrintErr, once.keep)
	p.prints = []io.Closer{printed, printedErr}
	c.SyncStdout, c.SyncStderr = printed, printedErr
	c.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
		program, err := filepath.Abs(l.settings.Command[0])
		if err != nil {
			return nil, err
		}
		set, pass := l.settings.Env, l.settings.EnvPass
		if l.bare {
			set, pass = nil, nil
		}
		policy := l.policy(p.dir)
		set = withDefaults(set, pass, l.settings.defaults(cmp.Or(l.temp, p.dir)))
		workdir := l.workdir
		if workdir == "" {
			workdir = p.dir
		}
		var r *launch.Runner
		r = launch.NewRunner(launch.RunnerConfig{
			Command: launch.Command{
				Path: program, Args: l.settings.Command[1:], Dir: workdir, Reaper: l.reaper, Policy: &policy, Program: l.exe,
				Env: launch.Environment(set, pass, os.LookupEnv, cmd.Env),
			},
			SocketDir: p.dir,
			Output: func(line launch.Line) {
				if l.output != nil {
					l.output(line, r.Process().PID())
				}
			},
			Redact: l.redact,
			Accept: acceptHandshake,
		})
		if !once.give(r) {
			return nil, context.Cause(ctx)
		}
		return r, nil
	}
	return c
}

// defaults returns environment variables that the operator need not set: a directory for temporary
// files, because that of the system is not accessible, and for interpreted programs variables that
// prevent Python from loading unapproved bytecode and packages, even without kernel enforcement.
func (s Settings) defaults(temp string) map[string]string {
	vars := map[string]string{"TMPDIR": temp}
	if len(s.Files) > 0 {
		maps.Copy(vars, map[string]string{
			"PYTHONDONTWRITEBYTECODE": "1",
			"PYTHONNOUSERSITE":        "1",
			"PYTHONPYCACHEPREFIX":     filepath.Join(temp, "no-bytecode"),
		})
	}
	return vars
}

// withDefaults returns set with those defaults that the operator neither sets nor passes on.
func withDefaults(set map[string]string, pass []string, defaults map[string]string) map[string]string {
	with := maps.Clone(defaults)
	maps.Copy(with, set)
	maps.DeleteFunc(with, func(name, _ string) bool {
		_, written := set[name]
		return !written && slices.Contains(pass, name)
	})
	return with
}

// acceptHandshake rejects a handshake that would make a later step fail.
func acceptHandshake(h launch.Handshake) error {
	return wire.Offer{Core: h.Core, Version: h.Version, Protocol: h.Protocol, Certificate: h.Certificate}.Check()
}

// checkSocketDir returns an error if the socket directory holds more files or bytes than a process
// may leave there. It follows no links and visits a limited number of files.
func (p *process) checkSocketDir() *contract.Error {
	files, size := -1, int64(0) // -1: WalkDir also visits the directory itself
	_ = filepath.WalkDir(p.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed in the meantime
		}
		files++
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		if files > wire.MaxSocketFiles {
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case files > wire.MaxSocketFiles:
		return contract.Errorf("runtime/protocol", "its socket directory has more than %d files, which is the limit",
			wire.MaxSocketFiles)
	case size > wire.MaxSocketBytes:
		return contract.Errorf("runtime/protocol",
			"the files in its socket directory have %d bytes, the limit is %d",
			size, wire.MaxSocketBytes)
	}
	return nil
}

// connection is the result of connect.
type connection struct {
	conn *grpc.ClientConn
	wire *wire.Client
	err  error
}

// connect connects to a plugin. It must run in its own goroutine: each of its calls may block until
// the process is killed. A panic of the library, as after a hostile handshake, becomes an error.
func connect(client *goplugin.Client) (c connection) {
	defer func() {
		if r := recover(); r != nil {
			c.err = contract.Errorf("runtime/protocol", "the handshake of the plugin is malformed, reading it panicked: %v", r)
		}
	}()
	if _, c.err = client.Start(); c.err != nil {
		return c
	}
	protocol, err := client.Client()
	if err != nil {
		c.err = err
		return c
	}
	speaker, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		c.err = contract.Errorf("runtime/protocol", "the plugin does not speak gRPC")
		return c
	}
	raw, err := protocol.Dispense(wire.PluginKey)
	if err != nil {
		c.err = err
		return c
	}
	c.conn = speaker.Conn
	c.wire, ok = raw.(*wire.Client)
	if !ok {
		c.err = contract.Errorf("runtime/internal", "internal error: the plugin library returned an unknown kind of client")
	}
	return c
}

// done returns a channel that is closed when the process has ended.
func (p *process) done() <-chan struct{} { return p.runner.Process().Done() }

// pid returns the process id.
func (p *process) pid() int { return p.runner.Process().PID() }

// report returns the report of an ended process with its last lines. On a busy machine it waits for
// these lines, at most lineWait, but not for the end of a pipe that another process holds open.
func (p *process) report() launch.Report {
	timer := time.NewTimer(tailWait)
	defer timer.Stop()
	select {
	case <-p.runner.Drained():
	case <-timer.C:
		waitFor(p.runner.LastLines(), lineWait)
	}
	return p.runner.Report()
}

// shutdown calls go-plugin's Shutdown in the plugin. A lost connection is
// success, because go-plugin stops its server before it answers.
func (p *process) shutdown(ctx context.Context) error {
	limit := grpc.MaxCallRecvMsgSize(wire.MaxNotice)
	err := p.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{}, limit)
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// discard kills the process if it is running and releases all resources of the start. It waits at
// most reapWait for the end of the process, launch.DefaultOutputGrace for its output and reapWait
// for go-plugin.
func (p *process) discard(cause error) {
	p.end(cause)
	p.cleaned.Do(func() {
		if p.wire != nil {
			p.wire.Close()
		}
		if p.runner != nil {
			_ = p.runner.Kill(context.Background())
			if proc := p.runner.Process(); proc != nil {
				waitFor(proc.Settled(), reapWait)
				waitFor(p.runner.Drained(), launch.DefaultOutputGrace)
			}
		}
		// The library cleans up once the process has ended. If it hangs, a goroutine remains, but
		// the host is not blocked.
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			defer func() { _ = recover() }() // Kill may panic on a client that is not fully started
			p.client.Kill()
		}()
		waitFor(killed, reapWait)
		for _, w := range p.prints {
			_ = w.Close()
		}
		_ = os.RemoveAll(p.dir)
	})
}

func waitFor(ch <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	}
}
