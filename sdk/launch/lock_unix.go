//go:build unix

package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// abandoned reports whether no process holds the lock of f, and takes it.
func abandoned(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
