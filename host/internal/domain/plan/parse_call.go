package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// eachKey parses the entries of a map with known keys. An unknown key is reported, and its value is
// also parsed as that of the key that it resembles most (see guess), if the map lacks that key.
func (np *nodeParser) eachKey(v edn.Value, known []string, read func(name string, val edn.Value)) {
	if v.Kind() != edn.KindMap {
		np.wrong(v, "a map")
		return
	}
	for key, val := range v.Entries() {
		np.in(key, func() {
			if name, ok := key.AsKeyword(); ok && slices.Contains(known, name) {
				read(name, val)
				return
			}
			if near, ok := np.unknownKey(key, known).AsKeyword(); ok && !v.Has(edn.K(near)) {
				np.guess(func() { read(near, val) })
			}
		})
	}
}

func (np *nodeParser) role(v edn.Value) {
	if name, ok := np.keyword(v); ok {
		np.layer().Role = policy.Of(name, np.origin())
	}
}

func (np *nodeParser) model(v edn.Value) {
	if v.Kind() != edn.KindKeyword && v.Kind() != edn.KindString {
		np.wrong(v, "a keyword or a string")
		return
	}
	np.layer().Model = policy.Of(v, np.origin())
}

func (np *nodeParser) temperature(v edn.Value) {
	if !within(v, 0, 2) {
		np.wrong(v, "a number from 0 to 2")
		return
	}
	np.layer().Temperature = policy.Of(v, np.origin())
}

func within(v edn.Value, lo, hi int64) bool {
	r, ok := v.AsNumber()
	return ok && r.Cmp(ratInt(lo)) >= 0 && r.Cmp(ratInt(hi)) <= 0
}

func (np *nodeParser) deadline(v edn.Value) {
	if n, ok := np.integer(v, 1, maxDeadlineMS, checkType); ok {
		np.layer().Deadline = policy.Of(time.Duration(n)*time.Millisecond, np.origin())
	}
}

// budget parses the limits of the node, which have the form of a request's.
func (np *nodeParser) budget(v edn.Value) {
	if v.Kind() != edn.KindMap {
		np.wrong(v, "a map")
		return
	}
	known := request.BudgetKeys()
	for key, val := range v.Entries() {
		np.in(key, func() {
			if name, ok := key.AsKeyword(); !ok || !slices.Contains(known, name) {
				np.unknownKey(key, known)
				return
			}
			if edn.Equal(key, kTemperature) {
				np.temperature(val)
				return
			}
			if _, err := request.ParseBudget(edn.MustMap(key, val)); err != nil {
				np.wrong(val, request.BudgetAmount(key))
			}
		})
	}
	np.layer().SetBudget(v, np.origin())
}

func (np *nodeParser) maxAttempts(v edn.Value) {
	if n, ok := np.integer(v, 1, np.limits.Retries+1, checkLimit); ok {
		np.layer().InvalidRetryMax = policy.Of(n-1, np.origin())
	}
}

var requiresKeys = []string{"cap/kind", "cap/tags", "effects/allowed", "in-schema", "out-schema", "result/type"}

func (np *nodeParser) requires(v edn.Value) {
	from := np.origin()
	np.eachKey(v, requiresKeys, func(name string, val edn.Value) {
		var r policy.Requires
		switch name {
		case "cap/tags", "effects/allowed":
			list, ok := np.keywords(val)
			if !ok {
				return
			}
			slices.Sort(list)
			if name == "cap/tags" {
				r.CapTags = policy.Of(slices.Compact(list), from)
			} else {
				r.Effects = policy.Of(slices.Compact(list), from)
			}
		case "result/type":
			np.resultType(val)
			return
		default:
			kw, ok := np.keyword(val)
			if !ok {
				return
			}
			switch name {
			case "in-schema":
				r.InSchema = policy.Of(kw, from)
			case "out-schema":
				r.OutSchema = policy.Of(kw, from)
			case "cap/kind":
				r.CapKind = policy.Of(kw, from)
			}
		}
		np.require(r)
	})
}

