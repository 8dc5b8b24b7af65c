package diag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of the output of a load, in diagnostics, and in columns of a line of an excerpt.
const (
	DefaultMaxShown = 100
	MaxShownPerFile = 20
	maxLineColumns  = 160
)

// Report is the printable result of a load, as text, JSON and EDN.
type Report struct {
	Errors, Warnings int
	Omitted          int // number of diagnostics that are counted but not in Shown
	Dropped          int // those of Omitted that the load did not keep
	Files            int
	Shown            Diagnostics
}

// NewReport returns a report with at most max diagnostics, and at most MaxShownPerFile per file;
// max 0 includes all. dropped is the number of errors that the load did not keep, files the number
// of files.
func NewReport(ds Diagnostics, dropped, files, max int) Report {
	r := Report{
		Errors:   ds.Count(SeverityError) + dropped,
		Warnings: ds.Count(SeverityWarning),
		Omitted:  dropped,
		Dropped:  dropped,
		Files:    files,
	}
	perFile := map[string]int{}
	for _, d := range ds {
		file := ""
		if d.Range != nil {
			file = d.Range.File
		}
		perFile[file]++
		if max > 0 && (len(r.Shown) >= max || perFile[file] > MaxShownPerFile) {
			r.Omitted++
			continue
		}
		r.Shown = append(r.Shown, d)
	}
	return r
}

// Valid reports whether the load found no error.
func (r Report) Valid() bool { return r.Errors == 0 }

// Text renders the report as text. With color, severities have terminal escape sequences.
func (r Report) Text(color bool) string {
	var b strings.Builder
	b.WriteString(r.Findings(color))
	fmt.Fprintf(&b, "%s, %s in %s", Counted(r.Errors, "error"), Counted(r.Warnings, "warning"),
		Counted(r.Files, "file"))
	if r.Omitted > 0 {
		fmt.Fprintf(&b, " (%d not shown", r.Omitted)
		if r.Dropped > 0 {
			fmt.Fprintf(&b, "; a load keeps the first %d", MaxKept)
		}
		b.WriteByte(')')
	}
	b.WriteByte('\n')
	return b.String()
}

// Findings renders the shown diagnostics as text, with a blank line after each.
func (r Report) Findings(color bool) string {
	var b strings.Builder
	for _, d := range r.Shown {
		d.text(&b, color)
		b.WriteByte('\n')
	}
	return b.String()
}

// Counted returns a number with a noun, whose plural ends in s.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Quoting returns a copy of the diagnostic with an excerpt from text, which need not be a
// configuration file.
func (d Diagnostic) Quoting(text string) Diagnostic {
	if d.Range != nil {
		d.source = NewSource(d.Range.File, d.Range.File, 0, []byte(text))
	}
	return d
}

// Excerpted returns a copy of the diagnostic with the excerpt of an edn.SyntaxError.
func (d Diagnostic) Excerpted(excerpt string) Diagnostic {
	d.quoted = excerpt
	return d
}

// Text renders one diagnostic as text without color, with a final line end.
func (d Diagnostic) Text() string {
	var b strings.Builder
	d.text(&b, false)
	return b.String()
}

func (d Diagnostic) text(b *strings.Builder, color bool) {
	word := d.Severity.String()
	line := WrapLabeled(word+": ", fmt.Sprintf("%s (%s)", Printable(d.Message), d.Type)) + "\n"
	if color {
		code := map[Severity]string{SeverityError: "31", SeverityWarning: "33", SeverityInfo: "36"}[d.Severity]
		line = "\x1b[1;" + code + "m" + word + "\x1b[0m" + line[len(word):]
	}
	b.WriteString(line)
	field := func(label, text string) { b.WriteString(WrapLabeled(label, Printable(text)) + "\n") }
	if d.Range != nil {
		fmt.Fprintf(b, "  --> %s\n", Printable(d.Range.String()))
		d.excerpt(b)
	}
	if !d.Expected.IsNil() {
		field("  expected: ", Plain(d.Expected))
		if !d.Found.IsNil() && d.Type != "config/unknown-name" {
			field("  found: ", Plain(d.Found))
		}
	}
	for _, r := range d.Related {
		if r.Range != nil {
			field("  see: ", r.Range.String()+" "+r.Message)
		} else {
			field("  see: ", r.Message)
		}
	}
	if d.More > 0 {
		fmt.Fprintf(b, "  and %s\n", Counted(d.More, "more place"))
	}
	if d.Hint != "" {
		field("  next: ", d.Hint)
	}
}

