package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/sdk/confine"
)

// Command is a program to start.
type Command struct {
	// Path is the executable. It is not looked up in PATH; a relative path is
	// relative to the caller's directory, not to Dir.
	Path string
	// Args follow the name of the program.
	Args []string
	// Env is the complete environment; nil means an empty one.
	Env []string
	// Dir is the working directory; empty: that of the caller.
	Dir string
	// Policy restricts the process; nil: no restrictions. With a policy the
	// executable of this process is started first, as the trampoline of package
	// confine, which runs before its main function.
	Policy *confine.Policy
	// Program is Path opened for reading, so that the inspected file is the
	// executed one. The interpreter of a script opens Path itself; if the file
	// at Path changed, Start fails. Nil: Start opens Path. Program is used only
	// with a Policy; the caller closes it.
	Program *os.File
	// Reaper kills the family of the process if this process dies first; nil
	// for no reaper.
	Reaper *Reaper
	// OutputGrace is the time for which the output pipes stay open after the exit
	// while another process still holds their write ends. Zero means
	// DefaultOutputGrace.
	OutputGrace time.Duration
}

// DefaultOutputGrace is the default of Command.OutputGrace. Output that a
// process outside the session writes later is lost.
const DefaultOutputGrace = 250 * time.Millisecond

// errReaped is the error of a signal after the exit.
var errReaped = os.ErrProcessDone

// family is a started process and its descendants: the members of the session
// that it leads, and the processes that carry its mark (see [confine.NewMark])
// in any session.
type family struct {
	session int
	start   uint64 // start time of the leader; with session it identifies the family
	mark    uint64 // 0: only the session is known
}

// Process is a running child in its own session.
type Process struct {
	pid     int
	mark    uint64 // carried by the process and its descendants; 0: none
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	reaper  *Reaper
	grace   time.Duration
	done    chan struct{}
	settled chan struct{}

	mu     sync.Mutex // held while a signal is sent, so that pid is not reused
	reaped bool
	killed bool // Kill was called before the exit was seen

	exit    Exit // written before done is closed
	escaped int  // written before settled is closed
}

// Start runs the program. The standard input of the child is a pipe that ends
// when this process ends. A child that cannot be started is an error.
func Start(c Command) (*Process, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	if c.Reaper != nil {
		if err := c.Reaper.begin(); err != nil {
			return nil, fmt.Errorf("start %s: %w", path, err)
		}
	}
	child, parent, err := stdio()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p := &Process{
		stdin: parent[0], stdout: parent[1], stderr: parent[2],
		reaper: c.Reaper, grace: c.OutputGrace,
		done: make(chan struct{}), settled: make(chan struct{}),
	}
	if p.grace <= 0 {
		p.grace = DefaultOutputGrace
	}
	env := c.Env
	if env == nil {
		env = []string{} // nil would mean the environment of the caller
	}
	attr := &os.ProcAttr{Dir: c.Dir, Env: env, Files: child, Sys: sysProcAttr()}
	program, argv := path, append([]string{c.Path}, c.Args...)
	orders, err := p.confinement(c, path, argv, env)
	if err != nil {
		closeAll(child)
		closeAll(parent)
		return nil, startFailed(path, err)
	}
	if orders != nil {
		program, argv = orders.Path, orders.Args
		attr.Env, attr.Files = []string{}, append(attr.Files, orders.Files...)
	}
	started := make(chan error)
	go p.life(program, argv, attr, started)
	err = <-started
	closeAll(child)
	if err != nil {
		if orders != nil {
			orders.Abandon()
		}
		closeAll(parent)
		return nil, startFailed(path, err)
	}
	if orders != nil {
		if err := p.confined(c, path, orders); err != nil {
			return nil, startFailed(path, err)
		}
	}
	return p, nil
}

// confinement prepares the trampoline for a command with a policy, and makes
// the mark that the trampoline sets. It returns nil without a policy, and on a
// system without a trampoline if the policy requires nothing.
func (p *Process) confinement(c Command, path string, argv, env []string) (*confine.Prepared, error) {
	if c.Policy == nil {
		return nil, nil
	}
	if support := confine.Probe(); support.System != "linux" && (c.Policy.Level.Rank() <= 0 || c.Policy.BestEffort) {
		return nil, c.Policy.Validate()
	}
	p.mark = confine.NewMark()
	return confine.Start{
		Policy:  *c.Policy,
		Path:    path,
		File:    c.Program,
		Argv:    argv,
		Env:     env,
		Deathly: true,
		Mark:    p.mark,
	}.Prepare()
}

