package confine

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The descriptors of the trampoline, after the standard streams.
const (
	fdOrder = 3 + iota
	fdProgram
	fdStatus
)

// maxOrder bounds the orders, in bytes: an environment and arguments are below
// the limits of the kernel.
const maxOrder = 8 << 20

// Exit statuses of a trampoline that did not execute the program.
const (
	exitUsage  = 2
	exitFailed = 126
)

// Prepare makes the descriptors for a start through the trampoline. It opens
// the program if File is nil.
func (s Start) Prepare() (*Prepared, error) {
	if err := s.Policy.ready(Probe()); err != nil {
		return nil, err
	}
	p := &Prepared{Path: "/proc/self/exe", Args: []string{"ferment", trampolineCommand}}
	path, err := filepath.Abs(s.Path)
	if err != nil {
		return nil, &Error{Layer: LayerProgram, Path: s.Path, Err: err}
	}
	text, err := json.Marshal(order{
		Policy:  s.Policy,
		Path:    path,
		Argv:    s.Argv,
		Env:     s.Env,
		Parent:  os.Getpid(),
		Deathly: s.Deathly,
		Mark:    s.Mark,
	})
	if err != nil {
		return nil, &Error{Layer: LayerPolicy, Err: err}
	}
	orders, err := handOver(text)
	if err != nil {
		return nil, err
	}
	p.Files = append(p.Files, orders)
	program, err := openProgram(path, s.File)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.Files = append(p.Files, program)
	var theirs *os.File
	if p.status, theirs, err = os.Pipe(); err != nil {
		p.Close()
		return nil, &Error{Layer: LayerProgram, Path: path, Err: err}
	}
	p.Files = append(p.Files, theirs)
	return p, nil
}

// handOver returns the read end of a pipe with the text. A file would be
// subject to the limits of this process. The writer ends when all read ends are
// closed.
func handOver(text []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, &Error{Layer: LayerPolicy, Err: fmt.Errorf("pass the policy to the new process: %w", err)}
	}
	go func() {
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	return r, nil
}

// openProgram opens the program, or duplicates the descriptor of the caller.
func openProgram(path string, f *os.File) (*os.File, error) {
	if f == nil {
		opened, err := os.Open(path)
		if err != nil {
			return nil, programError(path, err)
		}
		return opened, nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, programError(path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func programError(path string, err error) error {
	var cause *os.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return &Error{Layer: LayerProgram, Path: path, Err: err}
}

func readAll(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, 64<<10)) }

// trampoline returns only if it could not execute the program.
func trampoline(args []string) int {
	// No thread may be started while the program is replaced.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	o, err := readOrder(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "this is an internal command, started by ferment itself:", err)
		return exitUsage
	}
	status := os.NewFile(fdStatus, "status")
	text, merr := json.Marshal(reportOf(become(o)))
	if merr == nil {
		_, _ = status.Write(text)
	}
	return exitFailed
}

// readOrder reads the orders and marks all descriptors except the standard
// streams close-on-exec.
func readOrder(args []string) (order, error) {
	var o order
	if len(args) > 0 {
		return o, errors.New("expected no arguments")
	}
	for _, fd := range []int{fdOrder, fdProgram, fdStatus} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return o, errors.New("expected the open descriptors of a policy, a program and a status pipe")
		}
		unix.CloseOnExec(fd)
	}
	if err := unix.CloseRange(fdOrder, ^uint(0)>>1&0x7fffffff, unix.CLOSE_RANGE_CLOEXEC); err != nil &&
		!errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) {
		return o, err
	}
	text, err := io.ReadAll(io.LimitReader(os.NewFile(fdOrder, "orders"), maxOrder))
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(text, &o)
}

// become restricts the process and executes the program. It returns on failure
// only.
func become(o order) error {
	if o.Deathly {
		// The setting belongs to a thread, and this one may not be the main
		// thread.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return &Error{Layer: LayerProgram, Path: o.Path, Err: err}
		}
		if os.Getppid() != o.Parent {
			return &Error{Layer: LayerProgram, Path: o.Path, Err: errors.New("the parent process has ended")}
		}
	}
	if err := setMark(o.Mark); err != nil {
		return err
	}
	offerToOOM()
	r, err := resolve(os.NewFile(fdProgram, o.Path), o.Path, o.Argv, o.Env)
	if err != nil {
		return err
	}
	// The rule is for the executed file, wherever its path leads by now.
	r.extra.exec = append(r.extra.exec, fmt.Sprintf("/proc/self/fd/%d", r.file.Fd()))
	if o.Policy.SelfExec {
		r.extra.exec = append(r.extra.exec, o.Path)
	}
	call, err := newExecution(r, o.Env)
	if err != nil {
		return err
	}
	if err := restrict(o.Policy, Probe(), &r.extra, &call.cookie); err != nil {
		return err
	}
	return &Error{Layer: LayerProgram, Path: o.Path, Err: call.run()}
}

// oomStep is added to the oom_score_adj of the parent: a share of the memory of
// the machine, in thousandths.
const oomStep = 500

// offerToOOM makes the kernel kill this process and its descendants before its
// parent when memory runs out. Every process may raise its own value; without
// access to /proc the program keeps the value of its parent.
func offerToOOM() {
	const path = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		_ = os.WriteFile(path, []byte(strconv.Itoa(min(now+oomStep, 1000))), 0)
	}
}

// execution is a prepared execveat, which allocates nothing after the
// restriction.
type execution struct {
	fd         uintptr
	empty      *byte
	argv, envp unsafe.Pointer
	keep       [][]*byte // targets of the pointers in the arrays
	cookie     cookie
}

// newExecution copies the argument and environment arrays to unpredictable
// addresses.
func newExecution(r resolved, env []string) (*execution, error) {
	fail := func(err error) (*execution, error) { return nil, &Error{Layer: LayerProgram, Path: r.path, Err: err} }
	argv, err := syscall.SlicePtrFromStrings(r.argv)
	if err != nil {
		return fail(err)
	}
	envp, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return fail(err)
	}
	e := &execution{fd: r.file.Fd(), keep: [][]*byte{argv, envp}}
	if e.empty, err = unix.BytePtrFromString(""); err != nil {
		return fail(err)
	}
	if e.argv, err = hide(argv); err != nil {
		return fail(err)
	}
	if e.envp, err = hide(envp); err != nil {
		return fail(err)
	}
	e.cookie = cookie{argv: uint64(uintptr(e.argv)), envp: uint64(uintptr(e.envp))}
	return e, nil
}

// hideRoom is the size of the mapping in which an array is hidden. It is
// reserved, not used.
const hideRoom = 1 << 28

// hide copies pointers to a random place in a mapping of its own. The caller
// keeps their targets alive.
func hide(pointers []*byte) (unsafe.Pointer, error) {
	const width = int(unsafe.Sizeof(uintptr(0)))
	size := len(pointers) * width
	room, err := unix.Mmap(-1, 0, hideRoom+size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	at := int(binary.NativeEndian.Uint64(random[:])%(hideRoom/uint64(width))) * width
	for i, p := range pointers {
		binary.NativeEndian.PutUint64(room[at+i*width:], uint64(uintptr(unsafe.Pointer(p))))
	}
	return unsafe.Pointer(&room[at]), nil
}

// run executes the program. It returns on failure only.
func (e *execution) run() error {
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, e.fd, uintptr(unsafe.Pointer(e.empty)), uintptr(e.argv),
		uintptr(e.envp), unix.AT_EMPTY_PATH, 0)
	runtime.KeepAlive(e)
	return errno
}
