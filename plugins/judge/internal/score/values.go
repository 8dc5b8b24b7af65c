package score

import (
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// mostStarts bounds how many places of a text are tried for the start of a map:
// each costs a walk over the text.
const mostStarts = 256

// Values gives the values that a text holds: the whole text as JSON or EDN, else
// the maps in it, in order and outermost only.
func Values(s string) []edn.Value {
	if v, ok := value(s); ok {
		return []edn.Value{v}
	}
	var out []edn.Value
	starts := 0
	for i := 0; i < len(s) && starts < mostStarts; i++ {
		if s[i] != '{' {
			continue
		}
		starts++
		end := closing(s[i:])
		if end < 0 {
			continue
		}
		if v, ok := value(s[i : i+end]); ok && v.IsMap() {
			out = append(out, v)
			i += end - 1
		}
	}
	return out
}

func value(s string) (edn.Value, bool) {
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

// closing finds the end of the map that s begins with, -1 if it has none.
func closing(s string) int {
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
