package transport

import (
	"context"
	"time"
)

// Clock is where time comes from.
type Clock interface {
	Now() time.Time
	// NewTimer gives a timer that fires once.
	NewTimer(d time.Duration) Timer
}

// Timer is a timer of a Clock.
type Timer interface {
	C() <-chan time.Time
	Stop()
}

// System is the clock of the machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (s systemTimer) C() <-chan time.Time { return s.t.C }
func (s systemTimer) Stop()               { s.t.Stop() }

// Within is ctx that also ends when d has passed on the clock; its cause is
// context.DeadlineExceeded then. It has to be cancelled.
func Within(ctx context.Context, clock Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := clock.NewTimer(d)
	go func() {
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
			timer.Stop()
		}
	}()
	return ctx, func() {
		timer.Stop() // before cancel returns, so that a clock moved by hand cannot fire it later
		cancel(context.Canceled)
	}
}
