package schema

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// equalSchemas reports whether the normal forms of two schemas are equal.
// Targets of :ref are compared by name.
func equalSchemas(a, b *Schema) bool {
	return a == b || edn.Equal(a.normal(), b.normal())
}

// normal returns the form without parts that have no meaning: the order of map
// entries, empty property maps, properties that are false, the vector around a
// single type word.
func (s *Schema) normal() edn.Value {
	form := []edn.Value{edn.K(s.kind.String())}
	if props := s.propForm(); props.Len() > 0 {
		form = append(form, props)
	}
	switch s.kind {
	case KindMap:
		entries := make([]edn.Value, len(s.entries))
		for i := range s.entries {
			entries[i] = s.entries[i].normal()
		}
		slices.SortFunc(entries, func(a, b edn.Value) int {
			x, _ := a.Nth(0)
			y, _ := b.Nth(0)
			return edn.Compare(x, y)
		})
		form = append(form, entries...)
	case KindEnum:
		// A map in first position would be read as properties.
		if len(form) == 1 && s.members[0].Kind() == edn.KindMap {
			form = append(form, edn.MustMap())
		}
		form = append(form, s.members...)
	case KindRe:
		form = append(form, edn.Text(s.pattern.String()))
	case KindRef:
		form = append(form, edn.K(s.refName))
	default:
		for _, kid := range s.kids {
			form = append(form, kid.normal())
		}
	}
	if len(form) == 1 && s.kind != KindTuple {
		return form[0]
	}
	return edn.Vector(form...)
}

func (e *Entry) normal() edn.Value {
	form := []edn.Value{e.Key}
	if props := e.propForm(); props.Len() > 0 {
		form = append(form, props)
	}
	return edn.Vector(append(form, e.Schema.normal())...)
}

// propForm returns the property map of a schema with its limits.
func (s *Schema) propForm() edn.Value {
	var b edn.MapBuilder
	if lowest, highest := s.Bounds(); true {
		b.Opt("min", lowest)
		b.Opt("max", highest)
	}
	b.OptTrue("closed", s.closed)
	if s.props != nil {
		s.props.form(&b)
	}
	return b.Map()
}

func (e *Entry) propForm() edn.Value {
	var b edn.MapBuilder
	b.OptTrue("optional", e.Optional)
	e.Props.form(&b)
	return b.Map()
}

func (p *Props) form(b *edn.MapBuilder) {
	for _, t := range []struct{ key, val string }{{"title", p.Title}, {"description", p.Description}, {"doc", p.Doc}} {
		if t.val != "" {
			b.Key(t.key, edn.Text(t.val))
		}
	}
	for _, t := range []struct {
		key string
		val bool
	}{{"secret", p.Secret}, {"block", p.Block}, {"free", p.Free}, {"deprecated", p.Deprecated}} {
		if t.val {
			b.Key(t.key, edn.Bool(true))
		}
	}
	b.OptText("deprecated", p.Replacement)
	b.OptKeyword("unit", p.Unit)
	if p.HasDefault {
		b.Key("default", p.Default)
	}
	if p.Labels > 0 {
		b.Key("labels", edn.Int(int64(p.Labels)))
	}
	b.Opt("when", p.When)
}
