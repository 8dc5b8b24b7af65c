package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxChars is the largest limit, in code points.
const MaxChars = 12_000

const ellipsis = "…"

// Limit shortens a text to at most most code points: at the last end of a
// sentence within the final 30 % of the limit, otherwise between two words and
// with an ellipsis. It does not cut inside a fence unless the text consists
// mostly of it; then the fence is closed. language is the language of the text,
// "" if unknown. A limit of 0 means none; a limit above MaxChars means
// MaxChars.
func (p *Packs) Limit(s string, most int, language string) (short string, cut bool) {
	most = min(most, MaxChars)
	if most <= 0 || len(s) <= most {
		return s, false
	}
	end := offset(s, most)
	if end == len(s) {
		return s, false
	}
	least := offset(s, most*7/10)
	// The text after a terminator decides whether a sentence ends there. A
	// fence that begins before is read completely.
	window := s[:min(len(s), end+64)]
	window = strings.ToValidUTF8(window, "")
	at := 0
	for _, sentence := range p.Sentences(window, language) {
		if sentence.End <= end && sentence.End < len(window) {
			at = sentence.End
		}
	}
	if at > least && at > 0 {
		return s[:at], true
	}
	room := offset(s, most-1)
	if from, open := openFence(s, room); open {
		if before := strings.TrimRightFunc(s[:from], unicode.IsSpace); before != "" {
			return before, true
		}
		return closedFence(s, most)
	}
	if blank := strings.LastIndexFunc(s[:room], unicode.IsSpace); blank > least {
		return strings.TrimRightFunc(s[:blank], unicode.IsSpace) + ellipsis, true
	}
	return strings.TrimRightFunc(s[:clusterStart(s, room)], unicode.IsSpace) + ellipsis, true
}

// offset returns the position after n code points.
func offset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// openFence reports whether a position is inside a fence, and where that fence
// begins.
func openFence(s string, at int) (from int, open bool) {
	code, _ := Code(s)
	for _, c := range code {
		if c.Start < at && at < c.End && fenced(s[c.Start:]) {
			return c.Start, true
		}
	}
	return 0, false
}

func fenced(s string) bool {
	_, n := opensFence(s[:lineEnd(s, 0)])
	return n > 0
}

// closedFence returns the first lines of a fence, closed.
func closedFence(s string, most int) (string, bool) {
	char, n := opensFence(s[:lineEnd(s, 0)])
	end := "\n" + strings.Repeat(string(char), n)
	room := offset(s, max(0, most-utf8.RuneCountInString(end)))
	line := strings.LastIndexByte(s[:room], '\n')
	if line <= 0 {
		return s[:clusterStart(s, offset(s, most-1))] + ellipsis, true
	}
	return s[:line] + end, true
}

// clusterStart returns the last start of a grapheme cluster up to at.
func clusterStart(s string, at int) int {
	const longest = 64 // code points; no script has longer clusters
	for range longest {
		if at <= 0 || at >= len(s) {
			break
		}
		r, _ := utf8.DecodeRuneInString(s[at:])
		before, size := utf8.DecodeLastRuneInString(s[:at])
		if !attaches(r) && before != joiner && !(regional(r) && regionals(s[:at])%2 == 1) && !(before == '\r' && r == '\n') {
			break
		}
		at -= size
	}
	return at
}

const joiner = 0x200D

func attaches(r rune) bool {
	return unicode.Is(unicode.M, r) || r == joiner || r == 0x200C || r >= 0x1F3FB && r <= 0x1F3FF ||
		r >= 0xE0020 && r <= 0xE007F ||
		r >= 0x1160 && r <= 0x11FF // Korean vowels and finals
}

func regional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// regionals counts the regional indicators at the end.
func regionals(s string) int {
	n := 0
	for n < 64 {
		r, size := utf8.DecodeLastRuneInString(s)
		if !regional(r) {
			break
		}
		n++
		s = s[:len(s)-size]
	}
	return n
}
