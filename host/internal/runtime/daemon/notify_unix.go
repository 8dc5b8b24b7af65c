//go:build unix

package daemon

import "golang.org/x/sys/unix"

// monotonicMicros is the clock that a service manager compares with its own.
func monotonicMicros() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() / 1000
}
