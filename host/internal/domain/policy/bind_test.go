package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func capability(id string, change ...func(*contract.Capability)) registry.Capability {
	c := contract.Capability{
		ID: id, Kind: "llm", Version: "1.0.0", Intents: []string{"x/do"}, CanProduce: []string{"value"},
		Effects: []string{"none"}, InSchema: contract.SchemaRef{Name: "req/text"}, OutSchema: contract.SchemaRef{Name: "res/text"},
	}
	for _, f := range change {
		f(&c)
	}
	return registry.Capability{Capability: c, Plugin: "p"}
}

func newRegistry(t testing.TB, caps ...registry.Capability) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Spec{Capabilities: caps})
	require.NoError(t, err)
	return r
}

func openRegistry(t testing.TB) *registry.Registry {
	return newRegistry(t, capability("x/a"), capability("x/b"), capability("x/c"))
}

func reasons(b policy.Binding) map[string]string {
	out := make(map[string]string)
	for _, r := range b.Rejected {
		out[r.Cap] = r.Reason
	}
	return out
}

// TestBaseList: BIND-001, the source of the list.
func TestBaseList(t *testing.T) {
	r, err := registry.New(registry.Spec{
		Capabilities: []registry.Capability{capability("x/a"), capability("x/b"), capability("x/c")},
		Intents:      []registry.Intent{{ID: "x/fixed", Candidates: []string{"x/c", "x/a"}}, {ID: "x/none", Candidates: []string{}}},
	})
	require.NoError(t, err)
	listed := policy.Layer{Candidates: policy.Of([]string{"x/b", "x/b", "x/a"}, byNode)}
	fallback := policy.Layer{Fallbacks: names(byDefault, "x/c", "x/a")}
	for _, row := range []struct {
		name   string
		demand policy.Demand
		want   []string
	}{
		{"a pinned id is exactly that", policy.Demand{Intent: "x/fixed", CapID: "x/b", Layer: &listed}, []string{"x/b"}},
		{"a pinned id still gets fallbacks", policy.Demand{Intent: "x/fixed", CapID: "x/b", Layer: &fallback}, []string{"x/b", "x/c", "x/a"}},
		{"dispatch candidates, duplicates dropped", policy.Demand{Intent: "x/fixed", Layer: &listed}, []string{"x/b", "x/a"}},
		{"the intent's candidates", policy.Demand{Intent: "x/fixed", Layer: &policy.Layer{}}, []string{"x/c", "x/a"}},
		{"an implied intent: those that serve it (SCH-015)", policy.Demand{Intent: "x/do", Layer: &policy.Layer{}}, []string{"x/a", "x/b", "x/c"}},
		{"routing is the last resort", policy.Demand{Intent: "x/none", Routing: []string{"x/b"}, Layer: &policy.Layer{}}, []string{"x/b"}},
		{"nobody", policy.Demand{Intent: "x/none", Layer: &policy.Layer{}}, []string{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.demand.Registry = r
			assert.Equal(t, row.want, row.demand.List())
		})
	}
}

