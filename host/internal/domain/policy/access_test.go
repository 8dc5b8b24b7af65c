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
	"github.com/fermenthq/ferment/sdk/effects"
)

// AUTH-010: a forbidden role denies; one role of any permits, or all roles of
// all together; the empty rule denies.
func TestRuleTruthTable(t *testing.T) {
	a, b, c := "role/a", "role/b", "role/c"
	list := func(s ...string) []string { return s }
	for _, row := range []struct {
		rule  policy.Rule
		roles []string
		ok    bool
		why   string
	}{
		{policy.Rule{}, list(a), false, "empty"},
		{policy.Rule{Any: list(a)}, nil, false, "any"},
		{policy.Rule{Any: list(a, b)}, list(b), true, "any"},
		{policy.Rule{Any: list(policy.RoleAny)}, nil, true, "any"},
		{policy.Rule{All: list(a, b)}, list(a), false, "all"},
		{policy.Rule{All: list(a, b)}, list(b, a, c), true, "all"},
		{policy.Rule{Any: list(c), All: list(a, b)}, list(a, b), true, "all"},
		{policy.Rule{Any: list(c), All: list(a, b)}, list(a), false, "any"},
		{policy.Rule{Any: list(a), Forbidden: list(b)}, list(a), true, "any"},
		{policy.Rule{Any: list(a), Forbidden: list(b)}, list(a, b), false, "forbidden"},
		{policy.Rule{Forbidden: list(b)}, list(a), false, "empty"},
		{policy.Rule{Any: list(policy.RoleAny), Forbidden: list(policy.RoleAny)}, list(a), false, "forbidden"},
	} {
		ok, why := row.rule.Permits(policy.Caller{Roles: row.roles})
		assert.Equal(t, row.ok, ok, "%+v for %v", row.rule, row.roles)
		assert.Equal(t, row.why, why, "%+v for %v", row.rule, row.roles)
	}
}

// An additional role never removes a permission unless it is forbidden.
func TestRuleMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := rapid.SliceOfN(rapid.SampledFrom([]string{"role/a", "role/b", "role/c", "role/d"}), 0, 3)
		r := policy.Rule{Any: roles.Draw(t, "any"), All: roles.Draw(t, "all"), Forbidden: roles.Draw(t, "forbidden")}
		have := roles.Draw(t, "have")
		more := rapid.SampledFrom([]string{"role/a", "role/b", "role/c", "role/d"}).Draw(t, "more")
		before, _ := r.Permits(policy.Caller{Roles: have})
		after, why := r.Permits(policy.Caller{Roles: append(have[:len(have):len(have)], more)})
		require.False(t, before && !after && why != "forbidden", "%+v: %v had it, and %s took it", r, have, more)
	})
}

// AUTH-010: a name ns/* matches a namespace; an exact name takes precedence.
func TestRulesByName(t *testing.T) {
	rules := policy.Rules{"fs/*": {Any: []string{"role/a"}}, "fs/write": {Any: []string{"role/b"}}}
	r, ok := rules.For("fs/read")
	require.True(t, ok)
	assert.Equal(t, []string{"role/a"}, r.Any)
	r, _ = rules.For("fs/write")
	assert.Equal(t, []string{"role/b"}, r.Any, "the exact name wins")
	_, ok = rules.For("net/http")
	assert.False(t, ok)
	_, ok = rules.For("fs")
	assert.False(t, ok, "a name without a namespace is in none")

	long := strings.Repeat("n", 128) // the longest namespace
	rules = policy.Rules{long + "/*": {Any: []string{"role/a"}}, "n" + long + "/*": {Any: []string{"role/a"}}}
	_, ok = rules.For(long + "/read")
	assert.True(t, ok)
	_, ok = rules.For("n" + long + "/read")
	assert.False(t, ok)
}

