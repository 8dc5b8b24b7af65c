package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
)

// Limits of the input.
const (
	maxLines = 10_000 // the text area drops further lines
	maxInput = turns.MaxText
	maxPast  = 500
)

// The text area replaces tabs and drops U+FFFD. In it they are represented by noncharacters, which
// texts should not contain (Unicode 23.7); pasted noncharacters are escaped like control
// characters.
var (
	kept   = strings.NewReplacer("\t", "\ufdd0", "\ufffd", "\ufdd1", "\ufdd0", `\ufdd0`, "\ufdd1", `\ufdd1`)
	meant  = strings.NewReplacer("\ufdd0", "\t", "\ufdd1", "\ufffd")
	marked = strings.NewReplacer("\ufdd0", "→", "\ufdd1", "\ufffd")
)

// untouched reports whether the input still is the text that was put into it.
func (s screen) untouched() bool { return s.input.Value() == s.shown }

// line returns the text of the input. It is exactly the one that was put into it unless that was
// changed.
func (s screen) line() string {
	if s.untouched() {
		return s.original
	}
	return meant.Replace(s.input.Value())
}

// put replaces the input by a text. If the text is too large to be edited, the input is unchanged,
// and the effects report it.
func (s screen) put(text string) (screen, []effect) {
	shown := kept.Replace(clean(text))
	if why := excess(strings.Count(shown, "\n")+1, len(text)); why != "" {
		return s, s.noted("the text was not put into the input: it has " + why)
	}
	s.input.SetValue(shown)
	s.original, s.shown = text, s.input.Value()
	return s, nil
}

// full returns effects that explain why a text cannot be added to the input; nil if it can.
func (s screen) full(text string) []effect {
	if why := excess(s.input.LineCount()+strings.Count(text, "\n"), len(s.line())+len(text)); why != "" {
		return s.noted("the text was not added to the input: it would have " + why)
	}
	return nil
}

// insert adds a text without control characters at the cursor, if there is room.
func (s screen) insert(text string) (screen, []effect) {
	if why := s.full(text); why != nil {
		return s, why
	}
	// Unlike the key for a new line, a paste into the text area is not limited to its height.
	return s.edited(tea.PasteMsg{Content: kept.Replace(text)}), nil
}

// excess returns a text about the limit that a text exceeds, with advice; empty if it exceeds none.
func excess(lines, bytes int) string {
	switch {
	case bytes > maxInput:
		return fmt.Sprintf("%d bytes, and a message has at most %d. Send it in parts.", bytes, maxInput)
	case lines > maxLines:
		return fmt.Sprintf("%d lines, and the input has at most %d. This sends a file as one message:\n"+
			`sed '$!s/$/\\/' FILE | ferment chat NAME`, lines, maxLines)
	}
	return ""
}

// trimmed returns a line without blank lines before and after its text. The indent of the text is
// kept.
func trimmed(line string) string {
	indent, rest := indented(line)
	if rest == "" {
		return ""
	}
	line = line[strings.LastIndexByte(indent, '\n')+1:]
	end := len(strings.TrimRightFunc(line, unicode.IsSpace))
	if n := strings.IndexByte(line[end:], '\n'); n >= 0 {
		line = line[:end+n]
	}
	return line
}

// indented splits a line at its first character that is not blank.
func indented(line string) (indent, rest string) {
	rest = strings.TrimLeftFunc(line, unicode.IsSpace)
	return line[:len(line)-len(rest)], rest
}

// cutBlank splits a text at its first blank, which is in neither part.
func cutBlank(s string) (before, after string) {
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return s[:i], s[i+n:]
}
