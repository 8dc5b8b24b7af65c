package store

import (
	"encoding/base64"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ShownPath is a path in results: the root is a dot, and a path that is not
// valid text is encoded in base64url. As EDN it is a string or the map
// {:path/b64 "…"}.
type ShownPath string

// MarshalEDN writes the form for lists of paths.
func (p ShownPath) MarshalEDN() ([]byte, error) { return p.Value().Canonical(), nil }

// Value returns the form for lists of paths.
func (p ShownPath) Value() edn.Value {
	if p.isText() {
		return edn.Text(Shown(string(p)))
	}
	return edn.MustMap(edn.K("path/b64"), edn.Text(p.encoded()))
}

// entry returns m with :path or :path/b64 added.
func (p ShownPath) entry(m edn.Value) edn.Value {
	if p.isText() {
		return m.AssocKey("path", edn.Text(Shown(string(p))))
	}
	return m.AssocKey("path/b64", edn.Text(p.encoded()))
}

func (p ShownPath) encoded() string { return base64.RawURLEncoding.EncodeToString([]byte(p)) }

func (p ShownPath) isText() bool {
	for _, r := range p {
		if unicode.IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(string(p))
}

// Place is a path as two entries of a map: Text, or Raw for a path that is not
// valid text.
type Place struct {
	Text string `edn:"path,omitempty"`
	Raw  string `edn:"path/b64,omitempty"`
}

// PlaceOf returns the entries for a path.
func PlaceOf(path string) Place {
	if p := ShownPath(path); !p.isText() {
		return Place{Raw: p.encoded()}
	}
	return Place{Text: Shown(path)}
}

// Path returns the path.
func (p Place) Path() string {
	if raw, err := base64.RawURLEncoding.DecodeString(p.Raw); p.Raw != "" && err == nil {
		return string(raw)
	}
	if p.Text == Shown("") {
		return ""
	}
	return p.Text
}

// Shown returns a path for display: the root is a dot, and a path that is not
// valid text is quoted.
func Shown(path string) string {
	switch {
	case path == "":
		return "."
	case !ShownPath(path).isText():
		return strconv.Quote(path)
	}
	return path
}
