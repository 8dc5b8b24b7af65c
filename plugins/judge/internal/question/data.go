package question

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// hostKeys describe how an answer was produced; a judge must not see them.
var hostKeys = []string{"invoke/meta", "usage", "trace", "cap/id", "agent/id", "models/used", "plan/run", "run/id",
	"request/id"}

// Content returns the part of a result meant for its reader: the text or the
// value under :out, without the host's metadata.
func Content(v edn.Value) edn.Value {
	for _, path := range [][]edn.Value{{edn.K("result"), edn.K("out")}, {edn.K("out")}} {
		if at, ok := v.GetIn(path...); ok && !at.IsNil() {
			v = at
			break
		}
	}
	return v
}

// Text formats a value for a judge: a text unchanged, the texts of a map under
// their names, anything else as EDN.
func Text(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	}
	if !v.IsMap() {
		return string(edn.WritePretty(v, edn.PrettyOptions{}))
	}
	var parts []string
	for key, val := range v.Entries() {
		name, ok := key.AsKeyword()
		if slices.Contains(hostKeys, name) {
			continue
		}
		if !ok {
			name = key.String()
		}
		text := ""
		if val.IsMap() || val.IsString() {
			text = Text(val)
		} else {
			text = string(edn.WritePretty(val, edn.PrettyOptions{}))
		}
		if text == "" || text == "{}" {
			continue
		}
		if v.Len() == 1 {
			return text
		}
		separator := " "
		if strings.Contains(text, "\n") {
			separator = "\n"
		}
		parts = append(parts, name+":"+separator+text)
	}
	return strings.Join(parts, "\n")
}

// Blind removes names from texts. The zero Blind removes nothing.
type Blind struct{ pattern *regexp.Regexp }

// removed replaces a name.
const removed = "[name]"

// NewBlind returns a Blind for the names; those of fewer than two characters are ignored. Case is
// ignored, and a name matches only without an adjacent letter or digit.
func NewBlind(names []string) Blind {
	var quoted []string
	for _, n := range names {
		if n = strings.TrimSpace(n); utf8.RuneCountInString(n) > 1 {
			quoted = append(quoted, regexp.QuoteMeta(n))
		}
	}
	if len(quoted) == 0 {
		return Blind{}
	}
	slices.SortFunc(quoted, func(a, b string) int { return len(b) - len(a) }) // longest first
	return Blind{regexp.MustCompile("(?i)" + strings.Join(quoted, "|"))}
}

// Without returns s with each name replaced by removed.
func (b Blind) Without(s string) string {
	if b.pattern == nil {
		return s
	}
	var out strings.Builder
	from := 0
	for _, at := range b.pattern.FindAllStringIndex(s, -1) {
		before, _ := utf8.DecodeLastRuneInString(s[:at[0]])
		after, _ := utf8.DecodeRuneInString(s[at[1]:])
		if at[0] > 0 && wordly(before) || at[1] < len(s) && wordly(after) {
			continue
		}
		out.WriteString(s[from:at[0]])
		out.WriteString(removed)
		from = at[1]
	}
	return out.String() + s[from:]
}

func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
