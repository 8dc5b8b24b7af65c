//go:build unix

package launch

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// killGroup signals a process group. It returns nil for an empty group.
func killGroup(pgid int, sig syscall.Signal) error {
	if pgid <= 1 {
		return syscall.EINVAL // 0 and -1 mean the caller's group and all processes
	}
	err := syscall.Kill(-pgid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}

func maxRSS(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	rss := int64(usage.Maxrss) // 32 bits wide on some systems
	if runtime.GOOS == "darwin" {
		return rss // bytes there, KiB elsewhere
	}
	return rss << 10
}
