package decode

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Spell returns a decoded value as an HCL expression that decodes to the same value; empty if it
// has no value. Paths are relative to the root.
func (p Printer) Spell(t language.Type, v Value) string {
	switch {
	case v.Secret != nil:
		return p.SpellSecret(*v.Secret)
	case v.Expr != nil && (t.Kind == language.KindCond || t.Kind == language.KindTemplate):
		return strings.TrimSuffix(syntax.SourceText(v.Source, v.Expr), "\n")
	case v.EDN.IsNil():
		return ""
	}
	switch t.Kind {
	case language.KindDur:
		ms, _ := v.EDN.AsInt()
		return diag.Quote(language.FormatDuration(ms))
	case language.KindBytes:
		n, _ := v.EDN.AsInt()
		if n == 0 {
			return "0"
		}
		return diag.Quote(language.FormatBytes(n))
	case language.KindRate:
		return spellRate(v.EDN)
	case language.KindDec:
		return SpellText(strings.TrimSuffix(v.EDN.String(), "M"))
	case language.KindLayer:
		return p.spellLayer(v)
	case language.KindEDN:
		return SpellEDN(v.EDN)
	case language.KindList, language.KindSet:
		if t.OrMap && v.EDN.Kind() == edn.KindMap {
			return p.Spell(t.Mapped(), v)
		}
		parts := make([]string, len(v.Items))
		for i, x := range v.Items {
			parts[i] = p.Spell(t.Member(i), x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case language.KindMap:
		if t.Elem == nil {
			return HCLText(v.EDN)
		}
		if len(v.Keys) == 0 {
			return "{}"
		}
		parts := make([]string, len(v.Keys))
		for i, k := range v.Keys {
			parts[i] = SpellKey(k) + " = " + p.Spell(*t.Elem, v.Items[i])
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	if v.file {
		name, _ := v.EDN.AsString()
		return SpellText(disk.PrintedName(p.Root, name))
	}
	return HCLText(v.EDN)
}

// SpellSecret returns the HCL call for a secret, such as secret("env:KEY").
func (p Printer) SpellSecret(s expression.Secret) string {
	name := s.Name
	if s.Kind == "file" {
		name = disk.PrintedName(p.Root, s.Path)
	}
	return "secret(" + SpellText(s.Kind+":"+name) + ")"
}

// SpellKey returns the key of an object in native syntax, quoted unless it is an identifier.
func SpellKey(k string) string {
	if hclsyntax.ValidIdentifier(k) {
		return k
	}
	return SpellText(k)
}

func spellRate(v edn.Value) string {
	events, _ := v.Nth(0)
	period, _ := v.Nth(1)
	ms, _ := period.AsInt()
	unit := map[int64]string{1000: "s", 60_000: "min", 3_600_000: "h", 86_400_000: "d"}[ms]
	return SpellText(events.String() + "/" + unit)
}

// composed matches an EDN escape followed by a combining accent. HCL normalizes strings and would combine the accent
// with the last letter of the escape.
var composed = regexp.MustCompile(`(\\(?:[bfnrt]|u[0-9a-fA-F]{4}))([\x{0300}-\x{036f}])`)

// SpellEDN returns v as an HCL call of the function edn.
func SpellEDN(v edn.Value) string {
	text := composed.ReplaceAllStringFunc(v.String(), func(s string) string {
		accent, size := utf8.DecodeLastRuneInString(s)
		return fmt.Sprintf("%s\\u%04x", s[:len(s)-size], accent)
	})
	return "edn(" + SpellText(text) + ")"
}

// SpellText returns a string as a quoted HCL string.
func SpellText(s string) string {
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

// HCLText returns data as an HCL expression: a literal if HCL has an equal value, else edn("...").
// For nil it returns an empty string.
func HCLText(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	if text, ok := plainHCL(v); ok {
		return text
	}
	return SpellEDN(v)
}

// plainHCL returns a literal that decodes to the same data without edn(); false if there is none.
func plainHCL(v edn.Value) (string, bool) {
	switch v.Kind() {
	case edn.KindNil:
		return "null", true
	case edn.KindBool:
		return v.String(), true
	case edn.KindString:
		s, _ := v.AsString()
		return SpellText(s), true
	case edn.KindInt:
		return strings.TrimSuffix(v.String(), "N"), true
	case edn.KindDecimal:
		r, _ := v.AsNumber()
		if r.IsInt() || len(v.String()) > syntax.MaxNumberDigits {
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
		name = language.HCLName(name)
		text, plain := plainHCL(x)
		if !ok || !plain || !hclsyntax.ValidIdentifier(name) || !edn.Equal(language.KeyOf(name), k) || x.IsNil() {
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
