package eval_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The executors of generated plans. Their answers depend only on the
// capability, the number of the attempt and the input, so that two evaluators,
// or one with other timing, must reach the same outcome.
var generatedCaps = []string{
	dispatchtest.Cap("g/a", ":cap/can-produce #{:value :plan}"),
	dispatchtest.Cap("g/b", ""),
	dispatchtest.Cap("g/c", ":cap/deterministic? true"),
	dispatchtest.Cap("g/write", ":cap/effects #{:fs/write} :cap/idempotent? true"),
	dispatchtest.Cap("g/once", ":cap/effects #{:fs/write}"),
}

var generatedIDs = []string{"g/a", "g/b", "g/c", "g/write", "g/once"}

// goodCheck requires :ok true in the answer.
func goodCheck() quality.Check {
	return quality.Check{
		Check: registry.Check{Name: "good", Kind: registry.CheckCondition},
		Judge: func(s quality.Subject) quality.Outcome {
			if s.Result.Key("ok").Truthy() {
				return quality.Passed()
			}
			return quality.Failed(quality.Finding{Message: "not ok"})
		},
	}
}

func generatedBase(t testing.TB) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: generatedCaps, Checks: []quality.Check{goodCheck()}})
}

// generatedWorld answers after a delay that depends on the seed: another seed
// is another order of completion.
func generatedWorld(base *dispatchtest.World, seed uint64) *dispatchtest.World {
	w := base.Again()
	for _, id := range generatedIDs {
		w.Func(id, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
			// The error in a slot has a measured duration and a place. No
			// executor here reads them.
			step := scripted(c.CapID, c.Attempt, without(timeless(c.Request.Key("input")), edn.K("where"), edn.K("effect/key")))
			if seed > 0 {
				step.Delay = time.Duration(draw(seed, c.Path, c.Attempt, 1000)) * time.Millisecond
			}
			return step
		})
	}
	return w
}

func draw(seed uint64, v edn.Value, n, below int) int {
	text := binary.BigEndian.AppendUint64(nil, seed)
	text = binary.BigEndian.AppendUint64(text, uint64(n))
	sum := blake3.Sum256(v.AppendCanonical(text))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(below))
}

