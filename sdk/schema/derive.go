package schema

import (
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/internal/kebab"
)

// For derives a schema form from a Go type, for the values that edn.Encode
// writes and edn.Decode reads. A struct is an open map with one entry per
// exported field, named by the tag `edn:"name"` or the kebab case of the field.
// An entry is optional if the tag has omitempty or the field is a pointer;
// every other entry is required. Pointers, slices and maps may be nil.
// Floating-point types are :number, because decoding accepts any number for
// them. A recursive type, an interface, and a type with its own EDN methods are
// :any.
func For[T any]() edn.Value {
	d := deriver{}
	return d.form(reflect.TypeFor[T](), "")
}

type deriver struct {
	open []reflect.Type // structs around the current type
}

var (
	valueType       = reflect.TypeFor[edn.Value]()
	timeType        = reflect.TypeFor[time.Time]()
	bigIntType      = reflect.TypeFor[big.Int]()
	bigFloatType    = reflect.TypeFor[big.Float]()
	emptyType       = reflect.TypeFor[struct{}]()
	marshalerType   = reflect.TypeFor[interface{ MarshalEDN() ([]byte, error) }]()
	unmarshalerType = reflect.TypeFor[interface{ UnmarshalEDN([]byte) error }]()
)

// olymposPackage is the library whose keyword and symbol types are allowed in
// structs.
const olymposPackage = "olympos.io/encoding/edn"

// form derives the form of a type; shape is the option of the field's tag that
// selects between EDN kinds.
func (d *deriver) form(t reflect.Type, shape string) edn.Value {
	if form, ok := special(t); ok {
		return form
	}
	switch t.Kind() {
	case reflect.Bool:
		return edn.K("boolean")
	case reflect.Int32:
		if shape == "rune" {
			return edn.K("char")
		}
		return integer(t)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return integer(t)
	case reflect.Float32, reflect.Float64:
		return edn.K("number")
	case reflect.String:
		return edn.K("string")
	case reflect.Pointer:
		return maybe(d.form(t.Elem(), shape))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && shape == "" {
			return maybe(edn.K("string"))
		}
		return maybe(edn.Vector(edn.K(sequenceWord(shape)), d.form(t.Elem(), "")))
	case reflect.Array:
		return d.array(t, shape)
	case reflect.Map:
		return maybe(d.mapping(t, shape))
	case reflect.Struct:
		return d.structure(t)
	}
	return edn.K("any")
}

// special returns the form of types that are not derived from their Go kind.
func special(t reflect.Type) (edn.Value, bool) {
	switch t {
	case valueType:
		return edn.K("any"), true
	case timeType:
		return edn.K("inst"), true
	case bigIntType:
		return edn.K("int"), true
	case bigFloatType:
		return edn.K("number"), true
	}
	if t.PkgPath() == olymposPackage {
		switch t.Name() {
		case "Keyword":
			return edn.K("keyword"), true
		case "Symbol":
			return edn.K("symbol"), true
		}
		return edn.K("any"), true
	}
	if t.Kind() == reflect.Pointer {
		return edn.Nil(), false
	}
	p := reflect.PointerTo(t)
	return edn.K("any"), p.Implements(marshalerType) || p.Implements(unmarshalerType)
}

func integer(t reflect.Type) edn.Value {
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32:
		half := int64(1) << (t.Bits() - 1)
		return limits("int", -half, half-1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return limits("int", 0, int64(1)<<t.Bits()-1)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return edn.Vector(edn.K("int"), edn.MustMap(edn.K("min"), edn.Int(0)))
	}
	return edn.K("int")
}

func limits(word string, least, most int64, kids ...edn.Value) edn.Value {
	form := []edn.Value{edn.K(word), edn.MustMap(edn.K("min"), edn.Int(least), edn.K("max"), edn.Int(most))}
	return edn.Vector(append(form, kids...)...)
}

