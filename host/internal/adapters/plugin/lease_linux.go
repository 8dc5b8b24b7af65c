package plugin

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// leaseTries and leaseWait bound the wait for a process that has the file open
// for writing, such as a child between fork and exec that inherited the
// descriptor.
const (
	leaseTries = 50
	leaseWait  = 10 * time.Millisecond
)

// errWritten is the error for a file that a process has open for writing.
var errWritten = errors.New("a process has it open for writing")

// hold takes a read lease (fcntl(2), F_SETLEASE): a process that opens the file for writing blocks
// until the file is closed here. Only the owner of the file and root may take a lease, and not
// every file system supports it. Without a lease hold returns nil, and only the comparison after
// the start detects a change. It blocks for up to leaseTries * leaseWait.
func hold(f *os.File) error {
	if where := (unix.Statfs_t{}); unix.Fstatfs(int(f.Fd()), &where) != nil || where.Type == unix.NFS_SUPER_MAGIC {
		return nil // on NFS, EAGAIN does not mean that it is open for writing
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
