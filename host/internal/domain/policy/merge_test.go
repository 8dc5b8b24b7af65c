package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var (
	byDefault = policy.Origin{Source: policy.SourceDefault, Where: "ferment.hcl:1:1"}
	byIntent  = policy.Origin{Source: policy.SourceIntent, Where: "ferment.hcl:9:3"}
	byNode    = policy.Origin{Source: policy.SourceNode, Where: "[:nodes 0]"}
)

func names(from policy.Origin, list ...string) policy.Names { return policy.NamesOf(from, list...) }

func written(from policy.Origin, list ...string) policy.Val[policy.Names] {
	return policy.Of(names(from, list...), from)
}

// mergeAll folds layers, weakest first.
func mergeAll(layers ...policy.Layer) policy.Layer {
	var out policy.Layer
	for _, l := range layers {
		out = policy.Merge(out, l)
	}
	return out
}

func resolve(t *testing.T, layers ...policy.Layer) policy.Policy {
	t.Helper()
	p, err := mergeAll(layers...).Resolve()
	require.NoError(t, err)
	return p
}

// TestMergeTable holds the rows of the table of POL-001: the values of the
// default, the intent and the node, and the effective value.
func TestMergeTable(t *testing.T) {
	t.Run("candidates: nearest wins, fallbacks appended", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Fallbacks: names(byDefault, "x/c")},
			policy.Layer{Candidates: policy.Of([]string{"x/a", "x/b"}, byIntent)},
			policy.Layer{})
		d := policy.Demand{Registry: openRegistry(t), Intent: "x/do", Layer: &p.Layer}
		assert.Equal(t, []string{"x/a", "x/b", "x/c"}, d.List())
	})
	t.Run("fallback lists: concatenate, drop duplicates", func(t *testing.T) {
		p := resolve(t, policy.Layer{Fallbacks: names(byDefault, "x/x", "x/y")}, policy.Layer{Fallbacks: names(byIntent, "x/y", "x/z")})
		assert.Equal(t, []string{"x/x", "x/y", "x/z"}, p.Fallbacks)
	})
	t.Run("retry per field: nearest wins, else 0 (ATT-001)", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{SameCapMax: policy.Of(1, byDefault)},
			policy.Layer{FallbackMax: policy.Of(2, byIntent)},
			policy.Layer{SameCapMax: policy.Of(0, byNode)})
		assert.Equal(t, 0, p.SameCapMax)
		assert.Equal(t, 2, p.FallbackMax)
		assert.Zero(t, resolve(t).FallbackMax)
	})
	t.Run("switch-on: union", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{SwitchOn: policy.Additive{Add: written(byDefault, "timeout/soft")}},
			policy.Layer{SwitchOn: policy.Additive{Add: written(byIntent, "runtime/crashed")}},
			policy.Layer{SwitchOn: policy.Additive{Add: written(byNode, "stream/*")}})
		assert.Equal(t, []string{"timeout/soft", "runtime/crashed", "stream/*"}, p.SwitchOnNames)
	})
	t.Run("switch-on: an empty replacement leaves none (ATT-002)", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{SwitchOn: policy.Additive{Add: written(byDefault, "timeout/soft")}},
			policy.Layer{SwitchOn: policy.Additive{Base: written(byNode)}})
		assert.Empty(t, p.SwitchOnNames)
		assert.NotNil(t, p.SwitchOnNames)
		assert.False(t, p.SwitchOn.Matches(contract.Errorf("timeout/soft", "slow")))
	})
	t.Run("switch-on: a policy's replacement is widened again by stronger layers", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{SwitchOn: policy.Additive{Add: written(byDefault, "timeout/soft")}},
			policy.Layer{SwitchOn: policy.Additive{Base: written(byIntent, "runtime/crashed")}},
			policy.Layer{SwitchOn: policy.Additive{Add: written(byNode, "breaker/open")}})
		assert.Equal(t, []string{"runtime/crashed", "breaker/open"}, p.SwitchOnNames)
	})
	t.Run("switch-on: nobody writes it, the full set stands in (ATT-009)", func(t *testing.T) {
		p := resolve(t, policy.Layer{})
		assert.Nil(t, p.SwitchOnNames)
		assert.True(t, p.SwitchOn.Matches(contract.Errorf("runtime/crashed", "gone")))
		assert.False(t, p.SwitchOn.Matches(contract.Errorf("input/invalid", "no")))
	})
	t.Run("checks: union", func(t *testing.T) {
		p := resolve(t, checks(byDefault, "p"), checks(byIntent, "q"), checks(byNode, "r"))
		assert.Equal(t, []string{"p", "q", "r"}, p.Must)
	})
	t.Run("checks: hard replaces the list (GATE-001)", func(t *testing.T) {
		p := resolve(t, checks(byDefault, "p"), checks(byIntent, "q"),
			policy.Layer{Checks: policy.Additive{Base: written(byNode, "s")}})
		assert.Equal(t, []string{"s"}, p.Must)
		p = resolve(t, checks(byDefault, "p"), policy.Layer{Must: names(byIntent, "m")},
			policy.Layer{Checks: policy.Additive{Base: written(byNode, "s")}, Must: names(byNode, "n")})
		assert.Equal(t, []string{"m", "n", "s"}, p.Must, "it joins the musts, and replaces none of them")
		p = resolve(t, checks(byDefault, "p"), policy.Layer{Must: names(byIntent, "m")},
			policy.Layer{Checks: policy.Additive{Base: written(byNode)}})
		assert.Equal(t, []string{"m"}, p.Must, "an empty list is one that is written")
	})
	t.Run("must and should: union, a name in both is must (GATE-001)", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Must: names(byDefault, "m")},
			policy.Layer{Should: names(byIntent, "s", "t")},
			policy.Layer{Must: names(byNode, "s")})
		assert.Equal(t, []string{"m", "s"}, p.Must)
		assert.Equal(t, []string{"t"}, p.Should)
	})
	t.Run("soft checks join should, hard ones must (GATE-001)", func(t *testing.T) {
		p := resolve(t, policy.Layer{Soft: names(byNode, "a", "b"), Checks: policy.Additive{Add: written(byNode, "b")}})
		assert.Equal(t, []string{"b"}, p.Must)
		assert.Equal(t, []string{"a"}, p.Should)
	})
	t.Run("score-min: nearest wins", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{ScoreMin: policy.Of(edn.MustDecimal("0.8"), byDefault)},
			policy.Layer{ScoreMin: policy.Of(edn.MustDecimal("0.9"), byIntent)},
			policy.Layer{})
		assert.Equal(t, "0.9M", p.ScoreMin.String())
		p = resolve(t,
			policy.Layer{ScoreMin: policy.Of(edn.MustDecimal("0.8"), byDefault)},
			policy.Layer{ScoreMin: policy.Of(edn.MustDecimal("0.9"), byIntent)},
			policy.Layer{ScoreMin: policy.Of(edn.MustDecimal("0.1"), byNode)})
		assert.Equal(t, "0.1M", p.ScoreMin.String(), "the node may lower it (GATE-001)")
		assert.Equal(t, "0", resolve(t).ScoreMin.String())
	})
	t.Run("context and constraints: shallow merge, nearest wins per key", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{},
			policy.Layer{Constraints: policy.FieldsOf(edn.MustRead("{:language :en :style :dry}"), byIntent)},
			policy.Layer{Constraints: policy.FieldsOf(edn.MustRead("{:language :pl}"), byNode)})
		assert.Equal(t, "{:language :pl :style :dry}", p.Constraints.String())
	})
	t.Run("budget: minimum per dimension", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Budget: policy.FieldsOf(edn.MustRead("{:max-tokens 900 :max-usd 1.5M}"), byDefault)},
			policy.Layer{Budget: policy.FieldsOf(edn.MustRead("{:max-tokens 420}"), byIntent)},
			policy.Layer{Budget: policy.FieldsOf(edn.MustRead("{:max-tokens 1200 :max-usd 2}"), byNode)})
		assert.Equal(t, "{:max-tokens 420 :max-usd 1.5M}", p.Budget.String())
	})
	t.Run("effects: intersection (FX-001)", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Effects: policy.Of([]string{"fs/read", "fs/write"}, byDefault)},
			policy.Layer{Effects: policy.Of([]string{"fs/read"}, byNode)})
		assert.Equal(t, []string{"fs/read"}, p.Effects)
		_, ok := p.Layer.AllowsEffects([]string{"none", "fs/read"})
		assert.True(t, ok)
		missing, ok := p.Layer.AllowsEffects([]string{"fs/read", "fs/write"})
		assert.False(t, ok)
		assert.Equal(t, "fs/write", missing)
	})
	t.Run("requires: two different values contradict", func(t *testing.T) {
		same := policy.Requires{OutSchema: policy.Of("res/text", byIntent)}
		p := resolve(t, policy.Layer{Requires: same}, policy.Layer{Requires: policy.Requires{OutSchema: policy.Of("res/text", byNode)}})
		assert.Empty(t, p.Conflicts)
		p = resolve(t, policy.Layer{Requires: same}, policy.Layer{Requires: policy.Requires{OutSchema: policy.Of("res/code", byNode)}})
		assert.Equal(t, []string{"out-schema"}, p.Conflicts)
	})
	t.Run("deadline: minimum", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Deadline: policy.Of(time.Second, byDefault)},
			policy.Layer{Deadline: policy.Of(time.Minute, byNode)})
		assert.Equal(t, time.Second, p.Deadline)
	})
	t.Run("exclude: union, applied last", func(t *testing.T) {
		p := resolve(t,
			policy.Layer{Exclude: names(byDefault, "x/a"), Fallbacks: names(byDefault, "x/c")},
			policy.Layer{Exclude: names(byNode, "x/c"), Candidates: policy.Of([]string{"x/a", "x/b"}, byNode)})
		d := policy.Demand{Registry: openRegistry(t), Intent: "x/do", Layer: &p.Layer}
		assert.Equal(t, []string{"x/b"}, d.List())
	})
}

