package launch

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts the child in its own session and has the kernel kill it when
// the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the exit. Waitid leaves a zombie first, whose pid cannot be
// reused: the last safe moment to signal the group. p.mu blocks other signals
// until the process is reaped.
func (p *Process) reap(proc *os.Process) (*os.ProcessState, error) {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = killGroup(p.pid, syscall.SIGKILL)
	p.reaped = true
	return proc.Wait()
}

// withoutDeathSignal is for a child that must outlive its parent.
func withoutDeathSignal(sys *syscall.SysProcAttr) { sys.Pdeathsig = 0 }
