package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// text is a string outside the answer text, such as an id; empty if the
// provider writes null or another type.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	return nil
}

// spoken is a piece of a model's text. It may begin or end inside a character,
// see chat.Seam. Lists of parts, which some servers send for plain text, are
// joined; reasoning and refusals among the parts are separate. A piece or a part
// of another type is unreadable: without it the text would have a gap.
type spoken struct {
	text, reasoning, refusal string
	unreadable               bool
}

func (s *spoken) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
	case '"':
		s.text = unquote(b)
	case '[':
		var parts []spokenPart
		s.unreadable = json.Unmarshal(b, &parts) != nil
		for _, p := range parts {
			if p.reasons() {
				s.reasoning += p.Thinking.text + p.Summary.text + p.Text.text
				continue
			}
			s.text += p.Text.text
			s.refusal += string(p.Refusal)
			s.unreadable = s.unreadable || p.unreadable()
		}
	default:
		s.unreadable = true
	}
	return nil
}

// spokenPart is a part of a text that is sent as a list.
type spokenPart struct {
	Type     text   `json:"type"`
	Text     spoken `json:"text"`
	Thinking spoken `json:"thinking"`
	Summary  spoken `json:"summary"`
	Refusal  text   `json:"refusal"`
	Value    spoken `json:"value"` // in other formats
}

// reasons reports whether the part is reasoning, in the form of Mistral
// (client-python, models/contentchunk.py, 2026-11-27) or of Databricks (query
// reasoning models; tidyverse/ellmer#822, 2026-11-28).
func (p spokenPart) reasons() bool { return p.Type == "thinking" || p.Type == "reasoning" }

// unreadable reports whether the part may hold a text in an unknown form. The type
// reference of Mistral has no text of the answer.
func (p spokenPart) unreadable() bool {
	known := []text{"", "text", "output_text", "refusal", "reference"}
	return p.Text.unreadable || p.Text.text == "" && (p.Value.text != "" || !slices.Contains(known, p.Type))
}

// unreadable reports whether a piece of an event cannot be read.
func unreadable(pieces ...spoken) bool {
	for _, p := range pieces {
		if p.unreadable {
			return true
		}
	}
	return false
}

// unquote decodes a JSON string. Unlike encoding/json it keeps bytes that are
// not UTF-8, and it writes a lone surrogate as three bytes: the next piece may
// complete it.
func unquote(b []byte) string {
	if utf8.Valid(b) && !bytes.Contains(b, []byte(`\u`)) {
		var s string
		_ = json.Unmarshal(b, &s) // the decoder has verified that it is a string
		return s
	}
	var out strings.Builder
	for b = b[1 : len(b)-1]; len(b) > 0; {
		switch {
		case b[0] != '\\':
			out.WriteByte(b[0])
			b = b[1:]
		case b[1] == 'u':
			n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
			b = b[6:]
			if n >= 0xD800 && n < 0xE000 {
				out.Write([]byte{0xED, byte(0x80 | n>>6&0x3F), byte(0x80 | n&0x3F)})
			} else {
				out.WriteRune(rune(n))
			}
		default:
			escaped := b[1]
			if i := strings.IndexByte("bfnrt", escaped); i >= 0 {
				escaped = "\b\f\n\r\t"[i]
			}
			out.WriteByte(escaped)
			b = b[2:]
		}
	}
	return out.String()
}

// count is a number of tokens, -1 if the provider writes another type.
type count int64

func (c *count) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	if *c = -1; err == nil && f >= 0 && f < 1<<53 && f == float64(int64(f)) {
		*c = count(f)
	}
	return nil
}

// set stores a count if it was stated. A 0 after another figure states nothing.
func (c *count) set(to *int64) {
	if c != nil && *c >= 0 && (*c > 0 || *to < 0) {
		*to = int64(*c)
	}
}

// loose decodes an object without its fields of unexpected types; ok is false
// if raw is not an object.
func loose[T any](raw json.RawMessage) (v T, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return v, false
	}
	var kind *json.UnmarshalTypeError
	err := json.Unmarshal(raw, &v)
	return v, err == nil || errors.As(err, &kind)
}

