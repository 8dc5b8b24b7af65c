//go:build unix

package rundir

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdLock takes the advisory lock of an open file; it returns false if another open file holds it.
// The lock is released when the last descriptor of f is closed, at the latest when the process
// ends.
func holdLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
