package plugin

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// leaseTries and leaseWait bound the wait for a process that has a file open for
// writing, such as a child between fork and exec that inherited the descriptor.
const (
	leaseTries = 50
	leaseWait  = 10 * time.Millisecond
)

// errWritten is a file that some process has open for writing.
var errWritten = errors.New("a process has it open for writing")

// hold keeps the bytes of a file as they are until the file is closed: a process
// that opens it for writing waits (fcntl(2), F_SETLEASE). Only the owner of a
// file and root may do that, and not every file system allows it; other files
// are not held, and only the comparison after the start finds a change.
func hold(f *os.File) error {
	if where := (unix.Statfs_t{}); unix.Fstatfs(int(f.Fd()), &where) != nil || where.Type == unix.NFS_SUPER_MAGIC {
		return nil // there, a refusal does not mean that a process writes
	}
	for range leaseTries {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		if !errors.Is(err, unix.EAGAIN) {
			return nil
		}
		time.Sleep(leaseWait)
	}
	return fmt.Errorf("%s: %w", f.Name(), errWritten)
}