// fieldOf returns a field of an object, nil if there is none.
func fieldOf(raw json.RawMessage, name string) json.RawMessage {
	if name == "" || !bytes.Contains(raw, []byte(`"`+name+`"`)) {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields[name]
}

// fragments is a list of objects that arrives in fragments. Neighbors with the
// same type and index are one object: its texts are joined, and of other fields
// the last value counts.
type fragments []fragment

// fragment is one object of the list. texts are the values of the fields that have
// grown, in place of those in fields.
type fragment struct {
	fields map[string]json.RawMessage
	texts  map[string]*strings.Builder
}

// add adds a list; it returns false if it is not one.
func (f *fragments) add(list json.RawMessage) bool {
	var more []map[string]json.RawMessage
	if json.Unmarshal(list, &more) != nil {
		return false
	}
	for _, next := range more {
		n := len(*f)
		if n == 0 || !present(next["index"]) || !(*f)[n-1].same(next, "index") || !(*f)[n-1].same(next, "type") {
			*f = append(*f, fragment{next, map[string]*strings.Builder{}})
			continue
		}
		last := (*f)[n-1]
		for name, v := range next {
			if (present(v) || last.fields[name] == nil) && !last.grow(name, v) {
				last.fields[name] = v
				delete(last.texts, name)
			}
		}
	}
	return true
}

// grow appends a piece to a text; it returns false if one of them is not a text.
func (f fragment) grow(name string, piece json.RawMessage) bool {
	var head, tail string
	if !slices.Contains([]string{"text", "summary", "data"}, name) || json.Unmarshal(piece, &tail) != nil {
		return false
	}
	if f.texts[name] == nil {
		if json.Unmarshal(f.fields[name], &head) != nil {
			return false
		}
		f.texts[name] = &strings.Builder{}
		f.texts[name].WriteString(head)
	}
	f.texts[name].WriteString(tail)
	return true
}

func (f fragment) same(next map[string]json.RawMessage, name string) bool {
	return bytes.Equal(f.fields[name], next[name])
}

func (f fragments) String() string {
	var all []map[string]json.RawMessage
	for _, part := range f {
		fields := maps.Clone(part.fields)
		for name, text := range part.texts {
			fields[name], _ = marshal(text.String()) // a string can be written
		}
		all = append(all, fields)
	}
	text, _ := marshal(all) // parts of a valid event
	return string(text)
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// reported reports whether an error field contains an error.
func reported(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", `""`, "{}", "[]", "false", "0":
		return false
	}
	return true
}

// said appends a piece of the text in the block with the index.
func said(index int, s spoken, into *chat.Answer) []chat.Piece {
	if s.text == "" {
		return nil
	}
	return piece(chat.TextPiece, into.AddText(index, s.text))
}

// thought appends a piece of the reasoning in the block with the index.
func thought(index int, s string, into *chat.Answer) []chat.Piece {
	if s == "" {
		return nil
	}
	return piece(chat.ReasoningPiece, into.AddReasoning(index, s))
}

func piece(kind chat.Kind, text string) []chat.Piece {
	if text == "" {
		return nil
	}
	return []chat.Piece{{Kind: kind, Text: text}}
}

// called appends a piece of a call's arguments. A call is reported from its
// beginning on, even without arguments.
func called(call *chat.RawCall, args string, into *chat.Answer) []chat.Piece {
	return []chat.Piece{{Kind: chat.ToolCallPiece, Text: into.AddArgs(call, args), Call: call}}
}

// calledOn appends a piece of the arguments of the call with the index.
func calledOn(index int, args string, into *chat.Answer) []chat.Piece {
	if args == "" {
		return nil
	}
	call, _ := into.Call(index)
	return called(call, args, into)
}

// elsewhereText are fields in which other formats send the text of an answer.
var elsewhereText = []string{"text", "content", "delta", "message", "response", "output_text", "completion", "value"}

// holdsText reports whether a value holds a text in one of these fields, except
// those that the caller has read. An event without a piece that holds one is
// unreadable: its text would be missing.
func holdsText(raw json.RawMessage, read ...string) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case '"':
		return len(raw) > len(`""`)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // a part of a valid event
		return slices.ContainsFunc(list, func(v json.RawMessage) bool { return holdsText(v) })
	case '{':
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(raw, &fields)
		return textIn(fields, read...)
	}
	return false
}

// textIn is holdsText for the fields of an object.
func textIn(fields map[string]json.RawMessage, read ...string) bool {
	return slices.ContainsFunc(elsewhereText, func(name string) bool {
		return !slices.Contains(read, name) && holdsText(fields[name])
	})
}

// finishes maps the finish reasons of a format.
type finishes map[string]chat.Finish

// badness orders finish reasons. Servers may send several: the worst one holds.
var badness = []chat.Finish{chat.Unfinished, chat.Stop, chat.ToolCalls, chat.Length, chat.Refused, chat.Failed}

// finish records a finish reason unless a worse one was stated; an unknown one
// is a failure.
func (f finishes) finish(word text, into *chat.Answer) {
	is, known := f[string(word)]
	if !known {
		is = chat.Failed
	}
	if slices.Index(badness, is) >= slices.Index(badness, into.Finish) {
		into.FinishWord, into.Finish = string(word), is
	}
}
