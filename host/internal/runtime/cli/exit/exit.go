package exit

import (
	"net/http"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Exit codes of the commands.
const (
	Done        = 0   // success
	Negative    = 1   // negative result: the run failed, things differ, the file is invalid
	Usage       = 2   // the command or the request is invalid
	Environment = 3   // the environment of the command is incomplete or broken
	Denied      = 4   // a rule forbids the operation
	NotFound    = 5   // the named object does not exist
	Conflict    = 6   // the object is in use or waits for a decision
	Deadline    = 7   // the deadline passed or the run was canceled
	Interrupted = 130 // SIGINT
)

// workspaceCodes has the codes of errors of a context engine that do not follow from their HTTP
// status (WS-184).
var workspaceCodes = map[string]int{
	"store/corrupt":              Negative,
	"store/read-only":            Negative,
	"synthesis/child-not-ready":  Negative,
	"synthesis/too-large":        Negative,
	"synthesis/nondeterministic": Negative,
	"synthesis/custom-failed":    Negative,
	"compose/custom-failed":      Negative,
	"generate/empty":             Negative,
	"generate/truncated":         Negative,
	"generate/binary":            Negative,
	"generate/too-large":         Negative,
	"provider/not-configured":    Negative,
	"provider/request-failed":    Negative,
	"provider/error":             Negative,
	"node/ambiguous":             Usage,
	"scan/unreadable":            Environment,
	"watch/root-lost":            Environment,
	"agent/required":             Denied,
	"agent/unknown":              Denied,
	"agent/prompt-missing":       Denied,
	"agent/invalid":              Denied,
	"node/deleted":               NotFound,
	"seq/compacted":              NotFound,
}

// Code returns the exit code of a command that fails with e.
func Code(e *contract.Error) int {
	if contract.Namespace(e.Type) == "config" && e.Type != "config/restart" {
		return Negative
	}
	if code, ok := workspaceCodes[e.Type]; ok {
		return code
	}
	switch e.Type {
	case "canceled":
		return Deadline
	case "idempotency/mismatch": // its HTTP status is 422
		return Conflict
	case "plan/invalid", "plan/too-deep", "plan/too-large", "slot/unresolved", "budget/exceeded":
		return Negative
	case "unsupported/intent":
		if e.Retryable { // its plugin is only not ready
			return Environment
		}
	}
	switch status := e.HTTPStatus(); status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied
	case http.StatusNotFound, http.StatusGone:
		return NotFound
	case http.StatusConflict:
		return Conflict
	case http.StatusGatewayTimeout:
		return Deadline
	case http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusTooManyRequests:
		return Environment
	case http.StatusBadGateway, http.StatusPaymentRequired, http.StatusUnprocessableEntity:
		return Negative
	default:
		if status >= 400 && status < 500 {
			return Usage
		}
		return Negative
	}
}
