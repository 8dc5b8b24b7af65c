package request

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Warning reports a deprecated spelling to the sender of a request.
type Warning struct {
	// Code identifies the spelling, Path its position.
	Code    string
	Path    []edn.Value
	Message string
}

// Value returns the warning as an entry of :warnings.
func (w Warning) Value() edn.Value {
	return edn.MustMap(edn.K("code"), edn.K(w.Code), kPath, edn.Vector(w.Path...), kMessage, edn.Text(w.Message))
}

// Option sets a default for a value that some forms of a request lack.
type Option func(*translation)

// DefaultTrace sets the trace id of requests without one: bare text, and
// requests of version 0.3 without :request/id.
func DefaultTrace(id string) Option { return func(t *translation) { t.trace = id } }

type translation struct {
	trace    string
	warnings []Warning
}

func (t *translation) warn(code, message string, path ...edn.Value) {
	t.warnings = append(t.warnings, Warning{Code: code, Path: path, Message: message})
}

// Translate converts a request to the form of the contract. It accepts bare text and
// {:prompt text}, requests of version 0.3, "1" as :proto, strings for keywords under
// :requires, :done and :effects, words for booleans, and other names of error types.
// Anything unknown is kept for [Parse] to validate. The warnings name deprecated spellings.
// The error is a *contract.Error of type invalid-request.
func Translate(v edn.Value, opts ...Option) (edn.Value, []Warning, error) {
	var t translation
	for _, opt := range opts {
		opt(&t)
	}
	v = Envelope(v, t.trace)
	switch {
	case v.Kind() != edn.KindMap:
		return v, nil, nil
	case IsV03(v):
		var err *contract.Error
		if v, err = t.v03(v); err != nil {
			return edn.Value{}, nil, err
		}
	}
	return t.spellings(v), t.warnings, nil
}

// Envelope returns the envelope of a request in one of the short forms: text, and {:prompt
// text}. trace becomes its trace id, unless it is empty. Any other request is returned
// unchanged. Call it before keys are added to a request: a map with :prompt and another key
// is not a short form.
func Envelope(v edn.Value, trace string) edn.Value {
	prompt := v
	if v.Kind() == edn.KindMap && v.Len() == 1 {
		prompt = v.Key("prompt")
	}
	if prompt.Kind() != edn.KindString {
		return v
	}
	return traced(edn.MustMap(
		kProto, edn.Int(contract.Proto),
		kTask, edn.MustMap(kIntent, edn.K("text/respond")),
		kInput, edn.MustMap(kPrompt, prompt),
	), trace)
}

// maxIntent is the maximum length in bytes of an intent that IntentOf returns.
const maxIntent = 128

// IntentOf returns the intent that a request in the form of the contract or of version 0.3 names;
// empty if it names none, if the name is not a keyword, or if it has more than 128 bytes.
func IntentOf(v edn.Value) string {
	named := v.Key("task").Key("intent")
	if IsV03(v) {
		named = v03Intent(v.Key("intent"))
	}
	intent, _ := word(named).AsKeyword()
	if len(intent) > maxIntent {
		return ""
	}
	return intent
}

func traced(v edn.Value, id string) edn.Value {
	if id == "" || v.Has(kTrace) {
		return v
	}
	return v.Assoc(kTrace, edn.MustMap(kID, edn.Text(id)))
}

// spellings rewrites the alternative spellings inside an envelope.
func (t *translation) spellings(v edn.Value) edn.Value {
	if v.Kind() != edn.KindMap {
		return v
	}
	if text, ok := v.Key("proto").AsString(); ok && text == "1" {
		v = v.Assoc(kProto, edn.Int(contract.Proto))
	}
	v = update(v, kStream, truth)
	v = update(v, kRouting, func(routing edn.Value) edn.Value {
		for _, key := range routingFlags {
			routing = update(routing, key, truth)
		}
		return routing
	})
	v = update(v, kTask, func(task edn.Value) edn.Value {
		task = update(task, kRequires, requiresWords)
		return update(task, kDispatch, t.dispatch)
	})
	v = update(v, kDone, func(done edn.Value) edn.Value {
		return update(update(done, kMust, words), kShould, words)
	})
	return update(v, kEffects, func(effects edn.Value) edn.Value { return update(effects, kAllowed, words) })
}

var routingFlags = keywords([]string{"meta?", "strict?", "force?"})

// update replaces the value under key of the map m, if there is one.
func update(m, key edn.Value, change func(edn.Value) edn.Value) edn.Value {
	if m.Kind() != edn.KindMap {
		return m
	}
	old, found := m.Get(key)
	if !found {
		return m
	}
	changed := change(old)
	if edn.Equal(old, changed) {
		return m
	}
	return m.Assoc(key, changed)
}

// truth converts the words for booleans.
func truth(v edn.Value) edn.Value {
	if n, ok := v.AsInt(); ok && (n == 0 || n == 1) {
		return edn.Bool(n == 1)
	}
	s, _ := v.AsString()
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on":
		return edn.Bool(true)
	case "0", "false", "no", "off":
		return edn.Bool(false)
	}
	return v
}

// word converts a string to the keyword that it spells, with or without a
// colon.
func word(v edn.Value) edn.Value {
	s, ok := v.AsString()
	if !ok {
		return v
	}
	k, err := edn.Keyword(strings.TrimPrefix(s, ":"))
	if err != nil {
		return v
	}
	return k
}

// words converts the members of a collection to keywords. Members that become
// equal in a set are merged.
func words(v edn.Value) edn.Value {
	if !isColl(v) {
		return v
	}
	members := make([]edn.Value, 0, v.Len())
	for m := range v.Elems() {
		members = append(members, word(m))
	}
	switch v.Kind() {
	case edn.KindSet:
		return edn.SetOf(members...)
	case edn.KindList:
		return edn.List(members...)
	}
	return edn.Vector(members...)
}

func requiresWords(requires edn.Value) edn.Value {
	for _, key := range []edn.Value{kInSchema, kOutSchema, kResultType, kCapKind} {
		requires = update(requires, key, word)
	}
	for _, key := range []edn.Value{kCapTags, kEffectsAllowed} {
		requires = update(requires, key, words)
	}
	return requires
}

// dispatch resolves aliases of error types in the switch-on sets.
func (t *translation) dispatch(dispatch edn.Value) edn.Value {
	for _, name := range []string{"switch-on", "switch-on/replace"} {
		key := edn.K(name)
		dispatch = update(dispatch, key, func(set edn.Value) edn.Value {
			if !isColl(set) {
				return set
			}
			members := slices.Collect(set.Elems())
			for i, m := range members {
				alias, ok := m.AsKeyword()
				typ := contract.ResolveAlias(alias)
				if !ok || typ == alias {
					continue
				}
				members[i] = edn.K(typ)
				t.warn("alias", ":"+alias+" is now :"+typ, kTask, kDispatch, key)
			}
			return edn.SetOf(members...)
		})
	}
	return dispatch
}
