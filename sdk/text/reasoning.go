package text

import (
	"bytes"
	"regexp"
	"strings"
)

// filter removes the reasoning of a model from a text that arrives in pieces:
// blocks of <think>, <thinking> and <reasoning>, also nested ones. An unclosed
// block extends to the end. A closing tag without an opening one drops the text
// before it, because templates open the block in the prompt. Tags in code are
// content, and so are those in the strings of the value that the text is or begins with.
//
// Inside a block a closing tag always counts, because reasoning is full of
// unclosed code; an opening tag counts there only outside of code. If this ends a
// block too early, the next closing tag is outside of a block and drops the text
// before it.
//
// The output does not depend on how the text is split, and at most 11 bytes
// outside of a block are held back. The zero value is ready. A filter is not
// safe for concurrent use.
type filter struct {
	started bool
	outer   marks // of the output
	before  marks // the same, before a possible tag
	value   value // at the beginning of the output
	inner   marks // of the block
	inside  bool  // inside a block
	deep    int
	family  byte
	held    []byte // a possible beginning of a tag
	quote   int    // backticks around a quoted closing tag
	ticks   int    // of these, the number already read
	out     []byte
	void    bool
}

// write accepts a piece and returns the text that is certain. If void is true,
// the text returned so far is invalid.
func (f *filter) write(piece string) (text string, void bool) {
	if !f.started {
		f.started, f.outer = true, newMarks()
	}
	f.out, f.void = f.out[:0], false
	for piece != "" {
		n := f.plain(piece)
		f.out = append(f.out, piece[:n]...)
		if piece = piece[n:]; piece != "" {
			f.next(piece[0])
			piece = piece[1:]
		}
	}
	return string(f.out), f.void
}

// plain returns the length of the prefix of s that can be output unchanged: in a
// line of prose, the text before a possible tag, a backtick or the end of the line.
func (f *filter) plain(s string) int {
	if f.inside || len(f.held) > 0 || f.outer.mode != prose || f.outer.fresh || f.value.state != noValue {
		return 0
	}
	for i := range len(s) {
		if c := s[i]; c == '<' || c == '`' || c == '\n' {
			return i
		}
	}
	return len(s)
}

// end returns the text that was held back. The filter must not be used
// afterwards.
func (f *filter) end() string {
	if f.inside && (f.quote == 0 || f.deep > 1) {
		return ""
	}
	rest := strings.Repeat("`", f.ticks) + string(f.held)
	f.held = nil
	return rest
}

// WithoutReasoning returns a text without its reasoning blocks.
func WithoutReasoning(s string) string {
	var f filter
	text, _ := f.write(s)
	return text + f.end()
}

// WithoutReasoningBefore returns a program without the reasoning before it: blocks at its beginning,
// and the text up to a closing tag that no opening one precedes, if it is alone in its line or at the
// end of a paragraph. Other tags are a part of the program. It takes linear time.
func WithoutReasoningBefore(program string) string {
	for {
		end, ok := afterBlock(program)
		if !ok {
			break
		}
		program = program[end:]
	}
	tags := len(program)
	if at := openingTag.FindStringIndex(program); at != nil {
		tags = at[0]
	}
	code, fence := closedCode(program, 0)
	cut, restarted := 0, false
	for _, at := range closingLines.FindAllStringIndex(program, -1) {
		if at[0] >= tags {
			break
		}
		for len(code) > 0 && code[0].End <= at[0] {
			code = code[1:]
		}
		if len(code) > 0 && code[0].Start < at[1] {
			continue
		}
		if cut = at[1]; at[0] >= fence && !restarted { // once, so that the time is linear
			code, _ = closedCode(program, cut)
			restarted = true
		}
	}
	return program[cut:]
}

// closedCode returns the code of a text from an offset, and the start of its unclosed fence; its length
// if there is none. That fence is not code, because reasoning may have opened it.
func closedCode(s string, from int) (code []Span, fence int) {
	code, closed := Code(s[from:])
	for i := range code {
		code[i].Start += from
		code[i].End += from
	}
	if closed {
		return code, len(s)
	}
	last := len(code) - 1
	return code[:last], code[last].Start
}

