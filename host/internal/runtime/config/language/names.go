package language

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Title formats a path of block types and labels. Labels are recognized by their
// position: in the specification a block has at most one.
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

// Subject returns an attribute as the subject of a sentence: depth in plugin "chess".
func Subject(path []string) string {
	if len(path) < 2 {
		return strings.Join(path, "")
	}
	if i, err := strconv.Atoi(path[len(path)-1]); err == nil {
		return fmt.Sprintf("member %d of %s", i+1, Subject(path[:len(path)-1]))
	}
	return path[len(path)-1] + " in " + Title(path[:len(path)-1])
}

// KeyOf returns the EDN key of an HCL name: a_b is :a-b. A name that is not a keyword
// becomes a string, unchanged.
func KeyOf(name string) edn.Value {
	k, err := edn.Keyword(strings.ReplaceAll(name, "_", "-"))
	if err != nil {
		return edn.Text(name)
	}
	return k
}

// PartName returns a path in expression syntax, such as .limits[0].max; empty for the whole value.
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

// HCLName returns the HCL name of a keyword: a-b? is a_b. KeyOf restores neither a final
// question mark nor an underscore.
func HCLName(keyword string) string {
	return strings.ReplaceAll(strings.TrimSuffix(keyword, "?"), "-", "_")
}

// ScalarText returns the text of a name, a string or a map key in expressions.
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
	case edn.KindInst, edn.KindUUID: // the string inside the canonical literal
		s := v.String()
		if _, inner, ok := strings.Cut(s, " "); ok {
			return strings.Trim(inner, `"`)
		}
		return s
	}
	return v.String()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariableName reports whether a text is the name of an environment variable.
func IsVariableName(s string) bool { return variableName.MatchString(s) }
