package schema

import (
	"net/url"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// FromJSONSchema converts a JSON Schema (a value from edn.ReadJSON) to a schema
// form and the named forms under $defs that it refers to. The import of an
// export of [Schema.JSONSchema] returns an equal schema. Of foreign schemas it
// supports the keywords with a counterpart here: type, enum, const, properties,
// required, additionalProperties, propertyNames, items, prefixItems,
// uniqueItems, the limits of size and number, pattern, anyOf, allOf, not, $ref
// into $defs. Other validating keywords are rejected, because ignoring one
// would accept more; annotations and unknown formats are ignored. The error is
// a *CompileError with the path in the JSON Schema.
func FromJSONSchema(v edn.Value) (spec edn.Value, defs map[string]edn.Value, err error) {
	im := &importer{}
	spec = im.schema(v)
	defs = make(map[string]edn.Value)
	for _, word := range []string{"$defs", "definitions"} {
		group := member(v, word)
		if group.Kind() != edn.KindMap {
			continue
		}
		im.push(edn.K(word))
		for key, def := range group.Entries() {
			im.push(key)
			name := jsonName(key)
			if _, err := edn.Keyword(name); err != nil {
				im.add("", "the name of a definition must be a keyword name: %v", err)
			}
			defs[name] = im.schema(def)
			im.pop()
		}
		im.pop()
	}
	if err := im.err(); err != nil {
		return edn.Nil(), nil, err
	}
	return spec, defs, nil
}

// member returns a member of a JSON object, for any kind of key.
func member(v edn.Value, name string) edn.Value {
	if val, ok := v.Get(jsonKeyOf(edn.Text(name))); ok {
		return val
	}
	val, _ := v.Get(edn.Text(name))
	return val
}

type importer struct {
	problems
	nodes int
}

var (
	importedWords = []string{
		"type", "enum", "const", "properties", "required", "additionalProperties", "propertyNames", "items", "prefixItems",
		"uniqueItems", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
		"maxProperties",
		"pattern", "anyOf", "allOf", "not", "$ref", "$defs", "definitions", extEnum, extKind, extKey, extKeys, extProps,
		extEntry,
	}
	annotationWords = []string{
		"$schema", "$id", "$comment", "$anchor", "title", "description", "default", "deprecated", "examples", "format",
		"readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema",
	}
)

// schema converts one JSON Schema to a form.
func (im *importer) schema(v edn.Value) edn.Value {
	if im.nodes++; im.nodes > maxNodes {
		if im.nodes == maxNodes+1 {
			im.add("", "schema has more than %d nodes", maxNodes)
		}
		return edn.K("any")
	}
	if accept, ok := v.AsBool(); ok {
		if accept {
			return edn.K("any")
		}
		return edn.Vector(edn.K("not"), edn.K("any"))
	}
	if v.Kind() != edn.KindMap {
		im.add("", "a JSON Schema is an object or a boolean, got %.80s", v)
		return edn.K("any")
	}
	im.unsupported(v)
	forms := im.conditions(v)
	form := edn.K("any")
	switch len(forms) {
	case 0:
	case 1:
		form = forms[0]
	default:
		form = edn.Vector(append([]edn.Value{edn.K("and")}, forms...)...)
	}
	return withProps(form, im.ownProps(v))
}

func (im *importer) unsupported(v edn.Value) {
	for key := range v.Entries() {
		name := jsonName(key)
		if slices.Contains(importedWords, name) || slices.Contains(annotationWords, name) || strings.HasPrefix(name, "x-") {
			continue
		}
		im.push(key)
		im.add("", "JSON Schema keyword %q is not supported", name)
		im.pop()
	}
}

// conditions returns the forms of all validating keywords; all of them apply.
func (im *importer) conditions(v edn.Value) (forms []edn.Value) {
	members, isEnum := im.enumMembers(v)
	if types := im.types(v); len(types) > 0 && !isEnum {
		forms = append(forms, im.union(v, types))
	}
	if isEnum {
		forms = append(forms, edn.Vector(append([]edn.Value{edn.K("enum"), edn.MustMap()}, members...)...))
	}
	if any := member(v, "anyOf"); !any.IsNil() {
		kids := im.list("anyOf", any)
		if kind, _ := member(v, extKind).AsString(); kind == "maybe" && len(kids) == 2 {
			forms = append(forms, edn.Vector(edn.K("maybe"), kids[0]))
		} else {
			forms = append(forms, edn.Vector(append([]edn.Value{edn.K("or")}, kids...)...))
		}
	}
	if all := member(v, "allOf"); !all.IsNil() {
		forms = append(forms, edn.Vector(append([]edn.Value{edn.K("and")}, im.list("allOf", all)...)...))
	}
	if not := member(v, "not"); !not.IsNil() {
		forms = append(forms, edn.Vector(edn.K("not"), im.below("not", not)))
	}
	if ref := member(v, "$ref"); !ref.IsNil() {
		forms = append(forms, im.ref(ref))
	}
	return forms
}

func (im *importer) below(word string, v edn.Value) edn.Value {
	im.push(jsonKeyOf(edn.Text(word)))
	defer im.pop()
	return im.schema(v)
}

func (im *importer) list(word string, v edn.Value) (out []edn.Value) {
	im.push(jsonKeyOf(edn.Text(word)))
	defer im.pop()
	if v.Kind() != edn.KindVector || v.Len() == 0 {
		im.add("", "should be a non-empty array of schemas, got %.80s", v)
		return []edn.Value{edn.K("any")}
	}
	for i, kid := range v.All() {
		im.push(i)
		out = append(out, im.schema(kid))
		im.pop()
	}
	return out
}

func (im *importer) ref(v edn.Value) edn.Value {
	text, _ := v.AsString()
	for _, prefix := range []string{"#/$defs/", "#/definitions/"} {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		if plain, err := url.PathUnescape(rest); err == nil {
			rest = plain
		}
		name := strings.ReplaceAll(strings.ReplaceAll(rest, "~1", "/"), "~0", "~")
		if kw, err := edn.Keyword(name); err == nil {
			return edn.Vector(edn.K("ref"), kw)
		}
	}
	im.push(edn.K("$ref"))
	im.add("", "%s is not a reference to a definition like #/$defs/name", v)
	im.pop()
	return edn.K("any")
}

// enumMembers reads enum and const. Members that the type beside them rejects
// can never occur and are left out.
func (im *importer) enumMembers(v edn.Value) ([]edn.Value, bool) {
	var members []edn.Value
	list := member(v, "enum")
	switch {
	case !member(v, extEnum).IsNil():
		for text := range member(v, extEnum).Elems() {
			s, _ := text.AsString()
			m, err := edn.ReadString(s)
			if err != nil {
				im.add("", "%s has a member that is not EDN: %v", extEnum, err)
			}
			members = append(members, m)
		}
		return members, true
	case v.HasKey("const"):
		return []edn.Value{member(v, "const")}, true
	case list.IsNil():
		return nil, false
	}
	keyword, _ := member(v, extKind).AsString()
	types := im.types(v)
	for m := range list.Elems() {
		if text, ok := m.AsString(); ok && keyword == "keyword" {
			if kw, err := edn.Keyword(text); err == nil {
				m = kw
			}
		}
		if len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return jsonTypeFits(t, m) }) {
			members = append(members, m)
		}
	}
	if len(members) == 0 {
		im.add("", "enum has no member that fits")
	}
	return members, true
}

