package text

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// fold gives a text in lower case, without diacritical marks and with blanks for
// the punctuation beyond ASCII, so that patterns match what people type with
// and without them.
func fold(s string) string {
	out := make([]byte, 0, len(s))
	plain := plainLetters()
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case unicode.Is(unicode.Mn, r): // a mark after its letter
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			out = append(out, ' ')
		default:
			r = unicode.ToLower(r)
			if letters, ok := plain[r]; ok {
				out = append(out, letters...)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
	}
	return string(out)
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
