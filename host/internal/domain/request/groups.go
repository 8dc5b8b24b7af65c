package request

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// checkDone validates the conditions on the answer (:done).
func checkDone(done edn.Value, env *Env) *contract.Error {
	if done.Len() == 0 && done.Kind() == edn.KindMap {
		return nil
	}
	if done.Kind() != edn.KindMap {
		return invalidRequest("done/not-map", ":done is not a map", path(kDone)).
			Expecting(kMap, done).Err()
	}
	for _, key := range gateKeys {
		checks, found := done.Get(key)
		if !found {
			continue
		}
		if !isColl(checks) {
			return invalidRequest("done/"+key.Name()+"-not-keyword-coll",
				"the checks under :done are not a set", path(kDone, key)).
				Expecting(setOfKeywords, checks).Err()
		}
		if member, ok := onlyKeywords(checks); !ok {
			return invalidRequest("done/"+key.Name()+"-not-keywords", "a check under :done is not a keyword", path(kDone, key)).
				Expecting(kKeyword, member).Err()
		}
	}
	for _, key := range gateKeys {
		checks, _ := done.Get(key)
		for check := range checks.Elems() {
			if name, _ := check.AsKeyword(); !env.Checks.known(name) {
				return invalidRequest("done/unknown-check", "there is no check :"+name, path(kDone, key)).
					Named(check, env.Checks.list()).Err()
			}
		}
	}
	return checkScore(done)
}

var gateKeys = [...]edn.Value{kMust, kShould}

func checkScore(done edn.Value) *contract.Error {
	score, found := done.Get(kScoreMin)
	if !found {
		return nil
	}
	expected := between(kNumber, 0, 1)
	if !isNumber(score) {
		return invalidRequest("done/score-min-not-number", ":score-min is not a number", path(kDone, kScoreMin)).
			Expecting(expected, score).Err()
	}
	if !within(score, 0, 1) {
		return invalidRequest("done/score-min-out-of-range", ":score-min is out of range", path(kDone, kScoreMin)).
			Expecting(expected, score).Err()
	}
	return nil
}

// checkEffects validates the effects that a request allows.
func checkEffects(effects edn.Value) *contract.Error {
	if effects.Kind() != edn.KindMap {
		return invalidRequest("effects/not-map", ":effects is not a map", path(kEffects)).Expecting(kMap, effects).Err()
	}
	if err := checkScopes(effects.Key("scope")); err != nil {
		return err
	}
	allowed, found := effects.Get(kAllowed)
	if !found {
		return nil
	}
	if !isColl(allowed) {
		return invalidRequest("effects/allowed-not-keyword-coll", "the allowed effects are not a set",
			path(kEffects, kAllowed)).Expecting(setOfKeywords, allowed).Err()
	}
	if member, ok := onlyKeywords(allowed); !ok {
		return invalidRequest("effects/allowed-not-keywords", "an allowed effect is not a keyword",
			path(kEffects, kAllowed)).Expecting(kKeyword, member).Err()
	}
	effectNames := contract.Effects()
	for effect := range allowed.Elems() {
		if name, _ := effect.AsKeyword(); !slices.Contains(effectNames, name) {
			return invalidRequest("effects/unknown", "there is no effect :"+name, path(kEffects, kAllowed)).
				Named(effect, effectNames).Err()
		}
	}
	return nil
}

// checkScopes validates the scopes that narrow the effects of a request.
func checkScopes(scopes edn.Value) *contract.Error {
	if scopes.IsNil() {
		return nil
	}
	at := path(kEffects, edn.K("scope"))
	if scopes.Kind() != edn.KindMap {
		return invalidRequest("shape/wrong-type", "the scopes are not a map", at).Expecting(kMap, scopes).Err()
	}
	for effect, v := range scopes.Entries() {
		name, _ := effect.AsKeyword()
		if effects.Fields(name) == nil {
			return invalidRequest("effects/unknown", "no effect with a scope is named "+effect.String(), at).
				Named(effect, effects.Scoped()).Err()
		}
		if _, problems := effects.ParseScope(name, v); len(problems) > 0 {
			p := problems[0]
			f := invalidRequest("shape/wrong-type", "the scope of :"+name+" "+p.Message, append(append(at, effect), p.Path...))
			if p.Nearest != "" {
				f.Nearest = edn.K(p.Nearest)
			}
			return f.Err()
		}
	}
	return nil
}

// Bounds of the lists and numbers under :dispatch.
const (
	maxCandidates = 64
	maxChecks     = 32
	maxSameCap    = 16
	maxFallbacks  = 32
	maxRepairs    = 8
	maxHedges     = 8
	maxWidth      = 16
	maxMillis     = maxDeadlineMS
)

var strategies = []string{"cascade", "hedge", "race", "tournament"}

// dispatchField is one key of :dispatch with its expected value.
type dispatchField struct {
	name  string
	wants edn.Value
	fits  func(v edn.Value) bool
}

func keywordList(limit int) func(edn.Value) bool {
	return func(v edn.Value) bool {
		_, ok := onlyKeywords(v)
		return isColl(v) && ok && v.Len() <= limit
	}
}

