package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var (
	forkCalls = []int{unix.SYS_FORK, unix.SYS_VFORK}

	watchCalls = []int{unix.SYS_INOTIFY_INIT, unix.SYS_INOTIFY_INIT1}

	modeCalls = []modeCall{
		{number: unix.SYS_CHMOD, mode: 1}, {number: unix.SYS_FCHMOD, mode: 1}, {number: unix.SYS_FCHMODAT, mode: 2}, {number: unix.SYS_FCHMODAT2, mode: 2},
		{number: unix.SYS_OPEN, mode: 2, flags: 1}, {number: unix.SYS_OPENAT, mode: 3, flags: 2}, {number: unix.SYS_CREAT, mode: 1},
		{number: unix.SYS_MKNOD, mode: 1}, {number: unix.SYS_MKNODAT, mode: 2},
	}

	attributeCalls = []int{
		unix.SYS_CHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWNAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
		unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_UTIMENSAT,
	}
)
