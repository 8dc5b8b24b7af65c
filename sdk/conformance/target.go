package conformance

import (
	"context"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Target starts instances of one plugin.
type Target interface {
	// Start returns a new instance that is not configured. The caller stops it.
	Start(ctx context.Context) (Instance, error)
}

// Instance is one running plugin.
type Instance interface {
	// Client is a client of the plugin as a host uses it.
	Client() *wire.Client
	// Conn is the connection itself, for messages that a host never sends.
	Conn() grpc.ClientConnInterface
	// PID is the process id; 0 for an instance in this process.
	PID() int
	// Release simulates the death of the host: the plugin should end.
	Release()
	// Done is closed when the plugin has ended.
	Done() <-chan struct{}
	// Stop ends the instance in any state and releases its resources.
	Stop()
	// Log returns the lines that the plugin has logged.
	Log() []string
}

// Reporter is an Instance in a separate process.
type Reporter interface {
	// Report returns the facts about the process. For an ended process it waits a
	// moment for its last output.
	Report() launch.Report
}

// startsProcesses reports whether the instances of a target are processes.
func startsProcesses(t Target) bool {
	_, ok := t.(process)
	return ok
}
