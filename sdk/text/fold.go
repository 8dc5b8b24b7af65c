package text

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// fold returns a text in lower case, without diacritical marks and with blanks
// for punctuation beyond ASCII, so that patterns match text typed with or
// without them. words are the runs of letters and digits in it, and single
// characters of scripts without blanks.
func fold(s string) (folded string, words []Span) {
	out := make([]byte, 0, len(s))
	words = make([]Span, 0, len(s)/5)
	start := -1
	letter := func() {
		if start < 0 {
			start = len(out)
		}
	}
	gap := func() {
		if start >= 0 {
			words = append(words, Span{start, len(out)})
			start = -1
		}
	}
	plain := plainLetters()
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf { // the common case
			c = smallLetter[c]
			if letterClass[c] > 0 {
				letter()
			} else {
				gap()
			}
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case unicode.Is(unicode.Mn, r): // a combining mark after its letter
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			gap()
			out = append(out, ' ')
		case unbroken(r): // each character is a word
			gap()
			words = append(words, Span{len(out), len(out) + utf8.RuneLen(r)})
			out = utf8.AppendRune(out, r)
		default:
			letter()
			r = unicode.ToLower(r)
			if letters, ok := plain[r]; ok {
				out = append(out, letters...)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
	}
	gap()
	return string(out), words
}

// smallLetter maps each byte to lower case.
var smallLetter = func() (small [256]byte) {
	for c := range small {
		small[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			small[c] = byte(c) + 'a' - 'A'
		}
	}
	return small
}()

// plainLetters maps letters with diacritical marks and ligatures to their plain
// spelling.
var plainLetters = sync.OnceValue(func() map[rune]string {
	out := map[rune]string{}
	for plain, marked := range map[string]string{
		"a": "àáâãäåāăą", "ae": "æ", "c": "çćĉċč", "d": "ďđ", "e": "èéêëēĕėęě",
		"g": "ĝğġģ", "h": "ĥħ", "i": "ìíîïĩīĭįı", "j": "ĵ", "k": "ķ", "l": "ĺļľŀł",
		"n": "ñńņňŉ", "o": "òóôõöøōŏő", "oe": "œ", "r": "ŕŗř", "s": "śŝşšș",
		"ss": "ß", "t": "ţťŧț", "u": "ùúûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "źżž",
		"α": "ά", "ε": "έ", "η": "ή", "ι": "ίϊΐ", "ο": "ό", "υ": "ύϋΰ", "ω": "ώ", "е": "ё",
	} {
		for _, r := range marked {
			out[r] = plain
		}
	}
	return out
})
