package schema

import (
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits of one schema form. The targets of references do not count.
const (
	maxNodes        = 10_000
	maxPatternSize  = 4096
	maxInstructions = 2000
)

// Option configures [Compile].
type Option func(*options)

type options struct{ registry *Registry }

// WithRegistry resolves [:ref :name] in r instead of the built-in schemas.
func WithRegistry(r *Registry) Option { return func(o *options) { o.registry = r } }

// Compile compiles a schema form. Names of [:ref :name] are looked up among the
// built-in schemas, or in the registry of WithRegistry. The error is a
// *CompileError.
func Compile(spec edn.Value, opts ...Option) (*Schema, error) {
	o := options{registry: builtins()}
	for _, opt := range opts {
		opt(&o)
	}
	c := &compiler{}
	s := c.compile(spec)
	c.link(o.registry.Lookup, o.registry.names)
	if err := c.err(); err != nil {
		return nil, err
	}
	settle(c.nodes)
	return s, nil
}

// MustCompile is Compile for forms in the program; it panics on an invalid
// form.
func MustCompile(spec edn.Value, opts ...Option) *Schema {
	s, err := Compile(spec, opts...)
	if err != nil {
		panic(err)
	}
	return s
}

// compiler walks one form and collects its problems. It continues after a
// problem, so that one load reports all of them.
type compiler struct {
	problems
	size  int
	full  bool
	nodes []*Schema
	refs  []reference
}

type reference struct {
	from *Schema
	path []edn.Value
}

// count reports whether the form is still within its size limit; exceeding it
// is reported once.
func (c *compiler) count() bool {
	c.size++
	if c.size > maxNodes && !c.full {
		c.full = true
		c.add("split the schema with [:ref :name]", "schema has more than %d nodes", maxNodes)
	}
	return !c.full
}

// compile never returns nil. After a problem the node accepts everything; the
// error prevents the use of the schema.
func (c *compiler) compile(spec edn.Value) *Schema {
	s := &Schema{spec: spec, maxLen: -1}
	if !c.count() {
		return s
	}
	c.nodes = append(c.nodes, s)
	word, rest, first := c.head(s, spec)
	if word == "" {
		return s
	}
	kind, ok := kindOf(word)
	if !ok {
		c.unknownType(word)
		return s
	}
	s.kind = kind
	c.children(s, rest, first)
	s.short = shortForm(s)
	return s
}

// head splits a form into its type word and its children; first is the index
// of the first child in the form. Properties are read into s.
func (c *compiler) head(s *Schema, spec edn.Value) (word string, rest []edn.Value, first int) {
	if w, ok := spec.AsKeyword(); ok {
		return w, nil, 0
	}
	if spec.Kind() != edn.KindVector || spec.Len() == 0 {
		c.add("write a keyword like :string or a vector like [:vector :string]",
			"a schema is a keyword or a vector that begins with one, got %.80s", spec)
		return "", nil, 0
	}
	head, _ := spec.Nth(0)
	w, ok := head.AsKeyword()
	if !ok {
		c.addAt(0, "", "a schema vector begins with a type keyword, got %.80s", head)
		return "", nil, 0
	}
	for e := range spec.Elems() {
		rest = append(rest, e)
	}
	rest, first = rest[1:], 1
	if len(rest) > 0 && rest[0].Kind() == edn.KindMap {
		kind, known := kindOf(w)
		if known {
			s.kind = kind
			c.pushIndex(1)
			c.schemaProps(s, rest[0])
			c.pop()
		}
		rest, first = rest[1:], 2
	}
	return w, rest, first
}

func (c *compiler) unknownType(word string) {
	if c.enough() {
		return
	}
	hint := ""
	if near := Nearest(word, kindNames[:]); near != "" {
		hint = "did you mean :" + near + "?"
	} else if edn.K(word).Namespace() != "" {
		hint = "write [:ref :" + word + "] to use a named schema"
	}
	c.add(hint, "unknown schema type :%s", word)
}

// children reads the part of a form after the type word and its properties.
func (c *compiler) children(s *Schema, rest []edn.Value, first int) {
	switch s.kind {
	case KindMap:
		c.mapEntries(s, rest, first)
	case KindMapOf:
		c.inner(s, rest, first, 2, 2, "a key schema and a value schema")
	case KindVector, KindList, KindSequential, KindSet:
		c.inner(s, rest, first, 0, 1, "at most one element schema")
	case KindMaybe, KindNot:
		c.inner(s, rest, first, 1, 1, "one schema")
	case KindOr, KindAnd:
		c.inner(s, rest, first, 1, max(1, len(rest)), "at least one schema")
	case KindTuple:
		c.inner(s, rest, first, 0, len(rest), "")
	case KindEnum:
		c.enumMembers(s, rest, first)
	case KindRe:
		c.regexp(s, rest, first)
	case KindRef:
		c.reference(s, rest, first)
	default:
		if len(rest) > 0 {
			c.addAt(first, "", ":%s takes no children", s.kind)
		}
	}
}

func (c *compiler) inner(s *Schema, rest []edn.Value, first, least, most int, what string) {
	if len(rest) < least || len(rest) > most {
		c.add("", ":%s takes %s, got %d", s.kind, what, len(rest))
		return
	}
	for i, form := range rest {
		c.pushIndex(first + i)
		s.kids = append(s.kids, c.compile(form))
		c.pop()
		if c.full {
			return
		}
	}
}

func (c *compiler) mapEntries(s *Schema, rest []edn.Value, first int) {
	seen := make(map[string]bool, len(rest))
	for i, form := range rest {
		c.pushIndex(first + i)
		if e, ok := c.entry(form); ok {
			if seen[e.Key.String()] {
				c.addAt(0, "", "key %s is named twice", e.Key)
			}
			seen[e.Key.String()] = true
			s.entries = append(s.entries, e)
		}
		c.pop()
		if c.full {
			return
		}
	}
	s.sorted = byName(s.entries)
}

// byName sorts entries in the order in which maps iterate keyword keys; it
// returns nil if there is another kind of key.
func byName(entries []Entry) []sortedEntry {
	sorted := make([]sortedEntry, 0, len(entries))
	for i := range entries {
		name, ok := entries[i].Key.AsKeyword()
		if !ok {
			return nil
		}
		sorted = append(sorted, sortedEntry{
			name:     name,
			index:    i,
			optional: entries[i].Optional,
			secret:   entries[i].Props.Secret,
			schema:   entries[i].Schema,
		})
	}
	slices.SortFunc(sorted, func(a, b sortedEntry) int { return strings.Compare(a.name, b.name) })
	return sorted
}

func (c *compiler) entry(form edn.Value) (Entry, bool) {
	n := form.Len()
	if form.Kind() != edn.KindVector || n < 2 || n > 3 {
		c.add("", "a map entry is [key schema] or [key properties schema], got %.80s", form)
		return Entry{}, false
	}
	key, _ := form.Nth(0)
	e := Entry{Key: key, jsonKey: jsonKeyOf(key)}
	e.jsonDiff = !edn.Equal(e.jsonKey, key)
	if n == 3 {
		props, _ := form.Nth(1)
		c.pushIndex(1)
		c.entryProps(&e, props)
		c.pop()
	}
	c.count()
	inner, _ := form.Nth(n - 1)
	c.pushIndex(n - 1)
	e.Schema = c.compile(inner)
	c.pop()
	return e, true
}

func (c *compiler) enumMembers(s *Schema, rest []edn.Value, first int) {
	if len(rest) == 0 {
		c.add("", ":enum takes at least one value")
		return
	}
	seen := make(map[string]bool, len(rest))
	s.images = make(map[string]edn.Value)
	for i, member := range rest {
		if !c.count() {
			return
		}
		if seen[member.String()] {
			c.addAt(first+i, "", "%s is listed twice", member)
		}
		seen[member.String()] = true
		s.members = append(s.members, member)
		s.memberSize += sizeOf(member, math.MaxInt)
		image, ok := jsonImage(member)
		if ok && !edn.Equal(image, member) {
			s.images[edn.Hash(image)] = member
		}
	}
}

func (c *compiler) regexp(s *Schema, rest []edn.Value, first int) {
	if len(rest) != 1 {
		c.add("", ":re takes one string, the pattern, got %d values", len(rest))
		return
	}
	text, ok := rest[0].AsString()
	if !ok {
		c.addAt(first, "", "the pattern of :re is a string, got %.80s", rest[0])
		return
	}
	if len(text) > maxPatternSize {
		c.addAt(first, "", "the pattern has more than %d bytes", maxPatternSize)
		return
	}
	re, err := regexp.Compile(text)
	if err != nil {
		c.addAt(first, "patterns are RE2: no look-around, no back references", "the pattern is not valid: %v", err)
		return
	}
	n := instructions(text)
	if n > maxInstructions {
		c.addAt(first, "use smaller repetitions", "the pattern needs %d instructions, more than %d", n, maxInstructions)
		return
	}
	s.pattern, s.instructions, s.nonBlank = re, n, text == `\S`
}

// instructions returns the size of the compiled pattern. A match may take that
// many steps per character.
func instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

func (c *compiler) reference(s *Schema, rest []edn.Value, first int) {
	if len(rest) != 1 {
		c.add("", ":ref takes one keyword, the name of a schema, got %d values", len(rest))
		return
	}
	name, ok := rest[0].AsKeyword()
	if !ok {
		c.addAt(first, "", "the name of :ref is a keyword, got %.80s", rest[0])
		return
	}
	s.refName = name
	c.pushIndex(first)
	c.refs = append(c.refs, reference{from: s, path: append([]edn.Value(nil), c.path...)})
	c.pop()
}

// link resolves the references of the form and reports unknown names.
func (c *compiler) link(lookup func(string) (*Schema, bool), known []string) {
	for _, r := range c.refs {
		target, ok := lookup(r.from.refName)
		if ok {
			r.from.target = target
			continue
		}
		if c.enough() {
			break
		}
		hint := ""
		if near := Nearest(r.from.refName, known); near != "" {
			hint = "did you mean :" + near + "?"
		}
		c.path = r.path
		c.add(hint, "unknown schema name :%s", r.from.refName)
	}
	c.path = nil
}

// rings reports references through which a schema refers to itself without
// consuming input: validation with such a schema would never end.
// state has what is known of schemas of all forms.
func (c *compiler) rings(state map[*Schema]int) {
	for _, r := range c.refs {
		if r.from.target != nil && ring(r.from, state) {
			c.path = r.path
			c.add("put a map or a collection between the schema and the reference to it",
				"schema refers to itself without consuming input")
		}
	}
	c.path = nil
}

const (
	ringOpen = iota + 1
	ringNone
	ringFound
)

// ring follows only the schemas that validate the same value again.
func ring(s *Schema, state map[*Schema]int) bool {
	switch state[s] {
	case ringOpen, ringFound:
		return true
	case ringNone:
		return false
	}
	state[s] = ringOpen
	found := false
	switch s.kind {
	case KindRef:
		found = s.target != nil && ring(s.target, state)
	case KindOr, KindAnd, KindMaybe, KindNot:
		for _, kid := range s.kids {
			found = ring(kid, state) || found
		}
	}
	state[s] = ringNone
	if found {
		state[s] = ringFound
	}
	return found
}

// settle computes the flags that a schema inherits from the schemas that it
// reaches. Its time is linear in the number of schemas and inner schemas.
func settle(nodes []*Schema) {
	outer := make(map[*Schema][]*Schema, len(nodes))
	var changed []*Schema
	note := func(s *Schema, hides, rewrites bool) {
		hides, rewrites = hides || s.hidesSecret, rewrites || s.rewrites
		if hides != s.hidesSecret || rewrites != s.rewrites {
			s.hidesSecret, s.rewrites = hides, rewrites
			changed = append(changed, s)
		}
	}
	for _, s := range nodes {
		note(s, s.Props().Secret, s.coerces())
		for _, kid := range s.Children() {
			outer[kid] = append(outer[kid], s)
			note(s, kid.hidesSecret, kid.rewrites)
		}
		for i := range s.entries {
			e := &s.entries[i]
			outer[e.Schema] = append(outer[e.Schema], s)
			note(s, e.Props.Secret || e.Schema.hidesSecret, e.jsonDiff || e.Schema.rewrites)
		}
	}
	for len(changed) > 0 {
		s := changed[len(changed)-1]
		changed = changed[:len(changed)-1]
		for _, o := range outer[s] {
			note(o, s.hidesSecret, s.rewrites)
		}
	}
}

// maxExpected limits the bytes of a form that a finding shows as expected.
const maxExpected = 200

// shortForm returns the form of scalars, patterns, small enumerations and
// alternatives of these, and the type word of every other schema.
func shortForm(s *Schema) edn.Value {
	switch s.kind {
	case KindMap, KindMapOf, KindVector, KindList, KindSequential, KindSet, KindTuple, KindAnd, KindNot:
		return edn.K(s.kind.String())
	case KindOr, KindMaybe:
		deeper := func(kid *Schema) bool { return kid.kind == KindRef || len(kid.kids)+len(kid.entries) > 0 }
		if slices.ContainsFunc(s.kids, deeper) {
			return edn.K(s.kind.String())
		}
	}
	if len(s.members) > 100 || len(s.spec.String()) > maxExpected {
		return edn.K(s.kind.String())
	}
	return s.spec
}
