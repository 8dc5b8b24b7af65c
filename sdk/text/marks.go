package text

import "strings"

// marks follows a text byte by byte and determines which parts are code: a
// fence of backticks or tildes until it is closed, a span of backticks until
// the same number of backticks or the end of its line. After an unclosed backtick
// the line is code up to its end, because a streaming reader cannot look ahead.
type marks struct {
	mode  mode
	fresh bool // only blanks in the line so far
	char  byte // of the fence
	run   int  // length of the current run of marks
	open  int  // length of the run that opened the code
	spent bool // the line of a fence has more than its closing run
}

type mode uint8

const (
	prose mode = iota
	running
	span
	fenceHead // the opening line of a fence, after its marks
	fence
)

func newMarks() marks { return marks{fresh: true} }

// code processes one byte and reports whether it belongs to code.
func (m *marks) code(c byte) bool {
	switch m.mode {
	case prose:
		return m.inProse(c)
	case running:
		return m.inRun(c)
	case span:
		return m.inSpan(c)
	case fenceHead:
		m.inHead(c)
	case fence:
		m.inFence(c)
	}
	return true
}

func (m *marks) inProse(c byte) bool {
	if c == '`' || c == '~' && m.fresh {
		m.mode, m.char, m.run = running, c, 1
		return true
	}
	m.fresh = c == '\n' || m.fresh && blank(c)
	return false
}

// inRun processes bytes after the first mark of a possible code run.
func (m *marks) inRun(c byte) bool {
	if c == m.char {
		m.run++
		return true
	}
	m.open = m.run
	switch {
	case m.fresh && m.run >= 3 && c == '\n':
		m.mode, m.run, m.spent = fence, 0, false
	case m.fresh && m.run >= 3:
		m.mode, m.run, m.fresh = fenceHead, 0, false
	case m.char == '~' || c == '\n':
		m.mode, m.fresh = prose, c == '\n'
		return c != '\n' && m.inProse(c)
	default:
		m.mode, m.run, m.fresh = span, 0, false
	}
	return true
}

func (m *marks) inSpan(c byte) bool {
	switch {
	case c == '`':
		m.run++
	case m.run == m.open, c == '\n':
		m.mode, m.run, m.fresh = prose, 0, false
		return m.inProse(c)
	default:
		m.run = 0
	}
	return true
}

// inHead processes the opening line of a fence; a backtick in it means that it
// is not a fence.
func (m *marks) inHead(c byte) {
	switch {
	case c == '\n':
		m.mode, m.run, m.spent = fence, 0, false
	case c == '`' && m.char == '`':
		m.mode, m.run = span, 1
	}
}

func (m *marks) inFence(c byte) {
	switch {
	case c == '\n':
		if m.run >= m.open && !m.spent {
			m.mode, m.fresh = prose, true
		}
		m.run, m.spent = 0, false
	case m.spent:
	case c == m.char:
		m.run++
	case !blank(c) || m.run > 0 && m.run < m.open:
		m.spent = true
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// Code returns the code in a text: whole fences, including an unclosed last
// one, and spans of backticks that are closed on their line. closed reports
// whether every fence is closed.
func Code(s string) (code []Span, closed bool) {
	closed = true
	for at := 0; at < len(s); {
		end := lineEnd(s, at)
		if char, n := opensFence(s[at:end]); n > 0 {
			from, done := at, false
			for at = end; at < len(s) && !done; {
				end = lineEnd(s, at)
				done = closesFence(s[at:end], char, n)
				at = end
			}
			code, closed = append(code, Span{from, at}), done
			continue
		}
		code = appendSpans(code, s, at, end)
		at = end
	}
	return code, closed
}

// opensFence returns the mark and the length of the fence that a line opens;
// length 0 if it opens none.
func opensFence(line string) (char byte, n int) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] != '`' && line[0] != '~' {
		return 0, 0
	}
	char = line[0]
	n = len(line) - len(strings.TrimLeft(line, string(char)))
	if n < 3 || char == '`' && strings.Contains(line[n:], "`") {
		return 0, 0
	}
	return char, n
}

func closesFence(line string, char byte, n int) bool {
	line = strings.TrimSpace(line)
	return len(line) >= n && strings.Trim(line, string(char)) == ""
}

// appendSpans appends the code spans of one line. Each run of backticks is
// matched with the next one of the same length.
func appendSpans(out []Span, s string, from, end int) []Span {
	if strings.IndexByte(s[from:end], '`') < 0 {
		return out
	}
	var runs []Span
	for i := from; i < end; i++ {
		if s[i] != '`' {
			continue
		}
		start := i
		for i < end && s[i] == '`' {
			i++
		}
		runs = append(runs, Span{start, i})
	}
	if len(runs) == 2 && runs[0].End-runs[0].Start == runs[1].End-runs[1].Start { // the common case
		return append(out, Span{runs[0].Start, runs[1].End})
	}
	partner := make([]int, len(runs))
	next := map[int]int{}
	for i := len(runs) - 1; i >= 0; i-- {
		n := runs[i].End - runs[i].Start
		partner[i] = next[n] // 0 means none: the first run closes no other
		next[n] = i
	}
	for i := 0; i < len(runs); i++ {
		if p := partner[i]; p > 0 {
			out = append(out, Span{runs[i].Start, runs[p].End})
			i = p
		}
	}
	return out
}
