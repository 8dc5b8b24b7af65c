package watch

import "time"

// Clock is the time of a watcher.
type Clock interface {
	Now() time.Time
	// NewTimer returns a channel that receives once d has passed, and a function
	// that releases the timer.
	NewTimer(d time.Duration) (<-chan time.Time, func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
