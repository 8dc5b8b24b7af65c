package display

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal reports whether a stream of the command is a terminal.
func Terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Shown returns text that is safe to write to w. For a terminal, control characters and
// bidirectional controls are escaped, which may come from plugins or models. For a file or pipe the
// text is unchanged.
func Shown(w io.Writer, text string) string {
	if !Terminal(w) {
		return text
	}
	return Clean(text)
}

// Clean returns text with control characters escaped, except for tabs and line ends.
func Clean(text string) string {
	return visible(text, func(r rune) bool { return r == '\t' || r == '\n' })
}

// Printable returns one line of text with control characters escaped, except for tabs.
func Printable(line string) string {
	return visible(line, func(r rune) bool { return r == '\t' })
}

// visible escapes control characters and bidirectional controls, except those for which stays is
// true.
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

// control reports whether r is a C0 or C1 control character (ISO 6429).
func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// turns reports whether r is an explicit control of the bidirectional algorithm (UAX 9).
func turns(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
