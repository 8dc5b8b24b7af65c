//go:build unix

package install

import (
	"os"
	"syscall"
)

// hold locks a directory, unless another process holds the lock. The kernel
// releases the lock when the process ends.
func hold(dir string) (release func(), ok bool) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = d.Close()
		return nil, false
	}
	return func() { _ = d.Close() }, true
}