// excerpt prints the line of the range with a caret below it.
func (d Diagnostic) excerpt(b *strings.Builder) {
	if d.quoted != "" {
		for line := range strings.Lines(d.quoted + "\n") {
			b.WriteString("   " + line) // aligned with line numbers of four columns
		}
		return
	}
	if d.source == nil || d.Range.Start.Line == 0 {
		return
	}
	line, ok := d.source.Line(d.Range.Start.Line)
	if !ok {
		return
	}
	if d.Context {
		if before, ok := d.source.Line(d.Range.Start.Line - 1); ok && strings.TrimSpace(before) != "" {
			text, _, _ := window(before, 0, 0)
			fmt.Fprintf(b, "%7d | %s\n", d.Range.Start.Line-1, text)
		}
	}
	from := d.Range.Start.Column - 1
	to := utf8.RuneCountInString(line)
	if d.Range.End.Line == d.Range.Start.Line {
		to = d.Range.End.Column - 1
	}
	text, lead, carets := window(line, from, to)
	fmt.Fprintf(b, "%7d | %s\n", d.Range.Start.Line, text)
	fmt.Fprintf(b, "        | %s%s\n", lead, strings.Repeat("^", carets))
}

// window shortens a long line around the columns from..to and escapes control
// characters. It returns the text, the blanks before the caret (with tabs kept for
// alignment), and the number of carets.
func window(line string, from, to int) (text, lead string, carets int) {
	runes := []rune(line)
	from = min(from, len(runes))
	to = min(max(to, from), len(runes))
	start, end := 0, len(runes)
	if len(runes) > maxLineColumns {
		start = max(0, from-maxLineColumns/2)
		end = min(len(runes), start+maxLineColumns)
		start = max(0, end-maxLineColumns)
	}
	var shown, blank strings.Builder
	if start > 0 {
		shown.WriteString("...")
		blank.WriteString("   ")
	}
	for i := start; i < end; i++ {
		piece := escaped(runes[i])
		shown.WriteString(piece)
		width := utf8.RuneCountInString(piece)
		switch {
		case i < from && runes[i] == '\t':
			blank.WriteByte('\t')
		case i < from:
			blank.WriteString(strings.Repeat(" ", width))
		case i < to:
			carets += width
		}
	}
	if end < len(runes) {
		shown.WriteString("...")
	}
	return strings.TrimRight(shown.String(), " "), blank.String(), max(carets, 1)
}

func escaped(r rune) string {
	if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
		return fmt.Sprintf("\\u%04x", r)
	}
	return string(r)
}

// Printable returns the text with control and format characters escaped.
func Printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == '\t' {
			b.WriteString("\\t")
		} else {
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// Plain formats an expected or found value: a string without quotes, a list of names without
// brackets, other values as EDN.
func Plain(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	if v.Kind() == edn.KindDecimal {
		return strings.TrimSuffix(v.String(), "M")
	}
	if v.Kind() != edn.KindVector {
		return v.String()
	}
	var parts []string
	for x := range v.Elems() {
		parts = append(parts, Plain(x))
	}
	return strings.Join(parts, ", ")
}

type jsonRange struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Byte      int    `json:"byte"`
	EndLine   int    `json:"end-line"`
	EndColumn int    `json:"end-column"`
	EndByte   int    `json:"end-byte"`
}

type jsonRelated struct {
	Range   *jsonRange `json:"range"`
	Message string     `json:"message"`
}

type jsonDiagnostic struct {
	Type     string          `json:"type"`
	Severity string          `json:"severity"`
	Message  string          `json:"message"`
	Range    *jsonRange      `json:"range"`
	Path     []string        `json:"path"`
	Expected json.RawMessage `json:"expected"`
	Found    json.RawMessage `json:"found"`
	Nearest  *string         `json:"nearest"`
	Related  []jsonRelated   `json:"related"`
	Hint     *string         `json:"hint"`
	More     int             `json:"more,omitempty"`
}

func rangeJSON(r *Range) *jsonRange {
	if r == nil {
		return nil
	}
	return &jsonRange{File: r.File, Line: r.Start.Line, Column: r.Start.Column, Byte: r.Start.Byte,
		EndLine: r.End.Line, EndColumn: r.End.Column, EndByte: r.End.Byte}
}

