package otlp

import (
	"context"
	"sync"
	"sync/atomic"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// dropped counts what no collector has received.
type dropped = atomic.Int64

// queue bounds what waits for the collector or is on its way to it. The processors of
// the SDK have queues of the same size, so they never drop anything: their drops could
// not be counted.
type queue struct {
	what    string
	limit   int
	dropped *dropped
	outage  *outage
	life    context.Context // ends what is on its way

	mu      sync.Mutex
	waiting int
	closed  bool
}

// enter reports whether there is room for one more; if not, it is counted as dropped.
func (q *queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.limit {
		q.dropped.Add(1)
		return false
	}
	q.waiting++
	return true
}

// leave takes n out of the queue that were exported, or lost with err.
func (q *queue) leave(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return // counted as dropped
	}
	q.waiting -= n
	if err != nil {
		q.dropped.Add(int64(n))
	}
	q.outage.note(q.what, q.dropped.Load(), err)
}

// bound returns a context that ends with the life of the queue too.
func (q *queue) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(q.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// close counts what still waits as dropped.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.dropped.Add(int64(q.waiting))
}

// spanExporter takes exported spans out of their queue. It returns no error: the SDK
// would write it to standard error.
type spanExporter struct {
	sdktrace.SpanExporter
	queue *queue
}

func (x spanExporter) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	ctx, cancel := x.queue.bound(ctx)
	defer cancel()
	x.queue.leave(len(all), x.SpanExporter.ExportSpans(ctx, all))
	return nil
}

// eventExporter does so for events.
type eventExporter struct {
	sdklog.Exporter
	queue *queue
}

func (x eventExporter) Export(ctx context.Context, all []sdklog.Record) error {
	ctx, cancel := x.queue.bound(ctx)
	defer cancel()
	x.queue.leave(len(all), x.Exporter.Export(ctx, all))
	return nil
}
