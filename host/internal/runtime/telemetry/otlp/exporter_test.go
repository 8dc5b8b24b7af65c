package otlp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry/otlp"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var boot = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// settings of a test. What waits is sent when the exporter closes.
func settings(endpoint, protocol string) *otlp.Settings {
	return &otlp.Settings{
		Endpoint: endpoint, Protocol: protocol, Headers: map[string]string{"X-Key": "k"}, Sample: 1, Queue: 100,
		Content: journal.ContentHash, Version: "1.2.3", Instance: "boot",
	}
}

func exporter(t *testing.T, s *otlp.Settings) *otlp.Exporter {
	x := otlp.New(hclog.NewNullLogger(), otlp.Source{})
	require.NoError(t, x.Configure(s))
	return x
}

// race are the records of a run with two attempts that race and a verdict on one.
func race(run string) []journal.Record {
	var all []journal.Record
	put := func(path string, body journal.Body) {
		rec := journal.Record{Run: run, Seq: len(all) + 1, At: boot.Add(time.Duration(len(all)) * time.Second), Epoch: 1, Body: body}
		if path != "" {
			rec.Path, rec.Node = edn.MustRead(path), "n"
		}
		all = append(all, rec)
	}
	request := journal.RefTo(edn.MustRead(`{:input {:text "question"}}`))
	put("", &journal.RunAccepted{Intent: "text/respond", Class: "sync", Request: request})
	put("[0]", &journal.NodeResolved{Op: "call", Intent: "text/respond"})
	put("[0]", &journal.AttemptStarted{Attempt: 1, CapID: "a/model", CapKind: "llm", Entrant: "race", Request: request})
	put("[0]", &journal.AttemptStarted{Attempt: 2, CapID: "a/tool", CapKind: "tool", Entrant: "race", Request: request})
	put("[0]", &journal.AttemptFinished{Attempt: 1, Outcome: "ok", Usage: edn.MustRead(`{:tokens-in 5 :tokens-out 7}`),
		Meta: edn.MustRead(`{:model "m" :finish :stop}`), Result: journal.RefTo(edn.Text("answer"))})
	put("[0]", &journal.GateVerdict{Attempt: 1, Gate: "polite", Severity: "must", Pass: true, Score: journal.ScoreOf(500),
		Findings: journal.RefTo(edn.Text("finding"))})
	put("[0]", &journal.NodeCommitted{Attempt: 1, CapID: "a/model"})
	put("[0]", &journal.AttemptFinished{Attempt: 2, Outcome: "canceled"})
	put("", &journal.RunFinished{Status: "completed"})
	return all
}

func observe(x *otlp.Exporter, records []journal.Record) {
	for i, rec := range records {
		x.Observe(rec, func() []journal.Record { return records[:i+1] })
	}
}

// TEL-005, TEL-006, TEL-007: a collector receives names, kinds, parents, links and
// attributes, over both protocols, with the configured header in each request.
func TestACollectorReceivesARun(t *testing.T) {
	for protocol, collect := range map[string]func(*testing.T) *collector{otlp.GRPC: overGRPC, otlp.HTTP: overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			c := collect(t)
			x := exporter(t, settings(c.endpoint, protocol))
			observe(x, race("run_1"))
			x.Close()

			require.Len(t, c.spans, 4)
			run, operation := c.named(t, "invoke_workflow text/respond"), c.named(t, "ferment.operation text/respond")
			model, tool := c.named(t, "chat m"), c.named(t, "execute_tool a/tool")
			assert.Empty(t, run.ParentSpanId)
			assert.Equal(t, [][]byte{run.SpanId, operation.SpanId, operation.SpanId},
				[][]byte{operation.ParentSpanId, model.ParentSpanId, tool.ParentSpanId})
			want := spans.AttemptContext("run_1", 1, edn.MustRead("[0]"), 1)
			assert.Equal(t, [][]byte{want.Trace[:], want.Span[:]}, [][]byte{model.TraceId, model.SpanId})
			assert.Equal(t, []trace.Span_SpanKind{trace.Span_SPAN_KIND_INTERNAL, trace.Span_SPAN_KIND_INTERNAL, trace.Span_SPAN_KIND_CLIENT,
				trace.Span_SPAN_KIND_INTERNAL}, []trace.Span_SpanKind{run.Kind, operation.Kind, model.Kind, tool.Kind})
			assert.Equal(t, [2]uint64{nanos(boot), nanos(boot.Add(8 * time.Second))}, [2]uint64{run.StartTimeUnixNano, run.EndTimeUnixNano})
			require.Len(t, model.Links, 1)
			require.Len(t, tool.Links, 1)
			assert.Equal(t, [][]byte{tool.SpanId, model.SpanId}, [][]byte{model.Links[0].SpanId, tool.Links[0].SpanId})
			assert.Equal(t, []any{"chat", int64(5), int64(7), "stop", edn.Hash(edn.Text("answer"))}, []any{
				attr(model.Attributes, "gen_ai.operation.name"), attr(model.Attributes, "gen_ai.usage.input_tokens"),
				attr(model.Attributes, "gen_ai.usage.output_tokens"), attr(model.Attributes, "gen_ai.response.finish_reasons"),
				attr(model.Attributes, "ferment.response.hash")})
			assert.Equal(t, spans.Conventions, attr(run.Attributes, "ferment.conventions"))

			require.Len(t, c.events, 1)
			event := c.events[0]
			assert.Equal(t, "gen_ai.evaluation.result", event.EventName)
			assert.Equal(t, [][]byte{model.TraceId, model.SpanId}, [][]byte{event.TraceId, event.SpanId})
			assert.Equal(t, nanos(boot.Add(5*time.Second)), event.TimeUnixNano)
			assert.Equal(t, []any{"polite", 0.5, "pass", nil, "must"}, []any{attr(event.Attributes, "gen_ai.evaluation.name"),
				attr(event.Attributes, "gen_ai.evaluation.score.value"), attr(event.Attributes, "gen_ai.evaluation.score.label"),
				attr(event.Attributes, "gen_ai.evaluation.explanation"), attr(event.Attributes, "ferment.gate.severity")})

			assert.Equal(t, []any{"ferment", "1.2.3", "boot"}, []any{attr(c.about.Attributes, "service.name"),
				attr(c.about.Attributes, "service.version"), attr(c.about.Attributes, "service.instance.id")})
			assert.Equal(t, "github.com/fermenthq/ferment https://opentelemetry.io/schemas/"+spans.Conventions, c.scopes[0])
			assert.Equal(t, []string{"k", "k"}, c.keys)
			assert.Equal(t, map[string]int64{"spans": 0, "events": 0, "metrics": 0}, x.Dropped())
		})
	}
}

