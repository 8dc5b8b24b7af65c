//go:build unix

package dirlock

import (
	"os"
	"syscall"
)

// Wait locks a directory as soon as no other process, and no other caller in this one,
// holds its lock.
func Wait(dir string) (release func(), err error) { return lock(dir, syscall.LOCK_EX) }

// Try locks a directory unless its lock is held.
func Try(dir string) (release func(), ok bool) {
	release, err := lock(dir, syscall.LOCK_EX|syscall.LOCK_NB)
	return release, err == nil
}

func lock(dir string, how int) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(d.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		_ = d.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return func() { _ = d.Close() }, nil
}
