package edn

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerptWidth is the number of code points of a line that an error quotes.
const excerptWidth = 80

// excerptReach limits the bytes around the position that are examined, so that
// an error in a very long line is cheap.
const excerptReach = 4096

// excerpt quotes the line around offset with a mark below. Forms with the tag
// #ferment/secret and the given spans are masked.
func excerpt(text string, offset, line int, secrets []span) string {
	offset = min(offset, len(text))
	from := max(lineStart(text, offset), offset-excerptReach)
	to := min(lineEnd(text, offset), offset+excerptReach)
	if from == 0 && strings.HasPrefix(text, byteOrderMark) {
		from = min(len(byteOrderMark), offset)
	}
	for from < offset && !utf8.RuneStart(text[from]) {
		from++
	}
	cells, mark := renderLine(text, from, to, offset, secrets)
	cells, mark = window(cells, mark)
	gutter := fmt.Sprintf("%4d | ", line)
	blank := strings.Repeat(" ", len(gutter)-3) + " | "
	width := 0
	for _, c := range cells[:mark] {
		width += utf8.RuneCountInString(c)
	}
	return gutter + strings.Join(cells, "") + "\n" + blank + strings.Repeat(" ", width) + "^"
}

// renderLine splits text[from:to] into printable cells, one per code point, and
// returns the index of the cell at offset.
func renderLine(text string, from, to, offset int, secrets []span) (cells []string, mark int) {
	masked := maskedSpans(text, from, to, secrets)
	mark = -1
	for i := from; i < to; {
		r, size := utf8.DecodeRuneInString(text[i:to])
		if mark < 0 && i+size > offset {
			mark = len(cells)
		}
		if covered(masked, i) {
			cells = append(cells, "*")
			i += size
			continue
		}
		cells = append(cells, visible(r, text[i:i+size]))
		i += size
	}
	if mark < 0 {
		mark = len(cells)
	}
	return cells, mark
}

// maskedSpans adds the forms after secret tags in the quoted part of a line
// that the reader has not reached yet.
func maskedSpans(text string, from, to int, secrets []span) []span {
	out := append([]span(nil), secrets...)
	const marker = "#" + tagSecret
	for i := from; i < to; {
		at := strings.Index(text[i:to], marker)
		if at < 0 {
			break
		}
		start := i + at + len(marker)
		i = max(secretEnd(text, start, to), start)
		out = append(out, span{start, i})
	}
	return out
}

func covered(spans []span, i int) bool {
	for _, s := range spans {
		if i >= s.start && i < s.end {
			return true
		}
	}
	return false
}

// secretEnd returns the end of the form after a secret tag. In doubt it masks
// too much: an unterminated string reaches to the end of the line.
func secretEnd(text string, i, to int) int {
	for i < to && class[text[i]]&clsSpace != 0 {
		i++
	}
	if i < to && text[i] == '"' {
		for i++; i < to; i++ {
			if text[i] == '\\' {
				i++
			} else if text[i] == '"' {
				return i + 1
			}
		}
		return to
	}
	for i < to && class[text[i]]&clsEnd == 0 {
		i++
	}
	return i
}

// window cuts cells to excerptWidth around mark, with ellipses.
func window(cells []string, mark int) ([]string, int) {
	if len(cells) <= excerptWidth {
		return cells, mark
	}
	start := min(max(0, mark-excerptWidth/2), len(cells)-excerptWidth)
	out := append([]string(nil), cells[start:start+excerptWidth]...)
	if start > 0 {
		out[0] = "…"
	}
	if start+excerptWidth < len(cells) {
		out[len(out)-1] = "…"
	}
	return out, mark - start
}

// visible returns a harmless representation of a code point for a terminal.
func visible(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r == '\t':
		return `\t`
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
		return fmt.Sprintf(`\u%04x`, r)
	}
	return raw
}

// escapeControls makes s safe to print on one line.
func escapeControls(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		b.WriteString(visible(r, s[i:i+size]))
		i += size
	}
	return b.String()
}
