//go:build unix

package proof

import (
	"syscall"
	"time"
)

// Spent returns the processor time of this process, which does not depend on
// the load of the machine.
func Spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
