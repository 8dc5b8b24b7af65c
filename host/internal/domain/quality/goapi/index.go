package goapi

import (
	_ "embed"
	"path"
	"strings"
	"sync"
)

// symbols.txt has a line for each package: its path and its exported names,
// without methods and fields.
//
//go:embed symbols.txt
var symbols string

// Index maps package paths to exported names.
type Index map[string]map[string]bool

// standard is the index of the standard library.
var standard = sync.OnceValue(func() Index {
	out := Index{}
	for line := range strings.Lines(symbols) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		names := make(map[string]bool, len(fields)-1)
		for _, name := range fields[1:] {
			names[name] = true
		}
		out[fields[0]] = names
	}
	return out
})

// byName maps package names to paths of the standard library.
var byName = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for p := range standard() {
		out[nameOf(p)] = append(out[nameOf(p)], p)
	}
	return out
})

// roots are the first elements of the paths of the standard library.
var roots = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for p := range standard() {
		root, _, _ := strings.Cut(p, "/")
		out[root] = true
	}
	return out
})

// nameOf returns the package name of a path: the last element without a
// version, as in math/rand/v2.
func nameOf(p string) string {
	name := path.Base(p)
	if len(name) >= 2 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(p))
	}
	return name
}