// AUTH-010: a denied operation returns the rule that denied it, as data.
func TestDeniedOperation(t *testing.T) {
	access := policy.Access{Operations: policy.Rules{
		"prompt/override": {Any: []string{"role/a"}, Forbidden: []string{"role/c", "role/b"}},
		"prompt/show":     {All: []string{"role/a", "role/b"}},
	}}
	for name, tt := range map[string]struct {
		operation string
		roles     []string
		reason    string
		rule      string
	}{
		"not held":  {"prompt/override", []string{"role/x"}, ":any", "{:any #{:role/a} :forbidden #{:role/b :role/c}}"},
		"no role":   {"prompt/override", nil, ":any", "{:any #{:role/a} :forbidden #{:role/b :role/c}}"},
		"forbidden": {"prompt/override", []string{"role/a", "role/b"}, ":forbidden", "{:any #{:role/a} :forbidden #{:role/b :role/c}}"},
		"half":      {"prompt/show", []string{"role/a"}, ":all", "{:all #{:role/a :role/b}}"},
		"no rule":   {"prompt/other", []string{"role/a"}, ":no-rule", "{}"},
	} {
		err := access.Denied(tt.operation, policy.Caller{Roles: tt.roles})
		require.NotNil(t, err, name)
		assert.ErrorIs(t, err, contract.OfType("policy/blocked"), name)
		assert.Equal(t, edn.K(tt.operation).String(), err.Details.Key("operation").String(), name)
		assert.Equal(t, tt.reason, err.Details.Key("reason").String(), name)
		assert.Equal(t, tt.rule, err.Details.Key("rule").String(), name)
		for _, role := range tt.roles {
			assert.Contains(t, err.Message, ":"+role, name)
		}
	}
	assert.Contains(t, access.Denied("prompt/override", policy.Caller{}).Message, "no role")
	assert.Nil(t, access.Denied("prompt/override", policy.Caller{Roles: []string{"role/a"}}))
	assert.Nil(t, access.Denied("prompt/show", policy.Caller{Roles: []string{"role/a", "role/b"}}))
	assert.Equal(t, []string{policy.RoleAdmin, policy.RoleAnonymous, policy.RoleAny, policy.RoleOperator, policy.RoleUser}, policy.BuiltinRoles())
}

// decide decides a call to a capability with the effect under a configuration.
func decide(t *testing.T, e *policy.Effects, roles []string, effect, allowed, asked, input string, confines bool) (string, *contract.Error) {
	t.Helper()
	tool, _ := effects.ToolNamed(effect)
	c := &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: []string{effect}}, Advertised: tool.ID, Confines: confines}
	layer := policy.Layer{Effects: policy.Of([]string{allowed}, policy.Origin{})}
	if asked != "" {
		layer.Scopes = policy.ScopesOf(policy.Scoped{Effect: effect, Scope: scope(t, effect, asked)})
	}
	need := policy.Need{Capability: c, Layer: &layer}
	if input != "" {
		need.Input = edn.MustRead(input)
	}
	s, err := e.Grant(policy.Caller{Roles: roles}).Decide(need)
	return s.Value().String(), err
}

