package eval

import (
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/schema"
)

var keyDir = edn.K("dir")

// ResolvePaths makes relative paths of an input absolute: :dir, and paths
// according to the schema. Plugins never resolve paths against their own
// working directory, so a path must mean the same for each of them.
func ResolvePaths(sch *schema.Schema, input edn.Value, dir string) edn.Value {
	if dir == "" {
		return input
	}
	if d, ok := input.Get(keyDir); ok {
		if resolved := resolvePath(d, dir); !edn.Equal(resolved, d) {
			input = input.Assoc(keyDir, resolved)
		}
	}
	if sch == nil {
		return input
	}
	return sch.Replace(input, schema.IsPath, func(_ []edn.Value, v edn.Value) edn.Value { return resolvePath(v, dir) })
}

func resolvePath(v edn.Value, dir string) edn.Value {
	text, ok := v.AsString()
	if !ok || text == "" || filepath.IsAbs(text) {
		return v
	}
	return edn.Text(filepath.Join(dir, text))
}
