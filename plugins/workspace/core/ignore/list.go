package ignore

import (
	"bytes"
	"errors"
	"strings"
)

// Pattern is one line of a source.
type Pattern struct {
	Source string // the file, as git names it: relative to the workspace
	Line   int    // from 1
	Text   string // as written, without trailing blanks

	negative bool   // a path that it matches is included
	dirsOnly bool   // it matches directories only
	nameOnly bool   // without a slash, it is matched against the last component
	suffix   bool   // a * followed by literal text
	glob     string // without "!" and trailing slash
	literal  int    // length of the prefix of glob without special characters
}

// Negative reports whether a path that the pattern matches is included again.
func (p *Pattern) Negative() bool { return p.negative }

// List holds the patterns of one source. The nil List is empty.
type List struct {
	base     string // directory that the patterns are relative to: empty, or with a slash at its end
	patterns []*Pattern
}

// Parse returns the patterns of a source. base is the directory of the file
// relative to the workspace, empty for the root.
func Parse(source, base string, text []byte) *List {
	l := &List{base: slashed(base)}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if line[len(line)-1] == '\r' {
			line = line[:len(line)-1]
		}
		if end := bytes.IndexByte(line, 0); end >= 0 { // git's strings end at NUL
			line = line[:end]
		}
		if p := newPattern(trimBlanks(string(line))); p != nil {
			p.Source, p.Line = source, n
			l.patterns = append(l.patterns, p)
		}
	}
	if len(l.patterns) == 0 {
		return nil
	}
	return l
}

func slashed(dir string) string {
	if dir == "" {
		return ""
	}
	return strings.TrimSuffix(dir, "/") + "/"
}

// Len returns the number of patterns.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.patterns)
}

// trimBlanks removes spaces at the end that are not escaped. A backslash at the
// end keeps all of them, as in git.
func trimBlanks(s string) string {
	end := -1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			if end < 0 {
				end = i
			}
			continue
		case '\\':
			if i++; i == len(s) {
				return s
			}
		}
		end = -1
	}
	if end >= 0 {
		return s[:end]
	}
	return s
}

// newPattern parses a line. It returns nil for a pattern that matches nothing.
func newPattern(text string) *Pattern {
	p := &Pattern{Text: text, glob: text}
	p.glob, p.negative = strings.CutPrefix(p.glob, "!")
	whole := p.glob
	p.glob, p.dirsOnly = strings.CutSuffix(p.glob, "/")
	if p.glob == "" {
		return nil
	}
	p.nameOnly = !strings.Contains(p.glob, "/")
	p.literal = min(literalPrefix(whole), len(p.glob))
	p.suffix = whole[0] == '*' && literalPrefix(whole[1:]) == len(whole)-1
	return p
}

// literalPrefix returns the length of the longest prefix without special
// characters.
func literalPrefix(s string) int {
	if i := strings.IndexAny(s, specials); i >= 0 {
		return i
	}
	return len(s)
}

const specials = `*?[\`

// match returns the last pattern that matches the path.
func (l *List) match(path, name string, dir bool) *Pattern {
	if l == nil || !strings.HasPrefix(path, l.base) {
		return nil
	}
	below := path[len(l.base):]
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := l.patterns[i]
		if p.dirsOnly && !dir {
			continue
		}
		if p.nameOnly && p.matchName(name) || !p.nameOnly && p.matchPath(below) {
			return p
		}
	}
	return nil
}

func (p *Pattern) matchName(name string) bool {
	switch {
	case p.literal == len(p.glob):
		return p.glob == name
	case p.suffix:
		return strings.HasSuffix(name, p.glob[1:])
	}
	return wildmatch(p.glob, name, false)
}

// matchPath matches a path relative to the directory of the source. Git
// compares the literal prefix first and matches only the rest, which makes
// "a**/b" match like "a" and "**/b".
func (p *Pattern) matchPath(path string) bool {
	glob, literal := p.glob, p.literal
	if glob[0] == '/' {
		glob, literal = glob[1:], literal-1
	}
	rest, ok := strings.CutPrefix(path, glob[:literal])
	if !ok {
		return false
	}
	glob = glob[literal:]
	if literal > 0 && glob == "" && rest == "" {
		return true
	}
	return wildmatch(glob, rest, true)
}

// Ignores returns the pattern by which a path, or else a directory above it, is
// ignored; nil if there is none.
func (l *List) Ignores(path string, dir bool) *Pattern {
	name := 0
	for end := 0; end <= len(path); end++ {
		whole := end == len(path)
		if !whole && path[end] != '/' {
			continue
		}
		if p := l.match(path[:end], path[name:end], dir || !whole); p != nil && !p.negative {
			return p
		}
		name = end + 1
	}
	return nil
}

// Check returns an error unless the text is one line with a pattern that can match.
func Check(text string) error {
	if strings.ContainsAny(text, "\n\r\x00") {
		return errors.New("it is not one line of text")
	}
	l := Parse("", "", []byte(text))
	if l.Len() == 0 || !wellFormed(l.patterns[0].glob) {
		return errors.New("it matches nothing")
	}
	return nil
}

// Texts returns the patterns as they were written.
func (l *List) Texts() []string {
	if l == nil {
		return nil
	}
	texts := make([]string, len(l.patterns))
	for i, p := range l.patterns {
		texts[i] = p.Text
	}
	return texts
}
