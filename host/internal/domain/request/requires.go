package request

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var requiresKeys = []string{"cap/kind", "cap/tags", "effects/allowed", "in-schema", "out-schema", "result/type"}

// resultTypes are the types of an answer.
var resultTypes = []string{"plan", "stream", "value"}

// parseRequires reads the requirements of a request. Nil requires nothing.
func parseRequires(v edn.Value, env *Env) (r Requires, err *contract.Error) {
	if v.IsNil() {
		return r, nil
	}
	under := func(keys ...edn.Value) []edn.Value { return append(path(kTask, kRequires), keys...) }
	if v.Kind() != edn.KindMap {
		return r, invalidRequest("requires/not-map", ":requires is not a map", under()).Expecting(kMap, v).Err()
	}
	if key, found := firstUnknown(v, requiresKeys); found {
		return r, invalidRequest("requires/unknown-keys", ":requires has the unknown key "+contract.Excerpt(key), under()).
			Named(key, requiresKeys).Err()
	}
	var bad bool
	if r.InSchema, bad = optionalKeyword(v, kInSchema); bad {
		got, _ := v.Get(kInSchema)
		return r, invalidRequest("requires/in-schema-not-keyword",
			"the required input schema is not a keyword", under(kInSchema)).
			Expecting(kKeyword, got).Err()
	}
	if r.OutSchema, bad = optionalKeyword(v, kOutSchema); bad {
		got, _ := v.Get(kOutSchema)
		return r, invalidRequest("requires/out-schema-not-keyword", "the required schema of the answer is not a keyword",
			under(kOutSchema)).Expecting(kKeyword, got).Err()
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
		return r, invalidRequest("requires/result-type-not-supported",
			"the required result type is unknown", under(kResultType)).
			Expecting(edn.Vector(append(path(edn.K("enum")), keywords(resultTypes)...)...), got).Err()
	}
	if r.CapKind, bad = optionalKeyword(v, kCapKind); bad {
		got, _ := v.Get(kCapKind)
		return r, invalidRequest("requires/cap-kind-not-keyword",
			"the required kind of capability is not a keyword", under(kCapKind)).
			Expecting(kKeyword, got).Err()
	}
	var ok bool
	if tags, found := v.Get(kCapTags); found {
		if r.CapTags, ok = contract.KeywordSet(tags); !ok {
			return r, invalidRequest("requires/cap-tags-not-keywords", "the required tags are not a set of keywords",
				under(kCapTags)).
				Expecting(setOfKeywords, tags).Err()
		}
	}
	if effects, found := v.Get(kEffectsAllowed); found {
		if r.Effects, ok = contract.KeywordSet(effects); !ok {
			return r, invalidRequest("requires/effects-not-keywords", "the effects under :requires are not a set of keywords",
				under(kEffectsAllowed)).
				Expecting(setOfKeywords, effects).Err()
		}
		r.HasEffects = true
	}
	return r, nil
}

// Value returns the requirements as a map; empty ones are absent.
func (r Requires) Value() edn.Value {
	var m edn.MapBuilder
	keyword := func(key edn.Value, name string) {
		if name != "" {
			m.Set(key, edn.K(name))
		}
	}
	keyword(kCapKind, r.CapKind)
	if len(r.CapTags) > 0 {
		m.Set(kCapTags, edn.Keywords(r.CapTags...))
	}
	if r.HasEffects {
		m.Set(kEffectsAllowed, edn.Keywords(r.Effects...))
	}
	keyword(kInSchema, r.InSchema)
	keyword(kOutSchema, r.OutSchema)
	keyword(kResultType, r.ResultType)
	return m.Map()
}

func unknownSchema(name string, env *Env, at []edn.Value) *contract.Error {
	return invalidRequest("requires/schema-unknown", "there is no schema :"+name, at).
		Named(edn.K(name), env.Schemas.list()).Err()
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
