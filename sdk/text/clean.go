package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cleaning says what is done with the text of a model.
type Cleaning struct {
	// MaxChars is the most code points of the result, 0 for no limit.
	MaxChars int
	// Language is that of the text, "" if it is not known.
	Language string
	// Packs are the languages, nil for those that ship.
	Packs *Packs
	// Collapse makes one blank line of several, outside of fences.
	Collapse bool
}

// Cleaned is what is left of the text of a model.
type Cleaned struct {
	Text  string
	Calls []ToolCall
	// Broken tells of a call that could not be read.
	Broken bool
	// Cut tells that the text was shortened.
	Cut bool
}

// Clean takes reasoning and calls out of a text, trims it, and holds it to its
// limit, in this order.
func Clean(raw string, c Cleaning) Cleaned { return c.finish(WithoutReasoning(raw)) }

// finish does what comes after the reasoning.
func (c Cleaning) finish(s string) Cleaned {
	var out Cleaned
	out.Calls, s, out.Broken = ToolCalls(s)
	s = strings.TrimFunc(s, unicode.IsSpace)
	if c.Collapse {
		s = collapse(s)
	}
	out.Text, out.Cut = c.Packs.Limit(s, c.MaxChars, c.Language)
	return out
}

// collapse makes two line breaks of more, outside of fences.
func collapse(s string) string {
	if !strings.Contains(s, "\n\n\n") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	m := newMarks()
	breaks := 0
	for i := 0; i < len(s); i++ {
		if m.code(s[i]) {
			breaks = 0
		} else if s[i] == '\n' {
			if breaks++; breaks > 2 {
				continue
			}
		} else {
			breaks = 0
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxHeld bounds what a Stream reads of an object before it waits for the end.
const maxHeld = 64 << 10

// Stream cleans a text that comes in pieces. What it gives is the beginning of
// what Clean gives for the whole; the rest is known when the whole is. It keeps
// back what a later piece can still change: possible tags (as Filter), blanks at
// the end, what may turn out to be a call, and with a limit the last 30 % of what
// that allows and a fence until it is closed. It is not safe for concurrent use.
type Stream struct {
	clean   Cleaning
	filter  Filter
	marks   marks
	over    bool // the rest has to wait for the whole
	given   bool
	chars   int
	breaks  int
	pending []byte // blanks and fences behind what was given
	fenced  bool   // a fence is being read
	held    []byte // what may be a call
	object  *object
	out     []byte
}

// NewStream is a Stream that cleans as Clean does.
func NewStream(c Cleaning) *Stream { return &Stream{clean: c, marks: newMarks()} }

// Write takes a piece, which ends with a whole character, and gives what can be
// shown. With void, what was given before is to be dropped.
func (s *Stream) Write(piece string) (text string, void bool) {
	visible, void := s.filter.Write(piece)
	if void {
		*s = Stream{clean: s.clean, filter: s.filter, marks: newMarks()}
	}
	s.out = s.out[:0]
	for visible != "" && !s.over {
		_, size := utf8.DecodeRuneInString(visible)
		s.next(visible[:size])
		visible = visible[size:]
	}
	return string(s.out), void
}

// next takes one character.
func (s *Stream) next(c string) {
	switch {
	case len(s.held) > 0:
		s.held = append(s.held, c...)
		switch {
		case s.held[0] == '<':
			s.holdTag(c)
		case s.object == nil:
			s.holdBegin(c)
		default:
			s.holdObject(c)
		}
	case c == "<" || c == "{":
		if before := s.marks; !before.code(c[0]) || before.mode != fence {
			s.held = append(s.held, c...)
			return
		}
		s.put(c)
	default:
		s.put(c)
	}
}

func (s *Stream) holdTag(c string) {
	switch {
	case string(s.held) == callOpen:
		s.over = true
	case !strings.HasPrefix(callOpen, string(s.held)):
		s.release(c)
	}
}

// holdBegin waits for the first key of an object.
func (s *Stream) holdBegin(c string) {
	switch {
	case c == `"`:
		s.object = &object{depth: 1, quoted: true}
	case !blank(c[0]) && c != "\n":
		s.release(c)
	case len(s.held) > 64:
		s.over = true
	}
}

func (s *Stream) holdObject(c string) {
	done := s.object.ends(c[0])
	switch {
	case len(s.held) > maxHeld:
		s.over = true
	case done && (strings.Contains(string(s.held), `"tool_call`) || strings.Contains(string(s.held), callOpen)):
		s.over = true
	case done:
		s.release("")
	}
}

// release gives what is no call. Its last character may begin the next one.
func (s *Stream) release(last string) {
	held := string(s.held[:len(s.held)-len(last)])
	s.held, s.object = s.held[:0], nil
	for held != "" && !s.over {
		_, size := utf8.DecodeRuneInString(held)
		s.put(held[:size])
		held = held[size:]
	}
	if last != "" && !s.over {
		s.next(last)
	}
}

// put gives one character, or keeps it if it may have to be dropped.
func (s *Stream) put(c string) {
	first := c[0]
	wasFence := s.marks.mode == fence
	code := s.marks.code(first)
	if s.clean.MaxChars > 0 {
		if s.chars >= min(s.clean.MaxChars, MaxChars)*7/10-1 {
			s.over = true
			return
		}
		s.fenced = wasFence || s.marks.mode == fence || s.marks.mode == fenceHead || s.marks.mode == running && s.marks.fresh
	}
	if s.collapsed(first, code) {
		return
	}
	r, _ := utf8.DecodeRuneInString(c)
	space := unicode.IsSpace(r)
	if space && !s.given && len(s.pending) == 0 {
		return
	}
	s.chars++
	s.pending = append(s.pending, c...)
	if space || s.fenced {
		return
	}
	s.given = true
	s.out = append(s.out, s.pending...)
	s.pending = s.pending[:0]
}

func (s *Stream) collapsed(c byte, code bool) bool {
	if c != '\n' || code {
		s.breaks = 0
		return false
	}
	s.breaks++
	return s.clean.Collapse && s.breaks > 2
}

// object follows the brackets of an object.
type object struct {
	depth   int
	quoted  bool
	escaped bool
}

// ends reads one byte behind the first key's quote and tells whether it is the
// bracket that closes the object.
func (o *object) ends(c byte) bool {
	switch {
	case o.escaped:
		o.escaped = false
	case o.quoted && c == '\\':
		o.escaped = true
	case c == '"':
		o.quoted = !o.quoted
	case o.quoted:
	case c == '{':
		o.depth++
	case c == '}':
		o.depth--
	}
	return o.depth == 0
}
