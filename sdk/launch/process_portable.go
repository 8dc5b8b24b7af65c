//go:build !linux

package launch

import (
	"os"
	"syscall"
	"time"
)

// reap waits for the end. Between the wait and the mark a signal could reach a
// new owner of the number; only Linux offers a wait that leaves the number
// taken.
func (p *Process) reap(proc *os.Process) (*os.ProcessState, error) {
	state, err := proc.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return state, err
}

// startTime is 0: sessions are told apart by number alone.
func startTime(int) uint64 { return 0 }

// endFamilies reaches the process groups only: there is no portable way to list
// the members of a session.
func endFamilies(families []family, _ time.Duration) int {
	for _, f := range families {
		_ = killGroup(f.session, syscall.SIGKILL)
	}
	return 0
}

func withoutDeathSignal(*syscall.SysProcAttr) {}
