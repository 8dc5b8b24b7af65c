package sdk

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Encode converts an input or an output to a value. It is edn.Encode, except
// that string keys of a Go map become keywords if they can, like the names of a
// JSON object: map[string]any{"text": "x"} becomes {:text "x"}. This applies to
// v itself and to values nested only in map[string]any and []any.
//
// A value that nests deeper than a payload can, such as one that contains itself,
// is an *edn.EncodeError with its path.
func Encode(v any) (edn.Value, error) { return encode(v, 0) }

// encode encodes a part of a value below depth maps and slices.
func encode(v any, depth int) (edn.Value, error) {
	switch x := v.(type) {
	case edn.Value:
		return x, nested(depth + x.Depth())
	case map[string]any:
		if err := nested(depth + 1); err != nil {
			return edn.Nil(), err
		}
		var m edn.MapBuilder
		for name, part := range x {
			value, err := encode(part, depth+1)
			if err != nil {
				return edn.Nil(), below(keyOf(name), err)
			}
			m.Set(keyOf(name), value)
		}
		return m.Map(), nil
	case []any:
		if err := nested(depth + 1); err != nil {
			return edn.Nil(), err
		}
		parts := make([]edn.Value, len(x))
		for i, part := range x {
			var err error
			if parts[i], err = encode(part, depth+1); err != nil {
				return edn.Nil(), below(edn.Int(int64(i)), err)
			}
		}
		return edn.Vector(parts...), nil
	}
	encoded, err := edn.Encode(v)
	if err == nil {
		err = nested(depth + encoded.Depth())
	}
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

// nested returns an error for a value of more than the depth of a payload.
func nested(depth int) error {
	if depth <= edn.Wire.Depth {
		return nil
	}
	return &edn.EncodeError{Problems: []edn.DecodeProblem{{
		Message: fmt.Sprintf("nested deeper than %d, as a value that contains itself is", edn.Wire.Depth),
	}}}
}

// below adds the key of a part to the paths of its error.
func below(key edn.Value, err error) error {
	var e *edn.EncodeError
	if !errors.As(err, &e) {
		return err
	}
	for i, p := range e.Problems {
		e.Problems[i].Path = append([]edn.Value{key}, p.Path...)
	}
	return err
}

// keyOf returns the keyword with the given name, or the string if there is no
// such keyword.
func keyOf(name string) edn.Value {
	if key, err := edn.Keyword(name); err == nil {
		return key
	}
	return edn.Text(name)
}