func checks(from policy.Origin, list ...string) policy.Layer {
	return policy.Layer{Checks: policy.Additive{Add: written(from, list...)}}
}

// TestMaxAttempts: IR-008, `:max-attempts` bounds only retries of invalid
// answers.
func TestMaxAttempts(t *testing.T) {
	p := resolve(t, policy.Layer{SameCapMax: policy.Of(1, byIntent)}, policy.Layer{InvalidRetryMax: policy.Of(3, byNode)})
	assert.Equal(t, 3, p.Retries("runtime/invalid-result"))
	assert.Equal(t, 3, p.Retries("schema/invalid"))
	assert.Equal(t, 1, p.Retries("timeout/soft"))
}

func TestUnknownSwitchOnMember(t *testing.T) {
	_, err := policy.Layer{SwitchOn: policy.Additive{Add: written(byNode, "runtime/crushed")}}.Resolve()
	require.Error(t, err)
	assert.Contains(t, err.Error(), "runtime/crashed")
}

// dump prints every value that merging may change.
func dump(l policy.Layer) string {
	var b strings.Builder
	p := policy.Policy{Layer: l}
	for _, r := range p.Explain() {
		fmt.Fprintf(&b, "%s = %s (%v)\n", r.Field, r.Value, r.Origin)
	}
	fmt.Fprintln(&b, l.SwitchOn.Written(), l.SwitchOn.Base.Set, l.Checks.Written(), l.Checks.Base.Set, l.Conflicts)
	for _, f := range l.Budget {
		fmt.Fprintln(&b, f.Key, f.Raises)
	}
	fmt.Fprintln(&b, l.Swap, l.Breaker)
	if l.Learned != nil {
		fmt.Fprintf(&b, "%+v\n", *l.Learned)
	}
	return b.String()
}

