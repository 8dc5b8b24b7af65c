package text

import (
	"strings"
)

// block is a part of a text between blank lines. Limit and Sentences do not
// split whole blocks.
type block struct {
	Span
	whole bool
}

// blocks splits a text at blank lines, fences, tables, headings and list items.
func blocks(text string) []block {
	var out []block
	open := -1 // start of the current paragraph
	flush := func(end int) {
		if open >= 0 && strings.TrimSpace(text[open:end]) != "" {
			out = append(out, block{Span: Span{open, end}})
		}
		open = -1
	}
	whole := func(start, end int) {
		end = start + len(strings.TrimRight(text[start:end], " \t\r\n"))
		out = append(out, block{Span{start, end}, true})
	}
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		line := strings.TrimSpace(text[at:end])
		switch fence := fenceOf(line); {
		case line == "":
			flush(at)
		case fence != "":
			flush(at)
			start := at
			for end < len(text) {
				at, end = end, lineEnd(text, end)
				if strings.HasPrefix(strings.TrimSpace(text[at:end]), fence) {
					break
				}
			}
			whole(start, end)
		case tableRow(line):
			flush(at)
			start := at
			for end < len(text) {
				next := lineEnd(text, end)
				if !tableRow(strings.TrimSpace(text[end:next])) {
					break
				}
				end = next
			}
			whole(start, end)
		case heading(line):
			flush(at)
			whole(at, end)
		case listItem(line):
			flush(at)
			open = at
		case open < 0:
			open = at
		}
		at = end
	}
	flush(len(text))
	return out
}

// lineEnd returns the position after the line that begins at at.
func lineEnd(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

func fenceOf(line string) string {
	for _, fence := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, fence) {
			return fence
		}
	}
	return ""
}

func tableRow(line string) bool {
	return strings.HasPrefix(line, "|") && strings.Count(line, "|") >= 2
}

func heading(line string) bool {
	marks := len(line) - len(strings.TrimLeft(line, "#"))
	return marks >= 1 && marks <= 6 && len(line) > marks && line[marks] == ' '
}

func listItem(line string) bool {
	if len(line) > 2 && strings.ContainsRune("-*+", rune(line[0])) && line[1] == ' ' {
		return true
	}
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	return digits > 0 && digits <= 3 && len(line) > digits+1 && (line[digits] == '.' || line[digits] == ')') &&
		line[digits+1] == ' '
}
