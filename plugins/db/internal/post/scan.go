package post

import (
	"strings"
	"unicode/utf8"
)

// scanner splits a statement into the tokens that matter for permit: words and quoted names.
// Comments, strings and numbers are skipped by the rules of the server with
// standard_conforming_strings = on.
type scanner struct {
	text string
	at   int
}

// token is a word in lower case, a quoted name, or one other character.
type token struct {
	text string
	kind tokenKind
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenQuoted
	tokenEscaped // U&"..." or U&'...', whose text depends on escapes
	tokenMark
)

func (s *scanner) next() token {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			s.at++
		case strings.HasPrefix(rest, "--"):
			s.line(rest)
		case strings.HasPrefix(rest, "/*"):
			s.comment()
		case c == '\'':
			s.quoted('\'', false)
		case c == '"':
			return token{s.quoted('"', false), tokenQuoted}
		case c == '$' && s.dollar(rest):
		case wordStart(c):
			if t, ok := s.word(); ok {
				return t
			}
		case c >= '0' && c <= '9':
			s.number()
		default:
			_, n := utf8.DecodeRuneInString(rest)
			s.at += n
			return token{rest[:n], tokenMark}
		}
	}
	return token{kind: tokenEnd}
}

func wordStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || c == '$' || c >= '0' && c <= '9' }

// line skips a comment to the end of the line.
func (s *scanner) line(rest string) {
	if end := strings.IndexAny(rest, "\n\r"); end >= 0 {
		s.at += end
		return
	}
	s.at = len(s.text)
}

// comment skips a comment, which may contain others.
func (s *scanner) comment() {
	depth := 0
	for s.at < len(s.text) {
		switch rest := s.text[s.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.at += 2
			if depth == 0 {
				return
			}
		default:
			s.at++
		}
	}
}

// quoted skips a text in quotes and returns its content.
func (s *scanner) quoted(quote byte, escapes bool) string {
	var b strings.Builder
	for s.at++; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		switch {
		case escapes && c == '\\':
			s.at++
		case c == quote && s.at+1 < len(s.text) && s.text[s.at+1] == quote:
			s.at++
			b.WriteByte(c)
		case c == quote:
			s.at++
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	s.at = len(s.text)
	return b.String()
}

// dollar skips a text in dollar quotes. It returns false for a parameter, such as $1.
func (s *scanner) dollar(rest string) bool {
	end := 1
	for end < len(rest) && rest[end] != '$' && wordPart(rest[end]) && !(end == 1 && rest[end] >= '0' && rest[end] <= '9') {
		end++
	}
	if end == len(rest) || rest[end] != '$' {
		return false
	}
	mark := rest[:end+1]
	if close := strings.Index(rest[end+1:], mark); close >= 0 {
		s.at += end + 1 + close + len(mark)
	} else {
		s.at = len(s.text)
	}
	return true
}

// word reads a word. It returns false for the prefix of a string, as in E'\n'.
func (s *scanner) word() (token, bool) {
	start := s.at
	for s.at < len(s.text) && wordPart(s.text[s.at]) {
		s.at++
	}
	word := strings.ToLower(s.text[start:s.at])
	rest := s.text[s.at:]
	switch {
	case word == "u" && (strings.HasPrefix(rest, `&"`) || strings.HasPrefix(rest, "&'")):
		return token{word, tokenEscaped}, true
	case strings.HasPrefix(rest, "'") && (word == "e" || word == "b" || word == "x" || word == "n"):
		s.quoted('\'', word == "e")
		return token{}, false
	}
	return token{word, tokenWord}, true
}

func (s *scanner) number() {
	for s.at < len(s.text) && (s.text[s.at] >= '0' && s.text[s.at] <= '9' || s.text[s.at] == '.') {
		s.at++
	}
}
