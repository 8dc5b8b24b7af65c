package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Problem is one problem of a schema form.
type Problem struct {
	// Schema is the registry name of the form, "" for an unnamed one.
	Schema string
	// Path leads to the problem inside the form: indices and map keys. Use
	// edn.Positions to get line and column.
	Path    []edn.Value
	Message string
	Hint    string
}

// String returns the problem with its position on one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Schema != "" {
		b.WriteString(":" + p.Schema + ": ")
	}
	b.WriteString(p.Message)
	if len(p.Path) > 0 {
		b.WriteString(" at " + edn.Vector(p.Path...).String())
	}
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// CompileError reports invalid forms, with every problem (at most 100), ordered
// by schema name and position in the form.
type CompileError struct {
	Problems []Problem
}

// Error returns the first problem and the number of others.
func (e *CompileError) Error() string {
	if len(e.Problems) == 1 {
		return "compile schema: " + e.Problems[0].String()
	}
	return fmt.Sprintf("compile schema: %s, and %d more problems", e.Problems[0].String(), len(e.Problems)-1)
}

// Value returns the error as a vector of maps with :path, :message and, if
// known, :schema and :hint.
func (e *CompileError) Value() edn.Value {
	out := make([]edn.Value, len(e.Problems))
	for i, p := range e.Problems {
		var b edn.MapBuilder
		b.Key("path", edn.Vector(p.Path...))
		b.Key("message", edn.Text(p.Message))
		b.OptKeyword("schema", p.Schema)
		b.OptText("hint", p.Hint)
		out[i] = b.Map()
	}
	return edn.Vector(out...)
}

const maxProblems = 100

// problems collects the problems of the current form.
type problems struct {
	schema string
	path   []edn.Value
	list   []Problem
}

func (p *problems) push(key edn.Value) { p.path = append(p.path, key) }
func (p *problems) pushIndex(i int)    { p.push(edn.Int(int64(i))) }
func (p *problems) pop()               { p.path = p.path[:len(p.path)-1] }

// enough reports whether further problems are dropped, so that their hints need
// not be computed.
func (p *problems) enough() bool { return len(p.list) >= maxProblems }

func (p *problems) add(hint, format string, args ...any) {
	if !p.enough() {
		p.list = append(p.list,
			Problem{Schema: p.schema, Path: slices.Clone(p.path), Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

func (p *problems) addAt(index int, hint, format string, args ...any) {
	p.pushIndex(index)
	p.add(hint, format, args...)
	p.pop()
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &CompileError{Problems: p.list}
}
