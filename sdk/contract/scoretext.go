package contract

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// maxMapStarts limits the positions of a text that are tried as the start of a
// map: each costs a pass over the text.
const maxMapStarts = 256

// WholeValue reads a text that consists of exactly one value, JSON or EDN. A
// code fence around it is ignored. It rejects a value with text around it,
// which may be a quotation.
func WholeValue(s string) (edn.Value, bool) {
	const fence = "```"
	s = strings.TrimSpace(s)
	inner, opened := strings.CutPrefix(s, fence)
	inner, closed := strings.CutSuffix(inner, fence)
	language, rest, lines := strings.Cut(inner, "\n")
	if opened && closed && lines && !strings.ContainsAny(language, "{[(\"") {
		s = rest
	}
	return textValue(s)
}

// ValuesIn returns the values in a text: the whole text as JSON or EDN,
// otherwise the outermost maps in it, in order. Models often add text around
// the requested value.
func ValuesIn(s string) []edn.Value {
	if v, ok := textValue(s); ok {
		return []edn.Value{v}
	}
	var out []edn.Value
	starts := 0
	for i := 0; i < len(s) && starts < maxMapStarts; i++ {
		if s[i] != '{' {
			continue
		}
		starts++
		end := closingBrace(s[i:])
		if end < 0 {
			continue
		}
		if v, ok := textValue(s[i : i+end]); ok && v.IsMap() {
			out = append(out, v)
			i += end - 1
		}
	}
	return out
}

func textValue(s string) (edn.Value, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return edn.Nil(), false
	}
	if v, err := edn.ReadJSON([]byte(s), edn.WithLimits(edn.Body)); err == nil {
		return v, true
	}
	v, err := edn.ReadString(s, edn.WithLimits(edn.Body))
	return v, err == nil
}

// closingBrace returns the end of the map at the start of s, -1 if it is not
// closed.
func closingBrace(s string) int {
	depth := 0
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
