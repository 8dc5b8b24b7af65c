//go:build unix

package install

import (
	"os"
	"syscall"
)

// hold marks a directory as in use, unless somebody else does. The kernel takes
// the mark away when the process ends.
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
