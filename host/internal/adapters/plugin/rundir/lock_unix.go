//go:build unix

package rundir

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// holdLock takes the advisory lock of an open file, or reports that another
// open file has it. The lock ends with the last descriptor of f, so with the
// process.
func holdLock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
