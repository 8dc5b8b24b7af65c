package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/sdk/edn"
)

// words occur in plans, so that random values resemble plans.
var words = []string{
	"op", "let", "call", "tool", "emit", "plan", "map", "nodes", "id", "as", "when", "needs", "value", "input", "intent",
	"cap/id", "cap/ref", "text/respond", "llm/voice", "plan/compile", "fs/write", "tool/id", "effects", "allowed", "none", "dispatch",
	"candidates", "retry", "same-cap-max", "switch-on", "timeout/soft", "done", "must", "legal-move", "over", "body", "item", "x", "y",
	"slot/id", "slot/path", "slot/default", "failed?", "present?", "not", "and", "or", "bindings", "mode", "strict", "final", "context",
	"constraints", "system", "requires", "out-schema", "res/text", "output", "schema", "fn", "budget", "hedge", "out", "text",
}

// genValue draws a value with the keys and keywords of plans.
func genValue(t *rapid.T, depth int) edn.Value {
	word := func() edn.Value { return edn.K(rapid.SampledFrom(words).Draw(t, "word")) }
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth <= 0 {
		kind %= 5
	}
	switch kind {
	case 0, 1:
		return word()
	case 2:
		return edn.Int(rapid.Int64Range(-2, 20).Draw(t, "int"))
	case 3:
		return edn.Text(rapid.SampledFrom([]string{"", "n0", "text"}).Draw(t, "text"))
	case 4:
		return rapid.SampledFrom([]edn.Value{edn.Nil(), edn.Bool(true), edn.Bool(false), edn.MustRead("1.5"), edn.MustRead("#x/y 1")}).Draw(t, "other")
	case 5:
		return edn.Vector(genValues(t, depth)...)
	case 6:
		return edn.List(genValues(t, depth)...)
	case 7:
		return edn.SetOf(genValues(t, depth)...)
	}
	var b edn.MapBuilder
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		b.Set(word(), genValue(t, depth-1))
	}
	return b.Map()
}

func genValues(t *rapid.T, depth int) []edn.Value {
	vs := make([]edn.Value, rapid.IntRange(0, 3).Draw(t, "elements"))
	for i := range vs {
		vs[i] = genValue(t, depth-1)
	}
	return vs
}

// genNode draws a node of a known op with mostly known keys.
func genNode(t *rapid.T, depth int) edn.Value {
	var b edn.MapBuilder
	op := rapid.SampledFrom([]string{"let", "call", "tool", "emit", "plan", "map"}).Draw(t, "op")
	b.Key("op", edn.K(op))
	for range rapid.IntRange(0, 6).Draw(t, "keys") {
		key := rapid.SampledFrom([]string{
			"as", "when", "needs", "value", "input", "intent", "cap/id", "tool/id", "effects", "dispatch", "done", "over", "body",
			"plan", "item", "context", "constraints", "system", "requires", "output", "bindings", "max-parallel", "on-item-error", "id",
		}).Draw(t, "key")
		switch {
		case key == "plan" && depth > 0:
			b.Key(key, edn.MustMap(edn.K("nodes"), genNodes(t, depth-1)))
		case key == "body" && depth > 0:
			b.Key(key, genNodes(t, depth-1))
		case key == "as":
			b.Key(key, edn.K(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "as")))
		default:
			b.Key(key, genValue(t, 3))
		}
	}
	return b.Map()
}

func genNodes(t *rapid.T, depth int) edn.Value {
	vs := make([]edn.Value, rapid.IntRange(0, 5).Draw(t, "nodes"))
	for i := range vs {
		vs[i] = genNode(t, depth)
	}
	return edn.Vector(vs...)
}

// TestAnyPlan: for every value, Parse and Check return findings or a plan that
// links and fills. The result is deterministic, and nothing panics.
func TestAnyPlan(t *testing.T) {
	env := testEnv(t)
	rapid.Check(t, func(rt *rapid.T) {
		v := edn.MustMap(edn.K("nodes"), genNodes(rt, 2))
		if rapid.IntRange(0, 9).Draw(rt, "wild") == 0 {
			v = genValue(rt, 5)
		}
		p, fs := plan.Parse(v, nil)
		if p == nil {
			require.True(rt, plan.HasErrors(fs))
			return
		}
		fs = plan.Check(p, env)
		again, _ := plan.Parse(v, nil)
		require.Equal(rt, render(fs), render(plan.Check(again, env)), "the same value gives the same findings")
		prog, err := plan.Link(p, env)
		if plan.HasErrors(fs) {
			return
		}
		require.Nil(rt, err)
		fillAll(t, plan.NewFrame(prog, edn.Nil()), 0)
	})
}

func render(fs []plan.Finding) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.Render("plan")
	}
	return out
}