func isCandidates(v edn.Value) bool {
	if !isColl(v) || v.Len() > maxCandidates {
		return false
	}
	for c := range v.Elems() {
		if _, isHandle := contract.HandleOf(c); c.Kind() != edn.KindKeyword && !isHandle {
			return false
		}
	}
	return true
}

func whole(low, high int64) func(edn.Value) bool {
	return func(v edn.Value) bool {
		n, ok := v.AsInt()
		return ok && v.Kind() == edn.KindInt && n >= low && n <= high
	}
}

func isKeyword(v edn.Value) bool { return v.Kind() == edn.KindKeyword }
func isBool(v edn.Value) bool    { return v.Kind() == edn.KindBool }

func isStrategy(v edn.Value) bool {
	name, _ := v.AsKeyword()
	return slices.Contains(strategies, name)
}

func switchSetMembers(v edn.Value) bool {
	_, ok := onlyKeywords(v)
	return isColl(v) && ok
}

var dispatchFields = []dispatchField{
	{"allow-failure?", kBoolean, isBool},
	{"candidates", edn.MustRead("[:vector {:max 64} [:or :keyword [:map {:closed true} [:cap/ref :keyword]]]]"), isCandidates},
	{"checks", edn.MustRead("[:set {:max 32} :keyword]"), keywordList(maxChecks)},
	{"checks/hard", edn.MustRead("[:set {:max 32} :keyword]"), keywordList(maxChecks)},
	{"checks/soft", edn.MustRead("[:set {:max 32} :keyword]"), keywordList(maxChecks)},
	{"exclude", edn.MustRead("[:set {:max 64} :keyword]"), keywordList(maxCandidates)},
	{"policy", kKeyword, isKeyword},
	{"strategy", edn.MustRead("[:enum :cascade :hedge :race :tournament]"), isStrategy},
	{"switch-on", setOfKeywords, switchSetMembers},
	{"switch-on/replace", setOfKeywords, switchSetMembers},
}

// dispatchGroups are the maps under :dispatch with their whole-number fields.
var dispatchGroups = map[string][]dispatchField{
	"retry": {
		{"fallback-max", between(kInt, 0, maxFallbacks), whole(0, maxFallbacks)},
		{"same-cap-max", between(kInt, 0, maxSameCap), whole(0, maxSameCap)},
	},
	"repair": {{"max", between(kInt, 0, maxRepairs), whole(0, maxRepairs)}},
	"hedge": {
		{"after-ms", between(kInt, 0, maxMillis), whole(0, maxMillis)},
		{"max", between(kInt, 1, maxHedges), whole(1, maxHedges)},
	},
	"race":       {{"width", between(kInt, 2, maxWidth), whole(2, maxWidth)}},
	"tournament": {{"width", between(kInt, 2, maxWidth), whole(2, maxWidth)}},
	"timeout":    {{"extend-ms", between(kInt, 0, maxMillis), whole(0, maxMillis)}},
}

var dispatchKeys = func() []string {
	var names []string
	for _, f := range dispatchFields {
		names = append(names, f.name)
	}
	for name := range dispatchGroups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

// checkDispatch validates :dispatch. Unknown keys, also those of the inner
// maps, are reported before wrong values.
func checkDispatch(dispatch edn.Value) *contract.Error {
	if dispatch.Kind() != edn.KindMap {
		return invalidRequest("dispatch/wrong-type", ":dispatch is not a map", path(kTask, kDispatch)).
			Expecting(kMap, dispatch).Err()
	}
	if key, found := firstUnknown(dispatch, dispatchKeys); found {
		return invalidRequest("dispatch/unknown-key", ":dispatch has the unknown key "+contract.Excerpt(key),
			path(kTask, kDispatch)).Named(key, dispatchKeys).Err()
	}
	for key, val := range dispatch.Entries() {
		name, _ := key.AsKeyword()
		group, known := dispatchGroups[name]
		if !known || val.Kind() != edn.KindMap {
			continue
		}
		fields := fieldNames(group)
		if inner, found := firstUnknown(val, fields); found {
			return invalidRequest("dispatch/unknown-key", ":dispatch has the unknown key "+contract.Excerpt(inner),
				path(kTask, kDispatch, key)).Named(inner, fields).Err()
		}
	}
	for key, val := range dispatch.Entries() {
		if err := checkDispatchValue(key, val); err != nil {
			return err
		}
	}
	return nil
}

func checkDispatchValue(key, val edn.Value) *contract.Error {
	name, _ := key.AsKeyword()
	wrong := func(expected, got edn.Value, keys ...edn.Value) *contract.Error {
		return invalidRequest("dispatch/wrong-type", ":dispatch has a value that does not fit its schema",
			append(path(kTask, kDispatch), keys...)).
			Expecting(expected, got).Err()
	}
	if group, ok := dispatchGroups[name]; ok {
		if val.Kind() != edn.KindMap {
			return wrong(kMap, val, key)
		}
		for _, f := range group {
			if v, found := val.Get(edn.K(f.name)); found && !f.fits(v) {
				return wrong(f.wants, v, key, edn.K(f.name))
			}
		}
		return nil
	}
	i := slices.IndexFunc(dispatchFields, func(f dispatchField) bool { return f.name == name })
	if f := dispatchFields[i]; !f.fits(val) {
		return wrong(f.wants, val, key)
	}
	return nil
}

func fieldNames(fields []dispatchField) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}
