package sdk

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/sdk/wire"
)

// Status is what a plugin says about its own state.
type Status = wire.Health

// CapabilityStatus is what a plugin says about one of its capabilities, in
// Status.Capabilities. It is for capabilities that stand on something of their
// own, such as a process or another machine: hosts pass over one that is not
// ready while they call the others, ask a warm one before a cold one, one with
// room before one with a queue, and count the deaths of what it stands on.
type CapabilityStatus = wire.CapabilityHealth

// How near a capability is to working on one more call.
const (
	Warm    = wire.Warm    // what it stands on runs
	Warming = wire.Warming // what it stands on is being started, and calls wait for it
	Cold    = wire.Cold    // the next call has to start it
)

// Ready is the status of a plugin that takes calls.
func Ready() Status { return Status{State: wire.HealthReady} }

// NotReady is the status of a plugin that is not to be called now, with one
// sentence that says why. The host does not restart a plugin for it. A reason
// that begins with the type of an error, ":provider/not-configured: there is no
// key", is told to callers whom another candidate serves instead.
func NotReady(reason string) Status {
	return Status{State: wire.HealthNotReady, Reason: reason}
}

// Degraded is the status of a plugin that takes calls and has a problem.
func Degraded(reason string) Status {
	return Status{State: wire.HealthDegraded, Reason: reason}
}

// healthBoard holds the current state and wakes those who watch it.
type healthBoard struct {
	mu      sync.Mutex
	current Status
	changed chan struct{}
}

func newHealthBoard() *healthBoard {
	return &healthBoard{current: Status{State: wire.HealthStarting, Reason: "not configured"}, changed: make(chan struct{})}
}

func (b *healthBoard) set(s Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = s
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *healthBoard) get() (Status, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current, b.changed
}

// watch sends the state now and at each change. edit completes a state before
// it is sent.
func (b *healthBoard) watch(ctx context.Context, edit func(Status) Status, send func(Status) error) error {
	for {
		s, changed := b.get()
		if err := send(edit(s)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
