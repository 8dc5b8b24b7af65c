package setup

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// InvalidConfigError is the error for a configuration with errors, which are its Diagnostics.
type InvalidConfigError struct {
	Config *config.Config
}

// Error returns the first error in full and the number of the others.
func (e *InvalidConfigError) Error() string {
	ds := e.Config.Diagnostics
	text, more := "the configuration has errors", ds.Count(diag.SeverityError)-1
	for _, d := range ds {
		if d.Severity == diag.SeverityError {
			text = strings.TrimSpace(d.Text())
			break
		}
	}
	if more > 0 {
		text += fmt.Sprintf("\n(%d more)", more)
	}
	return text
}

// EnvironmentError is the error for a missing or broken part of the environment of the host, such
// as a directory. Op is the operation that failed.
type EnvironmentError struct {
	Op  string
	Err error
}

// Error implements error.
func (e *EnvironmentError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *EnvironmentError) Unwrap() error { return e.Err }
