package ignore

import "strings"

// result is the outcome of matching a part of a pattern. The two kinds of abort
// end the search of an enclosing * early.
type result byte

const (
	unknown result = iota
	matched
	noMatch
	abortAll    // no later start in the text can match
	abortToStar // no later start up to the next slash can match
)

// matcher matches one pattern against one text.
type matcher struct {
	glob, text string
	path       bool // only ** matches a slash
	// steps counts calls; from memoAt on, results are remembered, so that a
	// pattern with many ** needs at most one step per position in both.
	steps int
	memo  map[[2]int]result
}

const memoAt = 1 << 12

// wildmatch reports whether the text matches the pattern, as git's function of
// that name. With path, only ** matches slashes.
func wildmatch(glob, text string, path bool) bool {
	m := matcher{glob: glob, text: text, path: path}
	return m.match(0, 0) == matched
}

// wellFormed reports whether a pattern has no malformed part, which no text matches.
func wellFormed(glob string) bool {
	m := matcher{glob: glob}
	for p := 0; p < len(glob); p++ {
		switch glob[p] {
		case '\\':
			p++
		case '[':
			if p, _ = m.class(p, 0); p < 0 {
				return false
			}
		}
		if p == len(glob) {
			return false
		}
	}
	return true
}

// glyph returns the byte at i, 0 at the end: git's strings have no NUL in them.
func glyph(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (m *matcher) match(p, t int) result {
	m.steps++
	if m.steps < memoAt {
		return m.walk(p, t)
	}
	if m.memo == nil {
		m.memo = map[[2]int]result{}
	}
	at := [2]int{p, t}
	if r := m.memo[at]; r != unknown {
		return r
	}
	r := m.walk(p, t)
	m.memo[at] = r
	return r
}

// walk matches the pattern from p against the text from t.
func (m *matcher) walk(start, t int) result {
	for p := start; p < len(m.glob); p, t = p+1, t+1 {
		char, c := m.glob[p], glyph(m.text, t)
		if t >= len(m.text) && char != '*' {
			return abortAll
		}
		switch char {
		case '?':
			if m.path && c == '/' {
				return noMatch
			}
		case '*':
			r, next, slash := m.star(start, p, t)
			if r != unknown {
				return r
			}
			p, t = next, slash
		case '[':
			end, ok := m.class(p, c)
			if end < 0 {
				return abortAll
			}
			if !ok || m.path && c == '/' {
				return noMatch
			}
			p = end
		case '\\':
			p++
			if p >= len(m.glob) || m.glob[p] != c {
				return noMatch
			}
		default:
			if char != c {
				return noMatch
			}
		}
	}
	if t < len(m.text) {
		return noMatch
	}
	return matched
}

// star matches from a * at p. The result is unknown if a single * was followed
// by a slash: matching then continues behind the slashes at next and slash.
func (m *matcher) star(start, p, t int) (r result, next, slash int) {
	slashes := !m.path
	first := p
	p++
	if glyph(m.glob, p) == '*' {
		for glyph(m.glob, p) == '*' {
			p++
		}
		if m.path {
			opens := first == start || m.glob[first-1] == '/'
			after := m.glob[p:]
			slashes = opens && (after == "" || after[0] == '/' || strings.HasPrefix(after, `\/`))
			if slashes && strings.HasPrefix(after, "/") && m.match(p+1, t) == matched { // matches no directory
				return matched, 0, 0
			}
		}
	}
	if p == len(m.glob) {
		if !slashes && strings.Contains(m.text[t:], "/") {
			return abortToStar, 0, 0
		}
		return matched, 0, 0
	}
	if !slashes && m.glob[p] == '/' {
		i := strings.IndexByte(m.text[t:], '/')
		if i < 0 {
			return abortAll, 0, 0
		}
		return unknown, p, t + i
	}
	return m.search(p, t, slashes), 0, 0
}

// search matches the pattern from p at each place of the text from t on.
func (m *matcher) search(p, t int, slashes bool) result {
	char := m.glob[p]
	for ; t < len(m.text); t++ {
		if strings.IndexByte(specials, char) < 0 {
			for t < len(m.text) && m.text[t] != char && (slashes || m.text[t] != '/') {
				t++
			}
			if glyph(m.text, t) != char {
				if slashes {
					return abortAll
				}
				return abortToStar
			}
		}
		r := m.match(p, t)
		if r != noMatch {
			if !slashes || r != abortToStar {
				return r
			}
		} else if !slashes && m.text[t] == '/' {
			return abortToStar
		}
	}
	return abortAll
}

// class matches c against the bracket expression that begins at p. It returns
// the position of the closing bracket, -1 if there is none or a named class is
// malformed.
func (m *matcher) class(p int, c byte) (end int, ok bool) {
	p++
	negated := glyph(m.glob, p) == '!' || glyph(m.glob, p) == '^'
	if negated {
		p++
	}
	found := false
	var previous byte // the start of a range, 0 if there is none
	for first := true; first || glyph(m.glob, p) != ']'; first, p = false, p+1 {
		char := glyph(m.glob, p)
		switch {
		case char == 0:
			return -1, false
		case char == '\\':
			p++
			if char = glyph(m.glob, p); char == 0 {
				return -1, false
			}
			found = found || c == char
		case char == '-' && previous != 0 && glyph(m.glob, p+1) != 0 && glyph(m.glob, p+1) != ']':
			p++
			if char = m.glob[p]; char == '\\' {
				p++
				if char = glyph(m.glob, p); char == 0 {
					return -1, false
				}
			}
			found = found || previous <= c && c <= char
			char = 0
		case char == '[' && glyph(m.glob, p+1) == ':':
			i := strings.IndexByte(m.glob[p+2:], ']')
			if i < 0 {
				return -1, false
			}
			if i == 0 || m.glob[p+1+i] != ':' { // an ordinary set that contains [
				found = found || c == '['
				break
			}
			in, known := named(m.glob[p+2:p+1+i], c)
			if !known {
				return -1, false
			}
			found = found || in
			p += 2 + i
			char = 0
		default:
			found = found || c == char
		}
		previous = char
	}
	return p, found != negated
}

// named reports whether c is in the named class of ASCII characters.
func named(class string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	visible := 0x21 <= c && c <= 0x7e
	switch class {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return visible, true
	case "lower":
		return lower, true
	case "print":
		return visible || c == ' ', true
	case "punct":
		return visible && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || c == '\t' || c == '\n' || c == '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F', true
	}
	return false, false
}
