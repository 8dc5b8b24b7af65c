package wire

import (
	"runtime"
	"sync"
)

// mostTogether limits the frames that share a message, in bytes, so that the
// first of them is not delayed by the last. A larger frame is sent alone.
const mostTogether = 48 << 10

// frameWriter sends the frames of one stream in the order of put. put does not
// wait for other frames: if another goroutine is sending, that goroutine also
// sends the new frame.
type frameWriter struct {
	stream interface{ SendMsg(m any) error }
	wake   chan struct{} // there are frames for flush

	mu    sync.Mutex
	queue []frame
	spare []frame // buffer for the next queue
	busy  bool    // a goroutine is sending, or flush was woken
	ended bool
}

func newFrameWriter(stream interface{ SendMsg(m any) error }) *frameWriter {
	return &frameWriter{stream: stream, wake: make(chan struct{}, 1)}
}

// put queues f for sending. With here, the calling goroutine may send it
// itself, which blocks while the peer is 64 KiB or more behind. Otherwise, and
// whenever other goroutines are sending, flush sends it, and several frames
// share a message and a system call. After the end of the stream f is dropped.
func (w *frameWriter) put(f frame, here bool) {
	if w.add(f) {
		w.start(here)
	}
}

// add is the first half of put: it queues f. If it returns true, no goroutine
// is sending and the caller must call start.
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

// start is the second half of put.
func (w *frameWriter) start(here bool) {
	if here && !w.send() {
		return
	}
	w.wake <- struct{}{} // never blocks: only the goroutine that set busy gets here
}

// send sends one message of queued frames and reports whether more are queued;
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
		w.ended, w.queue = true, nil // the receiver reports the error
	}
	w.spare = batch[:0]
	w.busy = len(w.queue) > 0
	return w.busy
}

// flush sends until done is closed and the queue is empty. It yields first to
// other goroutines that are about to put a frame.
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
