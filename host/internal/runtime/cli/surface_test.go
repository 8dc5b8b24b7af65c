package cli_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi/httpapitest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// surface calls the routes of a daemon and compares each exchange with its document.
type surface struct {
	t      *testing.T
	s      *served
	doc    *httpapitest.Document
	called map[string]bool // routes that were served, "METHOD /path"
}

func newSurface(t *testing.T, s *served) *surface {
	t.Helper()
	a := s.request(t.Context(), "GET", "/openapi.json", "", "Accept", "application/json")
	require.Equal(t, 200, a.status)
	doc, err := httpapitest.Read(a.body)
	require.NoError(t, err)
	return &surface{t, s, doc, map[string]bool{"GET /openapi.json": true}}
}

// call sends JSON to a route, whose parameters are values by name. who is a token, or
// empty.
func (x *surface) call(what, who, body string, params ...string) answer {
	x.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	route, _, _ := strings.Cut(what, "?")
	target := strings.NewReplacer(params...).Replace(path)
	header := []string{"Content-Type", "application/json", "Accept", "application/json"}
	switch {
	case strings.HasSuffix(path, "/events"):
		header[3] = "text/event-stream"
	case path == "/metrics":
		header[3] = "text/plain"
	case strings.HasPrefix(path, "/v1/admin/audit"):
		header[3] = "application/x-ndjson"
	}
	if who != "" {
		header = append(header, "Authorization", who)
	}
	a := x.s.request(x.t.Context(), method, target, body, header...)
	require.NoError(x.t, a.err, what)
	sent := http.Header{}
	for i := 0; i < len(header); i += 2 {
		sent.Set(header[i], header[i+1])
	}
	assert.NoError(x.t, x.doc.Check(httpapitest.Exchange{
		Method: method, Target: target, Sent: []byte(body), SentHeader: sent, Status: a.status, Header: a.header, Body: a.body,
	}), "%s", a.body)
	if a.status < 300 {
		x.called[route] = true
	}
	return a
}

// ok is call for a request that must be served.
func (x *surface) ok(what, who, body string, params ...string) edn.Value {
	x.t.Helper()
	a := x.call(what, who, body, params...)
	require.Less(x.t, a.status, 300, "%s: %s", what, a.body)
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		return edn.Nil()
	}
	v, err := edn.ReadJSON(a.body, edn.WithLimits(edn.Stored))
	require.NoError(x.t, err)
	return v
}