// scripted returns the answer of a capability to an input at its nth attempt.
func scripted(capID string, attempt int, input edn.Value) dispatchtest.Step {
	k := draw(7, edn.Vector(edn.Text(capID), input), attempt, 100)
	switch {
	case k < 8:
		return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "scripted")}
	case k < 16:
		return dispatchtest.Step{Err: contract.Errorf("runtime/invoke-failed", "scripted")}
	case k < 19:
		return dispatchtest.Step{Err: contract.Errorf("input/invalid", "scripted")}
	case k < 22:
		return dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :value}}`)}
	case k < 25:
		return dispatchtest.Step{Crash: true}
	case k < 28:
		return dispatchtest.Step{Value: edn.MustRead(`"no map"`)}
	case k < 40 && capID == "g/a":
		return dispatchtest.Step{Plan: edn.MustRead(fmt.Sprintf(
			`{:nodes [{:op :call :id "p" :intent :text/respond :input {:k %d} :as :inner :dispatch {:candidates [:g/b]}} {:op :emit :input {:final :inner :seen {:slot/id :s0 :slot/default 0}}}]}`, k))}
	}
	out := edn.MustMap(edn.K("n"), edn.Int(int64(k)), edn.K("ok"), edn.Bool(k%4 != 0), edn.K("text"), edn.Text(fmt.Sprint("t", k)))
	return dispatchtest.Step{Value: out, Usage: edn.MustMap(edn.K("tokens-in"), edn.Int(int64(k)), edn.K("cost-usd"), edn.MustDecimal(fmt.Sprintf("0.%03d", k)))}
}

// gen builds random plans from a source of numbers.
type gen struct {
	pick  func(label string, below int) int
	names int
}

func (g *gen) flip(label string, oneIn int) bool { return g.pick(label, oneIn) == 0 }

// drawPlan returns a random plan in a random mode.
func drawPlan(t *rapid.T) edn.Value {
	g := &gen{pick: func(label string, below int) int { return rapid.IntRange(0, below-1).Draw(t, label) }}
	return g.plan()
}

func (g *gen) plan() edn.Value {
	return edn.MustMap(
		edn.K("nodes"), g.nodes(nil, 0, 1+g.pick("nodes", 7)),
		edn.K("max-parallel"), edn.Int(int64(1+g.pick("parallel", 8))))
}

func (g *gen) nodes(seen []string, depth, n int) edn.Value {
	out := make([]edn.Value, 0, n)
	for range n {
		node, as := g.node(seen, depth)
		out = append(out, node)
		if as != "" {
			seen = append(seen, as)
		}
	}
	return edn.Vector(out...)
}

func (g *gen) node(seen []string, depth int) (edn.Value, string) {
	var b edn.MapBuilder
	as := ""
	if !g.flip("unnamed", 6) {
		as = fmt.Sprint("s", g.names)
		g.names++
	}
	kind := g.pick("op", 12)
	if depth >= 2 && kind >= 10 {
		kind = 5
	}
	switch {
	case kind < 2:
		b.Key("op", edn.K("let"))
		b.Key("value", g.value(seen))
	case kind < 4:
		b.Key("op", edn.K("emit"))
		b.Key("input", g.emitted(seen))
		as = ""
	case kind < 10:
		g.call(&b, seen)
	case kind < 11:
		b.Key("op", edn.K("plan"))
		b.Key("plan", edn.MustMap(edn.K("nodes"), g.nodes(seen, depth+1, 1+g.pick("inner", 3))))
	default:
		b.Key("op", edn.K("map"))
		b.Key("over", edn.MustRead([]string{"[1 2 3]", "[]", "#{5 4}", "{:a 1 :b 2}"}[g.pick("over", 4)]))
		b.Key("body", g.nodes(append(seen[:len(seen):len(seen)], "item"), depth+1, 1+g.pick("body", 2)))
		b.Key("max-parallel", edn.Int(int64(1+g.pick("map parallel", 4))))
		if g.flip("keep", 2) {
			b.Key("on-item-error", edn.K("keep"))
		}
	}
	if as != "" {
		b.Key("as", edn.K(as))
	}
	if len(seen) > 0 && g.flip("when", 4) {
		b.Key("when", g.when(seen))
	}
	return b.Map(), as
}

func (g *gen) call(b *edn.MapBuilder, seen []string) {
	b.Key("op", edn.K("call"))
	b.Key("intent", edn.K("text/respond"))
	b.Key("input", edn.MustMap(edn.K("k"), edn.Int(int64(g.pick("k", 1000))), edn.K("v"), g.value(seen)))
	cands := [][]string{{"g/b"}, {"g/c", "g/b"}, {"g/a", "g/b", "g/c"}, {"g/write", "g/b"}, {"g/once"}}[g.pick("candidates", 5)]
	vs := make([]edn.Value, len(cands))
	for i, c := range cands {
		vs[i] = edn.K(c)
	}
	var d edn.MapBuilder
	d.Key("candidates", edn.Vector(vs...))
	d.Key("retry", edn.MustMap(edn.K("same-cap-max"), edn.Int(int64(g.pick("same", 3))), edn.K("fallback-max"), edn.Int(int64(g.pick("fallback", 3)))))
	if g.flip("allow", 3) {
		d.Key("allow-failure?", edn.Bool(true))
	}
	if g.flip("switch on", 4) {
		d.Key("switch-on", edn.Keywords([]string{"class/retry", "class/switch", "schema/invalid"}[:g.pick("members", 4)]...))
	}
	b.Key("dispatch", d.Map())
	switch g.pick("gates", 4) {
	case 0:
		b.Key("done", edn.MustRead(`{:must #{:good}}`))
	case 1:
		b.Key("done", edn.MustRead(`{:should #{:good} :score-min 0.5}`))
	}
}

// value returns a template that reads earlier slots, mostly with a default.
func (g *gen) value(seen []string) edn.Value {
	if len(seen) == 0 || g.flip("constant", 3) {
		return edn.Int(int64(g.pick("constant", 10)))
	}
	name := edn.K(seen[g.pick("slot", len(seen))])
	var b edn.MapBuilder
	switch g.pick("path", 4) {
	case 0:
		b.Key("slot/id", name)
	case 1:
		b.Key("slot/path", edn.Vector(name, edn.K("n")))
	case 2:
		b.Key("slot/path", edn.Vector(name, edn.K("out"), edn.K("text")))
	default:
		b.Key("slot/path", edn.Vector(name, edn.K("failure/type")))
	}
	if !g.flip("no default", 8) {
		b.Key("slot/default", edn.Int(-1))
	}
	if g.flip("nested", 2) {
		return edn.MustMap(edn.K("deep"), edn.Vector(b.Map(), edn.Int(1)))
	}
	return b.Map()
}

func (g *gen) emitted(seen []string) edn.Value {
	if len(seen) > 0 && g.flip("whole", 3) {
		return edn.K(seen[g.pick("emit", len(seen))])
	}
	return edn.MustMap(edn.K("v"), g.value(seen))
}

func (g *gen) when(seen []string) edn.Value {
	name := edn.K(seen[g.pick("cond", len(seen))])
	switch g.pick("when kind", 5) {
	case 0:
		return name
	case 1:
		return edn.MustMap(edn.K("failed?"), name)
	case 2:
		return edn.MustMap(edn.K("not"), edn.MustMap(edn.K("failed?"), name))
	case 3:
		return edn.MustMap(edn.K("present?"), name)
	default:
		return edn.MustMap(edn.K("or"), edn.Vector(edn.MustMap(edn.K("present?"), name), edn.Bool(g.flip("true", 2))))
	}
}
