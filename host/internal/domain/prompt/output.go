package prompt

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// maxNesting bounds how deep schemas are put into each other; one that refers
// to itself does not end.
const maxNesting = 32

// output is the form of the answer: {:name :schema :json-schema}. The schema
// stands alone: it refers to no schema that only this host knows.
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

// alone puts referred schemas in the place of references, except for built-in
// ones, which everybody knows. ok is false if that does not end.
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

// referred is the name in [:ref :name].
func referred(form edn.Value) (string, bool) {
	if head, _ := form.Nth(0); name(head) != "ref" || !head.IsKeyword() {
		return "", false
	}
	last, _ := form.Nth(form.Len() - 1)
	return last.AsKeyword()
}

// wanted is the part of a schema that a model is asked for. Of alternatives it
// is the first one if that is a text alone: a model does better at one thing
// than at a choice, and at a text than at a text in JSON. Prose goes under :text
// where the schema takes that, because it is what is cleaned and cut.
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

// textKey is the key of a map that has one text and nothing else.
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
