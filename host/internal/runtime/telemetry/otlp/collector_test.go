package otlp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP over gRPC or HTTP and keeps it.
type collector struct {
	coltrace.UnimplementedTraceServiceServer
	endpoint string

	mu     sync.Mutex
	spans  []*trace.Span
	events []*logs.LogRecord
	about  *resource.Resource
	scopes []string // name and schema
	keys   []string // header x-key of each request

	metrics   map[string]*metrics.Metric // of the last request
	measurer  *resource.Resource
	metricKey string
}

// take keeps the parts of one request.
func (c *collector) take(key string, of *coltrace.ExportTraceServiceRequest, events *collogs.ExportLogsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key)
	for _, r := range of.GetResourceSpans() {
		c.about = r.Resource
		for _, s := range r.ScopeSpans {
			c.scopes = append(c.scopes, s.Scope.Name+" "+s.SchemaUrl)
			c.spans = append(c.spans, s.Spans...)
		}
	}
	for _, r := range events.GetResourceLogs() {
		for _, s := range r.ScopeLogs {
			c.events = append(c.events, s.LogRecords...)
		}
	}
}

func keyOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if all := md.Get("x-key"); len(all) == 1 {
		return all[0]
	}
	return ""
}

// Export implements the trace service.
func (c *collector) Export(ctx context.Context, r *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	c.take(keyOf(ctx), r, nil)
	return &coltrace.ExportTraceServiceResponse{}, nil
}

// logService is a collector as the service of logs.
type logService struct {
	collogs.UnimplementedLogsServiceServer
	*collector
}

func (s logService) Export(ctx context.Context, r *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	s.take(keyOf(ctx), nil, r)
	return &collogs.ExportLogsServiceResponse{}, nil
}

func overGRPC(t *testing.T) *collector {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{endpoint: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	coltrace.RegisterTraceServiceServer(server, c)
	collogs.RegisterLogsServiceServer(server, logService{collector: c})
	colmetrics.RegisterMetricsServiceServer(server, metricService{collector: c})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		assert.NoError(t, <-done)
	})
	return c
}

func overHTTP(t *testing.T) *collector {
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		var spans coltrace.ExportTraceServiceRequest
		var events collogs.ExportLogsServiceRequest
		switch r.URL.Path {
		case "/base/v1/traces":
			assert.NoError(t, proto.Unmarshal(body, &spans))
		case "/base/v1/logs":
			assert.NoError(t, proto.Unmarshal(body, &events))
		case "/base/v1/metrics":
			var measured colmetrics.ExportMetricsServiceRequest
			assert.NoError(t, proto.Unmarshal(body, &measured))
			c.measure(r.Header.Get("X-Key"), &measured)
			w.Header().Set("Content-Type", "application/x-protobuf")
			return
		default:
			assert.Fail(t, "unexpected path", r.URL.Path)
		}
		c.take(r.Header.Get("X-Key"), &spans, &events)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.endpoint = server.URL + "/base"
	return c
}

// dead is an endpoint that accepts connections and never answers.
func dead(t *testing.T) string {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	return "http://" + listener.Addr().String()
}

func (c *collector) named(t *testing.T, name string) *trace.Span {
	t.Helper()
	i := slices.IndexFunc(c.spans, func(s *trace.Span) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, "there is no span %q", name)
	return c.spans[i]
}

func attr(of []*common.KeyValue, key string) any {
	for _, a := range of {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return v.IntValue
		case *common.AnyValue_DoubleValue:
			return v.DoubleValue
		case *common.AnyValue_ArrayValue:
			return v.ArrayValue.Values[0].GetStringValue()
		}
	}
	return nil
}

func nanos(at time.Time) uint64 { return uint64(at.UnixNano()) }
