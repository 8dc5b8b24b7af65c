package transport

import (
	"context"
	"time"
)

// Clock is a source of time.
type Clock interface {
	Now() time.Time
	// NewTimer returns a timer that fires once.
	NewTimer(d time.Duration) Timer
}

// Timer is a timer of a Clock.
type Timer interface {
	C() <-chan time.Time
	Stop()
}

// System is the clock of the machine.
func System() Clock { return system{} }

// Sleep waits for d on the clock. It returns false if ctx ends first.
func Sleep(ctx context.Context, clock Clock, d time.Duration) bool {
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (s systemTimer) C() <-chan time.Time { return s.t.C }
func (s systemTimer) Stop()               { s.t.Stop() }

// Within returns ctx limited to d on the clock; its cause is then
// context.DeadlineExceeded. The caller must call the cancel function.
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
