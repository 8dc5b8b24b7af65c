package shape

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// The places in which a value can be found in a text.
const (
	foundJSON   = "" // the whole text, as requested
	foundEDN    = "edn"
	foundFence  = "fenced"
	foundInside = "embedded"
)

// found is a value and its place.
type found struct {
	value edn.Value
	how   string
	json  bool
}

// find finds a map or a vector, or a scalar of JSON if scalars is set: the whole answer as JSON or EDN,
// whose strings may contain any tag, or, in the answer without reasoning, the whole text as JSON or as
// EDN, the last fenced block, or the first object or array in the text (TXT-001, LLM-043). A scalar
// inside of a text is not an answer.
//
// A closing tag that is left stands in code, which reasoning may have opened and not closed. A
// value in front of it is not taken.
func find(answer string, scalars bool) (found, bool) {
	prose := text.WithoutReasoning(answer)
	for _, whole := range slices.Compact([]string{strings.TrimSpace(answer), strings.TrimSpace(prose)}) {
		if v, ok := readJSON(whole, scalars); ok {
			return found{v, foundJSON, true}, true
		}
		if v, ok := readEDN(whole); ok {
			return found{v, foundEDN, false}, true
		}
	}
	if inner, rest, ok := lastFence(prose); ok && !closingTag.MatchString(rest) {
		if v, ok := readJSON(inner, scalars); ok {
			return found{v, foundFence, true}, true
		}
		if v, ok := readEDN(inner); ok {
			return found{v, foundFence, false}, true
		}
	}
	if tags := closingTag.FindAllStringIndex(prose, -1); len(tags) > 0 {
		prose = prose[tags[len(tags)-1][1]:]
	}
	return embedded(prose)
}

// closingTag matches the end of a block of reasoning.
var closingTag = regexp.MustCompile(`(?i)</(?:think|thinking|reasoning)>`)

func readJSON(s string, scalars bool) (edn.Value, bool) {
	if s == "" || s[0] != '{' && s[0] != '[' && !scalars {
		return edn.Nil(), false
	}
	v, err := edn.ReadJSON([]byte(s), edn.WithLimits(edn.Wire))
	return v, err == nil
}

func readEDN(s string) (edn.Value, bool) {
	if s == "" || s[0] != '{' && s[0] != '[' {
		return edn.Nil(), false
	}
	v, err := edn.ReadString(s, edn.WithLimits(edn.Wire))
	return v, err == nil
}

// lastFence returns the content of the last closed fenced block and the text behind it.
func lastFence(text string) (inner, rest string, ok bool) {
	const fence = "```"
	begun, open, at := "", false, 0
	for line := range strings.Lines(text) {
		at += len(line)
		mark := strings.TrimSpace(line)
		switch {
		case !open && strings.HasPrefix(mark, fence):
			open, begun = true, ""
		case open && mark == fence:
			open, ok, inner, rest = false, true, begun, text[at:]
		case open:
			begun += line
		}
	}
	return strings.TrimSpace(inner), rest, ok
}

// maxStarts bounds the restarts of the search inside a text, so that it stays
// linear.
const maxStarts = 64

// embedded finds the first object or array in a text. A cut or malformed one is
// never searched: a value in it is a part of the answer, not the answer.
func embedded(text string) (found, bool) {
	for range maxStarts {
		start := strings.IndexAny(text, "{[")
		if start < 0 {
			break
		}
		text = text[start:]
		n, end := balanced(text)
		if end == closed {
			if v, ok := readJSON(text[:n], false); ok {
				return found{v, foundInside, true}, true
			}
			if v, ok := readEDN(text[:n]); ok && v.IsMap() {
				return found{v, foundInside, false}, true
			}
		}
		switch {
		case !beginsData.MatchString(text) || end == mismatched && beginsNumber.MatchString(text):
			text = text[1:] // brackets of prose
		case end == closed:
			text = text[n:]
		default:
			return found{}, false
		}
	}
	return found{}, false
}

var (
	// beginsData matches the beginning of an object or an array of JSON or EDN.
	beginsData = regexp.MustCompile(`^(?:\{[\s,]*(?:["':}#]|$)|\[[\s,]*(?:["{\[:#\]-]|[0-9]|(?:true|false|null|nil)\b|$))`)
	// beginsNumber matches an array of numbers; in prose it is an interval if
	// its brackets do not match.
	beginsNumber = regexp.MustCompile(`^\[[\s,]*[0-9-]`)
)

// ending is the way in which a bracketed text ends.
type ending uint8

const (
	closed ending = iota
	// cut is a text that ends before its brackets are closed.
	cut
	// mismatched is a text with a closing bracket of another kind.
	mismatched
)

// balanced returns the length of the bracketed text at the beginning of s, up
// to its end or to the mismatched bracket.
func balanced(s string) (int, ending) {
	var open []byte
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open = append(open, c+2) // the closing bracket is two further in ASCII
		case c == '(':
			open = append(open, ')')
		case c == '}' || c == ']' || c == ')':
			if open[len(open)-1] != c {
				return i, mismatched
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1, closed
			}
		}
	}
	return len(s), cut
}
