package otlp_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry/otlp"
)

// metricService is a collector as the service of metrics.
type metricService struct {
	colmetrics.UnimplementedMetricsServiceServer
	*collector
}

func (s metricService) Export(ctx context.Context, r *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	s.measure(keyOf(ctx), r)
	return &colmetrics.ExportMetricsServiceResponse{}, nil
}

// measure keeps the metrics of a request in place of earlier ones.
func (c *collector) measure(key string, of *colmetrics.ExportMetricsServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range of.GetResourceMetrics() {
		c.measurer = r.Resource
		for _, s := range r.ScopeMetrics {
			c.metricKey, c.metrics = key, map[string]*metrics.Metric{}
			for _, m := range s.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
}

// whole is an owner of metrics that knows every name.
type whole struct{ meter *tally.Meter }

func (w whole) Counts() *tally.Counts   { counts, _ := w.meter.Total(); return counts }
func (whole) Known(string, string) bool { return true }
func (whole) Samples() []telemetry.Sample {
	return []telemetry.Sample{{Family: "ferment_queue_depth", Labels: []string{"sync"}, Value: 3}}
}

// TEL-005, TEL-003: a collector receives the metrics of GET /metrics with the same values,
// over both protocols, under the names of OpenTelemetry; tokens and times of models are
// those of attempts.
func TestACollectorReceivesTheMetrics(t *testing.T) {
	for protocol, collect := range map[string]func(*testing.T) *collector{otlp.GRPC: overGRPC, otlp.HTTP: overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			c := collect(t)
			meter := tally.NewMeter(boot)
			var commits telemetry.Commits
			commits.Add(3, 700, 1500)
			of := telemetry.NewMetrics(whole{meter}, &commits, 2000)
			x := otlp.New(hclog.NewNullLogger(), otlp.Source{Begin: boot, Metrics: of.Metrics})
			require.NoError(t, x.Configure(settings(c.endpoint, protocol)))
			records := race("run_1")
			for _, rec := range records {
				meter.Observe(rec, nil)
			}
			text, err := of.Text()
			require.NoError(t, err)
			x.Close()

			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			require.NoError(t, err)
			want := map[string]string{}
			for name, f := range families {
				if strings.HasPrefix(name, "ferment_") {
					want[name] = scraped(f)
				}
			}
			require.Len(t, c.metrics, len(want), "%v", slices.Sorted(maps.Keys(c.metrics)))
			for _, m := range []struct{ scrape, name, unit string }{
				{"ferment_acts_total", "ferment.acts", "1"},
				{"ferment_operation_duration_seconds", "ferment.operation.duration", "s"},
				{"ferment_operations_total", "ferment.operations", "1"},
				{"ferment_attempts_total", "ferment.attempts", "1"},
				{"ferment_gate_verdicts_total", "ferment.gate.verdicts", "1"},
				{"ferment_act_duration_seconds", "gen_ai.workflow.duration", "s"},
				{"ferment_model_duration_seconds", "gen_ai.client.operation.duration", "s"},
				{"ferment_model_tokens", "gen_ai.client.token.usage", "{token}"},
				{"ferment_queue_depth", "ferment.queue.depth", "1"},
				{"ferment_journal_bytes_total", "ferment.journal", "By"},
				{"ferment_journal_commit_seconds", "ferment.journal.commit", "s"},
			} {
				require.Contains(t, c.metrics, m.name)
				assert.Equal(t, m.unit, c.metrics[m.name].Unit, m.name)
				require.NotEmpty(t, want[m.scrape], m.scrape)
				assert.Equal(t, want[m.scrape], exported(c.metrics[m.name]), m.name)
			}
			tokens := c.metrics["gen_ai.client.token.usage"].GetHistogram()
			require.Len(t, tokens.DataPoints, 2)
			for _, p := range tokens.DataPoints {
				assert.Equal(t, []any{"chat", "a/model", map[any]float64{"input": 5, "output": 7}[attr(p.Attributes, "gen_ai.token.type")], nanos(boot)},
					[]any{attr(p.Attributes, "gen_ai.operation.name"), attr(p.Attributes, "ferment.capability"), *p.Sum, p.StartTimeUnixNano})
			}
			assert.Equal(t, metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, tokens.AggregationTemporality)
			workflow := c.metrics["gen_ai.workflow.duration"].GetHistogram().DataPoints[0]
			assert.Equal(t, "text/respond", attr(workflow.Attributes, "gen_ai.workflow.name"))
			times := c.metrics["gen_ai.client.operation.duration"].GetHistogram().DataPoints
			require.Len(t, times, 1, "a tool is no model")
			assert.Nil(t, attr(times[0].Attributes, "error.type"))
			assert.Equal(t, []any{"k", "ferment"}, []any{c.metricKey, attr(c.measurer.Attributes, "service.name")})
			assert.Zero(t, x.Dropped()["metrics"])
		})
	}
}

// scraped and exported are the values of a metric: sorted, without the names of labels,
// which differ.
func scraped(f *dto.MetricFamily) string {
	var all []string
	for _, m := range f.Metric {
		switch {
		case m.Histogram != nil:
			line := fmt.Sprint(m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
			below := uint64(0)
			for _, b := range m.Histogram.Bucket {
				line += fmt.Sprint(" ", b.GetCumulativeCount()-below)
				below = b.GetCumulativeCount()
			}
			all = append(all, line)
		default:
			all = append(all, fmt.Sprint(m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func exported(m *metrics.Metric) string {
	var all []string
	for _, p := range slices.Concat(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()) {
		all = append(all, fmt.Sprint(p.GetAsDouble()))
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		line := fmt.Sprint(p.Count, p.GetSum())
		for _, n := range p.BucketCounts {
			line += fmt.Sprint(" ", n)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TEL-007: a collector that takes no metrics costs counted drops.
func TestMetricsThatNoCollectorTakes(t *testing.T) {
	of := telemetry.NewMetrics(whole{tally.NewMeter(boot)}, &telemetry.Commits{}, 2000)
	x := otlp.New(hclog.NewNullLogger(), otlp.Source{Begin: boot, Metrics: of.Metrics})
	require.NoError(t, x.Configure(settings(dead(t), otlp.HTTP)))
	x.Close()
	assert.Positive(t, x.Dropped()["metrics"])
}