// require merges a requirement into those of the node; two spellings of one
// requirement must agree.
func (np *nodeParser) require(r policy.Requires) {
	l := np.layer()
	merged := policy.Merge(policy.Layer{Requires: l.Requires}, policy.Layer{Requires: r})
	l.Requires = merged.Requires
	for _, key := range merged.Conflicts {
		np.bad(checkType, "two different values for :%s in %s", key, showPath(np.plan.path(np.n.Index)))
	}
}

func (np *nodeParser) output(v edn.Value) {
	np.eachKey(v, []string{"schema"}, func(_ string, val edn.Value) {
		if name, ok := np.keyword(val); ok {
			np.require(policy.Requires{OutSchema: policy.Of(name, np.origin())})
		}
	})
}

func (np *nodeParser) expect(v edn.Value) {
	np.eachKey(v, []string{"result/type"}, func(_ string, val edn.Value) {
		np.resultType(val)
	})
}

func (np *nodeParser) resultType(v edn.Value) {
	name, _ := v.AsKeyword()
	if name != "value" && name != "plan" && name != "stream" {
		np.wrongName(v, ":value, :plan or :stream", []string{"value", "plan", "stream"})
		return
	}
	np.require(policy.Requires{ResultType: policy.Of(name, np.origin())})
}

func (np *nodeParser) done(v edn.Value) {
	from := np.origin()
	np.eachKey(v, []string{"must", "score-min", "should"}, func(name string, val edn.Value) {
		if name == "score-min" {
			if !within(val, 0, 1) {
				np.wrong(val, "a number from 0 to 1")
				return
			}
			np.layer().ScoreMin = policy.Of(val, from)
			return
		}
		list, ok := np.checkNames(val)
		if !ok {
			return
		}
		if name == "must" {
			np.layer().Must = policy.NamesOf(from, list...)
		} else {
			np.layer().Should = policy.NamesOf(from, list...)
		}
	})
}

// checkNames parses a collection of checks within its limit.
func (np *nodeParser) checkNames(v edn.Value) ([]string, bool) {
	list, ok := np.keywords(v)
	if ok && len(list) > np.limits.Checks {
		np.tooMany(len(list), np.limits.Checks, "checks")
		return nil, false
	}
	return list, ok
}

func (np *nodeParser) effects(v edn.Value) {
	if v.Kind() != edn.KindMap {
		np.wrong(v, "a map with :allowed")
		return
	}
	np.eachKey(v, []string{"allowed", "scope"}, func(name string, val edn.Value) {
		if name == "allowed" {
			np.allowed(val)
		} else {
			np.scopes(val)
		}
	})
}

func (np *nodeParser) allowed(v edn.Value) {
	list, ok := np.keywords(v)
	if !ok {
		return
	}
	for _, e := range list {
		if !slices.Contains(effectNames, e) {
			ok = false
			np.badNear(checkType, nearest(e, effectNames), "unknown effect :%s in %s", e, showPath(np.cur))
		}
	}
	if !ok {
		return // the allowed effects of the node are unknown
	}
	slices.Sort(list)
	np.layer().Effects = policy.Of(slices.Compact(list), np.origin())
}

// scopes parses the scopes that narrow the effects of the node (FX-001).
func (np *nodeParser) scopes(v edn.Value) {
	np.eachKey(v, effects.Scoped(), func(effect string, val edn.Value) {
		s, problems := effects.ParseScope(effect, val)
		for _, p := range problems {
			var near edn.Value
			if p.Nearest != "" {
				near = edn.K(p.Nearest)
			}
			np.inside(p.Path, func() {
				np.badNear(checkType, near, "%s %s", showPath(np.cur), p.Message)
			})
		}
		if len(problems) == 0 {
			np.layer().Scopes = policy.MeetAll(np.layer().Scopes, policy.Scopes{{Effect: effect, Scope: s}})
		}
	})
}

