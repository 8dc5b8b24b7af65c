package sdk

import (
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Stream sends what a call has to say before its answer. Its methods are safe
// for concurrent use. They block while the host does not read, which it does
// not while whoever waits for the text is behind: a function that produces
// faster than it is read need not do anything else about that, and must not
// keep what it has not sent yet. They fail when the caller is gone; a function
// does well to return then. When text is shown, and to whom, is for the host to
// say; it may be taken back if the answer is not accepted.
type Stream struct {
	mu  sync.Mutex
	out *wire.Emitter
	seq int64
}

// Text sends a piece of the answer's text.
func (s *Stream) Text(text string) error { return s.delta("text", text) }

// Reasoning sends a piece of text that leads to the answer and is no part of
// it.
func (s *Stream) Reasoning(text string) error { return s.delta("reasoning", text) }

func (s *Stream) delta(kind, text string) error {
	var m edn.MapBuilder
	m.Key("kind", edn.K(kind))
	m.Key("text", edn.Text(text))
	return s.Delta(m.Map())
}

// Delta sends a piece of the answer of another kind: a map with :kind. The
// stream numbers the pieces from 1 (:seq).
func (s *Stream) Delta(piece edn.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	var seq edn.MapBuilder
	seq.Key("seq", edn.Int(s.seq))
	return s.out.Delta(merged(piece, seq.Map()))
}

// Progress says that work goes on, so that silence is not taken for a hang. v
// is anything worth knowing, or nil.
func (s *Stream) Progress(v edn.Value) error { return s.out.Progress(v) }

// Verbatim sends body as the whole response, unchecked, and ends the call. It
// is for plugins that test hosts.
func (s *Stream) Verbatim(body []byte) error { return s.out.Verbatim(body) }
