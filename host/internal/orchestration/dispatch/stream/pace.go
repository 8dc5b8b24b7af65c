package stream

import (
	"context"
	"sync"
)

// maxUnread is the number of shown but unread bytes above which the plugin is
// blocked.
const maxUnread = 256 << 10

// Pace blocks a plugin while the reader of its stream is behind. A nil Pace
// never blocks. It is safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	unread int
	closed bool
	freed  chan struct{} // closed when unread falls; nil without a waiter
}

// NewPace returns the Pace of one reader, which calls Read after it has read and
// Close when it stops reading.
func NewPace() *Pace { return &Pace{} }

// Read counts n more bytes as read. It does not block.
func (p *Pace) Read(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread -= n
	p.wake()
}

// Close marks the reader as gone: a plugin is no longer blocked.
func (p *Pace) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake()
}

func (p *Pace) wake() {
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

func (p *Pace) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread += n
}

// wait blocks until at most maxUnread bytes are unread, Close is called, or ctx ends.
func (p *Pace) wait(ctx context.Context) {
	if p == nil {
		return
	}
	for {
		p.mu.Lock()
		if p.closed || p.unread <= maxUnread {
			p.mu.Unlock()
			return
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return
		}
	}
}
