package contract

import (
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// maxGot limits the code points of an invalid value that an error repeats.
const maxGot = 200

// Reasons of :runtime/invalid-result.
const (
	reasonNotMap         = "not-a-map"
	reasonShape          = "invalid-envelope-shape"
	reasonTypeNotAllowed = "result/type-not-allowed"
	reasonTypeMismatch   = "requires/result-type-mismatch"
	reasonPayload        = "payload-missing"
	reasonBindings       = "bindings-not-map"
	reasonErrorType      = "error/type-not-keyword"
)

// Fault is one problem of a request or an answer. [Fault.Err] converts it to an
// error.
type Fault struct {
	// Type is the type of the error.
	Type string
	// Reason names the violated rule, Message states it in a sentence.
	Reason, Message string
	// Path leads to the invalid value: map keys and indices.
	Path []edn.Value
	// Expected is the schema of the expected value, nil for none.
	Expected edn.Value
	// Got is the value that was found, if HasGot is set.
	Got    edn.Value
	HasGot bool
	// Nearest is the known name nearest to an unknown one, nil for none.
	Nearest edn.Value
	// Findings are the findings of a schema as data, nil for none.
	Findings edn.Value
	// Hint is the next step; if it is empty, the error has the hint of its
	// type.
	Hint string
}

func path(keys ...edn.Value) []edn.Value { return keys }

func invalidResult(reason, message string, path []edn.Value) Fault {
	return Fault{Type: "runtime/invalid-result", Reason: reason, Message: message, Path: path}
}

// Expecting returns f with the expected and the actual value. A string in the place of a
// keyword is the most common mistake, so the keyword is suggested.
func (f Fault) Expecting(expected, got edn.Value) Fault {
	f.Expected, f.Got, f.HasGot = expected, got, true
	if name, ok := got.AsString(); ok && wantsKeyword(expected) && f.Nearest.IsNil() {
		if k, err := edn.Keyword(strings.TrimPrefix(name, ":")); err == nil {
			f.Nearest = k
		}
	}
	return f
}

func wantsKeyword(expected edn.Value) bool {
	if name, ok := expected.AsKeyword(); ok {
		return name == "keyword"
	}
	for member := range expected.Elems() {
		if member.Kind() == edn.KindKeyword && edn.Equal(member, kKeyword) {
			return true
		}
	}
	return false
}

// Named returns f with an unknown name and the nearest known one.
func (f Fault) Named(name edn.Value, known []string) Fault {
	f.Got, f.HasGot = name, true
	text, isKeyword := name.AsKeyword()
	if !isKeyword {
		text, _ = name.AsString()
		text = strings.TrimPrefix(text, ":")
	}
	if nearest := Nearest(text, known); nearest != "" && (nearest != text || !isKeyword) {
		f.Nearest = edn.K(nearest)
	}
	return f
}

// Err returns the fault as an error with :reason, :path, :expected, :got and
// :nearest in its details.
func (f Fault) Err() *Error {
	var m strings.Builder
	m.WriteString(f.Message)
	if len(f.Path) > 0 {
		m.WriteString(" at ")
		m.WriteString(Excerpt(edn.Vector(f.Path...)))
	}
	if !f.Expected.IsNil() {
		m.WriteString(": expected ")
		m.WriteString(f.Expected.String()) // never cut
		m.WriteString(", got ")
		m.WriteString(Excerpt(f.Got))
	}
	if !f.Nearest.IsNil() {
		m.WriteString("; nearest is ")
		m.WriteString(f.Nearest.String())
	}
	e := Errorf(f.Type, "%s", m.String())
	if f.Hint != "" {
		e = e.WithHint(f.Hint)
	}
	var d edn.MapBuilder
	d.Set(kReason, edn.K(f.Reason))
	d.Set(kPath, edn.Vector(f.Path...))
	if !f.Expected.IsNil() {
		d.Set(kExpected, f.Expected)
	}
	if f.HasGot {
		d.Set(kGot, cut(f.Got))
	}
	if !f.Nearest.IsNil() {
		d.Set(kNearest, f.Nearest)
	}
	if !f.Findings.IsNil() {
		d.Set(kFindings, f.Findings)
	}
	e.Details = d.Map()
	return e
}

// cut returns v, or the beginning of its text if it is long.
func cut(v edn.Value) edn.Value {
	if short(v) {
		return v
	}
	if text, ok := v.AsString(); ok {
		return edn.Text(cutText(text))
	}
	return edn.Text(cutText(v.String()))
}

// Excerpt returns the text of v for a message, cut to 200 code points.
func Excerpt(v edn.Value) string { return cutText(v.String()) }

func short(v edn.Value) bool {
	if text, ok := v.AsString(); ok {
		return len(text) <= maxGot
	}
	return v.Size() <= maxGot || utf8.RuneCountInString(v.String()) <= maxGot
}

func cutText(text string) string {
	if len(text) <= maxGot {
		return text
	}
	n := 0
	for i := range text {
		if n == maxGot {
			return text[:i] + "…"
		}
		n++
	}
	return text
}
