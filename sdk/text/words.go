package text

import (
	"unicode"
	"unicode/utf8"
)

// Span is the part text[Start:End], in bytes.
type Span struct{ Start, End int }

// In returns the part of text that the span covers.
func (s Span) In(text string) string { return text[s.Start:s.End] }

// Words returns the words of a text: runs of letters, marks and digits, with
// apostrophes, hyphens, points and commas inside a word or number. Scripts
// written without blanks (Han, Kana, Thai) have one word per character.
func Words(text string) []Span {
	out := make([]Span, 0, len(text)/6+1)
	eachWord(text, func(w Span) { out = append(out, w) })
	return out
}

// eachWord calls word for the words of a text in order.
func eachWord(text string, word func(Span)) {
	start := -1
	flush := func(end int) {
		if start >= 0 {
			word(Span{start, end})
			start = -1
		}
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf { // the common case
			switch {
			case wordByte(c):
				if start < 0 {
					start = i
				}
			case start >= 0 && (c == ' ' || !joins(text, i, rune(c))):
				flush(i)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unbroken(r):
			flush(i)
			word(Span{i, i + size})
		case wordRune(r):
			if start < 0 {
				start = i
			}
		case start >= 0 && joins(text, i, r):
		default:
			flush(i)
		}
		i += size
	}
	flush(len(text))
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return wordByte(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func unbroken(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// joins reports whether the rune at i belongs to a word: an apostrophe or
// hyphen between letters, a point or comma between digits.
func joins(text string, i int, r rune) bool {
	var part func(rune) bool
	switch r {
	case '\'', '’', '-', '‐':
		part = unicode.IsLetter
	case '.', ',':
		part = unicode.IsDigit
	default:
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
	return part(before) && part(after)
}