// inside descends a path key by key.
func (np *nodeParser) inside(path []edn.Value, then func()) {
	if len(path) == 0 {
		then()
		return
	}
	np.in(path[0], func() { np.inside(path[1:], then) })
}

// effectNames are the effects of FX-001.
var effectNames = []string{"db/read", "db/write", "fs/read", "fs/write", "net/http", "none", "process/run"}

// dispatchKeys maps the keys of `:dispatch` to their parsers.
var dispatchKeys = map[string]func(np *nodeParser, v edn.Value){
	"candidates":        (*nodeParser).candidates,
	"policy":            (*nodeParser).ordering,
	"strategy":          (*nodeParser).strategy,
	"repair":            (*nodeParser).repair,
	"race":              (*nodeParser).race,
	"hedge":             (*nodeParser).hedge,
	"tournament":        (*nodeParser).tournament,
	"retry":             (*nodeParser).retry,
	"switch-on":         (*nodeParser).switchOn,
	"switch-on/replace": (*nodeParser).switchOnReplace,
	"checks":            (*nodeParser).checks,
	"checks/hard":       (*nodeParser).checksHard,
	"checks/soft":       (*nodeParser).checksSoft,
	"allow-failure?":    (*nodeParser).allowFailure,
	"exclude":           (*nodeParser).exclude,
	"timeout":           (*nodeParser).timeout,
}

var dispatchKeyNames = slices.Sorted(maps.Keys(dispatchKeys))

// toolCannot are keys of `:dispatch` that choose between capabilities.
var toolCannot = keySet{"candidates", "exclude", "repair", "race", "hedge", "tournament"}

func (np *nodeParser) dispatch(v edn.Value) {
	np.eachKey(v, dispatchKeyNames, func(name string, val edn.Value) {
		if np.n.Op == OpTool && toolCannot.has(name) {
			np.badKey(checkUnknownKey, edn.Nil(), "a tool is its own only candidate: remove :%s in %s", name,
				showPath(np.cur[:len(np.cur)-1]))
			return
		}
		dispatchKeys[name](np, val)
	})
}

func (np *nodeParser) candidates(v edn.Value) {
	isVector := v.Kind() == edn.KindVector || v.Kind() == edn.KindList
	if isSlot, _ := slotShape(v); !isVector && !isSlot {
		np.wrong(v, "a vector of capability ids")
		return
	}
	if isVector && v.Len() > np.limits.Candidates {
		np.tooMany(v.Len(), np.limits.Candidates, "candidates")
		return
	}
	t := np.template(v, readSlot)
	if !isVector {
		np.n.Candidates = t
		return
	}
	ids := make([]string, 0, v.Len())
	i := int64(0)
	for e := range v.Elems() {
		if id, ok := capRef(e); ok {
			ids = append(ids, id)
		} else if isSlot, _ := slotShape(e); !isSlot {
			np.in(edn.Int(i), func() { np.wrong(e, "a capability id or a handle") })
		}
		i++
	}
	if len(ids) == v.Len() {
		np.layer().Candidates = policy.Of(ids, np.origin())
	} else {
		np.n.Candidates = t
	}
}

func (np *nodeParser) ordering(v edn.Value) {
	np.choice(v, orderings, func(name string) {
		np.layer().Ordering = policy.Of(name, np.origin())
	})
}

func (np *nodeParser) strategy(v edn.Value) {
	np.choice(v, strategies, func(name string) {
		np.layer().Strategy = policy.Of(name, np.origin())
	})
}

func (np *nodeParser) repair(v edn.Value) {
	np.eachKey(v, []string{"max"}, func(_ string, val edn.Value) {
		if n, ok := np.integer(val, 0, np.limits.Repairs, checkLimit); ok {
			np.layer().RepairMax = policy.Of(n, np.origin())
		}
	})
}

func (np *nodeParser) race(v edn.Value) {
	np.eachKey(v, []string{"width"}, func(_ string, val edn.Value) {
		if n, ok := np.integer(val, 2, np.limits.Width, checkLimit); ok {
			np.layer().RaceWidth = policy.Of(n, np.origin())
		}
	})
}

