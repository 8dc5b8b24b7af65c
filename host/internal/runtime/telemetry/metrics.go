package telemetry

import (
	"bytes"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
)

// Sample is one value of a family that is not counted from records.
type Sample struct {
	Family string
	Labels []string // in the order of the family
	Value  float64
}

// Owner provides the values that Metrics reads at each scrape. Its methods are safe for concurrent
// use.
type Owner interface {
	// Counts returns the counts of records since the start; nil before the start.
	Counts() *tally.Counts
	// Samples returns the values of families that are not counted from records.
	Samples() []Sample
	// Known reports whether the value of a label (intent, capability, gate or type) is in the
	// configuration or in the catalogue of errors.
	Known(label, value string) bool
}

// Metrics collects the metrics of a daemon in the format of Prometheus. Its methods are safe for
// concurrent use.
type Metrics struct {
	owner    Owner
	registry *prometheus.Registry
	max      int // maximum number of series of a family
	descs    map[string]*prometheus.Desc
	commits  *Commits

	mu sync.Mutex
	// shown holds the series of each family that were reported so far. They are kept when others
	// are added, so that no counter decreases because its series was merged into tally.Other.
	shown map[string]map[tally.Key]bool
}

// NewMetrics returns the metrics of owner and commits. A family has at most maxSeries series.
func NewMetrics(owner Owner, commits *Commits, maxSeries int) *Metrics {
	m := &Metrics{
		owner: owner, commits: commits, registry: prometheus.NewRegistry(), max: maxSeries,
		descs: map[string]*prometheus.Desc{}, shown: map[string]map[tally.Key]bool{},
	}
	for _, f := range families {
		m.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	m.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// SetMaxSeries changes the maximum number of series of a family. Series that were already reported
// are kept.
func (m *Metrics) SetMaxSeries(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.max = n
}

// Text returns all metrics in the text format of Prometheus.
func (m *Metrics) Text() ([]byte, error) {
	all, err := m.registry.Gather()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, family := range all {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range m.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.commits.collect(m.descs, to)
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.owner.Counts()
	for i := range families {
		if f := &families[i]; f.source == fromRecords && counts != nil {
			m.records(f, counts, to)
		}
	}
	owned := map[string]map[tally.Key]float64{}
	for _, s := range m.owner.Samples() {
		f := familyOf(s.Family)
		if f == nil {
			continue
		}
		if owned[f.Name] == nil {
			owned[f.Name] = map[tally.Key]float64{}
		}
		var k tally.Key
		copy(k.Labels[:], s.Labels)
		owned[f.Name][m.label(f, k, 1)] += s.Value
	}
	for name, series := range owned {
		f := familyOf(name)
		for k, v := range series {
			to <- prometheus.MustNewConstMetric(m.descs[name], valueType(f), v, k.Labels[:len(f.Labels)]...)
		}
	}
}

func familyOf(name string) *Family {
	if i := slices.IndexFunc(families, func(f Family) bool { return f.Name == name }); i >= 0 {
		return &families[i]
	}
	return nil
}

func valueType(f *Family) prometheus.ValueType {
	if f.Kind == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// powers are the upper bounds of the buckets of a histogram, as exponents of 2; the unit is a
// millisecond, or 1 for a Whole family.
var powers = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18}

// records sends the series of a family that is counted from records.
func (m *Metrics) records(f *Family, counts *tally.Counts, to chan<- prometheus.Metric) {
	labels := func(k tally.Key) []string { return k.Labels[:len(f.Labels)] }
	switch {
	case f.Kind == Histogram:
		series := map[tally.Key]*tally.Counts{}
		for _, k := range counts.Series(f.of) {
			shown := m.label(f, k, len(powers)+3)
			if series[shown] == nil {
				series[shown] = &tally.Counts{}
			}
			series[shown].Merge(&tally.Counts{Times: map[tally.Key]*tally.Durations{k: counts.Times[k]}})
		}
		for k, of := range series {
			d, unit := of.TimesOf(f.of, ""), 1000.0
			if f.Whole {
				unit = 1
			}
			buckets := map[float64]uint64{}
			for _, power := range powers {
				buckets[float64(int64(1)<<power)/unit] = uint64(d.Below(power))
			}
			to <- prometheus.MustNewConstHistogram(m.descs[f.Name], uint64(d.Count), float64(d.Sum.Milliseconds())/unit, buckets, labels(k)...)
		}
	default:
		series := map[tally.Key]float64{}
		if len(f.Labels) == 0 {
			series[tally.Key{Name: f.of}] = 0 // there before it is counted
		}
		for _, k := range counts.Series(f.of) {
			n := float64(counts.N[k])
			if usd := counts.USD[k]; usd != nil {
				n, _ = usd.Float64()
			}
			series[m.label(f, k, 1)] += n
		}
		for k, n := range series {
			to <- prometheus.MustNewConstMetric(m.descs[f.Name], prometheus.CounterValue, n, labels(k)...)
		}
	}
}

// label returns the labels under which a series is reported. Unknown names, and series above the
// limit, are reported as tally.Other. lines is the number of lines of the series, which count
// against the limit.
func (m *Metrics) label(f *Family, k tally.Key, lines int) tally.Key {
	for i, label := range f.Labels {
		switch label {
		case "intent", "capability", "gate", "type":
			if k.Labels[i] != tally.Other && !m.owner.Known(label, k.Labels[i]) {
				k.Labels[i] = tally.Other
			}
		case "error_type":
			if k.Labels[i] != tally.NoError && k.Labels[i] != tally.Other && !m.owner.Known("type", k.Labels[i]) {
				k.Labels[i] = tally.Other
			}
		}
	}
	shown := m.shown[f.Name]
	if shown == nil {
		shown = map[tally.Key]bool{}
		m.shown[f.Name] = shown
	}
	switch {
	case shown[k] || len(f.Labels) == 0:
	case (len(shown)+2)*lines <= m.max: // with that of tally.Other
		shown[k] = true
	default:
		for i := range f.Labels {
			k.Labels[i] = tally.Other
		}
	}
	return k
}

// Reasons counts events by a word, such as the cause of a restart. The zero value is ready to use.
// It is safe for concurrent use.
type Reasons struct {
	mu sync.Mutex
	n  map[string]int64
}

// Add counts one event. Beyond tally.MaxSeries different reasons, new ones are counted as
// tally.Other.
func (r *Reasons) Add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int64{}
	}
	if _, ok := r.n[reason]; !ok && len(r.n) >= tally.MaxSeries {
		reason = tally.Other
	}
	r.n[reason]++
}

// Expect adds reasons with the count 0, so that a rate includes their first event.
func (r *Reasons) Expect(reasons ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int64{}
	}
	for _, reason := range reasons {
		r.n[reason] += 0
	}
}

// All returns a copy of the counts by reason.
func (r *Reasons) All() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]int64, len(r.n))
	for reason, n := range r.n {
		out[reason] = n
	}
	return out
}

// Samples returns the counts as samples of a family.
func (r *Reasons) Samples(family string) (all []Sample) {
	for reason, n := range r.All() {
		all = append(all, Sample{family, []string{reason}, float64(n)})
	}
	return all
}
