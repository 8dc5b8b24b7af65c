package workspace

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// page is the text output of a verb.
type page struct {
	strings.Builder
	verbose bool // ids in full
	given   map[string]*setting
}

// line writes one line.
func (p *page) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// labelWidth is the width of the labels of fields.
const labelWidth = 11

// field writes a label and its text, which is wrapped under its beginning; nothing if the text is
// empty.
func (p *page) field(label, text string) {
	if text == "" {
		return
	}
	if label = fmt.Sprintf("%-*s", labelWidth, label); !strings.HasSuffix(label, " ") {
		label += " "
	}
	p.line("%s", diag.WrapLabeled(label, text))
}

// table writes rows under a heading; nothing without rows.
func (p *page) table(head []string, rows [][]string) {
	if len(rows) > 0 {
		_ = display.Table(p, head, rows) // strings.Builder never fails
	}
}

// maxListed is the maximum number of lines of a list in text output.
const maxListed = 20

// list writes items with a mark, and the number of those that are omitted.
func (p *page) list(mark string, items edn.Value, total int) {
	shown := 0
	for item := range items.Elems() {
		if shown == maxListed {
			break
		}
		text := words(item)
		if path, ok := item.AsString(); ok {
			text = quotedName(path)
		}
		p.line("  %s %s", mark, text)
		shown++
	}
	if total = max(total, items.Len()); total > shown && items.Len() > 0 {
		p.line("  %s and %s more", mark, counted(total-shown, ""))
	}
}

// id returns a short id, unless full ids are wanted. The digits suffice as a prefix.
func (p *page) id(v edn.Value) string {
	text := plain(v)
	if p.verbose || !wholeID.MatchString(text) {
		return text
	}
	i := strings.LastIndexByte(text, '-') + 1
	return text[:min(len(text), i+shortID)]
}

// shortID is the number of digits of an id in text output.
const shortID = 12

// plain returns a value as text for people: strings and keywords without quotes and colons; empty
// for nil.
func plain(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	if s, ok := v.AsString(); ok {
		return s
	}
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	if at, ok := v.AsInst(); ok {
		return at.UTC().Format("2006-01-02 15:04:05")
	}
	if v.IsDecimal() {
		return strings.TrimSuffix(v.String(), "M")
	}
	return v.String()
}

// day returns an instant as text, to the minute.
func day(v edn.Value) string {
	if at, ok := v.AsInst(); ok {
		return at.UTC().Format("2006-01-02 15:04")
	}
	return ""
}

// name returns a path or another name of the workspace as text. Names with characters that cannot
// be printed are quoted (WS-002).
func name(text string) string {
	acts := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, acts) {
		return text
	}
	return strconv.QuoteToASCII(text)
}

// pathOf returns the path in a map with :path or :path/b64 as text.
func pathOf(v edn.Value) string { return encoded(v, "path") }

// encoded returns the name in a key, or in the key with /b64, as text.
func encoded(v edn.Value, key string) string { return quotedName(rawName(v, key)) }

// rawName returns the bytes of the name in a key, or in the key with /b64.
func rawName(v edn.Value, key string) string {
	if text, ok := v.Key(key + "/b64").AsString(); ok {
		if b, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			return string(b)
		}
	}
	text, _ := v.Key(key).AsString()
	return text
}

// quotedName works like name, and also quotes names that look quoted, so that different names have
// different texts.
func quotedName(text string) string {
	if strings.HasPrefix(text, `"`) {
		return strconv.QuoteToASCII(text)
	}
	return name(text)
}

// words returns any value as text on one line.
func words(v edn.Value) string {
	switch {
	case v.IsMap():
		if from, to := v.Key("from"), v.Key("to"); !from.IsNil() && !to.IsNil() && v.Len() == 2 {
			return words(from) + " -> " + words(to)
		}
		var parts []string
		if path := pathOf(v); path != "" {
			parts = append(parts, path)
		}
		for k, x := range v.Entries() {
			switch key := plain(k); key {
			case "path", "path/b64":
			case "message":
				parts = append(parts, words(x))
			default:
				parts = append(parts, key+" "+words(x))
			}
		}
		return strings.Join(parts, "  ")
	case v.IsVector(), v.IsList(), v.IsSet():
		var parts []string
		for x := range v.Elems() {
			parts = append(parts, words(x))
		}
		return strings.Join(parts, " ")
	}
	return name(plain(v))
}

// number returns an integer, or the length of a collection.
func number(v edn.Value) int {
	if n, ok := v.AsInt(); ok {
		return int(n)
	}
	if v.IsNil() {
		return 0
	}
	return v.Len()
}

// counted returns a number with separators and a noun in singular or plural.
func counted(n int, noun string) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	switch {
	case noun == "":
		return text
	case n == 1:
		return text + " " + noun
	case strings.HasSuffix(noun, "y"):
		return text + " " + strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"):
		return text + " " + noun + "es"
	}
	return text + " " + noun + "s"
}

// size returns a number of bytes as text.
func size(n int) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	if n == 1 {
		return "1 byte"
	}
	at, f := 0, float64(n)
	for f >= 1024 && at < len(units)-1 {
		f, at = f/1024, at+1
	}
	if at == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[at])
}

// indented returns a text with indented lines.
func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimRight(line, "\r\n"); trimmed != "" {
			b.WriteString(by + trimmed)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// lasted returns an approximate duration as text.
func lasted(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}