// FX-002: each stage rejects before the next one runs, with its own type.
func TestDecideInOrder(t *testing.T) {
	admin := []string{policy.RoleAdmin}
	conf := &policy.Effects{Rules: policy.ShippedEffectRules(), Host: policy.ScopesOf(
		policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:enabled true :roots ["/srv"] :allow ["reports"] :max-bytes 100}`)},
		policy.Scoped{Effect: "net/http", Scope: scope(t, "net/http", `{:enabled false :hosts ["a.test"]}`)}),
		Roles: map[string]policy.Scopes{"role/clerk": policy.ScopesOf(policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:max-bytes 10}`)})}}
	const file = `{:path "reports/a" :content "x"}`
	for _, row := range []struct {
		name                           string
		conf                           *policy.Effects
		roles                          []string
		effect, allowed, asked, input  string
		confines                       bool
		typ, reason, granted, contains string
	}{
		{name: "not declared", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/read", input: file, confines: true, typ: "effects/missing-required"},
		{name: "role", conf: conf, roles: []string{policy.RoleOperator}, effect: "fs/write", allowed: "fs/write", input: file, confines: true, typ: "auth/forbidden-effect", reason: "all"},
		{name: "no roles", conf: conf, effect: "fs/write", allowed: "fs/write", input: file, confines: true, typ: "auth/forbidden-effect", reason: "all"},
		{name: "no configuration", conf: nil, roles: admin, effect: "fs/write", allowed: "fs/write", typ: "auth/forbidden-effect", reason: "no-rule"},
		{name: "disabled", conf: conf, roles: admin, effect: "net/http", allowed: "net/http", input: `{:url "https://a.test/"}`, confines: true, typ: "effects/scope-denied", reason: "disabled"},
		{name: "no scope", conf: conf, roles: admin, effect: "fs/read", allowed: "fs/read", input: `{:path "a"}`, confines: true, typ: "effects/scope-denied", reason: "disabled"},
		{name: "request disables", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/write", asked: `{:enabled false}`, input: file, confines: true, typ: "effects/scope-denied", reason: "disabled"},
		{name: "request cannot enable", conf: conf, roles: admin, effect: "net/http", allowed: "net/http", asked: `{:enabled true}`, input: `{:url "https://a.test/"}`, confines: true, typ: "effects/scope-denied", reason: "disabled"},
		{name: "path", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/write", input: `{:path "other/a" :content "x"}`, confines: true, typ: "effects/scope-denied", reason: "path-not-allowed"},
		{name: "narrowed by the request", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/write", asked: `{:allow ["reports/2026"]}`, input: file, confines: true, typ: "effects/scope-denied", reason: "path-not-allowed"},
		{name: "shared process", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/write", asked: `{:max-bytes 5}`, typ: "effects/not-enforceable"},
		{name: "shared process, role", conf: conf, roles: []string{policy.RoleAdmin, "role/clerk"}, effect: "fs/write", allowed: "fs/write", typ: "effects/not-enforceable"},
		{name: "shared process, nothing narrower", conf: conf, roles: admin, effect: "fs/write", allowed: "fs/write", asked: `{:max-bytes 500}`, contains: `:max-bytes 100`},
		{name: "granted", conf: conf, roles: []string{policy.RoleAdmin, "role/clerk"}, effect: "fs/write", allowed: "fs/write", asked: `{:allow ["."]}`, input: file, confines: true, contains: `{:fs/write {:allow ["reports"] :enabled true :max-bytes 10 :roots ["/srv"]}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := decide(t, row.conf, row.roles, row.effect, row.allowed, row.asked, row.input, row.confines)
			if row.typ == "" {
				require.Nil(t, err)
				assert.Contains(t, got, row.contains)
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, row.typ, err.Type)
			reason, _ := err.Details.Key("reason").AsKeyword()
			assert.Equal(t, row.reason, reason, err.Message)
		})
	}
}

// HCL-040: rules and scopes that replace those of a run narrow it at once, and widen
// nothing.
func TestReplacedEffectsNarrow(t *testing.T) {
	admin := []string{policy.RoleAdmin}
	conf := func(text string) *policy.Effects {
		return &policy.Effects{Rules: policy.ShippedEffectRules(), Host: policy.ScopesOf(
			policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", text)})}
	}
	const file = `{:path "reports/a" :content "x"}`
	closed := conf(`{:enabled true :roots ["/srv"] :allow ["."]}`)
	closed.Rules = policy.Rules{"fs/write": {All: []string{"role/clerk"}}}
	for name, row := range map[string]struct {
		now  *policy.Effects
		want string // the scope, or the type of the error
	}{
		"not replaced": {nil, `{:fs/write {:allow ["reports"] :enabled true :max-bytes 100 :roots ["/srv"]}}`},
		"wider": {conf(`{:enabled true :roots ["/srv"] :allow ["."] :max-bytes 500}`),
			`{:fs/write {:allow ["reports"] :enabled true :max-bytes 100 :roots ["/srv"]}}`},
		"narrower": {conf(`{:enabled true :roots ["/srv"] :allow ["reports"] :max-bytes 10}`),
			`{:fs/write {:allow ["reports"] :enabled true :max-bytes 10 :roots ["/srv"]}}`},
		"elsewhere":    {conf(`{:enabled true :roots ["/srv"] :allow ["drafts"]}`), "effects/scope-denied"},
		"disabled":     {conf(`{:enabled false :roots ["/srv"] :allow ["."]}`), "effects/scope-denied"},
		"not there":    {&policy.Effects{Rules: policy.ShippedEffectRules()}, "effects/scope-denied"},
		"another role": {closed, "auth/forbidden-effect"},
	} {
		t.Run(name, func(t *testing.T) {
			old := conf(`{:enabled true :roots ["/srv"] :allow ["reports"] :max-bytes 100}`)
			old.InForce = func() *policy.Effects { return row.now }
			got, err := decide(t, old, admin, "fs/write", "fs/write", "", file, true)
			if err != nil {
				got = err.Type
			}
			assert.Equal(t, row.want, got)
		})
	}
}

// FX-001, FX-002: a capability with several effects needs all of them. Its own
// scopes in the configuration apply in addition to those of the host and of
// roles.
func TestDecideOfManyEffects(t *testing.T) {
	admin := []string{policy.RoleAdmin}
	both := func(own string) *policy.Effects {
		e := &policy.Effects{Rules: policy.ShippedEffectRules(), Host: policy.ScopesOf(
			policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", `{:enabled true :roots ["/srv"] :allow ["."]}`)},
			policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:enabled true :roots ["/srv"] :allow ["."] :max-bytes 100}`)})}
		if own != "" {
			e.Capabilities = map[string]policy.Scopes{"x/y": policy.ScopesOf(policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", own)})}
		}
		return e
	}
	c := &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: []string{registry.NoEffect, "fs/read", "fs/write"}}}
	layer := func(effects ...string) *policy.Layer {
		return &policy.Layer{Effects: policy.Of(effects, policy.Origin{})}
	}
	granted, err := both("").Grant(policy.Caller{Roles: admin}).Decide(policy.Need{Capability: c, Layer: layer("fs/read", "fs/write")})
	require.Nil(t, err)
	assert.Equal(t, `{:fs/read {:allow ["."] :enabled true :roots ["/srv"]} :fs/write {:allow ["."] :enabled true :max-bytes 100 :roots ["/srv"]}}`, granted.Value().String())

	// The scope of the capability is permanent: its process is confined to it.
	granted, err = both(`{:max-bytes 7}`).Grant(policy.Caller{Roles: admin}).Decide(policy.Need{Capability: c, Layer: layer("fs/read", "fs/write")})
	require.Nil(t, err)
	own, _ := granted.Of("fs/write")
	assert.Equal(t, effects.Bound{N: 7, Set: true}, own.MaxBytes)

	_, err = both("").Grant(policy.Caller{Roles: admin}).Decide(policy.Need{Capability: c, Layer: layer("fs/read")})
	require.NotNil(t, err)
	assert.Equal(t, ":fs/write", err.Details.Key("effect").String(), "each effect is asked for")

	looks := []string{policy.RoleOperator} // may read, not write
	_, err = both("").Grant(policy.Caller{Roles: looks}).Decide(policy.Need{Capability: c, Layer: layer("fs/read", "fs/write")})
	require.NotNil(t, err)
	assert.Equal(t, "auth/forbidden-effect", err.Type)
	assert.Contains(t, err.Message, "#{:role/operator}")
	assert.Contains(t, err.Hint, `rule "fs/write"`)

	var nobody *policy.Effects
	_, err = nobody.Grant(policy.Caller{}).Decide(policy.Need{Capability: c, Layer: layer("fs/read", "fs/write")})
	require.NotNil(t, err)
	assert.Equal(t, []string{"auth/forbidden-effect", ":no-rule"}, []string{err.Type, err.Details.Key("reason").String()})
	assert.Contains(t, err.Message, "roles: none")
	unruled := &policy.Effects{Rules: policy.Rules{}, Host: both("").Host}
	_, err = unruled.Grant(policy.Caller{Roles: admin}).Decide(policy.Need{Capability: c, Layer: layer("fs/read", "fs/write")})
	require.NotNil(t, err)
	assert.Equal(t, ":no-rule", err.Details.Key("reason").String())

	// A tool of another effect is not checked against the input of this one.
	tool := &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: []string{"fs/read"}}, Advertised: "fs/write-file", Confines: true}
	_, err = both("").Grant(policy.Caller{Roles: admin}).Decide(policy.Need{Capability: tool, Layer: layer("fs/read"), Input: edn.MustRead(`{:path "/etc/passwd"}`)})
	assert.Nil(t, err)
	assert.Equal(t, admin, both("").Grant(policy.Caller{Roles: admin}).Caller().Roles)
	assert.Empty(t, (*policy.Grant)(nil).Caller().Roles)
	assert.Contains(t, policy.AllowHint("fs/write"), "`--effects fs/write` on the command line")
}

