package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cleaning configures Clean.
type Cleaning struct {
	// MaxChars is the maximum length of the result in code points, 0 for no
	// limit.
	MaxChars int
	// Language is the language of the text, "" if unknown.
	Language string
	// Packs are the language packs, nil for the shipped ones.
	Packs *Packs
	// KeepCalls is set if the text is a value whose form the request states: a tool
	// call in it is content.
	KeepCalls bool
	// Collapse reduces several blank lines to one, outside of fences.
	Collapse bool
}

// Cleaned is the result of Clean.
type Cleaned struct {
	Text  string
	Calls []ToolCall
	// Broken is set if a tool call could not be read.
	Broken bool
	// Cut is set if the text was shortened.
	Cut bool
}

// Clean removes control characters, reasoning and tool calls from a text, trims it,
// and applies the limit, in this order.
func Clean(raw string, c Cleaning) Cleaned { return c.finish(WithoutReasoning(WithoutControls(raw))) }

// WithoutControls removes control characters that are not white space. They have
// no use in a text, and providers reject a message that contains a NUL.
func WithoutControls(s string) string {
	if strings.IndexFunc(s, useless) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if useless(r) {
			return -1
		}
		return r
	}, s)
}

// useless reports whether a character is a control character that is not white space.
func useless(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// finish does the steps after the removal of reasoning.
func (c Cleaning) finish(s string) Cleaned {
	var out Cleaned
	if !c.KeepCalls {
		out.Calls, s, out.Broken = toolCalls(s)
	}
	s = strings.TrimFunc(s, unicode.IsSpace)
	if c.Collapse {
		s = collapse(s)
	}
	out.Text, out.Cut = c.Packs.Limit(s, c.MaxChars, c.Language)
	return out
}

// collapse reduces several line breaks to two, outside of fences.
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

// maxHeld limits the bytes of an object that a Stream buffers before it waits
// for the end.
const maxHeld = 64 << 10

// Stream cleans a text that arrives in pieces. Its output is a prefix of the output
// of Clean for the whole text, which the caller computes at the end. It holds back
// everything that a later piece can change: possible tags (like filter), trailing
// blanks, a possible tool call, and with a limit the last 30 % of the allowed
// length and a fence until it is closed. It is not safe for concurrent use.
type Stream struct {
	clean   Cleaning
	filter  filter
	marks   marks
	over    bool // further output must wait for the whole text
	given   bool
	chars   int
	breaks  int
	pending []byte // blanks and fences after the released text
	fenced  bool   // inside a fence
	held    []byte // a possible tool call
	object  *object
	out     []byte
}

// NewStream returns a Stream that cleans like Clean.
func NewStream(c Cleaning) *Stream { return &Stream{clean: c, marks: newMarks()} }

// Write accepts a piece, which must end with a complete character, and returns
// the text that can be shown. If void is true, the text returned so far is
// invalid.
func (s *Stream) Write(piece string) (text string, void bool) {
	visible, void := s.filter.write(WithoutControls(piece))
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

// next processes one character.
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
	case !s.clean.KeepCalls && (c == "<" || c == "{"):
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

// release outputs buffered text that is not a tool call. Its last character may
// begin the next one.
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

// put outputs one character, or holds it back if it may have to be dropped.
func (s *Stream) put(c string) {
	r, _ := utf8.DecodeRuneInString(c)
	space := unicode.IsSpace(r)
	if space && !s.given && len(s.pending) == 0 {
		return // as in the whole text, which is trimmed before its code is found
	}
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
