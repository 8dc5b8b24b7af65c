package eval_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The naive evaluator runs one node after another, with slots as plain maps,
// directly from evaluation.md sections 1 to 8, for the features of generated
// plans. It shares only the scripts of the executors with the real one.

type naiveEnv map[string]edn.Value

// naivePlan returns the emitted value, the :out of the last node, and the type
// of the error that ended the plan.
func naivePlan(p edn.Value, env naiveEnv) (emitted, last edn.Value, has bool, failure string) {
	env = maps.Clone(env)
	for node := range p.Key("nodes").Elems() {
		as, _ := node.Key("as").AsKeyword()
		last = edn.Nil()
		if when, ok := node.Get(edn.K("when")); ok && !naiveWhen(when, env) {
			continue
		}
		op, _ := node.Key("op").AsKeyword()
		var slot edn.Value
		switch op {
		case "let":
			if slot, failure = naiveFill(node.Key("value"), env); failure == "" {
				last = naiveShownInside(slot)
			}
		case "emit":
			var v edn.Value
			if v, failure = naiveEmit(node.Key("input"), env); failure == "" {
				emitted, has = v, true
			}
		case "call":
			slot, failure = naiveCall(node, env)
			last = naiveShown(slot)
		case "plan":
			var v edn.Value
			if v, _, _, failure = naivePlan(node.Key("plan"), env); failure == "" {
				slot = edn.MustMap(edn.K("out"), contract.EmitOut(v))
				last = slot.Key("out")
			}
		case "map":
			if slot, failure = naiveMap(node, env); failure == "" {
				last = slot.Key("out")
			}
		}
		if failure != "" {
			return emitted, edn.Nil(), has, failure
		}
		if as != "" {
			env[as] = slot
		}
	}
	return emitted, last, has, ""
}

func naiveMap(node edn.Value, env naiveEnv) (edn.Value, string) {
	over := node.Key("over")
	var list, out []edn.Value
	if over.Kind() == edn.KindMap {
		for k, v := range over.Entries() {
			list = append(list, edn.Vector(k, v))
		}
	} else {
		list = slices.Collect(over.Elems())
	}
	keep, _ := node.Key("on-item-error").AsKeyword()
	for _, x := range list {
		inner := maps.Clone(env)
		if inner == nil {
			inner = naiveEnv{}
		}
		inner["item"] = x
		v, last, has, failure := naivePlan(edn.MustMap(edn.K("nodes"), node.Key("body")), inner)
		switch {
		case failure != "" && keep != "keep":
			return edn.Nil(), failure
		case failure != "":
			v = edn.MustMap(edn.K("error"), edn.Bool(true), edn.K("failure/type"), edn.K(failure))
		case !has:
			v = last
		}
		out = append(out, v)
	}
	return edn.MustMap(edn.K("out"), edn.Vector(out...)), ""
}

// naiveCall is the cascade of one node.
func naiveCall(node edn.Value, env naiveEnv) (edn.Value, string) {
	dispatch := node.Key("dispatch")
	failure, capID, out := "", "", edn.Nil()
	input, unfilled := naiveFill(node.Key("input"), env)
	if failure = unfilled; failure == "" {
		capID, out, failure = naiveCascade(node, input, env)
	}
	if failure == "" {
		return edn.MustMap(edn.K("cap/id"), edn.K(capID), edn.K("out"), out), ""
	}
	if allow, _ := dispatch.Key("allow-failure?").AsBool(); !allow {
		return edn.Nil(), failure
	}
	return edn.MustMap(edn.K("cap/id"), edn.K("g/any"), edn.K("error"), edn.Bool(true), edn.K("failure/type"), edn.K(failure)), ""
}

func naiveCascade(node, input edn.Value, env naiveEnv) (capID string, out edn.Value, failure string) {
	d := node.Key("dispatch")
	same, _ := d.Key("retry").Key("same-cap-max").AsInt()
	fallback, _ := d.Key("retry").Key("fallback-max").AsInt()
	attempt, index := 0, int64(0)
	for c := range d.Key("candidates").Elems() {
		if index > fallback {
			break
		}
		index++
		capID, _ = c.AsKeyword()
		for try := int64(0); ; try++ {
			attempt++
			var class string
			var answered, crashed, childOnce bool
			out, failure, class, answered, crashed, childOnce = naiveAttempt(capID, attempt, input, node.Key("done"), env)
			if failure == "" {
				return capID, out, ""
			}
			// The recovery table.
			mayRetry, maySwitch := true, true
			switch {
			case capID == "g/once" && crashed:
				return capID, out, "effects/outcome-unknown"
			case childOnce, (capID == "g/once" || capID == "g/write") && answered:
				mayRetry, maySwitch = false, false
			case capID == "g/write" && crashed:
				maySwitch = false
			}
			if !mayRetry && !maySwitch || class == "stop!" || !naiveMatches(d, failure, class) {
				return capID, out, failure
			}
			again := class == "retry" || class == "repair" || crashed
			if capID == "g/c" && class == "repair" {
				again = false // deterministic
			}
			if mayRetry && again && try < same {
				continue
			}
			if !maySwitch {
				return capID, out, failure
			}
			break
		}
	}
	return capID, out, failure
}

