package wiretest

import (
	"sync"
	"testing"
	"time"

	"github.com/fermenthq/ferment/plugins/internal/provider/transport"
)

// Clock is a transport.Clock that advances only when a test calls Advance or
// Fire.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*timer]struct{}
	armed  chan struct{} // closed when a timer begins
}

var _ transport.Clock = (*Clock)(nil)

// NewClock returns a clock with a fixed start time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), timers: map[*timer]struct{}{},
		armed: make(chan struct{})}
}

type timer struct {
	clock *Clock
	at    time.Time
	c     chan time.Time
}

// Now implements transport.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer implements transport.Clock.
func (c *Clock) NewTimer(d time.Duration) transport.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{clock: c, at: c.now.Add(d), c: make(chan time.Time, 1)}
	c.timers[t] = struct{}{}
	close(c.armed)
	c.armed = make(chan struct{})
	c.fire()
	return t
}

// C implements transport.Timer.
func (t *timer) C() <-chan time.Time { return t.c }

// Stop implements transport.Timer.
func (t *timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
}

// fire fires the timers that are due.
func (c *Clock) fire() {
	for t := range c.timers {
		if !t.at.After(c.now) {
			t.c <- c.now
			delete(c.timers, t)
		}
	}
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

// Armed returns the number of running timers.
func (c *Clock) Armed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// patience is the timeout of waits.
const patience = 20 * time.Second

// Fire waits until a timer with exactly d left is running, and advances the
// clock to its end. As long as only Fire moves the clock, such a timer started
// with d.
func (c *Clock) Fire(t testing.TB, d time.Duration) {
	t.Helper()
	c.wait(t, d, true)
}

// Wait waits until a timer with exactly d left is running.
func (c *Clock) Wait(t testing.TB, d time.Duration) {
	t.Helper()
	c.wait(t, d, false)
}

func (c *Clock) wait(t testing.TB, d time.Duration, fire bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		next, found := c.find(d, fire)
		if found {
			return
		}
		select {
		case <-next:
		case <-limit:
			t.Errorf("no timer of %s was set", d)
			return
		}
	}
}

func (c *Clock) find(d time.Duration, fire bool) (next <-chan struct{}, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.timers {
		if x.at.Sub(c.now) != d {
			continue
		}
		if fire {
			c.now = x.at
			c.fire()
		}
		return nil, true
	}
	return c.armed, false
}