func maybe(form edn.Value) edn.Value { return edn.Vector(edn.K("maybe"), form) }

func sequenceWord(shape string) string {
	if shape == "set" {
		return shape
	}
	return "sequential"
}

func (d *deriver) array(t reflect.Type, shape string) edn.Value {
	if t.Len() == 16 && t.Elem().Kind() == reflect.Uint8 && shape == "" {
		return edn.K("uuid")
	}
	n := int64(t.Len())
	return limits(sequenceWord(shape), n, n, d.form(t.Elem(), ""))
}

// mapping derives Go maps; maps to bool or struct{} represent sets.
func (d *deriver) mapping(t reflect.Type, shape string) edn.Value {
	if (t.Elem() == emptyType || t.Elem().Kind() == reflect.Bool) && shape != "map" {
		return edn.Vector(edn.K("set"), d.form(t.Key(), ""))
	}
	key := d.form(t.Key(), "")
	if t.Key().Kind() == reflect.String && key.IsKeyword() && key.Name() == "string" {
		key = edn.Vector(edn.K("or"), key, edn.K("keyword")) // decoding accepts the name of a keyword
	}
	return edn.Vector(edn.K("map-of"), key, d.form(t.Elem(), ""))
}

func (d *deriver) structure(t reflect.Type) edn.Value {
	if slices.Contains(d.open, t) {
		return edn.K("any")
	}
	d.open = append(d.open, t)
	form := []edn.Value{edn.K("map")}
	for _, f := range fieldsOf(t) {
		form = append(form, d.entry(&f))
	}
	d.open = d.open[:len(d.open)-1]
	return edn.Vector(form...)
}

// field is a field of a struct or of a struct embedded in it.
type field struct {
	typ     reflect.Type
	name    string
	options []string
	depth   int
	tagged  bool
}

// fieldsOf lists the fields by the rules of Go: of several with the same name
// the shallowest counts, among those the only one with a tag, otherwise none.
func fieldsOf(t reflect.Type) []field {
	var all []field
	collect(t, 0, map[reflect.Type]bool{}, &all)
	var out []field
	for i, f := range all {
		wins := true
		for j, other := range all {
			if i == j || other.name != f.name || other.depth > f.depth {
				continue
			}
			if other.depth < f.depth || other.tagged || !f.tagged {
				wins = false
			}
		}
		if wins {
			out = append(out, f)
		}
	}
	return out
}

func collect(t reflect.Type, depth int, seen map[reflect.Type]bool, all *[]field) {
	if seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("edn")
		name, list, _ := strings.Cut(tag, ",")
		options := strings.Split(list, ",")
		embedded := sf.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		_, isSpecial := special(embedded)
		switch {
		case sf.Anonymous && name == "" && embedded.Kind() == reflect.Struct && !isSpecial:
			collect(embedded, depth+1, seen, all)
		case tag == "-" || !sf.IsExported() || slices.Contains(options, "rest"):
		default:
			f := field{typ: sf.Type, name: name, options: options, depth: depth, tagged: name != ""}
			if name == "" {
				f.name = kebab.Case(sf.Name)
			}
			*all = append(*all, f)
		}
	}
}

func (d *deriver) entry(f *field) edn.Value {
	key := edn.K(f.name)
	switch {
	case slices.Contains(f.options, "str"):
		key = edn.Text(f.name)
	case slices.Contains(f.options, "sym"):
		key = edn.MustSymbol(f.name)
	}
	shape := ""
	for _, s := range []string{"set", "map", "vector", "list", "rune"} {
		if slices.Contains(f.options, s) {
			shape = s
			break
		}
	}
	form := d.form(f.typ, shape)
	if slices.Contains(f.options, "omitempty") || f.typ.Kind() == reflect.Pointer {
		return edn.Vector(key, edn.MustMap(edn.K("optional"), edn.Bool(true)), form)
	}
	return edn.Vector(key, form)
}
