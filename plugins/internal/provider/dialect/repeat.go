package dialect

import (
	"bytes"
	"encoding/json"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// repeating is a fast path for events that differ from the previous event only in their text, as
// nearly all events of a stream do. It compares the bytes before and after the text with those of
// the previous event instead of parsing them. All other events go to the Decoder.
type repeating struct {
	Decoder
	begun          func() int // the number of blocks that the Decoder saw begin; nil if it counts none
	key            []byte     // of the field with the text, with quotes and colon
	index          int        // of the block that the text belongs to
	before, behind []byte     // nil if the next event must be parsed
}

func newRepeating(d Decoder, key string, begun func() int) Decoder {
	return &repeating{Decoder: d, key: []byte(`"` + key + `":`), begun: begun}
}

func (r *repeating) Frame(data []byte, into *chat.Answer) ([]chat.Piece, error) {
	data = bytes.TrimSpace(data)
	if text, ok := r.text(data); ok && into.Finish == chat.Unfinished {
		return said(r.index, spoken{text: text}, into), nil
	}
	r.before = nil // the event may change how the Decoder decodes the next one
	before := r.state(into)
	pieces, err := r.Decoder.Frame(data, into)
	if err == nil && len(pieces) == 1 && pieces[0].Kind == chat.TextPiece && r.state(into) == before {
		r.learn(data, into)
	}
	return pieces, err
}

// text returns the text of an event that is otherwise equal to the previous one; ok is false if the
// event is not.
func (r *repeating) text(data []byte) (string, bool) {
	if r.before == nil {
		return "", false
	}
	rest, begins := bytes.CutPrefix(data, r.before)
	literal, ends := bytes.CutSuffix(rest, r.behind)
	if !begins || !ends || len(literal) == 0 || literal[0] != '"' || !json.Valid(literal) {
		return "", false
	}
	return unquote(literal), true
}

// learn stores the bytes around the text of an event that added a piece of text to the answer and
// changed nothing else. It requires that the key occurs once in data; a quote inside a JSON string
// is escaped, so an occurrence is never a part of the text.
func (r *repeating) learn(data []byte, into *chat.Answer) {
	at := bytes.Index(data, r.key)
	if len(into.Blocks) != 1 || at < 0 || at != bytes.LastIndex(data, r.key) {
		return
	}
	start := at + len(r.key)
	start += len(data[start:]) - len(bytes.TrimLeft(data[start:], " "))
	if data[start] != '"' {
		return
	}
	end := start + 1
	for ; data[end] != '"'; end++ {
		if data[end] == '\\' {
			end++
		}
	}
	r.before, r.behind, r.index = bytes.Clone(data[:start]), bytes.Clone(data[end+1:]), into.Blocks[0].Index
}

// state holds everything in an answer and its Decoder, other than text, that an event may change.
type state struct {
	usage                                  chat.Usage
	finish                                 chat.Finish
	model, id                              string
	refusal, calls, blocks, begun, damaged int
	ended, resumed                         bool
}

func (r *repeating) state(a *chat.Answer) state {
	s := state{
		usage: a.Usage, finish: a.Finish, model: a.Model, id: a.RequestID,
		refusal: a.Refusal.Len(), calls: len(a.Calls), blocks: len(a.Blocks), damaged: a.Damaged,
		ended: a.Ended, resumed: a.Resumed,
	}
	if r.begun != nil {
		s.begun = r.begun()
	}
	return s
}
