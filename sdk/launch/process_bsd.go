//go:build unix && !linux

package launch

import (
	"syscall"
	"time"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killSession reaches the process group only: there is no portable way to list
// the members of a session.
func killSession(sid int, _ time.Duration) int {
	_ = killGroup(sid, syscall.SIGKILL)
	return 0
}
