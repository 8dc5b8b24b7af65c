package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-006, HTTP-003, AUTH-012, as far as this package is concerned: parameters
// are typed and reach the runs of the caller, which are all runs for an operator;
// the answer has the id of the run. Package daemon proves the rest.
func TestRunRoutes(t *testing.T) {
	w := newWorld(t)
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for what, want := range map[string]runsCall{
		"GET /v1/runs": {method: "list", args: httpapi.RunFilter{}},
		"GET /v1/runs?status=failed&intent=a/b&since=2026-11-20T09:00:00Z&until=2026-11-20T10:00:00Z&principal=x&limit=200": {
			method: "list",
			args: httpapi.RunFilter{
				Status: "failed", Intent: "a/b", Principal: "x", Since: at, Until: at.Add(time.Hour), Limit: 200,
			},
		},
		"GET /v1/runs?session=s-1":       {method: "list", args: httpapi.RunFilter{Session: "s-1"}},
		"GET /v1/values/{hash}":          {method: "value {hash}", args: ""},
		"GET /v1/values/{hash}?run={id}": {method: "value {hash}", args: sampleRun},
		"POST /v1/runs/{id}/replay":      {method: "replay", args: httpapi.ReplayQuery{Run: sampleRun}},
		"GET /v1/runs?key=k&principal=x": {method: "list", args: httpapi.RunFilter{Key: "k", Principal: "x"}},
		"GET /v1/runs/stats":             {method: "statistics", args: httpapi.RunFilter{}},
		"GET /v1/runs/stats?intent=a/b&since=2026-11-20T09:00:00Z&until=2026-11-20T10:00:00Z": {
			method: "statistics",
			args:   httpapi.RunFilter{Intent: "a/b", Since: at, Until: at.Add(time.Hour)},
		},
		"GET /v1/interrupts":                               {method: "interrupts"},
		"GET /v1/runs/{id}":                                {method: "show {id}", args: httpapi.RunParts{Response: true}},
		"GET /v1/runs/{id}/records":                        {method: "records", args: httpapi.RecordsQuery{Run: sampleRun}},
		"GET /v1/runs/{id}/records?after=3&limit=2":        {method: "records", args: httpapi.RecordsQuery{Run: sampleRun, After: 3, Limit: 2}},
		"GET /v1/runs/{id}/records?values=true":            {method: "records", args: httpapi.RecordsQuery{Run: sampleRun, Values: true}},
		"GET /v1/runs/{id}/verify":                         {method: "verify {id}"},
		"GET /v1/runs/{id}/events?after={id}.2&format=edn": {method: "watch {id}", args: 2},
		"POST /v1/runs/{id}/cancel":                        {method: "cancel {id}", args: httpapi.Cancellation{}},
		"POST /v1/runs/{id}/cancel?why=too%20late&wait=30000": {
			method: "cancel {id}", args: httpapi.Cancellation{Why: "too late", Wait: 30 * time.Second},
		},
		"GET /v1/act/jobs/{id}":             {method: "job {id}"},
		"POST /v1/runs/{id}/pin":            {method: "pin {id}", args: true},
		"POST /v1/runs/{id}/unpin":          {method: "pin {id}", args: false},
		"DELETE /v1/runs/{id}":              {method: "purge {id}", args: false},
		"DELETE /v1/runs/{id}?dry-run=true": {method: "purge {id}", args: true},
	} {
		want.method = concrete(want.method)
		operators := strings.HasPrefix(want.method, "p") || want.method == "replay"
		for _, owner := range []string{"", "anonymous"} {
			who, call := "anonymous", w.call
			if owner == "" {
				who, call = operatorName(), w.operator
			}
			a := call(concrete(what), "")
			if want.owner = owner; operators && owner != "" {
				assert.Equal(t, 403, a.status, what)
				assert.Equal(t, "auth/forbidden", a.failure(t), what)
				continue
			}
			require.Equal(t, 200, a.status, "%s: %s", what, a.body)
			if c, ok := want.args.(httpapi.Cancellation); ok {
				c.By = who
				want.args = c
			}
			if q, ok := want.args.(string); ok {
				want.args = concrete(q)
			}
			assert.Equal(t, want, w.lastAsked(), what)
			if strings.Contains(what, "/{id}") {
				assert.Equal(t, sampleRun, a.header.Get("Ferment-Run-Id"), what)
			}
			if operators {
				entry := <-w.audited
				assert.Equal(t, sampleRun, text(entry.Input, "run"), what)
				assert.Equal(t, who, entry.Principal, what)
				assert.Nil(t, entry.Err, what)
			}
		}
	}
	w.operator("GET /v1/runs?key=k", "")
	assert.Equal(t, runsCall{"", "list", httpapi.RunFilter{Key: "k", Principal: operatorName()}}, w.lastAsked(), "its own key")

	w.failing.Store(errorOf("run/not-found"))
	a := w.operator(concrete("DELETE /v1/runs/{id}"), "")
	assert.Equal(t, 404, a.status)
	assert.Equal(t, sampleRun, a.header.Get("Ferment-Run-Id"))
	assert.Equal(t, sampleRun, text(a.value(t), "run/id"))
	assert.Equal(t, "run/not-found", (<-w.audited).Err.Type, "what failed is audited too")
}

