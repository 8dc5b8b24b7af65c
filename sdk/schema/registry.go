package schema

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Registry is an immutable set of named schemas that may refer to each other.
type Registry struct {
	schemas map[string]*Schema
	names   []string
}

// NewRegistry compiles the forms under their names ("req/text", without colon).
// References are resolved only inside the set; merge [Builtin] into it if the
// built-in schemas are needed. The error is a *CompileError with the problems
// of all forms.
func NewRegistry(specs map[string]edn.Value) (*Registry, error) {
	r := &Registry{schemas: make(map[string]*Schema, len(specs))}
	for name := range specs {
		r.names = append(r.names, name)
	}
	slices.Sort(r.names)

	compilers := make([]*compiler, 0, len(specs))
	var all problems
	for _, name := range r.names {
		c := &compiler{problems: problems{schema: name}}
		if _, err := edn.Keyword(name); err != nil {
			c.add("", "the name of a schema must be a keyword: %v", err)
		}
		s := c.compile(specs[name])
		s.name = name
		r.schemas[name] = s
		compilers = append(compilers, c)
	}
	var nodes []*Schema
	for _, c := range compilers {
		c.link(r.Lookup, r.names)
	}
	state := make(map[*Schema]int)
	for _, c := range compilers {
		c.rings(state)
		all.list = append(all.list, c.list...)
		nodes = append(nodes, c.nodes...)
	}
	if len(all.list) > maxProblems {
		all.list = all.list[:maxProblems]
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	settle(nodes)
	return r, nil
}

// Lookup returns a schema by its name without colon.
func (r *Registry) Lookup(name string) (*Schema, bool) {
	s, ok := r.schemas[name]
	return s, ok
}

// Names returns all names in alphabetical order. The slice must not be
// modified.
func (r *Registry) Names() []string { return r.names }

// Nearest returns the known name nearest to name, or "".
func (r *Registry) Nearest(name string) string { return Nearest(name, r.names) }
