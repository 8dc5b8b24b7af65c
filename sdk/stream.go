package sdk

import (
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// Stream sends parts of an answer before the call returns. Its methods are safe
// for concurrent use. They block while the receiver of the text is slower than
// the function, so a function needs no queue of its own and must not keep
// unsent text. They return an error when the caller is gone; the function
// should return then. The host decides when and to which clients text is shown,
// and can retract it if the answer is rejected.
type Stream struct {
	mu  sync.Mutex
	out *wire.Emitter
	seq int64
}

// Text sends a part of the text of the answer.
func (s *Stream) Text(text string) error { return s.delta("text", text) }

// Reasoning sends reasoning text. It does not belong to the answer.
func (s *Stream) Reasoning(text string) error { return s.delta("reasoning", text) }

func (s *Stream) delta(kind, text string) error {
	var m edn.MapBuilder
	m.Key("kind", edn.K(kind))
	m.Key("text", edn.Text(text))
	return s.Delta(m.Map())
}

// Retract withdraws all text that was sent so far. A function calls it if that text
// is not its answer; the text that it sends afterwards is then the whole text.
// reason is an error type, such as schema/invalid; a reason that is not a valid
// keyword is left out. If the policy of the intent has already shown text that
// cannot be withdrawn, the call fails with :stream/malformed.
func (s *Stream) Retract(reason string) error {
	var m edn.MapBuilder
	m.Key("kind", edn.K("retract"))
	if typ, err := edn.Keyword(reason); err == nil {
		m.Key("reason", typ)
	}
	return s.Delta(m.Map())
}

// Delta sends a part of the answer of another kind: a map with :kind. The
// stream numbers the deltas from 1 (:seq).
func (s *Stream) Delta(piece edn.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	var seq edn.MapBuilder
	seq.Key("seq", edn.Int(s.seq))
	return s.out.Delta(merged(piece, seq.Map()))
}

// Progress reports that the call is still working, so that the host does not
// treat it as hung. v is any value, or nil.
func (s *Stream) Progress(v edn.Value) error { return s.out.Progress(v) }

// Verbatim sends body as the whole response, without checking it, and ends the
// call. It is meant for plugins that test hosts.
func (s *Stream) Verbatim(body []byte) error { return s.out.Verbatim(body) }
