package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/sdk/edn"
)

func limits(t testing.TB, text string) policy.Limits {
	t.Helper()
	l, err := policy.LimitsOf(edn.MustRead(text))
	require.NoError(t, err)
	return l
}

// BUD-001: no budget limits nothing, as no block does.
func TestNoBudgets(t *testing.T) {
	for name, b := range map[string]*policy.Budgets{"none": nil, "empty": {}} {
		assert.False(t, b.Any(), name)
		assert.False(t, b.AtLeast(), name)
		assert.False(t, b.RefuseWorst(), name)
		assert.Zero(t, b.Wall(), name)
		assert.Zero(t, b.Depth(), name)
		assert.Zero(t, b.CallLayer(), name)
		assert.Empty(t, b.Explain(), name)
		for _, scope := range []string{"tenant", "user", "run", "session"} {
			assert.Equal(t, &policy.ScopeBudget{}, b.Of(scope), name)
		}
		assert.True(t, b.Around(nil).IsZero(), name)
		assert.Same(t, b, b.Raised(policy.Amounts{}, policy.Amounts{}), name)
	}
	var none *policy.Budgets
	assert.Nil(t, none.Raised(policy.Count(policy.Attempts, 1), policy.Amounts{}))
}

// BUD-001: each block limits independently, and the tightest applies.
func TestBudgetsTogether(t *testing.T) {
	blocks := func() (*policy.Budgets, []*policy.ScopeBudget) {
		b := &policy.Budgets{}
		return b, []*policy.ScopeBudget{&b.Tenant, &b.User, &b.Run}
	}
	for i, scope := range []string{"tenant", "user", "run"} {
		b, all := blocks()
		all[i].Written = true
		assert.True(t, b.Any(), scope)
		assert.Same(t, all[i], b.Of(scope))

		b, all = blocks()
		all[i].RefuseWorst = true
		assert.True(t, b.RefuseWorst(), scope)

		for j := range all {
			b, all = blocks()
			all[i].Wall, all[i].Depth = 5*time.Nanosecond, 5
			if i != j {
				all[j].Wall, all[j].Depth = time.Nanosecond, 1
				assert.Equal(t, time.Nanosecond, b.Wall())
				assert.Equal(t, 1, b.Depth())
				continue
			}
			assert.Equal(t, 5*time.Nanosecond, b.Wall(), "what no other block limits")
			assert.Equal(t, 5, b.Depth())
		}

		b, all = blocks()
		all[i].Calls = policy.FieldsOf(edn.MustRead("{:max-tokens 7}"), byDefault)
		all[i].Limits, all[i].Where = limits(t, "{:max-attempts 3 :max-usd 1}"), "ferment.hcl:7:1"
		all[i].Wall, all[i].Depth = 90*time.Second, 4
		assert.Equal(t, "{:max-tokens 7}", b.CallLayer().Budget.Value().String())
		assert.Equal(t, []policy.Row{
			{Field: "budget of " + scope + " :max-attempts", Value: edn.Int(3), Origin: policy.Origin{Source: policy.SourceDefault, Where: "ferment.hcl:7:1"}},
			{Field: "budget of " + scope + " :max-usd", Value: edn.MustRead("1M"), Origin: policy.Origin{Source: policy.SourceDefault, Where: "ferment.hcl:7:1"}},
			{Field: "budget of " + scope + " :max-wall-ms", Value: edn.Int(90_000), Origin: policy.Origin{Source: policy.SourceDefault, Where: "ferment.hcl:7:1"}},
			{Field: "budget of " + scope + " :max-depth", Value: edn.Int(4), Origin: policy.Origin{Source: policy.SourceDefault, Where: "ferment.hcl:7:1"}},
		}, b.Explain())

		all[i].Wall, all[i].Depth = time.Millisecond, 1
		assert.Len(t, b.Explain(), 4, "the smallest limits are shown too")
		all[i].Wall, all[i].Depth = 0, 0
		assert.Len(t, b.Explain(), 2, "what has no limit is not")

		request := func(text string) string {
			return b.Around(policy.FieldsOf(edn.MustRead(text), byNode)).Value().String()
		}
		assert.Equal(t, "{:max-attempts 2 :max-roundtrips 5 :max-usd 1M}", request("{:max-attempts 2 :max-usd 4 :max-roundtrips 5}"))
		assert.Equal(t, "{:max-attempts 3 :max-usd 1M}", request("{:max-attempts -2}"), "refused elsewhere, limits nothing here")
	}
}

