package cli_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// metricSums adds up the series of metrics by name, or by one of their labels.
func metricSums(t *testing.T, text, name, label string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		rest, ok := strings.CutPrefix(series, name+"{")
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, line)
		of := ""
		for pair := range strings.SplitSeq(rest, ",") {
			if key, quoted, _ := strings.Cut(pair, "="); key == label {
				of = strings.Trim(quoted, `"`)
			}
		}
		out[of] += int64(n)
	}
	return out
}

// callerContext is the trace context of a caller that samples.
const callerContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// ints returns a map of counts.
func ints(v edn.Value) map[string]int64 {
	out := map[string]int64{}
	for key, n := range v.Entries() {
		out[word(key)], _ = n.AsInt()
	}
	return out
}

// TEL-003, TEL-004: GET /diag/telemetry, GET /metrics and "runs stats" of a daemon say
// the same of its runs since the start: of those that it has resumed after a crash only
// what they have done since, and of the acts that it has rejected what no record of a
// run says. What is asked for needs its own right.
//
// TEL-005, TEL-007: a collector has received the traces of the same runs when the daemon
// has stopped; that of the run which was resumed links to the one before the crash.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	traces := collectTraces(t)
	w := answering(t, onDisk+oneWorker+traces.block())
	s := w.serve()
	hung := s.submitted("mine/hang", "")
	s.becomes(hung, "running")
	require.Equal(t, 200, s.ask("mine/data", "{}").status)
	require.Eventually(t, func() bool { // what is shown is on disk
		return strings.Contains(w.run("runs", "records", hung).stdout, "attempt/started")
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, s.cmd.Process.Kill())
	s.wait()

	s = w.serve()
	s.becomes(hung, "running")
	for range 2 {
		require.Equal(t, 200, s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/data", "{}", ""), "Traceparent", "of a caller").status)
	}
	joined := s.operator("POST", "/v1/act", envelopeOf("mine/data", "{}", ""), "Traceparent", callerContext)
	require.Equal(t, 200, joined.status, "%s", joined.body)
	require.Equal(t, 7, w.run("act", "mine/hang", "{}", "--deadline", "100ms").code)
	require.Equal(t, 403, s.request(context.Background(), "GET", "/metrics", "", "Accept", "text/plain").status)
	rejected := s.ask("mine/nothing", "{}").failure(t)
	require.Zero(t, w.run("runs", "cancel", hung).code)
	s.becomes(hung, "canceled")

	body := s.operator("GET", "/diag/telemetry", "").value(t)
	require.True(t, body.Key("ok?").Truthy())
	diag := body.Key("telemetry")
	text := s.operator("GET", "/metrics", "", "Accept", "text/plain")
	require.Equal(t, 200, text.status, "%s", text.body)
	assert.Equal(t, "text/plain; version=0.0.4; charset=utf-8", text.header.Get("Content-Type"))
	for _, window := range []string{"since-boot", "minutes-5", "hour-1"} {
		bounds := diag.Key("windows").Key(window)
		since, _ := bounds.Key("since").AsInst()
		stats := s.operator("GET", "/v1/runs/stats?since="+since.Format("2006-01-02T15:04:05.000Z07:00"), "").value(t)
		ended := func(v edn.Value) map[string]int64 {
			out := ints(v)
			delete(out, "running") // the present state is no count
			delete(out, "open")
			delete(out, "rejected")
			return out
		}
		want := map[string]int64{"completed": 3, "canceled": 1, "expired": 1}
		act, flow := diag.Key("act").Key(window), diag.Key("workflow").Key(window)
		assert.Equal(t, want, ended(act.Key("runs").Key("by-status")), window)
		assert.Equal(t, want, ended(stats.Key("runs").Key("by-status")), window)
		assert.Equal(t, ended(stats.Key("operations")), ended(flow.Key("operations")), window)
		assert.Equal(t, ended(stats.Key("attempts").Key("by-outcome")), ended(flow.Key("attempts").Key("by-outcome")), window)
		assert.Equal(t, stats.Key("gates").String(), flow.Key("gates").String(), window)
		kpi := func(v edn.Value) string { return v.Dissoc(edn.K("failure-taxonomy")).String() }
		assert.Equal(t, kpi(stats.Key("kpi")), kpi(diag.Key("kpi").Key(window)), window)
		types := ints(diag.Key("kpi").Key(window).Key("failure-taxonomy").Key("by-type"))
		assert.EqualValues(t, 1, types[rejected], "the rejected act")
		delete(types, rejected)
		assert.Equal(t, ints(stats.Key("kpi").Key("failure-taxonomy").Key("by-type")), types, window)
	}
	flow := diag.Key("workflow").Key("since-boot")
	assert.Equal(t, map[string]int64{"completed": 3, "canceled": 1, "expired": 1, "rejected": 1}, metricSums(t, string(text.body), "ferment_acts_total", "status"))
	assert.Equal(t, ints(flow.Key("attempts").Key("by-outcome")), metricSums(t, string(text.body), "ferment_attempts_total", "outcome"))
	assert.Equal(t, ints(flow.Key("operations")), metricSums(t, string(text.body), "ferment_operations_total", "outcome"))
	assert.Equal(t, map[string]int64{"running": 0, "queued": 0, "waiting": 0, "suspended": 0}, metricSums(t, string(text.body), "ferment_runs", "status"))
	assert.Equal(t, int64(1), metricSums(t, string(text.body), "ferment_plugin_state", "state")["ready"]/3, "three capabilities of one process")
	assert.Regexp(t, `^[1-9]`, diag.Key("journal").Key("commits").String())
	assert.Equal(t, map[string]int64{"auth/forbidden": 1}, metricSums(t, string(text.body), "ferment_auth_failures_total", "reason"))
	assert.Equal(t, 200, s.operator("POST", "/diag/telemetry", "").status)
	out := w.run("runs", "stats")
	assert.Contains(t, out.stdout, "1 parse")
	fits(t, out.stdout)
	assert.Equal(t, map[string]int64{"spans": 0, "events": 0, "metrics": 0}, metricSums(t, string(text.body), "ferment_otel_dropped_total", "signal"))
	assert.Equal(t, map[string]int64{"joined": 1, "malformed": 2}, metricSums(t, string(text.body), "ferment_trace_contexts_total", "outcome"))
	s.stop()
	traces.checkTraces(t, hung)
	of := traces.of("invoke_workflow mine/data", "ferment.run.id", joined.header.Get("Ferment-Run-Id"))
	require.Len(t, of, 1)
	assert.Equal(t, callerContext, fmt.Sprintf("00-%x-%x-01", of[0].TraceId, of[0].ParentSpanId), "HTTP-011: the run joins the trace of its caller")
}

// TEL-001: "admin log-level" changes what the daemon logs of a part of the host, without a
// restart; a reload that changes the block telemetry sets the levels again, another one
// does not.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	w := answering(t, "telemetry {\n  level = \"warn\"\n}\n")
	p := w.launchLimit(runLimit, "", built.ferment, "serve")
	require.Eventually(t, func() bool { return w.run("status").code == 0 }, 20*time.Second, 20*time.Millisecond)
	text := func(args ...string) string {
		got := w.run(append([]string{"admin", "log-level"}, args...)...)
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	assert.Equal(t, "all         warn\n", text())
	assert.Equal(t, "all         warn\nplugin      info\n", text("plugin=info"))
	require.Zero(t, w.run("plugin", "restart", "mine").code)
	l, _, ok := p.logged(0, func(l logLine) bool {
		return l.text("@level") == "info" && !strings.HasSuffix(l.text("@module"), ".audit")
	})
	require.True(t, ok)
	assert.Equal(t, "ferment.plugin", l.text("@module"), "the only lines of this level")
	assert.Equal(t, "{:level :error :levels {:plugin :info}}", w.data("admin", "log-level", "error").String())
	w.rewrite("ferment.hcl", "telemetry {", "cache {\n  ttl = \"90s\"\n}\ntelemetry {")
	require.Zero(t, w.run("admin", "reload").code)
	assert.Equal(t, "all         error\nplugin      info\n", text())
	w.rewrite("ferment.hcl", `"warn"`, `"info"`)
	require.Zero(t, w.run("admin", "reload").code)
	assert.Equal(t, "all         info\n", text())
	for _, wrong := range []string{"loud", "plugin=loud", "nothing=info", "=info"} {
		assert.Equal(t, 2, w.run("admin", "log-level", wrong).code, wrong)
	}
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.wait().code)
}
