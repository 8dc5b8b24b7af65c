//go:build !linux

package launch

import (
	"os"
	"syscall"
	"time"
)

// reap waits for the exit. Between Wait and the mark a signal could reach a new
// process with the same pid; only Linux has a wait that keeps the pid reserved.
func (p *Process) reap(proc *os.Process) (*os.ProcessState, error) {
	state, err := proc.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return state, err
}

// startTime is 0: sessions are identified by number alone.
func startTime(int) uint64 { return 0 }

// endFamilies kills the process groups only: there is no portable way to list
// the members of a session.
func endFamilies(families []family, _ time.Duration) int {
	for _, f := range families {
		_ = killGroup(f.session, syscall.SIGKILL)
	}
	return 0
}

func withoutDeathSignal(*syscall.SysProcAttr) {}
