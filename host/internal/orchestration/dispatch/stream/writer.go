package stream

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Text is recorded at most every chunkTime, or as soon as chunkSize bytes are
// pending, to limit the number of records (RUN-042).
const (
	chunkTime = 50 * time.Millisecond
	chunkSize = 4 << 10
)

// writer records the streamed text of a run at the answer node. It shows
// one attempt at a time.
type writer struct {
	record func(journal.Body) // AttemptChunk and AttemptRetracted
	clock  Clock
	pace   *Pace
	live   *Live

	mu        sync.Mutex
	current   *Attempt        // attempt that is shown; nil: none
	shown     strings.Builder // since the last retraction
	committed bool            // shown text cannot be retracted
	refused   bool            // the committed answer was refused

	pending  strings.Builder // shown but not recorded
	visible  string          // of the pending text
	recorded bool            // since the last retraction
	attempt  int
	chunk    int
	last     time.Time // of the last record
	timer    *flusher
}

// write shows text. mu must be held.
func (w *writer) write(text string, m Mode) {
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

// flush records the pending text in chunks. mu must be held.
func (w *writer) flush() {
	text := w.pending.String()
	if text == "" {
		return
	}
	w.pending.Reset()
	w.last, w.recorded = w.clock.Now(), true
	for text != "" {
		piece := truncate(text, chunkSize)
		text = text[len(piece):]
		said := journal.RefTo(edn.Text(piece))
		w.record(&journal.AttemptChunk{Attempt: w.attempt, Chunk: w.chunk, Value: said, Visible: w.visible})
		w.chunk++
	}
}

// truncate returns the start of a text, up to most bytes, cut between characters.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 1 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// retract takes back all shown text. mu must be held.
func (w *writer) retract(reason string) {
	w.pace.Read(w.pending.Len()) // the dropped text is not read
	w.pending.Reset()
	if w.recorded {
		w.record(&journal.AttemptRetracted{Attempt: w.attempt, Reason: reason})
	}
	w.shown.Reset()
	w.current, w.recorded = nil, false
}

// markRefused records that the committed text was refused. mu must be held.
func (w *writer) markRefused(reason string) {
	w.flush()
	w.refused = true
	w.record(&journal.AttemptRetracted{Attempt: w.attempt, Reason: reason})
}

// commit shows the whole accepted text. mu must be held.
func (w *writer) commit(s *Attempt, text string) {
	switch shown := w.shown.String(); {
	case w.current != nil && !w.current.worksFor(s):
		w.retract("race/lost")
	case !strings.HasPrefix(text, shown) && !w.committed:
		w.retract("stream/malformed")
	}
	w.current = s
	if rest, ok := strings.CutPrefix(text, w.shown.String()); ok {
		w.write(rest, GatePassed)
	}
	w.flush()
}

// flusher is a scheduled flush.
type flusher struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// flushLater schedules a flush after d. mu must be held.
func (w *writer) flushLater(d time.Duration) {
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

// stop cancels the scheduled flush and flushes.
func (w *writer) stop() {
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
