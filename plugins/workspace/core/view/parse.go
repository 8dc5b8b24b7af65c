package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Options are the options of parsing views.
type Options struct {
	// Named are the views of the configuration. They replace built-in ones of the
	// same name.
	Named map[string]View
	// At is the path of the value in the input, for errors.
	At []edn.Value
}

// invalid is an error about one entry of a value.
func invalid(at []edn.Value, format string, args ...any) error {
	var where strings.Builder
	for _, part := range at {
		where.WriteString(" " + part.String())
	}
	reason := fmt.Sprintf(format, args...)
	return contract.Errorf("input/invalid", "at [%s]: %s", strings.TrimSpace(where.String()), reason).
		WithDetail("path", edn.Vector(at...)).WithDetail("reason", edn.Text(reason))
}

// notAllowed is invalid with the list of what is allowed.
func notAllowed(at []edn.Value, what string, found edn.Value, allowed []string) error {
	list := make([]edn.Value, len(allowed))
	for i, a := range allowed {
		list[i] = edn.Text(a)
	}
	err := contract.AsError(invalid(at, "%.80s is not %s: one of %s is expected", found, what, strings.Join(allowed, ", ")))
	return err.WithDetail("allowed", edn.Vector(list...))
}

func under(at []edn.Value, more ...edn.Value) []edn.Value {
	return append(slices.Clone(at), more...)
}

// word returns the name of a keyword or a string.
func word(v edn.Value) string {
	if name, ok := v.AsKeyword(); ok {
		return name
	}
	name, _ := v.AsString()
	return name
}

// views returns all views with a name.
func (o Options) views() map[string]View {
	all := BuiltIn()
	maps.Copy(all, o.Named)
	return all
}

// Parse returns the view that v describes: nil for the default view, the name
// of a view, or a map with the differences to the default view.
func Parse(v edn.Value, o Options) (View, error) {
	all := o.views()
	switch {
	case v.IsNil():
		return all["default"], nil
	case v.IsKeyword() || v.IsString():
		named, ok := all[word(v)]
		if !ok {
			return View{}, notAllowed(o.At, "the name of a view", v, slices.Sorted(maps.Keys(all)))
		}
		return named, nil
	case !v.IsMap():
		return View{}, invalid(o.At, "%.80s is neither the name of a view nor a map", v)
	}
	p := viewParser{at: o.At, view: Default()}
	for key, value := range v.Entries() {
		if err := p.entry(key, value); err != nil {
			return View{}, err
		}
	}
	return p.view, nil
}

var viewKeys = []string{
	":content?", ":filters", ":include", ":max-bytes", ":max-frames", ":order", ":ordering", ":select",
}

type viewParser struct {
	at   []edn.Value
	view View
}

func (p *viewParser) entry(key, value edn.Value) (err error) {
	at := under(p.at, key)
	name, _ := key.AsKeyword()
	switch v := &p.view; name {
	case "max-frames":
		v.MaxFrames, err = number(at, value, mostFrames)
	case "max-bytes":
		v.MaxBytes, err = number(at, value, mostBytes)
	case "select":
		v.Select, err = oneOf(at, "a selection", value, Heads, History, Fresh)
	case "ordering":
		v.Order, err = oneOf(at, "an ordering of a view", value, Recency, ByType, ByAgent)
	case "order":
		v.Priority, err = texts(at, value)
	case "filters":
		v.Filters, err = parseFilters(at, value, false)
	case "include":
		var names []string
		if names, err = words(at, value, "a state", stale, deleted, invalidState); err == nil {
			v.Include = nil
			for _, n := range names {
				v.Include = append(v.Include, store.HeadState(n))
			}
		}
	case "content?":
		var ok bool
		if v.Content, ok = value.AsBool(); !ok {
			err = invalid(at, "%.80s is not true or false", value)
		}
	default:
		err = notAllowed(at, "a key of a view", key, viewKeys)
	}
	return err
}

// Names of states in EDN.
const (
	fresh        = string(store.Fresh)
	stale        = string(store.Stale)
	deleted      = string(store.Deleted)
	invalidState = string(store.Invalid)
)

func number(at []edn.Value, v edn.Value, most int) (int, error) {
	if n, ok := v.AsInt(); ok && n >= 0 && n <= int64(most) {
		return int(n), nil
	}
	return 0, invalid(at, "%.80s is not an integer from 0 to %d", v, most)
}

