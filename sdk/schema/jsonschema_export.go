package schema

import (
	"math"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// dialect is the JSON Schema version of exports.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// Extension keywords of the export. They hold the parts that JSON Schema cannot
// express, so that an import returns an equal schema.
const (
	extKind  = "x-ferment-kind"  // the kind of values that JSON represents as strings or arrays
	extEnum  = "x-ferment-enum"  // EDN text of enumeration members that are equal in JSON
	extKey   = "x-ferment-key"   // EDN text of a map key that is not a keyword
	extProps = "x-ferment-props" // EDN text of the properties of a schema
	extEntry = "x-ferment-entry" // EDN text of the properties of a map entry
	extKeys  = "x-ferment-keys"  // EDN text of the schema of keys that JSON names cannot express
)

// JSONSchema returns the schema as JSON Schema 2020-12, a value for
// edn.WriteJSON. It describes the JSON that becomes a valid value by
// CoerceJSON; targets of :ref are under $defs. Export and schema differ for
// whole numbers written as 1.0, which are integers in JSON Schema; for integers
// beyond 2^53 and decimals under :number, which the JSON view writes as
// strings; and for what only format and extensions express: the text of
// keywords, decimals, instants and the like, and keys that are not names.
func (s *Schema) JSONSchema() edn.Value {
	x := exporter{defs: make(map[string]edn.Value)}
	root := x.schema(s)
	root.key("$schema", edn.Text(dialect))
	if len(x.defs) > 0 {
		var defs object
		for name, def := range x.defs {
			defs.key(name, def)
		}
		root.key("$defs", defs.value())
	}
	return root.value()
}

// object builds a JSON object with the keys that reading JSON returns.
type object struct{ b edn.MapBuilder }

func (o *object) key(name string, v edn.Value)     { o.b.Set(jsonKeyOf(edn.Text(name)), v) }
func (o *object) text(name, text string)           { o.key(name, edn.Text(text)) }
func (o *object) count(name string, n int)         { o.key(name, edn.Int(int64(n))) }
func (o *object) edn(name string, v edn.Value)     { o.text(name, v.String()) }
func (o *object) truth(name string, truth bool)    { o.key(name, edn.Bool(truth)) }
func (o *object) value() edn.Value                 { return o.b.Map() }
func (o *object) kind(jsonType string, k Kind)     { o.text("type", jsonType); o.text(extKind, k.String()) }
func (o *object) list(name string, l ...edn.Value) { o.key(name, edn.Vector(l...)) }

type exporter struct {
	defs map[string]edn.Value
}

func (x *exporter) schema(s *Schema) *object {
	o := &object{}
	x.shape(o, s)
	left := exportProps(o, s.Props())
	if s.numeric() {
		exportBounds(o, &left, s)
	}
	if props := left.Map(); props.Len() > 0 {
		o.edn(extProps, props)
	}
	return o
}

func (x *exporter) value(s *Schema) edn.Value {
	o := x.schema(s)
	return o.value()
}

// shape writes the validating keywords.
func (x *exporter) shape(o *object, s *Schema) {
	switch s.kind {
	case KindNil:
		o.text("type", "null")
	case KindBoolean:
		o.text("type", "boolean")
	case KindInt:
		o.text("type", "integer")
	case KindNumber:
		o.text("type", "number")
	case KindDouble:
		o.kind("number", s.kind)
	case KindString:
		o.text("type", "string")
		o.lengths("Length", s.minLen, s.maxLen)
	case KindDecimal, KindKeyword, KindSymbol, KindUUID:
		o.kind("string", s.kind)
		o.text("format", s.kind.String())
	case KindInst:
		o.kind("string", s.kind)
		o.text("format", "date-time")
	case KindChar:
		o.kind("string", s.kind)
		o.text("format", "char")
		o.lengths("Length", 1, 1)
	case KindRe:
		o.text("type", "string")
		o.text("pattern", s.pattern.String())
	case KindEnum:
		exportEnum(o, s)
	case KindMap:
		x.mapEntries(o, s)
	case KindMapOf:
		o.text("type", "object")
		names := x.value(s.kids[0])
		if isName(s.kids[0]) {
			o.key("propertyNames", names)
		} else {
			o.edn(extKeys, s.kids[0].normal())
		}
		o.key("additionalProperties", x.value(s.kids[1]))
		o.lengths("Properties", s.minLen, s.maxLen)
	case KindVector, KindList, KindSequential, KindSet:
		x.array(o, s)
	case KindTuple:
		o.text("type", "array")
		if len(s.kids) > 0 {
			o.list("prefixItems", x.values(s.kids)...)
		}
		o.truth("items", false)
		o.lengths("Items", len(s.kids), len(s.kids))
	case KindMaybe:
		o.list("anyOf", x.value(s.kids[0]), edn.MustMap(edn.K("type"), edn.Text("null")))
		o.text(extKind, s.kind.String())
	case KindOr:
		o.list("anyOf", x.values(s.kids)...)
	case KindAnd:
		o.list("allOf", x.values(s.kids)...)
	case KindNot:
		o.key("not", x.value(s.kids[0]))
	case KindRef:
		o.text("$ref", "#/$defs/"+escapePointer(s.refName))
		x.define(s.target)
	}
}

// isName reports whether JSON represents the keys that the schema accepts as
// the strings that the export describes.
func isName(s *Schema) bool {
	switch s.kind {
	case KindAny, KindString, KindRe, KindKeyword, KindSymbol:
		return true
	case KindRef:
		return isName(s.target)
	case KindOr, KindAnd:
		return !slices.ContainsFunc(s.kids, func(kid *Schema) bool { return !isName(kid) })
	case KindEnum:
		return !slices.ContainsFunc(s.members,
			func(m edn.Value) bool { return m.Kind() != edn.KindKeyword && m.Kind() != edn.KindString })
	}
	return false
}

func (x *exporter) values(schemas []*Schema) []edn.Value {
	out := make([]edn.Value, len(schemas))
	for i, s := range schemas {
		out[i] = x.value(s)
	}
	return out
}

// define exports a named schema once; the placeholder ends a recursion.
func (x *exporter) define(s *Schema) {
	if _, done := x.defs[s.name]; done {
		return
	}
	x.defs[s.name] = edn.Nil()
	x.defs[s.name] = x.value(s)
}

// lengths writes the limits of a size: minLength, maxItems and so on.
func (o *object) lengths(of string, least, most int) {
	if least > 0 {
		o.count("min"+of, least)
	}
	if most >= 0 {
		o.count("max"+of, most)
	}
}

func (x *exporter) mapEntries(o *object, s *Schema) {
	o.text("type", "object")
	var properties object
	var required []edn.Value
	for i := range s.entries {
		e := &s.entries[i]
		name := jsonName(e.Key)
		p := x.schema(e.Schema)
		if e.Key.Kind() != edn.KindKeyword {
			p.edn(extKey, e.Key)
		}
		if props := e.propForm().Dissoc(edn.K("optional")); props.Len() > 0 {
			x.entryProps(p, e, props)
		}
		properties.key(name, p.value())
		if !e.Optional {
			required = append(required, edn.Text(name))
		}
	}
	if len(s.entries) > 0 {
		o.key("properties", properties.value())
	}
	if len(required) > 0 {
		o.list("required", required...)
	}
	if s.closed {
		o.truth("additionalProperties", false)
	}
	o.lengths("Properties", s.minLen, s.maxLen)
}

// entryProps writes the properties of an entry. For readers that know only JSON
// Schema, its texts replace those of the schema, which move to the extension.
func (x *exporter) entryProps(p *object, e *Entry, props edn.Value) {
	p.edn(extEntry, props)
	if own := e.Schema.propForm(); own.Len() > 0 {
		p.edn(extProps, own)
	}
	title, description := e.Props.Title, firstText(e.Props.Description, e.Props.Doc)
	if title != "" {
		p.text("title", title)
	}
	if description != "" {
		p.text("description", description)
	}
	if image, ok := jsonImage(e.Props.Default); ok && e.Props.HasDefault {
		p.key("default", image)
	}
	if e.Props.Deprecated {
		p.truth("deprecated", true)
	}
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (x *exporter) array(o *object, s *Schema) {
	o.text("type", "array")
	if s.kind != KindVector {
		o.text(extKind, s.kind.String())
	}
	if s.kind == KindSet {
		o.truth("uniqueItems", true)
	}
	if len(s.kids) > 0 {
		o.key("items", x.value(s.kids[0]))
	}
	o.lengths("Items", s.minLen, s.maxLen)
}

// exportEnum writes the members as JSON, and also as EDN if reading the JSON
// would return other members.
func exportEnum(o *object, s *Schema) {
	var members, images []edn.Value
	keywords, plain := true, true
	seen := make(map[string]bool)
	for _, m := range s.members {
		keywords = keywords && m.Kind() == edn.KindKeyword
		image, ok := jsonImage(m)
		if !ok {
			image, plain = edn.Nil(), false
		}
		plain = plain && edn.Equal(image, m)
		members = append(members, m)
		if ok && !seen[image.String()] {
			seen[image.String()] = true
			images = append(images, image)
		}
	}
	o.list("enum", images...)
	switch {
	case keywords:
		o.text(extKind, KindKeyword.String())
	case !plain:
		texts := make([]edn.Value, len(members))
		for i, m := range members {
			texts[i] = edn.Text(m.String())
		}
		o.list(extEnum, texts...)
	}
}

// exportProps writes the properties that JSON Schema supports and returns the
// others.
func exportProps(o *object, p Props) (left edn.MapBuilder) {
	if p.Title != "" {
		o.text("title", p.Title)
		p.Title = ""
	}
	if p.Description != "" {
		o.text("description", p.Description)
		p.Description = ""
	}
	if p.HasDefault {
		if image, ok := jsonImage(p.Default); ok {
			o.key("default", image)
			p.HasDefault = !edn.Equal(image, p.Default)
		}
	}
	p.form(&left)
	return left
}

// exportBounds writes minimum and maximum. A bound that a JSON number cannot
// represent is written as the nearest number, and exactly in the extension.
func exportBounds(o *object, left *edn.MapBuilder, s *Schema) {
	for _, b := range []struct {
		word, prop string
		bound      *bound
	}{{"minimum", "min", s.min}, {"maximum", "max", s.max}} {
		if b.bound == nil {
			continue
		}
		image, ok := jsonImage(b.bound.spec)
		exact := ok && edn.Equal(image, b.bound.spec)
		if s.kind == KindDecimal {
			exact = false // strings have no minimum
		} else if exact {
			o.key(b.word, image)
		} else if f, _ := b.bound.rat.Float64(); !math.IsInf(f, 0) {
			o.key(b.word, edn.MustFloat(f))
		}
		if !exact {
			left.Key(b.prop, b.bound.spec)
		}
	}
}

// escapePointer escapes a name as one step of a JSON pointer in a URI fragment.
func escapePointer(name string) string {
	name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' || c == '#' || c == '<' || c == '>' || c == '"' || c >= 0x80 {
			const hex = "0123456789ABCDEF"
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
