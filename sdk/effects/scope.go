package effects

import (
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Scope limits one effect of a call: paths to read or write, programs to run,
// hosts to contact, databases to use. An unset field inherits; an empty list permits nothing.
// [Fields] lists the fields of an effect.
//
// A Scope is immutable; the members of its lists are sorted, clean and without
// duplicates.
type Scope struct {
	Enabled Flag

	// Files. Roots are absolute directories, Allow are prefixes below a root;
	// "." is the whole root.
	Roots    List[string]
	Allow    List[string]
	MaxBytes Bound
	MkDirs   Flag
	Append   Flag

	// Processes. Commands and working directories are absolute; Arguments
	// restrict the arguments of a command.
	AllowCommands List[string]
	AllowCWD      List[string]
	Arguments     List[ArgumentRule]
	EnvPass       List[string]
	MaxTimeout    Bound // ms
	MaxOutput     Bound // bytes of each stream
	Memory        Bound // bytes
	Processes     Bound

	// Network. Hosts are exact names, addresses, or "*.suffix".
	Hosts             List[string]
	Schemes           List[string]
	Ports             List[int]
	Methods           List[string]
	Redirects         Bound
	AllowPrivate      Flag
	IdempotencyHeader Word

	// Databases. Connections are names of the configuration; DDL allows changes
	// of the schema.
	Connections List[string]
	MaxRows     Bound
	DDL         Flag

	// Timeout is the default timeout of a call, in ms.
	Timeout Bound
}

// Flag is an optional boolean.
type Flag struct{ V, Set bool }

// Bound is an optional upper bound.
type Bound struct {
	N   int64
	Set bool
}

// Or returns the bound, or d if it is unset.
func (l Bound) Or(d int64) int64 {
	if l.Set {
		return l.N
	}
	return d
}

// Duration returns a bound in milliseconds as a duration, or d if it is unset.
func (l Bound) Duration(d time.Duration) time.Duration {
	if l.Set {
		return time.Duration(l.N) * time.Millisecond
	}
	return d
}

// Word is an optional text. The empty text means that there is none.
type Word struct {
	V   string
	Set bool
}

// List is an optional set. The empty list permits nothing.
type List[T any] struct {
	V   []T
	Set bool
}

// ArgumentRule restricts the arguments of one command. Every argument must match
// at least one pattern of every alternative list.
type ArgumentRule struct {
	Command  string
	Patterns [][]string // RE2, each matched against a whole argument
}

// Kind is the shape of a field. It determines how two values of the field
// are intersected.
type Kind uint8

// The kinds of fields. The intersection of two values is the deeper of two
// directories or prefixes, the narrower of two hosts, the common members of
// other lists, the lower of two bounds, true if both flags are true, and the
// argument rules of both values.
const (
	KindFlag Kind = iota
	KindCount
	KindBytes
	KindMillis
	KindNames
	KindFiles // absolute paths, compared as they are
	KindDirs  // absolute directories with everything below them
	KindPrefixes
	KindHosts
	KindPorts
	KindArguments
	KindWord
)

// Field describes one field of the scopes of some effects.
type Field struct {
	Key     string // key in data, without colon
	Kind    Kind
	Effects []string

	flag   func(*Scope) *Flag
	limit  func(*Scope) *Bound
	names  func(*Scope) *List[string]
	ports  func(*Scope) *List[int]
	rules  func(*Scope) *List[ArgumentRule]
	word   func(*Scope) *Word
	change func(string) string // normalizes a name before it is stored
}

// Scoped returns the effects that have scopes, sorted.
func Scoped() []string { return slices.Clone(everyScope) }

// Fields returns the fields of the scopes of the effect, none if the
// effect has no scope. The caller must not modify them.
func Fields(effect string) []Field { return fieldsOfEffect[effect] }

var fieldsOfEffect = func() map[string][]Field {
	out := map[string][]Field{}
	for _, f := range scopeFields {
		for _, e := range f.Effects {
			out[e] = append(out[e], f)
		}
	}
	return out
}()

// Value returns the scope as a map for plans and the wire, without unset
// fields.
func (s *Scope) Value(effect string) edn.Value {
	var b edn.MapBuilder
	for i := range fieldsOfEffect[effect] {
		f := &fieldsOfEffect[effect][i]
		if v := f.value(s); !v.IsNil() {
			b.Key(f.Key, v)
		}
	}
	return b.Map()
}
