package main

import (
	"slices"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// pathList returns paths, each as store.ShownPath (WS-002).
func pathList(paths []string) edn.Value {
	list := make([]edn.Value, len(paths))
	for i, p := range paths {
		list[i] = store.ShownPath(p).Value()
	}
	return edn.Vector(list...)
}

// idValue returns an id as text, nil for an absent one.
func idValue(x id.ID) edn.Value {
	if x.IsZero() {
		return edn.Nil()
	}
	return edn.Text(x.String())
}

func texts(list []string) edn.Value { return edn.Vector(textValues(list)...) }

func textValues(list []string) []edn.Value {
	values := make([]edn.Value, len(list))
	for i, s := range list {
		values[i] = edn.Text(s)
	}
	return values
}

func number[T ~int | ~int64 | ~uint64](n T) edn.Value { return edn.Int(int64(n)) }

// putStruct adds the fields of a result of the engine to an output.
func putStruct(out *edn.MapBuilder, result any) error {
	v, err := edn.Encode(result)
	if err != nil {
		return contract.Errorf("runtime/internal", "encode the result: %w", err)
	}
	for key, field := range v.Entries() {
		out.Set(key, field)
	}
	return nil
}

// oneOf returns a word of the input, which must be one of the given ones; empty
// if it is not there.
func oneOf[T ~string](r *request, key string, allowed ...T) (T, error) {
	word := T(r.word(key))
	if r.in.Key(key).IsNil() || slices.Contains(allowed, word) {
		return word, nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return "", invalid(edn.Vector(edn.K(key)), "%s is not one of %s", r.in.Key(key), edn.Keywords(names...)).
		WithDetail("allowed", edn.Keywords(names...))
}

// moved returns a renamed path with its former one.
func moved(from, to string) edn.Value {
	return edn.MustMap(edn.K("from"), store.ShownPath(from).Value(), edn.K("to"), store.ShownPath(to).Value())
}

// putPath adds a path as :path, or as :path/b64 if it is not text (WS-002).
func putPath(b *edn.MapBuilder, path string) {
	at := store.PlaceOf(path)
	b.OptText("path", at.Text)
	b.OptText("path/b64", at.Raw)
}