// A capability without effects needs no grant.
func TestDecideWithoutEffects(t *testing.T) {
	c := &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: []string{registry.NoEffect}}}
	granted, err := (&policy.Effects{}).Grant(policy.Caller{}).Decide(policy.Need{Capability: c, Layer: &policy.Layer{}})
	assert.Nil(t, err)
	assert.Empty(t, granted)
}

// FX-002: without a configuration of effects only pure computation is
// permitted; the effect none needs no rule when declared beside others.
func TestDecideAtTheEdges(t *testing.T) {
	call := func(effects ...string) policy.Need {
		c := &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: effects}}
		return policy.Need{Capability: c, Layer: &policy.Layer{}}
	}
	var none *policy.Effects
	g := none.Grant(policy.Caller{Roles: []string{policy.RoleAdmin}})
	assert.Equal(t, []string{policy.RoleAdmin}, g.Caller().Roles)
	_, err := g.Decide(call("fs/read"))
	assert.ErrorIs(t, err, contract.OfType("auth/forbidden-effect"))
	_, err = g.Decide(call("none"))
	assert.Nil(t, err)

	reads := &policy.Effects{
		Rules: policy.Rules{"fs/read": {Any: []string{"role/a"}}},
		Host:  policy.ScopesOf(policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", "{:enabled true}")}),
	}
	got, err := reads.Grant(policy.Caller{Roles: []string{"role/a"}}).Decide(call("none", "fs/read"))
	require.Nil(t, err)
	assert.Equal(t, "{:fs/read {:enabled true}}", got.Value().String())
}

