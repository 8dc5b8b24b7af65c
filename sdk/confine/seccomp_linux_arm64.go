package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var (
	forkCalls []int // only clone there

	watchCalls = []int{unix.SYS_INOTIFY_INIT1}

	modeCalls = []modeCall{
		{number: unix.SYS_FCHMOD, mode: 1}, {number: unix.SYS_FCHMODAT, mode: 2}, {number: unix.SYS_FCHMODAT2, mode: 2},
		{number: unix.SYS_OPENAT, mode: 3, flags: 2}, {number: unix.SYS_MKNODAT, mode: 2},
	}

	attributeCalls = []int{
		unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_UTIMENSAT,
	}
)
