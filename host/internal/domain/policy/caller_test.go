package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
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
	operators := slices.Sorted(slices.Values(append(slices.Clone(users), "prompt/override", "runs/any", "runs/resume", "session/any")))
	assert.Equal(t, operators, of(policy.RoleOperator))
	assert.ElementsMatch(t, all, of(policy.RoleAdmin))
}

// A narrowing is in records and comes back from them.
func TestNarrowingAsData(t *testing.T) {
	var none *policy.Narrowing
	assert.True(t, none.Value().IsNil())
	assert.Nil(t, policy.ReadNarrowing(edn.Nil()))
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
