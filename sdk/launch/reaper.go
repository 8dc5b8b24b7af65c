package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// reaperCommand is the hidden subcommand that runs a program as its own reaper.
const reaperCommand = "internal-reaper"

// After reaperRestarts restarts the families are left to the death signal and
// the end of standard input.
const (
	reaperRestarts = 5
	reaperQuit     = 2 * time.Second
	reaperWrite    = 100 * time.Millisecond
)

// Reaper is a process that outlives this one briefly and kills every process
// that was started here and did not end, with its descendants. It detects the
// end of this process by the end of a pipe, which also works after SIGKILL. It
// starts with the first [Command] that names it, and again if it is killed.
// Methods are safe for concurrent use.
type Reaper struct {
	args     []string
	mu       sync.Mutex
	proc     *os.Process // nil until the first command
	pipe     *os.File
	families map[int]family
	restarts int
	closed   bool
	ended    chan struct{} // closed when no reaper runs any more
}

// NewReaper returns a reaper that runs the program of this process. If
// runtimeDir is not empty, the reaper removes that directory after it has
// killed the processes.
func NewReaper(runtimeDir string) *Reaper {
	r := &Reaper{args: []string{"ferment", reaperCommand}, families: map[int]family{}, ended: make(chan struct{})}
	if runtimeDir != "" {
		r.args = append(r.args, runtimeDir)
	}
	return r
}

// begin starts the reaper process if none was started yet.
func (r *Reaper) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc != nil || r.closed {
		return nil
	}
	return r.start()
}

// start needs r.mu.
func (r *Reaper) start() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start reaper: %w", err)
	}
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe" // this program, even if its file was replaced
	}
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start reaper: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		closeAll([]*os.File{in, out})
		return fmt.Errorf("start reaper: %w", err)
	}
	// No death signal: the reaper must outlive its parent. Its own session
	// protects it from the signals of a terminal.
	sys := sysProcAttr()
	withoutDeathSignal(sys)
	proc, err := os.StartProcess(program, r.args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{in, null, null}, Sys: sys,
	})
	closeAll([]*os.File{in, null})
	if err != nil {
		_ = out.Close()
		return fmt.Errorf("start reaper: %w", err)
	}
	r.proc, r.pipe = proc, out
	for _, f := range r.families {
		r.send("+", f)
	}
	go r.stay(proc)
	return nil
}

// stay waits for the end of one reaper process and starts the next.
func (r *Reaper) stay(proc *os.Process) {
	_, _ = proc.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.pipe.Close()
	if !r.closed && r.restarts < reaperRestarts {
		r.restarts++
		if r.start() == nil {
			return
		}
	}
	close(r.ended)
}

// pid is the id of the reaper process; 0: not started yet.
func (r *Reaper) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return 0
	}
	return r.proc.Pid
}

// watch makes the reaper kill a family when this process ends.
func (r *Reaper) watch(f family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.families[f.session] = f
	r.send("+", f)
}

// forget ends the watch of a family without members.
func (r *Reaper) forget(f family) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.families, f.session)
	r.send("-", f)
}

// send needs r.mu. A reaper that does not read must not block the host: stay
// sees its exit, and the next one receives all families.
func (r *Reaper) send(op string, f family) {
	_ = r.pipe.SetWriteDeadline(time.Now().Add(reaperWrite))
	_, _ = fmt.Fprintf(r.pipe, "%s %d %d %d\n", op, f.session, f.start, f.mark)
}

// Close stops the reaper, which kills the remaining processes of the families.
func (r *Reaper) Close() error {
	r.mu.Lock()
	proc := r.proc
	if !r.closed && proc != nil {
		_ = r.pipe.Close()
	}
	r.closed = true
	r.mu.Unlock()
	if proc == nil {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-time.After(reaperQuit):
		_ = proc.Kill()
		<-r.ended
		return fmt.Errorf("close reaper: it did not end within %s and was killed", reaperQuit)
	}
}

// reapLimit bounds the wait for processes that cannot be killed.
const reapLimit = 10 * time.Second

// reaperMain is the reaper process: it reads families from standard input and
// kills them at its end. It returns the exit status.
func reaperMain(args []string) int {
	runtime.GOMAXPROCS(1)
	// Signals of an interrupted host must not stop the reaper.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	endFamilies(readFamilies(os.Stdin), reapLimit)
	if len(args) > 0 && args[0] != "" && !removeAbandoned(args[0]) {
		return 1
	}
	return 0
}

// removeAbandoned removes the directory of the host that died. The lock of a
// dying process may end a moment after its pipe.
func removeAbandoned(path string) bool {
	for range 100 {
		if _, err := RemoveAbandoned(path); err != nil {
			return false
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// RemoveAbandoned removes a directory unless a process holds its lock. It
// reports whether it removed one.
func RemoveAbandoned(path string) (bool, error) {
	dir, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // another host was faster
		}
		return false, err
	}
	defer func() { _ = dir.Close() }()
	if !abandoned(dir) {
		return false, nil
	}
	return true, os.RemoveAll(path)
}

// readFamilies reads lines "+ session start mark" and "- session start mark" to
// their end and returns the families that are left.
func readFamilies(in io.Reader) []family {
	families := map[int]family{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var op string
		var f family
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d %d", &op, &f.session, &f.start, &f.mark); err != nil ||
			f.session <= 1 {
			continue
		}
		switch op {
		case "+":
			families[f.session] = f
		case "-":
			delete(families, f.session)
		}
	}
	return slices.Collect(maps.Values(families))
}