// HTTP-001: what a daemon with real runs, sessions, users and plugins answers on every
// route fits its document.
// AUTH-011, AUTH-012, HTTP-003: each route under each role, on objects of the caller and of
// another one: those of another caller do not exist, unless the role reaches all of them.
func TestSurface(t *testing.T) {
	t.Parallel()
	w := asking(t)
	s := w.serve()
	x := newSurface(t, s)
	tokens := map[string]string{}
	for _, who := range []string{"ann", "bob", "operator", "admin"} {
		role := who
		if who == "ann" || who == "bob" {
			role = "user"
		}
		require.Equal(t, 0, w.run("user", "add", who, "--no-password", "--role", role).code)
		tokens[who] = "Bearer " + plain(w.data("token", "create", who).Key("token"))
	}
	ann, operator, admin := tokens["ann"], tokens["operator"], tokens["admin"]

	act := `{"proto":1,"trace":{"id":"t"},"task":{"intent":"mine/data"},"input":{},"session/id":"s"}`
	x.ok("POST /v1/session", ann, `{"action":"open","session/id":"s"}`)
	run := plain(x.ok("POST /v1/act", ann, act).Key("run/id"))
	other := plain(x.ok("POST /v1/act", ann, act).Key("run/id"))
	asked := strings.NewReplacer("mine/data", "refund/approve", `"input"`, `"response/type":"accepted","queue":{"class":"one"},"input"`).Replace(act)
	waiting := plain(x.ok("POST /v1/act", ann, asked).Key("job/id"))
	require.Eventually(t, func() bool {
		return plain(x.ok("GET /v1/act/jobs/{id}", ann, "", "{id}", waiting).Key("job/status")) == "waiting"
	}, runLimit, 10*time.Millisecond)
	records := x.ok("GET /v1/runs/{id}/records?values=true", ann, "", "{id}", run)
	first, _ := records.Key("records").Nth(0)
	request := plain(first.Key("request"))
	require.Regexp(t, "^b3:", request, "%s", first)
	of := []string{"{id}", run, "{other}", other, "{hash}", request, "{name}", "mine", "{interrupt}", "0-1-1"}

	assert.Equal(t, 3, x.ok("GET /v1/runs?session=s", ann, "").Key("runs").Len(), "HTTP-006")
	assert.Zero(t, x.ok("GET /v1/runs?session=other", ann, "").Key("runs").Len())
	assert.Equal(t, 3, w.data("runs", "list", "--session", "s").Key("runs").Len())
	assert.Zero(t, x.ok("GET /v1/runs", tokens["bob"], "").Key("runs").Len())
	assert.Equal(t, 1, x.ok("GET /v1/interrupts", ann, "").Key("interrupts").Len())
	assert.Equal(t, run, plain(x.ok("POST /v1/runs/{id}/replay", operator, "", of...).Key("run")))
	filled := x.ok("POST /v1/runs/{id}/replay", operator, `{"mode":"fill"}`, of...)
	assert.Equal(t, run, plain(filled.Key("replay/of")))
	x.underEveryRole(tokens, waiting, of)
	for _, gone := range []string{"GET /v1/values/{hash}?run={id}", "POST /v1/runs/{id}/replay", "GET /v1/runs/{id}/events"} {
		assert.Equal(t, 410, x.call(gone, operator, "", of...).status, gone)
	}
	assert.Equal(t, 404, x.call("GET /v1/runs/{id}", ann, "", "{id}", "run_01AAAAAAAAAAAAAAAAAAAAAAAA").status)

	x.ok("POST /v1/admin", admin, `{"action":"status"}`)
	reset := x.ok("POST /v1/admin", admin, `{"action":"breaker-reset","capability":"mine/data"}`).Key("result").Key("candidates")
	require.Equal(t, 1, reset.Len())
	again := w.run("dispatch", "reset", "mine/data", "--intent", "mine/data")
	assert.Equal(t, ":mine/data :mine/data: the breaker is closed\n", again.stdout, again.stderr)
	assert.Equal(t, 404, x.call("POST /v1/admin", admin, `{"action":"breaker-reset","capability":"no/such"}`).status)
	assert.Equal(t, 404, x.call("GET /v1/admin/plugins/{name}/logs", admin, "", "{name}", "absent").status)
	assert.Equal(t, 409, x.call("GET /v1/admin/audit?after=host.1000000", admin, "").status)
	// No run here is suspended, and no browser is logged in.
	refused := []string{"POST /v1/runs/{id}/resume", "POST /v1/auth/login", "POST /v1/auth/logout"}
	var served []string
	for what := range x.doc.Statuses() {
		if !strings.HasPrefix(what, "HEAD ") && !slices.Contains(refused, what) {
			served = append(served, what)
		}
	}
	assert.ElementsMatch(t, served, slices.Collect(maps.Keys(x.called)))
	x.follows(admin)
	s.stop()
}

// reach is what a route answers: without credentials, which makes a user in this profile, to
// the owner of the objects, another user, an operator and an administrator. 200 is any
// status that serves.
type reach struct {
	route, body                           string
	none, owner, foreign, operator, admin int
}

