package httpapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
)

// reachedOthers returns the audit records of requests that reached objects of others, since the
// last call.
func (w *world) reachedOthers() []httpapi.Permission {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.permitted
	w.permitted = nil
	return all
}

// AUTH-013: a request that reaches runs of others by runs/any is recorded once, with rule, reason
// and run. One about runs of the caller, about no run, or about the state of the host is not.
func TestReachToRunsOfOthersIsRecorded(t *testing.T) {
	w := newWorld(t, strict)
	ann := w.user("ann", policy.RoleOperator)
	w.user("bob")
	header, _ := w.token("ann", policy.Narrowing{})
	user, _ := w.token("bob", policy.Narrowing{})
	rule, _ := policy.ShippedOperationRules().For(policy.AnyRuns)
	run := "/v1/runs/" + sampleRun
	for _, row := range []struct {
		what, body, owner, run string
		recorded               bool
	}{
		{"GET " + run, "", "", sampleRun, true},
		{"GET " + run, "", ann.ID, "", false},
		{"GET " + run + "/records?values=true", "", "", sampleRun, true},
		{"GET " + run + "/events", "", "", sampleRun, true},
		{"GET " + run + "/events", "", ann.ID, "", false},
		{"GET " + run + "/diff/" + sampleRun, "", "", sampleRun, true},
		{"GET " + run + "/diff/" + sampleRun, "", ann.ID, "", false},
		{"GET /v1/runs/" + absentRun + "/diff/" + sampleRun, "", "", sampleRun, true},
		{"GET /v1/runs/" + absentRun, "", "", "", false},
		{"POST " + run + "/cancel", "", "", sampleRun, true},
		{"GET /v1/act/jobs/" + sampleRun, "", "", sampleRun, true},
		{"GET /v1/values/" + sampleHash + "?run=" + sampleRun, "", "", sampleRun, true},
		{"GET /v1/values/" + sampleHash + "?run=" + sampleRun, "", ann.ID, "", false},
		{"GET /v1/values/" + sampleHash, "", ann.ID, "", true},
		{"GET /v1/runs", "", ann.ID, "", true},
		{"GET /v1/runs?principal=user/9", "", "", "", true},
		{"GET /v1/runs?principal=" + ann.ID, "", "", "", false},
		{"GET /v1/runs/stats", "", "", "", true},
		{"GET /v1/interrupts", "", "", "", true},
		{"POST /v1/admin", `{"action":"runs-show","run":"last"}`, "", sampleRun, true},
		{"POST /v1/admin", `{"action":"runs-export","run":"last"}`, "", sampleRun, true},
		{"POST /v1/admin", `{"action":"runs-show","run":"last"}`, ann.ID, "", false},
		{"POST /v1/admin", `{"action":"runs-list"}`, "", "", true},
		{"POST /v1/admin", `{"action":"status"}`, "", "", false},
		{"GET /metrics", "", "", "", false},
		{"GET /diag/telemetry", "", "", "", false},
		{"GET /ready", "", "", "", false},
	} {
		w.owner = row.owner
		w.call(row.what, row.body, "Authorization", header, "Accept", "*/*")
		got := w.reachedOthers()
		if !row.recorded {
			assert.Empty(t, got, "%s %s of %s", row.what, row.body, row.owner)
			continue
		}
		require.Len(t, got, 1, "%s %s of %s", row.what, row.body, row.owner)
		path, _, _ := strings.Cut(row.what, "?")
		assert.Equal(t, httpapi.Permission{
			Principal: ann.ID,
			Address:   "127.0.0.1",
			Decision:  policy.Decision{What: policy.AnyRuns, OK: true, Rule: rule, Reason: "any"},
			Request:   path,
			Run:       row.run,
		}, got[0], "%s %s", row.what, row.body)
	}
	for len(w.audited) > 0 {
		<-w.audited
	}
	w.owner = ""
	w.call("GET "+run, "", "Authorization", user)
	w.call("GET /v1/runs", "", "Authorization", user)
	assert.Empty(t, w.reachedOthers(), "a user has no other runs")
	w.operator("GET "+run, "")
	if got := w.reachedOthers(); assert.Len(t, got, 1, "the operator on the admin socket") {
		assert.Equal(t, []string{operatorName(), "admin-socket", sampleRun}, []string{got[0].Principal, got[0].Decision.Reason, got[0].Run})
	}
}

// AUTH-012: an operator gets the run of another caller only with a record; its own runs are those
// of a caller without runs/any.
func TestReachIsThatOfTheRecord(t *testing.T) {
	w := newWorld(t, strict)
	ann := w.user("ann", policy.RoleOperator)
	header, _ := w.token("ann", policy.Narrowing{})
	for owner, reach := range map[string]string{ann.ID: ann.ID, "user/99": ""} {
		w.owner = owner
		require.Equal(t, 200, w.call("GET /v1/runs/"+sampleRun, "", "Authorization", header).status)
		assert.Equal(t, reach, w.lastAsked().owner)
	}
}