// FX-001, FX-002: an effect is admitted if the rules permit it to the caller and its
// scope is enabled.
func TestAdmits(t *testing.T) {
	e := &policy.Effects{
		Rules: policy.Rules{"fs/read": {Any: []string{"role/a"}}, "fs/write": {Any: []string{"role/a"}}, "db/read": {Any: []string{"role/a"}}},
		Host: policy.ScopesOf(
			policy.Scoped{Effect: "fs/read", Scope: scope(t, "fs/read", "{:enabled true}")},
			policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", "{:enabled false}")},
			policy.Scoped{Effect: "net/http", Scope: scope(t, "net/http", "{:enabled true}")},
		),
	}
	g := e.Grant(policy.Caller{Roles: []string{"role/a"}})
	assert.True(t, g.Admits("fs/read"))
	assert.False(t, g.Admits("fs/write"), "its scope is off")
	assert.False(t, g.Admits("db/read"), "it has no scope")
	assert.False(t, g.Admits("net/http"), "it has no rule")
	assert.False(t, e.Grant(policy.Caller{Roles: []string{"role/b"}}).Admits("fs/read"), "another role")
	assert.False(t, (*policy.Effects)(nil).Grant(policy.Caller{}).Admits("fs/read"))
	assert.Equal(t, "{:fs/read [true {}] :net/http [false {}]}", g.Value([]string{"none", "net/http", "fs/read"}).String(),
		"no effect needs no permission")
}
