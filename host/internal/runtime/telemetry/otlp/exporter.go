package otlp

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/spans"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The protocols of a collector.
const (
	GRPC = "grpc"
	HTTP = "http"
)

// Settings selects what is exported, and the collector.
type Settings struct {
	// Endpoint is the URL of the collector: with scheme http there is no TLS. Over
	// HTTP, v1/traces, v1/logs and v1/metrics are appended to its path.
	Endpoint string
	Protocol string
	Headers  map[string]string // of each request
	Sample   float64           // share of runs that are exported, from 0 to 1
	Queue    int               // maximum number of waiting spans, and of waiting events
	Content  journal.Content
	// Version and Instance describe this process.
	Version, Instance string
}

// Exporter exports the spans and events of the runs that it observes, and metrics. Create it with
// New. It is safe for concurrent use.
type Exporter struct {
	outage outage
	spans  dropped
	events dropped
	points dropped // number of metric points
	source Source
	to     atomic.Pointer[pipeline] // nil: nothing is exported
	ending sync.WaitGroup

	mu   sync.Mutex
	set  *Settings
	runs map[string]*spans.Run // value nil: the run is not sampled
}

var _ journal.Observer = (*Exporter)(nil)

// New returns an exporter that exports nothing until Configure is called. metrics is the source of
// its metrics.
func New(log hclog.Logger, metrics Source) *Exporter {
	return &Exporter{outage: outage{log: log, now: time.Now}, source: metrics, runs: map[string]*spans.Run{}}
}

// Configure changes the settings; nil stops the export. Data that is queued under earlier settings
// is sent in the background. The collector need not be reachable. After an error the earlier
// settings stay.
func (x *Exporter) Configure(s *Settings) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if reflect.DeepEqual(s, x.set) {
		return nil
	}
	var next *pipeline
	if s != nil {
		var err error
		if next, err = newPipeline(s, x); err != nil {
			return err
		}
	}
	x.set = s
	clear(x.runs) // runs in progress are read again from their records
	if old := x.to.Swap(next); old != nil {
		x.ending.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
			defer cancel()
			old.close(ctx)
		})
	}
	return nil
}

// closeLimit is the time limit for sending queued data when a pipeline is closed.
const closeLimit = 2 * time.Second

// Close flushes the queue for at most 2 seconds and stops the exporter. Nothing may be recorded
// after Close.
func (x *Exporter) Close() {
	_ = x.Configure(nil) // cannot fail
	x.ending.Wait()
}

// Dropped returns the number of items that no collector has received, by signal: "spans", "events"
// and "metrics".
func (x *Exporter) Dropped() map[string]int64 {
	return map[string]int64{"spans": x.spans.Load(), "events": x.events.Load(), "metrics": x.points.Load()}
}

// Observe implements journal.Observer.
func (x *Exporter) Observe(rec journal.Record, past func() []journal.Record) {
	if x.to.Load() == nil || rec.Run == journal.HostRun || !spans.Reads(rec) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	to := x.to.Load()
	if to == nil {
		return
	}
	if r := x.run(to, rec, past); r != nil {
		r.Add(rec, to)
	}
	switch rec.Body.(type) {
	case *journal.RunFinished, *journal.RunSuspended:
		delete(x.runs, rec.Run)
	}
}

// run returns the state of the run of a record; nil if the run is not sampled. The earlier records
// of a run are read from past, without exporting them again.
func (x *Exporter) run(to *pipeline, rec journal.Record, past func() []journal.Record) *spans.Run {
	r, known := x.runs[rec.Run]
	if known {
		return r
	}
	var before []journal.Record
	if rec.Seq > 1 && past != nil {
		before = past()
	}
	if to.samples(rec.Run, traceOf(rec, before)) {
		r = &spans.Run{Content: x.set.Content}
		for _, old := range before {
			if old.Seq < rec.Seq {
				r.Add(old, nowhere{})
			}
		}
	}
	x.runs[rec.Run] = r
	return r
}

// traceOf returns the :trace of a run from its first record, which is in before or is rec; the EDN
// nil if there is none.
func traceOf(rec journal.Record, before []journal.Record) edn.Value {
	if len(before) > 0 {
		rec = before[0]
	}
	if accepted, ok := rec.Body.(*journal.RunAccepted); ok {
		return accepted.Trace
	}
	return edn.Nil()
}

// Samples reports whether the spans of a run with a :trace are exported.
func (x *Exporter) Samples(run string, trace edn.Value) bool {
	to := x.to.Load()
	return to != nil && to.samples(run, trace)
}

// nowhere is a spans.Sink that drops everything.
type nowhere struct{}

func (nowhere) Span(*spans.Span)   {}
func (nowhere) Event(*spans.Event) {}

// samples reports whether a run is exported, which holds for all of its epochs. A trace of the
// caller decides; otherwise the sampler does (TEL-005).
func (p *pipeline) samples(run string, trace edn.Value) bool {
	if parent, ok := spans.ParentOf(trace); ok {
		return parent.Sampled
	}
	first := spans.RunContext(run, 1)
	return p.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: first.Trace}).Decision == sdktrace.RecordAndSample
}