// AUTH-013: so is a request that reaches sessions of others by session/any.
func TestReachToSessionsOfOthersIsRecorded(t *testing.T) {
	w := newWorld(t, strict)
	ann := w.user("ann", policy.RoleOperator)
	w.user("bob")
	header, _ := w.token("ann", policy.Narrowing{})
	user, _ := w.token("bob", policy.Narrowing{})
	theirs, _ := w.open(user, `{"action":"open"}`)
	own, _ := w.open(header, `{"action":"open"}`)
	assert.Empty(t, w.reachedOthers())
	rule, _ := policy.ShippedOperationRules().For(policy.AnySession)
	for _, row := range []struct {
		body, session string
		status        int
		recorded      bool
	}{
		{`{"action":"get","session/id":"` + theirs + `"}`, theirs, 200, true},
		{`{"action":"get","session/id":"` + theirs + `","turns?":true}`, theirs, 200, true},
		{`{"action":"put-var","session/id":"` + theirs + `","key":"session/x","value":1}`, theirs, 200, true},
		{`{"action":"open","session/id":"` + theirs + `"}`, theirs, 200, true},
		{`{"action":"get","session/id":"` + own + `"}`, "", 200, false},
		{`{"action":"get","session/id":"s-none"}`, "", 404, false},
		{`{"action":"open","session/id":"s-new"}`, "", 200, false},
		{`{"action":"open"}`, "", 200, false},
		{`{"action":"list"}`, "", 200, true},
		{`{"action":"expire"}`, "", 200, true},
		{`{"action":"delete","session/id":"` + theirs + `"}`, theirs, 200, true},
	} {
		a := w.call("POST /v1/session", row.body, "Authorization", header)
		assert.Equal(t, row.status, a.status, "%s: %s", row.body, a.body)
		<-w.audited
		got := w.reachedOthers()
		if !row.recorded {
			assert.Empty(t, got, row.body)
			continue
		}
		require.Len(t, got, 1, row.body)
		assert.Equal(t, httpapi.Permission{
			Principal: ann.ID,
			Address:   "127.0.0.1",
			Decision:  policy.Decision{What: policy.AnySession, OK: true, Rule: rule, Reason: "any"},
			Request:   "POST /v1/session",
			Session:   row.session,
		}, got[0], row.body)
	}
	assert.Equal(t, 200, w.call("POST /v1/session", `{"action":"list"}`, "Authorization", user).status)
	assert.Equal(t, 404, w.call("POST /v1/session", `{"action":"get","session/id":"`+own+`"}`, "Authorization", user).status)
	assert.Empty(t, w.reachedOthers(), "a user has no other sessions")
}

// AUTH-013: the record of an action has the decisions about its operations, of the routes that stand
// for an action too.
func TestActionsAreRecordedWithTheirDecisions(t *testing.T) {
	w := newWorld(t, strict)
	w.user("root", policy.RoleAdmin)
	w.user("ann", policy.RoleOperator)
	w.user("bob")
	admin, _ := w.token("root", policy.Narrowing{})
	operator, _ := w.token("ann", policy.Narrowing{})
	user, _ := w.token("bob", policy.Narrowing{})
	own, _ := w.open(user, `{"action":"open"}`)
	<-w.audited
	rules := policy.ShippedOperationRules()
	for _, row := range []struct {
		what, body, header string
		decisions          string // operations and reasons
	}{
		{"POST /v1/admin", `{"action":"plugin-list"}`, admin, "admin/plugin-list all"},
		{"POST /v1/admin", `{"action":"plugin-list"}`, user, "admin/plugin-list all"},
		{"POST /v1/admin", `{"action":"status"}`, operator, "diag/read any"},
		{"POST /v1/admin", `{"action":"runs-show","run":"last"}`, operator, "runs/read any, runs/any any"},
		{"POST /v1/admin", `{"action":"runs-show","run":"last"}`, user, "runs/read any"},
		{"POST /v1/session", `{"action":"get","session/id":"` + own + `"}`, user, "http.v1/session any"},
		{"POST /v1/session", `{"action":"get","session/id":"` + own + `"}`, operator, "http.v1/session any, session/any any"},
		{"POST /v1/session", `{"action":"expire"}`, user, "http.v1/session any, session/any any"},
		{"POST /v1/runs/" + sampleRun + "/resume", "", operator, "runs/resume any, runs/any any"},
		{"GET /v1/admin/audit", "", admin, "admin/audit all"},
	} {
		w.call(row.what, row.body, "Authorization", row.header, "Accept", "*/*")
		entry := <-w.audited
		var got []string
		for _, d := range entry.Access {
			what, _ := d.Key("what").AsKeyword()
			reason, _ := d.Key("reason").AsKeyword()
			rule, _ := rules.For(what)
			assert.Equal(t, rule.Value().String(), d.Key("rule").String(), "%s %s", row.what, row.body)
			got = append(got, what+" "+reason)
		}
		assert.Equal(t, row.decisions, strings.Join(got, ", "), "%s %s", row.what, row.body)
	}
	w.operator("POST /v1/admin", `{"action":"plugin-list"}`)
	if entry := <-w.audited; assert.Len(t, entry.Access, 1) {
		assert.Equal(t, ":admin-socket", entry.Access[0].Key("reason").String())
	}
}
