package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TEL-002, AUTH-013: what callers and operators did is in the audit trail after kill -9:
// acts that ended and such that were rejected, logins, denied requests, actions. It names
// variables of sessions and never has their values, nor what was typed as a login. The
// verb and the route have the same rows, in pages behind a cursor.
func TestAuditTrail(t *testing.T) {
	t.Parallel()
	const canary = "canary-3b7f29c1e5"
	w := answering(t, onDisk+identified)
	s := w.serve()
	require.Equal(t, 0, w.feed("three small words\n", "user", "add", "root", "--role", "admin").code)
	w.data("user", "add", "ann", "--no-password")
	ann := "Bearer " + plain(w.data("token", "create", "ann").Key("token"))
	ask := func(as, path, body string) answer {
		return s.request(t.Context(), "POST", path, body, "Authorization", as)
	}
	done := ask(ann, "/v1/act", envelopeOf("mine/data", "{}", ""))
	require.Equal(t, http.StatusOK, done.status, "%s", done.body)
	run := done.header.Get("Ferment-Run-Id")
	require.Equal(t, http.StatusBadRequest, ask(ann, "/v1/act", `{:input "`+canary+`" :unknown 1}`).status)
	require.Equal(t, http.StatusBadRequest, ask(ann, "/v1/act", envelopeOf("mine/none", "{}", "")).status)
	require.Equal(t, http.StatusForbidden, ask(ann, "/v1/admin", "{:action :drain}").status)
	basic := func(login, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(login+":"+password))
	}
	require.Equal(t, http.StatusUnauthorized, ask(basic(canary, canary), "/v1/act", "{}").status)
	require.Equal(t, http.StatusOK, ask(basic("root", "three small words"), "/v1/admin", "{:action :budget-show}").status)
	require.Equal(t, http.StatusOK, ask(ann, "/v1/session", `{:action :session/open :session/id "s-1"}`).status)
	put := ask(ann, "/v1/session", `{:action :session/put-var :session/id "s-1" :key "session/note" :value "`+canary+`"}`)
	require.Equal(t, http.StatusOK, put.status, "%s", put.body)
	seen := s.request(t.Context(), "GET", "/v1/runs/"+run+"/records?values=true", "", "Authorization", basic("root", "three small words"))
	require.Equal(t, http.StatusOK, seen.status, "%s", seen.body)
	require.Equal(t, http.StatusOK, s.request(t.Context(), "GET", "/v1/runs/"+run, "", "Authorization", ann).status)
	require.Equal(t, 0, w.run("status").code) // its record is behind those of the session
	require.NoError(t, s.cmd.Process.Kill())
	s.wait()

	s = w.serve()
	got := w.run("admin", "audit", "--json")
	require.Equal(t, 0, got.code, got.stderr)
	assert.NotContains(t, got.stdout, canary)
	var rows []map[string]any
	for line := range strings.Lines(got.stdout) {
		row := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if len(rows) > 0 { // events of plugins are between them
			assert.Greater(t, row["seq"], rows[len(rows)-1]["seq"])
		}
		rows = append(rows, row)
	}
	find := func(key, value string) map[string]any {
		t.Helper()
		for _, row := range rows {
			if row[key] == value {
				return row
			}
		}
		require.Fail(t, "no row", "%s %s in %s", key, value, got.stdout)
		return nil
	}
	has := func(row map[string]any, want map[string]any) {
		t.Helper()
		for key, v := range want {
			assert.Equal(t, v, row[key], key)
		}
	}
	has(find("kind", "act/finished"), map[string]any{"act/run": run, "principal": "user/2", "principal/type": "simple",
		"roles": []any{"role/user"}, "intent": "mine/data", "cap/id": "mine/data", "outcome": "ok", "status": "completed", "executed?": true})
	assert.NotEmpty(t, find("kind", "act/finished")["trace"])
	has(find("kind", "act/rejected"), map[string]any{"principal": "user/2", "address": "::ffff:127.0.0.1", "principal/type": "simple",
		"roles": []any{"role/user"}, "status": "rejected"})
	has(find("intent", "mine/none"), map[string]any{"kind": "act/rejected", "principal": "user/2"})
	has(find("event", "auth/denied"), map[string]any{"user": "user/2", "operation": "admin/drain", "success?": false, "level": "warn",
		"address": "::ffff:127.0.0.1", "reason": "auth/forbidden"})
	assert.NotEmpty(t, find("event", "auth/denied")["rule"])
	has(find("event", "auth/permitted"), map[string]any{"user": "user/1", "operation": "runs/any", "success?": true, "level": "info",
		"address": "::ffff:127.0.0.1", "act/run": run, "message": "GET /v1/runs/" + run + "/records"})
	assert.NotEmpty(t, find("event", "auth/permitted")["rule"])
	assert.Equal(t, 1, strings.Count(got.stdout, "auth/permitted"), "ann has read its own run")
	assert.Regexp(t, `^b3:[0-9a-f]{64}$`, find("event", "auth/failed")["user"])
	has(find("event", "auth/login"), map[string]any{"user": "user/1", "success?": true, "level": "info"})
	has(find("action", "session/put-var"), map[string]any{"principal": "user/2", "session/id": "s-1", "keys": []any{"session/note"}, "ok?": true})
	has(find("action", "admin/create-user"), map[string]any{"principal": rows[0]["principal"], "ok?": true})
	has(find("action", "admin/drain"), map[string]any{"principal": "user/2", "ok?": false})
	for action, operation := range map[string]string{
		"session/put-var": "http.v1/session", "admin/budget-show": "admin/budget-show", "admin/drain": "admin/drain", "admin/create-user": "admin/create-user",
	} {
		access, _ := find("action", action)["access"].([]any)
		if assert.Len(t, access, 1, action) {
			assert.Equal(t, operation, access[0].(map[string]any)["what"], action)
			assert.NotEmpty(t, access[0].(map[string]any)["reason"], action)
			assert.Contains(t, access[0], "rule", action)
		}
	}
	assert.NotContains(t, got.stdout, "three small words")

	root := basic("root", "three small words")
	cursor := func(row int) string { return fmt.Sprint("host.", rows[row]["seq"]) }
	page := s.request(t.Context(), "GET", "/v1/admin/audit?limit=3&after="+cursor(1), "", "Accept", "application/x-ndjson", "Authorization", root)
	require.Equal(t, http.StatusOK, page.status, "%s", page.body)
	assert.Equal(t, "application/x-ndjson", page.header.Get("Content-Type"))
	assert.Equal(t, cursor(4), page.header.Get("Ferment-Cursor"))
	assert.Equal(t, strings.Join(strings.SplitAfter(got.stdout, "\n")[2:5], ""), string(page.body))
	assert.Equal(t, http.StatusForbidden, s.request(t.Context(), "GET", "/v1/admin/audit", "", "Accept", "*/*", "Authorization", ann).status)

	first, err := time.Parse(time.RFC3339, rows[0]["at"].(string))
	require.NoError(t, err)
	assert.Empty(t, w.run("admin", "audit", "--until", first.Format(time.RFC3339)).stdout)
	assert.Equal(t, 2, w.run("admin", "audit", "--until", "yesterday").code)
	assert.Regexp(t, `(?m)^\d+ \S+ \S+ +\S+ +admin/create-user +ok  `, w.run("admin", "audit").stdout)
	verified := w.run("runs", "verify")
	assert.Equal(t, 0, verified.code, verified.stderr)
	s.stop()
}
