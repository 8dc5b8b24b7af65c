package chat

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// style determines whether text has attributes and colors of a terminal.
type style struct{ color bool }

// Attributes (ECMA-48, SGR).
const (
	bold   = "1"
	dim    = "2"
	italic = "3"
	under  = "4"
	struck = "9"
	red    = "31"
	green  = "32"
	cyan   = "36"
)

// mark adds an attribute to a text on one line.
func (s style) mark(attribute, text string) string {
	if !s.color || attribute == "" || text == "" {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[m"
}

// span is a text with one attribute.
type span struct{ attribute, text string }

var (
	heading = regexp.MustCompile(`^ {0,3}#{1,6} +(.*?) *#* *$`)
	item    = regexp.MustCompile(`^( *)([-*+]|\d{1,9}[.)]) +(.*)$`)
	rule    = regexp.MustCompile(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	quote   = regexp.MustCompile(`^ {0,3}> ?(.*)$`)
)

// render formats Markdown for a width. Without color the text is only wrapped. What is not Markdown
// is not changed. The text must be clean.
func render(text string, width int, s style) []string {
	var out []string
	end := "" // of the code block that contains the line
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line = strings.ReplaceAll(line, "\t", "    ")
		switch mark := fence(line); {
		case end != "":
			if !strings.HasPrefix(mark, end) {
				out = append(out, s.code(line, width)...)
				continue
			}
			end = ""
			out = append(out, s.fence(line, width)...)
		case mark != "":
			end = mark
			out = append(out, s.fence(line, width)...)
		default:
			out = append(out, s.line(line, width)...)
		}
	}
	return out
}

// fence returns the mark with which a line begins or ends a code block; empty if it does not.
func fence(line string) string {
	mark := strings.TrimLeft(line, " ")
	if len(line)-len(mark) > 3 || !strings.HasPrefix(mark, "```") && !strings.HasPrefix(mark, "~~~") {
		return ""
	}
	info := strings.TrimLeft(mark, mark[:1])
	if mark[0] == '`' && strings.Contains(info, "`") { // code within the line
		return ""
	}
	return mark[:len(mark)-len(info)]
}

// fence formats the first or last line of a code block. With color only the text beside the mark is
// shown, such as the language.
func (s style) fence(line string, width int) []string {
	if !s.color {
		return s.code(line, width)
	}
	line = strings.TrimSpace(line)
	info := strings.TrimSpace(strings.TrimLeft(line, line[:1]))
	if info == "" {
		return nil
	}
	return s.wrap([]span{{dim, info}}, "  ", "  ", width)
}

// code formats a line of a code block, whose columns are significant.
func (s style) code(line string, width int) (out []string) {
	indent := ""
	if s.color && width > 4 {
		indent = "  "
	}
	for part := range strings.SplitSeq(ansi.Hardwrap(line, max(1, width-len(indent)), true), "\n") {
		out = append(out, indent+s.mark(cyan, part))
	}
	return out
}

// line formats a line outside of code blocks.
func (s style) line(line string, width int) []string {
	line = narrowed(line, width)
	if !s.color {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if m := item.FindStringSubmatch(line); m != nil {
			indent = len(line) - len(m[3])
		}
		return s.wrap([]span{{"", strings.TrimLeft(line, " ")}}, line[:len(line)-len(strings.TrimLeft(line, " "))], strings.Repeat(" ", indent), width)
	}
	if m := heading.FindStringSubmatch(line); m != nil {
		return s.wrap(inline(m[1], bold), "", "", width)
	}
	if rule.MatchString(line) {
		return []string{s.mark(dim, strings.Repeat("─", min(width, 24)))}
	}
	if m := quote.FindStringSubmatch(line); m != nil {
		bar := s.mark(dim, "│") + " "
		return s.wrap(inline(m[1], italic), bar, bar, width)
	}
	if m := item.FindStringSubmatch(line); m != nil {
		bullet := m[2]
		if !unicode.IsDigit(rune(bullet[0])) {
			bullet = "•"
		}
		first := m[1] + s.mark(cyan, bullet) + " "
		return s.wrap(inline(m[3], ""), first, strings.Repeat(" ", ansi.StringWidth(first)), width)
	}
	if strings.HasPrefix(strings.TrimSpace(line), "|") { // the columns of a table matter
		return strings.Split(ansi.Hardwrap(line, max(1, width), true), "\n")
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	return s.wrap(inline(strings.TrimLeft(line, " "), ""), indent, indent, width)
}

// narrowed shortens an indent that leaves too little room for the text.
func narrowed(line string, width int) string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	return line[max(0, indent-max(0, width-4)/2):]
}

// inlined matches marked text within a line; the group determines the attribute.
var inlined = regexp.MustCompile("`{2,}(.+?)`{2,}|`([^`]+)`" +
	`|\\([\\` + "`" + `*_~\[\]#])` +
	`|\*\*([^\s*](?:.*?[^\s*])?)\*\*|\b__([^\s_](?:.*?[^\s_])?)__\b|~~([^\s~](?:.*?[^\s~])?)~~` +
	`|\*([^\s*](?:.*?[^\s*])?)\*|\b_([^\s_](?:.*?[^\s_])?)_\b|\[([^\[\]]+)\]\(([^()\s]+)\)`)

// attributes are the attributes for the groups of inlined.
var attributes = []string{"", cyan, cyan, "", bold, bold, struck, italic, italic, under}

// inline splits a line at code, emphasis and links.
func inline(s, around string) (out []span) {
	for s != "" {
		m := inlined.FindStringSubmatchIndex(s)
		if m == nil {
			return append(out, span{around, s})
		}
		out = append(out, span{around, s[:m[0]]})
		for group, attribute := range attributes {
			if group == 0 || m[2*group] < 0 {
				continue
			}
			inner, both := s[m[2*group]:m[2*group+1]], strings.Trim(around+";"+attribute, ";")
			switch {
			case attribute == cyan, attribute == "":
				out = append(out, span{both, strings.TrimSpace(inner)})
			case attribute == under && s[m[2*group+2]:m[2*group+3]] != inner:
				out = append(out, span{both, inner + " (" + s[m[2*group+2]:m[2*group+3]] + ")"})
			default:
				out = append(out, inline(inner, both)...)
			}
		}
		s = s[m[1]:]
	}
	return out
}

// wrap breaks spans between words at a width. Wider words are broken. Each part of a line has its
// own attributes, so that lines do not depend on each other.
func (s style) wrap(spans []span, first, next string, width int) []string {
	if strings.TrimSpace(next) == "" && ansi.StringWidth(next) > width-2 { // no room for a wide character
		next = ""
	}
	room := max(1, width-ansi.StringWidth(next))
	line, at := first, ansi.StringWidth(first)
	indent := at
	var out []string
	feed := func() {
		out = append(out, strings.TrimRight(line, " "))
		line, at, indent = next, ansi.StringWidth(next), ansi.StringWidth(next)
	}
	for _, sp := range spans {
		for word := range words(sp.text) {
			n := ansi.StringWidth(word)
			blank := strings.TrimSpace(word) == ""
			switch {
			case at+n <= width:
			case blank:
				continue
			case at > indent, at > 0 && n <= room:
				feed()
			}
			switch {
			case blank:
				line, at = line+word, at+n
				continue
			case n <= room:
				line, at = line+s.mark(sp.attribute, word), at+n
				continue
			}
			for part := range strings.SplitSeq(ansi.Hardwrap(word, room, true), "\n") {
				n := ansi.StringWidth(part)
				if at > indent || at > 0 && at+n > width {
					feed()
				}
				line, at = line+s.mark(sp.attribute, part), at+n
			}
		}
	}
	return append(out, strings.TrimRight(line, " "))
}

// words yields words and the blanks between them.
func words(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for s != "" {
			n := strings.IndexByte(s, ' ')
			if n == 0 {
				n = len(s) - len(strings.TrimLeft(s, " "))
			}
			if n < 0 {
				n = len(s)
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// tail returns the end of a Markdown text: at least the given number of lines, besides blank ones
// at its end. If it begins in a code block, the opening mark of the block is added, so that the
// omitted text does not affect it.
func tail(text string, lines int) string {
	at := len(strings.TrimRight(text, "\n"))
	for n := 0; n < lines && at > 0; n++ {
		at = max(0, strings.LastIndexByte(text[:at], '\n'))
	}
	if at == 0 {
		return text
	}
	open := ""
	for line := range strings.SplitSeq(text[:at], "\n") {
		switch mark := fence(line); {
		case open == "":
			open = mark
		case strings.HasPrefix(mark, open):
			open = ""
		}
	}
	rest := text[at+1:]
	if open != "" {
		return open + "\n" + rest
	}
	return rest
}
