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

// fault is one problem of an envelope.
type fault struct {
	typ      string
	reason   string
	message  string
	path     []edn.Value
	expected edn.Value
	got      edn.Value
	hasGot   bool
	nearest  edn.Value
	findings edn.Value
}

func path(keys ...edn.Value) []edn.Value { return keys }

func invalidRequest(reason, message string, path []edn.Value) fault {
	return fault{typ: "invalid-request", reason: reason, message: message, path: path}
}

func invalidResult(reason, message string, path []edn.Value) fault {
	return fault{typ: "runtime/invalid-result", reason: reason, message: message, path: path}
}

// expecting adds the expected and the actual value. A string in the place of a
// keyword is the most common mistake, so the keyword is suggested.
func (f fault) expecting(expected, got edn.Value) fault {
	f.expected, f.got, f.hasGot = expected, got, true
	if name, ok := got.AsString(); ok && wantsKeyword(expected) && f.nearest.IsNil() {
		if k, err := edn.Keyword(strings.TrimPrefix(name, ":")); err == nil {
			f.nearest = k
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

// named adds the unknown name and the nearest known one.
func (f fault) named(name edn.Value, known []string) fault {
	f.got, f.hasGot = name, true
	text, isKeyword := name.AsKeyword()
	if !isKeyword {
		text, _ = name.AsString()
		text = strings.TrimPrefix(text, ":")
	}
	if nearest := Nearest(text, known); nearest != "" && (nearest != text || !isKeyword) {
		f.nearest = edn.K(nearest)
	}
	return f
}

// err returns the fault as an error with :reason, :path, :expected, :got and
// :nearest in its details.
func (f fault) err() *Error {
	var m strings.Builder
	m.WriteString(f.message)
	if len(f.path) > 0 {
		m.WriteString(" at ")
		m.WriteString(excerptOf(edn.Vector(f.path...)))
	}
	if !f.expected.IsNil() {
		m.WriteString(": expected ")
		m.WriteString(excerptOf(f.expected))
		m.WriteString(", got ")
		m.WriteString(excerptOf(f.got))
	}
	if !f.nearest.IsNil() {
		m.WriteString("; nearest is ")
		m.WriteString(f.nearest.String())
	}
	e := Errorf(f.typ, "%s", m.String())
	var d edn.MapBuilder
	d.Set(kReason, edn.K(f.reason))
	d.Set(kPath, edn.Vector(f.path...))
	if !f.expected.IsNil() {
		d.Set(kExpected, f.expected)
	}
	if f.hasGot {
		d.Set(kGot, cut(f.got))
	}
	if !f.nearest.IsNil() {
		d.Set(kNearest, f.nearest)
	}
	if !f.findings.IsNil() {
		d.Set(kFindings, f.findings)
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

func excerptOf(v edn.Value) string {
	return cutText(v.String())
}

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