func jsonTypeFits(t string, v edn.Value) bool {
	switch v.Kind() {
	case edn.KindNil:
		return t == "null"
	case edn.KindBool:
		return t == "boolean"
	case edn.KindInt:
		return t == "integer" || t == "number"
	case edn.KindFloat:
		return t == "number"
	case edn.KindString, edn.KindKeyword:
		return t == "string"
	case edn.KindMap:
		return t == "object"
	}
	return t == "array"
}

func (im *importer) types(v edn.Value) (types []string) {
	t := member(v, "type")
	if text, ok := t.AsString(); ok {
		return []string{text}
	}
	if t.Kind() == edn.KindVector {
		for e := range t.Elems() {
			text, _ := e.AsString()
			types = append(types, text)
		}
	}
	if !t.IsNil() && len(types) == 0 {
		im.add("", "type should be a name or an array of names, got %.80s", t)
	}
	return types
}

func (im *importer) union(v edn.Value, types []string) edn.Value {
	var forms []edn.Value
	null := false
	for _, t := range types {
		if t == "null" && len(types) > 1 {
			null = true
			continue
		}
		forms = append(forms, im.ofType(t, v))
	}
	form := forms[0]
	if len(forms) > 1 {
		form = edn.Vector(append([]edn.Value{edn.K("or")}, forms...)...)
	}
	if null {
		return edn.Vector(edn.K("maybe"), form)
	}
	return form
}