// TestFiltersInOrder: BIND-002, BIND-008. A capability that breaks several
// rules is rejected for the first.
func TestFiltersInOrder(t *testing.T) {
	layer := policy.Layer{
		Effects: policy.Of([]string{"fs/read"}, byNode),
		Requires: policy.Requires{
			OutSchema:  policy.Of("res/text", byNode),
			ResultType: policy.Of("value", byNode),
			CapKind:    policy.Of("llm", byNode),
			CapTags:    policy.Of([]string{"fast", "local"}, byNode),
		},
	}
	// Each row breaks one rule less than the row before, from the first rule
	// on.
	tags := func(c *contract.Capability) { c.Tags = []string{"fast", "local", "spare"} }
	noTags := func(c *contract.Capability) { c.Tags = []string{"fast"} }
	kind := func(c *contract.Capability) { c.Kind = "solver" }
	schema := func(c *contract.Capability) { c.OutSchema = contract.SchemaRef{Name: "res/code"} }
	fx := func(c *contract.Capability) { c.Effects = []string{"fs/write"} }
	plans := func(c *contract.Capability) { c.CanProduce = []string{"plan"} }
	intent := func(c *contract.Capability) { c.Intents = []string{"x/other"} }
	open := func(c *contract.Capability) { c.Intents, c.CanProduce, c.Effects = nil, nil, nil }
	r := newRegistry(t,
		capability("x/intent", noTags, kind, schema, fx, plans, intent),
		capability("x/plans", noTags, kind, schema, fx, plans),
		capability("x/fx", noTags, kind, schema, fx),
		capability("x/schema", noTags, kind, schema),
		capability("x/kind", noTags, kind),
		capability("x/tags", noTags),
		capability("x/down", tags), capability("x/jail", tags), capability("x/open", tags), capability("x/poor", tags),
		capability("x/ready", tags), capability("x/any", tags, open),
	)
	layer.Candidates = policy.Of([]string{
		"x/gone", "x/intent", "x/plans", "x/fx", "x/schema", "x/kind", "x/tags", "x/down", "x/jail", "x/open", "x/poor", "x/ready", "x/any",
	}, byNode)
	state := map[string]policy.Unavailable{
		"x/down": {Reason: policy.ReasonNotReady, Why: contract.Errorf("provider/not-configured", "no key")},
		"x/jail": {Reason: policy.ReasonQuarantined},
		"x/open": {Reason: policy.ReasonBreaker},
		"x/poor": {Reason: policy.ReasonBudget},
	}
	d := policy.Demand{Registry: r, Intent: "x/do", Layer: &layer, State: func(id string) policy.Unavailable { return state[id] }}
	b := d.Bind()
	want := map[string]string{
		"x/gone":   "cap/not-found",
		"x/intent": "intent/not-supported",
		"x/plans":  "result-type/not-supported",
		"x/fx":     "effects/not-allowed",
		"x/schema": "requires/schema-mismatch",
		"x/kind":   "requires/cap-kind-mismatch",
		"x/tags":   "requires/cap-tags-mismatch",
		"x/down":   "runtime/not-ready",
		"x/jail":   "runtime/quarantined",
		"x/open":   "breaker/open",
		"x/poor":   "budget/would-exceed",
	}
	assert.Equal(t, want, reasons(b))
	assert.Equal(t, []string{"x/ready", "x/any"}, b.Accepted, "empty sets are no restriction (BIND-008)")
	assert.Equal(t, []string{"x/ready"}, b.Tried, "fallback-max 0 tries one (BIND-004)")
	assert.True(t, d.AnyFits())

	static := policy.Demand{Registry: r, Intent: "x/do", Layer: &layer}
	assert.Len(t, static.Bind().Accepted, 6, "without state readiness is not asked")
}

// EMB-002, BIND-009: a capability whose plugin is disabled is not ready and
// names the cause, also where readiness is not queried; any other name is not
// found.
func TestAbsentCapability(t *testing.T) {
	why := contract.Errorf("provider/not-configured", "the plugin is disabled").WithHint("set A_KEY")
	r, err := registry.New(registry.Spec{
		Capabilities: []registry.Capability{capability("x/b")},
		Absent:       []registry.Absent{{ID: "x/a", Plugin: "p", Why: why}, {ID: "x/b", Plugin: "p", Why: why}},
		Intents:      []registry.Intent{{ID: "x/do", Candidates: []string{"x/a", "x/none", "x/b"}}},
	})
	require.NoError(t, err)
	for _, state := range []func(string) policy.Unavailable{nil, func(string) policy.Unavailable { return policy.Unavailable{} }} {
		d := policy.Demand{Registry: r, Intent: "x/do", Layer: &policy.Layer{}, State: state}
		b := d.Bind()
		assert.Equal(t, map[string]string{"x/a": policy.ReasonNotReady, "x/none": policy.ReasonNotFound}, reasons(b))
		assert.Same(t, why, b.Rejected[0].Why)
		assert.Equal(t, []string{"x/b"}, b.Accepted, "what a plugin gives is not absent")
	}
}

// TestResultTypeOfIntent: without a demand the intent's result types filter.
func TestResultTypeOfIntent(t *testing.T) {
	r, err := registry.New(registry.Spec{
		Capabilities: []registry.Capability{
			capability("x/value"),
			capability("x/plan", func(c *contract.Capability) { c.CanProduce = []string{"plan"} }),
		},
		Intents: []registry.Intent{{ID: "x/do"}, {ID: "x/compile", ResultTypes: []string{"plan"}}},
	})
	require.NoError(t, err)
	d := policy.Demand{Registry: r, Intent: "x/do", Layer: &policy.Layer{}}
	assert.Equal(t, []string{"x/value"}, d.Bind().Accepted)
}

// TestRequiredEffects: `:requires :effects/allowed` bounds the capability.
func TestRequiredEffects(t *testing.T) {
	r := newRegistry(t, capability("x/pure"), capability("x/net", func(c *contract.Capability) { c.Effects = []string{"net/http"} }))
	l := policy.Layer{Requires: policy.Requires{Effects: policy.Of([]string{"none"}, byNode)}}
	d := policy.Demand{Registry: r, Intent: "x/do", Layer: &l}
	assert.Equal(t, map[string]string{"x/net": policy.ReasonEffects}, reasons(d.Bind()))
	l.Requires.Effects.V = []string{"net/http"}
	assert.Equal(t, []string{"x/pure", "x/net"}, d.Bind().Accepted, "no effect needs no permission")
}

