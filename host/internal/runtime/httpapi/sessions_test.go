package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

const ednBody = "application/edn"

// sessionDo executes a session action in EDN and returns the result.
func (w *world) sessionDo(body string) edn.Value {
	w.t.Helper()
	a := w.call("POST /v1/session", body, "Content-Type", ednBody, "Accept", ednBody)
	require.Equal(w.t, 200, a.status, "%s", a.body)
	return a.value(w.t).Key("result")
}

// SES-003: every action does what it says, with one namespace or none.
func TestSessionActions(t *testing.T) {
	w := newWorld(t)
	made := w.sessionDo(`{:action :open :summary "first" :meta {:a #{1}}}`)
	id, _ := made.Key("session/id").AsString()
	at := func(text string) string { return strings.ReplaceAll(text, "ID", `:session/id "`+id+`"`) }
	for _, row := range []struct{ body, key, want string }{
		{`{:action :session/get ID}`, "session/meta", `{:a #{1}}`},
		{`{:action :put-var ID :key :session/x :value #{:a 2.50M}}`, "session/version", "2"},
		{`{:action :get-var ID :key :session/x}`, "value", `#{:a 2.50M}`},
		{`{:action :get-var ID :key "session/x"}`, "found?", "true"},
		{`{:action :get-var ID :key :session/none}`, "found?", "false"},
		{`{:action :put-vars ID :vars {:session/x 3} :ttl-ms 60000 :session/version 2}`, "session/version", "3"},
		{`{:action :get-vars ID}`, "vars", `{:session/x 3}`},
		{`{:action :get-vars ID :keys [:session/x :session/y]}`, "session/version", "3"},
		{`{:action :del-var ID :key :session/none}`, "deleted", "[]"},
		{`{:action :del-vars ID :keys [:session/x]}`, "deleted", "[:session/x]"},
		{`{:action :put-var ID :key :session/x :value nil}`, "session/version", "5"},
		{`{:action :session/del-all-vars ID}`, "deleted", "[:session/x]"},
		{`{:action :freeze ID :summary "second"}`, "session/state", ":warm"},
		{`{:action :thaw ID}`, "session/frozen?", "false"},
		{`{:action :worker/thaw ID}`, "plugins", "0"},
		{`{:action :worker/freeze ID}`, "plugins", "0"},
		{`{:action :open ID}`, "session/summary", `"second"`},
		{`{:action :get ID :turns? true}`, "session/turns", "[]"},
	} {
		assert.Equal(t, edn.MustRead(row.want).String(), w.sessionDo(at(row.body)).Key(row.key).String(), row.body)
	}
	listed := w.sessionDo(`{:action :list :limit 1}`).Key("sessions")
	require.Equal(t, 1, listed.Len())
	first, _ := listed.Nth(0)
	for _, note := range []string{"summary", "meta"} {
		assert.False(t, first.HasKey("session/"+note), "a list has no notes")
	}
	deleted := w.sessionDo(at(`{:action :delete ID}`))
	assert.True(t, made.Key("session/id").Equal(deleted.Key("session/id")))
	assert.Zero(t, w.sessionDo(`{:action :list}`).Key("sessions").Len())
}

// SES-003: an unknown action and a missing key are errors with the nearest name.
func TestSessionActionsAreChecked(t *testing.T) {
	w := newWorld(t)
	for body, nearest := range map[string]string{
		`{:action :put-vra :session/id "s"}`:                     "put-var",
		`{:action :get-var :session/id "s"}`:                     "",
		`{:action :get-var :session/id "s" :key :a :surprise 1}`: "",
		`{}`: "",
	} {
		a := w.call("POST /v1/session", body, "Content-Type", ednBody)
		assert.Equal(t, 400, a.status, body)
		assert.Equal(t, "invalid-request", a.failure(t), body)
		assert.Contains(t, string(a.body), nearest)
	}
}

// bodyOf is the smallest body for an action.
func bodyOf(a httpapi.Action) map[string]any {
	body := map[string]any{"action": a.Name}
	for part, v := range map[string]any{
		"[:session/id [": "s",
		"[:key {":        "session/x",
		"[:keys [":       []any{"session/x"},
		"[:vars {":       map[string]any{"session/x": 1},
		"[:value ":       1,
	} {
		if strings.Contains(a.Input, part) {
			key, _, _ := strings.Cut(strings.Trim(part, "[: {"), " ")
			body[key] = v
		}
	}
	return body
}

// SES-021, AUTH-012: the session of another principal is there for no action; an
// operator may use it, and only an operator may expire variables.
func TestSessionOwners(t *testing.T) {
	w := newWorld(t)
	w.operator("POST /v1/session", `{"action":"open","session/id":"theirs"}`)
	before := w.operator("POST /v1/session", `{"action":"get","session/id":"theirs"}`).value(t).Key("result").Key("session/version").String()
	of := 0
	for _, action := range httpapi.SessionActions() {
		body := bodyOf(action)
		if body["session/id"] == nil {
			continue // not of one session
		}
		of++
		body["session/id"] = "theirs"
		text, err := json.Marshal(body)
		require.NoError(t, err)
		a := w.call("POST /v1/session", string(text))
		assert.Equal(t, 404, a.status, action.Name)
		assert.Equal(t, "session/not-found", a.failure(t), action.Name)
	}
	assert.Greater(t, of, 10)
	after := w.operator("POST /v1/session", `{"action":"get","session/id":"theirs"}`).value(t).Key("result").Key("session/version").String()
	assert.Equal(t, before, after, "and it is as it was")
	w.call("POST /v1/session", `{"action":"open","session/id":"mine"}`)
	assert.Equal(t, 200, w.operator("POST /v1/session", `{"action":"freeze","session/id":"mine"}`).status)
	a := w.call("POST /v1/session", `{"action":"expire"}`)
	assert.Equal(t, "auth/forbidden", a.failure(t))
	assert.Equal(t, 200, w.operator("POST /v1/session", `{"action":"expire"}`).status)
}

