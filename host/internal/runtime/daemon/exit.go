package daemon

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/fermenthq/ferment/sdk/contract"
)

// The exit codes of serve. Service managers read them: those of a wrong
// configuration, a lock and missing rights are not to be tried again.
const (
	ExitUsage       = 64 // the command line is wrong
	ExitUnavailable = 69 // a required plugin or an address cannot be had
	ExitInternal    = 70 // a defect, or something of the system failed
	ExitLocked      = 73 // another daemon has the data directory
	ExitIO          = 74 // a disk is full, read-only or broken
	ExitPermission  = 77 // the user may not do it, or others may do too much
	ExitConfig      = 78 // the configuration or a listener is refused
)

// LockedError says that another daemon has the data directory.
type LockedError struct {
	Dir  string
	PID  int    // 0 if it does not say
	Boot string // of the other
}

// Error names the holder.
func (e *LockedError) Error() string {
	who := "another daemon"
	if e.PID > 0 {
		who = "the daemon with process id " + itoa(e.PID)
	}
	return "the data directory " + e.Dir + " is held by " + who
}

// DirectoryError is a data directory that must not be used as it is.
type DirectoryError struct {
	Dir, Problem, Fix string
	code              int
}

// Error says what is wrong; Fix says what to do.
func (e *DirectoryError) Error() string {
	return "the data directory " + e.Dir + " " + e.Problem
}

// UnavailableError is something that the daemon cannot do without.
type UnavailableError struct{ Err error }

// Error names it.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitCode is how serve ends with an error; nil is a clean stop.
func ExitCode(err error) int {
	var locked *LockedError
	var directory *DirectoryError
	var invalid *InvalidConfigError
	var unavailable *UnavailableError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &locked):
		return ExitLocked
	case errors.As(err, &directory):
		return directory.code
	case broken(err):
		return ExitIO
	case errors.Is(err, fs.ErrPermission):
		return ExitPermission
	case errors.As(err, &invalid), configurationError(err):
		return ExitConfig
	case errors.As(err, &unavailable), errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ExitUnavailable
	}
	return ExitInternal
}

// broken tells whether a disk, or a limit on what may be written to it, did not
// take what was to be written.
func broken(err error) bool {
	for _, of := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// configurationError tells whether what is refused stands in the configuration.
func configurationError(err error) bool {
	var e *contract.Error
	return errors.As(err, &e) && (contract.Namespace(e.Type) == "config" || e.Type == "http/insecure-listener")
}
