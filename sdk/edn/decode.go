package edn

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"time"

	olympos "olympos.io/encoding/edn"
)

// DecodeError lists every problem of decoding a value into a Go type.
type DecodeError struct{ Problems []DecodeProblem }

// DecodeProblem is one problem with its path in the value.
type DecodeProblem struct {
	Path    []Value
	Message string
}

// Error returns "edn: decode: " and all problems with their paths.
func (e *DecodeError) Error() string { return "edn: decode: " + joinProblems(e.Problems) }

func joinProblems(problems []DecodeProblem) string {
	parts := make([]string, len(problems))
	for i, p := range problems {
		if parts[i] = p.Message; len(p.Path) > 0 {
			path := Vector(p.Path...)
			parts[i] = "at " + path.brief() + " " + p.Message
		}
	}
	return strings.Join(parts, "; ")
}

// Decode stores v in the value that dst points to. A struct is decoded from a
// map with keyword or string keys, named by the tag edn:"name,omitempty" or
// else by the kebab case of the field; edn:"-" leaves a field out, and a field
// with edn:",rest", a map or a Value, receives the unknown keys. Without a rest
// field unknown keys are ignored.
//
// A Value and an empty interface accept any value unchanged. Integers must fit; an
// int32 also accepts a character. Floating-point types accept any number that does
// not overflow. A string accepts a string; a slice
// accepts a list, vector or set; a map accepts a map, and a map with bool or
// struct{} values also a set; pointers, maps and slices accept nil. time.Time,
// big.Int, [16]byte and []byte accept #inst, integer, #uuid and base64 text.
// Types with the method UnmarshalEDN of olympos.io/encoding/edn receive
// canonical text, and that library decodes its own types.
//
// Decode continues after a problem and returns a *DecodeError with all of them;
// the parts that fit have then been stored.
func Decode(v Value, dst any) error { return decode(v, dst, false) }

// DecodeStrict is Decode, but reports unknown keys. It is meant for
// configuration.
func DecodeStrict(v Value, dst any) error { return decode(v, dst, true) }

func decode(v Value, dst any, strict bool) error {
	rv := reflect.ValueOf(dst)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return &DecodeError{[]DecodeProblem{{Message: "the destination must be a pointer that is not nil"}}}
	}
	d := decoder{strict: strict}
	d.value(&v, rv.Elem())
	if len(d.problems) > 0 {
		return &DecodeError{d.problems}
	}
	return nil
}

var (
	valueType       = reflect.TypeFor[Value]()
	timeType        = reflect.TypeFor[time.Time]()
	bigIntType      = reflect.TypeFor[big.Int]()
	bigFloatType    = reflect.TypeFor[big.Float]()
	emptyType       = reflect.TypeFor[struct{}]()
	unmarshalerType = reflect.TypeFor[olympos.Unmarshaler]()
	olymposPath     = reflect.TypeFor[olympos.Keyword]().PkgPath()
)

type decoder struct {
	strict   bool
	path     []Value
	problems []DecodeProblem
}

func (d *decoder) fail(format string, args ...any) {
	d.problems = append(d.problems, DecodeProblem{
		Path:    append([]Value(nil), d.path...),
		Message: fmt.Sprintf(format, args...),
	})
}

// mismatch reports a value of the wrong kind.
func (d *decoder) mismatch(v *Value, want string) {
	d.fail("expected %s, got %s %s", want, v.kind, v.brief())
}

func (d *decoder) at(step Value, f func()) {
	d.path = append(d.path, step)
	f()
	d.path = d.path[:len(d.path)-1]
}

func (d *decoder) value(v *Value, dst reflect.Value) {
	t := dst.Type()
	switch {
	case t == valueType:
		dst.Set(reflect.ValueOf(*v))
		return
	case t.Kind() == reflect.Pointer && t.PkgPath() == "":
		d.pointer(v, dst)
		return
	case t.PkgPath() == olymposPath, t == bigFloatType, reflect.PointerTo(t).Implements(unmarshalerType):
		d.foreign(v, dst)
		return
	}
	switch t {
	case timeType:
		if v.kind != KindInst {
			d.mismatch(v, "an instant")
			return
		}
		dst.Set(reflect.ValueOf(v.inst()))
	case bigIntType:
		if v.kind != KindInt {
			d.mismatch(v, "an integer")
			return
		}
		dst.Set(reflect.ValueOf(v.bigInt()).Elem())
	default:
		d.kind(v, dst)
	}
}