// reaches has a row for each route.
func reaches() []reach {
	act := `{"proto":1,"trace":{"id":"t"},"task":{"intent":"mine/data"},"input":{},"session/id":"s"}`
	all := []reach{
		{"POST /v1/act", act, 404, 200, 404, 200, 200},
		{"POST /v1/session", `{"action":"get","session/id":"s"}`, 404, 200, 404, 200, 200},
		{"POST /v1/runs/{id}/interrupts/{interrupt}", `{"answer":{"approved":true}}`, 404, 200, 404, 409, 409}, // the owner has answered
		{"POST /v1/runs/{id}/resume", "", 403, 403, 403, 409, 409},                                             // it is finished
		{"POST /v1/runs/{id}/replay", "", 403, 403, 403, 200, 200},
		{"POST /v1/admin", `{"action":"plugin-list"}`, 401, 403, 403, 403, 200},
		{"GET /v1/admin/plugins/{name}/logs", "", 401, 403, 403, 403, 200},
		{"GET /v1/admin/audit", "", 401, 403, 403, 403, 200},
		{"POST /v1/auth/login", `{"login":"ann","password":"x"}`, 404, 404, 404, 404, 404}, // browsers cannot log in
		{"POST /v1/auth/logout", "", 400, 400, 400, 400, 400},                              // no caller has a cookie
	}
	for _, open := range []string{"GET /health", "GET /ready", "GET /routes", "GET /openapi.json", "GET /v1/whoami", "GET /v1/runs", "GET /v1/runs/stats", "GET /v1/interrupts"} {
		all = append(all, reach{open, "", 200, 200, 200, 200, 200})
	}
	for _, of := range []string{
		"GET /v1/runs/{id}", "GET /v1/runs/{id}/records", "GET /v1/runs/{id}/events", "GET /v1/runs/{id}/verify", "GET /v1/runs/{id}/diff/{other}",
		"GET /v1/act/jobs/{id}", "GET /v1/values/{hash}", "POST /v1/runs/{id}/cancel", "POST /v1/act/jobs/{id}/cancel",
	} {
		all = append(all, reach{of, "", 404, 200, 404, 200, 200})
	}
	for _, counts := range []string{"GET /metrics", "GET /diag/telemetry", "POST /diag/telemetry"} {
		all = append(all, reach{counts, "", 403, 403, 403, 200, 200})
	}
	for _, keeps := range []string{"POST /v1/runs/{id}/pin", "POST /v1/runs/{id}/unpin", "DELETE /v1/runs/{id}"} { // the last ends the values
		all = append(all, reach{keeps, "", 403, 403, 403, 403, 200})
	}
	return all
}

// underEveryRole calls every route under every role, on objects of ann; waiting is a run of
// hers with an open question, params are another one.
func (x *surface) underEveryRole(tokens map[string]string, waiting string, params []string) {
	x.t.Helper()
	var rows []string
	for _, r := range reaches() {
		rows = append(rows, r.route)
		of := params
		if strings.Contains(r.route, "{interrupt}") {
			of = append([]string{"{id}", waiting}, params[2:]...)
		}
		for _, cell := range []struct {
			who  string
			want int
		}{{"", r.none}, {"ann", r.owner}, {"bob", r.foreign}, {"operator", r.operator}, {"admin", r.admin}} {
			got := x.call(r.route, tokens[cell.who], r.body, of...)
			if got.status < 300 {
				got.status = 200
			}
			assert.Equal(x.t, cell.want, got.status, "%s as %q: %s", r.route, cell.who, got.body)
		}
	}
	var routes []string
	for route := range x.doc.Statuses() {
		if !strings.HasPrefix(route, "HEAD ") {
			routes = append(routes, route)
		}
	}
	assert.ElementsMatch(x.t, routes, rows, "each route has a row")
}

// follows reads lines of a log that are written while it is read.
func (x *surface) follows(admin string) {
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+x.s.address+"/v1/admin/plugins/mine/logs?follow=1&lines=1", nil)
	require.NoError(x.t, err)
	r.Header.Set("Authorization", admin)
	resp, err := x.s.client.Do(r)
	require.NoError(x.t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(x.t, "text/event-stream", resp.Header.Get("Content-Type"))
	log, err := os.OpenFile(plugin.LogPath(filepath.Join(x.s.w.dir, "var"), "mine"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(x.t, err)
	defer func() { _ = log.Close() }()
	_, err = io.WriteString(log, "{\"@message\":\"a line to come\"}\n")
	require.NoError(x.t, err)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), "a line to come") {
			return
		}
	}
	x.t.Error("the stream ended before the line")
}
