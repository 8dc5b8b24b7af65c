package process

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/internal/worker"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
	"github.com/fermenthq/ferment/sdk/launch"
)

// grace is the time that a program has to end after SIGTERM.
const grace = 2 * time.Second

// Runner runs programs.
type Runner struct {
	Tool effects.Tool
	// Strict rejects programs that the kernel cannot confine.
	Strict bool
	// Reaper kills each session if this process dies; may be nil.
	Reaper *launch.Reaper
	// Env looks up the environment variables that can be passed to programs.
	Env func(string) (string, bool)
}

// Run runs the program that the input names and returns its exit and output. It returns when all
// processes of the program have ended. When ctx ends, the program is stopped as at its timeout, and
// the error is the cause of ctx. A status other than 0 is an error only if the input requests that.
func (r *Runner) Run(ctx context.Context, input edn.Value, s *effects.Scope) (edn.Value, *contract.Error) {
	p, err := r.Tool.Program(input, s)
	if err != nil {
		return edn.Nil(), err
	}
	command, err := r.command(&p, s)
	if err != nil {
		return edn.Nil(), err
	}
	process, serr := launch.Start(command)
	if serr != nil {
		return edn.Nil(), r.notStarted(&p, serr)
	}
	return r.watch(ctx, process, &p, input, s)
}

// command resolves the program now: links in its path and in that of the
// directory are followed, and their targets must be allowed too.
func (r *Runner) command(p *effects.Program, s *effects.Scope) (launch.Command, *contract.Error) {
	var c launch.Command
	program, err := filepath.EvalSymlinks(p.Command)
	if err != nil {
		return c, contract.Errorf("effects/runtime-missing", ":%s: find the program %s: %s", r.Tool.ID, p.Command,
			cause(err)).
			WithHint("install it, or correct allow_commands of the scope in ferment.hcl")
	}
	if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() {
		return c, effects.Denied("command-not-allowed", r.Tool, "%s is not a regular file", p.Command)
	}
	dir, refused := r.directory(p)
	if refused != nil {
		return c, refused
	}
	limits := confine.ResourceLimits{
		Memory:    uint64(s.Memory.Or(effects.DefaultProcessMemory)),
		OpenFiles: 1024, FileSize: 1 << 30, CPUTime: uint64(p.Timeout/time.Second)*2 + 2,
	}
	if confine.Probe().Processes { // otherwise await counts them
		limits.Processes = processLimit(s.Processes.Or(effects.DefaultProcesses))
	}
	policy := &confine.Policy{
		Level: confine.Strict, BestEffort: !r.Strict, WritePaths: []string{dir}, ExecPaths: programs(s), KeepSession: true, Limits: limits,
		// Editors set the modes of the files that they write. Root could change
		// the modes of system files, which all programs may read.
		OpenAttributes: os.Getuid() != 0,
	}
	return launch.Command{
		Path:   program,
		Args:   p.Args,
		Env:    r.environment(p, s),
		Dir:    dir,
		Policy: policy,
		Reaper: r.Reaper,
	}, nil
}

// programs returns the allowed programs that exist, and the targets of links to
// them.
func programs(s *effects.Scope) []string {
	var out []string
	for _, c := range s.AllowCommands.V {
		if real, err := filepath.EvalSymlinks(c); err == nil {
			out = append(out, real)
		}
	}
	return out
}

func (r *Runner) directory(p *effects.Program) (string, *contract.Error) {
	within, err := filepath.EvalSymlinks(p.Within)
	if err != nil {
		return "", effects.Denied("cwd-not-allowed", r.Tool, "the directory %s: %s", p.Within, cause(err))
	}
	dir, err := filepath.EvalSymlinks(p.Dir)
	if err != nil {
		return "", effects.Denied("cwd-not-allowed", r.Tool, "the directory %s: %s", p.Dir, cause(err))
	}
	if !effects.Covers(effects.KindDirs, within, dir) {
		return "", effects.Denied("cwd-not-allowed", r.Tool, "the directory %s leads out of %s through a link",
			p.Dir, p.Within)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", effects.Denied("cwd-not-allowed", r.Tool, "%s is not a directory", p.Dir)
	}
	return dir, nil
}

