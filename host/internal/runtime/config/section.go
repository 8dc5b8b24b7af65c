package config

import (
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

func (s *section) duration(name string) time.Duration {
	return time.Duration(s.integer(name)) * time.Millisecond
}

func (s *section) number(name string) float64 {
	r, ok := s.attrs[name].v.AsNumber()
	if !ok {
		return 0
	}
	f, _ := r.Float64()
	return f
}

func (s *section) mapping(name string) map[string]string {
	v := s.attrs[name]
	out := make(map[string]string, len(v.keys))
	for i, k := range v.keys {
		out[k], _ = v.items[i].v.AsString()
	}
	return out
}

// all returns the nested blocks of a type; none of a nil section.
func (s *section) all(name string) []*section {
	if s == nil {
		return nil
	}
	var out []*section
	for _, b := range s.blocks {
		if b.node.spec.Name == name {
			out = append(out, b)
		}
	}
	return out
}

// twin returns the nested block with the same identity as of.
func (s *section) twin(of *section) *section {
	for _, b := range s.blocks {
		if b.node.identity() == of.node.identity() {
			return b
		}
	}
	return nil
}

func (s *section) below(path []string) []string {
	return append(append(slices.Clone(path), s.node.spec.Name), s.node.labels...)
}

func (s *section) pathOf(attr string) []string { return append(slices.Clone(s.node.path), attr) }

func (s *section) label() string {
	if s == nil || len(s.node.labels) == 0 {
		return ""
	}
	return s.node.labels[0]
}

// where is the place of the block as "file:line:column".
func (s *section) where() string { return s.at().String() }

func (s *section) at() *Range { return s.node.source.hclRange(s.node.header) }

// block returns the nested block of that type, with defaults if the file has none.
func (s *section) block(name string) *section {
	for _, b := range s.blocks {
		if b.node.spec.Name == name {
			return b
		}
	}
	return nil
}

func (s *section) written(name string) bool { return s.attrs[name].written }

// unread reports whether an attribute is set but its value could not be determined.
func (s *section) unread(name string) bool {
	_, there := s.node.attrs[name]
	return there && !s.attrs[name].written && !s.attrs[name].reset
}

func (s *section) text(name string) string {
	t, _ := s.attrs[name].v.AsString()
	return t
}

func (s *section) integer(name string) int {
	i, _ := s.attrs[name].v.AsInt()
	return int(i)
}

func (s *section) flag(name string) bool { return s.attrs[name].v.Truthy() }

// texts returns the members of a list or set, and whether it has a value.
func (s *section) texts(name string) ([]string, bool) {
	v, ok := s.attrs[name]
	if !ok || v.v.IsNil() {
		return nil, false
	}
	out := make([]string, 0, v.v.Len())
	for x := range v.v.Elems() {
		t, _ := x.AsString()
		out = append(out, t)
	}
	return out, true
}

// scopeValue returns a scope block as a value of the contract, where names of
// durations include the unit.
func scopeValue(s *section) edn.Value {
	var m edn.MapBuilder
	for i := range s.node.spec.Attrs {
		a := &s.node.spec.Attrs[i]
		v, ok := s.attrs[a.Name]
		if !ok || v.v.IsNil() || a.Name == "on_unknown" {
			continue
		}
		m.Key(scopeKey(a), v.v)
	}
	return m.Map()
}

func scopeKey(a *Attr) string {
	key := strings.ReplaceAll(a.Name, "_", "-")
	if a.Type.Kind == KindDur {
		key += "-ms"
	}
	return key
}
