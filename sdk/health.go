package sdk

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/sdk/wire"
)

// Status is the health of the plugin.
type Status = wire.Health

// CapabilityStatus is the health of one capability, in Status.Capabilities. It
// is for capabilities with a backend of their own, such as a process or another
// machine. The host skips a capability that is not ready and keeps calling the
// others, prefers a warm one to a cold one and one with a free slot to one with
// a queue, and counts the crashes of its backend.
type CapabilityStatus = wire.CapabilityHealth

// Readiness of the backend of a capability.
const (
	Warm    = wire.Warm    // the backend is running
	Warming = wire.Warming // the backend is starting; calls wait for it
	Cold    = wire.Cold    // the next call starts the backend
)

// Ready is the status of a plugin that accepts calls.
func Ready() Status { return Status{State: wire.HealthReady} }

// NotReady returns the status of a plugin that must not be called at present;
// reason is one sentence. The host does not restart the plugin for it. If
// reason begins with an error type, such as ":provider/not-configured: no key
// is set", the host reports the text after it to callers as an error of that type.
// The type must be in the catalogue of package contract.
func NotReady(reason string) Status {
	return Status{State: wire.HealthNotReady, Reason: reason}
}

// Degraded is the status of a plugin that accepts calls but has a problem.
func Degraded(reason string) Status {
	return Status{State: wire.HealthDegraded, Reason: reason}
}

// healthBoard holds the current state and notifies its watchers.
type healthBoard struct {
	mu      sync.Mutex
	current Status
	changed chan struct{}
}

func newHealthBoard() *healthBoard {
	return &healthBoard{
		current: Status{State: wire.HealthStarting, Reason: "not configured"},
		changed: make(chan struct{}),
	}
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

// watch sends the state now and after each change until ctx ends. edit
// completes a state before it is sent.
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