// confined waits until the trampoline has executed the program. On failure it kills
// the process and waits at most sessionKillLimit for its end.
func (p *Process) confined(c Command, path string, orders *confine.Prepared) error {
	orders.Close() // otherwise the status pipe never ends
	defer orders.Abandon()
	err := orders.Outcome(trampolineLimit)
	if err == nil && c.Program != nil && confine.Script(c.Program) {
		err = confine.SameProgram(path, c.Program) // its interpreter opened it by path
	}
	if err == nil {
		return nil
	}
	_ = p.Kill()
	select {
	case <-p.settled:
	case <-time.After(sessionKillLimit):
	}
	closeAll([]*os.File{p.stdout, p.stderr})
	return err
}

// trampolineLimit bounds the wait for the trampoline, which takes some
// milliseconds on an idle machine.
const trampolineLimit = 10 * time.Second

// life starts the process and waits for its exit on one operating system
// thread: the kernel sends the death signal when the thread that started the
// child ends, not when the parent process does, and Go ends idle threads.
func (p *Process) life(path string, argv []string, attr *os.ProcAttr, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	proc, err := os.StartProcess(path, argv, attr)
	if err != nil {
		started <- err
		return
	}
	p.pid = proc.Pid
	members := family{session: p.pid, start: startTime(p.pid), mark: p.mark}
	if p.reaper != nil {
		p.reaper.watch(members)
	}
	started <- nil

	state, err := p.reap(proc)
	if err == nil {
		p.exit = exitOf(state, time.Since(begin))
	} else {
		p.exit = Exit{Code: -1, Lived: time.Since(begin)}
	}
	close(p.done)

	p.escaped = endFamilies([]family{members}, sessionKillLimit)
	if p.reaper != nil {
		p.reaper.forget(members)
	}
	_ = p.stdin.Close()
	// Readers have until then to empty the pipes, even if a process outside the
	// session holds the other ends forever.
	time.AfterFunc(p.grace, func() { closeAll([]*os.File{p.stdout, p.stderr}) })
	close(p.settled)
}

// sessionKillLimit bounds the sweep after an exit. SIGKILL works at once,
// except for a process in an uninterruptible system call.
const sessionKillLimit = time.Second

// PID is the id of the process, of its group and of its session.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended and Exit is set.
func (p *Process) Done() <-chan struct{} { return p.done }

// Settled is closed after Done, when the other members of the session and all
// descendants with the mark of the process have been killed too.
func (p *Process) Settled() <-chan struct{} { return p.settled }

// Exit returns the exit of the process; the zero value until Done is closed.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Killed reports whether the process ended because of Kill; false until Done is
// closed.
func (p *Process) Killed() bool {
	if p.Exit().Signal != syscall.SIGKILL {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// outlived is the number of descendants that outlived the process group; 0 until
// Settled is closed.
func (p *Process) outlived() int {
	select {
	case <-p.settled:
		return p.escaped
	default:
		return 0
	}
}

// Stdin is the write end of the child's standard input. The child sees its end
// when this process ends or calls CloseStdin.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout is the read end of standard output. It is closed OutputGrace after the
// exit, even if another process holds the write end; a reader may close it
// earlier.
func (p *Process) Stdout() *os.File { return p.stdout }

// Stderr is the read end of standard error; as Stdout.
func (p *Process) Stderr() *os.File { return p.stderr }

// CloseStdin closes the standard input of the child, which asks it to end.
func (p *Process) CloseStdin() error {
	if err := p.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close standard input of %d: %w", p.pid, err)
	}
	return nil
}

// Signal sends a signal to the process group. After the exit it returns
// os.ErrProcessDone and sends nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return errReaped
	}
	if err := killGroup(p.pid, sig); err != nil {
		return fmt.Errorf("signal %s to group %d: %w", signalName(sig), p.pid, err)
	}
	return nil
}

// Kill sends SIGKILL to the process group and does not wait; Done reports the
// exit. The other members of the session and the descendants with the mark are
// killed after the exit; Settled reports that. Kill returns nil if the process
// has ended.
func (p *Process) Kill() error {
	p.mu.Lock()
	p.killed = p.killed || !p.reaped
	p.mu.Unlock()
	err := p.Signal(syscall.SIGKILL)
	if errors.Is(err, errReaped) {
		return nil
	}
	return err
}

// stdio makes the three pipes: the child's ends and the parent's ends, both in
// the order of the descriptors.
func stdio() (child, parent []*os.File, err error) {
	for fd := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(child)
			closeAll(parent)
			return nil, nil, fmt.Errorf("make pipe: %w", err)
		}
		if fd == 0 {
			child, parent = append(child, r), append(parent, w)
		} else {
			child, parent = append(child, w), append(parent, r)
		}
	}
	return child, parent, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
