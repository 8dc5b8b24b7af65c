package contract

import (
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Scope bounds one effect of a call: where it may read or write, what it may
// run, whom it may talk to. A field that nobody wrote inherits; an empty list
// permits nothing. Which fields an effect has is said by [ScopeFields].
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
	// restrict what a command may be given.
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

	// Timeout is that of a call that names none, in ms.
	Timeout Bound
}

// Flag is a boolean that may be unwritten.
type Flag struct{ V, Set bool }

// Bound is an upper bound that may be unwritten.
type Bound struct {
	N   int64
	Set bool
}

// Or returns the bound, or d if nobody wrote one.
func (l Bound) Or(d int64) int64 {
	if l.Set {
		return l.N
	}
	return d
}

// Duration is a bound in milliseconds as a duration.
func (l Bound) Duration(d time.Duration) time.Duration {
	if l.Set {
		return time.Duration(l.N) * time.Millisecond
	}
	return d
}

// Word is a text that may be unwritten; the empty one stands for none.
type Word struct {
	V   string
	Set bool
}

// List is a set of members that may be unwritten. The empty list permits
// nothing.
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

// ScopeKind is the shape of a field, and with it how two values meet.
type ScopeKind uint8

// The kinds of field. Directories and prefixes meet in the deeper one, hosts in
// the narrower one, other lists in what both have; limits in the lower one;
// flags in both being true; argument rules in both holding.
const (
	ScopeFlag ScopeKind = iota
	ScopeCount
	ScopeBytes
	ScopeMillis
	ScopeNames
	ScopeFiles // absolute paths, compared as they are
	ScopeDirs  // absolute directories with everything below them
	ScopePrefixes
	ScopeHosts
	ScopePorts
	ScopeArguments
	ScopeWord
)

// ScopeField is one field of the scopes of some effects.
type ScopeField struct {
	Key     string // in data, without colon
	Kind    ScopeKind
	Effects []string

	flag   func(*Scope) *Flag
	limit  func(*Scope) *Bound
	names  func(*Scope) *List[string]
	ports  func(*Scope) *List[int]
	rules  func(*Scope) *List[ArgumentRule]
	word   func(*Scope) *Word
	change func(string) string // of a name, before it is kept
}

// FlagOf returns the field of s if it is a flag, else nil; likewise the others.
func (f *ScopeField) FlagOf(s *Scope) *Flag {
	if f.flag == nil {
		return nil
	}
	return f.flag(s)
}

// BoundOf returns the field of s if it is a limit, else nil.
func (f *ScopeField) BoundOf(s *Scope) *Bound {
	if f.limit == nil {
		return nil
	}
	return f.limit(s)
}

// NamesOf returns the field of s if it is a list of texts, else nil.
func (f *ScopeField) NamesOf(s *Scope) *List[string] {
	if f.names == nil {
		return nil
	}
	return f.names(s)
}

// PortsOf returns the field of s if it is a list of ports, else nil.
func (f *ScopeField) PortsOf(s *Scope) *List[int] {
	if f.ports == nil {
		return nil
	}
	return f.ports(s)
}

// WordOf returns the field of s if it is a text, else nil.
func (f *ScopeField) WordOf(s *Scope) *Word {
	if f.word == nil {
		return nil
	}
	return f.word(s)
}

// ScopedEffects are the effects that have scopes, sorted.
func ScopedEffects() []string { return []string{"fs/read", "fs/write", "net/http", "process/run"} }

// ScopeFields returns the fields that scopes of the effect have; none if the
// effect has no scope. Callers must not change them.
func ScopeFields(effect string) []ScopeField { return fieldsOfEffect[effect] }

var fieldsOfEffect = func() map[string][]ScopeField {
	out := map[string][]ScopeField{}
	for _, f := range scopeFields {
		for _, e := range f.Effects {
			out[e] = append(out[e], f)
		}
	}
	return out
}()

// Value writes the scope as the map that plans and the wire have; what nobody
// wrote is left out.
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

// Written tells whether any field was written.
func (s *Scope) Written(effect string) bool {
	for i := range fieldsOfEffect[effect] {
		if !fieldsOfEffect[effect][i].value(s).IsNil() {
			return true
		}
	}
	return false
}
