package launch

import "sync"

// backlog counts what went through a pipe, to tell when everything was dealt
// with that had been written up to one moment.
type backlog struct {
	mu sync.Mutex
	// taken bytes were read from the pipe; with those that came before them,
	// dealt bytes were dealt with, but for a line that has not ended.
	taken, dealt int64
	marked       bool
	target       int64
	reached      chan struct{} // closed when dealt has come to target
	closed       bool
}

func newBacklog() *backlog { return &backlog{reached: make(chan struct{})} }

// asks says that the reader wants more: it has dealt with what it has.
func (b *backlog) asks() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dealt = b.taken
	b.settle()
}

// take reads without waiting and counts what it got.
func (b *backlog) take(read func() (int, error)) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := read()
	b.taken += int64(max(n, 0))
	return n, err
}

// mark sets the moment: pending gives how many bytes lie in the pipe.
func (b *backlog) mark(pending func() int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marked {
		return
	}
	b.marked, b.target = true, b.taken+int64(pending())
	b.settle()
}

// ends says that the reader has stopped: nothing is left to wait for.
func (b *backlog) ends() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked, b.target = true, b.dealt
	b.settle()
}

func (b *backlog) settle() {
	if b.marked && b.dealt >= b.target && !b.closed {
		b.closed = true
		close(b.reached)
	}
}
