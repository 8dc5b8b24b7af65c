package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// HTTP-011: the trace context of a caller that has identified itself is that of its act;
// a malformed one, and that of an anonymous caller are ignored and counted.
func TestTraceContextOfACaller(t *testing.T) {
	const context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newWorld(t)
	w.user("ann")
	token, _ := w.token("ann", policy.Narrowing{})
	known := []string{"Authorization", token}
	ask := func(header ...string) (joined string, traced []string) {
		t.Helper()
		got := w.call("POST /v1/act", jsonAct("t/any", "{}"), header...)
		require.Equal(t, 200, got.status, "%s", got.body)
		w.mu.Lock()
		defer w.mu.Unlock()
		joined, traced, w.traced = w.joined, w.traced, nil
		return joined, traced
	}
	for _, row := range []struct {
		header []string
		want   string
		traced []string
	}{
		{known, "", nil},
		{append([]string{"Traceparent", context}, known...), context, []string{"joined"}},
		{append([]string{"Traceparent", "x" + context}, known...), "", []string{"malformed"}},
		{[]string{"Traceparent", context}, "", []string{"anonymous"}},
	} {
		joined, traced := ask(row.header...)
		assert.Equal(t, row.want, joined)
		assert.Equal(t, row.traced, traced)
	}
	got := w.operator("POST /v1/act", jsonAct("t/any", "{}"), "Traceparent", context)
	assert.Equal(t, 200, got.status)
	assert.Equal(t, context, w.joined)

	// Replays and resumed runs get it, by route and by action, and the audit trail has it of
	// every action, also of those on sessions. It is counted once per request.
	asks := map[string][2]string{
		"replay":            {"POST /v1/runs/" + sampleRun + "/replay", ""},
		"resume":            {"POST /v1/runs/" + sampleRun + "/resume", "{}"},
		"action on a run":   {"POST /v1/admin", `{"action":"runs-resume","run":"` + sampleRun + `"}`},
		"replay by action":  {"POST /v1/admin", `{"action":"runs-replay","run":"` + sampleRun + `"}`},
		"action on session": {"POST /v1/session", `{"action":"list"}`},
	}
	for name, ask := range asks {
		w.mu.Lock()
		w.joined, w.traced = "", nil
		w.mu.Unlock()
		for len(w.audited) > 0 {
			<-w.audited
		}
		got := w.operator(ask[0], ask[1], "Traceparent", context)
		require.Equal(t, 200, got.status, "%s: %s", name, got.body)
		w.mu.Lock()
		if name != "action on session" {
			assert.Equal(t, context, w.joined, name)
		}
		assert.Equal(t, []string{"joined"}, w.traced, name)
		w.mu.Unlock()
		assert.Equal(t, context, (<-w.audited).TraceParent, name)
	}
}
