package daemon

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The exit codes of serve. Service managers read them: after ExitConfig,
// ExitLocked and ExitPermission a restart is useless.
const (
	ExitUsage       = 64 // the command line is wrong
	ExitDamaged     = 65 // the journal of runs is damaged
	ExitUnavailable = 69 // a required plugin or an address is unavailable
	ExitInternal    = 70 // a defect, or a failed system call
	ExitLocked      = 73 // another daemon has the data directory, or the id of its host
	ExitIO          = 74 // a disk is full, read-only or broken
	ExitPermission  = 77 // the user may not do it, or others may do too much
	ExitConfig      = 78 // the configuration or a listener is rejected
)

// LockedError reports that another daemon holds the data directory.
type LockedError struct {
	Dir  string
	PID  int    // 0 if unknown
	Boot string // of the other daemon
}

// Error implements error. It names the holder of the lock.
func (e *LockedError) Error() string {
	who := "another daemon"
	if e.PID > 0 {
		who = "the daemon with process id " + itoa(e.PID)
	}
	return "the data directory " + e.Dir + " is held by " + who
}

// DirectoryError reports a data directory that must not be used as it is.
type DirectoryError struct {
	Dir, Problem, Fix string
	code              int
}

// Error returns the problem; Fix has the next step.
func (e *DirectoryError) Error() string {
	return "the data directory " + e.Dir + " " + e.Problem
}

// UnavailableError reports that a resource that the daemon requires is unavailable.
type UnavailableError struct{ Err error }

// Error returns the text of the cause.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitCode returns the exit code of serve for an error; 0 for nil, a clean
// stop.
func ExitCode(err error) int {
	var locked *LockedError
	var directory *DirectoryError
	var invalid *setup.InvalidConfigError
	var unavailable *UnavailableError
	var schema *store.SchemaError
	var held *store.LockedError
	var network *store.NetworkError
	var unsafe *store.SettingError
	var unreachable *store.UnreachableError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &locked):
		return ExitLocked
	case errors.As(err, &directory):
		return directory.code
	case errors.Is(err, contract.OfType("journal/damaged")):
		return ExitDamaged
	case errors.As(err, &held):
		return ExitLocked
	case errors.As(err, &schema), errors.As(err, &network), errors.As(err, &unsafe):
		return ExitConfig
	case errors.As(err, &unreachable):
		return ExitUnavailable
	case errors.Is(err, store.ErrFenced): // a restart would fence the other daemon
		return ExitLocked
	case errors.Is(err, errJournalFailed):
		return ExitIO
	case broken(err), store.DiskFailed(err), errors.Is(err, contract.OfType("journal/full")):
		return ExitIO
	case errors.Is(err, fs.ErrPermission):
		return ExitPermission
	case errors.As(err, &invalid), configurationError(err), misplaced(err):
		return ExitConfig
	case errors.As(err, &unavailable):
		return ExitUnavailable
	}
	return ExitInternal
}

// broken reports whether a write failed because of a disk or a file size
// limit.
func broken(err error) bool {
	for _, of := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// misplaced reports whether a path has a file where a directory is needed, or the reverse.
func misplaced(err error) bool {
	return errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST)
}

// configurationError reports whether err is caused by a setting of the configuration.
func configurationError(err error) bool {
	var e *contract.Error
	return errors.As(err, &e) && (contract.Namespace(e.Type) == "config" || e.Type == "http/insecure-listener")
}
