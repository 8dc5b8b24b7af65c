package sdk

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

// configForm derives the configuration schema of a struct type: names and types
// from schema.For, the rest from defaults and tags.
func configForm[T any](defaults T) (edn.Value, error) {
	v := reflect.ValueOf(defaults)
	if v.Kind() != reflect.Struct {
		return edn.Nil(), fmt.Errorf("a configuration is a struct, not %T; give Config a Schema", defaults)
	}
	entries, err := configEntries(v, schema.For[T]())
	if err != nil {
		return edn.Nil(), err
	}
	return closedMap(entries), nil
}

func closedMap(entries []edn.Value) edn.Value {
	head := []edn.Value{edn.K("map"), edn.MustMap(edn.K("closed"), edn.Bool(true))}
	return edn.Vector(append(head, entries...)...)
}

// configEntries derives the entries of a struct. The fields have the order of
// the entries in form, the derived schema of the struct.
func configEntries(v reflect.Value, form edn.Value) ([]edn.Value, error) {
	t := v.Type()
	var entries []edn.Value
	next := 1
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			return nil, fmt.Errorf("configuration %s: field %s is embedded; name it or give Config a Schema", t, f.Name)
		}
		name, rest, _ := strings.Cut(f.Tag.Get("edn"), ",")
		if !f.IsExported() || name == "-" || strings.Contains(rest, "rest") {
			continue
		}
		derived, ok := form.Nth(next)
		if !ok {
			return nil, fmt.Errorf("configuration %s: field %s has no place in the schema", t, f.Name)
		}
		next++
		entry, err := configEntry(f, v.Field(i), derived)
		if err != nil {
			return nil, fmt.Errorf("configuration %s: field %s: %w", t, f.Name, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func configEntry(f reflect.StructField, value reflect.Value, derived edn.Value) (edn.Value, error) {
	key, _ := derived.Nth(0)
	form, _ := derived.Nth(derived.Len() - 1)
	props := edn.MapBuilder{}
	optional := derived.Len() == 3
	if inner, is := insideMaybe(form); is {
		form, optional = inner, true
	}
	switch kind := f.Type.Kind(); {
	case kind == reflect.Struct && isMapForm(form):
		nested, err := configEntries(value, form)
		if err != nil {
			return edn.Nil(), err
		}
		form, optional = closedMap(nested), true
		props.Key("block", edn.Bool(true))
	case kind == reflect.Map && f.Type.Elem().Kind() == reflect.Struct &&
		f.Type.Elem() != reflect.TypeFor[edn.Value](): // edn.Value has any shape
		nested, err := configEntries(reflect.New(f.Type.Elem()).Elem(), lastOf(form))
		if err != nil {
			return edn.Nil(), err
		}
		form = edn.Vector(edn.K("map-of"), edn.K("string"), closedMap(nested))
		props.Key("block", edn.Bool(true))
		props.Key("labels", edn.Int(1))
	case kind == reflect.Map:
		form = edn.Vector(edn.K("map-of"), edn.K("string"), lastOf(form))
		props.Key("block", edn.Bool(true))
		props.Key("free", edn.Bool(true))
	default:
		var err error
		if form, err = bounded(form, f.Tag); err != nil {
			return edn.Nil(), err
		}
		if !value.IsZero() {
			def, err := edn.Encode(value.Interface())
			if err != nil {
				return edn.Nil(), fmt.Errorf("default: %w", err)
			}
			props.Key("default", def)
			optional = false
		}
	}
	props.OptTrue("optional", optional)
	if err := textProps(&props, f.Tag); err != nil {
		return edn.Nil(), err
	}
	return edn.Vector(key, props.Map(), form), nil
}

// textProps sets the entry properties that tags define.
func textProps(props *edn.MapBuilder, tag reflect.StructTag) error {
	if doc, ok := tag.Lookup("doc"); ok {
		props.Key("doc", edn.Text(doc))
	}
	if unit, ok := tag.Lookup("unit"); ok {
		k, err := edn.Keyword(unit)
		if err != nil {
			return fmt.Errorf("tag unit: %w", err)
		}
		props.Key("unit", k)
	}
	for _, name := range []string{"secret", "deprecated"} {
		word, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		if b, err := strconv.ParseBool(word); err == nil {
			props.Key(name, edn.Bool(b))
		} else {
			props.Key(name, edn.Text(word))
		}
	}
	return nil
}

// bounded applies the tags enum, min and max to a form.
func bounded(form edn.Value, tag reflect.StructTag) (edn.Value, error) {
	if words, ok := tag.Lookup("enum"); ok {
		all := []edn.Value{edn.K("enum")}
		for word := range strings.SplitSeq(words, ",") {
			all = append(all, edn.Text(word))
		}
		return edn.Vector(all...), nil
	}
	limits := edn.MustMap()
	some := false
	if have, ok := form.Nth(1); ok && have.Kind() == edn.KindMap {
		limits = have
	}
	for _, name := range []string{"min", "max"} {
		text, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		limit, err := edn.ReadString(text)
		if err != nil {
			return form, fmt.Errorf("tag %s: %w", name, err)
		}
		limits = limits.AssocKey(name, limit)
		some = true
	}
	if !some {
		return form, nil
	}
	if head, ok := form.Nth(0); ok {
		parts := []edn.Value{head, limits}
		if last := lastOf(form); form.Len() > 1 && last.Kind() != edn.KindMap {
			parts = append(parts, last)
		}
		return edn.Vector(parts...), nil
	}
	return edn.Vector(form, limits), nil
}

func insideMaybe(form edn.Value) (edn.Value, bool) {
	head, ok := form.Nth(0)
	if name, _ := head.AsKeyword(); !ok || name != "maybe" {
		return form, false
	}
	return lastOf(form), true
}

func isMapForm(form edn.Value) bool {
	head, _ := form.Nth(0)
	name, _ := head.AsKeyword()
	return name == "map"
}

func lastOf(form edn.Value) edn.Value {
	last, _ := form.Nth(form.Len() - 1)
	return last
}

// lenient relaxes the form for validating a configuration. A secret may be nil
// or absent: Describe gets none, and a missing secret is reported when it is
// used. An entry with a default may be absent.
func lenient(form edn.Value) edn.Value {
	if form.Kind() != edn.KindVector {
		return form
	}
	parts := make([]edn.Value, 0, form.Len())
	for part := range form.Elems() {
		parts = append(parts, lenient(part))
	}
	if len(parts) == 3 && parts[1].Kind() == edn.KindMap {
		if secret, _ := parts[1].Key("secret").AsBool(); secret {
			parts[1] = parts[1].AssocKey("optional", edn.Bool(true))
			parts[2] = edn.Vector(edn.K("maybe"), parts[2])
		}
		if parts[1].HasKey("default") {
			parts[1] = parts[1].AssocKey("optional", edn.Bool(true))
		}
	}
	return edn.Vector(parts...)
}

// withoutNil removes settings that are nil, so that their defaults apply. It
// follows the form and does not descend into settings of any shape.
func withoutNil(form, v edn.Value) edn.Value {
	if v.Kind() != edn.KindMap {
		return v
	}
	head, _ := form.Nth(0)
	switch kind, _ := head.AsKeyword(); kind {
	case "map":
		for entry := range form.Elems() {
			key, isEntry := entry.Nth(0)
			part, found := v.Get(key)
			switch {
			case !isEntry || !found:
			case part.IsNil():
				v = v.Dissoc(key)
			default:
				v = v.Assoc(key, withoutNil(lastOf(entry), part))
			}
		}
	case "map-of":
		return v.MapValues(func(part edn.Value) edn.Value { return withoutNil(lastOf(form), part) })
	}
	return v
}