func naiveMatches(d edn.Value, failure, class string) bool {
	set, written := d.Get(edn.K("switch-on"))
	if !written {
		return class == "retry" || class == "switch" || class == "repair"
	}
	if set.Has(edn.K(failure)) {
		return true
	}
	return class != "stop" && set.Has(edn.K("class/"+class))
}

// naiveAttempt is one call with its gates.
func naiveAttempt(capID string, attempt int, input, done edn.Value, env naiveEnv) (out edn.Value, failure, class string, answered, crashed, childOnce bool) {
	step := scripted(capID, attempt, collapse(input))
	switch {
	case step.Crash:
		return edn.Nil(), "runtime/crashed", "switch", false, true, false
	case step.Err != nil:
		return edn.Nil(), step.Err.Type, step.Err.Class.String(), false, false, false
	case !step.Raw.IsNil():
		return edn.Nil(), "runtime/invalid-result", "retry", true, false, false
	case !step.Plan.IsNil():
		v, _, _, bad := naivePlan(step.Plan, env)
		if bad != "" {
			return edn.Nil(), bad, "switch", true, false, false
		}
		out = contract.EmitOut(v)
	default:
		out = step.Value
	}
	if out.Kind() != edn.KindMap {
		return out, "schema/invalid", "repair", true, false, false
	}
	ok, _ := out.Key("ok").AsBool()
	switch {
	case !done.IsNil() && !done.Key("must").IsNil() && !ok:
		return out, "eval/must-failed", "repair", true, false, false
	case !done.IsNil() && done.Key("must").IsNil() && !ok:
		return out, "eval/low-score", "repair", true, false, false
	}
	return out, "", "", true, false, false
}

func naiveFailed(v edn.Value) bool {
	return v.Kind() == edn.KindMap && (!v.Key("error").IsNil() || !v.Key("failure/type").IsNil())
}

func naiveWhen(c edn.Value, env naiveEnv) bool {
	if name, ok := c.AsKeyword(); ok {
		return env[name].Truthy()
	}
	if b, ok := c.AsBool(); ok {
		return b
	}
	name := func(key string) string { s, _ := c.Key(key).AsKeyword(); return s }
	switch {
	case c.HasKey("failed?"):
		return naiveFailed(env[name("failed?")])
	case c.HasKey("present?"):
		return !env[name("present?")].IsNil()
	case c.HasKey("not"):
		return !naiveWhen(c.Key("not"), env)
	default:
		return slices.ContainsFunc(slices.Collect(c.Key("or").Elems()), func(x edn.Value) bool { return naiveWhen(x, env) })
	}
}

func naiveFill(v edn.Value, env naiveEnv) (edn.Value, string) { return naiveFillAs(v, env, false) }

// naiveFillAs replaces slot maps. In an emit a whole slot becomes its :out.
func naiveFillAs(v edn.Value, env naiveEnv, emit bool) (edn.Value, string) {
	switch v.Kind() {
	case edn.KindVector:
		var out []edn.Value
		for x := range v.Elems() {
			y, failure := naiveFillAs(x, env, emit)
			if failure != "" {
				return v, failure
			}
			out = append(out, y)
		}
		return edn.Vector(out...), ""
	case edn.KindMap:
		if v.HasKey("slot/id") || v.HasKey("slot/path") {
			return naiveSlot(v, env, emit)
		}
		out := v
		for k, x := range v.Entries() {
			y, failure := naiveFillAs(x, env, emit)
			if failure != "" {
				return v, failure
			}
			out = out.Assoc(k, y)
		}
		return out, ""
	}
	return v, ""
}

