package telemetry

import (
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
)

// Metric is a family with its series, under the names of OpenTelemetry.
type Metric struct {
	Name, Unit, Help string
	Kind             Kind
	Series           []Series
}

// Series is one series of a Metric.
type Series struct {
	Attrs map[string]string
	Value float64 // of a counter or gauge
	// Count, Sum, Bounds and Buckets describe a histogram: the number of values, their sum, the
	// upper bounds, and the number of values in each bucket. The last bucket has no bound.
	Count   uint64
	Sum     float64
	Bounds  []float64
	Buckets []uint64
}

// Metrics returns the current metrics that the daemon defines, without those of the Go runtime and
// of the process.
func (m *Metrics) Metrics() ([]Metric, error) {
	all, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	var out []Metric
	for _, g := range all {
		f := familyOf(g.GetName())
		if f == nil {
			continue
		}
		one := Metric{Help: f.Help, Kind: f.Kind}
		one.Name, one.Unit = f.exported()
		for _, s := range g.GetMetric() {
			one.Series = append(one.Series, f.series(s))
		}
		out = append(out, one)
	}
	return out, nil
}

// exported returns the name and the unit of a family in OpenTelemetry: words are separated by dots,
// and the unit is not part of the name.
func (f *Family) exported() (name, unit string) {
	name = strings.TrimSuffix(strings.TrimPrefix(f.Name, "ferment_"), "_total")
	unit = "1"
	for suffix, u := range map[string]string{"_seconds": "s", "_bytes": "By", "_usd": "{USD}"} {
		if bare, ok := strings.CutSuffix(name, suffix); ok {
			name, unit = bare, u
		}
	}
	switch {
	case f.OTel == spans.MetricTokens:
		unit = "{token}"
	case f.OTel == "":
		first, rest, more := strings.Cut(name, "_")
		if name = "ferment." + first; more {
			name += "." + rest
		}
		return name, unit
	}
	return f.OTel, unit
}

// attributes maps labels to attributes of the semantic conventions. Other labels get the prefix
// "ferment.".
var attributes = map[string]string{
	"capability": spans.AttrCapability,
	"direction":  spans.AttrTokenType,
	"error_type": spans.AttrError,
	"type":       spans.AttrError,
}

func (f *Family) series(from *dto.Metric) Series {
	s := Series{Attrs: map[string]string{}}
	for _, l := range from.GetLabel() {
		key := attributes[l.GetName()]
		switch {
		case f.OTel == spans.MetricWorkflow && l.GetName() == "intent":
			key = spans.AttrWorkflow
		case l.GetName() == "error_type" && l.GetValue() == tally.NoError:
			continue
		case key == "":
			key = "ferment." + l.GetName()
		}
		s.Attrs[key] = l.GetValue()
	}
	if f.OTel == spans.MetricTokens || f.OTel == spans.MetricModelTime {
		s.Attrs[spans.AttrOperationName] = spans.OperationChat
	}
	switch f.Kind {
	case Counter:
		s.Value = from.GetCounter().GetValue()
	case Gauge:
		s.Value = from.GetGauge().GetValue()
	case Histogram:
		h, below := from.GetHistogram(), uint64(0)
		s.Count, s.Sum = h.GetSampleCount(), h.GetSampleSum()
		for _, b := range h.GetBucket() {
			s.Bounds = append(s.Bounds, b.GetUpperBound())
			s.Buckets = append(s.Buckets, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
		s.Buckets = append(s.Buckets, s.Count-below)
	}
	return s
}
