package text

import "strings"

// Filter takes the reasoning of a model out of a text that comes in pieces:
// blocks of <think>, <thinking> and <reasoning>, also nested ones. A block that
// is never closed reaches to the end. A closing tag without its opening one
// drops what stands before it, because templates open the block in the prompt.
// In code a tag is content.
//
// Within a block a closing tag always counts, since reasoning is full of code
// that nobody closed; an opening tag counts there only outside of code. Where
// that ends a block too early, the closing tag that is left over drops the rest.
//
// However the text is cut, the output is the same, and at most 11 bytes outside
// a block are held back. The zero value is ready; a Filter is not safe for
// concurrent use.
type Filter struct {
	started bool
	outer   marks // of what is given out
	before  marks // the same, ahead of the tag that may be coming
	inner   marks // of the block
	inside  bool  // a block
	deep    int
	family  byte
	held    []byte // what may be the beginning of a tag
	quote   int    // backticks that would make a closing tag a quoted one
	ticks   int    // of them that were read
	out     []byte
	void    bool
}

// Write takes a piece and gives the text that is sure now. With void, everything
// that was given before is to be dropped.
func (f *Filter) Write(piece string) (text string, void bool) {
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

// plain is how many bytes neither end nor begin anything: within a line of prose
// only a tag, a span and the end of the line do.
func (f *Filter) plain(s string) int {
	if f.inside || len(f.held) > 0 || f.outer.mode != prose || f.outer.fresh {
		return 0
	}
	for i := range len(s) {
		if c := s[i]; c == '<' || c == '`' || c == '\n' {
			return i
		}
	}
	return len(s)
}

// End gives what was held back. The Filter is to be used no more.
func (f *Filter) End() string {
	if f.inside && (f.quote == 0 || f.deep > 1) {
		return ""
	}
	rest := strings.Repeat("`", f.ticks) + string(f.held)
	f.held = nil
	return rest
}

// WithoutReasoning is a whole text through a Filter.
func WithoutReasoning(s string) string {
	var f Filter
	text, _ := f.Write(s)
	return text + f.End()
}

func (f *Filter) next(c byte) {
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
		// What closes counts in code too: the tag decides when it is read.
		if c == '<' {
			f.held = append(f.held, c)
			return
		}
		f.inner.code(c)
		return
	}
	f.before = f.outer
	if !f.outer.code(c) && c == '<' {
		f.held = append(f.held, c)
		return
	}
	f.out = append(f.out, c)
}

// release gives up the hope for a tag.
func (f *Filter) release() {
	if f.inside {
		for _, c := range f.held {
			f.inner.code(c)
		}
	} else {
		for _, c := range f.held[1:] {
			f.outer.code(c)
		}
		f.out = append(f.out, f.held...)
	}
	f.held = f.held[:0]
}

func (f *Filter) tag(t tag) {
	switch {
	case !f.inside && t.closing:
		f.out, f.void = f.out[:0], true
		f.outer = newMarks()
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

// maxQuote bounds the backticks on one side of a quoted tag.
const maxQuote = 3

// unquote reads on behind a closing tag that stands right behind the backticks
// of a span.
func (f *Filter) unquote(c byte) {
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
func (f *Filter) close() {
	if f.deep--; f.deep == 0 {
		f.inside = false
	}
}

// tag is what a text that begins with < is of a tag.
type tag struct {
	is      match
	family  byte // t or r: thinking closes what think opened
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

// foldedPrefix tells whether name, in lower case, begins with b in any case.
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
