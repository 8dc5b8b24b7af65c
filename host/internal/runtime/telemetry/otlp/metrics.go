package otlp

import (
	"context"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
)

// metricsEvery is the time between two exports of metrics.
const metricsEvery = 10 * time.Second

// Source provides the metrics to export. Begin is the time since which they count; Metrics returns
// the current values and may be nil.
type Source struct {
	Begin   time.Time
	Metrics func() ([]telemetry.Metric, error)
}

// newMeters returns a provider that exports the metrics of the source of x every metricsEvery, and
// at its shutdown. When life ends, exports in progress are canceled.
func newMeters(life context.Context, s *Settings, x *Exporter, about *resource.Resource) (*sdkmetric.MeterProvider, error) {
	to, err := newMetricExporter(context.Background(), s)
	if err != nil {
		return nil, err
	}
	reader := sdkmetric.NewPeriodicReader(metricExporter{to, &x.points, &x.outage, life},
		sdkmetric.WithInterval(metricsEvery), sdkmetric.WithTimeout(exportLimit),
		sdkmetric.WithProducer(producer{x.source, instrumentation.Scope{Name: scope, Version: s.Version, SchemaURL: schemaURL}}))
	return sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(reader)), nil
}

func newMetricExporter(ctx context.Context, s *Settings) (sdkmetric.Exporter, error) {
	if s.Protocol == GRPC {
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(s.Endpoint),
			otlpmetricgrpc.WithHeaders(s.Headers), otlpmetricgrpc.WithTimeout(exportLimit))
	}
	base, err := url.Parse(s.Endpoint)
	if err != nil {
		return nil, err
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base.JoinPath("v1/metrics").String()),
		otlpmetrichttp.WithHeaders(s.Headers), otlpmetrichttp.WithHTTPClient(overHTTP))
}

// metricExporter counts the points that the collector did not receive. It returns no error, because
// the SDK would write it to standard error.
type metricExporter struct {
	sdkmetric.Exporter
	dropped *dropped
	outage  *outage
	life    context.Context
}

func (x metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	n, err := points(all), x.Exporter.Export(ctx, all)
	if err != nil {
		x.dropped.Add(n)
	}
	x.outage.note("metrics", 0, err) // sums go on: the next ones have what these had
	return nil
}

// points returns the number of series.
func points(all *metricdata.ResourceMetrics) (n int64) {
	for _, of := range all.ScopeMetrics {
		for _, m := range of.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				n += int64(len(data.DataPoints))
			case metricdata.Gauge[float64]:
				n += int64(len(data.DataPoints))
			case metricdata.Histogram[float64]:
				n += int64(len(data.DataPoints))
			}
		}
	}
	return n
}

// producer passes the metrics of a source to the SDK.
type producer struct {
	from  Source
	scope instrumentation.Scope
}

var _ sdkmetric.Producer = producer{}

// Produce implements sdkmetric.Producer.
func (p producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	if p.from.Metrics == nil {
		return nil, nil
	}
	all, err := p.from.Metrics()
	if err != nil {
		return nil, err
	}
	now, out := time.Now(), metricdata.ScopeMetrics{Scope: p.scope}
	for i := range all {
		m := metricdata.Metrics{Name: all[i].Name, Description: all[i].Help, Unit: all[i].Unit}
		if all[i].Kind == telemetry.Histogram {
			m.Data = p.histogram(all[i].Series, now)
		} else {
			m.Data = p.numbers(&all[i], now)
		}
		out.Metrics = append(out.Metrics, m)
	}
	return []metricdata.ScopeMetrics{out}, nil
}

func (p producer) numbers(m *telemetry.Metric, now time.Time) metricdata.Aggregation {
	all := make([]metricdata.DataPoint[float64], len(m.Series))
	for i, s := range m.Series {
		all[i] = metricdata.DataPoint[float64]{Attributes: labelled(s), Time: now, Value: s.Value}
		if m.Kind == telemetry.Counter {
			all[i].StartTime = p.from.Begin
		}
	}
	if m.Kind == telemetry.Counter {
		return metricdata.Sum[float64]{DataPoints: all, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	}
	return metricdata.Gauge[float64]{DataPoints: all}
}

func (p producer) histogram(series []telemetry.Series, now time.Time) metricdata.Aggregation {
	all := make([]metricdata.HistogramDataPoint[float64], len(series))
	for i, s := range series {
		all[i] = metricdata.HistogramDataPoint[float64]{
			Attributes: labelled(s), StartTime: p.from.Begin, Time: now, Count: s.Count, Sum: s.Sum, Bounds: s.Bounds, BucketCounts: s.Buckets,
		}
	}
	return metricdata.Histogram[float64]{DataPoints: all, Temporality: metricdata.CumulativeTemporality}
}

func labelled(s telemetry.Series) attribute.Set {
	all := make([]attribute.KeyValue, 0, len(s.Attrs))
	for key, v := range s.Attrs {
		all = append(all, attribute.String(key, v))
	}
	return attribute.NewSet(all...)
}
