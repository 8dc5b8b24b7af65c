package stream

import (
	"context"
	"sync"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// Names of the events that Live shows.
const (
	// LiveProgress is progress of the capability of the answer node; its value is the
	// one that the plugin sent.
	LiveProgress = "progress"
	// LiveDelta is a part of the answer that is not text.
	LiveDelta = "delta"
)

// Live forwards progress and values, but not text, of the plugin of the answer
// node to the reader of a run. These events are not recorded: a reader that comes
// later does not see them. A slow reader blocks the plugin. A nil Live forwards
// nothing. It is safe for concurrent use.
type Live struct {
	open, closed chan struct{}

	mu   sync.Mutex
	show func(journal.Event)
}

// NewLive returns a Live for one reader, which calls Open when it begins to read
// and Close when it stops. Until then, events wait for it.
func NewLive() *Live { return &Live{open: make(chan struct{}), closed: make(chan struct{})} }

// Open begins the reading: show is called with each event, one at a time, on the
// goroutine that reports it. Open must be called at most once, and before Close.
func (l *Live) Open(show func(journal.Event)) {
	if l == nil {
		return
	}
	l.show = show
	close(l.open)
}

// Close ends the reading. No event is shown afterwards. It must be called at
// most once.
func (l *Live) Close() {
	if l == nil {
		return
	}
	close(l.closed)
	l.mu.Lock() // waits for the event that is being shown
	defer l.mu.Unlock()
	l.show = nil
}

// send shows an event. It blocks until the reader begins or ctx ends, then until the
// reader has taken the event, even if ctx ends. It drops the event if the reader has
// stopped or ctx ends first.
func (l *Live) send(ctx context.Context, e journal.Event) {
	if l == nil {
		return
	}
	select {
	case <-l.open:
	case <-l.closed:
		return
	case <-ctx.Done():
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.show != nil {
		l.show(e)
	}
}