// TestMergeLaws: merging is associative and the absent layer is its identity
// (POL-001, EVAL-071), origins included.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genLayer(t, "a"), genLayer(t, "b"), genLayer(t, "c")
		before := dump(a) + dump(b) + dump(c)
		left := policy.Merge(policy.Merge(a, b), c)
		right := policy.Merge(a, policy.Merge(b, c))
		assert.Equal(t, dump(left), dump(right))
		assert.Equal(t, dump(a), dump(policy.Merge(policy.Layer{}, a)))
		assert.Equal(t, dump(a), dump(policy.Merge(a, policy.Layer{})))
		assert.Equal(t, before, dump(a)+dump(b)+dump(c), "operands stay as they are")
	})
}

// TestMergeChoice: MergeChoice merges the values that binding reads like Merge.
func TestMergeChoice(t *testing.T) {
	choice := func(l policy.Layer) string {
		return dump(policy.Layer{
			Candidates: l.Candidates, Fallbacks: l.Fallbacks, Exclude: l.Exclude, Swap: l.Swap, FallbackMax: l.FallbackMax,
			Effects: l.Effects, Scopes: l.Scopes, Requires: l.Requires, Conflicts: l.Conflicts,
		})
	}
	var dst policy.Layer
	rapid.Check(t, func(t *rapid.T) {
		a, b := genLayer(t, "a"), genLayer(t, "b")
		policy.MergeChoice(&dst, &a, &b)
		assert.Equal(t, choice(policy.Merge(a, b)), choice(dst))
	})
}