func (r *Runner) environment(p *effects.Program, s *effects.Scope) []string {
	env := []string{}
	for _, name := range s.EnvPass.V {
		value, ok := p.Env[name]
		if !ok && r.Env != nil {
			value, ok = r.Env(name)
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	sort.Strings(env)
	return env
}

func (r *Runner) notStarted(p *effects.Program, err error) *contract.Error {
	var held *confine.Error
	if as(err, &held) && held.Layer != confine.LayerProgram {
		return worker.Unheld(r.Tool, err)
	}
	return contract.Errorf("effects/process-failed", ":%s: start %s: %s", r.Tool.ID, p.Command, cause(err)).
		WithHint("check that the program can be executed on this machine").
		WithSource(contract.SourceDownstream)
}

// kept holds the beginning of one stream, up to limit bytes. more is set if bytes were dropped.
type kept struct {
	mu    sync.Mutex
	data  []byte
	limit int64
	more  bool
}

// drain reads a stream to its end and keeps its first limit bytes.
func (k *kept) drain(from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		k.mu.Lock()
		room := min(int64(n), k.limit-int64(len(k.data)))
		k.data = append(k.data, buf[:room]...)
		k.more = k.more || room < int64(n)
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (k *kept) text() edn.Value {
	k.mu.Lock()
	defer k.mu.Unlock()
	if utf8.Valid(k.data) {
		return edn.Text(string(k.data))
	}
	return edn.Text(strings.ToValidUTF8(string(k.data), "\uFFFD"))
}

// watch passes the input to a program, waits until it has ended or was stopped, and returns its
// output.
func (r *Runner) watch(
	ctx context.Context, p *launch.Process, program *effects.Program, input edn.Value, s *effects.Scope,
) (edn.Value, *contract.Error) {
	limit := s.MaxOutput.Or(effects.DefaultProcessOutput)
	stdout, stderr := &kept{limit: limit}, &kept{limit: limit}
	var pipes sync.WaitGroup
	pipes.Go(func() { stdout.drain(p.Stdout()) })
	pipes.Go(func() { stderr.drain(p.Stderr()) })
	pipes.Go(func() {
		text, _ := input.Key("stdin").AsString()
		_, _ = io.WriteString(p.Stdin(), text) // a program need not read it
		_ = p.CloseStdin()
	})
	why := r.await(ctx, p, program, s)
	<-p.Done()
	<-p.Settled()
	pipes.Wait()
	_ = p.Stdout().Close()
	_ = p.Stderr().Close()
	out := r.out(p, program, stdout, stderr)
	if why != nil {
		return edn.Nil(), why.WithDetail("out", out).WithDetail("effect/state", edn.K("unknown"))
	}
	if input.Key("fail-on-nonzero?").Truthy() && !p.Exit().Clean() {
		return edn.Nil(), contract.Errorf("effects/process-failed", ":%s: %s ended with %s", r.Tool.ID, program.Command,
			p.Exit()).WithDetail("out", out)
	}
	return out, nil
}

// await waits for a program. It returns nil when the program has ended by itself; otherwise it
// stops the program and returns the reason.
func (r *Runner) await(
	ctx context.Context, p *launch.Process, program *effects.Program, s *effects.Scope,
) *contract.Error {
	timeout := time.NewTimer(program.Timeout)
	defer timeout.Stop()
	crowd := time.NewTicker(countEvery)
	defer crowd.Stop()
	most := s.Processes.Or(effects.DefaultProcesses)
	for {
		select {
		case <-p.Done():
			return nil
		case <-crowd.C:
			if n := countProcesses(p.PID()); n > most {
				_ = p.Kill()
				return contract.Errorf("effects/process-failed",
					":%s: %s has %d processes and threads, the limit is %d",
					r.Tool.ID, program.Command, n, most).
					WithDetail("reason", edn.K("processes"))
			}
		case <-timeout.C:
			stop(p)
			return contract.Errorf("timeout/hard", ":%s: %s ran longer than %s", r.Tool.ID, program.Command, program.Timeout).
				WithHint("allow more time with :timeout-ms, or with timeout of the scope in ferment.hcl")
		case <-ctx.Done():
			stop(p)
			return contract.AsError(context.Cause(ctx))
		}
	}
}

// stop sends SIGTERM, and kills the program if it has not ended after the time grace.
func stop(p *launch.Process) {
	launch.Stop(context.Background(), p.Done(), []launch.Step{
		p.SignalStep("terminate", syscall.SIGTERM, grace),
		p.SignalStep("kill", syscall.SIGKILL, grace),
	})
}

func (r *Runner) out(p *launch.Process, program *effects.Program, stdout, stderr *kept) edn.Value {
	argv := []edn.Value{edn.Text(program.Command)}
	for _, a := range program.Args {
		argv = append(argv, edn.Text(a))
	}
	exit := p.Exit()
	var m edn.MapBuilder
	m.Key("tool/id", edn.K(r.Tool.ID))
	m.Key("effect", edn.K(r.Tool.Effect))
	m.Key("command", edn.Vector(argv...))
	m.Key("cwd", edn.Text(program.Dir))
	m.Key("exit", edn.Int(int64(exit.Code)))
	m.OptInt("signal", int64(exit.Signal))
	m.Key("stdout", stdout.text())
	m.Key("stderr", stderr.text())
	m.Key("truncated?", edn.Bool(stdout.more || stderr.more))
	return m.Map()
}
