package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Kind is the type word of a schema: the keyword at its head.
type Kind uint8

// The kinds of schemas. The zero Kind accepts every value.
const (
	KindAny Kind = iota
	KindNil
	KindBoolean
	KindInt
	KindDouble
	KindDecimal
	KindNumber
	KindString
	KindChar
	KindKeyword
	KindSymbol
	KindInst
	KindUUID
	KindMap
	KindMapOf
	KindVector
	KindList
	KindSequential
	KindSet
	KindTuple
	KindEnum
	KindMaybe
	KindOr
	KindAnd
	KindNot
	KindRe
	KindRef
)

var kindNames = [...]string{
	KindAny: "any", KindNil: "nil", KindBoolean: "boolean", KindInt: "int", KindDouble: "double",
	KindDecimal: "decimal", KindNumber: "number", KindString: "string", KindChar: "char",
	KindKeyword: "keyword", KindSymbol: "symbol", KindInst: "inst", KindUUID: "uuid",
	KindMap: "map", KindMapOf: "map-of", KindVector: "vector", KindList: "list",
	KindSequential: "sequential", KindSet: "set", KindTuple: "tuple", KindEnum: "enum",
	KindMaybe: "maybe", KindOr: "or", KindAnd: "and", KindNot: "not", KindRe: "re", KindRef: "ref",
}

// String returns the type word without colon, for example "map-of".
func (k Kind) String() string { return kindNames[k] }

func kindOf(word string) (Kind, bool) {
	for k, name := range kindNames {
		if name == word {
			return Kind(k), true
		}
	}
	return 0, false
}

// Schema is one compiled schema. It is immutable and safe for concurrent use;
// its inner schemas are Schemas too.
type Schema struct {
	kind  Kind
	name  string // in the registry that owns it, empty for an unnamed one
	spec  edn.Value
	short edn.Value // the expected form in findings
	props *Props

	min, max *bound // of numbers
	minLen   int    // of strings and collections
	maxLen   int    // -1: no limit

	closed  bool
	entries []Entry       // map
	sorted  []sortedEntry // the entries by name, if all keys are keywords
	kids    []*Schema     // see Children
	members []edn.Value
	images  map[string]edn.Value // enum: hash of the JSON view of a member -> member
	pattern *regexp.Regexp
	// instructions is the size of the pattern, memberSize that of all members.
	instructions, memberSize int
	nonBlank                 bool // the pattern is that of non-blank text, which needs no regexp

	refName string
	target  *Schema

	hidesSecret bool // this schema or one that it reaches is marked :secret
	rewrites    bool // coercion from JSON may change a value under this schema
}

// Entry is one key of a :map schema.
type Entry struct {
	// Key is the key in the value, usually a keyword.
	Key edn.Value
	// Optional: the key may be missing.
	Optional bool
	// Props are the properties of the entry, not of its schema.
	Props Props
	// Schema is the schema of the value under the key.
	Schema *Schema

	jsonKey  edn.Value // Key after writing and reading it as JSON
	jsonDiff bool      // jsonKey differs from Key
}

// sortedEntry is an entry in the iteration order of maps.
type sortedEntry struct {
	name     string
	index    int // in the order of the form
	optional bool
	secret   bool
	schema   *Schema
}

// Props are the properties of a schema or of a map entry that do not affect
// validation. Block, Labels, Free and When occur only on entries.
type Props struct {
	Title       string
	Description string
	Doc         string
	// Secret values are masked in findings and before hashing.
	Secret bool
	// Unit is "path", "ms", "bytes", "decimal", "capability" or empty.
	Unit string
	// Default is documentation; HasDefault distinguishes a nil default from
	// none.
	Default    edn.Value
	HasDefault bool
	// Deprecated entries still work; Replacement is the alternative, if known.
	Deprecated  bool
	Replacement string

	Block  bool
	Labels int
	Free   bool
	// When is a map from sibling keys to values, nil without a condition.
	When edn.Value
}

// Kind returns the type word of the schema.
func (s *Schema) Kind() Kind { return s.kind }

// Name returns the name of the schema in its registry, or "".
func (s *Schema) Name() string { return s.name }

// Spec returns the form from which the schema was compiled.
func (s *Schema) Spec() edn.Value { return s.spec }

// String returns the canonical text of the form.
func (s *Schema) String() string { return s.spec.String() }

// Props returns the properties of the schema itself.
func (s *Schema) Props() Props {
	if s.props == nil {
		return Props{}
	}
	return *s.props
}

// Closed reports whether a :map schema rejects unknown keys.
func (s *Schema) Closed() bool { return s.closed }

// Entries returns the keys of a :map schema in the order of the form. The slice
// must not be modified.
func (s *Schema) Entries() []Entry { return s.entries }

