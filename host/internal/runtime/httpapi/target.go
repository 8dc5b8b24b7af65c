package httpapi

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// runID is the form of a run id.
var runID = regexp.MustCompile("^run_[0-9A-HJKMNP-TV-Z]{26}$")

// paramForm is the form of a parameter in a path. A text that does not match cannot name an object,
// so the error is that of a missing object.
type paramForm struct {
	form     *regexp.Regexp
	missing  string // error type
	expected string
	hint     string
	escapes  bool // may contain %XX
}

var ofRuns = paramForm{runID, "run/not-found", "the id of a run: run_ and 26 characters", "GET /v1/runs lists the runs", false}

// paramForms are the parameters of paths, by name.
var paramForms = map[string]paramForm{
	"id":    ofRuns,
	"other": ofRuns,
	"interrupt": {regexp.MustCompile("^.{1,200}$"), "interrupt/not-found", "the id of an interrupt or of a node, at most 200 characters",
		"GET /v1/interrupts lists the open interrupts", true},
	"hash": {regexp.MustCompile("^b3:[0-9a-f]{64}$"), "not-found", "the hash of a value: b3: and 64 hexadecimal digits",
		"the records of a run name its values", false},
	"name": {regexp.MustCompile("^[A-Za-z0-9._-]{1,64}$"), "not-found", "the name of a plugin block", "the action plugin-list lists the plugins", false},
}

// readTarget checks the parameters in the path and the query before anything is looked up
// (HTTP-005).
func (x *exchange) readTarget() *contract.Error {
	for name, value := range x.params {
		p := paramForms[name]
		if p.escapes {
			value, _ = url.PathUnescape(value) // net/http has checked it
			x.params[name] = value
		}
		if !p.form.MatchString(value) {
			return contract.Errorf(p.missing, "%.80q is not %s", value, p.expected).WithHint(p.hint)
		}
	}
	x.run = x.params["id"]
	return x.readQuery()
}

// readQuery validates the query with the schema of the route, and sets x.query.
func (x *exchange) readQuery() *contract.Error {
	if x.route.query == nil {
		return nil
	}
	given, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return wrongPart("query", "NAME=VALUE, separated by & and with %XX for other characters", x.r.URL.RawQuery,
			"the query is malformed: %w", err)
	}
	query := edn.MustMap()
	for name, values := range given {
		key, unusable := edn.Keyword(name)
		if unusable != nil {
			key = edn.Text(name)
		}
		if len(values) > 1 {
			return wrongPart("query", "one value", strings.Join(values, ", "), "the query has %d values of %.40q", len(values), name)
		}
		query = query.Assoc(key, edn.Text(values[0]))
	}
	x.query = x.route.query.CoerceJSON(query)
	if found := x.route.query.Validate(x.query); len(found) > 0 {
		return wrongInput("the query", found).WithWhere("at", edn.K("query"))
	}
	return nil
}
