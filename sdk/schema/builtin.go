package schema

import (
	_ "embed"
	"maps"
	"sync"

	"github.com/fermenthq/ferment/sdk/edn"
)

// The built-in schemas are data: `ferment protocol export` and readers in other
// languages use the same file.
//
//go:embed builtin.edn
var builtinText []byte

var builtinSpecs = sync.OnceValue(func() map[string]edn.Value {
	v, err := edn.Read(builtinText, edn.WithSource("builtin.edn"))
	if err != nil {
		panic(err)
	}
	specs := make(map[string]edn.Value, v.Len())
	for key, form := range v.Entries() {
		name, _ := key.AsKeyword()
		specs[name] = form
	}
	return specs
})

var builtins = sync.OnceValue(func() *Registry {
	r, err := NewRegistry(builtinSpecs())
	if err != nil {
		panic(err)
	}
	return r
})

// Builtin returns the schemas that every host and plugin can refer to, by name
// without colon. The caller owns the map.
func Builtin() map[string]edn.Value { return maps.Clone(builtinSpecs()) }
