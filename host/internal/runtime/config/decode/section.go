package decode

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Duration returns a duration attribute; 0 if it has no value.
func (s *Section) Duration(name string) time.Duration {
	return time.Duration(s.Integer(name)) * time.Millisecond
}

// Number returns an attribute as the nearest float; 0 if it is not a number.
func (s *Section) Number(name string) float64 {
	r, ok := s.Attrs[name].EDN.AsNumber()
	if !ok {
		return 0
	}
	f, _ := r.Float64()
	return f
}

// Mapping returns an attribute that is a map of strings. The map is never nil.
func (s *Section) Mapping(name string) map[string]string {
	v := s.Attrs[name]
	out := make(map[string]string, len(v.Keys))
	for i, k := range v.Keys {
		out[k], _ = v.Items[i].EDN.AsString()
	}
	return out
}

// All returns the nested blocks of a type. s may be nil.
func (s *Section) All(name string) []*Section {
	if s == nil {
		return nil
	}
	var out []*Section
	for _, b := range s.Blocks {
		if b.Node.Spec.Name == name {
			out = append(out, b)
		}
	}
	return out
}

// Twin returns the nested block with the type and labels of another block; nil if there is none.
func (s *Section) Twin(of *Section) *Section {
	for _, b := range s.Blocks {
		if b.Node.Identity() == of.Node.Identity() {
			return b
		}
	}
	return nil
}

// Below returns the path of the block if path is the path of its parent.
func (s *Section) Below(path []string) []string {
	return append(append(slices.Clone(path), s.Node.Spec.Name), s.Node.Labels...)
}

// PathOf returns the path of an attribute of the block.
func (s *Section) PathOf(attr string) []string { return append(slices.Clone(s.Node.Path), attr) }

// Label returns the first label; empty if the block has none or s is nil.
func (s *Section) Label() string {
	if s == nil || len(s.Node.Labels) == 0 {
		return ""
	}
	return s.Node.Labels[0]
}

// Where returns the position of the block as "file:line:column".
func (s *Section) Where() string { return s.At().String() }

// At returns the range of the header of the block.
func (s *Section) At() *diag.Range { return s.Node.Source.Range(s.Node.Header) }

// Block returns the nested block with that type. A block without a label that is in no file has its
// defaults. It returns nil if the specification has no such block, or if it has a label and is in
// no file.
func (s *Section) Block(name string) *Section {
	for _, b := range s.Blocks {
		if b.Node.Spec.Name == name {
			return b
		}
	}
	return nil
}

// Written reports whether the attribute is written in a file.
func (s *Section) Written(name string) bool { return s.Attrs[name].Written }

// Unread reports whether an attribute is written but its value could not be decoded.
func (s *Section) Unread(name string) bool {
	_, there := s.Node.Attrs[name]
	return there && !s.Attrs[name].Written && !s.Attrs[name].Reset
}

// Text returns an attribute that is a string; empty if it has no value.
func (s *Section) Text(name string) string {
	t, _ := s.Attrs[name].EDN.AsString()
	return t
}

// Integer returns an attribute that is a whole number; 0 if it has no value.
func (s *Section) Integer(name string) int {
	i, _ := s.Attrs[name].EDN.AsInt()
	return int(i)
}

// Flag returns a bool attribute; false if it has no value.
func (s *Section) Flag(name string) bool { return s.Attrs[name].EDN.Truthy() }

// Texts returns the members of a list or set of strings; false if the attribute has no value.
func (s *Section) Texts(name string) ([]string, bool) {
	v, ok := s.Attrs[name]
	if !ok || v.EDN.IsNil() {
		return nil, false
	}
	out := make([]string, 0, v.EDN.Len())
	for x := range v.EDN.Elems() {
		t, _ := x.AsString()
		out = append(out, t)
	}
	return out, true
}

// ScopeValue returns a scope block as an EDN map in the form of the contract, without on_unknown.
// The keys of durations have the suffix -ms.
func ScopeValue(s *Section) edn.Value {
	var m edn.MapBuilder
	for i := range s.Node.Spec.Attrs {
		a := &s.Node.Spec.Attrs[i]
		v, ok := s.Attrs[a.Name]
		if !ok || v.EDN.IsNil() || a.Name == "on_unknown" {
			continue
		}
		m.Key(ScopeKey(a), v.EDN)
	}
	return m.Map()
}

// ScopeKey returns the key of a scope attribute in the contract.
func ScopeKey(a *language.Attr) string {
	key := strings.ReplaceAll(a.Name, "_", "-")
	if a.Type.Kind == language.KindDur {
		key += "-ms"
	}
	return key
}
