package conformance

import (
	"context"

	"google.golang.org/grpc"

	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Target starts instances of one plugin.
type Target interface {
	// Start gives a fresh instance that is not configured. The caller stops it.
	Start(ctx context.Context) (Instance, error)
}

// Instance is one running plugin.
type Instance interface {
	// Client speaks to the plugin as a host does.
	Client() *wire.Client
	// Conn is the connection itself, for what a host would never send.
	Conn() grpc.ClientConnInterface
	// PID is the number of the process; 0 for an instance in this process.
	PID() int
	// Release does what happens when a host is gone: the plugin should end.
	Release()
	// Done is closed when the plugin has ended.
	Done() <-chan struct{}
	// Stop ends the instance whatever it is doing and frees what belongs to it.
	Stop()
	// Log gives the lines that the plugin has logged.
	Log() []string
}

// Reporter is an Instance in a process of its own.
type Reporter interface {
	// Report says what is known of the process: of one that has ended all that
	// it wrote, for which Report waits a moment.
	Report() launch.Report
}

// startsProcesses reports whether the instances of a target are processes.
func startsProcesses(t Target) bool {
	_, ok := t.(process)
	return ok
}
