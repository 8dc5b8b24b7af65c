package dispatch

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
)

// Text is recorded at most every chunkTime, but for chunkSize bytes at once, so
// that a talkative plugin does not make a record of every word (RUN-042).
const (
	chunkTime = 50 * time.Millisecond
	chunkSize = 4 << 10
)

// outlet is where the text of a run's answer leaves the run: as records of the
// answer node. One attempt is heard at a time.
type streamWriter struct {
	record func(journal.Body) // AttemptChunk and AttemptRetracted
	clock  Clock
	pace   *Pace

	mu        sync.Mutex
	current   *attemptStream  // who is heard; nil: nobody
	shown     strings.Builder // since the last retraction
	committed bool            // what is shown cannot be taken back
	refused   bool            // it was refused all the same

	pending  strings.Builder // shown and not recorded
	visible  string          // of what is pending
	recorded bool            // anything since the last retraction
	attempt  int
	chunk    int
	last     time.Time // of the last record
	timer    *flusher
}

// put shows text. It needs mu.
func (w *streamWriter) write(text string, m mode) {
	if text == "" {
		return
	}
	visible := journal.VisibleChunk
	switch m {
	case provisional:
		visible = journal.VisibleProvisional
	case firstToken:
		w.committed = true
	}
	if visible != w.visible {
		w.flush()
		w.visible = visible
	}
	if w.attempt != w.current.attempt {
		w.flush()
		w.attempt, w.chunk = w.current.attempt, 0
	}
	w.shown.WriteString(text)
	w.pending.WriteString(text)
	w.pace.add(len(text))
	if wait := chunkTime - w.clock.Now().Sub(w.last); wait > 0 && w.pending.Len() < chunkSize {
		w.flushLater(wait)
		return
	}
	w.flush()
}

// flush records what is pending, in pieces. It needs mu.
func (w *streamWriter) flush() {
	text := w.pending.String()
	if text == "" {
		return
	}
	w.pending.Reset()
	w.last, w.recorded = w.clock.Now(), true
	for text != "" {
		piece := truncate(text, chunkSize)
		text = text[len(piece):]
		w.record(&journal.AttemptChunk{Attempt: w.attempt, Chunk: w.chunk, Text: piece, Visible: w.visible})
		w.chunk++
	}
}

// cut gives the begin of a text that ends with a whole character.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 1 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// retract takes back all that is shown. It needs mu.
func (w *streamWriter) retract(reason string) {
	w.pace.Read(w.pending.Len()) // nobody will
	w.pending.Reset()
	if w.recorded {
		w.record(&journal.AttemptRetracted{Attempt: w.attempt, Reason: reason})
	}
	w.shown.Reset()
	w.current, w.recorded = nil, false
}

// mark says that what is shown, and stays, was refused. It needs mu.
func (w *streamWriter) markRefused(reason string) {
	w.flush()
	w.refused = true
	w.record(&journal.AttemptRetracted{Attempt: w.attempt, Reason: reason})
}

// settle shows the whole of the accepted text, whatever was shown before. It
// needs mu.
func (w *streamWriter) commit(s *attemptStream, text string) {
	switch shown := w.shown.String(); {
	case w.current != nil && !w.current.worksFor(s):
		w.retract("race/lost")
	case !strings.HasPrefix(text, shown) && !w.committed:
		w.retract("stream/malformed")
	}
	w.current = s
	if rest, ok := strings.CutPrefix(text, w.shown.String()); ok {
		w.write(rest, gatePassed)
	}
	w.flush()
}

// flusher records what is pending after a while.
type flusher struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// later has what is pending recorded after d. It needs mu.
func (w *streamWriter) flushLater(d time.Duration) {
	if w.timer != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &flusher{cancel: cancel, done: make(chan struct{})}
	w.timer = t
	go func() {
		defer close(t.done)
		err := w.clock.Wait(ctx, d)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer == t {
			w.timer = nil
		}
		if err == nil {
			w.flush()
		}
	}()
}

// rest ends the timer: nothing of the outlet goes on by itself.
func (w *streamWriter) stop() {
	w.mu.Lock()
	t := w.timer
	w.timer = nil
	w.flush()
	w.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}