func naiveSlot(v edn.Value, env naiveEnv, emit bool) (edn.Value, string) {
	path := []edn.Value{v.Key("slot/id")}
	if v.HasKey("slot/path") {
		path = slices.Collect(v.Key("slot/path").Elems())
	}
	name, _ := path[0].AsKeyword()
	slot := env[name]
	if emit && !isResult(slot) {
		slot = naiveShownInside(slot)
	}
	found, _ := slot.GetIn(path[1:]...)
	if found.IsNil() && len(path) > 1 {
		found, _ = slot.Key("out").GetIn(path[1:]...)
	}
	if emit && len(path) == 1 && isResult(slot) {
		found = naiveShown(slot)
	}
	if !found.IsNil() {
		return found, ""
	}
	if d, ok := v.Get(edn.K("slot/default")); ok {
		return d, ""
	}
	return edn.Nil(), "slot/unresolved"
}

// naiveShown returns the external form of a whole slot (IR-009).
func naiveShown(slot edn.Value) edn.Value {
	if naiveFailed(slot) {
		return slot.Dissoc(edn.K("cap/id"))
	}
	return slot.Key("out")
}

// naiveShownInside shows the whole slots inside the value of a let.
func naiveShownInside(v edn.Value) edn.Value {
	out, err := v.Walk(nil, func(x edn.Value) edn.Value {
		if isResult(x) {
			return naiveShown(x)
		}
		return x
	})
	if err != nil {
		return v
	}
	return out
}

func naiveEmit(v edn.Value, env naiveEnv) (edn.Value, string) {
	if name, ok := v.AsKeyword(); ok {
		slot, filled := env[name]
		switch {
		case !filled || slot.IsNil():
			return v, "slot/unresolved"
		case isResult(slot):
			return naiveShown(slot), ""
		}
		return naiveShownInside(slot), ""
	}
	if name, ok := v.Key("final").AsKeyword(); ok {
		shown, failure := naiveEmit(edn.K(name), env)
		if failure != "" {
			return v, failure
		}
		rest, failure := naiveFillAs(v.Dissoc(edn.K("final")), env, true)
		return rest.AssocKey("final", shown), failure
	}
	return naiveFillAs(v, env, true)
}

func isResult(v edn.Value) bool {
	return v.Kind() == edn.KindMap && (v.HasKey("cap/id") || v.HasKey("plan/run") || v.HasKey("out"))
}

// collapse reduces whole slots and errors at any place to the part that both
// evaluators must agree on.
func collapse(v edn.Value) edn.Value {
	out, err := v.Walk(nil, func(x edn.Value) edn.Value {
		switch {
		case x.Kind() != edn.KindMap:
			return x
		case !x.Key("failure/type").IsNil() && !x.Key("error").IsNil():
			return edn.MustMap(edn.K("failed"), x.Key("failure/type"))
		case x.HasKey("cap/id") || x.HasKey("plan/run"):
			return edn.MustMap(edn.K("out"), x.Key("out"))
		}
		return x
	})
	if err != nil {
		return v
	}
	return out
}

// EVAL-076: the naive evaluator agrees on 10,000 generated plans.
func TestNaiveEvaluatorAgrees(t *testing.T) {
	base := generatedBase(t)
	w := base.Again()
	for _, id := range []string{"g/a", "g/b", "g/c", "g/write", "g/once"} {
		w.Func(id, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
			return scripted(c.CapID, c.Attempt, collapse(c.Request.Key("input")))
		})
	}
	env := plan.Env{Registry: w.Registry, Policies: w.Policies}
	agreed, failed := 0, 0
	for seed := uint64(0); agreed < 10_000; seed++ {
		r := rand.New(rand.NewPCG(seed, 76))
		source := (&gen{pick: func(_ string, below int) int { return r.IntN(below) }}).plan()
		p, findings := plan.Parse(source, nil)
		if p != nil {
			findings = plan.Check(p, env)
		}
		if plan.HasErrors(findings) {
			continue
		}
		emitted, _, _, failure := naivePlan(source, naiveEnv{})
		got := quickRun(t, w, p, env)
		if got.Err != nil {
			failed++
			if got.Err.Type != failure {
				t.Fatalf("seed %d: fails with %v, naively with %q\n%s", seed, got.Err, failure, source)
			}
		} else if a, b := collapse(got.Out), collapse(contract.EmitOut(emitted)); failure != "" || !edn.Equal(a, b) {
			t.Fatalf("seed %d: gives %s, naively %s %s\n%s", seed, a, b, failure, source)
		}
		agreed++
	}
	if failed < agreed/10 || failed > agreed*9/10 {
		t.Errorf("%d of %d plans failed: the generator is lopsided", failed, agreed)
	}
}
