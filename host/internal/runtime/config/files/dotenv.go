package files

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
)

// Limits of a file of environment variables (HCL-017).
const (
	MaxEnvBytes = 256 << 10
	MaxEnvKeys  = 1000
)

// Variable is a variable of an .env file.
type Variable struct {
	value string
	At    *diag.Range
	Open  bool // the file is accessible to other users
}

// envProblem is the first mistake in a line of an .env file.
type envProblem struct {
	typ, message, hint string
	from, to           int
	other              int // offset of the conflicting text; -1: none
}

// parseEnv parses an .env file without expansion. It reports every invalid line; a report never
// contains a value.
func parseEnv(s *diag.Source, report *diag.Collector) map[string]Variable {
	out := map[string]Variable{}
	add := func(p *envProblem) {
		d := diag.Diagnostic{Type: p.typ, Message: p.message, Range: s.Span(p.from, p.to), Hint: p.hint}
		if p.other >= 0 {
			d.Related = []diag.Related{{Range: s.Span(p.other, p.other), Message: "is the first one"}}
		} else {
			report.Poison(diag.EnvFile, "") // a variable may be missing because of it
		}
		report.Add(d)
	}
	if b := syntax.ScanText(s.Text); b != nil {
		add(&envProblem{b.Type, b.Message, b.Hint, b.From, b.To, -1})
		return out
	}
	first := map[string]int{}
	for from := 0; from < len(s.Text); {
		end := from + len(s.Text[from:])
		if i := bytes.IndexByte(s.Text[from:], '\n'); i >= 0 {
			end = from + i
		}
		key, value, p := envLine(string(s.Text[from:end]))
		switch at, twice := first[key]; {
		case p != nil:
			p.from, p.to = p.from+from, end
			add(p)
		case key == "":
		case twice:
			add(&envProblem{"config/duplicate", "variable " + key + " is set twice in one file", "keep one of the two",
				from, end, at})
		case len(out) >= MaxEnvKeys:
			add(&envProblem{"config/limit", fmt.Sprintf("more than %d variables in one file", MaxEnvKeys),
				"delete those that no configuration reads", from,
				end, -1})
			return out
		default:
			first[key] = from
			out[key] = Variable{value: value, At: s.Span(from, end)}
		}
		from = end + 1
	}
	return out
}

// envLine parses KEY=VALUE, optionally with export before it. The key is empty if the line has no
// variable.
func envLine(line string) (key, value string, p *envProblem) {
	text := strings.TrimLeft(line, " \t")
	if text == "" || text[0] == '#' {
		return "", "", nil
	}
	wrong := func(at int, message, hint string) (string, string, *envProblem) {
		return "", "", &envProblem{"config/syntax", message, hint, at, 0, -1}
	}
	start := len(line) - len(text)
	if rest, ok := strings.CutPrefix(text, "export"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		text = strings.TrimLeft(rest, " \t")
		start = len(line) - len(text)
	}
	name, rest, ok := strings.Cut(text, "=")
	name = strings.TrimRight(name, " \t")
	switch {
	case !ok:
		return wrong(start, "a line of variables has no =", "write KEY=VALUE, or # before a comment")
	case !language.IsVariableName(name):
		return wrong(start, "the name before = is not a variable name",
			"letters, digits and _, not beginning with a digit")
	}
	at := len(line) - len(rest)
	value, message := envValue(strings.Trim(rest, " \t"))
	if message != "" {
		return wrong(at, "variable "+name+": "+message,
			"write the value on one line, in ' as it stands or in \" with \\n, \\t, \\\" and \\\\")
	}
	return name, value, nil
}

// envValue parses the text after the equals sign: literal in single quotes, with four escapes in
// double quotes, otherwise up to a comment. problem is empty if the text is valid.
func envValue(text string) (value, problem string) {
	if text == "" {
		return "", ""
	}
	switch text[0] {
	case '\'':
		inner, rest, ok := strings.Cut(text[1:], "'")
		if !ok {
			return "", "the quote is not closed"
		}
		return inner, afterQuote(rest)
	case '"':
		return doubleQuoted(text[1:])
	case '#':
		return "", ""
	}
	if i := commentAt(text); i >= 0 {
		text = text[:i]
	}
	return strings.TrimRight(text, " \t"), ""
}

func commentAt(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
			return i
		}
	}
	return -1
}

func doubleQuoted(text string) (value, problem string) {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch r {
		case '"':
			return b.String(), afterQuote(text[i+1:])
		case '\\':
			if i+1 >= len(text) {
				return "", "the quote is not closed"
			}
			c, ok := map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\'}[text[i+1]]
			if !ok {
				return "", "between double quotes only \\n, \\t, \\\" and \\\\ are known"
			}
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteString(text[i : i+size])
		i += size
	}
	return "", "the quote is not closed"
}

// afterQuote returns a problem unless the text after a closing quote is blank or a comment.
func afterQuote(rest string) string {
	if rest = strings.Trim(rest, " \t"); rest == "" || rest[0] == '#' {
		return ""
	}
	return "something follows the closed quote"
}

// loadEnv reads one .env file; its variables override those of earlier files.
func (g *gatherer) loadEnv(full string) {
	s, ok := g.source(full, MaxEnvBytes)
	if !ok {
		return
	}
	s.Private = true
	info, err := os.Stat(full)
	exposed := err == nil && info.Mode().Perm()&0o077 != 0
	for key, v := range parseEnv(s, g.report) {
		v.Open = exposed
		g.Variables[key] = v
	}
}

// Lookup returns the value of an environment variable, and whether it is set. The process
// environment takes precedence over .env files.
func (s *Set) Lookup(name string) (string, bool) {
	if v, ok := s.env(name); ok {
		return v, true
	}
	v, ok := s.Variables[name]
	return v.value, ok
}
