package otlp

import (
	"context"
	"sync"
	"sync/atomic"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// dropped is the number of items that no collector has received.
type dropped = atomic.Int64

// queue limits the number of items that wait for the collector or are being sent. The processors of
// the SDK have queues of the same size, so they never drop items: their drops could not be counted.
type queue struct {
	what    string
	limit   int
	dropped *dropped
	outage  *outage
	life    context.Context // its end cancels exports in progress

	mu      sync.Mutex
	waiting int
	closed  bool
}

// enter reserves a place for one item. If the queue is full, it counts the item as dropped and
// returns false.
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

// leave releases the places of n items that were exported, or lost if err is not nil.
func (q *queue) leave(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return // already counted as dropped
	}
	q.waiting -= n
	if err != nil {
		q.dropped.Add(int64(n))
	}
	q.outage.note(q.what, q.dropped.Load(), err)
}

// bound returns a context that also ends with q.life.
func (q *queue) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(q.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// close counts the remaining items as dropped.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.dropped.Add(int64(q.waiting))
}

// spanExporter releases the places of exported spans in their queue. It returns no error, because
// the SDK would write it to standard error.
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

// eventExporter releases the places of exported events in their queue. It returns no error either.
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
