package prompt

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// maxNesting bounds the inlining of schemas, which would not terminate for a recursive one.
const maxNesting = 32

// output returns the form of the answer: {:name :schema :json-schema}, nil without a
// schema. The schema is self-contained: it refers to no schema of this host.
func output(s Setting) edn.Value {
	if s.Schema == nil {
		return edn.Nil()
	}
	s.Schema = wanted(s.Schema)
	var b edn.MapBuilder
	if k, err := edn.Keyword(s.SchemaName); err == nil {
		b.Key("name", k)
	}
	if form, ok := alone(s.Schema.Spec(), s.Lookup, 0); ok {
		b.Key("schema", form)
	}
	b.Key("json-schema", s.Schema.JSONSchema())
	return b.Map()
}

// alone inlines referenced schemas, except for the built-in ones, which every receiver has.
// ok is false if the nesting exceeds maxNesting.
func alone(form edn.Value, lookup func(string) (*schema.Schema, bool), depth int) (edn.Value, bool) {
	if !form.IsVector() {
		return form, true
	}
	if depth > maxNesting {
		return edn.Nil(), false
	}
	if name, ok := referred(form); ok {
		if _, builtin := schema.Builtin()[name]; builtin || lookup == nil {
			return form, true
		}
		s, known := lookup(name)
		if !known {
			return form, true
		}
		return alone(s.Spec(), lookup, depth+1)
	}
	items := make([]edn.Value, 0, form.Len())
	for x := range form.Elems() {
		item, ok := alone(x, lookup, depth+1)
		if !ok {
			return edn.Nil(), false
		}
		items = append(items, item)
	}
	return edn.Vector(items...), true
}

// referred returns the name in [:ref :name].
func referred(form edn.Value) (string, bool) {
	if head, _ := form.Nth(0); name(head) != "ref" || !head.IsKeyword() {
		return "", false
	}
	last, _ := form.Nth(form.Len() - 1)
	return last.AsKeyword()
}

// wanted returns the part of a schema that a model is asked to produce. Of
// alternatives it is the first if that is a map with one string and nothing
// else: models handle one form better than a choice, and plain text better than
// text in JSON. If the string is prose and another alternative has it under
// :text, it is that alternative, because that text is cleaned and cut.
func wanted(s *schema.Schema) *schema.Schema {
	alternatives := s.Deref()
	if alternatives.Kind() != schema.KindOr {
		return s
	}
	first := alternatives.Children()[0]
	key := textKey(first)
	if key == "" {
		return s
	}
	if slices.Contains(answerKeys[:], key) {
		for _, branch := range alternatives.Children() {
			if textKey(branch) == "text" {
				return branch
			}
		}
	}
	return first
}

// textKey returns the key of a map that has one string and nothing else.
func textKey(s *schema.Schema) string {
	entries := s.Deref().Entries()
	if s.Deref().Kind() != schema.KindMap || len(entries) != 1 || entries[0].Optional {
		return ""
	}
	if kind := entries[0].Schema.Deref().Kind(); kind != schema.KindString && kind != schema.KindRe {
		return ""
	}
	key, _ := entries[0].Key.AsKeyword()
	return key
}
