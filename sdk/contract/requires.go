package contract

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/edn"
)

var requiresKeys = []string{"cap/kind", "cap/tags", "effects/allowed", "in-schema", "out-schema", "result/type"}

// resultTypes are the types of an answer.
var resultTypes = []string{"plan", "stream", "value"}

// ParseRequires reads the hard requirements of a request or of a node of a
// plan. It uses only the schemas of env. Nil requires nothing. The error is of
// type invalid-request.
func ParseRequires(v edn.Value, env RequestEnv) (Requires, *Error) {
	return parseRequires(v, &env, edn.Value{})
}

// parseRequires reads the requirements under :requires of parent, or v itself
// if parent is nil.
func parseRequires(v edn.Value, env *RequestEnv, parent edn.Value) (Requires, *Error) {
	if v.IsNil() {
		return Requires{}, nil
	}
	return readRequires(v, env, func(keys ...edn.Value) []edn.Value { return append(at(parent, kRequires), keys...) })
}

func readRequires(v edn.Value, env *RequestEnv, under func(keys ...edn.Value) []edn.Value) (r Requires, err *Error) {
	if v.Kind() != edn.KindMap {
		return r, invalidRequest("requires/not-map", "the demands are not a map", under()).expecting(kMap, v).err()
	}
	if key, found := firstUnknown(v, requiresKeys); found && !env.FromHost {
		return r, invalidRequest("requires/unknown-keys", "the demands have an unknown key "+excerptOf(key), under()).
			named(key, requiresKeys).err()
	}
	var bad bool
	if r.InSchema, bad = optionalKeyword(v, kInSchema); bad {
		got, _ := v.Get(kInSchema)
		return r, invalidRequest("requires/in-schema-not-keyword", "the demanded schema is not a keyword", under(kInSchema)).
			expecting(kKeyword, got).err()
	}
	if r.OutSchema, bad = optionalKeyword(v, kOutSchema); bad {
		got, _ := v.Get(kOutSchema)
		return r, invalidRequest("requires/out-schema-not-keyword", "the demanded schema is not a keyword",
			under(kOutSchema)).expecting(kKeyword, got).err()
	}
	if r.InSchema != "" && !env.Schemas.known(r.InSchema) {
		return r, unknownSchema(r.InSchema, env, under(kInSchema))
	}
	if r.OutSchema != "" && !env.Schemas.known(r.OutSchema) {
		return r, unknownSchema(r.OutSchema, env, under(kOutSchema))
	}
	r.ResultType, bad = optionalKeyword(v, kResultType)
	if bad || r.ResultType != "" && !slices.Contains(resultTypes, r.ResultType) {
		got, _ := v.Get(kResultType)
		return r, invalidRequest("requires/result-type-not-supported", "there is no such type of result", under(kResultType)).
			expecting(edn.Vector(append(path(edn.K("enum")), keywords(resultTypes)...)...), got).err()
	}
	if r.CapKind, bad = optionalKeyword(v, kCapKind); bad {
		got, _ := v.Get(kCapKind)
		return r, invalidRequest("requires/cap-kind-not-keyword", "the demanded kind is not a keyword", under(kCapKind)).
			expecting(kKeyword, got).err()
	}
	var ok bool
	if tags, found := v.Get(kCapTags); found {
		if r.CapTags, ok = KeywordSet(tags); !ok {
			return r, invalidRequest("requires/cap-tags-not-keywords", "the demanded tags are not a set of keywords",
				under(kCapTags)).
				expecting(setOfKeywords, tags).err()
		}
	}
	if effects, found := v.Get(kEffectsAllowed); found {
		if r.Effects, ok = KeywordSet(effects); !ok {
			return r, invalidRequest("requires/effects-not-keywords", "the demanded effects are not a set of keywords",
				under(kEffectsAllowed)).
				expecting(setOfKeywords, effects).err()
		}
		r.HasEffects = true
	}
	return r, nil
}

// Value returns the requirements as a map; empty ones are left out.
func (r Requires) Value() edn.Value {
	var f fields
	f.keyword(kCapKind, r.CapKind)
	if len(r.CapTags) > 0 {
		f.set(kCapTags, edn.Keywords(r.CapTags...))
	}
	if r.HasEffects {
		f.set(kEffectsAllowed, edn.Keywords(r.Effects...))
	}
	f.keyword(kInSchema, r.InSchema)
	f.keyword(kOutSchema, r.OutSchema)
	f.keyword(kResultType, r.ResultType)
	return f.value()
}

var setOfKeywords = edn.Vector(edn.K("set"), kKeyword)

func unknownSchema(name string, env *RequestEnv, at []edn.Value) *Error {
	return invalidRequest("requires/schema-unknown", "there is no schema :"+name, at).
		named(edn.K(name), env.Schemas.list()).err()
}

// optionalKeyword reads an optional keyword; bad means that the key has a value
// of another kind.
func optionalKeyword(m, key edn.Value) (name string, bad bool) {
	v, found := m.Get(key)
	if !found {
		return "", false
	}
	name, ok := v.AsKeyword()
	return name, !ok
}

// firstUnknown returns the first unknown key of m in canonical order.
func firstUnknown(m edn.Value, known []string) (edn.Value, bool) {
	for key := range m.Entries() {
		if name, ok := key.AsKeyword(); !ok || !slices.Contains(known, name) {
			return key, true
		}
	}
	return edn.Value{}, false
}

// isColl reports whether v is a set, a vector or a list: the kinds accepted for
// a collection of names.
func isColl(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindSet, edn.KindVector, edn.KindList:
		return true
	}
	return false
}

// KeywordSet returns the keywords of a set, vector or list, sorted and without
// duplicates. It returns false if v is something else or has a member that is
// not a keyword.
func KeywordSet(v edn.Value) ([]string, bool) {
	if !isColl(v) {
		return nil, false
	}
	if v.Len() == 0 {
		return nil, true
	}
	names := make([]string, 0, v.Len())
	for member := range v.Elems() {
		name, ok := member.AsKeyword()
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// onlyKeywords reports whether every member of the collection is a keyword, and
// returns the first other member.
func onlyKeywords(v edn.Value) (edn.Value, bool) {
	for member := range v.Elems() {
		if member.Kind() != edn.KindKeyword {
			return member, false
		}
	}
	return edn.Value{}, true
}
