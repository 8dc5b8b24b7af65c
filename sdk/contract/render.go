package contract

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// SourceText is the text to which :line and :column of an error refer.
type SourceText struct {
	// Name is the display name of the text, such as "plan.edn".
	Name string
	// Text is the content; without it no excerpt is shown.
	Text []byte
	// Brief leaves out what a caller cannot act on: class and source of the
	// error, and the policy of the call.
	Brief bool
}

// policyKeys are details that describe the policy of a call.
var policyKeys = []string{"retry", "switch-on"}

// maxExcerpt limits the code points of a source line that are shown.
const maxExcerpt = 80

// Text renders the error for people, in several lines without a final newline.
// If the error has a line and a column and src has a name, the output starts with
// the position. It shows the line if src has the text, or if e wraps an
// [*edn.SyntaxError], which has its own excerpt.
func (e *Error) Text(src SourceText) string {
	var b strings.Builder
	line, column := e.position()
	if line > 0 && src.Name != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", src.Name, line, column)
	}
	b.WriteString("error: ")
	b.WriteString(e.FullMessage())
	if excerpt := e.excerpt(src, line, column); excerpt != "" {
		b.WriteByte('\n')
		b.WriteString(excerpt)
	}
	field := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n  %-7s %s", name, text)
		}
	}
	facts, details := (*Error).facts, e.Details
	if src.Brief {
		facts = func(e *Error) string { return ":" + e.Type }
		for _, key := range policyKeys {
			details = details.Dissoc(edn.K(key))
		}
	}
	field("type", facts(e))
	field("where", e.whereText())
	field("details", detailText(details))
	for _, key := range listedKeys {
		listFindings(&b, e.Details.Key(key))
	}
	for c, depth := e.Cause, 0; c != nil && depth < maxCauseDepth; c, depth = c.Cause, depth+1 {
		field("cause", c.FullMessage()+" ["+facts(c)+"]")
	}
	field("hint", oneLine(e.Hint))
	return b.String()
}

// facts names type, class and source.
func (e *Error) facts() string {
	text := ":" + e.Type + " (" + e.Class.String()
	if e.Source != 0 {
		text += ", " + e.Source.String()
	}
	if e.Retryable {
		text += ", may be sent again"
	}
	return text + ")"
}

// EDN renders the error as pretty EDN without a final newline.
func (e *Error) EDN() []byte {
	return edn.WritePretty(e.Value(), edn.PrettyOptions{First: []edn.Value{kType, kMessage}})
}

// JSON renders the error on one line of JSON. Details that JSON cannot
// represent are replaced by their EDN text.
func (e *Error) JSON() []byte {
	text, err := edn.WriteJSON(e.Value())
	if err == nil {
		return text
	}
	plain := e.with(func(c *Error) {
		c.Details, c.Cause = edn.MustMap(edn.K("edn"), edn.Text(e.Details.String())), nil
	})
	if text, err = edn.WriteJSON(plain.Value()); err != nil {
		return []byte(`{"type":"runtime/internal"}`)
	}
	return text
}

func (e *Error) position() (line, column int) {
	if l, ok := e.Where.Key("line").AsInt(); ok {
		c, _ := e.Where.Key("column").AsInt()
		return int(l), max(int(c), 1)
	}
	return 0, 0
}

func (e *Error) whereText() string {
	var parts []string
	for _, key := range whereKeys {
		if v := e.Where.Key(key); !v.IsNil() {
			parts = append(parts, ":"+key+" "+Excerpt(v))
		}
	}
	return strings.Join(parts, " ")
}

// detailText lists the details except those that the message and the findings
// already show.
func detailText(details edn.Value) string {
	var parts []string
	for key, val := range details.Entries() {
		name, _ := key.AsKeyword()
		switch name {
		case "expected", "got", "nearest":
			continue
		}
		if slices.Contains(listedKeys, name) || val.Kind() == edn.KindVector && val.Len() == 0 {
			continue
		}
		parts = append(parts, key.String()+" "+Excerpt(val))
	}
	return strings.Join(parts, " ")
}

// maxShown limits the findings that are listed; the others are counted.
const maxShown = 10

// listedKeys are details with lists of problems, each with :message, and :path and :got if
// there are any.
var listedKeys = []string{"findings", "invalid-fields"}