func text(v edn.Value, key string) string { s, _ := v.Key(key).AsString(); return s }

// A query parameter that is unknown, given twice or of another type is an error,
// and nothing is looked up.
func TestRunRouteParameters(t *testing.T) {
	w := newWorld(t)
	for _, what := range []string{
		"GET /v1/runs?nope=1", "GET /v1/runs?limit=0", "GET /v1/runs?limit=201", "GET /v1/runs?limit=x", "GET /v1/runs?limit=1&limit=2",
		"GET /v1/runs?status=done", "GET /v1/runs?since=yesterday", "GET /v1/runs?cursor=", "GET /v1/runs?cursor=x", "GET /v1/runs?%zz",
		"GET /v1/runs?a b=1", "GET /v1/runs/{id}?x=1", "GET /v1/runs/{id}/records?after=-1", "GET /v1/runs/{id}/records?values=1",
		"POST /v1/runs/{id}/cancel?wait=30001", "DELETE /v1/runs/{id}?dry-run=yes", "GET /v1/runs/{id}/events?format=xml",
	} {
		a := w.operator(strings.ReplaceAll(concrete(what), "a b", "a%20b"), "")
		assert.Equal(t, 400, a.status, what)
		assert.Equal(t, "invalid-request", a.failure(t), what)
		assert.Equal(t, strings.Contains(what, "{id}"), a.header.Get("Ferment-Run-Id") == sampleRun, what)
	}
	assert.Empty(t, w.asked)
	assert.Empty(t, w.audited)
}

// HTTP-006: the cursor of a list is opaque and continues after its last run.
func TestRunPages(t *testing.T) {
	w := newWorld(t)
	first := w.operator("GET /v1/runs?limit=1&intent=a/good", "").value(t)
	cursor := text(first, "next")
	require.NotEmpty(t, cursor)
	assert.NotContains(t, cursor, "run_")
	second := w.operator("GET /v1/runs?limit=1&intent=a/good&cursor="+cursor, "").value(t)
	assert.Equal(t, httpapi.RunFilter{Intent: "a/good", Before: sampleRun, Limit: 1}, w.lastAsked().args)
	assert.False(t, second.HasKey("next"), "the last page")
}

// watch requests the events of the sample run.
func (w *world) watch(ctx context.Context, query string, header ...string) (*http.Response, func() (sse, error)) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+concrete("/v1/runs/{id}/events"+query), nil)
	require.NoError(w.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return w.events(w.client, r)
}

// RUN-040, RUN-041, RUN-044: the events of a run after a cursor, which is the
// header or the parameter; the last one holds the response. The final cursor has
// status 204, which stops standard clients.
func TestRunEvents(t *testing.T) {
	w := newWorld(t)
	names := []string{"accepted", "started", "attempt", "commit", "finished"}
	const header = "Last-Event-ID"
	for name, tc := range map[string]struct {
		query  string
		header []string
		after  int
	}{
		"all":                  {},
		"parameter":            {query: "?after={id}.2", after: 2},
		"header":               {header: []string{header, "{id}.4"}, after: 4},
		"header and parameter": {query: "?after={id}.1", header: []string{header, "{id}.3"}, after: 3},
		"empty header":         {query: "?after={id}.1", header: []string{header, ""}, after: 1},
		"empty parameter":      {query: "?after="},
		"EDN":                  {query: "?after={id}.2&format=edn", after: 2},
		"any type":             {header: []string{"Accept", "*/*"}},
		"text":                 {header: []string{"Accept", "text/*, application/json"}},
		"events":               {header: []string{"Accept", "text/event-stream"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.header {
				tc.header[i] = concrete(tc.header[i])
			}
			resp, next := w.watch(t.Context(), tc.query, tc.header...)
			require.Equal(t, 200, resp.StatusCode)
			for key, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Ferment-Run-Id": sampleRun,
			} {
				assert.Equal(t, want, resp.Header.Get(key), key)
			}
			events := all(t, next)
			require.Len(t, events, len(names)-tc.after)
			for i, e := range events {
				assert.Equal(t, names[tc.after+i], e.name)
				assert.Equal(t, sampleRun+"."+string(rune('1'+tc.after+i)), e.id)
				assert.Equal(t, e.name == "finished", e.data.HasKey("response"))
			}
		})
	}
	a := w.call(concrete("GET /v1/runs/{id}/events"), "", header, sampleRun+".5")
	assert.Equal(t, 204, a.status)
	assert.Empty(t, a.body)
	assert.Equal(t, sampleRun, a.header.Get("Ferment-Run-Id"))
	assert.Equal(t, 406, w.call(concrete("GET /v1/runs/{id}/events"), "", "Accept", "application/json").status)
}

