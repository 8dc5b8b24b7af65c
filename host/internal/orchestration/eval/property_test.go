package eval_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// told is the outcome of a run, without anything that depends on timing.
type told struct {
	out    string
	fails  string
	nodes  map[string][]string // records by node path
	failed []edn.Value         // paths of failed nodes
}

// tell runs a plan in a synctest bubble.
func tell(t *testing.T, base *dispatchtest.World, source edn.Value, seed uint64) told {
	var r ran
	synctest.Test(t, func(t *testing.T) {
		r = runValue(context.Background(), t, generatedWorld(base, seed), source)
	})
	return toldOf(r)
}

// toldOf returns the outcome of a finished run.
func toldOf(r ran) told {
	out := told{nodes: map[string][]string{}}
	if r.Err == nil {
		out.out = timeless(r.Out).String()
	} else {
		out.fails = r.Err.Type + " at " + r.Err.Where.Key("path").String()
	}
	for _, rec := range r.records {
		if rec.Path.Len() == 0 {
			continue // of the run, and of the root plan, whose mode differs
		}
		v := timeless(rec.Value().Dissoc(edn.K("at"), edn.K("seq")))
		if c, ok := rec.Body.(*journal.NodeCommitted); ok {
			v = v.AssocKey("value", timeless(c.Value.Value()))
		}
		if a, ok := rec.Body.(*journal.AttemptStarted); ok {
			v = v.AssocKey("request", timeless(a.Request.Value()))
		}
		key := rec.Path.String()
		out.nodes[key] = append(out.nodes[key], v.String())
		if rec.Body.Kind() == journal.KindNodeFailed {
			out.failed = append(out.failed, rec.Path)
		}
	}
	return out
}

// timeless removes measured values, and the count of the errors that are not
// reported.
func timeless(v edn.Value) edn.Value { return without(v, edn.K("latency-ms"), edn.K("others-failed")) }

// without removes keys at any depth.
func without(v edn.Value, keys ...edn.Value) edn.Value {
	out, err := v.Walk(nil, func(x edn.Value) edn.Value {
		if x.Kind() != edn.KindMap {
			return x
		}
		return x.Dissoc(keys...)
	})
	if err != nil {
		return v
	}
	return out
}

// before lists the records of all nodes except those after a failed node of
// the same plan, or after a failed item of the same map: these may or may not
// have begun.
func (x told) before() string {
	failed := slices.Clone(x.failed)
	for _, f := range x.failed {
		// The error of an item is that of the map, unless it was kept.
		item, mapNode := cut(f, 1), cut(f, 2)
		if isItem(item) && slices.ContainsFunc(x.failed, mapNode.Equal) {
			failed = append(failed, item)
		}
	}
	var b strings.Builder
	for _, path := range sorted(x.nodes) {
		if p := edn.MustRead(path); !slices.ContainsFunc(failed, func(f edn.Value) bool { return behind(p, f) }) {
			fmt.Fprintln(&b, path, strings.Join(x.nodes[path], "\n  "))
		}
	}
	return b.String()
}

func cut(path edn.Value, n int) edn.Value {
	all := slices.Collect(path.Elems())
	return edn.Vector(all[:max(0, len(all)-n)]...)
}

func isItem(path edn.Value) bool {
	last, _ := path.Nth(path.Len() - 1)
	return place(last) >= 0 && last.IsString()
}

// place returns the position of a path element among its siblings, -1 for the
// element of a plan answer.
func place(e edn.Value) int {
	if i, ok := e.AsInt(); ok {
		return int(i)
	}
	text, _ := e.AsString()
	i, err := strconv.Atoi(strings.TrimPrefix(text, "i"))
	if err != nil {
		return -1
	}
	return i
}

// behind reports whether a path leads to or through a later sibling of a node.
func behind(path, node edn.Value) bool {
	last := node.Len() - 1
	if path.Len() < node.Len() {
		return false
	}
	for i := range last {
		x, _ := path.Nth(i)
		y, _ := node.Nth(i)
		if !edn.Equal(x, y) {
			return false
		}
	}
	x, _ := path.Nth(last)
	y, _ := node.Nth(last)
	return place(y) >= 0 && place(x) > place(y)
}

