//go:build unix

package proof

import (
	"syscall"
	"time"
)

// Spent is the processor time of this process: it stands still while the machine
// does something else.
func Spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
