//go:build unix

package daemon

import "golang.org/x/sys/unix"

// monotonicMicros returns CLOCK_MONOTONIC in microseconds, as MONOTONIC_USEC
// requires.
func monotonicMicros() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() / 1000
}
