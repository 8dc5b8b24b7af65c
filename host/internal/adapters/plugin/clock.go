package plugin

import "time"

// Clock is the source of time for the decisions of a supervisor.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f in its own goroutine after d, unless stop is called
	// before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// SystemClock implements Clock with the time of the system.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (SystemClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
