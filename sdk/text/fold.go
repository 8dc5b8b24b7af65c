package text

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// fold gives a text in lower case, without diacritical marks and with blanks for
// the punctuation beyond ASCII, so that patterns match what people type with
// and without them.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	plain := plainLetters()
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			b.WriteByte(byte(r))
		case unicode.Is(unicode.Mn, r): // a mark after its letter
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			b.WriteByte(' ')
		default:
			r = unicode.ToLower(r)
			if letters, ok := plain[r]; ok {
				b.WriteString(letters)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// plainLetters maps marked Latin letters and ligatures to what stands for them
// on a plain keyboard.
var plainLetters = sync.OnceValue(func() map[rune]string {
	out := map[rune]string{}
	for plain, marked := range map[string]string{
		"a": "àáâãäåāăą", "ae": "æ", "c": "çćĉċč", "d": "ďđ", "e": "èéêëēĕėęě",
		"g": "ĝğġģ", "h": "ĥħ", "i": "ìíîïĩīĭįı", "j": "ĵ", "k": "ķ", "l": "ĺļľŀł",
		"n": "ñńņňŉ", "o": "òóôõöøōŏő", "oe": "œ", "r": "ŕŗř", "s": "śŝşšș",
		"ss": "ß", "t": "ţťŧț", "u": "ùúûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "źżž",
	} {
		for _, r := range marked {
			out[r] = plain
		}
	}
	return out
})
