package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi/httpapitest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// document returns the OpenAPI document of the API.
func (w *world) document() *httpapitest.Document {
	w.t.Helper()
	a := w.call("GET /openapi.json", "")
	require.Equal(w.t, 200, a.status)
	doc, err := httpapitest.Read(a.body)
	require.NoError(w.t, err)
	return doc
}

// fails makes the next call of a capability return an error.
func (w *world) fails(e *contract.Error) {
	w.exec.On("t/any", dispatchtest.Step{Err: e})
}

func errorOf(typ string) *contract.Error { return contract.Errorf(typ, "as the test wants it") }

// HTTP-001: every documented status of every route is produced, each response
// fits the document, and no undocumented status occurs.
func TestEveryDocumentedStatus(t *testing.T) {
	any := jsonAct("t/any", `{}`)
	run := func(typ string) func(w *world) answer {
		return func(w *world) answer {
			w.fails(errorOf(typ))
			return w.call("POST /v1/act", any)
		}
	}
	common := func(what, body string) map[int]func(w *world) answer {
		return map[int]func(w *world) answer{
			406: func(w *world) answer { return w.call(what, body, "Accept", "text/html") },
			421: func(w *world) answer { return w.call(what, body, "Host", "evil.example") },
			431: func(w *world) answer { return w.call(what, body, "X-Long", strings.Repeat("x", 9<<10)) },
		}
	}
	tooOften := func(what, body string) func(w *world) answer {
		return func(w *world) answer {
			w.tune(func(s *httpapi.Settings) {
				s.Identity.Required = true // rejected requests count for the rate limit too
				s.Limits.AnonymousRate = config.Rate{Events: 1, Per: time.Hour}
			})
			var a answer
			for range 3 {
				a = w.call(what, body)
			}
			return a
		}
	}
	starting := func(what, body string) func(w *world) answer {
		return func(w *world) answer {
			w.phase.Store("starting")
			return w.operator(what, body)
		}
	}
	// ofRun are the statuses of a route of runs: more are error types of its method
	// of Runs.
	ofRun := func(what string, more ...string) map[int]func(w *world) answer {
		what = concrete(what)
		out := map[int]func(w *world) answer{
			200: func(w *world) answer { return w.operator(what, "") },
			400: func(w *world) answer { return w.operator(what+"?nope=1", "") },
			401: func(w *world) answer { return w.call(what, "", "Authorization", "Bearer x") },
			429: tooOften(what, ""),
			503: starting(what, ""),
		}
		if strings.Contains(what, sampleRun) {
			more = append(more, "run/not-found", "journal/damaged")
		}
		out[403] = func(w *world) answer {
			w.tune(func(s *httpapi.Settings) { s.Identity.Anonymous = policy.RoleAnonymous })
			return w.call(what, "")
		}
		for _, typ := range more {
			out[contract.Errorf(typ, "").HTTPStatus()] = func(w *world) answer {
				w.failing.Store(errorOf(typ))
				return w.operator(what, "")
			}
		}
		return out
	}
	cases := map[string]map[int]func(w *world) answer{
		"GET /v1/runs":                   ofRun("GET /v1/runs"),
		"GET /v1/runs/stats":             ofRun("GET /v1/runs/stats"),
		"GET /v1/interrupts":             ofRun("GET /v1/interrupts"),
		"GET /v1/runs/{id}":              ofRun("GET /v1/runs/{id}"),
		"GET /v1/runs/{id}/records":      ofRun("GET /v1/runs/{id}/records"),
		"GET /v1/runs/{id}/events":       ofRun("GET /v1/runs/{id}/events", "stream/cursor-ahead", "stream/gone"),
		"GET /v1/runs/{id}/verify":       ofRun("GET /v1/runs/{id}/verify"),
		"POST /v1/runs/{id}/cancel":      ofRun("POST /v1/runs/{id}/cancel", "queue/invalid-transition"),
		"POST /v1/runs/{id}/resume":      ofRun("POST /v1/runs/{id}/resume", "run/decision-required", "run/decision-invalid", "replay/values-purged"),
		"GET /v1/runs/{id}/diff/{other}": ofRun("GET /v1/runs/{id}/diff/{other}"),
		"POST /v1/runs/{id}/replay":      ofRun("POST /v1/runs/{id}/replay", "replay/miss", "replay/values-purged"),
		"GET /v1/values/{hash}":          ofRun("GET /v1/values/{hash}", "not-found", "replay/values-purged"),
		"POST /v1/runs/{id}/pin":         ofRun("POST /v1/runs/{id}/pin"),
		"POST /v1/runs/{id}/unpin":       ofRun("POST /v1/runs/{id}/unpin"),
		"DELETE /v1/runs/{id}":           ofRun("DELETE /v1/runs/{id}", "queue/invalid-transition"),
		"GET /v1/whoami": {
			200: func(w *world) answer { return w.call("GET /v1/whoami", "") },
			401: func(w *world) answer { return w.call("GET /v1/whoami", "", "Authorization", "Bearer x") },
			429: tooOften("GET /v1/whoami", ""),
			503: starting("GET /v1/whoami", ""),
		},
		"POST /v1/auth/login": {
			200: func(w *world) answer {
				w.tune(browsers)
				w.user("ann")
				return w.call(login, loginBody("ann", password))
			},
			400: func(w *world) answer { w.tune(browsers); return w.call(login, `{"login":"ann"}`) },
			401: func(w *world) answer { w.tune(browsers); return w.call(login, loginBody("ann", password)) },
			403: func(w *world) answer {
				return w.call(login, loginBody("ann", password), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
			},
			404: func(w *world) answer { return w.call(login, loginBody("ann", password)) },
			413: func(w *world) answer { return w.call(login, strings.Repeat("x", 64<<10+1)) },
			415: func(w *world) answer { return w.call(login, "x", "Content-Type", "text/plain") },
			429: tooOften(login, loginBody("ann", password)),
			503: starting(login, loginBody("ann", password)),
		},
		"POST /v1/auth/logout": {
			200: func(w *world) answer {
				w.tune(browsers)
				w.user("ann")
				return w.asPage(w.logIn("ann"), "POST /v1/auth/logout", "")
			},
			400: func(w *world) answer { return w.call("POST /v1/auth/logout", "") },
			401: func(w *world) answer { return w.call("POST /v1/auth/logout", "", "Authorization", "Bearer x") },
			403: func(w *world) answer {
				return w.call("POST /v1/auth/logout", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
			},
			429: tooOften("POST /v1/auth/logout", ""),
			503: starting("POST /v1/auth/logout", ""),
		},
		"GET /v1/act/jobs/{id}":         ofRun("GET /v1/act/jobs/{id}"),
		"POST /v1/act/jobs/{id}/cancel": ofRun("POST /v1/act/jobs/{id}/cancel"),
		"POST /v1/act": {
			202: func(w *world) answer {
				w.jobs.Store(true)
				w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
				return w.call("POST /v1/act", any, "Prefer", "wait=10, Respond-Async")
			},
			200: func(w *world) answer {
				w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
				return w.call("POST /v1/act", any)
			},
			400: func(w *world) answer { return w.call("POST /v1/act", `{"proto":1}`) },
			401: func(w *world) answer { return w.call("POST /v1/act", any, "Authorization", "Bearer x") },
			402: run("budget/would-exceed"),
			403: run("policy/blocked"),
			404: run("cap/not-found"),
			409: run("model/frozen"),
			413: func(w *world) answer { return w.call("POST /v1/act", strings.Repeat("x", 1<<20+1)) },
			415: func(w *world) answer {
				return w.call("POST /v1/act", "a=b", "Content-Type", "application/x-www-form-urlencoded")
			},
			422: func(w *world) answer {
				return w.call("POST /v1/act", strings.Replace(any, `"intent"`, `"cap/id":"t/a","intent"`, 1))
			},
			429: tooOften("POST /v1/act", any),
			500: func(w *world) answer {
				w.panics.Store(true)
				return w.call("POST /v1/act", any)
			},
			502: run("runtime/crashed"),
			503: run("runtime/overloaded"),
			504: run("timeout/hard"),
		},
		"POST /v1/admin": {
			200: func(w *world) answer { return w.operator("POST /v1/admin", `{"action":"plugin-list"}`) },
			202: func(w *world) answer { return w.operator("POST /v1/admin", `{"action":"plugin-restart","plugin":"a"}`) },
			400: func(w *world) answer { return w.operator("POST /v1/admin", `{"action":"plugin-restart"}`) },
			401: func(w *world) answer {
				return w.through(w.admin, "localhost", "POST /v1/admin", `{"action":"plugin-list"}`)
			},
			403: func(w *world) answer {
				return w.operator("POST /v1/admin", `{"action":"plugin-list"}`, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
			},
			404: adminFails("not-found"),
			409: adminFails("config/restart"),
			410: adminFails("replay/values-purged"),
			413: func(w *world) answer { return w.operator("POST /v1/admin", strings.Repeat("x", 64<<10+1)) },
			415: func(w *world) answer { return w.operator("POST /v1/admin", "x", "Content-Type", "text/plain") },
			422: adminFails("config/syntax"),
			429: tooOften("POST /v1/admin", `{"action":"plugin-list"}`),
			500: adminFails("runtime/internal"),
			502: adminFails("runtime/start-failed"),
			503: func(w *world) answer { return w.call("POST /v1/admin", `{"action":"plugin-list"}`) },
		},
		"POST /v1/session": {
			200: func(w *world) answer { return w.call("POST /v1/session", `{"action":"open"}`) },
			400: func(w *world) answer { return w.call("POST /v1/session", `{"action":"open","session/id":"a b"}`) },
			401: func(w *world) answer { return w.call("POST /v1/session", `{}`, "Authorization", "Bearer x") },
			403: sessionVar(`"key":"request/x","value":1,"intent":"text/respond"`),
			404: func(w *world) answer { return w.call("POST /v1/session", `{"action":"get","session/id":"s"}`) },
			409: sessionVar(`"key":"session/x","value":1,"session/version":7`),
			413: func(w *world) answer { return w.call("POST /v1/session", strings.Repeat("x", 64<<10+1)) },
			415: func(w *world) answer { return w.call("POST /v1/session", "x", "Content-Type", "text/plain") },
			422: sessionVar(`"key":"other/x","value":1`),
			429: tooOften("POST /v1/session", `{"action":"list"}`),
			503: starting("POST /v1/session", `{"action":"list"}`),
		},
		"GET /health": {
			200: func(w *world) answer { return w.call("GET /health", "") },
			503: func(w *world) answer { w.healthy.Store(false); return w.call("GET /health", "") },
		},
		"GET /ready": {
			200: func(w *world) answer { return w.call("GET /ready", "") },
			503: func(w *world) answer { w.ready.Store(false); return w.call("GET /ready", "") },
		},
		"GET /routes": {
			200: func(w *world) answer { return w.call("GET /routes", "") },
			429: tooOften("GET /routes", ""),
			503: starting("GET /routes", ""),
		},
		"GET /openapi.json": {
			200: func(w *world) answer { return w.call("GET /openapi.json", "") },
			429: tooOften("GET /openapi.json", ""),
			503: starting("GET /openapi.json", ""),
		},
	}
	for _, what := range []string{"GET /metrics", "GET /diag/telemetry", "POST /diag/telemetry"} {
		cases[what] = ofRun(what)
		delete(cases[what], 400)
	}
	cases["GET /metrics"][500] = func(w *world) answer {
		w.failing.Store(errorOf("runtime/internal"))
		return w.operator("GET /metrics", "")
	}
	const jobCancel = "POST /v1/act/jobs/{id}/cancel"
	delete(cases["GET /v1/interrupts"], 400)
	for _, what := range []string{jobCancel, "POST /v1/runs/{id}/resume", "POST /v1/runs/{id}/replay"} {
		cases[what][400] = func(w *world) answer { return w.operator(concrete(what), `{"why":1}`) }
		cases[what][413] = func(w *world) answer { return w.operator(concrete(what), strings.Repeat("x", 64<<10+1)) }
		cases[what][415] = func(w *world) answer { return w.operator(concrete(what), "x", "Content-Type", "text/plain") }
	}
	const logs, trail = "GET /v1/admin/plugins/{name}/logs", "GET /v1/admin/audit"
	cases[logs], cases[trail] = ofRun(logs, "not-found"), ofRun(trail, "stream/cursor-ahead", "stream/gone")
	for _, what := range []string{logs, trail} {
		cases[what][403] = func(w *world) answer {
			w.tune(strict)
			w.user("ann", policy.RoleUser)
			token, _ := w.token("ann", policy.Narrowing{})
			return w.call(concrete(what), "", "Authorization", token)
		}
	}
	const answers = "POST /v1/runs/{id}/interrupts/{interrupt}"
	cases[answers] = ofRun(answers)
	for status, body := range map[int]string{200: `{"answer":{"n":1}}`, 400: `{"value":1}`, 413: strings.Repeat("x", 1<<20+1)} {
		cases[answers][status] = func(w *world) answer { return w.operator(concrete(answers), body) }
	}
	for _, typ := range []string{"interrupt/not-found", "interrupt/answered", "interrupt/answer-invalid", "journal/damaged"} {
		cases[answers][contract.Errorf(typ, "").HTTPStatus()] = func(w *world) answer {
			w.failing.Store(errorOf(typ))
			return w.operator(concrete(answers), `{"answer":{"n":1}}`)
		}
	}
	cases[answers][415] = func(w *world) answer { return w.operator(concrete(answers), "x", "Content-Type", "text/plain") }
	cases["GET /v1/runs/{id}/events"][204] = func(w *world) answer {
		return w.operator(concrete("GET /v1/runs/{id}/events?after={id}.5"), "")
	}
	doc := newWorld(t).document()
	assert.True(t, strings.HasPrefix(doc.Version(), "3.1."))
	ids := doc.Operations()
	slices.Sort(ids)
	assert.Len(t, slices.Compact(ids), len(doc.Operations()), "ids of operations are unique")
	for what, statuses := range doc.Statuses() {
		method, path, _ := strings.Cut(what, " ")
		if method == "HEAD" {
			continue
		}
		body := ""
		if method == "POST" {
			body = any
		}
		made := cases[what]
		require.NotNil(t, made, "no cases for %s", what)
		maps.Copy(made, common(concrete(what), body))
		if made[415] != nil { // it has a body
			made[408] = func(w *world) answer { return w.lateBody(concrete(what)) }
		}
		delete(cases, what)
		for _, status := range statuses {
			switch {
			case status == 500 && made[500] == nil:
				continue // a defect; TestPanic covers what all routes have in common
			case status == 410 && what == "POST /v1/act":
				continue // TestIdempotencyKeys of the command line: of a run that was purged
			}
			assert.Contains(t, made, status, "%s documents %d and no test produces it", what, status)
		}
		for status, produce := range made {
			t.Run(fmt.Sprintf("%s %d", strings.ReplaceAll(what, "/", "_"), status), func(t *testing.T) {
				require.Contains(t, statuses, status, "%s does not document %d", what, status)
				a := produce(newWorld(t))
				require.Equal(t, status, a.status, "%s", a.body)
				assertHeaders(t, a, path)
				assert.NoError(t, doc.Check(a.exchange), "%s", a.body)
			})
		}
	}
	assert.Empty(t, cases, "tested and not documented")
}

// concrete replaces the parameters of a path by the sample.
func concrete(path string) string {
	return strings.NewReplacer("{id}", sampleRun, "{other}", sampleRun, "{interrupt}", "0-1-1", "{hash}", sampleHash, "{name}", "a").Replace(path)
}

// sessionVar writes a variable of a new session.
func sessionVar(input string) func(w *world) answer {
	return func(w *world) answer {
		w.call("POST /v1/session", `{"action":"open","session/id":"s"}`)
		return w.call("POST /v1/session", `{"action":"put-var","session/id":"s",`+input+`}`)
	}
}

func adminFails(typ string) func(w *world) answer {
	return func(w *world) answer {
		w.failing.Store(errorOf(typ))
		return w.operator("POST /v1/admin", `{"action":"admin/plugin-restart","plugin":"a"}`)
	}
}

// HTTP-010: the headers of every response.
func assertHeaders(t *testing.T, a answer, path string) {
	t.Helper()
	assert.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	assert.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
	assert.Equal(t, "default-src 'none'", a.header.Get("Content-Security-Policy"))
	if strings.HasPrefix(path, "/v1/") {
		assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
	}
	if a.status == 503 || a.status == 429 {
		if retryable, _ := a.value(t).Key("error").Key("retryable?").AsBool(); retryable {
			assert.NotEmpty(t, a.header.Get("Retry-After"), "%s", a.body)
		}
	}
}

// HTTP-001: every action has a schema in the document, and generated samples
// are valid by it.
func TestEveryActionIsDocumented(t *testing.T) {
	w := newWorld(t)
	doc := w.document()
	for _, name := range []string{"ann", "carl"} {
		w.user(name)
	}
	_, id := w.token("ann", policy.Narrowing{})
	assert.Equal(t, policy.AdminOperations, operationsOf(httpapi.Actions()), "rules know each action")
	for _, a := range httpapi.Actions() {
		name := "admin." + a.Name
		body := map[string]any{"action": a.Name}
		for key, value := range map[string]string{"user": "ann", "role": "operator", "password": "a new password", "token": id} {
			if strings.Contains(a.Input, "[:"+key+" ") && (key != "password" || a.Name == "set-password") && a.Name != "budget-adjust" {
				body[key] = value
			}
		}
		switch a.Name {
		case "create-user":
			body["user"] = "bob"
		case "delete-user":
			body["user"] = "carl"
		case "create-role", "delete-role":
			body["role"] = "night"
		}
		if strings.Contains(a.Input, "[:plugin") {
			body["plugin"] = "x"
		}
		if strings.Contains(a.Input, "[:run {:doc") {
			body["run"] = "last"
		}
		if strings.Contains(a.Input, "[:b {:doc") {
			body["a"], body["b"] = "last", "last"
		}
		if strings.Contains(a.Input, "[:answer :any]") {
			body["answer"] = "yes"
		}
		if strings.Contains(a.Input, "[:file {:doc") {
			body["file"] = "/x"
		}
		if strings.Contains(a.Input, "[:intent ") {
			body["intent"] = "text/respond"
		}
		if strings.Contains(a.Input, "[:capability :keyword]") {
			body["capability"] = "t/any"
		}
		if strings.Contains(a.Input, "[:judge [") {
			body["judge"] = "x"
		}
		if strings.Contains(a.Input, "[:scope") {
			body["scope"] = "tenant"
		}
		require.NoError(t, doc.Schema(name, body))
		body["surprise"] = true
		require.Error(t, doc.Schema(name, body), "%s is closed", a.Name)
		delete(body, "surprise")
		text, err := json.Marshal(body)
		require.NoError(t, err)
		got := w.operator("POST /v1/admin", string(text))
		assert.Contains(t, []int{200, 202}, got.status, "%s", got.body)
		entry := <-w.audited
		assert.Equal(t, "admin/"+a.Name, entry.Action)
		assert.Regexp(t, "^uid/[0-9]+$", entry.Principal)
	}
}

// HTTP-005: on every route an unsupported method is 405 with Allow, HEAD works
// where GET does, a trailing slash is another path, and an id has one form.
func TestRouting(t *testing.T) {
	w := newWorld(t)
	routes := w.call("GET /routes", "").value(t).Key("routes")
	assert.Equal(t, 33, routes.Len())
	allowed := map[string]string{} // by path
	for r := range routes.Elems() {
		method, _ := r.Key("method").AsString()
		path, _ := r.Key("path").AsString()
		allow := map[string]string{"POST": "POST", "GET": "GET, HEAD", "DELETE": "DELETE, GET, HEAD"}[method]
		if before := allowed[path]; before == "GET, HEAD" && method == "POST" {
			allow = "GET, HEAD, POST"
		}
		allowed[path] = allow
	}
	for r := range routes.Elems() {
		method, _ := r.Key("method").AsString()
		path, _ := r.Key("path").AsString()
		allow := allowed[path]
		path = concrete(path)
		for _, other := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "NONE"} {
			if strings.Contains(allow, other) {
				continue
			}
			a := w.call(other+" "+path, "{}")
			assert.Equal(t, 405, a.status, "%s %s", other, path)
			assert.Equal(t, allow, a.header.Get("Allow"), "%s %s", other, path)
			if other != "HEAD" {
				assert.Equal(t, "method-not-allowed", a.failure(t), "%s %s", other, path)
			}
		}
		a := w.call(method+" "+path+"/", "{}")
		assert.Equal(t, 404, a.status, path)
		assert.Equal(t, "not-found", a.failure(t), path)
		if method != "GET" {
			continue
		}
		head, get := w.call("HEAD "+path, ""), w.call("GET "+path, "")
		assert.Equal(t, get.status, head.status, path)
		assert.Equal(t, get.header.Get("Content-Type"), head.header.Get("Content-Type"), path)
		assert.Empty(t, head.body)
		if path != "/ready" { // it contains times
			assert.Equal(t, get.header.Get("Content-Length"), head.header.Get("Content-Length"), path)
		}
	}
	for _, path := range []string{"/", "/v1/ACT", "/v1/%61ct", "/v1//act", "/nope", "/v1/act%00", "/../health"} {
		a := w.call("POST "+path, "{}")
		assert.Equal(t, 404, a.status, path)
		assert.Equal(t, "not-found", a.failure(t), path)
	}
	w.asked = nil
	for _, id := range []string{
		"last", sampleRun[:29], sampleRun + "A", "run_01aaaaaaaaaaaaaaaaaaaaaaaa", "run%5F01AAAAAAAAAAAAAAAAAAAAAAAA", "%00", "..",
		"run_01AAAAAAAAAAAAAAAAAAAAAAAI", "%F0%9F%A6%8A",
	} {
		for _, what := range []string{"GET /v1/runs/" + id, "GET /v1/runs/" + id + "/events", "DELETE /v1/runs/" + id} {
			a := w.operator(what, "")
			assert.Equal(t, 404, a.status, what)
			assert.Equal(t, "run/not-found", a.failure(t), what)
		}
	}
	assert.Empty(t, w.asked, "nothing is looked up")
	a, err := w.raw("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	assert.Equal(t, "not-found", a.failure(t), "%s", a.body)
}

// AUTH-031, AUTH-032: access per listener, host and origin.
func TestAccess(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	act := jsonAct("t/any", "{}")
	for name, tc := range map[string]struct {
		a      answer
		status int
		typ    string
	}{
		"allowed name":      {w.call("POST /v1/act", act, "Host", "Ferment.Example:80"), 200, ""},
		"loopback name":     {w.call("POST /v1/act", act, "Host", "localhost:9"), 200, ""},
		"loopback address":  {w.call("POST /v1/act", act, "Host", "[::1]:9"), 200, ""},
		"foreign name":      {w.call("POST /v1/act", act, "Host", "rebound.example"), 421, "http/misdirected"},
		"foreign address":   {w.call("GET /health", "", "Host", "10.0.0.1"), 421, "http/misdirected"},
		"cross site":        {w.call("POST /v1/act", act, "Sec-Fetch-Site", "cross-site"), 403, "http/cross-origin"},
		"same site":         {w.call("POST /v1/act", act, "Sec-Fetch-Site", "same-site"), 403, "http/cross-origin"},
		"foreign origin":    {w.call("POST /v1/act", act, "Origin", "https://evil.example"), 403, "http/cross-origin"},
		"null origin":       {w.call("POST /v1/act", act, "Origin", "null"), 403, "http/cross-origin"},
		"own origin":        {w.call("POST /v1/act", act, "Sec-Fetch-Site", "same-origin"), 200, ""},
		"form of a page":    {w.call("POST /v1/act", "a=b", "Content-Type", "application/x-www-form-urlencoded"), 415, "http/unsupported-media-type"},
		"EDN as text":       {w.call("POST /v1/act", ednAct("t/any", "{}"), "Content-Type", "text/plain", "Origin", "https://evil.example"), 403, "http/cross-origin"},
		"compressed":        {w.call("POST /v1/act", act, "Content-Encoding", "gzip"), 415, "http/unsupported-media-type"},
		"other charset":     {w.call("POST /v1/act", act, "Content-Type", "application/json; charset=latin1"), 415, "http/unsupported-media-type"},
		"wrong admin token": {w.through(w.admin, "localhost", "POST /v1/act", act, "Authorization", "Bearer nope"), 401, "auth/unauthorized"},
		"basic":             {w.through(w.admin, "localhost", "POST /v1/act", act, "Authorization", "Basic "+token), 401, "auth/unauthorized"},
		"admin token":       {w.operator("POST /v1/act", act), 200, ""},
		"idempotency":       {w.call("POST /v1/act", act, "Idempotency-Key", "k"), 503, "db/not-configured"},
		"stream elsewhere":  {w.call("GET /routes", "", "Accept", "text/event-stream"), 406, "http/not-acceptable"},
		"accepted":          {w.call("POST /v1/act", strings.Replace(act, `"proto"`, `"response/type":"accepted","proto"`, 1)), 503, "queue/disabled"},
		"stream wanted":     {w.call("POST /v1/act", strings.Replace(act, `"proto"`, `"stream?":true,"proto"`, 1)), 400, "invalid-request"},
		"session":           {w.call("POST /v1/act", strings.Replace(act, `"proto"`, `"session/id":"s","proto"`, 1)), 404, "session/not-found"},
	} {
		assert.Equal(t, tc.status, tc.a.status, "%s: %s", name, tc.a.body)
		if tc.typ != "" {
			assert.Equal(t, tc.typ, tc.a.failure(t), name)
		}
	}
	events := w.call("GET "+concrete("/v1/runs/{id}/events"), "", "Accept", "application/json")
	assert.Equal(t, 406, events.status)
	assert.Contains(t, events.value(t).Key("error").Key("hint").String(), "text/event-stream")
	strict := newWorld(t, func(s *httpapi.Settings) { s.Identity.Required = true })
	assert.Equal(t, "auth/not-configured", strict.call("POST /v1/act", act).failure(t), "no profile but those of development lets strangers act")
	assert.Equal(t, 200, strict.call("GET /health", "").status)
	twice, err := w.raw("POST /v1/act HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	require.NoError(t, err)
	assert.Equal(t, 400, twice.status)
	assert.Equal(t, "auth/ambiguous", twice.failure(t), "%s", twice.body)
	w.phase.Store("starting")
	for _, a := range []answer{w.call("POST /v1/act", act), w.operator("POST /v1/admin", `{"action":"status"}`)} {
		assert.Equal(t, 503, a.status)
		assert.Equal(t, "runtime/starting", a.failure(t), "%s", a.body)
		assert.NotEmpty(t, a.header.Get("Retry-After"))
	}
	w.phase.Store("draining")
	assert.Equal(t, "runtime/draining", w.call("POST /v1/act", act).failure(t))
	assert.Equal(t, 200, w.call("GET /routes", "").status)
	assert.Zero(t, w.turns.Load(), "every turn was given back")
}

// AUTH-030: an address that is not loopback is not bound.
func TestInsecureListener(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		_, err := w.api.Bind(t.Context(), httpapi.Binding{Listen: []string{address}}, w.Settings())
		require.ErrorIs(t, err, contract.OfType("http/insecure-listener"), address)
	}
	_, err := w.api.Bind(t.Context(), httpapi.Binding{AdminSocket: "/tmp/" + strings.Repeat("x", 120)}, w.Settings())
	require.ErrorIs(t, err, contract.OfType("config/range"))
}
