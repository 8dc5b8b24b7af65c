package schema

import (
	"math"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Names of the properties, grouped by where they are allowed.
var (
	commonProps = []string{"title", "description", "doc", "secret", "unit", "default", "deprecated"}
	entryProps  = append([]string{"optional", "block", "labels", "free", "when"}, commonProps...)
	limitProps  = append([]string{"min", "max"}, commonProps...)
	mapProps    = append([]string{"closed"}, limitProps...)
)

var units = []string{"path", "ms", "bytes", "decimal", "capability"}

func (s *Schema) numeric() bool {
	switch s.kind {
	case KindInt, KindDouble, KindDecimal, KindNumber:
		return true
	}
	return false
}

func (s *Schema) allowedProps() []string {
	switch {
	case s.kind == KindMap:
		return mapProps
	case s.numeric() || s.sized():
		return limitProps
	}
	return commonProps
}

// schemaProps reads the property map of a schema; c.path leads to the map.
func (c *compiler) schemaProps(s *Schema, m edn.Value) {
	allowed := s.allowedProps()
	for key, val := range m.Entries() {
		c.push(key)
		name, ok := c.propName(key, allowed, ":"+s.kind.String())
		switch {
		case !ok:
		case name == "closed":
			s.closed = c.truth(val)
		case name == "min" || name == "max":
			c.limit(s, name, val)
		default:
			if s.props == nil {
				s.props = &Props{}
			}
			c.commonProp(s.props, name, val)
		}
		c.pop()
	}
	if s.min != nil && s.max != nil && s.min.rat.Cmp(s.max.rat) > 0 || s.maxLen >= 0 && s.minLen > s.maxLen {
		c.add("", ":min is above :max")
	}
}

// entryProps reads the property map of a map entry.
func (c *compiler) entryProps(e *Entry, m edn.Value) {
	if m.Kind() != edn.KindMap {
		c.add("", "the properties of a map entry are a map, got %.80s", m)
		return
	}
	for key, val := range m.Entries() {
		c.push(key)
		name, ok := c.propName(key, entryProps, "a map entry")
		switch {
		case !ok:
		case name == "optional":
			e.Optional = c.truth(val)
		case name == "block":
			e.Props.Block = c.truth(val)
		case name == "free":
			e.Props.Free = c.truth(val)
		case name == "labels":
			n, ok := val.AsInt()
			if !ok || n < 0 || n > math.MaxInt32 {
				c.add("", "should be a whole number that is not negative, got %.80s", val)
			}
			e.Props.Labels = int(n)
		case name == "when":
			if val.Kind() != edn.KindMap || val.Len() == 0 {
				c.add("", "should be a map of sibling keys to values, got %.80s", val)
			}
			e.Props.When = val
		default:
			c.commonProp(&e.Props, name, val)
		}
		c.pop()
	}
}

func (c *compiler) propName(key edn.Value, allowed []string, where string) (string, bool) {
	name, ok := key.AsKeyword()
	if ok && slices.Contains(allowed, name) {
		return name, true
	}
	if c.enough() {
		return "", false
	}
	hint := ""
	if near := Nearest(name, allowed); ok && near != "" {
		hint = "did you mean :" + near + "?"
	}
	c.add(hint, "unknown property %s of %s", key, where)
	return "", false
}

func (c *compiler) commonProp(p *Props, name string, val edn.Value) {
	switch name {
	case "title":
		p.Title = c.text(val)
	case "description":
		p.Description = c.text(val)
	case "doc":
		p.Doc = c.text(val)
	case "secret":
		p.Secret = c.truth(val)
	case "unit":
		p.Unit, _ = val.AsKeyword()
		if !slices.Contains(units, p.Unit) {
			c.add("", "should be :path, :ms, :bytes, :decimal or :capability, got %.80s", val)
		}
	case "default":
		p.Default, p.HasDefault = val, true
	case "deprecated":
		if text, ok := val.AsString(); ok {
			p.Deprecated, p.Replacement = true, text
		} else {
			p.Deprecated = c.truth(val)
		}
	}
}

func (c *compiler) truth(val edn.Value) bool {
	b, ok := val.AsBool()
	if !ok {
		c.add("", "should be true or false, got %.80s", val)
	}
	return b
}

func (c *compiler) text(val edn.Value) string {
	s, ok := val.AsString()
	if !ok {
		c.add("", "should be a string, got %.80s", val)
	}
	return s
}

// limit reads :min or :max: a number for numbers, a count for everything else.
func (c *compiler) limit(s *Schema, name string, val edn.Value) {
	if s.numeric() {
		b, ok := newBound(val)
		if !ok {
			c.add("", "should be a number, got %.80s", val)
			return
		}
		if name == "min" {
			s.min = b
		} else {
			s.max = b
		}
		return
	}
	n, ok := val.AsInt()
	if !ok || n < 0 || n > math.MaxInt32 {
		c.add("", "should be a whole number that is not negative, got %.80s", val)
		return
	}
	if name == "min" {
		s.minLen = int(n)
	} else {
		s.maxLen = int(n)
	}
}
