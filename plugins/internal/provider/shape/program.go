package shape

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/text"
)

// Program returns the program text of an answer without the reasoning before it: the content of the
// only fenced block if it encloses the whole answer or stands between an introduction and remarks,
// else all of it, because a program may contain fenced blocks. how names the place, as for a value.
// ok is false if it is unclear which part is the program.
func Program(answer string) (program, how string, ok bool) {
	answer = strings.TrimLeft(text.WithoutReasoningBefore(answer), "\n")
	b := blocksOf(answer)
	before := strings.TrimSpace(answer[:b.start])
	switch {
	case b.count == 0, before != "" && !isProse(before):
		return answer, foundJSON, true
	case b.count > 1 || b.open || b.indent != "":
		return "", "", false
	case (before == "" || introduces(before)) && isRemark(strings.TrimSpace(answer[b.end:])):
		return answer[b.from:b.to], foundFence, true
	}
	return "", "", false
}

// blocks are the fenced blocks of a text. All fences have the indentation of the first one, so that the
// context of a diff closes no block.
type blocks struct {
	count      int
	start, end int // of the first block
	from, to   int // of its content
	indent     string
	open       bool
}

func blocksOf(s string) blocks {
	b := blocks{start: len(s), end: len(s)}
	var nested []int // lengths of the open fences; the first is that of the block
	at := 0
	for line := range strings.Lines(s) {
		begin := at
		at += len(line)
		marks := strings.TrimLeft(line, " \t")
		indent, rest := line[:len(line)-len(marks)], strings.TrimLeft(marks, "`")
		n, info := len(marks)-len(rest), strings.TrimSpace(rest)
		switch {
		case n < 3 || b.count > 0 && indent != b.indent || strings.Contains(info, "`") || len(nested) > 0 && n < nested[0]:
		case len(nested) == 0:
			if b.count++; b.count == 1 {
				b.start, b.from, b.indent = begin, at, indent
			}
			nested = append(nested, n)
		case info != "":
			nested = append(nested, n)
		case n >= nested[len(nested)-1]:
			nested = nested[:len(nested)-1]
			if len(nested) == 0 && b.count == 1 {
				b.to, b.end = begin, at
			}
		}
	}
	b.open = len(nested) > 0
	return b
}

// introduces reports whether a text announces the block behind it.
func introduces(before string) bool {
	return strings.HasSuffix(before, ":") && !strings.Contains(before, "\n\n")
}

// isRemark reports whether a text is one paragraph of prose, or nothing.
func isRemark(after string) bool {
	return after == "" || isProse(after) && !strings.Contains(after, "\n\n")
}

// isProse reports whether each line of a text begins like prose or markup for people, and the last one
// ends like it.
func isProse(s string) bool {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		first, _ := utf8.DecodeRuneInString(line)
		if line != "" && !unicode.IsLetter(first) && !unicode.IsDigit(first) && !strings.ContainsRune("#*->_", first) {
			return false
		}
	}
	return endsProse.MatchString(s)
}

// endsProse matches the end of a text whose last line is a sentence, an announcement or a heading.
var endsProse = regexp.MustCompile(`(?:[.:!?…][)"*_]*|(?:^|\n)#+ [^\n]*)$`)