// SES-010: the error of several variables lists each of them, in JSON too.
func TestSessionErrorsListKeys(t *testing.T) {
	w := newWorld(t)
	w.sessionDo(`{:action :open :session/id "s"}`)
	a := w.call("POST /v1/session", `{"action":"put-vars","session/id":"s","vars":{"session/x":1,"bare":2,"a b":3}}`)
	assert.Equal(t, 400, a.status)
	assert.Equal(t, "session.vars/invalid-key", a.failure(t))
	assert.Equal(t, 2, a.value(t).Key("details").Key("keys").Len())
	a = w.call("POST /v1/session", `{"action":"put-var","session/id":"s","key":"session/x","value":1,"session/version":9}`)
	assert.Equal(t, "session/version-conflict", a.failure(t))
	assert.Equal(t, edn.Int(1).String(), a.value(t).Key("details").Key("session/version").String())
}

// The audit log has the names of variables, and nothing that a caller stored.
func TestSessionAuditHasNoValues(t *testing.T) {
	const secret = "hunter2"
	w := newWorld(t)
	for _, body := range []string{
		`{:action :open :session/id "s" :summary "SECRET" :meta {:a "SECRET"} :snapshot ["SECRET"] :facts #{"SECRET"}}`,
		`{:action :put-var :session/id "s" :key :session/x :value "SECRET"}`,
		`{:action :put-vars :session/id "s" :vars {:session/x {:a "SECRET"}}}`,
		`{:action :put-vars :session/id "s" :vars {:other/y "SECRET"}}`,
	} {
		w.call("POST /v1/session", strings.ReplaceAll(body, "SECRET", secret), "Content-Type", ednBody)
		entry := <-w.audited
		assert.Regexp(t, "^session/", entry.Action)
		assert.Equal(t, "anonymous", entry.Principal)
		assert.NotContains(t, entry.Input.String(), secret)
		assert.Contains(t, entry.Input.String(), `"s"`)
		if entry.Err != nil {
			assert.NotContains(t, entry.Err.Value().String(), secret)
		}
		if strings.Contains(body, "put") {
			assert.Regexp(t, `:(session/x|other/y)`, entry.Input.String())
		}
	}
}

// SES-014, SES-016: an act names its session, whose turns it continues; one of
// another principal is not found.
func TestActInASession(t *testing.T) {
	w := newWorld(t)
	w.sessionDo(`{:action :open :session/id "s"}`)
	w.sessionDo(`{:action :put-var :session/id "s" :key :session/language :value 3}`)
	inSession := func(id string) string {
		return strings.Replace(jsonAct("text/respond", `{"prompt":"hi"}`), `"proto"`, `"session/id":"`+id+`","proto"`, 1)
	}
	w.exec.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`)})
	a := w.call("POST /v1/act", inSession("s"))
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, 1, a.value(t).Key("session/warnings").Len())
	assert.Equal(t, 2, w.sessionDo(`{:action :get :session/id "s" :turns? true}`).Key("session/turns").Len())
	w.operator("POST /v1/session", `{"action":"open","session/id":"theirs"}`)
	assert.Equal(t, "session/not-found", w.call("POST /v1/act", inSession("theirs")).failure(t))
}

// HTTP-001: every session action has a schema in the document, which is closed.
func TestEverySessionActionIsDocumented(t *testing.T) {
	w := newWorld(t)
	doc := w.document()
	for _, a := range httpapi.SessionActions() {
		name := "session." + a.Name
		if space, action, ok := strings.Cut(a.Name, "/"); ok {
			name = space + "." + action
		}
		body := bodyOf(a)
		require.NoError(t, doc.Schema(name, body), a.Name)
		text, err := json.Marshal(body)
		require.NoError(t, err)
		w.operator("POST /v1/session", `{"action":"open","session/id":"s"}`)
		assert.Equal(t, 200, w.operator("POST /v1/session", string(text)).status, a.Name)
		body["surprise"] = true
		require.Error(t, doc.Schema(name, body), "%s is closed", a.Name)
	}
}

// SES-010, HTTP-021: spellings of one name are one variable, which has one value.
func TestSpellingsOfOneVariable(t *testing.T) {
	w := newWorld(t)
	w.sessionDo(`{:action :open :session/id "s"}`)
	for _, vars := range []string{`{"a" 2 :a 1}`, `{:a 1 ":a" 3}`, `{"a" 2 ":a" 3}`} {
		a := w.call("POST /v1/session", `{:action :put-vars :session/id "s" :vars `+vars+`}`, "Content-Type", ednBody)
		assert.Equal(t, 400, a.status, vars)
		assert.Equal(t, "invalid-request", a.failure(t), vars)
	}
	assert.Zero(t, w.sessionDo(`{:action :get-vars :session/id "s"}`).Key("vars").Len())
}

// SES-001: notes have a limit, which the error names.
func TestLargeNotes(t *testing.T) {
	w := newWorld(t)
	note := func(key string) answer {
		return w.call("POST /v1/session", `{"action":"open","session/id":"s","`+key+`":"`+strings.Repeat("x", 50<<10)+`"}`)
	}
	require.Equal(t, 200, note("summary").status)
	require.Equal(t, 200, note("snapshot").status)
	a := note("facts")
	assert.Equal(t, 422, a.status)
	assert.Equal(t, "session/notes-too-large", a.failure(t))
	assert.Equal(t, edn.Int(128<<10).String(), a.value(t).Key("details").Key("limit").String())
}
