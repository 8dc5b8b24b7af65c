package policy

import (
	"cmp"
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Meet returns the scope that both scopes of one effect permit. It is
// commutative, associative and idempotent, and never wider than an operand: an
// unwritten field takes the value of the other operand, an empty list permits
// nothing, and enabled = false wins.
func Meet(a, b effects.Scope) effects.Scope {
	return effects.Scope{
		Enabled: meetFlag(a.Enabled, b.Enabled),

		// Roots must be equal, not nested: prefixes are relative to a root, and
		// under a deeper root they would name other places.
		Roots:    meetNames(effects.KindFiles, a.Roots, b.Roots),
		Allow:    meetNames(effects.KindPrefixes, a.Allow, b.Allow),
		MaxBytes: meetBound(a.MaxBytes, b.MaxBytes),
		MkDirs:   meetFlag(a.MkDirs, b.MkDirs),
		Append:   meetFlag(a.Append, b.Append),

		AllowCommands: meetNames(effects.KindFiles, a.AllowCommands, b.AllowCommands),
		AllowCWD:      meetNames(effects.KindDirs, a.AllowCWD, b.AllowCWD),
		Arguments:     meetRules(a.Arguments, b.Arguments),
		EnvPass:       meetNames(effects.KindNames, a.EnvPass, b.EnvPass),
		MaxTimeout:    meetBound(a.MaxTimeout, b.MaxTimeout),
		MaxOutput:     meetBound(a.MaxOutput, b.MaxOutput),
		Memory:        meetBound(a.Memory, b.Memory),
		Processes:     meetBound(a.Processes, b.Processes),

		Hosts:             meetNames(effects.KindHosts, a.Hosts, b.Hosts),
		Schemes:           meetNames(effects.KindNames, a.Schemes, b.Schemes),
		Ports:             meetPorts(a.Ports, b.Ports),
		Methods:           meetNames(effects.KindNames, a.Methods, b.Methods),
		Redirects:         meetBound(a.Redirects, b.Redirects),
		AllowPrivate:      meetFlag(a.AllowPrivate, b.AllowPrivate),
		IdempotencyHeader: meetWord(a.IdempotencyHeader, b.IdempotencyHeader),

		Connections: meetNames(effects.KindNames, a.Connections, b.Connections),
		MaxRows:     meetBound(a.MaxRows, b.MaxRows),
		DDL:         meetFlag(a.DDL, b.DDL),

		Timeout: meetBound(a.Timeout, b.Timeout),
	}
}

func meetFlag(a, b effects.Flag) effects.Flag {
	switch {
	case !a.Set:
		return b
	case !b.Set:
		return a
	}
	return effects.Flag{V: a.V && b.V, Set: true}
}

func meetBound(a, b effects.Bound) effects.Bound {
	switch {
	case !a.Set:
		return b
	case !b.Set:
		return a
	}
	return effects.Bound{N: min(a.N, b.N), Set: true}
}

// meetWord returns the word that is set; if both are set and differ, the empty word, which is
// narrower than either.
func meetWord(a, b effects.Word) effects.Word {
	switch {
	case !a.Set:
		return b
	case !b.Set || a.V == b.V:
		return a
	}
	return effects.Word{Set: true}
}

// meetNames keeps from each pair of members the one that the other covers.
func meetNames(kind effects.Kind, a, b effects.List[string]) effects.List[string] {
	switch {
	case !a.Set:
		return b
	case !b.Set || slices.Equal(a.V, b.V):
		return a
	}
	out := make([]string, 0, min(len(a.V), len(b.V)))
	for _, x := range a.V {
		for _, y := range b.V {
			if effects.Covers(kind, x, y) {
				out = append(out, y)
			} else if effects.Covers(kind, y, x) {
				out = append(out, x)
			}
		}
	}
	return effects.List[string]{V: effects.Tidy(kind, out), Set: true}
}

func meetPorts(a, b effects.List[int]) effects.List[int] {
	switch {
	case !a.Set:
		return b
	case !b.Set:
		return a
	}
	out := make([]int, 0, min(len(a.V), len(b.V)))
	for _, p := range a.V {
		if slices.Contains(b.V, p) {
			out = append(out, p)
		}
	}
	return effects.List[int]{V: out, Set: true}
}

// meetRules applies the rules of both sides. A command that one side does not
// name keeps the rules of the other.
func meetRules(a, b effects.List[effects.ArgumentRule]) effects.List[effects.ArgumentRule] {
	switch {
	case !a.Set:
		return b
	case !b.Set:
		return a
	}
	out := make([]effects.ArgumentRule, 0, len(a.V)+len(b.V))
	out = append(out, a.V...)
	for _, r := range b.V {
		i := slices.IndexFunc(out, func(x effects.ArgumentRule) bool { return x.Command == r.Command })
		if i < 0 {
			out = append(out, r)
			continue
		}
		both := slices.Concat(out[i].Patterns, r.Patterns)
		slices.SortFunc(both, slices.Compare)
		out[i].Patterns = slices.CompactFunc(both, slices.Equal)
	}
	slices.SortFunc(out, func(x, y effects.ArgumentRule) int { return cmp.Compare(x.Command, y.Command) })
	return effects.List[effects.ArgumentRule]{V: out, Set: true}
}

// Scoped is the scope of one effect.
type Scoped struct {
	Effect string
	Scope  effects.Scope
}

// Scopes holds at most one scope per effect, sorted by effect. An effect without a scope is
// not narrowed. Scopes are immutable.
type Scopes []Scoped

// ScopesOf returns the scopes of a list in any order; several scopes of one effect are combined
// with Meet.
func ScopesOf(list ...Scoped) Scopes {
	var out Scopes
	for _, s := range list {
		out = MeetAll(out, Scopes{s})
	}
	return out
}

// Of returns the scope of an effect, and whether there is one.
func (s Scopes) Of(effect string) (effects.Scope, bool) {
	for i := range s {
		if s[i].Effect == effect {
			return s[i].Scope, true
		}
	}
	return effects.Scope{}, false
}

// Value returns the map from effect to scope used in plans and on the wire.
func (s Scopes) Value() edn.Value {
	var b edn.MapBuilder
	for i := range s {
		b.Key(s[i].Effect, s[i].Scope.Value(s[i].Effect))
	}
	return b.Map()
}

// MeetAll applies Meet to each effect. An effect that only one side has keeps
// its scope.
func MeetAll(a, b Scopes) Scopes {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make(Scopes, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0].Effect, b[0].Effect); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out = append(out, Scoped{a[0].Effect, Meet(a[0].Scope, b[0].Scope)})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