// TestNarrowing: effects never widen, and limits rise only above those of a layer that
// may raise them (POL-001, EVAL-071).
func TestNarrowing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genLayer(t, "a"), genLayer(t, "b")
		m := policy.Merge(a, b)
		for _, part := range []policy.Layer{a, b} {
			if part.Effects.Set {
				assert.Subset(t, part.Effects.V, m.Effects.V)
			}
			if part.Deadline.Set {
				assert.LessOrEqual(t, m.Deadline.V, part.Deadline.V)
			}
			for _, f := range part.Budget {
				if i := slices.IndexFunc(b.Budget, func(l policy.Field) bool { return l.Raises && edn.Equal(l.Key, f.Key) }); i >= 0 {
					f = b.Budget[i] // it replaces that of a
				}
				was, _ := f.Value.AsInt()
				now, ok := m.Budget.Value().Get(f.Key)
				require.True(t, ok)
				n, _ := now.AsInt()
				assert.LessOrEqual(t, n, was)
			}
		}
	})
}

func genLayer(t *rapid.T, where string) policy.Layer {
	from := policy.Origin{Source: policy.Source(rapid.IntRange(0, 6).Draw(t, "source")), Where: where}
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"x/a", "x/b", "x/c", "x/d"}), 0, 4)
	set := func() bool { return rapid.Bool().Draw(t, "set") }
	list := func() policy.Names { return policy.NamesOf(from, ids.Draw(t, "ids")...) }
	val := func() (v policy.Val[policy.Names]) {
		if set() {
			v = policy.Of(list(), from)
		}
		return v
	}
	num := func(hi int) (v policy.Val[int]) {
		if set() {
			v = policy.Of(rapid.IntRange(0, hi).Draw(t, "n"), from)
		}
		return v
	}
	str := func() (v policy.Val[string]) {
		if set() {
			v = policy.Of(rapid.SampledFrom([]string{"res/a", "res/b"}).Draw(t, "s"), from)
		}
		return v
	}
	strs := func() (v policy.Val[[]string]) {
		if set() {
			v = policy.Of(policy.NamesOf(from, ids.Draw(t, "ids")...).Strings(), from)
		}
		return v
	}
	dur := func() (v policy.Val[time.Duration]) {
		if set() {
			v = policy.Of(time.Duration(rapid.IntRange(1, 5).Draw(t, "d"))*time.Second, from)
		}
		return v
	}
	fields := func() policy.Fields {
		var b edn.MapBuilder
		for _, k := range rapid.SliceOfN(rapid.SampledFrom([]string{"max-tokens", "max-usd", "language"}), 0, 3).Draw(t, "keys") {
			b.Key(k, edn.Int(rapid.Int64Range(0, 9).Draw(t, "v")))
		}
		return policy.FieldsOf(b.Map(), from)
	}
	limits := func() policy.Fields {
		all := fields()
		for i := range all {
			all[i].Raises = rapid.IntRange(0, 4).Draw(t, "raises") == 0
		}
		return all
	}
	value := func() (v policy.Val[edn.Value]) {
		if set() {
			v = policy.Of(edn.Int(rapid.Int64Range(0, 2).Draw(t, "value")), from)
		}
		return v
	}
	share := func() (v policy.Val[float64]) {
		if set() {
			v = policy.Of(rapid.SampledFrom([]float64{0, 0.25, 0.5}).Draw(t, "share"), from)
		}
		return v
	}
	var swap map[string]string
	if set() {
		swap = map[string]string{"x/a": rapid.SampledFrom([]string{"x/b", "x/c"}).Draw(t, "swap")}
	}
	var learned *policy.LearnedLayer
	if set() {
		learned = &policy.LearnedLayer{Explore: share(), HalfLife: dur(), CostWeight: share(), LatencyWeight: share(), Bucket: str()}
		if set() {
			learned.Prior = policy.Of(policy.Prior{Passes: 2, Fails: float64(rapid.IntRange(1, 3).Draw(t, "fails"))}, from)
		}
		for _, id := range ids.Draw(t, "with a prior") {
			if learned.Priors == nil {
				learned.Priors = map[string]policy.Prior{}
			}
			learned.Priors[id] = policy.Prior{Passes: float64(rapid.IntRange(1, 3).Draw(t, "passes")), Fails: 1}
		}
	}
	breaker := registry.Breaker{Window: rapid.IntRange(0, 2).Draw(t, "window"), Base: time.Duration(rapid.IntRange(0, 2).Draw(t, "base"))}
	return policy.Layer{
		ScoreMin: value(), Model: value(), Temperature: value(), Judge: str(), JudgeSeverity: str(), Stream: str(),
		RepairMax: num(3), RaceWidth: num(3), TournamentWidth: num(3), HedgeMax: num(3), HedgeAfter: dur(),
		Learned: learned, Breaker: breaker,
		Candidates: strs(), Fallbacks: list(), Exclude: list(), Swap: swap,
		SameCapMax: num(3), FallbackMax: num(3), InvalidRetryMax: num(3), Backoff: dur(), MaxBackoff: dur(),
		SwitchOn: policy.Additive{Base: val(), Add: val()},
		Checks:   policy.Additive{Base: val(), Add: val()},
		Soft:     list(), Must: list(), Should: list(),
		Strategy: str(), Ordering: str(), Role: str(),
		Context: fields(), Constraints: fields(), Budget: limits(),
		Effects: strs(),
		Requires: policy.Requires{
			InSchema: str(), OutSchema: str(), ResultType: str(), CapKind: str(), CapTags: strs(), Effects: strs(),
		},
		Deadline: dur(), Extend: dur(),
	}
}

