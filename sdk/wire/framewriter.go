package wire

import (
	"runtime"
	"sync"
)

// mostTogether bounds the frames that share a message, in bytes, so that the
// first of them need not wait long for the last. A larger frame is alone.
const mostTogether = 48 << 10

// frameWriter sends the frames of one stream in the order in which they were
// put. Nobody waits for anybody else's frame: who finds the stream in use leaves
// the frame to whoever uses it.
type frameWriter struct {
	stream interface{ SendMsg(m any) error }
	wake   chan struct{} // there are frames for flush

	mu    sync.Mutex
	queue []frame
	spare []frame // room for the next queue
	busy  bool    // somebody sends, or flush was told to
	ended bool
}

func newFrameWriter(stream interface{ SendMsg(m any) error }) *frameWriter {
	return &frameWriter{stream: stream, wake: make(chan struct{}, 1)}
}

// put sends f soon. With here the calling goroutine may send it itself, which
// takes as long as the other side is behind by 64 KiB or more; without, and
// whenever others are about to send, flush does it, and several frames share a
// message and a system call. After the end of the stream f is dropped.
func (w *frameWriter) put(f frame, here bool) {
	if w.add(f) {
		w.start(here)
	}
}

// add is the first half of put: f has its place among the others. If it gives
// true, nobody is sending and start must be called.
func (w *frameWriter) add(f frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.queue = append(w.queue, f)
	first := !w.busy
	w.busy = true
	return first
}

// start is the second half.
func (w *frameWriter) start(here bool) {
	if here && !w.send() {
		return
	}
	w.wake <- struct{}{} // has room: only who made the writer busy gets here
}

// send sends one message of what is queued, and reports whether there is more;
// then the writer is still busy.
func (w *frameWriter) send() bool {
	w.mu.Lock()
	n, size := 0, 0
	for n < len(w.queue) && (n == 0 || size+w.queue[n].size() <= mostTogether) {
		size += w.queue[n].size()
		n++
	}
	batch := outgoing(w.queue[:n:n])
	rest := w.queue[n:]
	w.queue = append(w.spare[:0], rest...)
	w.mu.Unlock()
	err := error(nil)
	if n > 0 {
		err = w.stream.SendMsg(batch)
	}
	clear(batch)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.ended, w.queue = true, nil // who receives learns why
	}
	w.spare = batch[:0]
	w.busy = len(w.queue) > 0
	return w.busy
}

// flush sends until done is closed and the queue is empty. It lets whoever else
// is about to put a frame do so first.
func (w *frameWriter) flush(done <-chan struct{}) {
	for {
		select {
		case <-w.wake:
		case <-done:
			select {
			case <-w.wake:
			default:
				return
			}
		}
		runtime.Gosched()
		for w.send() {
			runtime.Gosched()
		}
	}
}