// TEL-007: what a collector answers with a redirect is dropped and counted: neither the header with the
// secret nor the content goes to another address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var asked atomic.Int64
		collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		x := exporter(t, settings(collector.URL, otlp.HTTP))
		observe(x, race("run_1"))
		x.Close()
		collector.Close()
		assert.EqualValues(t, 3, asked.Load(), "traces, logs and metrics")
		dropped := x.Dropped()
		assert.Equal(t, []int64{4, 1}, []int64{dropped["spans"], dropped["events"]}, status)
	}
	assert.Zero(t, reached.Load())
}

// TEL-001: requests, answers and findings leave the host only with content full.
func TestContentLeavesOnlyInFull(t *testing.T) {
	for _, content := range []journal.Content{journal.ContentOff, journal.ContentHash, journal.ContentFull} {
		c := overGRPC(t)
		s := settings(c.endpoint, otlp.GRPC)
		s.Content = content
		x := exporter(t, s)
		observe(x, race("run_1"))
		x.Close()
		require.Len(t, c.spans, 4)
		require.Len(t, c.events, 1)
		for _, word := range []string{"question", "answer", "finding"} {
			has := assert.Contains
			if content != journal.ContentFull {
				has = assert.NotContains
			}
			has(t, fmt.Sprint(c.spans, c.events), word, content)
		}
	}
}

// TEL-007: a collector that does not answer blocks nothing. The queue is bounded, what
// does not fit is counted at once, and what was not sent at the end is counted then.
func TestADeadCollectorCostsCountedDrops(t *testing.T) {
	for _, protocol := range []string{otlp.GRPC, otlp.HTTP} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := settings(dead(t), protocol)
			s.Queue = 10
			x := exporter(t, s)
			for n := range 25 {
				observe(x, race(fmt.Sprintf("run_%d", n)))
			}
			assert.Equal(t, map[string]int64{"spans": 25*4 - 10, "events": 25 - 10, "metrics": 0}, x.Dropped())
			x.Close()
			assert.Equal(t, map[string]int64{"spans": 25 * 4, "events": 25, "metrics": 0}, x.Dropped())
		})
	}
}

// TEL-005: a run is sampled whole or not at all, and the share of runs is that of the
// settings.
func TestSampling(t *testing.T) {
	c := overGRPC(t)
	s := settings(c.endpoint, otlp.GRPC)
	s.Sample, s.Queue = 0.5, 10_000
	x := exporter(t, s)
	const runs = 400
	for n := range runs {
		observe(x, race(fmt.Sprintf("run_%d", n)))
	}
	x.Close()
	traces := map[string]int{}
	for _, span := range c.spans {
		traces[string(span.TraceId)]++
	}
	assert.InDelta(t, runs/2, len(traces), runs/10)
	for _, n := range traces {
		require.Equal(t, 4, n)
	}
	assert.Len(t, c.events, len(traces))
}

// An exporter that is configured in the midst of a run knows the run by its past, of
// which nothing is exported again; without settings it exports nothing.
func TestConfigureWhileARunGoesOn(t *testing.T) {
	first, second := overGRPC(t), overHTTP(t)
	x := exporter(t, settings(first.endpoint, otlp.GRPC))
	records := race("run_1")
	feed := func(from, to int) {
		for i := from; i < to; i++ {
			x.Observe(records[i], func() []journal.Record { return records })
		}
	}
	feed(0, 6)
	require.NoError(t, x.Configure(nil))
	feed(6, 7) // the operation ends
	require.NoError(t, x.Configure(settings(second.endpoint, otlp.HTTP)))
	feed(7, len(records))
	x.Close()
	assert.Empty(t, first.spans)
	assert.Len(t, first.events, 1)
	require.Len(t, second.spans, 2)
	assert.Equal(t, second.named(t, "execute_tool a/tool").TraceId, second.named(t, "invoke_workflow text/respond").TraceId)
	assert.Len(t, second.named(t, "execute_tool a/tool").Links, 1)
	assert.Empty(t, second.events)
}

func BenchmarkObserve(b *testing.B) {
	records := race("run_1")
	for name, sample := range map[string]float64{"sampled": 1, "not sampled": 0} {
		b.Run(name, func(b *testing.B) {
			s := &otlp.Settings{Endpoint: "http://127.0.0.1:1", Protocol: otlp.GRPC, Sample: sample, Queue: 1 << 20}
			x := otlp.New(hclog.NewNullLogger(), otlp.Source{})
			require.NoError(b, x.Configure(s))
			for b.Loop() {
				observe(x, records)
			}
			require.NoError(b, x.Configure(nil))
		})
	}
}
