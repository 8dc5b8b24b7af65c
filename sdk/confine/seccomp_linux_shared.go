//go:build linux && (amd64 || arm64)

package confine

import "golang.org/x/sys/unix"

// mapCall is the system call that maps memory.
const mapCall = unix.SYS_MMAP

// System calls that not every architecture has.
var (
	sharedCalls = []int{
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	}
	memoryCalls = []int{unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET}
)