var (
	closingLines = regexp.MustCompile(`(?i)(?m:^)[ \t]*</(?:think|thinking|reasoning)>[ \t]*\r?(?:\n|$)|` +
		`</(?:think|thinking|reasoning)>[ \t]*\r?(?:\n[ \t]*\r?(?:\n|$)|$)`)
	openingTag = regexp.MustCompile(`(?i)<(?:think|thinking|reasoning)>`)
)

// afterBlock returns the end of the block that s begins with; ok is false if s begins with something
// else.
func afterBlock(s string) (end int, ok bool) {
	f := filter{outer: newMarks()}
	for i := range len(s) {
		was, before := f.inside, len(f.out)
		f.next(s[i])
		switch {
		case was && !f.inside:
			return i + 1 - (len(f.out) - before) - len(f.held), true
		case f.void, len(bytes.TrimSpace(f.out[before:])) > 0:
			return 0, false
		}
	}
	return len(s), f.inside
}

func (f *filter) next(c byte) {
	if f.quote > 0 {
		f.unquote(c)
		return
	}
	if len(f.held) > 0 {
		f.held = append(f.held, c)
		switch t := tagOf(f.held); t.is {
		case whole:
			f.held = f.held[:0]
			f.tag(t)
		case part:
		default:
			f.held = f.held[:len(f.held)-1]
			f.release()
			f.next(c)
		}
		return
	}
	if f.inside {
		// A closing tag counts in code too; it decides when it is complete.
		if c == '<' {
			f.held = append(f.held, c)
			return
		}
		f.inner.code(c)
		return
	}
	f.before = f.outer
	if !f.content(c) && c == '<' {
		f.held = append(f.held, c)
		return
	}
	f.out = append(f.out, c)
}

// content processes one byte of the output and reports whether a tag in its place is content.
func (f *filter) content(c byte) bool { return f.value.inString(c) || f.outer.code(c) }

// release outputs text that is not a tag.
func (f *filter) release() {
	if f.inside {
		for _, c := range f.held {
			f.inner.code(c)
		}
	} else {
		for _, c := range f.held[1:] {
			f.content(c)
		}
		f.out = append(f.out, f.held...)
	}
	f.held = f.held[:0]
}

func (f *filter) tag(t tag) {
	switch {
	case !f.inside && t.closing:
		f.out, f.void = f.out[:0], true
		f.outer, f.value = newMarks(), value{}
	case !f.inside:
		f.inside, f.deep, f.family = true, 1, t.family
		f.outer, f.inner = f.before, newMarks()
	case t.family != f.family:
	case t.closing:
		if f.inner.mode == running && f.inner.char == '`' && f.inner.run <= maxQuote {
			f.quote = f.inner.run
			return
		}
		f.close()
	default:
		if in := f.inner; !in.code('<') {
			f.deep++
		}
	}
}

// maxQuote limits the backticks on each side of a quoted tag.
const maxQuote = 3

// unquote processes bytes after a closing tag that directly follows the
// backticks of a span.
func (f *filter) unquote(c byte) {
	if c == '`' {
		if f.ticks++; f.ticks == f.quote {
			f.quote, f.ticks = 0, 0
			f.inner.mode, f.inner.fresh = prose, false
		}
		return
	}
	ticks := f.ticks
	f.quote, f.ticks = 0, 0
	f.close()
	for range ticks {
		f.next('`')
	}
	f.next(c)
}

// close ends one level of a block.
func (f *filter) close() {
	if f.deep--; f.deep == 0 {
		f.inside = false
	}
}

// tag is a partially read tag.
type tag struct {
	is      match
	family  byte // t or r: </thinking> closes <think>
	closing bool
}

type match uint8

const (
	none match = iota
	part
	whole
)

var tagNames = [...]string{"think>", "thinking>", "reasoning>"}

func tagOf(b []byte) tag {
	b = b[1:]
	var t tag
	if len(b) > 0 && b[0] == '/' {
		t.closing, b = true, b[1:]
	}
	for _, name := range tagNames {
		if len(b) > len(name) || !foldedPrefix(name, b) {
			continue
		}
		t.family = name[0]
		if len(b) == len(name) {
			t.is = whole
			return t
		}
		t.is = part
	}
	return t
}

// foldedPrefix reports whether name, in lower case, begins with b, ignoring
// case.
func foldedPrefix(name string, b []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if name[i] != c {
			return false
		}
	}
	return true
}
