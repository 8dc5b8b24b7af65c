package policy_test

import (
	"fmt"
	"slices"
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

var (
	someRoles      = []string{"role/a", "role/b", "role/c", "role/d"}
	someOperations = []string{"http.v1/act", "runs/read", "runs/any", "admin/drain"}
	someIntents    = []string{"text/respond", "text/sum", "chess/best-move"}
)

func subset(t *rapid.T, of []string, label string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID[string]).Draw(t, label)
}

// maybe is a list that limits, or nil, which does not.
func maybe(t *rapid.T, of []string, label string) []string {
	if rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	return subset(t, of, label)
}

func drawRule(t *rapid.T) policy.Rule {
	return policy.Rule{Any: subset(t, someRoles, "any"), All: subset(t, someRoles, "all"), Forbidden: subset(t, someRoles, "forbidden")}
}

func drawNarrow(t *rapid.T) *policy.Narrowing {
	if rapid.Bool().Draw(t, "narrow?") {
		return nil
	}
	return &policy.Narrowing{
		Roles:      maybe(t, someRoles, "token roles"),
		Operations: maybe(t, append(someOperations, "runs/*"), "token operations"),
		Intents:    maybe(t, append(someIntents, "text/*"), "token intents"),
	}
}

func drawAccess(t *rapid.T) *policy.Access {
	a := &policy.Access{Operations: policy.Rules{}, Intents: policy.Rules{}, RoleIntents: map[string][]string{}}
	for _, name := range subset(t, append(someOperations, "runs/*", "admin/*"), "operations with a rule") {
		a.Operations[name] = drawRule(t)
	}
	for _, name := range subset(t, someIntents, "intents with a rule") {
		a.Intents[name] = drawRule(t)
	}
	for _, role := range subset(t, someRoles, "roles with intents") {
		a.RoleIntents[role] = subset(t, append(someIntents, "text/*"), "of the role")
	}
	return a
}

// AUTH-010: rules agree with their definition for every combination of roles: a
// forbidden role denies, one role of any or all roles of all permit, everything else
// denies.
func TestRuleIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, held := drawRule(t), subset(t, someRoles, "held")
		hit := func(list []string) bool {
			return slices.ContainsFunc(list, func(x string) bool { return slices.Contains(held, x) })
		}
		whole := !slices.ContainsFunc(r.All, func(x string) bool { return !slices.Contains(held, x) })
		want := !hit(r.Forbidden) && (hit(r.Any) || len(r.All) > 0 && whole)
		got, why := r.Permits(policy.Caller{Roles: held})
		require.Equal(t, want, got, "%+v for %v: %s", r, held, why)
	})
}

// AUTH-003: a narrowed credential never has a right that its owner lacks, and a
// narrower one never has one that a wider one lacks.
func TestNarrowingNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, roles, n := drawAccess(t), subset(t, someRoles, "held"), drawNarrow(t)
		owner, token := policy.Caller{Roles: roles}, policy.Caller{Roles: roles, Narrow: n}
		for _, name := range someOperations {
			require.False(t, a.Operation(name, token).OK && !a.Operation(name, owner).OK, "%s: %+v", name, n)
		}
		for _, name := range someIntents {
			require.False(t, a.Intent(name, token).OK && !a.Intent(name, owner).OK, "%s: %+v", name, n)
		}
		if n == nil {
			return
		}
		less := *n
		switch rapid.IntRange(0, 2).Draw(t, "which") {
		case 0:
			less.Operations = []string{}
		case 1:
			less.Intents = []string{}
		default:
			less.Roles = []string{}
		}
		narrower := policy.Caller{Roles: roles, Narrow: &less}
		for _, name := range someOperations {
			require.False(t, a.Operation(name, narrower).OK && !a.Operation(name, token).OK, name)
		}
	})
}

