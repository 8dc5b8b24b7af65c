//go:build unix

package dirlock

import (
	"os"
	"syscall"
)

// Wait locks a directory. It blocks while another process, or another caller in this one, holds the
// lock. release unlocks it.
func Wait(dir string) (release func(), err error) { return lock(dir, syscall.LOCK_EX) }

// Try locks a directory without waiting. ok is false if the lock is held or the directory cannot be
// locked; otherwise release unlocks it.
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
