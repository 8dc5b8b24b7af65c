package daemon

import (
	"fmt"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
)

// InvalidConfigError is a configuration that cannot be used.
type InvalidConfigError struct {
	Config *config.Config
}

// Error counts the errors; they are in the configuration.
func (e *InvalidConfigError) Error() string {
	return fmt.Sprintf("the configuration has %d errors", e.Config.Diagnostics.Count(config.SeverityError))
}

// EnvironmentError is something around the host that is missing or broken.
type EnvironmentError struct {
	Op  string
	Err error
}

// Error names the operation.
func (e *EnvironmentError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *EnvironmentError) Unwrap() error { return e.Err }
