package launch

import "sync"

// backlog counts the bytes read from a pipe, to detect when all bytes that were
// written up to one moment have been handled.
type backlog struct {
	mu sync.Mutex
	// taken is the number of bytes read from the pipe, handled the number of
	// those that are processed, except for an incomplete line.
	taken, handled int64
	marked         bool
	target         int64
	reached        chan struct{} // closed when handled reaches target
	closed         bool
}

func newBacklog() *backlog { return &backlog{reached: make(chan struct{})} }

// asks records that the reader requests more bytes, so it has processed the
// earlier ones.
func (b *backlog) asks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handled = b.taken
	b.settle()
}

// take reads without blocking and counts the bytes.
func (b *backlog) take(read func() (int, error)) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := read()
	b.taken += int64(max(n, 0))
	return n, err
}

// mark sets the target; pending returns the number of bytes in the pipe.
func (b *backlog) mark(pending func() int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marked {
		return
	}
	b.marked, b.target = true, b.taken+int64(pending())
	b.settle()
}

// ends records that the reader has stopped.
func (b *backlog) ends() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked, b.target = true, b.handled
	b.settle()
}

func (b *backlog) settle() {
	if b.marked && b.handled >= b.target && !b.closed {
		b.closed = true
		close(b.reached)
	}
}
