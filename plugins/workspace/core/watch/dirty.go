package watch

import (
	"maps"
	"sync"
	"time"
)

// batch holds the paths that must be scanned.
type batch struct {
	all bool
	// overflow means that events were lost.
	overflow bool
	dirs     map[string]bool // whose entries may have changed
	trees    map[string]bool // of which anything may have changed
	gone     map[string]bool // paths where another file or directory may be now
}

func (b *batch) empty() bool {
	return !b.all && !b.overflow && len(b.dirs)+len(b.trees)+len(b.gone) == 0
}

func (b *batch) size() int { return len(b.dirs) + len(b.trees) + len(b.gone) }

// add merges another batch.
func (b *batch) add(other batch) {
	b.all, b.overflow = b.all || other.all, b.overflow || other.overflow
	if b.dirs == nil {
		b.dirs, b.trees, b.gone = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	maps.Copy(b.dirs, other.dirs)
	maps.Copy(b.trees, other.trees)
	maps.Copy(b.gone, other.gone)
}

// queue collects dirty paths until a scan takes them.
type queue struct {
	limit int
	wake  chan struct{} // receives after a mark

	mu   sync.Mutex
	next batch
	last time.Time // of the last mark
}

func newQueue(limit int) *queue { return &queue{limit: limit, wake: make(chan struct{}, 1)} }

// mark adds to the batch. If it gets too large, everything is dirty.
func (q *queue) mark(now time.Time, b batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = now
	if !q.next.overflow {
		q.next.add(b)
	}
	if q.next.overflow || q.next.size() > q.limit {
		q.next = batch{all: true, overflow: true}
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// restore puts a batch that could not be scanned back into the queue. It wakes no reader.
func (q *queue) restore(b batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next.add(b)
}

// lastMark returns the time of the last call of mark.
func (q *queue) lastMark() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// take returns the batch and begins a new one.
func (q *queue) take() batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.wake:
	default:
	}
	b := q.next
	q.next = batch{}
	return b
}
