package mustache

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Options configure Render.
type Options struct {
	HTML         bool              // escape plain variables for HTML
	AllowMissing bool              // a missing value is rendered as empty text
	Partials     map[string]string // by name
}

// MissingError reports a name in a template that has no value.
type MissingError struct {
	Template string
	Line     int
	Path     string
}

// Error returns one line with the position.
func (e *MissingError) Error() string { return at(e.Template, e.Line) + "no value for " + e.Path }

// TooLargeError means that the output would exceed MaxOutput, or that rendering
// exceeds its step limit.
type TooLargeError struct {
	Template string
	Line     int
}

// Error returns one line.
func (e *TooLargeError) Error() string {
	return at(e.Template, e.Line) + fmt.Sprintf("output exceeds %d bytes", MaxOutput)
}

// Render fills a template with data. Errors are *SyntaxError, *MissingError
// and *TooLargeError. Names are looked up as keyword keys, then as string
// keys, from the innermost section outwards.
func Render(source string, data edn.Value, o Options) (string, error) {
	t, err := Parse("", source)
	if err != nil {
		return "", err
	}
	r := &renderer{options: o, parsed: map[string]*Template{}}
	r.out.Grow(len(source))
	if err := r.nodes(t, t.nodes, []edn.Value{data}, ""); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

type renderer struct {
	options Options
	parsed  map[string]*Template
	open    []string // partials being rendered
	out     strings.Builder
	steps   int
}

// maxSteps is the maximum number of visited nodes, including those without output.
const maxSteps = 1_000_000

func (r *renderer) nodes(t *Template, nodes []node, stack []edn.Value, indent string) error {
	for i := range nodes {
		n := &nodes[i]
		if r.steps++; r.steps > maxSteps {
			return &TooLargeError{t.name, n.line}
		}
		var err error
		switch n.kind {
		case textNode:
			err = r.text(t, n, indent)
		case lineStart:
			err = r.write(t, n, indent)
		case variable:
			err = r.variable(t, n, stack)
		case section, inverted:
			err = r.section(t, n, stack, indent)
		case partial:
			err = r.partial(t, n, stack, indent)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write appends to the output. It is the only function that does, and enforces MaxOutput.
func (r *renderer) write(t *Template, n *node, s string) error {
	if r.out.Len()+len(s) > MaxOutput {
		return &TooLargeError{t.name, n.line}
	}
	r.out.WriteString(s)
	return nil
}

// text writes a text node. Each template line is indented like the partial,
// except blank ones; the lines of values are not.
func (r *renderer) text(t *Template, n *node, indent string) error {
	if indent == "" {
		return r.write(t, n, n.text)
	}
	fresh := n.fresh
	for line := range strings.Lines(n.text) {
		if fresh && line != "\n" && line != "\r\n" {
			if err := r.write(t, n, indent); err != nil {
				return err
			}
		}
		if err := r.write(t, n, line); err != nil {
			return err
		}
		fresh = true
	}
	return nil
}

func (r *renderer) variable(t *Template, n *node, stack []edn.Value) error {
	v, found := lookup(stack, n.path)
	if !found || v.IsNil() {
		if r.options.AllowMissing {
			return nil
		}
		return &MissingError{t.name, n.line, pathText(n.path)}
	}
	s := Text(v)
	if r.options.HTML && !n.raw {
		s = forHTML.Replace(s)
	}
	return r.write(t, n, s)
}

// forHTML escapes text for use between tags and inside quoted attributes.
var forHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// section renders its content for a truthy value, once for each element of a
// collection; an inverted section renders it for a falsy or empty value. A
// missing value is falsy.
func (r *renderer) section(t *Template, n *node, stack []edn.Value, indent string) error {
	v, _ := lookup(stack, n.path)
	many := collection(v)
	if n.kind == inverted {
		if many && v.Len() > 0 || !many && v.Truthy() {
			return nil
		}
		return r.nodes(t, n.inner, stack, indent)
	}
	if !many {
		if !v.Truthy() {
			return nil
		}
		return r.item(t, n, stack, v, indent)
	}
	for item := range v.Elems() {
		if err := r.item(t, n, stack, item, indent); err != nil {
			return err
		}
	}
	return nil
}

// item renders the content of a section with v as the innermost item. It counts
// as a step, so that sections without content end too.
func (r *renderer) item(t *Template, n *node, stack []edn.Value, v edn.Value, indent string) error {
	if r.steps++; r.steps > maxSteps {
		return &TooLargeError{t.name, n.line}
	}
	return r.nodes(t, n.inner, append(stack[:len(stack):len(stack)], v), indent)
}

func collection(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		return true
	}
	return false
}

func (r *renderer) partial(t *Template, n *node, stack []edn.Value, indent string) error {
	source, ok := r.options.Partials[n.text]
	if !ok {
		if r.options.AllowMissing {
			return nil
		}
		return &MissingError{t.name, n.line, "partial " + n.text}
	}
	if slices.Contains(r.open, n.text) {
		return &SyntaxError{t.name, n.line, fmt.Sprintf("partial %s contains itself", n.text)}
	}
	if len(r.open) >= MaxPartials {
		return &SyntaxError{t.name, n.line, fmt.Sprintf("partials are nested deeper than %d", MaxPartials)}
	}
	p := r.parsed[n.text]
	if p == nil {
		var err error
		if p, err = Parse(n.text, source); err != nil {
			return err
		}
		r.parsed[n.text] = p
	}
	r.open = append(r.open, n.text)
	err := r.nodes(p, p.nodes, stack, indent+n.indent)
	r.open = r.open[:len(r.open)-1]
	return err
}

// lookup returns the value of a dotted name: the first part is searched from the innermost item
// outwards, and each later part in the value of the part before it.
func lookup(stack []edn.Value, path []step) (edn.Value, bool) {
	if len(path) == 0 {
		return stack[len(stack)-1], true
	}
	for i := len(stack) - 1; i >= 0; i-- {
		v, ok := member(stack[i], path[0])
		if !ok {
			continue
		}
		for _, s := range path[1:] {
			if v, ok = member(v, s); !ok {
				return edn.Nil(), false
			}
		}
		return v, true
	}
	return edn.Nil(), false
}

func member(v edn.Value, s step) (edn.Value, bool) {
	if v.Kind() != edn.KindMap {
		return edn.Nil(), false
	}
	if !s.keyword.IsNil() {
		if found, ok := v.Get(s.keyword); ok {
			return found, true
		}
	}
	return v.Get(s.text)
}

// Text returns a value as inserted text: strings and characters unchanged, keywords and symbols by
// name, numbers by digits, anything else as EDN.
func Text(v edn.Value) string {
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		return s
	case edn.KindChar:
		c, _ := v.AsChar()
		return string(c)
	case edn.KindKeyword:
		s, _ := v.AsKeyword()
		return s
	case edn.KindSymbol:
		s, _ := v.AsSymbol()
		return s
	case edn.KindInt:
		if n, ok := v.AsInt(); ok {
			return strconv.FormatInt(n, 10)
		}
		n, ok := v.AsBigInt()
		if !ok {
			n = new(big.Int)
		}
		return n.String()
	case edn.KindDecimal:
		return strings.TrimSuffix(v.String(), "M")
	}
	return v.String()
}

func pathText(path []step) string {
	if len(path) == 0 {
		return "."
	}
	names := make([]string, len(path))
	for i, s := range path {
		names[i] = s.name
	}
	return strings.Join(names, ".")
}
