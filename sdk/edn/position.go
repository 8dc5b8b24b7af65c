package edn

import (
	"strings"
	"unicode/utf8"
)

// Position is a position in a text. Line and Column count from 1, columns in
// code points; Offset counts bytes from 0. A line ends at LF, CR or CR LF.
type Position struct{ Line, Column, Offset int }

// Span is the extent of a form: from its first byte to the byte after its last.
type Span struct{ Start, End Position }

const byteOrderMark = "\uFEFF"

// positionAt returns the position of a byte offset, in time linear in the
// offset. A leading byte order mark has no column.
func positionAt(text string, offset int) Position {
	offset = min(offset, len(text))
	p := Position{Line: 1, Column: 1, Offset: offset}
	start := lineStart(text, offset)
	p.Line += countBreaks(text[:start])
	if start == 0 && strings.HasPrefix(text, byteOrderMark) {
		start = min(len(byteOrderMark), offset)
	}
	p.Column += utf8.RuneCountInString(text[start:offset])
	return p
}

// lineStart returns the offset after the last line break before offset.
func lineStart(text string, offset int) int {
	start := strings.LastIndexAny(text[:offset], "\n\r") + 1
	if start == offset && start > 0 && text[start-1] == '\r' && start < len(text) && text[start] == '\n' {
		// Between CR and LF: still on the line before them.
		return lineStart(text, start-1)
	}
	return start
}

// lineEnd returns the offset of the first line break at or after offset.
func lineEnd(text string, offset int) int {
	if i := strings.IndexAny(text[offset:], "\n\r"); i >= 0 {
		return offset + i
	}
	return len(text)
}

// countBreaks counts the line breaks of text.
func countBreaks(text string) int {
	return strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n")
}
