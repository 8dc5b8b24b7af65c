package edn

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"time"

	olympos "olympos.io/encoding/edn"
)

// EncodeError lists every part of a Go value that cannot be encoded.
type EncodeError struct{ Problems []DecodeProblem }

// Error returns "edn: encode: " and all problems with their paths.
func (e *EncodeError) Error() string { return "edn: encode: " + joinProblems(e.Problems) }

// Encode returns the value of x by the rules of Decode: a struct becomes a map
// with keyword keys (strings or symbols with the tag options str and sym), a
// field with omitempty is left out when it is empty, and the entries of a rest
// field are added. Slices and arrays become vectors, Go maps become maps with
// unchanged keys, maps with bool or struct{} values become sets of the keys
// (those with true); the tag options list, vector, set, map and rune select
// another form. Invalid UTF-8 in strings is replaced by U+FFFD. Nil pointers,
// maps, slices and interfaces become nil.
//
// Types with the method MarshalEDN of olympos.io/encoding/edn encode
// themselves, and that library encodes big.Float; the text is read strictly.
//
// NaN, infinities, channels, functions, equal keys and nesting beyond MaxDepth
// are errors; Encode returns an *EncodeError that lists all of them up to the first
// part that is nested too deep, as a value that contains itself is.
func Encode(x any) (Value, error) {
	if v, ok := x.(Value); ok {
		return v, nil
	}
	e := encoder{}
	v := e.value(reflect.ValueOf(x), "", 0)
	if len(e.problems) > 0 {
		return Value{}, &EncodeError{e.problems}
	}
	return v, nil
}

var marshalerType = reflect.TypeFor[olympos.Marshaler]()

type encoder struct {
	path     []Value
	problems []DecodeProblem
	deep     bool // a part is nested too deep; the others are left out
}

func (e *encoder) fail(format string, args ...any) Value {
	e.problems = append(e.problems, DecodeProblem{
		Path:    append([]Value(nil), e.path...),
		Message: fmt.Sprintf(format, args...),
	})
	return Value{}
}

// part encodes the part of a collection under key.
func (e *encoder) part(key Value, x reflect.Value, shape string, depth int) Value {
	e.path = append(e.path, key)
	v := e.value(x, shape, depth)
	e.path = e.path[:len(e.path)-1]
	return v
}

// value encodes x; shape is the tag option that selects the form.
func (e *encoder) value(x reflect.Value, shape string, depth int) Value {
	if !x.IsValid() || e.deep {
		return Value{}
	}
	if depth > MaxDepth {
		e.deep = true // a value that contains itself twice has 2^MaxDepth such parts
		return e.fail("nested deeper than %d", MaxDepth)
	}
	t := x.Type()
	switch {
	case t == valueType:
		return x.Interface().(Value)
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		if x.IsNil() {
			return Value{}
		}
		if t.Kind() == reflect.Interface || !t.Implements(marshalerType) ||
			t.Elem().Implements(marshalerType) || t.Elem() == valueType {
			return e.value(x.Elem(), shape, depth+1)
		}
		return e.foreign(x)
	case t == bigFloatType, t.Implements(marshalerType):
		return e.foreign(x)
	case reflect.PointerTo(t).Implements(marshalerType):
		return e.foreign(addressable(x).Addr())
	}
	switch t {
	case timeType:
		v, ok := instValue(x.Interface().(time.Time))
		if !ok {
			return e.fail("year is outside 1 to 9999")
		}
		return v
	case bigIntType:
		return e.bigInt(addressable(x).Addr().Interface().(*big.Int))
	}
	return e.kind(x, shape, depth)
}

func addressable(x reflect.Value) reflect.Value {
	if x.CanAddr() {
		return x
	}
	c := reflect.New(x.Type()).Elem()
	c.Set(x)
	return c
}

// foreign encodes x with its method or the library and reads the text strictly:
// neither validates names or numbers.
func (e *encoder) foreign(x reflect.Value) Value {
	var b []byte
	var err error
	// The library's Marshal removes blanks from the output of a method, even
	// between two tokens, so a method is called directly.
	if m, ok := x.Interface().(olympos.Marshaler); ok {
		b, err = m.MarshalEDN()
	} else {
		b, err = olympos.Marshal(x.Interface())
	}
	if err != nil {
		return e.fail("%s: %v", x.Type(), err)
	}
	v, err := Read(b)
	if err != nil {
		return e.fail("%s wrote text that is not a value: %v", x.Type(), err)
	}
	return v
}

func (e *encoder) bigInt(i *big.Int) Value {
	v, err := func() (v Value, err error) {
		defer catch(&err)
		return BigInt(i), nil
	}()
	if err != nil {
		return e.fail("%v", err)
	}
	return v
}

