package launch

import (
	"slices"
	"time"
)

// Backoff returns the pause before the n-th restart in a row: first, doubled
// n-1 times, at most longest. It has no jitter: the host adds it, and decides
// about the restart, in host/internal/adapters/plugin/machine.go.
func Backoff(n int, first, longest time.Duration) time.Duration {
	pause := first
	for i := 1; i < n && pause < longest; i++ {
		pause *= 2
	}
	return min(pause, longest)
}

// Recent returns the times that are less than window before now. It reuses the
// array of times.
func Recent(times []time.Time, window time.Duration, now time.Time) []time.Time {
	return slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) >= window })
}
