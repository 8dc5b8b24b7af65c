package extract

import (
	"fmt"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits of a description.
const (
	maxHeadings = 30
	maxSentence = 200 // characters
)

// text describes a text file: a line with its language and its title, then
// headings and open tasks.
func text(f File) (string, error) {
	if Binary(f.Data) {
		return "", notText(f, Text)
	}
	s := valid(f.Data)
	language := languageOf(f)
	var b strings.Builder
	title, headings := titleOf(s, language), []string(nil)
	if language == "Markdown" {
		headings = markdownHeadings(s)
		if len(headings) > 0 {
			title = strings.TrimLeft(headings[0], "# ")
		}
	}
	fmt.Fprintf(&b, "%s, %s", language, plural(lines(s), "line"))
	if title != "" {
		fmt.Fprintf(&b, ": %s", cut(title, maxSentence))
	}
	b.WriteString("\n")
	if opening := paragraph(s, language); opening != "" && opening != title {
		fmt.Fprintf(&b, "\n%s\n", cut(opening, 2*maxSentence))
	}
	if len(headings) > 1 {
		b.WriteString("\nheadings:\n")
		for i, h := range headings {
			if i == maxHeadings {
				fmt.Fprintf(&b, "and %d more\n", len(headings)-i)
				break
			}
			fmt.Fprintf(&b, "%s\n", cut(h, maxSentence))
		}
	}
	b.WriteString(tasks(s))
	return b.String(), nil
}

var taskMark = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

// tasks returns a line with the numbers of TODO, FIXME, XXX and HACK marks, "" if there are none.
func tasks(s string) string {
	counts, order := map[string]int{}, []string{"TODO", "FIXME", "XXX", "HACK"}
	for _, m := range taskMark.FindAllString(s, -1) {
		counts[m]++
	}
	var found []string
	for _, name := range order {
		if counts[name] > 0 {
			found = append(found, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	if found == nil {
		return ""
	}
	return "\nopen tasks: " + strings.Join(found, ", ") + "\n"
}

// markdownHeadings returns the headings outside of code blocks.
func markdownHeadings(s string) (list []string) {
	code, before := "", ""
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimRight(line, " \r\t")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case code != "":
			if strings.HasPrefix(trimmed, code) {
				code = ""
			}
			line = ""
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			code = trimmed[:3]
			line = ""
		case strings.HasPrefix(line, "#"):
			if hashes := line[:len(line)-len(strings.TrimLeft(line, "#"))]; len(hashes) <= 6 && strings.HasPrefix(line[len(hashes):], " ") {
				list = append(list, hashes+" "+strings.TrimSpace(strings.TrimRight(line[len(hashes):], "# ")))
			}
			line = ""
		case before != "" && len(line) >= 2 && strings.Trim(line, "=") == "":
			list = append(list, "# "+strings.TrimSpace(before))
		}
		before = line
	}
	return list
}

// comments are the starts of lines of comments.
var comments = []string{"//", "#!", "#", "--", ";", "%", "/*", "*/", "<!--", "\"\"\"", "'''"}

// hashed are the languages in which only # begins a comment.
var hashed = []string{
	"Ignore patterns", "YAML", "TOML", "Makefile", "Dockerfile", "Shell script", "Ruby", "Perl", "R", "Elixir",
}

// bareLines iterates over the trimmed lines of a text; bare is the line without its comment mark. A
// leading star is a comment mark only inside a comment of several lines.
func bareLines(s, language string) iter.Seq2[string, string] {
	return func(yield func(line, bare string) bool) {
		inside := false
		for line := range strings.SplitSeq(s, "\n") {
			line = strings.TrimSpace(line)
			bare := uncomment(line, language)
			if inside && strings.HasPrefix(line, "*") {
				bare = endless(strings.TrimLeft(line, "*"))
			}
			if inside || bare != line {
				open, end := strings.LastIndex(line, "/*"), strings.LastIndex(line, "*/")
				inside = open > end || inside && end < 0
			}
			if !yield(line, bare) {
				return
			}
		}
	}
}

// endless returns the text of a comment without the mark of its end.
func endless(text string) string {
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(text, "*/"), "-->"))
}

// titleOf returns the first line that contains a letter or digit, without its comment mark.
func titleOf(s, language string) string {
	for line, bare := range bareLines(s, language) {
		if !strings.HasPrefix(line, "#!") && strings.ContainsFunc(bare, isWord) {
			return bare
		}
	}
	return ""
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 127
}

// uncomment removes the mark of a comment from a line of a language that has
// comments.
func uncomment(line, language string) string {
	if language == "Plain text" || language == "Text" || language == "Markdown" || language == "CSV" || language == "JSON" {
		return line
	}
	marks := comments
	if slices.Contains(hashed, language) || strings.HasPrefix(language, "Script for ") {
		marks = []string{"#"}
	}
	for _, c := range marks {
		if rest, ok := strings.CutPrefix(line, c); ok {
			return endless(strings.TrimLeft(rest, c))
		}
	}
	return line
}

// paragraph returns the first paragraph of prose, of a text, or of the comment
// that a program begins with.
func paragraph(s, language string) string {
	prose := language == "Markdown" || language == "Plain text" || language == "reStructuredText" || language == "AsciiDoc"
	var found []string
	for line, bare := range bareLines(s, language) {
		switch {
		case strings.HasPrefix(line, "#!"):
		case prose && len(line) > 1 && (strings.Trim(line, "=") == "" || strings.Trim(line, "-") == ""):
			found = nil // it underlines a heading
		case prose && (strings.HasPrefix(line, "#") || strings.HasPrefix(line, "[!") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "<")):
			if found != nil {
				return strings.Join(found, " ")
			}
		case bare == "" || !prose && bare == line:
			if found != nil || !prose && line != "" {
				return strings.Join(found, " ")
			}
		default:
			found = append(found, bare)
		}
	}
	return strings.Join(found, " ")
}

// baseName returns the last component of a path, for messages.
func baseName(f File) string { return path.Base(f.Path) }
