package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// spell returns a decoded value as an HCL expression that decodes to the same
// value; empty for no value. Paths are relative to the root.
func (p printer) spell(t Type, v value) string {
	switch {
	case v.secret != nil:
		return p.spellSecret(*v.secret)
	case v.expr != nil && (t.Kind == KindCond || t.Kind == KindTemplate):
		return strings.TrimSuffix(sourceText(v.source, v.expr), "\n")
	case v.v.IsNil():
		return ""
	}
	switch t.Kind {
	case KindDur:
		ms, _ := v.v.AsInt()
		return quote(formatDuration(ms))
	case KindBytes:
		n, _ := v.v.AsInt()
		if n == 0 {
			return "0"
		}
		return quote(formatBytes(n))
	case KindRate:
		return spellRate(v.v)
	case KindDec:
		return spellText(strings.TrimSuffix(v.v.String(), "M"))
	case KindLayer:
		return p.spellLayer(v)
	case KindEDN:
		return spellEDN(v.v)
	case KindList, KindSet:
		parts := make([]string, len(v.items))
		for i, x := range v.items {
			parts[i] = p.spell(t.member(i), x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case KindMap:
		if t.Elem == nil {
			return hclText(v.v)
		}
		if len(v.keys) == 0 {
			return "{}"
		}
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = spellKey(k) + " = " + p.spell(*t.Elem, v.items[i])
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	if v.file {
		name, _ := v.v.AsString()
		return spellText(printedName(p.root, name))
	}
	return hclText(v.v)
}

func (p printer) spellSecret(s Secret) string {
	name := s.Name
	if s.Kind == "file" {
		name = printedName(p.root, s.path)
	}
	return "secret(" + spellText(s.Kind+":"+name) + ")"
}

func spellKey(k string) string {
	if hclsyntax.ValidIdentifier(k) {
		return k
	}
	return spellText(k)
}

func spellRate(v edn.Value) string {
	events, _ := v.Nth(0)
	period, _ := v.Nth(1)
	ms, _ := period.AsInt()
	unit := map[int64]string{1000: "s", 60_000: "min", 3_600_000: "h", 86_400_000: "d"}[ms]
	return spellText(events.String() + "/" + unit)
}

// composed matches an EDN escape followed by a combining accent. HCL normalizes strings and would combine the accent
// with the last letter of the escape.
var composed = regexp.MustCompile(`(\\(?:[bfnrt]|u[0-9a-fA-F]{4}))([\x{0300}-\x{036f}])`)

func spellEDN(v edn.Value) string {
	text := composed.ReplaceAllStringFunc(v.String(), func(s string) string {
		accent, size := utf8.DecodeLastRuneInString(s)
		return fmt.Sprintf("%s\\u%04x", s[:len(s)-size], accent)
	})
	return "edn(" + spellText(text) + ")"
}

// spellText quotes a string in native syntax.
func spellText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString("\\n")
		case r == '\r':
			b.WriteString("\\r")
		case r == '\t':
			b.WriteString("\\t")
		case (r == '$' || r == '%') && strings.HasPrefix(s[i+1:], "{"):
			b.WriteRune(r)
			b.WriteRune(r)
		case !strconv.IsPrint(r) && r > 0xFFFF:
			fmt.Fprintf(&b, "\\U%08x", r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// hclText returns data as an HCL expression: a literal if HCL has the same value,
// else edn("..."). Nil returns an empty string.
func hclText(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	if text, ok := plainHCL(v); ok {
		return text
	}
	return spellEDN(v)
}

// plainHCL returns a literal that decodes to the same data without edn().
func plainHCL(v edn.Value) (string, bool) {
	switch v.Kind() {
	case edn.KindNil:
		return "null", true
	case edn.KindBool:
		return v.String(), true
	case edn.KindString:
		s, _ := v.AsString()
		return spellText(s), true
	case edn.KindInt:
		return strings.TrimSuffix(v.String(), "N"), true
	case edn.KindDecimal:
		r, _ := v.AsNumber()
		if r.IsInt() || len(v.String()) > MaxNumberDigits {
			return "", false // it would decode as an integer
		}
		text := strings.TrimSuffix(v.String(), "M")
		return text, !strings.ContainsAny(text, "eE") && !strings.HasSuffix(text, "0")
	case edn.KindVector:
		return plainList(v)
	case edn.KindMap:
		return plainMap(v)
	}
	return "", false
}

func plainList(v edn.Value) (string, bool) {
	var parts []string
	for x := range v.Elems() {
		text, ok := plainHCL(x)
		if !ok {
			return "", false
		}
		parts = append(parts, text)
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

func plainMap(v edn.Value) (string, bool) {
	var parts []string
	for k, x := range v.Entries() {
		name, ok := k.AsKeyword()
		name = hclName(name)
		text, plain := plainHCL(x)
		if !ok || !plain || !hclsyntax.ValidIdentifier(name) || !edn.Equal(identifierKey(name), k) || x.IsNil() {
			return "", false
		}
		parts = append(parts, name+" = "+text)
	}
	if len(parts) == 0 {
		return "{}", true
	}
	slices.Sort(parts)
	return "{ " + strings.Join(parts, ", ") + " }", true
}
