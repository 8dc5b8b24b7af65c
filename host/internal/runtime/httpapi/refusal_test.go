package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-002: the steps before the acceptance of an act have a fixed order. The
// first request has a fault for each step; each row expects the error of the
// first remaining fault and removes it. Every rejection is audited and creates
// no run; the audit trail keeps those from the authentication on that are within the rate. TestOrderOfPrepare of package act covers the later steps (contract,
// plan and its effects, budget).
func TestOrderOfRefusals(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) {
		s.Limits.ActRate, s.Limits.ActBurst = config.Rate{Events: 1, Per: time.Hour}, 1
	})
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	require.Equal(t, 200, w.call("POST /v1/act", jsonAct("t/any", "{}")).status, "takes the only token")
	require.Empty(t, w.rejected(), "an accepted act is in the journal")

	headers := map[string]string{
		"X-Long":          strings.Repeat("x", 9<<10),
		"Host":            "evil.example",
		"Sec-Fetch-Site":  "cross-site",
		"Accept":          "image/png",
		"Authorization":   "Bearer x",
		"Content-Type":    "image/png",
		"Idempotency-Key": "k",
	}
	without := func(name string) func() { return func() { delete(headers, name) } }
	body := `{"proto":`
	w.phase.Store("starting")
	kept := false
	for _, row := range []struct {
		step, typ string
		mend      func()
	}{
		{"transport: size of the headers", "http/headers-too-large", without("X-Long")},
		{"transport: host", "http/misdirected", without("Host")},
		{"transport: origin", "http/cross-origin", without("Sec-Fetch-Site")},
		{"transport: form of the answer", "http/not-acceptable", without("Accept")},
		{"phase", "runtime/starting", func() { w.phase.Store("draining") }},
		{"authenticate", "auth/unauthorized", without("Authorization")},
		{"rate limit", "auth/rate-limited", func() {
			w.tune(func(s *httpapi.Settings) { s.Limits.ActRate = config.Rate{} })
		}},
		{"decode: type of the body", "http/unsupported-media-type", without("Content-Type")},
		{"decode: text of the body", "invalid-request", func() {
			body = `{"proto":1,"trace":{"id":"t-1"},"task":{"intent":"t/none"},"input":{},"response/type":"accepted"}`
		}},
		{"idempotency lookup", "db/not-configured", without("Idempotency-Key")},
		{"drain", "runtime/draining", func() { w.phase.Store("ready") }},
		{"form of the answer", "queue/disabled", func() { body = jsonAct("t/none", "{}") }},
		{"contract", "invalid-request", func() { body = jsonAct("t/writes", "{}") }},
		{"effects: the request allows none", "unsupported/intent", func() {
			body = `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/writes"},"input":{},"effects":{"allowed":["fs/write"]}}`
		}},
		{"effects: the caller may have none", "auth/forbidden-effect", func() { body = jsonAct("t/any", "{}") }},
	} {
		var list []string
		for name, v := range headers {
			list = append(list, name, v)
		}
		a := w.call("POST /v1/act", body, list...)
		require.Equal(t, row.typ, a.failure(t), row.step)
		assert.Empty(t, a.header.Get("Ferment-Run-Id"), row.step)
		audited := w.rejected()
		if assert.Len(t, audited, 1, row.step) {
			assert.Equal(t, row.typ, audited[0].Err.Type, row.step)
			kept = kept || row.step == "authenticate"
			assert.Equal(t, kept && row.step != "rate limit", audited[0].Kept, row.step)
			assert.NotEmpty(t, audited[0].Address, row.step)
			assert.Equal(t, headers["Authorization"] == "", audited[0].Principal == "anonymous", row.step)
		}
		row.mend()
	}
	assert.Equal(t, 200, w.call("POST /v1/act", body).status, "no fault is left")
	assert.Len(t, w.exec.Calls(), 2, "a refusal runs nothing")
}

// RUN-002: the audit record of a rejection has the trace id of the request. A
// run that fails, a stream that started, and requests other than acts leave
// none.
func TestAuditOfRefusals(t *testing.T) {
	w := newWorld(t)
	w.fails(errorOf("input/invalid"))
	w.call("POST /v1/act", jsonAct("t/any", "{}"))
	w.call("POST /v1/act", jsonAct("t/any", "{}"), "Accept", "text/event-stream")
	w.call("GET /nowhere", "")
	w.call("PUT /v1/act", "{}")
	assert.Empty(t, w.rejected())
	for _, accept := range []string{"application/json", "text/event-stream"} {
		body := `{"proto":1,"trace":{"id":"mine"},"task":{"intent":"t/nope"},"input":{}}`
		w.operator("POST /v1/act", body, "Accept", accept)
		audited := w.rejected()
		require.Len(t, audited, 1, accept)
		assert.Equal(t, `invalid-request "mine"`, fmt.Sprint(audited[0].Err.Type, " ", audited[0].Trace), accept)
		assert.Regexp(t, "^uid/[0-9]+$", audited[0].Principal, accept)
		assert.Equal(t, []string{"local", policy.RoleAdmin}, append([]string{audited[0].PrincipalType}, audited[0].Roles...), accept)
	}
}

