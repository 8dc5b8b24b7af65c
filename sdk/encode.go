package sdk

import (
	"reflect"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Encode makes the value of an input or an output. It is edn.Encode, except
// that the names of a Go map with string keys become keywords where they can,
// as the names of a JSON object do: map[string]any{"text": "x"} is {:text "x"}.
// That holds for v itself and, inside of it, for everything that is reached
// through map[string]any and []any alone.
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

// keyOf is the keyword of a name, or the string where there is no such keyword.
func keyOf(name string) edn.Value {
	if key, err := edn.Keyword(name); err == nil {
		return key
	}
	return edn.Text(name)
}
