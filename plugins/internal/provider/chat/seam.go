package chat

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Seam joins the pieces of one text. A server may end a piece inside a
// character: between the bytes of its UTF-8 form, or between the two surrogates
// of a JSON escape. A lone surrogate is represented by three bytes, its
// generalized UTF-8 form. The zero Seam is ready for use.
type Seam struct{ tail string }

// Join appends a piece and returns the characters that are complete now, as valid UTF-8. An
// incomplete character at the end is kept until the next piece arrives. Each invalid part that
// cannot be completed is replaced by U+FFFD and counted in damaged.
func (s *Seam) Join(piece string) (text string, damaged int) {
	rest := s.tail + piece
	s.tail = ""
	if utf8.ValidString(rest) {
		return rest, 0
	}
	var b strings.Builder
	for rest != "" {
		r, size := utf8.DecodeRuneInString(rest)
		if r != utf8.RuneError || size > 1 {
			b.WriteString(rest[:size])
			rest = rest[size:]
			continue
		}
		high, low := surrogate(rest), rune(0)
		if high != 0 {
			size = 3
			low = surrogate(rest[3:])
		}
		joined := utf16.DecodeRune(high, low)
		switch {
		case joined != utf8.RuneError:
			b.WriteRune(joined)
			size = 6
		case begins(rest) || high >= 0xD800 && high < 0xDC00 && (len(rest) == 3 || begins(rest[3:]) && rest[3] == 0xED):
			s.tail = rest
			return b.String(), damaged
		default:
			b.WriteRune(utf8.RuneError)
			damaged++
		}
		rest = rest[size:]
	}
	return b.String(), damaged
}

// End reports whether the text ended inside a character.
func (s *Seam) End() bool { return s.tail != "" }

// surrogate returns the surrogate that a text begins with, 0 for none.
func surrogate(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2] < 0x80 || s[2] > 0xBF {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

// begins reports whether all of s is the beginning of a character or a
// surrogate.
func begins(s string) bool {
	return !utf8.FullRuneInString(s) || len(s) == 2 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF
}
