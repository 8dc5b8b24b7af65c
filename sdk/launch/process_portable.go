//go:build !linux

package launch

import (
	"os"
	"syscall"
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

// reapSessions ends what the sessions of a dead host left.
func reapSessions(sessions map[int]uint64) {
	for sid := range sessions {
		killSession(sid, 0)
	}
}

func withoutDeathSignal(*syscall.SysProcAttr) {}