// AUTH-003: a role that a token leaves out still forbids, and still narrows scopes.
func TestLeftOutRolesStillForbid(t *testing.T) {
	r := policy.Rule{Any: []string{"role/a"}, Forbidden: []string{"role/b"}}
	ok, why := r.Permits(policy.Caller{Roles: []string{"role/a", "role/b"}, Narrow: &policy.Narrowing{Roles: []string{"role/a"}}})
	assert.False(t, ok)
	assert.Equal(t, "forbidden", why)
	ok, why = r.Permits(policy.Caller{Roles: []string{"role/a"}, Narrow: &policy.Narrowing{Roles: []string{}}})
	assert.False(t, ok)
	assert.Equal(t, "token-roles", why)
	e := policy.Effects{
		Rules: policy.Rules{"fs/write": {Any: []string{"role/a"}}},
		Host:  policy.ScopesOf(policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:enabled true :max-bytes 100}`)}),
		Roles: map[string]policy.Scopes{"role/b": policy.ScopesOf(policy.Scoped{Effect: "fs/write", Scope: scope(t, "fs/write", `{:max-bytes 7}`)})},
	}
	g := e.Grant(policy.Caller{Roles: []string{"role/a", "role/b"}, Narrow: &policy.Narrowing{Roles: []string{"role/a"}}})
	assert.Equal(t, "{:fs/write [true {:max-bytes 7}]}", g.Value([]string{"fs/write"}).String())
}

// AUTH-011, AUTH-006: rules of intents, the intents of roles, and those of tokens.
func TestIntents(t *testing.T) {
	a := &policy.Access{
		Intents:     policy.Rules{"text/sum": {Any: []string{"role/a"}}},
		RoleIntents: map[string][]string{"role/clerk": {"text/*"}},
	}
	for _, row := range []struct {
		intent string
		roles  []string
		narrow *policy.Narrowing
		ok     bool
		reason string
	}{
		{"chess/best-move", []string{"role/a"}, nil, true, "open"},
		{"text/sum", []string{"role/a"}, nil, true, "any"},
		{"text/sum", []string{"role/b"}, nil, false, "any"},
		{"text/respond", []string{"role/clerk"}, nil, true, "open"},
		{"chess/best-move", []string{"role/clerk"}, nil, false, "role-intents"},
		{"chess/best-move", []string{"role/clerk", "role/a"}, nil, true, "open"},
		{"chess/best-move", []string{"role/clerk", "role/a"}, &policy.Narrowing{Roles: []string{"role/clerk"}}, false, "role-intents"},
		{"chess/best-move", []string{"role/a"}, &policy.Narrowing{Intents: []string{"text/*"}}, false, "token-intents"},
		{"text/respond", []string{"role/a"}, &policy.Narrowing{Intents: []string{"text/*"}}, true, "open"},
		{"text/respond", nil, nil, false, "role-intents"},
		{"text/sum", []string{"role/a", "role/clerk"}, &policy.Narrowing{Intents: []string{"chess/*"}}, false, "token-intents"},
	} {
		c := policy.Caller{Roles: row.roles, Narrow: row.narrow}
		d := a.Intent(row.intent, c)
		assert.Equal(t, row.ok, d.OK, "%+v", row)
		assert.Equal(t, row.reason, d.Reason, "%+v", row)
		err := a.IntentDenied(row.intent, c)
		require.Equal(t, row.ok, err == nil, "%+v", row)
		if err != nil {
			assert.ErrorIs(t, err, contract.OfType("auth/forbidden"))
			assert.Equal(t, edn.K(row.intent).String(), err.Details.Key("intent").String())
		}
	}
	d := a.Intent("text/sum", policy.Caller{Roles: []string{"role/b"}})
	assert.Equal(t, a.Intents["text/sum"], d.Rule, "the rule that decided")
	assert.Equal(t, policy.Rule{}, a.Intent("text/respond", policy.Caller{Roles: []string{"role/clerk"}}).Rule)
	a.RoleIntents["role/a"] = []string{"chess/*"}
	d = a.Intent("text/sum", policy.Caller{Roles: []string{"role/a"}})
	assert.Equal(t, "false role-intents", fmt.Sprint(d.OK, " ", d.Reason), "the rule permits, the role is for other intents")
	assert.True(t, policy.ShippedAccess().Intent("text/sum", policy.Caller{}).OK, "no role has intents")

	var none *policy.Access
	assert.True(t, none.Intent("a/b", policy.Caller{}).OK)
	assert.Equal(t, "no-rule", none.Operation("a/b", policy.Caller{Roles: []string{policy.RoleAdmin}}).Reason)
}

// AUTH-010: a decision makes no garbage.
func TestDecisionsDoNotAllocate(t *testing.T) {
	a := policy.ShippedAccess()
	a.Intents = policy.Rules{"text/*": {Any: []string{policy.RoleUser}}}
	a.RoleIntents = map[string][]string{policy.RoleOperator: {"text/*"}}
	c := policy.Caller{
		Roles:  []string{policy.RoleOperator, policy.RoleUser},
		Narrow: &policy.Narrowing{Roles: []string{policy.RoleUser}, Operations: []string{"http.v1/*"}, Intents: []string{"text/*"}},
	}
	for name, decide := range map[string]func() bool{
		"exact":     func() bool { return a.Operation(policy.Act, c).OK },
		"namespace": func() bool { return !a.Operation("admin/plugin-quarantine", c).OK },
		"unknown":   func() bool { return !a.Operation("nothing/such", c).OK },
		"intent":    func() bool { return a.Intent("text/respond", c).OK },
	} {
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			if !decide() {
				t.Error(name)
			}
		}), name)
	}
}

// AUTH-011: the shipped matrix of operations: what each of the shipped roles may do.
func TestShippedOperations(t *testing.T) {
	a := policy.ShippedAccess()
	all := append(policy.Operations(), policy.AdminOperations...)
	of := func(role string) []string { return a.Permitted(all, policy.Caller{Roles: []string{role}}) }
	users := []string{"http.v1/act", "http.v1/session", "runs/answer", "runs/cancel", "runs/read"}
	assert.Empty(t, of(policy.RoleAnonymous))
	assert.Equal(t, users, of(policy.RoleUser))
	operators := slices.Sorted(slices.Values(append(slices.Clone(users),
		"budget/raise", "diag/read", "metrics/read", "prompt/override", "runs/any", "runs/replay", "runs/resume", "session/any")))
	assert.Equal(t, operators, of(policy.RoleOperator))
	assert.ElementsMatch(t, all, of(policy.RoleAdmin))
}

// AUTH-012: a caller with a tenant has the rights of its roles, except those that concern
// the whole host.
func TestTenantsCannotAdministerTheHost(t *testing.T) {
	a := policy.ShippedAccess()
	all := append(policy.Operations(), policy.AdminOperations...)
	of := func(role, tenant string) []string {
		return a.Permitted(all, policy.Caller{Roles: []string{role}, Tenant: tenant})
	}
	assert.Equal(t, of(policy.RoleUser, ""), of(policy.RoleUser, "lab"))
	for _, role := range []string{policy.RoleOperator, policy.RoleAdmin} {
		want := slices.DeleteFunc(of(role, ""), func(o string) bool {
			return strings.HasPrefix(o, "admin/") || slices.Contains([]string{policy.AnySession, policy.AdminWorkspaces, policy.ReadDiag, policy.ReadMetrics}, o)
		})
		assert.Equal(t, want, of(role, "lab"), role)
		assert.Contains(t, want, policy.AnyRuns)
	}
	d := a.Operation("admin/create-user", policy.Caller{Roles: []string{policy.RoleAdmin}, Tenant: "lab"})
	assert.Equal(t, "tenant", d.Reason)
	assert.Contains(t, d.Refusal("auth/forbidden", "operation", policy.Caller{}).Hint, "without a tenant")
}

// A narrowing is in records and comes back from them.
func TestNarrowingAsData(t *testing.T) {
	var none *policy.Narrowing
	assert.True(t, none.Value().IsNil())
	assert.Nil(t, policy.ReadNarrowing(edn.Nil()))
	assert.Equal(t, &policy.Narrowing{Roles: []string{"role/a", "role/b"}, Intents: []string{}},
		policy.ReadNarrowing(edn.MustRead("{:roles [:role/b :role/a 7] :intents []}")), "in any order")
	rapid.Check(t, func(t *rapid.T) {
		n := drawNarrow(t)
		if n == nil {
			return
		}
		for _, list := range []*[]string{&n.Roles, &n.Operations, &n.Intents} {
			slices.Sort(*list)
		}
		require.Equal(t, n, policy.ReadNarrowing(edn.MustRead(n.Value().String())))
	})
}

func BenchmarkDecision(b *testing.B) {
	a := policy.ShippedAccess()
	c := policy.Caller{Roles: []string{policy.RoleOperator, policy.RoleUser}}
	b.ReportAllocs()
	for b.Loop() {
		if !a.Operation(policy.Act, c).OK {
			b.Fatal("denied")
		}
	}
}

// RUN-011: the highest ceiling among the roles of a caller counts, and of a narrowed
// credential that among its own.
func TestPriorityCeilings(t *testing.T) {
	a := policy.ShippedAccess()
	a.RolePriority = map[string]int{"role/batch": 4, policy.RoleOperator: 2}
	narrow := &policy.Narrowing{Roles: []string{policy.RoleUser}}
	for _, tc := range []struct {
		caller policy.Caller
		most   int
	}{
		{policy.Caller{}, 0},
		{policy.Caller{Roles: []string{policy.RoleUser}}, 0},
		{policy.Caller{Roles: []string{policy.RoleUser, "role/batch"}}, 4},
		{policy.Caller{Roles: []string{policy.RoleOperator, "role/batch"}}, 4},
		{policy.Caller{Roles: []string{policy.RoleOperator}}, 2},
		{policy.Caller{Roles: []string{policy.RoleAdmin}}, 9},
		{policy.Caller{Roles: []string{policy.RoleAdmin, policy.RoleUser}, Narrow: narrow}, 0},
		{policy.Caller{Roles: []string{policy.RoleAdmin}, Narrow: &policy.Narrowing{Intents: []string{"text/*"}}}, 9},
		{policy.Caller{Roles: []string{policy.RoleAdmin, "role/batch"}, Narrow: &policy.Narrowing{Roles: []string{"role/batch"}}}, 4},
	} {
		for priority := -9; priority <= 10; priority++ {
			err := a.PriorityDenied(priority, tc.caller)
			assert.Equal(t, priority > tc.most, err != nil, "%v at %d", tc.caller, priority)
		}
	}
	var none *policy.Access
	assert.Nil(t, none.PriorityDenied(9, policy.Caller{}))
}

// AUTH-003, AUTH-013: a decision is recorded with what was asked, the rule and the
// reason; the same is found in the error that a caller gets, whatever wraps it. Only a
// limit of a token has the hint to use another one.
func TestDecisionsAsData(t *testing.T) {
	a := &policy.Access{
		Operations:  policy.Rules{"runs/read": {Any: []string{"role/a"}, Forbidden: []string{"role/x"}}},
		RoleIntents: map[string][]string{"role/a": {"text/*"}},
	}
	narrowed := policy.Caller{Roles: []string{"role/a"}, Narrow: &policy.Narrowing{
		Operations: []string{"http.v1/*"},
		Intents:    []string{"text/sum"},
	}}
	const rule = "{:any #{:role/a} :forbidden #{:role/x}}"
	for _, row := range []struct {
		decision policy.Decision
		kind     string
		value    string
		token    bool
	}{
		{a.Operation("runs/read", policy.Caller{Roles: []string{"role/x"}}), "operation", "{:reason :forbidden :rule " + rule + " :what :runs/read}", false},
		{a.Operation("runs/read", narrowed), "operation", "{:reason :token-operations :rule " + rule + " :what :runs/read}", true},
		{a.Operation("runs/any", narrowed), "operation", "{:reason :no-rule :rule {} :what :runs/any}", false},
		{a.Intent("chess/best-move", narrowed), "intent", "{:reason :role-intents :rule {} :what :chess/best-move}", false},
		{a.Intent("text/respond", narrowed), "intent", "{:reason :token-intents :rule {} :what :text/respond}", true},
	} {
		assert.False(t, row.decision.OK, row.value)
		assert.Equal(t, row.value, row.decision.Value().String())
		err := row.decision.Refusal("auth/forbidden", row.kind, narrowed)
		require.NotNil(t, err)
		assert.Equal(t, row.token, err.Hint != contract.Errorf("auth/forbidden", "x").Hint, row.value)
		assert.Equal(t, row.token, strings.HasSuffix(err.Message, "is not permitted to this token"), err.Message)
		for _, at := range []*contract.Error{err, contract.Errorf("runtime/internal", "x").WithCause(err)} {
			denial, decision := policy.Denial(at)
			assert.Same(t, err, denial)
			assert.Equal(t, row.value, decision.String())
		}
	}
	may := a.Operation("runs/read", policy.Caller{Roles: []string{"role/a"}})
	assert.Equal(t, "{:reason :any :rule "+rule+" :what :runs/read}", may.Value().String())
	assert.Nil(t, may.Refusal("auth/forbidden", "operation", narrowed))

	effects := &policy.Effects{Rules: policy.Rules{"fs/read": {Any: []string{"role/b"}}}}
	reads := policy.Need{
		Capability: &registry.Capability{Capability: contract.Capability{ID: "x/y", Effects: []string{"fs/read"}}},
		Layer:      &policy.Layer{},
	}
	_, refused := effects.Grant(narrowed).Decide(reads)
	denial, decision := policy.Denial(refused)
	assert.Same(t, refused, denial)
	assert.Equal(t, "{:reason :any :rule {:any #{:role/b}} :what :fs/read}", decision.String())

	for _, other := range []*contract.Error{
		nil,
		contract.Errorf("budget/exceeded", "x"),
		contract.Errorf("effects/scope-denied", "x").WithDetail("effect", edn.K("fs/read")).WithDetail("reason", edn.K("disabled")),
		contract.Errorf("effects/scope-denied", "x").WithDetail("effect", edn.K("fs/read")).WithDetail("rule", edn.MustMap()),
		contract.Errorf("effects/scope-denied", "x").WithDetail("reason", edn.K("any")).WithDetail("rule", edn.MustMap()),
	} {
		denial, decision = policy.Denial(other)
		assert.Nil(t, denial, "no rule has decided")
		assert.True(t, decision.IsNil())
	}
}

// AUTH-001, AUTH-010: roles that a caller has without being given them cannot be given, and a
// caller without a tenant is of that of the host.
func TestRolesAndTenants(t *testing.T) {
	for role, want := range map[string]bool{
		policy.RoleAny: false, policy.RoleAnonymous: false, policy.RoleUser: true, policy.RoleAdmin: true, "role/mine": true,
	} {
		assert.Equal(t, want, policy.Grantable(role), role)
	}
	assert.Equal(t, policy.HostTenant, policy.TenantOf(""))
	assert.Equal(t, "acme", policy.TenantOf("acme"))
}

// AUTH-004: a narrowing is read as it was written, with the session of a session token.
func TestNarrowingIsReadAsWritten(t *testing.T) {
	for _, n := range []*policy.Narrowing{nil, {}, {Session: "s-1"}} {
		assert.Equal(t, n, policy.ReadNarrowing(n.Value()))
	}
}

// AUTH-010, AUTH-003: an access is permitted to a caller with further principals if it is permitted
// to each of them alone; a denial is that of the first that may not.
func TestAlsoIsEachAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		access, all := drawAccess(t), make([]policy.Caller, 3)
		for i := range all {
			all[i] = policy.Caller{Roles: subset(t, someRoles, "roles"), Narrow: drawNarrow(t)}
		}
		joint := all[0]
		joint.Also = all[1:]
		operation := rapid.SampledFrom(someOperations).Draw(t, "operation")
		intent := rapid.SampledFrom(someIntents).Draw(t, "intent")
		effects := &policy.Effects{Rules: policy.Rules{"fs/write": drawRule(t)}}
		effects.Host = policy.Scopes{{Effect: "fs/write"}}
		effects.Host[0].Scope.Enabled.V = true
		for what, decide := range map[string]func(policy.Caller) *contract.Error{
			"operation": func(c policy.Caller) *contract.Error {
				return access.Operation(operation, c).Refusal("auth/forbidden", "operation", c)
			},
			"intent":   func(c policy.Caller) *contract.Error { return access.IntentDenied(intent, c) },
			"priority": func(c policy.Caller) *contract.Error { return access.PriorityDenied(3, c) },
			"effect": func(c policy.Caller) *contract.Error {
				if effects.Grant(c).Admits("fs/write") {
					return nil
				}
				return contract.Errorf("auth/forbidden-effect", "not permitted")
			},
		} {
			var want *contract.Error
			for i := range all {
				if want == nil {
					want = decide(all[i])
				}
			}
			got := decide(joint)
			require.Equal(t, want == nil, got == nil, what)
			if want != nil {
				require.Equal(t, want.Error(), got.Error(), what)
			}
		}
	})
}

// FX-002: the hint about an effect that only the limit of a token denies names the limit: the rule
// permits the effect already.
func TestHintOfNarrowedEffects(t *testing.T) {
	e := &policy.Effects{Rules: policy.ShippedEffectRules()}
	need := policy.Need{
		Capability: &registry.Capability{Capability: contract.Capability{ID: "fs/write-file", Effects: []string{"fs/write"}}},
		Layer:      &policy.Layer{Effects: policy.Of([]string{"fs/write"}, policy.Origin{})},
	}
	caller := policy.Caller{Roles: []string{policy.RoleAdmin, policy.RoleUser}}
	caller.Narrow = &policy.Narrowing{Roles: []string{policy.RoleUser}}
	_, err := e.Grant(caller).Decide(need)
	require.NotNil(t, err)
	assert.Equal(t, ":token-roles", err.Details.Key("reason").String())
	assert.NotContains(t, err.Hint, "ferment.hcl")
	caller.Narrow = nil
	caller.Roles = caller.Roles[1:]
	_, err = e.Grant(caller).Decide(need)
	require.NotNil(t, err)
	assert.Contains(t, err.Hint, "ferment.hcl")
}