// JSON renders the report as one JSON object with one line per diagnostic and a
// final line end. The order of the keys is part of the format.
func (r Report) JSON() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"format":1,"valid?":%t,"errors":%d,"warnings":%d,"omitted":%d,"diagnostics":[`, r.Valid(),
		r.Errors, r.Warnings, r.Omitted)
	for i, d := range r.Shown {
		if i > 0 {
			b.WriteByte(',')
		}
		line, err := d.JSON()
		if err != nil {
			return nil, err
		}
		b.WriteString("\n ")
		b.Write(line)
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}

// JSON renders one diagnostic as an object on one line.
func (d Diagnostic) JSON() ([]byte, error) {
	out := jsonDiagnostic{Type: d.Type, Severity: d.Severity.String(), Message: d.Message, Range: rangeJSON(d.Range),
		Path: d.Path, Nearest: optional(d.Nearest), Related: []jsonRelated{}, Hint: optional(d.Hint), More: d.More}
	if out.Path == nil {
		out.Path = []string{}
	}
	for _, rel := range d.Related {
		out.Related = append(out.Related, jsonRelated{Range: rangeJSON(rel.Range), Message: rel.Message})
	}
	var err error
	if out.Expected, err = edn.WriteJSON(d.Expected); err != nil {
		return nil, fmt.Errorf("write the expected value of a diagnostic: %w", err)
	}
	if out.Found, err = edn.WriteJSON(d.Found); err != nil {
		return nil, fmt.Errorf("write the found value of a diagnostic: %w", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("write a diagnostic as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Value returns the report as an EDN map with the keys of the JSON form; types and severities are
// keywords.
func (r Report) Value() edn.Value {
	list := make([]edn.Value, 0, len(r.Shown))
	for _, d := range r.Shown {
		list = append(list, d.Value())
	}
	var b edn.MapBuilder
	b.Key("format", edn.Int(1))
	b.Key("valid?", edn.Bool(r.Valid()))
	b.Key("errors", edn.Int(int64(r.Errors)))
	b.Key("warnings", edn.Int(int64(r.Warnings)))
	b.Key("omitted", edn.Int(int64(r.Omitted)))
	b.Key("diagnostics", edn.Vector(list...))
	return b.Map()
}

// Value returns the diagnostic as EDN.
func (d Diagnostic) Value() edn.Value {
	path := make([]edn.Value, 0, len(d.Path))
	for _, p := range d.Path {
		path = append(path, edn.Text(p))
	}
	related := make([]edn.Value, 0, len(d.Related))
	for _, r := range d.Related {
		var b edn.MapBuilder
		b.Key("range", RangeValue(r.Range))
		b.Key("message", edn.Text(r.Message))
		related = append(related, b.Map())
	}
	var b edn.MapBuilder
	b.Key("type", edn.K(d.Type))
	b.Key("severity", edn.K(d.Severity.String()))
	b.Key("message", edn.Text(d.Message))
	b.Key("range", RangeValue(d.Range))
	b.Key("path", edn.Vector(path...))
	b.Key("expected", d.Expected)
	b.Key("found", d.Found)
	b.Key("nearest", TextOrNil(d.Nearest))
	b.Key("related", edn.Vector(related...))
	b.Key("hint", TextOrNil(d.Hint))
	if d.More > 0 {
		b.Key("more", edn.Int(int64(d.More)))
	}
	return b.Map()
}

// TextOrNil returns a text; the EDN nil if s is empty.
func TextOrNil(s string) edn.Value {
	if s == "" {
		return edn.Nil()
	}
	return edn.Text(s)
}

// RangeValue returns a range as an EDN map; the EDN nil for nil.
func RangeValue(r *Range) edn.Value {
	if r == nil {
		return edn.Nil()
	}
	var b edn.MapBuilder
	b.Key("file", edn.Text(r.File))
	b.Key("line", edn.Int(int64(r.Start.Line)))
	b.Key("column", edn.Int(int64(r.Start.Column)))
	b.Key("byte", edn.Int(int64(r.Start.Byte)))
	b.Key("end-line", edn.Int(int64(r.End.Line)))
	b.Key("end-column", edn.Int(int64(r.End.Column)))
	b.Key("end-byte", edn.Int(int64(r.End.Byte)))
	return b.Map()
}