func oneOf[T ~string](at []edn.Value, what string, v edn.Value, allowed ...T) (T, error) {
	name := word(v)
	if i := slices.Index(allowed, T(name)); i >= 0 {
		return allowed[i], nil
	}
	return "", notAllowed(at, what, v, colons(allowed))
}

func colons[T ~string](names []T) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = ":" + string(n)
	}
	return list
}

// maxListed is the largest number of values in a list of a request.
const maxListed = 1000

// each calls visit for the members of a vector, list or set.
func each(at []edn.Value, v edn.Value, visit func(edn.Value) error) error {
	if !v.IsVector() && !v.IsSet() && !v.IsList() {
		return invalid(at, "%.80s is not a list or set", v)
	}
	if v.Len() > maxListed {
		return invalid(at, "it has %d values, more than %d", v.Len(), maxListed)
	}
	for x := range v.Elems() {
		if err := visit(x); err != nil {
			return err
		}
	}
	return nil
}

// texts returns a list of strings.
func texts(at []edn.Value, v edn.Value) (list []string, err error) {
	err = each(at, v, func(x edn.Value) error {
		s, ok := x.AsString()
		if !ok {
			return invalid(at, "%.80s is not a string", x)
		}
		list = append(list, s)
		return nil
	})
	return list, err
}

// words returns a list of keywords of which each is allowed.
func words(at []edn.Value, v edn.Value, what string, allowed ...string) (list []string, err error) {
	err = each(at, v, func(x edn.Value) error {
		s, err := oneOf(at, what, x, allowed...)
		list = append(list, s)
		return err
	})
	return list, err
}

// filterKinds are the filters of views; compositions have two more.
var filterKinds = []string{"agent", "frame", "meta", "origin", "since", "type", "until"}

func parseFilters(at []edn.Value, v edn.Value, composition bool) (list []Filter, err error) {
	if !v.IsVector() && !v.IsList() {
		return nil, invalid(at, "%.80s is not a list of filters", v)
	}
	if v.Len() > maxListed {
		return nil, invalid(at, "it has %d filters, more than %d", v.Len(), maxListed)
	}
	i := int64(0)
	for x := range v.Elems() {
		f, err := ParseFilter(x, composition, under(at, edn.Int(i)))
		if err != nil {
			return nil, err
		}
		list = append(list, f)
		i++
	}
	return list, nil
}

// ParseFilter returns one filter. If composition is set, filters on paths and
// states are also allowed.
func ParseFilter(v edn.Value, composition bool, at []edn.Value) (f Filter, err error) {
	kinds := filterKinds
	if composition {
		kinds = append(slices.Clone(kinds), "path", "state")
	}
	if !v.IsVector() || v.Len() < 2 {
		return f, invalid(at, "%.80s is not a filter such as [:type #{\"note\"}]", v)
	}
	part := func(i int) edn.Value { x, _ := v.Nth(i); return x }
	if f.Kind, err = oneOf(under(at, edn.Int(0)), "a filter", part(0), kinds...); err != nil {
		return f, err
	}
	if want := map[bool]int{true: 3, false: 2}[f.Kind == "meta"]; v.Len() != want {
		return f, invalid(at, "the filter :%s has %d parts, not %d", f.Kind, v.Len(), want)
	}
	inner := under(at, edn.Int(1))
	switch f.Kind {
	case "since", "until":
		when, ok := part(1).AsInst()
		if !ok {
			return f, invalid(inner, "%.80s is not an instant such as #inst \"2026-01-31T00:00:00Z\"", part(1))
		}
		f.At = when.UnixNano()
	case "meta":
		f.Key, f.Value = part(1), part(2)
	case "path":
		glob, ok := part(1).AsString()
		if f.Glob = ignore.ParseGlob(glob); !ok || !f.Glob.Valid() {
			return f, invalid(inner, "%.80s is not a pattern of paths", part(1))
		}
	case "origin":
		f.Any, err = words(inner, part(1), "an origin", string(store.Authored), string(store.Extracted), string(store.Generated), string(store.Synthesized))
	case "state":
		f.Any, err = words(inner, part(1), "a state", fresh, stale, deleted, invalidState)
	case "frame":
		f.Any, err = texts(inner, part(1))
		for i := 0; i < len(f.Any) && err == nil; i++ {
			if f.Any[i], err = store.FrameDigits(f.Any[i]); err != nil {
				err = contract.AsError(err).WithDetail("path", edn.Vector(inner...))
			}
		}
	default:
		f.Any, err = texts(inner, part(1))
	}
	return f, err
}
