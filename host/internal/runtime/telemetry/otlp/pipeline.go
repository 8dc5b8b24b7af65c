package otlp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
)

const (
	scope     = "github.com/fermenthq/ferment"
	schemaURL = "https://opentelemetry.io/schemas/" + spans.Conventions

	batchEvery  = time.Second
	exportLimit = 10 * time.Second
	maxBatch    = 512
)

// pipeline sends the spans, events and metrics of one Settings. It implements spans.Sink.
type pipeline struct {
	sampler sdktrace.Sampler // selects runs; every span passed to Span is sent
	die     context.CancelFunc

	spans    queue
	toTraces sdktrace.SpanExporter
	traces   *sdktrace.TracerProvider
	tracer   trace.Tracer

	events queue
	toLogs sdklog.Exporter
	logs   *sdklog.LoggerProvider
	logger log.Logger

	meters *sdkmetric.MeterProvider
}

var _ spans.Sink = (*pipeline)(nil)

func newPipeline(s *Settings, x *Exporter) (*pipeline, error) {
	ctx := context.Background()
	toTraces, toLogs, err := newExporters(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("export to %s: %w", s.Endpoint, err)
	}
	life, die := context.WithCancel(ctx)
	p := &pipeline{
		sampler:  sdktrace.TraceIDRatioBased(s.Sample),
		die:      die,
		toTraces: toTraces,
		toLogs:   toLogs,
		spans:    queue{what: "spans", limit: s.Queue, dropped: &x.spans, outage: &x.outage, life: life},
		events:   queue{what: "events", limit: s.Queue, dropped: &x.events, outage: &x.outage, life: life},
	}
	about := resource.NewWithAttributes(schemaURL,
		attribute.String("service.name", "ferment"),
		attribute.String("service.version", s.Version),
		attribute.String("service.instance.id", s.Instance),
	)
	if p.meters, err = newMeters(life, s, x, about); err != nil {
		die()
		return nil, fmt.Errorf("export to %s: %w", s.Endpoint, err)
	}
	batch := min(maxBatch, s.Queue)
	p.traces = sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(givenIDs{}),
		sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(spanExporter{toTraces, &p.spans},
			sdktrace.WithMaxQueueSize(s.Queue), sdktrace.WithMaxExportBatchSize(batch),
			sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithExportTimeout(exportLimit))),
	)
	p.tracer = p.traces.Tracer(scope, trace.WithInstrumentationVersion(s.Version), trace.WithSchemaURL(schemaURL))
	p.logs = sdklog.NewLoggerProvider(
		sdklog.WithResource(about),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(eventExporter{toLogs, &p.events},
			sdklog.WithMaxQueueSize(s.Queue), sdklog.WithExportMaxBatchSize(batch),
			sdklog.WithExportInterval(batchEvery), sdklog.WithExportTimeout(exportLimit))),
	)
	p.logger = p.logs.Logger(scope, log.WithInstrumentationVersion(s.Version), log.WithSchemaURL(schemaURL))
	return p, nil
}

// overHTTP sends the data of all signals. It follows no redirect, which would lead the headers, and
// with them the secrets, and the content to a host that the configuration does not name.
var overHTTP = &http.Client{
	Timeout:       exportLimit,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// newExporters returns the clients of the collector. They connect when the first data is sent.
func newExporters(ctx context.Context, s *Settings) (sdktrace.SpanExporter, sdklog.Exporter, error) {
	if s.Protocol == GRPC {
		traces, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(s.Endpoint),
			otlptracegrpc.WithHeaders(s.Headers), otlptracegrpc.WithTimeout(exportLimit))
		if err != nil {
			return nil, nil, err
		}
		logs, err := otlploggrpc.New(ctx, otlploggrpc.WithEndpointURL(s.Endpoint),
			otlploggrpc.WithHeaders(s.Headers), otlploggrpc.WithTimeout(exportLimit))
		return traces, logs, err
	}
	base, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, nil, err
	}
	traces, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base.JoinPath("v1/traces").String()),
		otlptracehttp.WithHeaders(s.Headers), otlptracehttp.WithHTTPClient(overHTTP))
	if err != nil {
		return nil, nil, err
	}
	logs, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(base.JoinPath("v1/logs").String()),
		otlploghttp.WithHeaders(s.Headers), otlploghttp.WithHTTPClient(overHTTP))
	return traces, logs, err
}

// close sends the queued data until ctx ends. Remaining data is dropped and counted, so the errors
// of the SDK are ignored.
func (p *pipeline) close(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { _ = p.traces.Shutdown(ctx) })
	all.Go(func() { _ = p.logs.Shutdown(ctx) })
	all.Go(func() { _ = p.meters.Shutdown(ctx) })
	all.Wait()
	p.spans.close()
	p.events.close()
	p.die()
	_ = p.toTraces.Shutdown(ctx) // cancels exports in progress
	_ = p.toLogs.Shutdown(ctx)
}

// givenIDs is an id generator of the SDK that returns the ids in the context.
type givenIDs struct{}

type idKey struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(idKey{}).(spans.Context)
	return c.Trace, c.Span
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(idKey{}).(spans.Context)
	return c.Span
}

// contextOf converts a span context to that of the SDK.
func contextOf(c spans.Context) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.Trace, SpanID: c.Span, TraceFlags: trace.FlagsSampled})
}

// Span implements spans.Sink.
func (p *pipeline) Span(s *spans.Span) {
	if !p.spans.enter() {
		return
	}
	ctx := context.WithValue(context.Background(), idKey{}, s.Context)
	if s.Parent != ([8]byte{}) {
		ctx = trace.ContextWithSpanContext(ctx, contextOf(spans.Context{Trace: s.Trace, Span: s.Parent}))
	}
	kind := trace.SpanKindInternal
	if s.Kind == spans.Client {
		kind = trace.SpanKindClient
	}
	links := make([]trace.Link, len(s.Links))
	for i, c := range s.Links {
		links[i].SpanContext = contextOf(c)
	}
	_, span := p.tracer.Start(ctx, s.Name, trace.WithSpanKind(kind), trace.WithTimestamp(s.Start),
		trace.WithAttributes(attributes(s.Attrs)...), trace.WithLinks(links...))
	if s.Failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(s.End))
}

// Event implements spans.Sink.
func (p *pipeline) Event(e *spans.Event) {
	if !p.events.enter() {
		return
	}
	var r log.Record
	r.SetEventName(e.Name)
	r.SetTimestamp(e.At)
	r.SetObservedTimestamp(e.At)
	r.SetSeverity(log.SeverityInfo)
	r.AddAttributes(attributes(e.Attrs)...)
	p.logger.Emit(trace.ContextWithSpanContext(context.Background(), contextOf(e.Context)), r)
}

// attributes converts attributes to those of the SDK.
func attributes(all []spans.Attr) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(all))
	for _, a := range all {
		switch v := a.Value.(type) {
		case string:
			out = append(out, attribute.String(a.Key, v))
		case []string:
			out = append(out, attribute.StringSlice(a.Key, v))
		case int64:
			out = append(out, attribute.Int64(a.Key, v))
		case float64:
			out = append(out, attribute.Float64(a.Key, v))
		case bool:
			out = append(out, attribute.Bool(a.Key, v))
		}
	}
	return out
}
