package diag

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Columns is the maximum width of text for people.
const Columns = 100

// Wrap wraps text between words at Columns. The text starts at column at; further lines are
// indented by indent. Quoted text is not divided if it fits on one line, and a command of ferment
// is never divided, so that it can be copied.
func Wrap(text string, at, indent int) string {
	var b strings.Builder
	for i, piece := range pieces(text, Columns-indent) {
		n := utf8.RuneCountInString(piece)
		switch {
		case i > 0 && at+1+n > Columns && at > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(piece)
		at += n
	}
	return b.String()
}

// WrapLabeled wraps the text behind a label, with further lines below its beginning.
func WrapLabeled(label, text string) string {
	at := utf8.RuneCountInString(label)
	return label + Wrap(text, at, at)
}

// pieces splits text at its spaces, except within commands, and within quotes of at most the given
// number of columns.
func pieces(text string, columns int) []string {
	var out []string
	for text != "" || out == nil {
		end := pieceEnd(text, columns, out)
		out = append(out, text[:end])
		text = strings.TrimPrefix(text[end:], " ")
	}
	return out
}

const program = "ferment "

// pieceEnd returns the length of the first piece of text; before are the pieces before it.
func pieceEnd(text string, columns int, before []string) int {
	if strings.HasPrefix(text, program) && (before == nil || strings.HasSuffix(before[len(before)-1], ":")) {
		if i := strings.IndexAny(text, ",;"); i >= 0 {
			return i + 1
		}
		return len(text)
	}
	word := wordEnd(text, 0)
	quote := strings.IndexAny(text[:word], "\"`")
	for quote >= 0 {
		length := strings.IndexByte(text[quote+1:], text[quote])
		if length < 0 {
			break
		}
		end := wordEnd(text, quote+length+2)
		command := strings.HasPrefix(text[quote+1:], program)
		if !command && utf8.RuneCountInString(text[:end]) > columns {
			break
		}
		word = end
		if next := strings.IndexAny(text[quote+length+2:word], "\"`"); next >= 0 {
			quote += length + 2 + next
		} else {
			quote = -1
		}
	}
	return word
}

// wordEnd returns the index of the first space of text at or behind from, or its length.
func wordEnd(text string, from int) int {
	if i := strings.IndexByte(text[from:], ' '); i >= 0 {
		return from + i
	}
	return len(text)
}

// sentences are the labels of the lines that WrapError wraps, in an error and in a conformance
// result. Other lines are excerpts and commands.
var sentences = []string{"error:", "warning:", "where", "details", "hint", "cause", "requirement:", "expected:", "observed:"}

// WrapError wraps the sentences of a text that contract.Error.Text returned. The first line may
// begin with a position.
func WrapError(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if utf8.RuneCountInString(line) <= Columns {
			continue
		}
		blanks := len(line) - len(strings.TrimLeft(line, " "))
		label, rest, _ := strings.Cut(line[blanks:], " ")
		switch {
		case slices.Contains(sentences, label):
			sentence := strings.TrimLeft(rest, " ")
			lines[i] = WrapLabeled(line[:len(line)-len(sentence)], sentence)
		case i == 0 || blanks == listedBlanks && line[blanks] == '[':
			lines[i] = line[:blanks] + Wrap(line[blanks:], blanks, blanks+2)
		}
	}
	return strings.Join(lines, "\n")
}

// listedBlanks is the indent of a finding in the list of an error.
const listedBlanks = 4
