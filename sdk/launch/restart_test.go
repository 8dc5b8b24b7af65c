package launch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// SUP-005: pauses double from the first to the longest and then stay.
func TestBackoff(t *testing.T) {
	for n, want := range []time.Duration{1, 1, 2, 4, 8, 10, 10} {
		assert.Equal(t, want, Backoff(n, 1, 10), "%d", n)
	}
	assert.Equal(t, time.Hour, Backoff(1_000_000, time.Nanosecond, time.Hour))
	assert.Zero(t, Backoff(100, 0, time.Hour))
}

// SUP-005: the times of a window are kept in order; one exactly as old as the
// window is not.
func TestRecent(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		times, want := []time.Time{}, []time.Time{}
		now, window := begin, time.Minute
		for _, s := range rapid.SliceOf(rapid.IntRange(0, 30)).Draw(t, "seconds") {
			now = now.Add(time.Duration(s) * time.Second)
			times = append(times, now)
		}
		for _, at := range times {
			if at.After(now.Add(-window)) {
				want = append(want, at)
			}
		}
		assert.Equal(t, want, Recent(times, window, now))
		assert.Empty(t, Recent([]time.Time{now}, window, now.Add(window)))
	})
}