// TestExplainNamesLayers: each value is printed with its layer (POL-001).
func TestExplainNamesLayers(t *testing.T) {
	p := resolve(t,
		policy.Layer{SameCapMax: policy.Of(1, byDefault), SwitchOn: policy.Additive{Add: written(byDefault, "timeout/soft")}},
		policy.Layer{Constraints: policy.FieldsOf(edn.MustRead("{:language :en}"), byIntent)},
		policy.Layer{SameCapMax: policy.Of(2, byNode), SwitchOn: policy.Additive{Add: written(byNode, "timeout/soft", "breaker/open")}})
	var lines []string
	for _, r := range p.Explain() {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", r.Field, r.Value, r.Origin.Source, r.Origin.Where))
	}
	assert.Equal(t, []string{
		":retry :same-cap-max 2 node [:nodes 0]",
		":switch-on :timeout/soft default ferment.hcl:1:1",
		":switch-on :breaker/open node [:nodes 0]",
		":constraints :language :en intent ferment.hcl:9:3",
	}, lines)
}

// POL-001: every value that a layer may write is listed with its layer.
func TestExplainListsEverything(t *testing.T) {
	text := func(s string) policy.Val[string] { return policy.Of(s, byNode) }
	texts := func(s ...string) policy.Val[[]string] { return policy.Of(s, byNode) }
	number := func(n int) policy.Val[int] { return policy.Of(n, byNode) }
	wait := func(ms int) policy.Val[time.Duration] { return policy.Of(time.Duration(ms)*time.Millisecond, byNode) }
	value := func(s string) policy.Val[edn.Value] { return policy.Of(edn.MustRead(s), byNode) }
	entries := func(s string) policy.Fields { return policy.FieldsOf(edn.MustRead(s), byNode) }
	layer := policy.Layer{
		Candidates:      texts("x/a", "x/b"),
		Fallbacks:       names(byNode, "x/c"),
		Exclude:         names(byNode, "x/d"),
		SameCapMax:      number(1),
		FallbackMax:     number(2),
		Backoff:         wait(3),
		MaxBackoff:      wait(4),
		InvalidRetryMax: number(5),
		SwitchOn:        policy.Additive{Base: written(byIntent)},
		Checks:          policy.Additive{Add: written(byNode, "c/one", "c/two")},
		Soft:            names(byNode, "c/soft"),
		Must:            names(byNode, "c/must"),
		Should:          names(byNode, "c/should"),
		ScoreMin:        value("0.5M"),
		Judge:           text("main"),
		JudgeSeverity:   text("must"),
		RepairMax:       number(6),
		Strategy:        text("hedge"),
		Stream:          text("provisional"),
		RaceWidth:       number(7),
		TournamentWidth: number(8),
		HedgeMax:        number(9),
		HedgeAfter:      wait(10),
		Ordering:        text("cost-first"),
		Role:            text("model/fast"),
		Model:           value(`"m"`),
		Temperature:     value("0"),
		Context:         entries("{:a 1}"),
		Constraints:     entries("{:b 2}"),
		Budget:          entries("{:max-usd 3}"),
		Effects:         texts("fs/read"),
		Scopes:          policy.ScopesOf(policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", `{:max-bytes 9}`)}),
		Requires: policy.Requires{
			InSchema:   text("req/a"),
			OutSchema:  text("res/a"),
			ResultType: text("value"),
			CapKind:    text("llm"),
			CapTags:    texts("t"),
			Effects:    texts("none"),
		},
		Deadline: wait(11),
		Extend:   wait(12),
	}
	fields := reflect.ValueOf(layer)
	for i := range fields.NumField() {
		switch name := fields.Type().Field(i).Name; name {
		case "First", "Swap", "Conflicts", "Learned", "Breaker": // not of a plan
		default:
			assert.False(t, fields.Field(i).IsZero(), "%s is not in this test", name)
		}
	}
	p := resolve(t, layer)
	var lines []string
	for _, r := range p.Explain() {
		from := byNode
		if r.Field == ":switch-on" {
			from = byIntent
		}
		assert.Equal(t, from, r.Origin, r.Field)
		lines = append(lines, r.Field+" "+r.Value.String())
	}
	assert.Equal(t, []string{
		":candidates [:x/a :x/b]",
		":fallback :x/c",
		":exclude :x/d",
		":retry :same-cap-max 1",
		":retry :fallback-max 2",
		":retry :backoff 3",
		":retry :max-backoff 4",
		":max-attempts 5",
		":switch-on #{}",
		":must :c/must",
		":checks :c/one",
		":checks :c/two",
		":should :c/should",
		":checks/soft :c/soft",
		":score-min 0.5M",
		`:judge :use "main"`,
		":judge :severity :must",
		":policy :cost-first",
		":strategy :hedge",
		":stream :provisional",
		":repair :max 6",
		":race :width 7",
		":tournament :width 8",
		":hedge :max 9",
		":hedge :after-ms 10",
		":role :model/fast",
		`:model "m"`,
		":temperature 0",
		":context :a 1",
		":constraints :b 2",
		":budget :max-usd 3",
		":effects :allowed [:fs/read]",
		`:effects :scope :fs/read {:max-bytes 9}`,
		":requires :in-schema :req/a",
		":requires :out-schema :res/a",
		":requires :result/type :value",
		":requires :cap/kind :llm",
		":requires :cap/tags [:t]",
		":requires :effects/allowed [:none]",
		":deadline-ms 11",
		":timeout :extend-ms 12",
	}, lines)

	added := resolve(t, policy.Layer{SwitchOn: policy.Additive{Add: written(byDefault)}})
	require.Len(t, added.Explain(), 1)
	assert.Equal(t, byDefault, added.Explain()[0].Origin, "an empty set that is added has its layer too")
	assert.Equal(t, "unknown", policy.Source(99).String())
	assert.Equal(t, "unknown", (policy.SourceNode + 1).String())
}

// POL-001: unwritten values get their defaults; gates are sorted and without
// duplicates.
func TestResolveDefaults(t *testing.T) {
	p := resolve(t)
	assert.Equal(t, 2, p.RaceWidth)
	assert.Equal(t, 2, p.TournamentWidth)
	assert.Equal(t, 1, p.HedgeMax)
	assert.Equal(t, 10*time.Second, p.MaxBackoff)
	assert.Equal(t, "cascade declared gate-passed", p.Strategy+" "+p.Ordering+" "+p.Stream)

	for max, asked := range map[int]bool{0: false, 1: true} {
		assert.Equal(t, asked, resolve(t, policy.Layer{RepairMax: policy.Of(max, byNode)}).RepairAsked)
		assert.False(t, resolve(t, policy.Layer{RepairMax: policy.Of(max, byIntent)}).RepairAsked)
	}

	gates := resolve(t, policy.Layer{
		Must:   names(byNode, "g/z", "g/b"),
		Checks: policy.Additive{Add: written(byNode, "g/b", "g/a")},
		Should: names(byNode, "s/z", "g/a", "s/b"),
		Soft:   names(byNode, "s/b", "s/a", "g/z"),
	})
	assert.Equal(t, []string{"g/a", "g/b", "g/z"}, gates.Must)
	assert.Equal(t, []string{"s/a", "s/b", "s/z"}, gates.Should)
}

// POL-001, ENV-016: the temperature in a budget is an option, not a limit: the
// nearest layer wins, whether it is higher or lower than the others.
func TestTemperatureOfABudget(t *testing.T) {
	byRequest := policy.Origin{Source: policy.SourceRequest}
	intent := policy.Layer{Temperature: policy.Of(edn.MustRead("0.7"), byIntent)}
	for _, asked := range []string{"0", "1.5"} {
		var request, node policy.Layer
		request.SetBudget(edn.MustRead("{:max-tokens 5 :temperature "+asked+"}"), byRequest)
		p := resolve(t, intent, request)
		assert.Equal(t, asked, p.Temperature.String())
		assert.Equal(t, "{:max-tokens 5}", p.Budget.String())
		node.SetBudget(edn.MustRead("{:temperature 1.0}"), byNode)
		assert.Equal(t, "1.0", resolve(t, intent, request, node).Temperature.String())
	}
	var silent policy.Layer
	silent.SetBudget(edn.Nil(), byRequest)
	assert.Equal(t, "0.7", resolve(t, intent, silent).Temperature.String())
}

// POL-001: where two layers write the same limit or time, the weaker one is
// named; a limit that is not a number never lifts one that is.
func TestMergeOfEqualValues(t *testing.T) {
	budget := func(weak, strong string) policy.Field {
		m := policy.Merge(
			policy.Layer{Budget: policy.FieldsOf(edn.MustRead(weak), byDefault)},
			policy.Layer{Budget: policy.FieldsOf(edn.MustRead(strong), byNode)})
		require.Len(t, m.Budget, 1)
		return m.Budget[0]
	}
	assert.Equal(t, byDefault, budget("{:max-usd 1}", "{:max-usd 1}").Origin)
	assert.Equal(t, byNode, budget("{:max-usd 1}", "{:max-usd 0.5M}").Origin)
	assert.Equal(t, byDefault, budget("{:max-usd 1}", `{:max-usd "none"}`).Origin)
	assert.Equal(t, byNode, budget(`{:max-usd "none"}`, "{:max-usd 1}").Origin)

	deadline := func(d time.Duration, from policy.Origin) policy.Layer {
		return policy.Layer{Deadline: policy.Of(d, from)}
	}
	assert.Equal(t, byDefault, policy.Merge(deadline(time.Second, byDefault), deadline(time.Second, byNode)).Deadline.Origin)
	assert.Equal(t, byNode, policy.Merge(deadline(time.Second, byDefault), deadline(time.Millisecond, byNode)).Deadline.Origin)

	tags := func(list ...string) policy.Layer {
		return policy.Layer{Requires: policy.Requires{CapTags: policy.Of(list, byNode)}}
	}
	assert.Equal(t, []string{"cap/tags"}, policy.Merge(tags("a"), tags("a", "b")).Conflicts)
	assert.Empty(t, policy.Merge(tags("a"), tags("a")).Conflicts)

	assert.Empty(t, policy.FieldsOf(edn.MustRead("[1 2]"), byNode))
	assert.Empty(t, policy.FieldsOf(edn.MustRead("{}"), byNode))
}

func TestBook(t *testing.T) {
	b := policy.Book{
		Builtin: policy.Layer{SameCapMax: policy.Of(0, policy.Origin{})},
		Default: policy.Layer{SameCapMax: policy.Of(1, byDefault)},
		Intents: map[string]policy.Layer{"x/do": {SameCapMax: policy.Of(2, byIntent)}},
	}
	assert.Equal(t, 2, b.For("x/do").SameCapMax.V)
	assert.Equal(t, 1, b.For("x/other").SameCapMax.V)
}

// LRN-002, POL-001: of each setting of learned dispatch the nearest layer wins, of the
// priors for each capability; what no layer writes has its default.
func TestLearnedSettings(t *testing.T) {
	prior := func(passes, fails float64) policy.Prior { return policy.Prior{Passes: passes, Fails: fails} }
	weak := policy.Layer{Learned: &policy.LearnedLayer{
		Prior:         policy.Of(prior(2, 2), byDefault),
		Priors:        map[string]policy.Prior{"x/a": prior(3, 1), "x/b": prior(1, 3)},
		Explore:       policy.Of(0.5, byDefault),
		LatencyWeight: policy.Of(0.0, byDefault),
		Bucket:        policy.Of(policy.BucketSize, byDefault),
	}}
	strong := policy.Layer{Learned: &policy.LearnedLayer{
		Priors:     map[string]policy.Prior{"x/b": prior(9, 9)},
		Explore:    policy.Of(0.0, byNode),
		HalfLife:   policy.Of(time.Hour, byNode),
		CostWeight: policy.Of(0.7, byNode),
	}}
	builtin := policy.Learned{
		Prior:         prior(1, 1),
		Explore:       0.05,
		CostWeight:    0.2,
		LatencyWeight: 0.1,
		HalfLife:      14 * 24 * time.Hour,
		Bucket:        policy.BucketNone,
	}
	on := policy.Layer{Ordering: policy.Of(policy.Learning, byDefault)}
	assert.Equal(t, builtin, *resolve(t, on).Learned)
	assert.Nil(t, resolve(t, weak).Learned, "another ordering has none")
	p := resolve(t, on, weak, strong)
	assert.Equal(t, policy.Learned{
		Prior:      prior(2, 2),
		Priors:     map[string]policy.Prior{"x/a": prior(3, 1), "x/b": prior(9, 9)},
		CostWeight: 0.7,
		HalfLife:   time.Hour,
		Bucket:     policy.BucketSize,
	}, *p.Learned)
	for id, want := range map[string]policy.Prior{"x/a": prior(3, 1), "x/b": prior(9, 9), "x/c": prior(2, 2)} {
		assert.Equal(t, want, p.Learned.Of(id), id)
	}
	assert.Equal(t, weak.Learned.Priors, resolve(t, on, weak, policy.Layer{Learned: &policy.LearnedLayer{}}).Learned.Priors)
	assert.Len(t, strong.Learned.Priors, 1, "the layers stay as they are")
	all := policy.Layer{Learned: &policy.LearnedLayer{Prior: policy.Of(prior(5, 5), byNode)}}
	for id := range weak.Learned.Priors {
		assert.Equal(t, prior(5, 5), resolve(t, on, weak, all).Learned.Of(id), "%s: one prior is that of all", id)
	}
}

// JRN-050: a replay has its capabilities in the place of those of the run, whatever
// other layers say. The nearest layer with any wins.
func TestSwapOfLayers(t *testing.T) {
	first, second := map[string]string{"x/a": "x/b"}, map[string]string{"x/a": "x/c"}
	for _, row := range []struct{ weak, strong, want map[string]string }{
		{nil, nil, nil},
		{first, nil, first},
		{nil, second, second},
		{first, second, second},
		{first, map[string]string{}, first},
	} {
		a, b := policy.Layer{Swap: row.weak}, policy.Layer{Swap: row.strong}
		var dst policy.Layer
		policy.MergeChoice(&dst, &a, &b)
		assert.Equal(t, row.want, policy.Merge(a, b).Swap)
		assert.Equal(t, row.want, dst.Swap)
	}
	d := policy.Demand{Registry: openRegistry(t), Intent: "x/do", Layer: &policy.Layer{
		Candidates: policy.Of([]string{"x/a", "x/b"}, byNode),
		Swap:       second,
	}}
	assert.Equal(t, []string{"x/c", "x/b"}, d.List())
}

// BUD-002: a raised budget replaces the limits of weaker layers also if they are lower, and
// stays raised below layers that lower it.
func TestRaisedBudget(t *testing.T) {
	var weak, strong policy.Layer
	weak.SetBudget(edn.MustRead("{:max-tokens 5}"), byIntent)
	budget, err := request.ParseBudget(edn.MustRead("{:max-tokens 50}"))
	require.Nil(t, err)
	raised := policy.RaisedBudget(budget, byNode)
	strong.SetBudget(edn.MustRead("{:max-tokens 40}"), byNode)
	limit := func(l policy.Layer) string { return l.Budget.Value().Key("max-tokens").String() }
	assert.Equal(t, "50", limit(policy.Merge(weak, raised)))
	assert.Equal(t, "40", limit(policy.Merge(policy.Merge(weak, raised), strong)))
	assert.Equal(t, "40", limit(policy.Merge(weak, policy.Merge(raised, strong))), "what lowers a raised limit raises, too")
	assert.Equal(t, "5", limit(policy.Merge(weak, strong)))
}
