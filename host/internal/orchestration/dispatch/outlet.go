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
type outlet struct {
	record func(journal.Body) // AttemptChunk and AttemptRetracted
	clock  Clock
	pace   *Pace

	mu     sync.Mutex
	holder *voice          // who is heard; nil: nobody
	shown  strings.Builder // since the last retraction
	bound  bool            // what is shown cannot be taken back
	marked bool            // it was refused all the same

	pending strings.Builder // shown and not recorded
	visible string          // of what is pending
	told    bool            // anything since the last retraction
	attempt int
	chunk   int
	last    time.Time // of the last record
	timer   *flusher
}

// put shows text. It needs mu.
func (o *outlet) put(text string, m mode) {
	if text == "" {
		return
	}
	visible := journal.VisibleChunk
	switch m {
	case revocable:
		visible = journal.VisibleProvisional
	case asItComes:
		o.bound = true
	}
	if visible != o.visible {
		o.flush()
		o.visible = visible
	}
	if o.attempt != o.holder.attempt {
		o.flush()
		o.attempt, o.chunk = o.holder.attempt, 0
	}
	o.shown.WriteString(text)
	o.pending.WriteString(text)
	o.pace.add(len(text))
	if wait := chunkTime - o.clock.Now().Sub(o.last); wait > 0 && o.pending.Len() < chunkSize {
		o.later(wait)
		return
	}
	o.flush()
}

// flush records what is pending, in pieces. It needs mu.
func (o *outlet) flush() {
	text := o.pending.String()
	if text == "" {
		return
	}
	o.pending.Reset()
	o.last, o.told = o.clock.Now(), true
	for text != "" {
		piece := cut(text, chunkSize)
		text = text[len(piece):]
		o.record(&journal.AttemptChunk{Attempt: o.attempt, Chunk: o.chunk, Text: piece, Visible: o.visible})
		o.chunk++
	}
}

// cut gives the begin of a text that ends with a whole character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 1 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// retract takes back all that is shown. It needs mu.
func (o *outlet) retract(reason string) {
	o.pace.Read(o.pending.Len()) // nobody will
	o.pending.Reset()
	if o.told {
		o.record(&journal.AttemptRetracted{Attempt: o.attempt, Reason: reason})
	}
	o.shown.Reset()
	o.holder, o.told = nil, false
}

// mark says that what is shown, and stays, was refused. It needs mu.
func (o *outlet) mark(reason string) {
	o.flush()
	o.marked = true
	o.record(&journal.AttemptRetracted{Attempt: o.attempt, Reason: reason})
}

// settle shows the whole of the accepted text, whatever was shown before. It
// needs mu.
func (o *outlet) settle(v *voice, text string) {
	switch shown := o.shown.String(); {
	case o.holder != nil && !o.holder.within(v):
		o.retract("race/lost")
	case !strings.HasPrefix(text, shown) && !o.bound:
		o.retract("stream/malformed")
	}
	o.holder = v
	if rest, ok := strings.CutPrefix(text, o.shown.String()); ok {
		o.put(rest, afterGates)
	}
	o.flush()
}

// flusher records what is pending after a while.
type flusher struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// later has what is pending recorded after d. It needs mu.
func (o *outlet) later(d time.Duration) {
	if o.timer != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &flusher{cancel: cancel, done: make(chan struct{})}
	o.timer = t
	go func() {
		defer close(t.done)
		err := o.clock.Wait(ctx, d)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.timer == t {
			o.timer = nil
		}
		if err == nil {
			o.flush()
		}
	}()
}

// rest ends the timer: nothing of the outlet goes on by itself.
func (o *outlet) rest() {
	o.mu.Lock()
	t := o.timer
	o.timer = nil
	o.flush()
	o.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}
