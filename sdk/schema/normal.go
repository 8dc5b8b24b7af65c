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
func (s *Schema) normal() edn.Value { return (&former{}).form(s) }

// Standalone returns the form with each :ref replaced by its target, so that it
// compiles without a registry. A recursive reference becomes :any, and so does a
// part that exceeds the largest size of a schema.
func (s *Schema) Standalone() edn.Value {
	return (&former{expands: true, open: []*Schema{s}}).form(s)
}

// former writes compiled schemas as forms.
type former struct {
	// expands is set if targets of references are written instead of their names, and
	// entries keep their order.
	expands bool
	open    []*Schema // targets that are being written
	count   int       // schemas written
}

func (f *former) form(s *Schema) edn.Value {
	if f.count++; f.expands && f.count > maxNodes {
		return edn.K("any")
	}
	if f.expands && s.kind == KindRef {
		return f.target(s.Deref())
	}
	form := []edn.Value{edn.K(s.kind.String())}
	if props := s.propForm(); props.Len() > 0 {
		form = append(form, props)
	}
	switch s.kind {
	case KindMap:
		entries := make([]edn.Value, len(s.entries))
		for i := range s.entries {
			entries[i] = f.entry(&s.entries[i])
		}
		if !f.expands {
			slices.SortFunc(entries, func(a, b edn.Value) int {
				x, _ := a.Nth(0)
				y, _ := b.Nth(0)
				return edn.Compare(x, y)
			})
		}
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
			form = append(form, f.form(kid))
		}
	}
	if len(form) == 1 && s.kind != KindTuple {
		return form[0]
	}
	return edn.Vector(form...)
}

// target writes the target of a reference, unless it is within it.
func (f *former) target(s *Schema) edn.Value {
	if slices.Contains(f.open, s) {
		return edn.K("any")
	}
	f.open = append(f.open, s)
	form := f.form(s)
	f.open = f.open[:len(f.open)-1]
	return form
}

func (f *former) entry(e *Entry) edn.Value {
	form := []edn.Value{e.Key}
	if props := e.propForm(); props.Len() > 0 {
		form = append(form, props)
	}
	return edn.Vector(append(form, f.form(e.Schema))...)
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