// foreign passes the canonical text of v to the method of dst, or to the
// library that defines the type of dst.
func (d *decoder) foreign(v *Value, dst reflect.Value) {
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		if u, ok := dst.Addr().Interface().(olympos.Unmarshaler); ok {
			return u.UnmarshalEDN(v.Canonical())
		}
		return olympos.Unmarshal(v.Canonical(), dst.Addr().Interface())
	}()
	if err != nil {
		d.fail("%s: %v", dst.Type(), err)
	}
}

func (d *decoder) pointer(v *Value, dst reflect.Value) {
	if v.kind == KindNil {
		dst.SetZero()
		return
	}
	if dst.IsNil() {
		dst.Set(reflect.New(dst.Type().Elem()))
	}
	d.value(v, dst.Elem())
}

func (d *decoder) kind(v *Value, dst reflect.Value) {
	switch dst.Kind() {
	case reflect.Bool:
		if v.kind != KindBool {
			d.mismatch(v, "a boolean")
			return
		}
		dst.SetBool(v.num != 0)
	case reflect.String:
		if v.kind != KindString {
			d.mismatch(v, "a string")
			return
		}
		dst.SetString(v.text())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.signed(v, dst)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		d.unsigned(v, dst)
	case reflect.Float32, reflect.Float64:
		d.float(v, dst)
	case reflect.Slice:
		d.slice(v, dst)
	case reflect.Array:
		d.array(v, dst)
	case reflect.Map:
		d.mapping(v, dst)
	case reflect.Struct:
		d.structure(v, dst)
	case reflect.Interface:
		if dst.NumMethod() == 0 {
			dst.Set(reflect.ValueOf(*v))
			return
		}
		fallthrough
	default:
		d.fail("Go type %s takes no value", dst.Type())
	}
}

func (d *decoder) signed(v *Value, dst reflect.Value) {
	if v.kind == KindChar && dst.Kind() == reflect.Int32 {
		dst.SetInt(int64(v.num))
		return
	}
	if v.kind != KindInt {
		d.mismatch(v, "an integer")
		return
	}
	i, ok := v.AsInt()
	if !ok || dst.OverflowInt(i) {
		d.fail("integer %s does not fit into %s", v.brief(), dst.Type())
		return
	}
	dst.SetInt(i)
}

func (d *decoder) unsigned(v *Value, dst reflect.Value) {
	if v.kind != KindInt {
		d.mismatch(v, "an integer")
		return
	}
	i := v.bigInt()
	if !i.IsUint64() || dst.OverflowUint(i.Uint64()) {
		d.fail("integer %s does not fit into %s", v.brief(), dst.Type())
		return
	}
	dst.SetUint(i.Uint64())
}

func (d *decoder) float(v *Value, dst reflect.Value) {
	f := 0.0
	switch v.kind {
	case KindFloat:
		f = math.Float64frombits(v.num)
	case KindInt, KindDecimal:
		r, _ := v.AsNumber()
		f, _ = r.Float64()
	default:
		d.mismatch(v, "a number")
		return
	}
	if math.IsInf(f, 0) || dst.OverflowFloat(f) {
		d.fail("number %s does not fit into %s", v.brief(), dst.Type())
		return
	}
	dst.SetFloat(f)
}

func (d *decoder) slice(v *Value, dst reflect.Value) {
	if v.kind == KindNil {
		dst.SetZero()
		return
	}
	if dst.Type().Elem().Kind() == reflect.Uint8 && d.bytes(v, dst) {
		return
	}
	if v.kind != KindList && v.kind != KindVector && v.kind != KindSet {
		d.mismatch(v, "a vector")
		return
	}
	out := reflect.MakeSlice(dst.Type(), int(v.num), int(v.num))
	d.elems(v, out)
	dst.Set(out)
}

func (d *decoder) elems(v *Value, out reflect.Value) {
	elems := v.elems()
	for i := range elems {
		d.at(Int(int64(i)), func() { d.value(&elems[i], out.Index(i)) })
	}
}

