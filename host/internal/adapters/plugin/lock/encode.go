package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const header = `# written by "ferment plugin lock"; commit this file` + "\n"

// Encode returns the text of the file, formatted as by "ferment fmt". Files with equal contents
// have equal texts. It returns an error for a content that Decode would reject.
func (f File) Encode() ([]byte, error) {
	f = NewFile(f.Plugins...)
	var b strings.Builder
	b.WriteString(header)
	fmt.Fprintf(&b, "lock {\n  format = %d\n}\n", Format)
	for _, p := range f.Plugins {
		encodePlugin(&b, p)
	}
	text := []byte(b.String())
	if !utf8.Valid(text) {
		return nil, errors.New("encode the lock file: a name in it is not UTF-8 text")
	}
	// Other hosts read the file, so Decode must accept it.
	if _, err := Decode("the lock file", text); err != nil {
		return nil, fmt.Errorf("encode the lock file: %w", err)
	}
	return text, nil
}

func encodePlugin(b *strings.Builder, p Plugin) {
	fmt.Fprintf(b, "\nplugin %s {\n", quote(p.Name))
	fmt.Fprintf(b, "  version  = %s\n  protocol = %s\n  needs    = %s\n", quote(p.Version), quote(p.Protocol),
		quoteAll(p.Needs))
	if len(p.Ports) > 0 {
		fmt.Fprintf(b, "  ports    = %s\n", quoteAll(portTexts(p.Ports)))
	}
	for _, x := range p.Binaries {
		fmt.Fprintf(b, "\n  binary %s {\n    hash = %s\n  }\n", quote(x.Platform), quote(x.Hash))
	}
	for _, x := range p.Files {
		fmt.Fprintf(b, "\n  file %s {\n    hash = %s\n  }\n", quote(x.Path), quote(x.Hash))
	}
	for _, c := range p.Capabilities {
		fmt.Fprintf(b, "\n  capability %s {\n    effects = %s\n    intents = %s\n  }\n", quote(c.ID), quoteAll(c.Effects),
			quoteAll(c.Intents))
	}
	b.WriteString("}\n")
}

func portTexts(ports []uint16) []string {
	out := make([]string, len(ports))
	for i, p := range ports {
		out[i] = strconv.Itoa(int(p))
	}
	return out
}

func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote returns the quoted form of a text, escaped so that it contains no template.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == utf8.RuneError && s[i] != "\ufffd"[0]:
			b.WriteByte(s[i]) // Encode rejects the text
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unquote decodes the text between two quotes.
func unquote(s string) (string, error) {
	var b strings.Builder
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, "$${"), strings.HasPrefix(s, "%%{"):
			b.WriteString(s[1:3])
			s = s[3:]
		case s[0] != '\\':
			b.WriteByte(s[0])
			s = s[1:]
		default:
			r, size, err := escape(s)
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			s = s[size:]
		}
	}
	return b.String(), nil
}

// escape decodes the escape sequence at the start of s.
func escape(s string) (rune, int, error) {
	if len(s) < 2 {
		return 0, 0, errors.New("a backslash ends the text")
	}
	switch s[1] {
	case 'n':
		return '\n', 2, nil
	case 't':
		return '\t', 2, nil
	case 'r':
		return '\r', 2, nil
	case '"', '\\':
		return rune(s[1]), 2, nil
	case 'u', 'U':
		digits := map[byte]int{'u': 4, 'U': 8}[s[1]]
		if len(s) < 2+digits {
			break
		}
		n, err := strconv.ParseUint(s[2:2+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) || n > unicode.MaxRune {
			break
		}
		return rune(n), 2 + digits, nil
	}
	return 0, 0, fmt.Errorf("unknown escape %q", s[:min(len(s), 2)])
}