// difference returns the first line in which two texts differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		if i >= len(x) || i >= len(y) || x[i] != y[i] {
			return strings.Join(append(x[min(i, len(x)):min(i+1, len(x))], y[min(i, len(y)):min(i+1, len(y))]...), "\n but ")
		}
	}
	return ""
}

func sorted(m map[string][]string) []string { return slices.Sorted(maps.Keys(m)) }

// soundPlan draws plans until one passes its checks.
func soundPlan(w *dispatchtest.World, rt *rapid.T) edn.Value {
	env := plan.Env{Registry: w.Registry, Policies: w.Policies}
	source := drawPlan(rt)
	p, findings := plan.Parse(source, nil)
	if p != nil {
		findings = plan.Check(p, env)
	}
	if plan.HasErrors(findings) {
		rt.SkipNow()
	}
	return source
}

// EVAL-070, SCHED-003: strict, hybrid and lazy give the same result, slots and
// verdicts, and any order of completion gives the same records per node. 1,000
// orders, spread over the plans.
func TestTimingChangesNothing(t *testing.T) {
	const shuffles = 10
	base := generatedBase(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := soundPlan(base, rt)
		mode := func(m string) edn.Value { return source.AssocKey("mode", edn.K(m)) }
		want := tell(t, base, mode("strict"), 0)
		for i := range uint64(shuffles) {
			for _, m := range []string{"hybrid", "lazy"} {
				got := tell(t, base, mode(m), 1+i)
				if got.out != want.out || got.fails != want.fails {
					rt.Fatalf("%s, order %d: %s %s, not %s %s\n%s", m, i, got.fails, got.out, want.fails, want.out, source)
				}
				if a, b := want.before(), got.before(); a != b {
					rt.Fatalf("%s, order %d: records differ: %s\n%s", m, i, difference(a, b), source)
				}
			}
		}
	})
}

// DET-001: the same plan, seed and answers give the same records on every run.
func TestRunsAreDeterministic(t *testing.T) {
	base := generatedBase(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := soundPlan(base, rt)
		a, b := tell(t, base, source, 3), tell(t, base, source, 3)
		if a.before() != b.before() || a.out != b.out || a.fails != b.fails {
			rt.Fatalf("two runs differ:\n%s\n%s", a.before(), b.before())
		}
	})
}

// EVAL-070: adding a let that no node reads, and wrapping all nodes in a plan,
// do not change the outcome.
func TestHarmlessChanges(t *testing.T) {
	base := generatedBase(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := soundPlan(base, rt)
		want := tell(t, base, source, 0)
		var list []edn.Value
		for n := range source.Key("nodes").Elems() {
			list = append(list, n)
		}
		unread := edn.MustRead(`{:op :let :value 1 :as :nobody-reads-this}`)
		wrapped := edn.MustMap(edn.K("nodes"), edn.Vector(
			edn.MustMap(edn.K("op"), edn.K("plan"), edn.K("plan"), source, edn.K("as"), edn.K("whole")),
			edn.MustRead(`{:op :emit :input {:slot/path [:whole :out]}}`)))
		for name, changed := range map[string]edn.Value{
			"unread let": source.AssocKey("nodes", edn.Vector(append(list, unread)...)), "wrapped": wrapped,
		} {
			if got := tell(t, base, changed, 0); got.what() != want.what() {
				rt.Fatalf("%s: %s, not %s\n%s", name, got.what(), want.what(), source)
			}
		}
	})
}

// what returns the outcome without its places.
func (x told) what() string {
	typ, _, _ := strings.Cut(x.fails, " ")
	if x.out == "" {
		return typ
	}
	return without(edn.MustRead(x.out), edn.K("where"), edn.K("effect/key")).String()
}
