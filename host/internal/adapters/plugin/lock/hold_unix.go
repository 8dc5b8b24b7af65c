//go:build unix

package lock

import (
	"os"
	"syscall"
)

// hold makes other writers of a directory wait until release is called. The
// kernel releases it when the process ends.
func hold(dir string) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return func() { _ = d.Close() }, nil
}
