package httpapi

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// runCommand matches a quoted command on runs in a hint.
var runCommand = regexp.MustCompile(`"ferment runs (\w+)(?: (run_[0-9A-Z]{26}))?[^"]*"`)

// runWays maps commands on runs to the equivalent requests.
var runWays = map[string]string{
	"list":   "GET /v1/runs",
	"show":   "GET /v1/runs/{id}",
	"watch":  "GET /v1/runs/{id}/events",
	"cancel": "POST /v1/runs/{id}/cancel",
	"resume": "POST /v1/runs/{id}/resume",
}

// overHTTP returns err with a hint that names requests instead of commands. run is the id of the
// run of the request; it may be empty.
func overHTTP(err *contract.Error, run string) *contract.Error {
	hint := runCommand.ReplaceAllStringFunc(err.Hint, func(command string) string {
		parts := runCommand.FindStringSubmatch(command)
		way, known := runWays[parts[1]]
		if !known {
			return command
		}
		return strings.ReplaceAll(way, "{id}", cmp.Or(parts[2], run, "{id}"))
	})
	if hint == err.Hint {
		return err
	}
	return err.WithHint(hint)
}

// wrongPart returns an invalid-request error for a part of a request outside its body: its place,
// what was expected and what was found.
func wrongPart(where, expected, found, format string, args ...any) *contract.Error {
	return contract.Errorf("invalid-request", format, args...).
		WithWhere("at", edn.K(where)).WithDetail("expected", edn.Text(expected)).WithDetail("got", edn.Text(truncate(found, 200)))
}
