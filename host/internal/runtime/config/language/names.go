package language

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Title returns a path of block types and labels in the form of diagnostics. Labels are recognized
// by their position, because a block has at most one in the specification.
func Title(path []string) string {
	var parts []string
	block := Specification()
	for i := 0; i < len(path); i++ {
		part := path[i]
		if block != nil {
			next, ok := block.Block(part)
			if ok && next.Label != LabelNone && i+1 < len(path) {
				part += " " + diag.Quote(path[i+1])
				i++
			}
			block = next
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// Subject returns an attribute as the subject of a sentence, such as: depth in plugin "chess".
func Subject(path []string) string {
	if len(path) < 2 {
		return strings.Join(path, "")
	}
	if i, err := strconv.Atoi(path[len(path)-1]); err == nil {
		return fmt.Sprintf("member %d of %s", i+1, Subject(path[:len(path)-1]))
	}
	return path[len(path)-1] + " in " + Title(path[:len(path)-1])
}

// KeyOf returns the EDN key of an HCL name: :a-b for a_b. A name that is not a keyword becomes a
// string and is not changed.
func KeyOf(name string) edn.Value {
	k, err := edn.Keyword(strings.ReplaceAll(name, "_", "-"))
	if err != nil {
		return edn.Text(name)
	}
	return k
}

// PartName returns a path in the syntax of expressions, such as .limits[0].max; empty for the whole
// value.
func PartName(path []edn.Value) string {
	var b strings.Builder
	for _, step := range path {
		if i, ok := step.AsInt(); ok {
			fmt.Fprintf(&b, "[%d]", i)
		} else {
			b.WriteString("." + HCLName(ScalarText(step)))
		}
	}
	return b.String()
}

// HCLName returns the HCL name of a keyword: a_b for a-b?. KeyOf reverses it, except for final
// question marks and underscores.
func HCLName(keyword string) string {
	return strings.ReplaceAll(strings.TrimSuffix(keyword, "?"), "-", "_")
}

// ScalarText returns the text of a keyword, a string or another map key in expressions.
func ScalarText(v edn.Value) string {
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		return s
	case edn.KindKeyword:
		s, _ := v.AsKeyword()
		return s
	case edn.KindSymbol:
		s, _ := v.AsSymbol()
		return s
	case edn.KindChar:
		r, _ := v.AsChar()
		return string(r)
	case edn.KindInst, edn.KindUUID: // the string in the canonical literal
		s := v.String()
		if _, inner, ok := strings.Cut(s, " "); ok {
			return strings.Trim(inner, `"`)
		}
		return s
	}
	return v.String()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariableName reports whether a text is a valid name of an environment variable.
func IsVariableName(s string) bool { return variableName.MatchString(s) }
