package contract

import "net/http"

// The exit codes of every command.
const (
	ExitDone        = 0   // it was done
	ExitNegative    = 1   // the result is negative: the run failed, things differ, the file is wrong
	ExitUsage       = 2   // the command or the request is wrong
	ExitEnvironment = 3   // something around the command is missing or broken
	ExitDenied      = 4   // a rule forbids it
	ExitNotFound    = 5   // what was named does not exist
	ExitConflict    = 6   // something else holds it, or it waits for a decision
	ExitDeadline    = 7   // the deadline passed or somebody cancelled
	ExitInterrupted = 130 // the terminal interrupted the command
)

// ExitCode returns the exit code of a command that ends with e.
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
