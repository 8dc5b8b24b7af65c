package httpapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-010, HTTP-011: an act that asks for it is answered with a job, which has the
// id of its run and a place.
func TestAcceptedActs(t *testing.T) {
	w := newWorld(t)
	w.jobs.Store(true)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	typed := strings.Replace(jsonAct("t/any", "{}"), `"proto"`, `"response/type":"accepted","proto"`, 1)
	plain := jsonAct("t/any", "{}")
	for name, a := range map[string]answer{
		"by type":   w.call("POST /v1/act", typed),
		"by header": w.call("POST /v1/act", plain, "Prefer", "respond-async"),
		"among":     w.call("POST /v1/act", plain, "Prefer", "wait=5; x=1, Respond-Async;y"),
	} {
		require.Equal(t, 202, a.status, "%s: %s", name, a.body)
		id, _ := a.value(t).Key("job/id").AsString()
		assert.Equal(t, id, a.header.Get("Ferment-Run-Id"), name)
		assert.Equal(t, "/v1/act/jobs/"+id, a.header.Get("Location"), name)
	}
	w.exec.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "hello"}`)})
	for _, form := range shortForms {
		a := w.call("POST /v1/act", form.body, "Content-Type", form.media, "Prefer", "respond-async")
		assert.Equal(t, 202, a.status, form.body)
	}
	for _, prefer := range []string{"wait=5", "respond-async-not"} {
		assert.Equal(t, 200, w.call("POST /v1/act", plain, "Prefer", prefer).status, prefer)
	}
	value := strings.Replace(plain, `"proto"`, `"response/type":"value","proto"`, 1)
	assert.Equal(t, 200, w.call("POST /v1/act", value, "Prefer", "respond-async").status, "the request decides")
}

// RUN-013, RUN-014, as far as this package is concerned: a job is canceled with a
// reason, and the answer has the keys of res/job-cancel.
func TestCancelJob(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/act/jobs/" + sampleRun
	a := w.call("POST "+path+"/cancel", `{"reason":"too late"}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, "job/id job/status cancel/accepted? updated-at", strings.Join(keysOf(a.value(t)), " "))
	now := w.call("GET "+path, "").value(t)
	assert.Equal(t, now.Key("job/status").String(), a.value(t).Key("job/status").String(), "a state of jobs, not of runs")
	var cancel []runsCall
	w.mu.Lock()
	for _, call := range w.asked {
		if strings.HasPrefix(call.method, "cancel") {
			cancel = append(cancel, call)
		}
	}
	w.mu.Unlock()
	assert.Equal(t, []runsCall{{"anonymous", "cancel " + sampleRun, httpapi.Cancellation{By: "anonymous", Why: "too late"}}}, cancel)

	w.failing.Store(errorOf("run/not-found"))
	for _, what := range []string{"GET " + path, "POST " + path + "/cancel"} {
		a := w.call(what, "")
		assert.Equal(t, 404, a.status, what)
		assert.Equal(t, "queue/job-not-found", a.failure(t), what)
	}
}

// keysOf returns the keys of a JSON object in the order of the schema.
func keysOf(v edn.Value) (out []string) {
	for _, key := range []string{"job/id", "job/status", "cancel/accepted?", "updated-at"} {
		if v.HasKey(key) || v.Has(edn.Text(key)) {
			out = append(out, key)
		}
	}
	for range v.Len() - len(out) {
		out = append(out, "another key")
	}
	return out
}

// JRN-044, as far as this package is concerned: an operator decides about a
// suspended run, in JSON too, and the audit log has it.
func TestResumeRoute(t *testing.T) {
	w := newWorld(t)
	a := w.operator("POST "+concrete("/v1/runs/{id}/resume"), `{"decisions":[{"node":"pay","decision":"skip-as-done","value":{"n":1}},{"decision":"retry"}]}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	asked := w.lastAsked()
	assert.Equal(t, "resume "+sampleRun, asked.method)
	decisions := asked.args.([]httpapi.Decision)
	require.Len(t, decisions, 2)
	assert.Equal(t, `{:n 1}`, decisions[0].Value.String())
	decisions[0].Value = edn.Value{}
	assert.Equal(t, []httpapi.Decision{
		{Node: "pay", Choice: "skip-as-done", By: operatorName()}, {Choice: "retry", By: operatorName()},
	}, decisions)
	assert.Equal(t, "admin/runs-resume", (<-w.audited).Action)
	assert.Equal(t, 403, w.call("POST "+concrete("/v1/runs/{id}/resume"), "").status, "not an operator")
	wrong := w.operator("POST "+concrete("/v1/runs/{id}/resume"), `{"decisions":[{"decision":"again"}]}`)
	assert.Equal(t, 400, wrong.status)
	assert.Contains(t, string(wrong.body), "skip-as-done")
}
