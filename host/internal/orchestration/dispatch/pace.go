package dispatch

import (
	"context"
	"sync"
)

// maxUnread is how much shown text, in bytes, a run may be ahead of whoever
// reads it before the plugin is held back.
const maxUnread = 256 << 10

// Pace holds a plugin back while the reader of a stream is behind. A nil Pace
// holds nobody back. It is used by many goroutines.
type Pace struct {
	mu     sync.Mutex
	unread int
	closed bool
	freed  chan struct{} // closed when unread falls; nil while nobody waits
}

// NewPace is for a run that somebody reads: what was read has to be told with
// Read, and the end of reading with Close.
func NewPace() *Pace { return &Pace{} }

// Read says that n more bytes of text reached the reader.
func (p *Pace) Read(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread -= n
	p.wake()
}

// Close says that nobody reads any more, so that nobody has to wait either.
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

// wait returns when the reader is near enough, or ctx ends.
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
