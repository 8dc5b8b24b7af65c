package confine

import (
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockVersion is the flag that requests the revision instead of a ruleset.
const landlockVersion = 1

// Probe returns what this machine can enforce. It changes nothing.
func Probe() Support {
	s := Support{System: runtime.GOOS, Rlimits: true}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && n >= 0 {
		s.NoNewPrivs = true
	}
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, landlockVersion); errno == 0 {
		s.LandlockABI = int(abi)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	s.Seccomp = errno == 0 && auditArch != 0
	s.Processes = !initialRoot(os.Getuid())
	s.Marks = canMark()
	return s
}

// initialRoot reports whether a user id is root outside of a user namespace:
// the kernel does not limit its processes.
func initialRoot(uid int) bool {
	if uid != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	return len(fields) != 3 || fields[0] == "0" && fields[1] == "0"
}
