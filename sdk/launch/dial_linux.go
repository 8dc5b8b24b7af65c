package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pinSocket opens a socket without following a symbolic link below dir. The
// returned path leads to this socket until release is called, whatever the
// plugin changes in the directory.
func pinSocket(dir, rel string) (path string, release func(), err error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // an old kernel, or a seccomp filter without the call
		path, err := checkSocket(dir, rel)
		return path, func() {}, err
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return "", nil, errNoSocket
	case err != nil:
		return "", nil, err
	}
	release = func() { _ = unix.Close(fd) }
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = errNoSocket
	}
	if err != nil {
		release()
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), release, nil
}