// TestWorkedExample holds the steps of the worked example of section 6 up to
// the order, which is the declared one here.
func TestWorkedExample(t *testing.T) {
	patch := func(c *contract.Capability) {
		c.Intents = []string{"code/patch"}
		c.OutSchema = contract.SchemaRef{Name: "res/patch+tests"}
	}
	r := newRegistry(t,
		capability("llm/code", patch), capability("llm/meta", patch), capability("llm/old", patch), capability("mlx/code", patch),
		capability("sat/solver", func(c *contract.Capability) { c.Intents = []string{"sat/solve"} }),
		capability("llm/voice", func(c *contract.Capability) { c.Intents = []string{"code/patch", "text/respond"} }),
	)
	l := mergeAll(
		policy.Layer{Fallbacks: names(byIntent, "llm/meta", "llm/old", "mlx/code"), FallbackMax: policy.Of(1, byIntent)},
		policy.Layer{Fallbacks: names(policy.Origin{Source: policy.SourceRouting}, "llm/voice")},
		policy.Layer{
			Candidates: policy.Of([]string{"llm/code", "llm/meta", "sat/solver"}, byNode),
			Exclude:    names(byNode, "llm/old"),
			Requires:   policy.Requires{OutSchema: policy.Of("res/patch+tests", byNode)},
		})
	d := policy.Demand{Registry: r, Intent: "code/patch", Layer: &l, State: func(id string) policy.Unavailable {
		if id == "mlx/code" {
			return policy.Unavailable{Reason: policy.ReasonNotReady}
		}
		return policy.Unavailable{}
	}}
	b := d.Bind()
	assert.Equal(t, []string{"llm/code", "llm/meta", "sat/solver", "mlx/code", "llm/voice"}, b.List)
	assert.Equal(t, map[string]string{
		"sat/solver": "intent/not-supported", "llm/voice": "requires/schema-mismatch", "mlx/code": "runtime/not-ready",
	}, reasons(b))
	assert.Equal(t, []string{"llm/code", "llm/meta"}, b.Tried)
}

// TestSentence: at most four rejections are named.
func TestSentence(t *testing.T) {
	notReady := contract.Errorf("provider/not-configured", "no key for x/a")
	many := policy.Binding{Rejected: []policy.Rejection{
		{Cap: "x/a", Reason: policy.ReasonIntent},
		{Cap: "x/b", Reason: policy.ReasonTags},
		{Cap: "x/c", Reason: policy.ReasonNotReady, Why: notReady},
		{Cap: "x/d", Reason: policy.ReasonKind},
	}}
	assert.Equal(t, "no capability can serve :x/do: :x/a is intent/not-supported, :x/b is requires/cap-tags-mismatch,"+
		" :x/c is runtime/not-ready, :x/d is requires/cap-kind-mismatch", many.Sentence("x/do"))
	many.Rejected = append(many.Rejected, policy.Rejection{Cap: "x/e", Reason: policy.ReasonKind}, policy.Rejection{Cap: "x/f", Reason: policy.ReasonKind})
	assert.True(t, strings.HasSuffix(many.Sentence("x/do"), ":x/d is requires/cap-kind-mismatch, and 2 more"))
	assert.Equal(t, "no capability serves :x/nope", (&policy.Binding{}).Sentence("x/nope"))
}

// TestNarrowerEffectsNeverAdd: EVAL-071, a narrower effect set never adds
// candidates, and the accepted ones keep the order of the list.
func TestNarrowerEffectsNeverAdd(t *testing.T) {
	words := []string{"fs/read", "fs/write", "net/http", "none"}
	rapid.Check(t, func(t *rapid.T) {
		sub := rapid.SliceOfDistinct(rapid.SampledFrom(words), rapid.ID[string])
		var caps []registry.Capability
		for _, id := range []string{"x/a", "x/b", "x/c", "x/d"} {
			fx := sub.Draw(t, "effects of "+id)
			caps = append(caps, capability(id, func(c *contract.Capability) { c.Effects = fx }))
		}
		r, err := registry.New(registry.Spec{Capabilities: caps})
		require.NoError(t, err)
		wide := policy.Layer{Effects: policy.Of(sub.Draw(t, "wide"), byIntent)}
		narrow := policy.Merge(wide, policy.Layer{Effects: policy.Of(sub.Draw(t, "narrow"), byNode)})
		w := (&policy.Demand{Registry: r, Intent: "x/do", Layer: &wide}).Bind()
		n := (&policy.Demand{Registry: r, Intent: "x/do", Layer: &narrow}).Bind()
		assert.Subset(t, w.Accepted, n.Accepted)
		assert.Len(t, n.Rejected, len(n.List)-len(n.Accepted))
		i := 0
		for _, id := range n.List {
			if i < len(n.Accepted) && n.Accepted[i] == id {
				i++
			}
		}
		assert.Equal(t, len(n.Accepted), i, "accepted candidates keep the order of the list")
	})
}

