package sdk

import (
	"reflect"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Encode converts an input or an output to a value. It is edn.Encode, except
// that string keys of a Go map become keywords if they can, like the names of a
// JSON object: map[string]any{"text": "x"} becomes {:text "x"}. This applies to
// v itself and to values nested only in map[string]any and []any.
func Encode(v any) (edn.Value, error) {
	switch x := v.(type) {
	case edn.Value:
		return x, nil
	case map[string]any:
		var m edn.MapBuilder
		for name, part := range x {
			value, err := Encode(part)
			if err != nil {
				return edn.Nil(), err
			}
			m.Set(keyOf(name), value)
		}
		return m.Map(), nil
	case []any:
		parts := make([]edn.Value, len(x))
		for i, part := range x {
			var err error
			if parts[i], err = Encode(part); err != nil {
				return edn.Nil(), err
			}
		}
		return edn.Vector(parts...), nil
	}
	encoded, err := edn.Encode(v)
	if t := reflect.TypeOf(v); err != nil || t == nil || t.Kind() != reflect.Map || encoded.Kind() != edn.KindMap {
		return encoded, err
	}
	var m edn.MapBuilder
	for key, part := range encoded.Entries() {
		if name, ok := key.AsString(); ok {
			key = keyOf(name)
		}
		m.Set(key, part)
	}
	return m.Map(), nil
}

// keyOf returns the keyword with the given name, or the string if there is no
// such keyword.
func keyOf(name string) edn.Value {
	if key, err := edn.Keyword(name); err == nil {
		return key
	}
	return edn.Text(name)
}
