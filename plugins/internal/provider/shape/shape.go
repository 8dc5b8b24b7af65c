package shape

import (
	"fmt"
	"strings"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// Shape is the required form of an answer.
type Shape struct {
	Name   string // of the schema
	schema *schema.Schema
	wire   []byte // as JSON Schema
	text   string // key of the text, if the answer is nothing else
	object bool   // the answer can be an object
	scalar bool   // the answer can be neither an object nor an array
}

// New compiles a schema in any form that schema.ReadForm accepts. json, if not
// nil, is sent over the wire instead. Names are looked up among the built-in
// schemas.
func New(name string, form, json edn.Value) (*Shape, error) {
	form, err := schema.ReadForm(form)
	if err != nil {
		return nil, err
	}
	compiled, err := schema.Compile(form)
	if err != nil {
		return nil, err
	}
	if json.IsNil() {
		json = compiled.JSONSchema()
	}
	wire, err := edn.WriteJSON(json)
	if err != nil {
		return nil, fmt.Errorf("write the schema %s: %w", name, err)
	}
	s := &Shape{Name: name, schema: compiled, wire: wire, text: textKey(compiled)}
	s.object, s.scalar = roots(compiled)
	return s, nil
}

// roots reports whether a value of the schema can be an object, and whether it can be a scalar. Both are
// false for arrays.
func roots(s *schema.Schema) (object, scalar bool) {
	s = s.Deref()
	switch s.Kind() {
	case schema.KindMap, schema.KindMapOf, schema.KindAny, schema.KindNot:
		return true, false
	case schema.KindVector, schema.KindList, schema.KindSequential, schema.KindSet, schema.KindTuple:
		return false, false
	case schema.KindAnd:
		return roots(s.Children()[0])
	case schema.KindMaybe, schema.KindOr:
		scalar = s.Kind() == schema.KindMaybe
		for _, c := range s.Children() {
			o, x := roots(c)
			object, scalar = object || o, scalar || x
		}
		return object, scalar
	}
	return false, true
}

// TextKey returns the key of the text if the schema allows only a map with a
// single text, else "". Such an answer is requested as plain text.
func (s *Shape) TextKey() string { return s.text }

// Takes reports whether v is valid for the schema.
func (s *Shape) Takes(v edn.Value) bool { return s.schema.Valid(v) }

func textKey(s *schema.Schema) string {
	s = s.Deref()
	switch s.Kind() {
	case schema.KindMap:
		entries := s.Entries()
		if len(entries) != 1 || entries[0].Optional || !isText(entries[0].Schema) {
			return ""
		}
		key, _ := entries[0].Key.AsKeyword()
		return key
	case schema.KindOr:
		chosen := ""
		for _, branch := range s.Children() {
			key := textKey(branch)
			if key == "" {
				return ""
			}
			if chosen == "" || key == "text" {
				chosen = key
			}
		}
		return chosen
	}
	return ""
}

func isText(s *schema.Schema) bool {
	kind := s.Deref().Kind()
	return kind == schema.KindString || kind == schema.KindRe
}

// Ask returns the form in which the answer is requested. mode is auto, native,
// json or prompt; ok is false if the mode is required and unavailable. Servers in JSON mode
// answer with objects only.
func (s *Shape) Ask(mode string, p dialect.Preset) (out chat.Output, ok bool) {
	out.Name = wireName(s.Name)
	lowered, lowerable := []byte(nil), false
	if p.Native && (mode == "auto" || mode == "native") {
		lowered, lowerable = Lower(s.wire)
	}
	switch {
	case lowerable:
		out.Form, out.Schema = chat.Native, lowered
	case mode == "native":
		return out, false
	case p.JSONMode && s.object && mode != "prompt":
		out.Form = chat.JSON
	case mode == "json":
		return out, false
	default:
		out.Form = chat.Prompt
	}
	return out, true
}

// Instruction returns the instruction to a model about the form of its answer.
func (s *Shape) Instruction() string {
	return "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n" + string(s.wire)
}

func wireName(name string) string {
	name = dialect.NewNames([]string{name}).Wire(name)
	return strings.Trim(name, "_")
}

// Problem is the reason why a text is not an answer of the shape.
type Problem struct {
	// Parsed is true if there was a value that does not fit.
	Parsed   bool
	Findings []schema.Finding
}

// Read finds the value in a text outside of reasoning and validates it. how names
// the place of the value, "" if all of the text that is not reasoning is JSON.
// problem is nil if the value fits.
func (s *Shape) Read(text string) (v edn.Value, how string, problem *Problem) {
	f, ok := find(text, s.scalar)
	if !ok {
		return edn.Nil(), "", &Problem{}
	}
	v = f.value
	if f.json {
		v = s.schema.CoerceJSON(withoutNulls(s.schema, v))
	}
	if findings := s.schema.Validate(v); len(findings) > 0 {
		return v, f.how, &Problem{Parsed: true, Findings: findings}
	}
	return v, f.how, nil
}

// withoutNulls removes the nulls that stand for missing keys.
func withoutNulls(s *schema.Schema, v edn.Value) edn.Value {
	s = s.Deref()
	switch s.Kind() {
	case schema.KindMap:
		for _, e := range s.Entries() {
			part, there := v.Get(e.Key)
			switch {
			case !v.IsMap() || !there:
			case part.IsNil() && e.Optional && !e.Schema.Valid(part):
				v = v.Dissoc(e.Key)
			default:
				v = v.Assoc(e.Key, withoutNulls(e.Schema, part))
			}
		}
	case schema.KindMapOf:
		if children := s.Children(); v.IsMap() && len(children) == 2 {
			return v.MapValues(func(part edn.Value) edn.Value { return withoutNulls(children[1], part) })
		}
	case schema.KindVector, schema.KindList, schema.KindSequential, schema.KindSet:
		if children := s.Children(); v.IsVector() && len(children) == 1 {
			parts := make([]edn.Value, 0, v.Len())
			for part := range v.Elems() {
				parts = append(parts, withoutNulls(children[0], part))
			}
			return edn.Vector(parts...)
		}
	case schema.KindMaybe, schema.KindAnd:
		for _, c := range s.Children() {
			v = withoutNulls(c, v)
		}
	case schema.KindOr:
		for _, c := range s.Children() {
			if w := withoutNulls(c, v); c.Valid(c.CoerceJSON(w)) {
				return w
			}
		}
	}
	return v
}
