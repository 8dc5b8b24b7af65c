package store

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// queue collects the work of the next commit (group commit). The writer takes it when a caller
// waits for it, when the queue is full, or after idleDelay: records that no caller waits for share
// the commit of the next one that a caller waits for.
type queue struct {
	mu     sync.Mutex
	next   *batch
	err    *contract.Error // set when the store failed; the error of all later appends
	due    bool            // the writer should take next
	early  bool            // the writer should execute records of next early
	wake   chan struct{}   // wakes the writer when due or early is set
	timer  *time.Timer     // wakes the writer after delay
	armed  bool            // the timer is running
	delay  time.Duration
	limit  int
	weight int // estimated bytes of a record

	waiting waiting
}

// idleDelay is the time after which records that no caller waits for are written. It bounds the
// delay of readers that follow a run, and the loss in a crash for a run without barriers.
const idleDelay = 2 * time.Millisecond

// batch is the work of one commit.
type batch struct {
	items []item
	// host holds records of the host; ended holds the summary entries of the runs that finish in
	// the batch.
	host, ended []hostItem
	// changes are counter changes that do not come from a record.
	changes []budget.Counter
	asks    []*ask
	jobs    []*job
	room    chan struct{}   // closed when the writer takes the batch; nil unless an append waits for it
	done    chan struct{}   // closed when the batch is durable or failed
	aside   bool            // records of the host were removed from the batch to wait for space
	err     *contract.Error // set before done is closed
}

// item is a record with its encoded text. The appending caller encodes it, because there is only
// one writer.
type item struct {
	run  *liveRun
	rec  journal.Record
	body []byte
}

func newItem(run *liveRun, rec journal.Record) item { return item{run, rec, rec.Value().Canonical()} }

// job is a change of the database other than records, executed in a transaction of its own.
type job struct {
	do   func(ctx context.Context) error
	err  error
	done chan struct{}
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// firstWeight is the estimated size of a record before the first one was written.
const firstWeight = 1 << 10

func (q *queue) init(limit int) {
	q.next, q.wake, q.limit, q.weight = newBatch(), make(chan struct{}, 1), limit, firstWeight
	q.delay, q.timer = idleDelay, time.AfterFunc(idleDelay, q.expire)
	q.timer.Stop()
}

// expire makes the writer take the batch when the delay is over.
func (q *queue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.armed { // otherwise the timer fired before it was stopped
		q.armed = false
		q.notify()
	}
}

// arm starts the delay after which the writer takes the batch. The caller holds the lock.
func (q *queue) arm() {
	q.armed = true
	q.timer.Reset(q.delay)
}

// disarm stops the timer. The caller holds the lock.
func (q *queue) disarm() {
	q.armed = false
	q.timer.Stop()
}

// notify makes the writer take the batch. The caller holds the lock.
func (q *queue) notify() {
	q.due = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add queues a record. It blocks while the queue is full, until ctx ends. The error is that of the
// failed store or of the broken run.
func (q *queue) add(ctx context.Context, it item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch err := q.makeRoom(ctx); {
	case err != nil:
		return err
	case q.err != nil:
		return q.err
	case it.run.fault != nil:
		return it.run.fault
	}
	if q.next.idle() {
		q.arm()
	}
	q.next.items = append(q.next.items, it)
	it.run.last = q.next
	return nil
}

// makeRoom blocks while the queue is full, until ctx ends. The caller holds the lock; makeRoom
// releases it while it blocks.
func (q *queue) makeRoom(ctx context.Context) error {
	for q.err == nil && q.next.records()*q.weight >= q.limit && q.next.records() > 0 {
		if q.next.room == nil {
			q.next.room = make(chan struct{})
		}
		room := q.next.room
		q.notify()
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			q.mu.Lock()
			return ctx.Err()
		}
		q.mu.Lock()
	}
	return nil
}

// count queues counter changes. wait makes the writer take them, and returns when they are durable,
// the store has failed or ctx ends.
func (q *queue) count(changes []budget.Counter) (wait func(ctx context.Context) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		err := q.err
		return func(context.Context) error { return err }
	}
	b := q.next
	if b.idle() {
		q.arm()
	}
	b.changes = append(b.changes, changes...)
	return func(ctx context.Context) error {
		q.hurry(b)
		return b.wait(ctx)
	}
}

// ask queues a request to reserve an amount, and waits until the answer is durable or
// ctx ends. The request stays queued if ctx ends.
func (q *queue) ask(ctx context.Context, a *ask) error {
	q.mu.Lock()
	if q.err != nil {
		defer q.mu.Unlock()
		return q.err
	}
	b := q.next
	b.asks = append(b.asks, a)
	q.notify()
	q.mu.Unlock()
	return b.wait(ctx)
}

// wait returns when the batch is durable or failed, or when ctx ends.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.err != nil {
		return b.err
	}
	return nil
}

// idle reports whether the batch has neither records nor counter changes nor reservations.
func (b *batch) idle() bool { return b.records()+len(b.changes)+len(b.asks) == 0 }

// records returns the number of records in the batch.
func (b *batch) records() int { return len(b.items) + len(b.host) }

// await makes the writer take the batch with the last record of r, and returns that batch.
func (q *queue) await(r *liveRun) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.last == q.next {
		q.notify()
	}
	return r.last
}

// hurry makes the writer take b, unless it has taken it already.
func (q *queue) hurry(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b == q.next {
		q.notify()
	}
}

// run queues a job and waits until it has ended, even if ctx ends in the meantime. If ctx has ended
// before, the job is not queued.
func (q *queue) run(ctx context.Context, do func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, done: make(chan struct{})}
	if err := q.post(j); err != nil {
		return err
	}
	<-j.done
	return j.err
}

// post queues a job and returns at once. The error is that of the failed store.
func (q *queue) post(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	q.next.jobs = append(q.next.jobs, j)
	q.notify()
	return nil
}

// take removes and returns the next batch if it is due or last is set; nil if not, or if it is
// empty.
func (q *queue) take(last bool) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.next
	due := q.due || last
	if q.due = false; b.idle() && len(b.jobs) == 0 && !b.aside || !due {
		return nil
	}
	q.disarm()
	q.next, q.early = newBatch(), false
	q.next.items = make([]item, 0, len(b.items))
	if b.room != nil {
		close(b.room)
	}
	return b
}

// learn adjusts the estimated size of a record after a batch was written.
func (q *queue) learn(bytes, records int) {
	q.mu.Lock()
	q.weight = max(1, (3*q.weight+bytes/max(1, records))/4)
	q.mu.Unlock()
}

// fail closes the queue: all waiting and later work gets err.
func (q *queue) fail(err *contract.Error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil || q.next == nil {
		return
	}
	q.err = err
	q.disarm()
	if q.next.room != nil {
		close(q.next.room)
	}
	q.next.finish(err)
	for _, j := range q.next.jobs {
		j.finish(err)
	}
	q.next = newBatch()
}

// finish wakes the callers that wait for the batch. err is nil if it is durable.
func (b *batch) finish(err *contract.Error) {
	b.err = err
	close(b.done)
}

func (j *job) finish(err error) {
	j.err = err
	close(j.done)
}
