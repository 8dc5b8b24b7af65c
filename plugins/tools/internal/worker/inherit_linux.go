package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeInherited gives up the descriptors that whoever started the worker left
// open by mistake: each would be a way around the scope. Those that the runtime
// opened itself close with a program, which inherited ones do not.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no such file system: then nothing can be told apart
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// wholeModes makes new files have the modes that they are given: each is that of
// a file which is replaced, or one that anybody would choose.
func wholeModes() { unix.Umask(0) }
