package chat

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// wide writes a text with the characters beyond the basic plane as two
// surrogates of three bytes each.
func wide(s string) string {
	var b strings.Builder
	for _, r := range s {
		high, low := utf16.EncodeRune(r)
		if high == utf8.RuneError {
			b.WriteRune(r)
			continue
		}
		for _, half := range []rune{high, low} {
			b.Write([]byte{0xED, byte(0x80 | half>>6&0x3F), byte(0x80 | half&0x3F)})
		}
	}
	return b.String()
}

// LLM-013: any splitting of a text gives the same text, in both forms of its
// characters.
func TestSeamJoinsAnySplitting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.String().Draw(t, "text")
		rest := whole
		if rapid.Bool().Draw(t, "surrogates") {
			rest = wide(whole)
		}
		var s Seam
		var got strings.Builder
		for rest != "" {
			n := rapid.IntRange(1, min(len(rest), 7)).Draw(t, "size")
			text, damaged := s.Join(rest[:n])
			assert.Zero(t, damaged)
			got.WriteString(text)
			rest = rest[n:]
		}
		assert.False(t, s.End())
		assert.Equal(t, whole, got.String())
	})
}

// Invalid characters are counted, and the returned text is valid UTF-8.
func TestSeamCountsDamage(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces  []string
		want    string
		damaged int
		open    bool
	}{
		"a byte of no character":      {[]string{"a\xffb"}, "a\uFFFDb", 1, false},
		"a low surrogate first":       {[]string{"a\xed\xb8\x80b"}, "a\uFFFDb", 1, false},
		"a high surrogate alone":      {[]string{"a\xed\xa0\xbd", "b"}, "a\uFFFDb", 1, false},
		"two high surrogates":         {[]string{"\xed\xa0\xbd", "\xed\xa0\xbd\xed\xb8\x80"}, "\uFFFD\U0001F600", 1, false},
		"a character that is cut":     {[]string{"a\xf0\x9f", "b"}, "a\uFFFD\uFFFDb", 2, false},
		"a text that ends inside one": {[]string{"a\xf0\x9f"}, "a", 0, true},
		"a surrogate at the end":      {[]string{"a\xed\xa0\xbd"}, "a", 0, true},
	} {
		var s Seam
		got, sum := "", 0
		for _, p := range tt.pieces {
			text, damaged := s.Join(p)
			got, sum = got+text, sum+damaged
		}
		assert.Equal(t, tt.want, got, name)
		assert.Equal(t, tt.damaged, sum, name)
		assert.Equal(t, tt.open, s.End(), name)
	}
}