// Entry returns one key of a :map schema.
func (s *Schema) Entry(key edn.Value) (Entry, bool) {
	if name, ok := key.AsKeyword(); ok && s.sorted != nil {
		at, found := slices.BinarySearchFunc(s.sorted, name, func(e sortedEntry, name string) int {
			return strings.Compare(e.name, name)
		})
		if !found {
			return Entry{}, false
		}
		return s.entries[s.sorted[at].index], true
	}
	for i := range s.entries {
		if edn.Equal(s.entries[i].Key, key) {
			return s.entries[i], true
		}
	}
	return Entry{}, false
}

// Discriminator returns the key whose value selects the alternative of an :or of
// maps, or false if there is none. Each alternative has the key as a required key
// with an :enum.
func (s *Schema) Discriminator() (edn.Value, bool) {
	if s.kind != KindOr || s.kids[0].Deref().kind != KindMap {
		return edn.Nil(), false
	}
	for _, candidate := range s.kids[0].Deref().Entries() {
		if !slices.ContainsFunc(s.kids, func(kid *Schema) bool {
			entry, ok := kid.Deref().Entry(candidate.Key)
			return !ok || entry.Optional || entry.Schema.Deref().kind != KindEnum
		}) {
			return candidate.Key, true
		}
	}
	return edn.Nil(), false
}

// Children returns the inner schemas: key and value of :map-of, the element of
// :vector, :list, :sequential and :set (none if not given), the inner schema of
// :maybe and :not, the positions of :tuple, the branches of :or and :and, the
// target of :ref. The slice must not be modified.
func (s *Schema) Children() []*Schema {
	if s.kind == KindRef && s.target != nil {
		return []*Schema{s.target}
	}
	return s.kids
}

// Members returns the values of an :enum schema. The slice must not be
// modified.
func (s *Schema) Members() []edn.Value { return s.members }

// Deref follows :ref to a schema of another kind.
func (s *Schema) Deref() *Schema {
	// NewRegistry rejects rings of references, so this loop ends.
	for s.kind == KindRef {
		s = s.target
	}
	return s
}

// Bounds returns the inclusive limits :min and :max, nil if not given. For
// strings they count code points, for collections members.
func (s *Schema) Bounds() (lowest, highest edn.Value) {
	if s.min != nil {
		lowest = s.min.spec
	} else if s.minLen > 0 {
		lowest = edn.Int(int64(s.minLen))
	}
	if s.max != nil {
		highest = s.max.spec
	} else if s.maxLen >= 0 && s.sized() {
		highest = edn.Int(int64(s.maxLen))
	}
	return lowest, highest
}

// At returns the schema of the value at a path, through map entries, elements,
// :maybe, :ref and the like. If several branches of :or or :and contain the
// path, At returns false unless their schemas are equal.
func (s *Schema) At(path ...edn.Value) (*Schema, bool) {
	found := s.Branches(path...)
	if len(found) == 0 {
		return nil, false
	}
	for _, other := range found[1:] {
		if !equalSchemas(other, found[0]) {
			return nil, false
		}
	}
	return found[0], true
}

// Branches returns all schemas that some branch of s has at a path, without
// duplicates, in the order of the form. Unknown keys of open maps have none.
func (s *Schema) Branches(path ...edn.Value) []*Schema {
	front := []*Schema{s}
	for _, key := range path {
		var next []*Schema
		for _, at := range alternatives(front) {
			next = append(next, at.under(key)...)
		}
		front = distinct(next)
	}
	return front
}

// alternatives replaces references, :maybe, :or and :and by their inner
// schemas, which apply to the same value.
func alternatives(schemas []*Schema) []*Schema {
	return slices.DeleteFunc(reached(schemas), (*Schema).wraps)
}

// wraps reports whether the inner schemas apply to the same value.
func (s *Schema) wraps() bool {
	switch s.kind {
	case KindRef, KindMaybe, KindOr, KindAnd:
		return true
	}
	return false
}

func distinct(schemas []*Schema) []*Schema {
	seen := make(map[*Schema]bool, len(schemas))
	out := schemas[:0:0]
	for _, s := range schemas {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// under returns the schemas of the value at one key or index of a collection.
func (s *Schema) under(key edn.Value) []*Schema {
	switch s.kind {
	case KindMap:
		if e, ok := s.Entry(key); ok {
			return []*Schema{e.Schema}
		}
	case KindMapOf:
		return s.kids[1:]
	case KindTuple:
		if i, ok := key.AsInt(); ok && i >= 0 && i < int64(len(s.kids)) {
			return s.kids[i : i+1]
		}
	case KindVector, KindList, KindSequential:
		if i, ok := key.AsInt(); ok && i >= 0 {
			return s.kids
		}
	case KindSet:
		return s.kids
	}
	return nil
}

// sized reports whether :min and :max count code points or members.
func (s *Schema) sized() bool {
	switch s.kind {
	case KindString, KindMap, KindMapOf, KindVector, KindList, KindSequential, KindSet:
		return true
	}
	return false
}