func (e *encoder) kind(x reflect.Value, shape string, depth int) Value {
	switch x.Kind() {
	case reflect.Bool:
		return Bool(x.Bool())
	case reflect.String:
		return Text(x.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if shape == "rune" && x.Kind() == reflect.Int32 {
			return e.char(rune(x.Int()))
		}
		return Int(x.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return BigInt(new(big.Int).SetUint64(x.Uint()))
	case reflect.Float32:
		return e.float32(float32(x.Float()))
	case reflect.Float64:
		return e.float(x.Float())
	case reflect.Slice:
		if x.IsNil() {
			return Value{}
		}
		if x.Type().Elem().Kind() == reflect.Uint8 && shape == "" {
			return stringValue(base64.StdEncoding.EncodeToString(x.Bytes()))
		}
		return e.sequence(x, shape, depth)
	case reflect.Array:
		if x.Len() == 16 && x.Type().Elem().Kind() == reflect.Uint8 && shape == "" {
			var u [16]byte
			reflect.Copy(reflect.ValueOf(&u).Elem(), x)
			return UUID(u)
		}
		return e.sequence(x, shape, depth)
	case reflect.Map:
		if x.IsNil() {
			return Value{}
		}
		return e.mapping(x, shape, depth)
	case reflect.Struct:
		return e.structure(x, depth)
	}
	return e.fail("Go type %s has no value", x.Type())
}

func (e *encoder) char(r rune) Value {
	v, err := Char(r)
	if err != nil {
		return e.fail("%v", err)
	}
	return v
}

func (e *encoder) float(f float64) Value {
	v, err := Float(f)
	if err != nil {
		return e.fail("%v", err)
	}
	return v
}

// float32 encodes the shortest decimal of f: 0.1 stays 0.1.
func (e *encoder) float32(f float32) Value {
	wide, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return e.float(wide)
}

// finish makes the collection unless a part failed or the nesting is too deep.
func (e *encoder) finish(make func() (Value, error)) Value {
	if len(e.problems) > 0 {
		return Value{}
	}
	v, err := make()
	if err != nil {
		return e.fail("%v", err)
	}
	return v
}

func (e *encoder) sequence(x reflect.Value, shape string, depth int) Value {
	elems := make([]Value, x.Len())
	for i := range elems {
		elems[i] = e.part(Int(int64(i)), x.Index(i), "", depth+1)
	}
	return e.finish(func() (v Value, err error) {
		defer catch(&err)
		switch shape {
		case "set":
			return Set(elems)
		case "list":
			return sequence(KindList, &node{elems: elems}), nil
		}
		return sequence(KindVector, &node{elems: elems}), nil
	})
}

func (e *encoder) mapping(x reflect.Value, shape string, depth int) Value {
	if isSetType(x.Type()) && shape != "map" {
		var members []Value
		for it := x.MapRange(); it.Next(); {
			if it.Value().Kind() != reflect.Bool || it.Value().Bool() {
				members = append(members, e.value(it.Key(), "", depth+1))
			}
		}
		return e.finish(func() (Value, error) { return Set(members) })
	}
	elems := make([]Value, 0, 2*x.Len())
	for it := x.MapRange(); it.Next(); {
		k := e.value(it.Key(), "", depth+1)
		elems = append(elems, k, e.part(k, it.Value(), "", depth+1))
	}
	return e.finish(func() (Value, error) { return mapOf(&node{elems: elems}) })
}

func (e *encoder) structure(x reflect.Value, depth int) Value {
	info := infoOf(x.Type())
	if info.problem != "" {
		return e.fail("Go type %s: %s", x.Type(), info.problem)
	}
	elems := make([]Value, 0, 2*len(info.fields))
	for i := range info.fields {
		f := &info.fields[i]
		part, ok := partAt(x, f.index)
		if !ok || f.omitEmpty && isEmpty(part) {
			continue
		}
		elems = append(elems, f.key, e.part(f.key, part, f.shape, depth+1))
	}
	if info.rest != nil {
		if part, ok := partAt(x, info.rest); ok {
			rest := e.value(part, "map", depth)
			if rest.kind == KindMap {
				elems = append(elems, rest.elems()...)
			} else if rest.kind != KindNil {
				e.fail("the rest field is not a map")
			}
		}
	}
	return e.finish(func() (Value, error) { return mapOf(&node{elems: elems}) })
}

// partAt returns a field; a field of an embedded nil pointer is absent.
func partAt(x reflect.Value, index []int) (reflect.Value, bool) {
	for i, n := range index {
		if i > 0 && x.Kind() == reflect.Pointer {
			if x.IsNil() {
				return reflect.Value{}, false
			}
			x = x.Elem()
		}
		x = x.Field(n)
	}
	return x, true
}

// isEmpty reports whether omitempty leaves x out.
func isEmpty(x reflect.Value) bool {
	switch x.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return x.Len() == 0
	case reflect.Struct:
		// A Value that is nil is empty; other structs never are.
		return x.Type() == valueType && x.Interface().(Value).IsNil()
	}
	return x.IsZero()
}

// MarshalEDN returns the canonical text of v, so that a Value can be part of a
// type which olympos.io/encoding/edn writes.
func (v Value) MarshalEDN() ([]byte, error) { return v.Canonical(), nil }

// UnmarshalEDN reads one form strictly, so that a Value can be part of a type
// which olympos.io/encoding/edn fills.
func (v *Value) UnmarshalEDN(b []byte) (err error) {
	*v, err = Read(b)
	return err
}
