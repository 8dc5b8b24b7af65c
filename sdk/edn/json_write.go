package edn

import (
	"fmt"
	"math"
)

// JSONCollisionError reports a map without a JSON form: two of its keys have the
// same name, such as :a and "a", or its keys are exactly the strings "#tag" and
// "#value", which stand for a tagged literal.
type JSONCollisionError struct {
	Name string  // the name in JSON
	Path []Value // the map
}

// Error returns "edn: write JSON: ..." with name and path.
func (e *JSONCollisionError) Error() string {
	if e.Name == jsonTag {
		return fmt.Sprintf("edn: write JSON: the map at %s would read back as a tagged literal", Vector(e.Path...))
	}
	return fmt.Sprintf("edn: write JSON: two keys of the map at %s have the name %q", Vector(e.Path...), e.Name)
}

// maxSafeInt is the largest integer that every JSON reader represents exactly.
const maxSafeInt = 1<<53 - 1

// WriteJSON returns the JSON view of v, the same bytes for equal values:
// keywords, symbols, characters, decimals, instants and UUIDs as strings,
// integers beyond 53 bits as strings of digits, sets as arrays, maps as objects
// named by keyword name, string or canonical text of the key, tagged literals
// as {"#tag": name, "#value": v}. The only error is a *JSONCollisionError.
func WriteJSON(v Value) ([]byte, error) {
	w := jsonWriter{}
	w.value(&v)
	if w.err != nil {
		return nil, w.err
	}
	return w.out, nil
}

type jsonWriter struct {
	out  []byte
	path []Value
	err  error
}

func (w *jsonWriter) value(v *Value) {
	switch v.kind {
	case KindNil:
		w.out = append(w.out, "null"...)
	case KindBool:
		w.out = appendScalar(w.out, v)
	case KindFloat:
		w.out = appendFloat(w.out, math.Float64frombits(v.num))
	case KindInt:
		w.integer(v)
	case KindString, KindKeyword, KindSymbol:
		w.out = appendJSONString(w.out, v.text())
	case KindChar:
		w.out = appendJSONString(w.out, string(rune(v.num)))
	case KindDecimal:
		w.quoted(appendDecimal(nil, v))
	case KindInst:
		w.quoted(appendInst(nil, v.inst()))
	case KindUUID:
		w.quoted(appendUUID(nil, v.uuid()))
	case KindTagged:
		t := v.tagged()
		w.out = append(w.out, `{"`+jsonTag+`":`...)
		w.out = appendJSONString(w.out, t.tag)
		w.out = append(w.out, `,"`+jsonValue+`":`...)
		w.value(&t.val)
		w.out = append(w.out, '}')
	case KindMap:
		w.object(v)
	default:
		w.array(v)
	}
}

func (w *jsonWriter) quoted(text []byte) {
	w.out = append(w.out, '"')
	w.out = append(append(w.out, text...), '"')
}

func (w *jsonWriter) integer(v *Value) {
	if i, ok := v.AsInt(); ok && i >= -maxSafeInt && i <= maxSafeInt {
		w.out = appendInt(w.out, v)
		return
	}
	digits := appendInt(nil, v)
	if digits[len(digits)-1] == 'N' {
		digits = digits[:len(digits)-1]
	}
	w.quoted(digits)
}

func (w *jsonWriter) array(v *Value) {
	w.out = append(w.out, '[')
	elems := v.elems()
	for i := range elems {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		step := Int(int64(i))
		if v.kind == KindSet {
			step = elems[i]
		}
		w.path = append(w.path, step)
		w.value(&elems[i])
		w.path = w.path[:len(w.path)-1]
	}
	w.out = append(w.out, ']')
}

func (w *jsonWriter) object(v *Value) {
	list := entries(v.elems())
	if name, ok := jsonCollision(list); ok && w.err == nil {
		w.err = &JSONCollisionError{Name: name, Path: append([]Value(nil), w.path...)}
	}
	if w.err != nil {
		return
	}
	w.out = append(w.out, '{')
	for i := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = appendJSONString(w.out, jsonName(&list[i].Key))
		w.out = append(w.out, ':')
		w.path = append(w.path, list[i].Key)
		w.value(&list[i].Val)
		w.path = w.path[:len(w.path)-1]
	}
	w.out = append(w.out, '}')
}

// jsonName returns the member name of a key.
func jsonName(k *Value) string {
	if k.kind == KindKeyword || k.kind == KindString {
		return k.text()
	}
	return k.String()
}

// jsonCollision returns a name that two keys share. Keys of one kind have
// different names, so a map with keys of one kind has no collision. The names
// of a tagged literal are reserved for tagged literals.
func jsonCollision(list []Entry) (string, bool) {
	if len(list) == 2 && list[0].Key.kind == KindString && list[1].Key.kind == KindString &&
		list[0].Key.text() == jsonTag && list[1].Key.text() == jsonValue {
		return jsonTag, true
	}
	plain := 0
	for i := range list {
		if k := list[i].Key.kind; k == KindKeyword {
			plain |= 1
		} else if k == KindString {
			plain |= 2
		} else {
			plain |= 4
		}
	}
	if plain&(plain-1) == 0 {
		return "", false
	}
	seen := make(map[string]bool, len(list))
	for i := range list {
		name := jsonName(&list[i].Key)
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := plainRun(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		switch e := shortEscape(s[n]); {
		case e != 0:
			dst = append(dst, '\\', e)
		case s[n] == 0x7f:
			dst = append(dst, s[n])
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[s[n]>>4], hexDigits[s[n]&15])
		}
		s = s[n+1:]
	}
}
