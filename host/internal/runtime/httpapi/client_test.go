package httpapi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// operatorClient returns the Go client of the admin socket.
func (w *world) operatorClient() *client.Client {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "token")
	require.NoError(w.t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	c, err := client.Dial(w.t.Context(), w.socket, file)
	require.NoError(w.t, err)
	return c
}

// urlClient returns the Go client of the listener, with a token of a new user.
func (w *world) urlClient(login string, roles ...string) *client.Client {
	w.t.Helper()
	w.user(login, roles...)
	header, _ := w.token(login, policy.Narrowing{})
	c, err := client.New("http://"+w.address+"/", client.WithToken(header[len("Bearer "):]))
	require.NoError(w.t, err)
	return c
}

// The client passes on the events of an act and returns its response. An error of its
// caller closes the stream, which cancels the run.
func TestClientStream(t *testing.T) {
	w := streamWorld(t)
	c := w.operatorClient()
	w.exec.On("t/any", dispatchtest.Step{Pieces: []string{"a", "b"}, Value: edn.MustRead(`{:text "ab"}`)})
	said, ids := "", map[string]bool{}
	r, err := c.Stream(t.Context(), edn.MustRead(ednAct("t/any", "{}")), client.Call{}, func(e client.Event) error {
		said += text(e.Data, "text")
		ids[e.ID] = true
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, "ab", said)
	assert.Greater(t, len(ids), 4, "each event has an id")
	assert.Equal(t, `{:text "ab"}`, r.Out().String())
	assert.Regexp(t, "^run_", r.Run)
	require.NoError(t, r.Err())

	r, err = c.Stream(t.Context(), edn.MustRead(ednAct("t/none", "{}")), client.Call{}, func(client.Event) error { return nil })
	require.NoError(t, err)
	require.ErrorIs(t, r.Err(), contract.OfType("invalid-request"))

	enough := errors.New("enough")
	w.exec.On("t/any", dispatchtest.Step{Pieces: []string{"a"}, Hang: true})
	_, err = c.Stream(t.Context(), edn.MustRead(ednAct("t/any", "{}")), client.Call{}, func(client.Event) error { return enough })
	require.ErrorIs(t, err, enough)
	require.Eventually(t, func() bool { return w.turns.Load() == 0 }, 20*time.Second, time.Millisecond)
}

// HTTP-011, RUN-020, RUN-033: what a call asks for reaches the daemon, as EDN and as JSON.
func TestClientActs(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Keys = true })
	w.exec.On("t/typed", dispatchtest.Step{Value: edn.MustRead(`{:k :a/b :s #{1 2} :d 1.50M}`)})
	w.exec.On("t/cached", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	w.jobs.Store(true)
	c := w.urlClient("ann")
	request, err := client.NewRequest("t", "t/typed", edn.MustRead(`{:kw :a :set #{:b} :dec 1.25M}`))
	require.NoError(t, err)
	for _, asJSON := range []bool{false, true} {
		run := ""
		r, err := c.Act(t.Context(), request, client.Call{JSON: asJSON, Accepted: func(id string) { run = id }})
		require.NoError(t, err)
		require.NoError(t, r.Err())
		assert.Equal(t, `{:d 1.5M :k :a/b :s #{1 2}}`, r.Out().String(), "nothing is lost")
		assert.Equal(t, []string{r.Run, r.Run, ""}, []string{run, text(r.Body, "run/id"), r.Cache})
	}
	cached, err := client.NewRequest("t", "t/cached", edn.MustMap())
	require.NoError(t, err)
	for _, want := range []string{"miss", "hit"} {
		r, err := c.Act(t.Context(), cached, client.Call{})
		require.NoError(t, err)
		assert.Equal(t, want, r.Cache)
	}
	w.exec.On("t/cached", dispatchtest.Step{Value: edn.MustRead(`{:n 2}`)})
	r, err := c.Act(t.Context(), cached, client.Call{Fresh: true})
	require.NoError(t, err)
	assert.Equal(t, "{:n 2}", r.Out().String())
	job, err := c.Submit(t.Context(), cached, client.Call{})
	require.NoError(t, err)
	assert.Regexp(t, "^run_", job.ID)
	assert.Equal(t, client.Word("queued"), job.Status)
	assert.False(t, job.Ended())
	_, err = c.Submit(t.Context(), edn.MustMap(), client.Call{})
	require.ErrorIs(t, err, contract.OfType("invalid-request"))
	_, err = c.Act(t.Context(), edn.MustRead(`{:a 1 "a" 2}`), client.Call{JSON: true})
	require.ErrorIs(t, err, contract.OfType("invalid-request"), "it has no form in JSON")
	_, err = client.NewRequest("t", "no name!", edn.MustMap())
	require.ErrorIs(t, err, contract.OfType("invalid-request"))
}