func listFindings(b *strings.Builder, list edn.Value) {
	i := 0
	for f := range list.Elems() {
		if i == maxShown {
			fmt.Fprintf(b, "\n    and %d more", list.Len()-i)
			return
		}
		message, _ := f.Key("message").AsString()
		text := oneLine(message)
		if path := f.Key("path"); !path.IsNil() {
			text = strings.TrimSpace(Excerpt(path) + " " + text)
		}
		b.WriteString("\n    " + text)
		if got := f.Key("got"); !got.IsNil() {
			b.WriteString(", got " + Excerpt(got))
		}
		i++
	}
}

// excerpt shows the source line with a caret under the column.
func (e *Error) excerpt(src SourceText, line, column int) string {
	var syntax *edn.SyntaxError
	if src.Text == nil && errors.As(e.Err, &syntax) {
		return syntax.Excerpt()
	}
	if line == 0 || src.Text == nil {
		return ""
	}
	text, found := lineOf(src.Text, line)
	if !found {
		return ""
	}
	number := strconv.Itoa(line)
	shown, caret := window(text, column)
	return fmt.Sprintf("%4s | %s\n%4s | %s^", number, shown, "", strings.Repeat(" ", caret))
}

func lineOf(text []byte, n int) (string, bool) {
	for i := 1; ; i++ {
		line, rest, more := bytes.Cut(text, []byte{'\n'})
		if i == n {
			return strings.TrimSuffix(strings.ToValidUTF8(string(line), "\uFFFD"), "\r"), true
		}
		if !more {
			return "", false
		}
		text = rest
	}
}

// window cuts a long line around the column and returns the part with the
// position of the column in it. Control characters become spaces, so that the
// caret stays aligned.
func window(line string, column int) (string, int) {
	runes := []rune(line)
	for i, r := range runes {
		if unfit(r) && r != utf8.RuneError {
			runes[i] = ' '
		}
	}
	at := min(max(column-1, 0), len(runes))
	start := 0
	if len(runes) > maxExcerpt {
		start = min(max(at-maxExcerpt/2, 0), len(runes)-maxExcerpt)
	}
	end := min(start+maxExcerpt, len(runes))
	shown, caret := string(runes[start:end]), at-start
	if start > 0 {
		shown, caret = "…"+shown, caret+1
	}
	if end < len(runes) {
		shown += "…"
	}
	return shown, caret
}

// placeOf shows at most 8 steps of the path of a syntax error, up to a step into a key.
func placeOf(path []edn.Value) string {
	const most = 8
	if key := slices.IndexFunc(path, edn.Value.IsVector); key >= 0 {
		path = path[:key]
	}
	switch {
	case len(path) == 0:
		return ""
	case len(path) > most:
		return strings.TrimSuffix(Excerpt(edn.Vector(path[:most]...)), "]") + " ...]"
	}
	return Excerpt(edn.Vector(path...))
}

// SyntaxError converts err, the error of a reader, to an error of type typ,
// which names the origin of the text: invalid-request (with the reason
// edn/invalid) for a client, plan/invalid for a plan, runtime/protocol for a
// plugin. A request above the limit of bytes becomes http/too-large instead of
// invalid-request. The error has :line and :column if err is an
// [*edn.SyntaxError].
func SyntaxError(typ string, err error) *Error {
	var syntax *edn.SyntaxError
	if !errors.As(err, &syntax) {
		return Errorf(typ, "%w", err)
	}
	if typ == "invalid-request" && syntax.Code == "limit-bytes" {
		typ = "http/too-large"
	}
	e := Errorf(typ, "%w", err)
	e.Message = oneLine(syntax.Message)
	if place := placeOf(syntax.Path); place != "" {
		e.Message = oneLine(syntax.Message + " in " + place)
	}
	if typ == "invalid-request" {
		e = e.WithDetail("reason", edn.K("edn/invalid")).WithDetail("path", edn.Vector(syntax.Path...))
	}
	if code, bad := edn.Keyword(syntax.Code); bad == nil {
		e = e.WithDetail("code", code)
	}
	if syntax.Hint != "" || typ == "plan/invalid" { // a text that is not a plan has no findings
		e.Hint = oneLine(syntax.Hint)
	}
	return e.WithWhere("line", edn.Int(int64(syntax.Pos.Line))).WithWhere("column", edn.Int(int64(syntax.Pos.Column)))
}