// TEL-002: the audit record of a rejection has the intent of a request in whatever form, if the body
// was read and names one that is a keyword.
func TestAuditOfRefusalsHasTheIntent(t *testing.T) {
	w := newWorld(t)
	w.phase.Store("draining")
	const json, ednType = "application/json", "application/edn"
	for _, row := range []struct{ body, media, intent string }{
		{`{"proto":1,"task":{"intent":"t/none"},"input":{}}`, json, "t/none"},
		{`{"proto":1,"task":{"intent":":t/none"},"input":{}}`, json, "t/none"},
		{`{:proto 1 :task {:intent :t/none} :input {}}`, ednType, "t/none"},
		{`{"prompt":"hello"}`, json, "text/respond"},
		{`{"messages":[],"intent":"coding"}`, json, "code/patch"},
		{`{"proto":1,"task":{"intent":"a text that is no keyword"},"input":{}}`, json, ""},
		{`{"proto":1,"task":{"intent":"t/` + strings.Repeat("x", 200) + `"},"input":{}}`, json, ""},
		{`{"proto":1,"task":{"intent":7},"input":{}}`, json, ""},
		{`{"proto":1,"task":{"intent":"t/none"}`, json, ""},
		{`[]`, json, ""},
	} {
		w.call("POST /v1/act", row.body, "Content-Type", row.media)
		audited := w.rejected()
		require.Len(t, audited, 1, row.body)
		assert.Equal(t, row.intent, audited[0].Intent, row.body)
		assert.Equal(t, "anonymous", audited[0].PrincipalType, row.body)
	}
}

// CLI-004: a caller that opts in learns the id of its run before the response;
// others get no interim response; a rejected act has no id.
func TestAnnouncedRun(t *testing.T) {
	w := newWorld(t)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	w.exec.Func("t/any", func(context.Context, dispatch.Call) dispatchtest.Step {
		begun <- struct{}{}
		<-release
		return dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)}
	})
	early := make(chan string, 2)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early <- h.Get("Ferment-Run-Id")
			return nil
		},
	})
	ask := func(intent, announce string) *http.Response {
		body := strings.NewReader(jsonAct(intent, "{}"))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+"/v1/act", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(httpapi.AnnounceHeader, announce)
		resp, err := w.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	answered := make(chan *http.Response, 1)
	go func() { answered <- ask("t/any", "run") }()
	<-begun
	run := <-early // while the call hangs
	close(release)
	assert.Equal(t, run, (<-answered).Header.Get("Ferment-Run-Id"))
	assert.Equal(t, 400, ask("t/none", "run").StatusCode)
	assert.Equal(t, 200, ask("t/any", "").StatusCode)
	assert.Empty(t, early)
}

// AUTH-013: an act that a rule denies is recorded with the rule and the reason, once: one
// of an operation, of an intent, of an effect, and of an effect in a plan. An act that is
// wrong in another way is not a denial.
func TestDeniedActs(t *testing.T) {
	w := newWorld(t, strict)
	w.user("ann", policy.RoleOperator)
	all, _ := w.token("ann", policy.Narrowing{})
	intents, _ := w.token("ann", policy.Narrowing{Intents: []string{"other/*"}})
	operations, _ := w.token("ann", policy.Narrowing{Operations: []string{"diag/read"}})
	allowed := `,"effects":{"allowed":["fs/write"]}}`
	writes := `{"proto":1,"trace":{"id":"t"},"task":{"intent":"t/writes"},"input":{}` + allowed
	planned := `{"proto":1,"trace":{"id":"t"},"task":{"intent":"plan/run"},"input":{"plan":{"nodes":[` +
		`{"op":"call","intent":"t/writes","input":{},"as":"x"` + allowed + `,{"op":"emit","input":"x"}]}}` + allowed
	for _, row := range []struct {
		name, token, body, what, reason string
	}{
		{"operation", operations, jsonAct("t/any", "{}"), ":http.v1/act", ":token-operations"},
		{"intent", intents, jsonAct("t/any", "{}"), ":t/any", ":token-intents"},
		{"effect", all, writes, ":fs/write", ":no-rule"},
		{"effect in a plan", all, planned, ":fs/write", ":no-rule"},
		{"another mistake", all, jsonAct("t/none", "{}"), "", ""},
	} {
		w.denied()
		a := w.call("POST /v1/act", row.body, "Authorization", row.token)
		require.Contains(t, []int{400, 403, 404, 422}, a.status, "%s: %s", row.name, a.body)
		denied := w.denied()
		if row.what == "" {
			assert.Empty(t, denied, row.name)
			continue
		}
		if assert.Len(t, denied, 1, "%s: %s", row.name, a.body) {
			d := denied[0]
			assert.Equal(t, []string{"auth/denied", "http.v1/act"}, []string{d.Event, d.Operation}, row.name)
			assert.Equal(t, []string{row.what, row.reason},
				[]string{d.Decision.Key("what").String(), d.Decision.Key("reason").String()}, row.name)
			assert.True(t, d.Decision.HasKey("rule"), row.name)
			assert.NotEmpty(t, d.Principal, row.name)
		}
	}
}