// clientMethods are the methods of the client for each route; empty: none, for the reason
// behind it.
var clientMethods = map[string]string{
	"POST /v1/act": "Act", "GET /v1/act/jobs/{id}": "Job", "POST /v1/act/jobs/{id}/cancel": "CancelJob",
	"GET /v1/runs": "Runs", "GET /v1/runs/stats": "Stats", "GET /v1/runs/{id}": "Run", "GET /v1/runs/{id}/records": "Records",
	"GET /v1/runs/{id}/events": "Events", "GET /v1/runs/{id}/verify": "Verify", "GET /v1/runs/{id}/diff/{other}": "Diff",
	"POST /v1/runs/{id}/cancel": "Cancel", "POST /v1/runs/{id}/resume": "Resume", "POST /v1/runs/{id}/replay": "Replay",
	"POST /v1/runs/{id}/pin": "Pin", "POST /v1/runs/{id}/unpin": "Pin", "DELETE /v1/runs/{id}": "Purge",
	"GET /v1/interrupts": "Interrupts", "POST /v1/runs/{id}/interrupts/{interrupt}": "Answer", "GET /v1/values/{hash}": "Value",
	"POST /v1/session": "Session", "POST /v1/admin": "Admin", "GET /v1/admin/plugins/{name}/logs": "Logs", "GET /v1/admin/audit": "Audit",
	"GET /v1/whoami": "Whoami", "GET /health": "Health", "GET /ready": "Ready", "GET /routes": "Routes", "GET /openapi.json": "OpenAPI",
	"GET /metrics": "Metrics", "GET /diag/telemetry": "Telemetry",
	"POST /diag/telemetry": "", // what GET returns, for clients that only post
	"POST /v1/auth/login":  "", // a cookie of browsers
	"POST /v1/auth/logout": "",
}

// HTTP-001: the Go client has a method for each route.
func TestClientHasEveryRoute(t *testing.T) {
	w := newWorld(t)
	of := reflect.TypeFor[*client.Client]()
	n := 0
	for r := range w.call("GET /routes", "").value(t).Key("routes").Elems() {
		n++
		route := text(r, "method") + " " + text(r, "path")
		method, known := clientMethods[route]
		require.True(t, known, "%s has no row here", route)
		if method != "" {
			_, exists := of.MethodByName(method)
			assert.True(t, exists, "%s: %s", route, method)
		}
	}
	assert.Len(t, clientMethods, n)
}

