package contract

import "net/http"

// Exit codes of the commands.
const (
	ExitDone        = 0   // success
	ExitNegative    = 1   // negative result: the run failed, things differ, the file is invalid
	ExitUsage       = 2   // the command or the request is invalid
	ExitEnvironment = 3   // the environment of the command is incomplete or broken
	ExitDenied      = 4   // a rule forbids the operation
	ExitNotFound    = 5   // the named object does not exist
	ExitConflict    = 6   // the object is in use or waits for a decision
	ExitDeadline    = 7   // the deadline passed or the run was cancelled
	ExitInterrupted = 130 // SIGINT
)

// ExitCode returns the exit code of a command that fails with e.
func (e *Error) ExitCode() int {
	if Namespace(e.Type) == "config" && e.Type != "config/restart" {
		return ExitNegative
	}
	switch e.Type {
	case "canceled":
		return ExitDeadline
	case "plan/invalid", "plan/too-deep", "plan/too-large", "slot/unresolved", "budget/exceeded":
		return ExitNegative
	}
	switch status := e.HTTPStatus(); status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitDenied
	case http.StatusNotFound, http.StatusGone:
		return ExitNotFound
	case http.StatusConflict:
		return ExitConflict
	case http.StatusGatewayTimeout:
		return ExitDeadline
	case http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusTooManyRequests:
		return ExitEnvironment
	case http.StatusBadGateway, http.StatusPaymentRequired, http.StatusUnprocessableEntity:
		return ExitNegative
	default:
		if status >= 400 && status < 500 {
			return ExitUsage
		}
		return ExitNegative
	}
}