// RUN-041: a cursor that is malformed or of another run is rejected before the run
// is looked up.
func TestBadCursors(t *testing.T) {
	w := newWorld(t)
	for _, cursor := range []string{
		"x", "3", ".3", "{id}", "{id}.", "{id}.0", "{id}.-1", "{id}.+1", "{id}.01", "{id}.1.2", "{id}.1 ", "{id}.99999999999",
		"run_01BBBBBBBBBBBBBBBBBBBBBBBB.1", "{id}.1, {id}.2", strings.Repeat("9", 64),
	} {
		for _, header := range [][]string{nil, {"Last-Event-ID", concrete(cursor)}} {
			query := ""
			if header == nil {
				query = "?after=" + strings.NewReplacer("+", "%2B", " ", "%20").Replace(cursor)
			}
			if strings.HasSuffix(cursor, " ") && header != nil {
				continue // it is not part of a header
			}
			a := w.call(concrete("GET /v1/runs/{id}/events"+query), "", header...)
			assert.Equal(t, 400, a.status, "%q", cursor)
			assert.Equal(t, "stream/bad-cursor", a.failure(t), "%q", cursor)
		}
	}
	resp, _ := w.watch(t.Context(), "", "Last-Event-ID", sampleRun+".1", "Last-Event-ID", sampleRun+".2")
	assert.Equal(t, 400, resp.StatusCode, "two headers")
	assert.Empty(t, w.asked)
}

// RUN-044, OPS-004: while a run has no events its stream has heartbeats; when the
// server ends, the stream ends with shutdown, after which clients wait longer.
func TestRunEventsShutdown(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Heartbeat = 20 * time.Millisecond })
	w.idle.Store(true)
	resp, next := w.watch(t.Context(), "")
	require.Equal(t, 200, resp.StatusCode)
	for range 3 {
		e, err := next()
		require.NoError(t, err)
		require.Equal(t, "alive", e.name)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.server.Shutdown(context.WithoutCancel(t.Context()))
	}()
	var last sse
	for _, e := range all(t, next) {
		if last = e; e.name != "alive" {
			break
		}
	}
	<-ended
	assert.Equal(t, "shutdown", last.name)
	assert.Equal(t, "3000", last.retry)
	assert.Empty(t, last.id, "the cursor of the client stays")
	assert.Equal(t, sampleRun, text(last.data, "run"))
}

// AUTH-033: streams of runs count for the limit of their caller, until they end. A
// reader that goes away frees its place.
func TestTooManyRunStreams(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.PrincipalSubscribers = 1 })
	w.idle.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, _ := w.watch(ctx, "")
	require.Equal(t, 200, resp.StatusCode)
	a := w.call(concrete("GET /v1/runs/{id}/events"), "")
	assert.Equal(t, 429, a.status)
	assert.Equal(t, "stream/too-many-subscribers", a.failure(t))
	cancel()
	w.idle.Store(false)
	require.Eventually(t, func() bool {
		return w.call(concrete("GET /v1/runs/{id}/events"), "").status == 200
	}, 20*time.Second, time.Millisecond)
}