// Each method of the client sends the request that it names, and returns what the daemon
// answers or its error.
func TestClientMethods(t *testing.T) {
	w := newWorld(t)
	c, ctx := w.operatorClient(), t.Context()
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	asked := func(method string, args any) {
		t.Helper()
		assert.Equal(t, runsCall{"", method, args}, w.lastAsked())
	}

	page, err := c.Runs(ctx, client.Filter{Status: "failed", Intent: "a/b", Session: "s", Principal: "p", Since: at, Until: at.Add(time.Hour), Key: "k", Limit: 2})
	must(err)
	asked("list", httpapi.RunFilter{Status: "failed", Intent: "a/b", Session: "s", Principal: "p", Since: at, Until: at.Add(time.Hour), Key: "k", Limit: 2})
	require.Len(t, page.Runs, 1)
	run := page.Runs[0]
	assert.Equal(t, []any{sampleRun, client.Word("completed"), client.Word("a/good"), 7 * time.Millisecond, 5}, []any{run.ID, run.Status, run.Intent, run.Latency, run.Records})
	page, err = c.Runs(ctx, client.Filter{Cursor: page.Next})
	must(err)
	assert.Empty(t, page.Next)
	asked("list", httpapi.RunFilter{Before: sampleRun})
	run, err = c.Run(ctx, sampleRun)
	must(err)
	assert.Equal(t, sampleRun, run.ID)
	assert.True(t, run.Value.HasKey("response"))
	records, more, err := c.Records(ctx, sampleRun, 3, 2, true)
	must(err)
	assert.True(t, more && len(records) == 1)
	asked("records", httpapi.RecordsQuery{Run: sampleRun, After: 3, Limit: 2, Values: true})
	value, err := c.Value(ctx, sampleHash, sampleRun)
	must(err)
	assert.Equal(t, "{:kw :a/b}", value.String())
	asked("value "+sampleHash, sampleRun)
	ok, _, err := c.Verify(ctx, sampleRun)
	must(err)
	assert.True(t, ok)
	_, err = c.Diff(ctx, sampleRun, sampleRun)
	must(err)
	asked("diff "+sampleRun+" "+sampleRun, nil)
	_, err = c.Replay(ctx, sampleRun, edn.Nil())
	must(err)
	asked("replay", httpapi.ReplayQuery{Run: sampleRun})
	_, err = c.Replay(ctx, sampleRun, edn.MustRead(`{:mode :fill :effects #{:fs/read}}`))
	must(err)
	asked("replay", httpapi.ReplayQuery{Run: sampleRun, Fill: true, Effects: []string{"fs/read"}})
	must(c.Resume(ctx, sampleRun, edn.MustRead(`{:decision :retry}`)))
	asked("resume "+sampleRun, []httpapi.Decision{{Choice: "retry", By: operatorName()}})
	accepted, err := c.Cancel(ctx, sampleRun, "too late", time.Second)
	must(err)
	assert.True(t, accepted)
	asked("cancel "+sampleRun, httpapi.Cancellation{By: operatorName(), Why: "too late", Wait: time.Second})
	for _, on := range []bool{true, false} {
		_, err = c.Pin(ctx, sampleRun, on)
		must(err)
		asked("pin "+sampleRun, on)
		_, err = c.Purge(ctx, sampleRun, on)
		must(err)
		asked("purge "+sampleRun, on)
	}
	open, err := c.Interrupts(ctx)
	must(err)
	assert.Len(t, open, 1)
	must(c.Answer(ctx, sampleRun, "[0]", edn.MustRead("{:n 1}")))
	job, err := c.Job(ctx, sampleRun)
	must(err)
	assert.Equal(t, at.Add(time.Second), job.Submitted)

	plugins, err := c.Admin(ctx, edn.MustRead(`{:action :plugin-list}`))
	must(err)
	assert.True(t, plugins.HasKey("plugins"))
	session, err := c.Session(ctx, edn.MustRead(`{:action :open :session/id "s"}`))
	must(err)
	assert.Equal(t, "s", text(session, "session/id"))
	who, err := c.Whoami(ctx)
	must(err)
	assert.Equal(t, operatorName(), text(who, "principal"))
	w.ready.Store(false)
	ready, err := c.Ready(ctx)
	must(err)
	assert.False(t, ready.Key("ok?").Truthy())
	lines, enough := []string{}, errors.New("enough")
	err = c.Logs(ctx, "a", 10, func(line edn.Value) error {
		if lines = append(lines, line.String()); len(lines) == 2 {
			return enough
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	assert.Equal(t, []string{"{:n 1}", `"plain"`}, lines)

	health, err := c.Health(ctx)
	must(err)
	assert.True(t, health.Key("ok?").Truthy())
	listed, err := c.Routes(ctx)
	must(err)
	assert.Equal(t, len(clientMethods), listed.Key("routes").Len())
	document, err := c.OpenAPI(ctx)
	must(err)
	assert.True(t, document.HasKey("openapi") || document.Has(edn.Text("openapi")))
	counts, err := c.Telemetry(ctx)
	must(err)
	assert.True(t, counts.IsMap())
	metrics, err := c.Metrics(ctx)
	must(err)
	assert.NotEmpty(t, metrics)
	_, err = c.Stats(ctx, client.Filter{Intent: "a/b", Principal: "p", Since: at, Until: at.Add(time.Hour)})
	must(err)
	asked("statistics", httpapi.RunFilter{Intent: "a/b", Principal: "p", Since: at, Until: at.Add(time.Hour)})
	w.trail = []edn.Value{edn.MustRead(`{:seq 2}`)}
	rows, cursor, err := c.Audit(ctx, client.TrailFilter{After: "host.1", Until: at, Limit: 5})
	must(err)
	assert.Len(t, rows, 2)
	assert.Equal(t, "host.2", cursor)
	accepted, err = c.CancelJob(ctx, sampleRun, "no need", time.Second)
	must(err)
	assert.True(t, accepted)
	assert.Contains(t, w.asked, runsCall{"", "cancel " + sampleRun, httpapi.Cancellation{By: operatorName(), Why: "no need", Wait: time.Second}})

	w.failing.Store(errorOf("run/not-found"))
	_, err = c.Run(ctx, sampleRun)
	require.ErrorIs(t, err, contract.OfType("run/not-found"))
	_, err = c.Events(ctx, sampleRun, "", func(client.Event) error { return nil })
	require.ErrorIs(t, err, contract.OfType("run/not-found"))
	_, err = c.Watch(ctx, sampleRun, func(client.Event) error { return nil })
	require.ErrorIs(t, err, contract.OfType("run/not-found"), "it is not retryable")
	_, err = w.urlClient("bob", policy.RoleUser).Admin(ctx, edn.MustRead(`{:action :plugin-list}`))
	require.ErrorIs(t, err, contract.OfType("auth/forbidden"))
}

// RUN-041, RUN-044: the events of a run continue after a cursor, which is the id of the
// last event; Watch shows each event once, also when the connection breaks.
func TestClientEvents(t *testing.T) {
	w := newWorld(t)
	c := w.operatorClient()
	all, err := c.Events(t.Context(), sampleRun, sampleRun+".3", func(e client.Event) error {
		assert.Contains(t, []string{sampleRun + ".4", sampleRun + ".5"}, e.ID)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, "{:proto 1}", all.String())
	none, err := c.Events(t.Context(), sampleRun, sampleRun+".5", func(client.Event) error { return errors.New("there is none") })
	require.NoError(t, err)
	assert.True(t, none.IsNil())
	w.damaged.Store(true) // the stream ends before its last event
	var ids []string
	response, err := c.Watch(t.Context(), sampleRun, func(e client.Event) error {
		ids = append(ids, e.ID)
		if len(ids) == 4 {
			w.damaged.Store(false)
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, "{:proto 1}", response.String())
	assert.Equal(t, []string{sampleRun + ".1", sampleRun + ".2", sampleRun + ".3", sampleRun + ".4", sampleRun + ".5"}, ids)
	w.idle.Store(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	time.AfterFunc(10*time.Millisecond, func() { cancel(over) })
	_, err = c.Watch(ctx, sampleRun, func(client.Event) error { return nil })
	require.ErrorIs(t, err, over)
}