// BIND-001, BRK-010: the stand-in of a candidate follows it, once, unless it is
// excluded or the candidate is pinned.
func TestStandIns(t *testing.T) {
	r := openRegistry(t)
	d := policy.Demand{Registry: r, Intent: "x/do", Layer: &policy.Layer{Candidates: policy.Of([]string{"x/a", "x/b"}, policy.Origin{})}}
	d.StandIn = func(id string) string { return map[string]string{"x/a": "x/c", "x/b": "x/a"}[id] }
	assert.Equal(t, []string{"x/a", "x/c", "x/b"}, d.List())
	d.Layer.Exclude = policy.NamesOf(policy.Origin{}, "x/c")
	assert.Equal(t, []string{"x/a", "x/b"}, d.List())
	d = policy.Demand{Registry: r, Intent: "x/do", CapID: "x/a", Layer: &policy.Layer{}, StandIn: d.StandIn}
	assert.Equal(t, []string{"x/a"}, d.List())
}

// JRN-051, BIND-001: a swapped candidate has the place of the other one, once, also
// where that is a fallback or pinned; two may be swapped with each other.
func TestSwaps(t *testing.T) {
	d := policy.Demand{Registry: openRegistry(t), Intent: "x/do", Layer: &policy.Layer{
		Candidates: policy.Of([]string{"x/a", "x/b"}, policy.Origin{}), Fallbacks: policy.NamesOf(policy.Origin{}, "x/c"),
	}}
	for _, tc := range []struct {
		swap map[string]string
		want []string
	}{
		{nil, []string{"x/a", "x/b", "x/c"}},
		{map[string]string{"x/a": "x/d"}, []string{"x/d", "x/b", "x/c"}},
		{map[string]string{"x/a": "x/c"}, []string{"x/c", "x/b"}},
		{map[string]string{"x/c": "x/d"}, []string{"x/a", "x/b", "x/d"}},
		{map[string]string{"x/a": "x/b", "x/b": "x/a"}, []string{"x/b", "x/a", "x/c"}},
	} {
		d.Layer.Swap = tc.swap
		assert.Equal(t, tc.want, d.List())
	}
	pinned := policy.Demand{Registry: d.Registry, Intent: "x/do", CapID: "x/a", Layer: &policy.Layer{Swap: map[string]string{"x/a": "x/d"}}}
	pinned.StandIn = func(string) string { return "x/b" }
	assert.Equal(t, []string{"x/d"}, pinned.List())
}

// BIND-002, FX-002: a candidate whose effects are not permitted is rejected
// with the reason and its error; one without effects is not checked.
func TestPermitsFilters(t *testing.T) {
	writes := func(c *contract.Capability) { c.Effects = []string{"fs/write"} }
	r := newRegistry(t, capability("x/a", writes), capability("x/b"))
	denied := contract.Errorf("auth/forbidden-effect", "no").WithDetail("effect", edn.K("fs/write"))
	layer := &policy.Layer{Effects: policy.Of([]string{"fs/write"}, policy.Origin{})}
	asked := []string{}
	d := policy.Demand{Registry: r, Intent: "x/do", Layer: layer, Permits: func(c *registry.Capability) *contract.Error {
		asked = append(asked, c.ID)
		return denied
	}}
	b := d.Bind()
	assert.Equal(t, []string{"x/b"}, b.Accepted)
	require.Len(t, b.Rejected, 1)
	assert.Equal(t, policy.Rejection{Cap: "x/a", Reason: policy.ReasonEffects, Detail: "fs/write", Denied: denied}, b.Rejected[0])
	assert.Equal(t, []string{"x/a"}, asked)
	assert.True(t, d.AnyFits())
	d.CapID = "x/a"
	assert.False(t, d.AnyFits())
	d.Permits = func(*registry.Capability) *contract.Error { return nil }
	assert.True(t, d.AnyFits())

	d = policy.Demand{Registry: r, Intent: "x/do", CapID: "x/b", Layer: &policy.Layer{Requires: policy.Requires{InSchema: policy.Of("req/other", policy.Origin{})}}}
	assert.Equal(t, map[string]string{"x/b": policy.ReasonSchema}, reasons(d.Bind()))
}