// A run has a limit of streams, whoever reads them.
func TestTooManyStreamsOfRun(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) { s.Limits.RunSubscribers = 2 })
	w.idle.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		resp, _ := w.watch(ctx, "")
		require.Equal(t, 200, resp.StatusCode)
	}
	a := w.operator(concrete("GET /v1/runs/{id}/events"), "")
	assert.Equal(t, 429, a.status)
	assert.Equal(t, "stream/too-many-subscribers", a.failure(t))
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	cancel()
	w.idle.Store(false)
	require.Eventually(t, func() bool {
		return w.call(concrete("GET /v1/runs/{id}/events"), "").status == 200
	}, 20*time.Second, time.Millisecond)
}

// The errors of runs name requests, not commands; a parameter that is not known has
// those that are, and a part that is wrong says where it is, what was expected there and
// what was found.
func TestRunErrorsAreForHTTP(t *testing.T) {
	w := newWorld(t)
	for hint, want := range map[string]string{
		`"ferment runs list" shows the runs`: `GET /v1/runs shows the runs`,
		`"ferment runs show ` + sampleRun + `" shows the open calls, "ferment runs resume" decides`: concrete(`GET /v1/runs/{id} shows the open calls, POST /v1/runs/{id}/resume decides`),
		`"ferment runs resume ` + sampleRun + ` --decide a=retry" calls it again`:                   concrete(`POST /v1/runs/{id}/resume calls it again`),
		`"ferment runs cancel ` + sampleRun + `" ends it; "ferment serve" starts a daemon`:          concrete(`POST /v1/runs/{id}/cancel ends it; "ferment serve" starts a daemon`),
		`"ferment runs watch ` + strings.Replace(sampleRun, "B", "C", 1) + `" follows another run`:  `GET /v1/runs/` + strings.Replace(sampleRun, "B", "C", 1) + `/events follows another run`,
	} {
		w.failing.Store(errorOf("run/suspended").WithHint(hint))
		assert.Equal(t, want, text(w.operator(concrete("GET /v1/runs/{id}"), "").value(t).Key("error"), "hint"))
	}
	w.failing.Store(nil)
	a := w.operator(concrete("GET /v1/runs/{id}/records?afer=1"), "").value(t).Key("error")
	for _, known := range []string{"after", "limit", "values"} {
		assert.Contains(t, text(a, "hint"), known)
	}
	for what, found := range map[string]string{
		"GET /v1/runs?limit=1&limit=2": "1, 2",
		"GET /v1/runs?%zz":             "%zz",
		"GET /v1/runs?cursor=nonsense": "nonsense",
	} {
		a := w.operator(concrete(what), "").value(t).Key("error")
		assert.Equal(t, `"query"`, a.Key("where").Key("at").String(), what)
		assert.Equal(t, found, text(a.Key("details"), "got"), what)
		assert.NotEmpty(t, text(a.Key("details"), "expected"), what)
	}
	a = w.call("POST /v1/act?format=xml", jsonAct("t/any", "{}"), "Accept", "text/event-stream, application/edn;q=0.5").value(t).Key("error")
	assert.Equal(t, `:query "xml"`, a.Key("where").Key("at").String()+" "+a.Key("details").Key("got").String())
	a = w.call("POST /v1/act", `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/any"},"input":{},"response/type":"stream"}`, "Accept", "application/edn").value(t).Key("error")
	assert.Equal(t, `:header "Accept: application/edn"`, a.Key("where").Key("at").String()+" "+a.Key("details").Key("got").String())
	a = w.call("POST /v1/act", `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/any"},"input":{},"idempotency/key":"key-b"}`, "Idempotency-Key", "key-a").value(t).Key("error")
	assert.Equal(t, "idempotency/invalid-key", text(a, "type"))
	assert.Contains(t, text(a, "message"), "key-a")
	assert.Contains(t, text(a, "message"), "key-b")
}

// A stream whose run cannot be read any further ends without finished, so its
// reader knows that there is more.
func TestRunEventsFail(t *testing.T) {
	w := newWorld(t)
	w.damaged.Store(true)
	resp, next := w.watch(t.Context(), "")
	require.Equal(t, 200, resp.StatusCode)
	events := all(t, next)
	require.Len(t, events, 4)
	assert.Equal(t, "commit", events[3].name)
	for typ, status := range map[string]int{"stream/cursor-ahead": 409, "stream/gone": 410, "run/not-found": 404} {
		w.failing.Store(contract.Errorf(typ, "so"))
		a := w.call(concrete("GET /v1/runs/{id}/events"), "")
		assert.Equal(t, status, a.status)
		assert.Equal(t, typ, a.failure(t))
	}
}
