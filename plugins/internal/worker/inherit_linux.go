package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeInherited closes descriptors that the parent left open by mistake, as
// each could bypass the scope. Descriptors of the Go runtime have close-on-exec
// set, inherited ones do not.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no /proc/self/fd: descriptors cannot be distinguished
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

// wholeModes clears the umask, so that new files get exactly the requested
// mode: that of the replaced file, or the default.
func wholeModes() { unix.Umask(0) }
