package schema

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Replace returns v with f applied to every value whose schema or map entry has
// properties that match accepts, for example to resolve paths (Unit "path") or
// hide secrets. f receives the value and its path inside v, which it must not
// keep; the inside of a replaced value is not visited. All branches of :or are
// considered, whether they fit or not, so that no marked value is missed.
// Values without a match are shared with v.
func (s *Schema) Replace(
	v edn.Value, match func(Props) bool, f func(path []edn.Value, v edn.Value) edn.Value,
) edn.Value {
	r := replacer{match: match, change: f}
	return r.value([]*Schema{s}, v)
}

// Secret matches properties with :secret, for use with [Schema.Replace].
func Secret(p Props) bool { return p.Secret }

// secretTag and secretPrefix mark the value that replaces a secret; see SecretHash.
const (
	secretTag    = "ferment/secret"
	secretPrefix = "b3k:"
)

// SecretHash returns the value that replaces a secret in the records of a host: the tag
// #ferment/secret with hash, a keyed hash in hexadecimal digits. It fits every schema
// that is marked with :secret.
func SecretHash(hash string) edn.Value {
	v, _ := edn.Tagged(secretTag, edn.Text(secretPrefix+hash)) // a string may have the tag
	return v
}

// IsSecretHash reports whether v has the form that SecretHash returns.
func IsSecretHash(v edn.Value) bool {
	tag, inner, ok := v.AsTagged()
	text, _ := inner.AsString()
	return ok && tag == secretTag && strings.HasPrefix(text, secretPrefix)
}

// HidesSecret reports whether the schema, or one that it reaches, marks a value with
// :secret.
func (s *Schema) HidesSecret() bool { return s.hidesSecret }

// IsPath matches {:unit :path}, for use with [Schema.Replace].
func IsPath(p Props) bool { return p.Unit == "path" }

type replacer struct {
	match  func(Props) bool
	change func([]edn.Value, edn.Value) edn.Value
	path   []edn.Value
}

// value visits v, to which all of the schemas apply.
func (r *replacer) value(schemas []*Schema, v edn.Value) edn.Value {
	layers := reached(schemas)
	if slices.ContainsFunc(layers, func(s *Schema) bool { return r.match(s.Props()) }) {
		return r.change(r.path, v)
	}
	switch v.Kind() {
	case edn.KindMap:
		return r.entries(layers, v)
	case edn.KindVector, edn.KindList, edn.KindSet:
		return r.members(layers, v)
	}
	return v
}

// reached returns the schemas and all inner schemas that apply to the same value,
// through :ref, :maybe, :or and :and. Unlike alternatives, it includes the wrapping
// schemas, whose properties count too.
func reached(schemas []*Schema) []*Schema {
	var out []*Schema
	seen := make(map[*Schema]bool)
	var open func(s *Schema)
	open = func(s *Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		out = append(out, s)
		if s.wraps() {
			for _, kid := range s.Children() {
				open(kid)
			}
		}
	}
	for _, s := range schemas {
		open(s)
	}
	return out
}

func (r *replacer) entries(layers []*Schema, v edn.Value) edn.Value {
	out := v
	for key, val := range v.Entries() {
		var below []*Schema
		marked := false
		for _, s := range layers {
			if e, ok := s.Entry(key); ok && r.match(e.Props) {
				marked = true
			}
			below = append(below, s.under(key)...)
		}
		if !marked && len(below) == 0 {
			continue
		}
		r.path = append(r.path, key)
		var changed edn.Value
		if marked {
			changed = r.change(r.path, val)
		} else {
			changed = r.value(distinct(below), val)
		}
		r.path = r.path[:len(r.path)-1]
		if !edn.Equal(changed, val) {
			out = out.Assoc(key, changed)
		}
	}
	return out
}

func (r *replacer) members(layers []*Schema, v edn.Value) edn.Value {
	members := make([]edn.Value, 0, v.Len())
	changed := false
	for member := range v.Elems() {
		step := member
		if v.Kind() != edn.KindSet {
			step = edn.Int(int64(len(members)))
		}
		var below []*Schema
		for _, s := range layers {
			below = append(below, s.under(step)...)
		}
		c := member
		if len(below) > 0 {
			r.path = append(r.path, step)
			c = r.value(distinct(below), member)
			r.path = r.path[:len(r.path)-1]
		}
		changed = changed || !edn.Equal(c, member)
		members = append(members, c)
	}
	if !changed {
		return v
	}
	switch v.Kind() {
	case edn.KindSet:
		return edn.SetOf(members...)
	case edn.KindList:
		return edn.List(members...)
	}
	return edn.Vector(members...)
}
