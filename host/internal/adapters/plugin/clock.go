package plugin

import "time"

// Clock is the source of time for decisions.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f in its own goroutine after d, unless stop is called
	// before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// SystemClock is the system clock.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (SystemClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
