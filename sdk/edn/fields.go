package edn

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/fermenthq/ferment/sdk/internal/kebab"
)

// field is one entry of the map that represents a struct.
type field struct {
	name      string
	key       Value
	index     []int // for reflect.Value.FieldByIndex
	tagged    bool  // the name comes from a tag
	omitEmpty bool
	shape     string // "list", "vector", "set", "map", "rune" or ""
}

// structInfo is the mapping of a struct type.
type structInfo struct {
	fields  []field
	rest    []int // index of the field for unknown keys, or nil
	problem string
}

// structInfos caches the mappings; its size is bounded by the types of the
// program.
var structInfos sync.Map // reflect.Type -> *structInfo

func infoOf(t reflect.Type) *structInfo {
	if info, ok := structInfos.Load(t); ok {
		return info.(*structInfo)
	}
	info, _ := structInfos.LoadOrStore(t, newStructInfo(t))
	return info.(*structInfo)
}

// newStructInfo collects the fields of t and of its embedded structs. As in Go,
// the shallowest field of a name wins, and among those one with a tag; if
// several remain, none of them is used.
func newStructInfo(t reflect.Type) *structInfo {
	info := &structInfo{}
	type level struct {
		t     reflect.Type
		index []int
	}
	seen := map[reflect.Type]bool{t: true}
	depthOf := map[string]int{}
	current := []level{{t: t}}
	for depth := 0; len(current) > 0; depth++ {
		var next []level
		var found []field
		for _, l := range current {
			for i := range l.t.NumField() {
				sf := l.t.Field(i)
				index := append(slices.Clone(l.index), i)
				if inner, ok := embeddedStruct(sf); ok {
					if !seen[inner] {
						seen[inner] = true
						next = append(next, level{inner, index})
					}
					continue
				}
				f, use := info.fieldOf(sf, index)
				if use {
					found = append(found, f)
				}
			}
		}
		info.merge(found, depthOf, depth)
		current = next
	}
	return info
}

// embeddedStruct reports whether the fields of sf belong to the enclosing
// struct.
func embeddedStruct(sf reflect.StructField) (reflect.Type, bool) {
	name, _, _ := strings.Cut(sf.Tag.Get("edn"), ",")
	if !sf.Anonymous || name != "" {
		return nil, false
	}
	t := sf.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, t.Kind() == reflect.Struct && t != valueType && t != timeType && t != bigIntType
}

func (info *structInfo) fieldOf(sf reflect.StructField, index []int) (field, bool) {
	tag := sf.Tag.Get("edn")
	if tag == "-" || !sf.IsExported() {
		return field{}, false
	}
	name, list, _ := strings.Cut(tag, ",")
	options := strings.Split(list, ",")
	if slices.Contains(options, "rest") {
		if info.rest != nil {
			info.problem = "two fields take the rest of the keys"
		}
		info.rest = index
		return field{}, false
	}
	f := field{name: name, index: index, tagged: name != "", omitEmpty: slices.Contains(options, "omitempty")}
	if name == "" {
		f.name = kebab.Case(sf.Name)
	}
	for _, shape := range []string{"set", "map", "vector", "list", "rune"} {
		if slices.Contains(options, shape) {
			f.shape = shape
			break
		}
	}
	var err error
	switch {
	case slices.Contains(options, "sym"):
		f.key, err = Symbol(f.name)
	case slices.Contains(options, "str"):
		f.key, err = String(f.name)
	default:
		f.key, err = Keyword(f.name)
	}
	if err != nil {
		info.problem = "field " + sf.Name + ": " + err.Error()
	}
	return f, true
}

func (info *structInfo) merge(found []field, depthOf map[string]int, depth int) {
	for i := range found {
		f := &found[i]
		if d, ok := depthOf[f.name]; ok && d < depth {
			continue // hidden by a shallower field
		}
		depthOf[f.name] = depth
		rivals, taggedRivals := 0, 0
		for j := range found {
			if j != i && found[j].name == f.name {
				rivals++
				if found[j].tagged {
					taggedRivals++
				}
			}
		}
		if rivals == 0 || f.tagged && taggedRivals == 0 {
			info.fields = append(info.fields, *f)
		}
	}
}