// BUD-007: calls of unknown price are permitted if every block that limits
// money permits them.
func TestAtLeast(t *testing.T) {
	const no, yes = false, true
	money := limits(t, "{:max-usd 1}")
	for name, tt := range map[string]struct {
		tenant, user policy.ScopeBudget
		want         bool
	}{
		"both agree":              {policy.ScopeBudget{Written: yes, Limits: money, AtLeast: yes}, policy.ScopeBudget{Written: yes, Limits: money, AtLeast: yes}, yes},
		"one refuses":             {policy.ScopeBudget{Written: yes, Limits: money, AtLeast: yes}, policy.ScopeBudget{Written: yes, Limits: money}, no},
		"the other refuses":       {policy.ScopeBudget{Written: yes, Limits: money}, policy.ScopeBudget{Written: yes, Limits: money, AtLeast: yes}, no},
		"the other limits calls":  {policy.ScopeBudget{Written: yes, Limits: money, AtLeast: yes}, policy.ScopeBudget{Written: yes, Limits: limits(t, "{:max-attempts 1}")}, yes},
		"without a limit":         {policy.ScopeBudget{Written: yes, AtLeast: yes}, policy.ScopeBudget{}, yes},
		"a block that is not one": {policy.ScopeBudget{Limits: money, AtLeast: yes}, policy.ScopeBudget{}, no},
		"not one refuses":         {policy.ScopeBudget{Written: yes, AtLeast: yes}, policy.ScopeBudget{Limits: money}, yes},
	} {
		assert.Equal(t, tt.want, (&policy.Budgets{Tenant: tt.tenant, User: tt.user}).AtLeast(), name)
	}
}

// LED-006: an operator's grant raises the limits of its scope; the original
// budgets stay unchanged.
func TestRaised(t *testing.T) {
	b := &policy.Budgets{
		Tenant: policy.ScopeBudget{Limits: limits(t, "{:max-attempts 5}")},
		User:   policy.ScopeBudget{Limits: limits(t, "{:max-usd 1}")},
	}
	before := *b
	one := policy.Count(policy.Attempts, 1)
	more := b.Raised(one, money(t, "0.5M"))
	assert.Equal(t, "{:max-attempts 6}", more.Tenant.Limits.Value().String())
	assert.Equal(t, "{:max-usd 1.5M}", more.User.Limits.Value().String())
	assert.Equal(t, before, *b)
	assert.Equal(t, "{:max-attempts 6}", b.Raised(one, policy.Amounts{}).Tenant.Limits.Value().String())
	assert.Equal(t, "{:max-usd 1.5M}", b.Raised(policy.Amounts{}, money(t, "0.5M")).User.Limits.Value().String())
}

// LED-006: a limit is reached from its soft share on; the first such dimension
// is returned.
func TestReached(t *testing.T) {
	soft := &policy.ScopeBudget{Soft: policy.DefaultSoft}
	l := limits(t, "{:max-attempts 10 :max-usd 1}")
	for name, tt := range map[string]struct {
		used policy.Amounts
		want string
	}{
		"nothing":          {policy.Amounts{}, ""},
		"below":            {policy.Count(policy.Attempts, 7), ""},
		"at":               {policy.Count(policy.Attempts, 8), "attempts"},
		"above":            {policy.Count(policy.Attempts, 11), "attempts"},
		"money below":      {money(t, "0.79M"), ""},
		"money at":         {money(t, "0.8M"), "usd"},
		"both":             {money(t, "1").Plus(policy.Count(policy.Attempts, 9)), "attempts"},
		"second dimension": {money(t, "1").Plus(policy.Count(policy.Attempts, 1)), "usd"},
		"not limited":      {policy.Count(policy.TokensIn, 1<<40), ""},
	} {
		d, reached := soft.Reached(l, tt.used)
		got := ""
		if reached {
			got = d.String()
		}
		assert.Equal(t, tt.want, got, name)
	}
	odd := limits(t, "{:max-usd 1E900M}").Plus(money(t, "1E-900M")) // too many digits for a decimal
	_, reached := soft.Reached(odd, money(t, "1E900M"))
	assert.True(t, reached)
	_, reached = soft.Reached(odd, money(t, "1"))
	assert.False(t, reached)
	_, reached = (&policy.ScopeBudget{}).Reached(l, policy.Count(policy.Attempts, 10))
	assert.False(t, reached, "no share, no warning")
	_, reached = soft.Reached(limits(t, "{:max-attempts 0}"), policy.Amounts{})
	assert.False(t, reached, "nothing was used")
	_, reached = soft.Reached(limits(t, "{:max-attempts 0}"), policy.Count(policy.Attempts, 1))
	assert.True(t, reached)
}

// BUD-001: a wall time limit of zero allows no time and differs from no limit.
func TestWallLimit(t *testing.T) {
	for _, tt := range []struct {
		limit request.Limit
		want  time.Duration
	}{
		{request.Limit{}, 0},
		{request.Limit{N: 5}, 0},
		{request.Limit{Set: true}, time.Nanosecond},
		{request.Limit{Set: true, N: -1}, time.Nanosecond},
		{request.Limit{Set: true, N: 1}, time.Millisecond},
		{request.Limit{Set: true, N: math.MaxInt64}, (1 << 43) * time.Millisecond},
	} {
		assert.Equal(t, tt.want, policy.WallLimit(tt.limit), "%+v", tt.limit)
	}
	assert.Positive(t, policy.WallLimit(request.Limit{Set: true, N: math.MaxInt64}))
}