// stringKinds are the kinds that the export marks on strings.
var stringKinds = []string{"keyword", "symbol", "char", "decimal", "inst", "uuid"}

func (im *importer) ofType(t string, v edn.Value) edn.Value {
	kind, _ := member(v, extKind).AsString()
	switch t {
	case "null":
		return edn.K("nil")
	case "boolean":
		return edn.K("boolean")
	case "integer":
		return im.limited("int", v, "minimum", "maximum")
	case "number":
		if kind == "double" {
			return im.limited(kind, v, "minimum", "maximum")
		}
		return im.limited("number", v, "minimum", "maximum")
	case "string":
		if slices.Contains(stringKinds, kind) {
			return edn.K(kind)
		}
		return im.text(v)
	case "array":
		return im.array(kind, v)
	case "object":
		return im.object(v)
	}
	im.add("", "unknown JSON type %q", t)
	return edn.K("any")
}

// limited returns a form with :min and :max from two keywords.
func (im *importer) limited(kind string, v edn.Value, least, most string, kids ...edn.Value) edn.Value {
	form := append([]edn.Value{edn.K(kind)}, kids...)
	var props edn.MapBuilder
	for _, limit := range []struct{ word, prop string }{{least, "min"}, {most, "max"}} {
		if n := member(v, limit.word); !n.IsNil() {
			props.Key(limit.prop, n)
		}
	}
	return withProps(edn.Vector(form...), props.Map())
}

func (im *importer) text(v edn.Value) edn.Value {
	form := im.limited("string", v, "minLength", "maxLength")
	pattern := member(v, "pattern")
	if pattern.IsNil() {
		return form
	}
	re := edn.Vector(edn.K("re"), pattern)
	if form.Len() == 1 {
		return re
	}
	return edn.Vector(edn.K("and"), form, re)
}

func (im *importer) array(kind string, v edn.Value) edn.Value {
	items, prefix := member(v, "items"), member(v, "prefixItems")
	if open, ok := items.AsBool(); ok && !open || !prefix.IsNil() {
		return im.tuple(v, prefix)
	}
	if unique, _ := member(v, "uniqueItems").AsBool(); unique {
		kind = "set"
	}
	if kind != "list" && kind != "sequential" && kind != "set" {
		kind = "vector"
	}
	var kids []edn.Value
	if open, ok := items.AsBool(); !items.IsNil() && !(ok && open) {
		kids = append(kids, im.below("items", items))
	}
	return im.limited(kind, v, "minItems", "maxItems", kids...)
}

func (im *importer) tuple(v, prefix edn.Value) edn.Value {
	form := []edn.Value{edn.K("tuple")}
	if !prefix.IsNil() {
		form = append(form, im.list("prefixItems", prefix)...)
	}
	least, _ := member(v, "minItems").AsInt()
	if open, ok := member(v, "items").AsBool(); !ok || open || least != int64(len(form)-1) {
		im.add("", "prefixItems is supported with items false and minItems equal to its length only")
	}
	return edn.Vector(form...)
}