// bytes stores base64 text, with or without its tag.
func (d *decoder) bytes(v *Value, dst reflect.Value) bool {
	if tag, inner, ok := v.AsTagged(); ok && tag == "base64" {
		v = &inner
	}
	if v.kind != KindString {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(v.text())
	if err != nil {
		d.fail("expected base64 text: %v", err)
		return true
	}
	dst.SetBytes(b)
	return true
}

func (d *decoder) array(v *Value, dst reflect.Value) {
	if v.kind == KindUUID && dst.Len() == 16 && dst.Type().Elem().Kind() == reflect.Uint8 {
		for i, b := range v.uuid() {
			dst.Index(i).SetUint(uint64(b))
		}
		return
	}
	if v.kind != KindList && v.kind != KindVector {
		d.mismatch(v, "a vector")
		return
	}
	if int(v.num) != dst.Len() {
		d.fail("expected %d elements, got %d", dst.Len(), v.num)
		return
	}
	d.elems(v, dst)
}

// isSetType reports whether a Go map represents a set.
func isSetType(t reflect.Type) bool { return t.Elem() == emptyType || t.Elem().Kind() == reflect.Bool }

func (d *decoder) mapping(v *Value, dst reflect.Value) {
	t := dst.Type()
	switch {
	case v.kind == KindNil:
		dst.SetZero()
	case v.kind == KindSet && isSetType(t):
		out := reflect.MakeMapWithSize(t, v.Len())
		member := reflect.New(t.Elem()).Elem()
		if t.Elem().Kind() == reflect.Bool {
			member.SetBool(true)
		}
		for e := range v.Elems() {
			d.at(e, func() { d.entry(&e, nil, out, member) })
		}
		dst.Set(out)
	case v.kind == KindMap:
		out := reflect.MakeMapWithSize(t, v.Len())
		for k, val := range v.Entries() {
			d.at(k, func() { d.entry(&k, &val, out, reflect.New(t.Elem()).Elem()) })
		}
		dst.Set(out)
	default:
		d.mismatch(v, "a map")
	}
}

// entry stores one entry of a Go map; val is nil for the member of a set.
func (d *decoder) entry(k, val *Value, out, elem reflect.Value) {
	keyType := out.Type().Key()
	if !keyType.Comparable() || keyType.Kind() == reflect.Interface {
		d.fail("Go type %s takes no key", keyType)
		return
	}
	faults := len(d.problems)
	key := reflect.New(keyType).Elem()
	if k.kind == KindKeyword && keyType.Kind() == reflect.String && keyType.PkgPath() != olymposPath {
		key.SetString(k.text())
	} else {
		d.value(k, key)
	}
	if len(d.problems) == faults && out.MapIndex(key).IsValid() {
		d.fail("a second key has the same name in Go")
	}
	if val != nil {
		d.value(val, elem)
	}
	if len(d.problems) == faults {
		out.SetMapIndex(key, elem)
	}
}

func (d *decoder) structure(v *Value, dst reflect.Value) {
	if v.kind != KindMap {
		d.mismatch(v, "a map")
		return
	}
	info := infoOf(dst.Type())
	if info.problem != "" {
		d.fail("Go type %s: %s", dst.Type(), info.problem)
		return
	}
	list := entries(v.elems())
	used := make([]bool, len(list))
	for i := range info.fields {
		f := &info.fields[i]
		at := d.findField(list, used, f)
		if at < 0 {
			continue
		}
		d.at(list[at].Key, func() { d.field(&list[at].Val, dst, f.index) })
	}
	d.rest(list, used, info, dst)
}

// findField returns the entry of a field under its keyword, string or symbol.
func (d *decoder) findField(list []Entry, used []bool, f *field) int {
	at := findKeyword(list, f.name)
	if f.key.kind != KindKeyword {
		if i := findEntry(list, &f.key); i >= 0 && at < 0 {
			at = i
		}
	}
	name := stringValue(f.name)
	if i := findEntry(list, &name); i >= 0 && i != at {
		if at >= 0 {
			d.at(list[i].Key, func() { d.fail("the key occurs twice, also as %s", list[at].Key.brief()) })
			used[i] = true
		} else {
			at = i
		}
	}
	if at >= 0 {
		used[at] = true
	}
	return at
}

// field stores v in a field of the struct dst and allocates embedded pointers
// on the way.
func (d *decoder) field(v *Value, dst reflect.Value, index []int) {
	for i, n := range index {
		if i > 0 && dst.Kind() == reflect.Pointer {
			if dst.IsNil() {
				if !dst.CanSet() {
					d.fail("Go type %s is embedded as a nil pointer and not exported", dst.Type().Elem())
					return
				}
				dst.Set(reflect.New(dst.Type().Elem()))
			}
			dst = dst.Elem()
		}
		dst = dst.Field(n)
	}
	d.value(v, dst)
}

// rest stores the entries that no field has used in the rest field.
func (d *decoder) rest(list []Entry, used []bool, info *structInfo, dst reflect.Value) {
	var left []Value
	for i := range list {
		switch {
		case used[i]:
		case info.rest != nil:
			left = append(left, list[i].Key, list[i].Val)
		case d.strict:
			d.at(list[i].Key, func() { d.fail("unknown key") })
		}
	}
	if info.rest != nil {
		more := collection(KindMap, &node{elems: left}, depthAbove(left))
		d.field(&more, dst, info.rest)
	}
}