func (np *nodeParser) tournament(v edn.Value) {
	np.eachKey(v, []string{"width"}, func(_ string, val edn.Value) {
		if n, ok := np.integer(val, 2, np.limits.Width, checkLimit); ok {
			np.layer().TournamentWidth = policy.Of(n, np.origin())
		}
	})
}

func (np *nodeParser) hedge(v edn.Value) {
	np.eachKey(v, []string{"after-ms", "max"}, func(name string, val edn.Value) {
		if name == "max" {
			if n, ok := np.integer(val, 1, np.limits.Hedges, checkLimit); ok {
				np.layer().HedgeMax = policy.Of(n, np.origin())
			}
			return
		}
		if n, ok := np.integer(val, 0, maxDeadlineMS, checkType); ok {
			np.layer().HedgeAfter = policy.Of(time.Duration(n)*time.Millisecond, np.origin())
		}
	})
}

func (np *nodeParser) retry(v edn.Value) {
	from := np.origin()
	np.eachKey(v, []string{"fallback-max", "same-cap-max"}, func(name string, val edn.Value) {
		if name == "same-cap-max" {
			if n, ok := np.integer(val, 0, np.limits.Retries, checkLimit); ok {
				np.layer().SameCapMax = policy.Of(n, from)
			}
			return
		}
		if n, ok := np.integer(val, 0, np.limits.Fallbacks, checkLimit); ok {
			np.layer().FallbackMax = policy.Of(n, from)
		}
	})
}

// switchSet parses a set of failure types (ATT-009).
func (np *nodeParser) switchSet(v edn.Value) (policy.Val[policy.Names], bool) {
	list, ok := np.keywords(v)
	if !ok {
		return policy.Val[policy.Names]{}, false
	}
	if _, err := policy.ParseSwitchSet(list); err != nil {
		np.bad(checkType, "%s in %s", strings.ReplaceAll(err.Error(), "\n", "; "), showPath(np.cur))
		return policy.Val[policy.Names]{}, false
	}
	from := np.origin()
	return policy.Of(policy.NamesOf(from, list...), from), true
}

func (np *nodeParser) switchOn(v edn.Value) {
	if set, ok := np.switchSet(v); ok {
		np.layer().SwitchOn.Add = set
	}
}

func (np *nodeParser) switchOnReplace(v edn.Value) {
	if set, ok := np.switchSet(v); ok {
		np.layer().SwitchOn.Base = set
	}
}

func (np *nodeParser) checks(v edn.Value) {
	list, ok := np.checkNames(v)
	// A written hard list replaces :checks (GATE-001).
	if !ok || np.v.Key("dispatch").Has(kChecksHard) {
		return
	}
	from := np.origin()
	np.layer().Checks.Add = policy.Of(policy.NamesOf(from, list...), from)
}

func (np *nodeParser) checksHard(v edn.Value) {
	if list, ok := np.checkNames(v); ok {
		from := np.origin()
		np.layer().Checks.Base = policy.Of(policy.NamesOf(from, list...), from)
	}
}

func (np *nodeParser) checksSoft(v edn.Value) {
	if list, ok := np.checkNames(v); ok {
		np.layer().Soft = policy.NamesOf(np.origin(), list...)
	}
}

func (np *nodeParser) allowFailure(v edn.Value) {
	b, ok := v.AsBool()
	if !ok {
		np.wrong(v, "a boolean")
	}
	np.n.AllowFailure = b
}

func (np *nodeParser) exclude(v edn.Value) {
	if list, ok := np.keywords(v); ok {
		np.layer().Exclude = policy.NamesOf(np.origin(), list...)
	}
}

func (np *nodeParser) timeout(v edn.Value) {
	np.eachKey(v, []string{"extend-ms"}, func(_ string, val edn.Value) {
		if n, ok := np.integer(val, 0, maxDeadlineMS, checkType); ok {
			np.layer().Extend = policy.Of(time.Duration(n)*time.Millisecond, np.origin())
		}
	})
}