func (im *importer) object(v edn.Value) edn.Value {
	properties, additional := member(v, "properties"), member(v, "additionalProperties")
	names := member(v, "propertyNames")
	if keys, ok := member(v, extKeys).AsString(); ok {
		return im.limited("map-of", v, "minProperties", "maxProperties", im.edn(extKeys, keys),
			im.below("additionalProperties", additional))
	}
	if additional.Kind() == edn.KindMap || !names.IsNil() {
		return im.mapOf(v, properties, additional, names)
	}
	form := []edn.Value{edn.K("map")}
	required := make(map[string]bool)
	for name := range member(v, "required").Elems() {
		text, _ := name.AsString()
		required[text] = true
	}
	if properties.Kind() == edn.KindMap {
		im.push(edn.K("properties"))
		for key, p := range properties.Entries() {
			im.push(key)
			form = append(form, im.entry(key, p, required[jsonName(key)]))
			delete(required, jsonName(key))
			im.pop()
		}
		im.pop()
	}
	for name := range required {
		form = append(form, edn.Vector(jsonKeyOf(edn.Text(name)), edn.K("any")))
	}
	out := im.limited("map", v, "minProperties", "maxProperties", form[1:]...)
	if open, ok := additional.AsBool(); ok && !open {
		out = withProps(out, edn.MustMap(edn.K("closed"), edn.Bool(true)))
	}
	return out
}

func (im *importer) mapOf(v, properties, additional, names edn.Value) edn.Value {
	if properties.Len() > 0 || member(v, "required").Len() > 0 {
		im.add("", "properties beside propertyNames or a schema in additionalProperties are not supported")
		return edn.K("map")
	}
	keys, vals := edn.K("any"), edn.K("any")
	if !names.IsNil() {
		keys = im.below("propertyNames", names)
	}
	if !additional.IsNil() {
		vals = im.below("additionalProperties", additional)
	}
	return im.limited("map-of", v, "minProperties", "maxProperties", keys, vals)
}

func (im *importer) entry(key, p edn.Value, required bool) edn.Value {
	if text, ok := member(p, extKey).AsString(); ok {
		key = im.edn(extKey, text)
	} else {
		key = jsonKeyOf(key)
	}
	props := edn.MustMap()
	if text, ok := member(p, extEntry).AsString(); ok {
		props = im.edn(extEntry, text)
	}
	if !required {
		props = props.Assoc(edn.K("optional"), edn.Bool(true))
	}
	form := []edn.Value{key}
	if props.Len() > 0 {
		form = append(form, props)
	}
	return edn.Vector(append(form, im.schema(p))...)
}

func (im *importer) edn(word, text string) edn.Value {
	v, err := edn.ReadString(text)
	if err != nil {
		im.push(jsonKeyOf(edn.Text(word)))
		im.add("", "is not EDN: %v", err)
		im.pop()
	}
	return v
}

// ownProps returns the properties of the schema itself. If the texts of an
// entry replace them, the extension has all of them.
func (im *importer) ownProps(v edn.Value) edn.Value {
	props := edn.MustMap()
	if member(v, extEntry).IsNil() {
		for _, word := range []string{"title", "description"} {
			if text := member(v, word); !text.IsNil() {
				props = props.Assoc(edn.K(word), text)
			}
		}
		if v.Has(edn.K("default")) || v.Has(edn.Text("default")) {
			props = props.Assoc(edn.K("default"), member(v, "default"))
		}
	}
	if text, ok := member(v, extProps).AsString(); ok {
		if exact := im.edn(extProps, text); exact.Kind() == edn.KindMap {
			for key, val := range exact.Entries() {
				props = props.Assoc(key, val)
			}
		}
	}
	return props
}

// withProps adds properties to a form.
func withProps(form, props edn.Value) edn.Value {
	if props.Len() == 0 {
		return form
	}
	if form.Kind() != edn.KindVector {
		return edn.Vector(form, props)
	}
	var parts []edn.Value
	for part := range form.Elems() {
		parts = append(parts, part)
	}
	if len(parts) > 1 && parts[1].Kind() == edn.KindMap {
		merged := parts[1]
		for key, val := range props.Entries() {
			merged = merged.Assoc(key, val)
		}
		parts[1] = merged
		return edn.Vector(parts...)
	}
	return edn.Vector(slices.Insert(parts, 1, props)...)
}
