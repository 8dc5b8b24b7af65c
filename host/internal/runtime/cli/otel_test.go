package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceCollector is an OpenTelemetry collector that keeps the spans it receives.
type traceCollector struct {
	url string

	mu    sync.Mutex
	spans []*trace.Span
}

func collectTraces(t *testing.T) *traceCollector {
	c := &traceCollector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request coltrace.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || !assert.NoError(t, proto.Unmarshal(body, &request)) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// block is the configuration that exports to the collector.
func (c *traceCollector) block() string {
	return fmt.Sprintf("telemetry {\n  otel {\n    enabled  = true\n    endpoint = %q\n    protocol = \"http\"\n  }\n}\n", c.url)
}

// of returns the spans with a name, and with a value of an attribute unless key is empty.
func (c *traceCollector) of(name, key, value string) (found []*trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, span := range c.spans {
		has := key == ""
		for _, a := range span.Attributes {
			has = has || a.Key == key && a.Value.GetStringValue() == value
		}
		if has && span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// checkTraces checks what the collector has of a run that was resumed after a crash and
// canceled, and of others that went through.
func (c *traceCollector) checkTraces(t *testing.T, resumed string) {
	t.Helper()
	runs := c.of("invoke_workflow mine/hang", "ferment.run.id", resumed)
	if assert.Len(t, runs, 2, "one for each process of the daemon") {
		assert.Empty(t, runs[0].Links)
		if assert.Len(t, runs[1].Links, 1) {
			assert.Equal(t, runs[0].TraceId, runs[1].Links[0].TraceId)
			assert.Equal(t, runs[0].SpanId, runs[1].Links[0].SpanId)
		}
		assert.Equal(t, trace.Status_STATUS_CODE_ERROR, runs[0].Status.Code, "its host was killed")
		assert.Equal(t, trace.Status_STATUS_CODE_UNSET, runs[1].Status.Code, "it was canceled")
	}
	parents := map[string]string{} // names by span
	for _, name := range []string{"invoke_workflow mine/data", "ferment.operation mine/data"} {
		for _, span := range c.of(name, "", "") {
			parents[string(span.SpanId)] = name
		}
	}
	whole := map[string]bool{} // traces; what a killed host had not sent is lost
	for _, span := range c.of("invoke_workflow mine/data", "", "") {
		whole[string(span.TraceId)] = true
	}
	for name, parent := range map[string]string{
		"execute_tool mine/data":      "ferment.operation mine/data",
		"ferment.operation mine/data": "invoke_workflow mine/data",
	} {
		n := 0
		for _, span := range c.of(name, "", "") {
			if whole[string(span.TraceId)] {
				n++
				assert.Equal(t, parent, parents[string(span.ParentSpanId)])
			}
		}
		assert.GreaterOrEqual(t, n, 3, name)
	}
}
