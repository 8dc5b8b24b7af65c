package cli

import (
	"fmt"
	"io"
	"strings"
)

// shown is text as it may be written to w. What plugins, models and their
// sources say may hold characters that command a terminal or turn the order of
// what is read; there they are shown instead of sent. A file or a pipe gets what
// was said.
func shown(w io.Writer, text string) string {
	if !terminal(w) {
		return text
	}
	return visible(text, func(r rune) bool { return r == '\t' || r == '\n' })
}

// printable is a line of text in which nothing commands a terminal.
func printable(line string) string {
	return visible(line, func(r rune) bool { return r == '\t' })
}

// visible writes control characters, and those that turn the direction of a
// text, as escapes, but for those that may stay.
func visible(text string, stays func(rune) bool) string {
	acts := func(r rune) bool { return (control(r) || turns(r)) && !stays(r) }
	if strings.IndexFunc(text, acts) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// control tells of C0 and C1, as ISO 6429 has them.
func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// turns tells of the explicit controls of the bidirectional algorithm (UAX 9).
func turns(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
