package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/sdk/contract"
)

func attempts(n int64) policy.Amounts { return policy.Count(policy.Attempts, n) }

// LED-006: the account of a run reports reserved, settled and refunded
// amounts, the number of open reservations, and the worst mark of the settled
// ones.
func TestTotals(t *testing.T) {
	ctx := context.Background()
	a := budget.NewAccount(budget.NewMemory(nil))
	chain := budget.Chain{{Kind: budget.User, ID: "u"}}
	first, err := a.Reserve(ctx, chain, attempts(3))
	require.NoError(t, err)
	_, err = a.Reserve(ctx, chain, attempts(4))
	require.NoError(t, err)
	assert.Equal(t, budget.Totals{Reserved: attempts(7), Open: 2}, a.Totals())

	require.NoError(t, first.Settle(ctx, attempts(1), budget.Estimated))
	want := budget.Totals{Reserved: attempts(7), Settled: attempts(1), Refunded: attempts(2), Mark: budget.Estimated, Open: 1}
	assert.Equal(t, want, a.Totals())
	require.NoError(t, first.Settle(ctx, attempts(9), budget.Unknown))
	assert.Equal(t, want, a.Totals(), "only the first call counts")

	a.Drain(ctx)
	want = budget.Totals{Reserved: attempts(7), Settled: attempts(5), Refunded: attempts(2), Mark: budget.AtLeast}
	assert.Equal(t, want, a.Totals(), "what is open counts in full")
	var none *budget.Hold
	assert.NoError(t, none.Settle(ctx, attempts(1), budget.Exact))
}

// LED-003: a closed account reserves nothing and leaves no scope of its run;
// closing it again has no effect.
func TestClosed(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	a := budget.NewAccount(l)
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	node := budget.Scope{Kind: budget.Node, ID: "r [0]"}
	a.Owns(run)
	a.Owns(node)
	h, err := a.Reserve(ctx, budget.Chain{run, node}, attempts(1))
	require.NoError(t, err)
	require.NoError(t, h.Settle(ctx, attempts(1), budget.Exact))
	assert.Equal(t, 2, l.Len())
	a.Close(ctx)
	assert.Zero(t, l.Len())
	_, err = a.Reserve(ctx, budget.Chain{run}, attempts(1))
	require.ErrorIs(t, err, budget.ErrClosed)

	again := a.Beside()
	_, err = again.Reserve(ctx, budget.Chain{run}, attempts(1))
	require.NoError(t, err)
	a.Close(ctx)
	assert.Equal(t, 1, l.Len(), "a second Close leaves what came later alone")

	var zero budget.Account
	_, err = zero.Reserve(ctx, nil, attempts(1))
	require.ErrorIs(t, err, budget.ErrClosed)
	zero.Close(ctx)
}

// BUD-003: a renewed scope starts at zero and ends with the run.
func TestRenew(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	plan := budget.Scope{Kind: budget.Plan, ID: "r [0]", Limits: limits(t, "{:max-attempts 1}")}
	a := budget.NewAccount(l)
	for range 3 {
		a.Renew(ctx, plan)
		h, err := a.Reserve(ctx, budget.Chain{plan}, attempts(1))
		require.NoError(t, err)
		require.NoError(t, h.Settle(ctx, attempts(1), budget.Exact))
		left, err := a.Left(ctx, budget.Chain{plan})
		require.NoError(t, err)
		assert.Equal(t, "{:max-attempts 0}", left.Value().String())
	}
	a.Close(ctx)
	assert.Zero(t, l.Len())
}

// lame is a ledger whose balances cannot be read, and that takes nothing over.
type lame struct {
	*budget.Memory
	err error
}

func (l lame) Balances(context.Context, []budget.Scope) ([]budget.Balance, error) { return nil, l.err }

func (l lame) Adopt(context.Context, []budget.Window, policy.Amounts) (budget.Reservation, error) {
	return budget.Reservation{}, l.err
}

// BUD-005: the cost of a run with a reservation for the whole run is that of
// its scope; without a scope it is the sum of the account, with a weaker mark.
func TestSettleRun(t *testing.T) {
	ctx := context.Background()
	user := budget.Scope{Kind: budget.User, ID: "u"}
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	nested := budget.Scope{Kind: budget.Run, ID: "r2"}
	lost := errors.New("lost")
	for name, tt := range map[string]struct {
		owns   []budget.Scope
		broken bool
		open   bool
		took   policy.Amounts
		mark   budget.Mark
	}{
		"not counted":         {took: attempts(2), mark: budget.Exact},
		"counted":             {owns: []budget.Scope{run}, took: attempts(2), mark: budget.Exact},
		"first scope counts":  {owns: []budget.Scope{run, nested}, took: attempts(2), mark: budget.Exact},
		"not read":            {owns: []budget.Scope{run}, broken: true, took: attempts(2), mark: budget.AtLeast},
		"something is open":   {owns: []budget.Scope{run}, open: true, took: attempts(5), mark: budget.AtLeast},
		"another kind counts": {owns: []budget.Scope{{Kind: budget.Plan, ID: "r"}}, took: attempts(2), mark: budget.Exact},
	} {
		t.Run(name, func(t *testing.T) {
			l := budget.NewMemory(nil)
			a := budget.NewAccount(l)
			if tt.broken {
				a = budget.NewAccount(lame{l, lost})
			}
			_, mark, ok := a.SettleRun(ctx)
			assert.False(t, ok, "nothing was set aside")
			assert.Equal(t, budget.Exact, mark)
			for _, s := range tt.owns {
				a.Owns(s)
			}
			_, err := a.ReserveRun(ctx, budget.Chain{user}, attempts(9))
			require.NoError(t, err)
			h, err := a.Reserve(ctx, budget.Chain{run}, attempts(4))
			require.NoError(t, err)
			require.NoError(t, h.Settle(ctx, attempts(2), budget.Exact))
			if tt.open {
				_, err = a.Reserve(ctx, budget.Chain{run}, attempts(3))
				require.NoError(t, err)
			}
			took, mark, ok := a.SettleRun(ctx)
			assert.True(t, ok)
			assert.Equal(t, tt.took, took)
			assert.Equal(t, tt.mark, mark)
			all, err := l.Balances(ctx, []budget.Scope{user})
			require.NoError(t, err)
			assert.Equal(t, tt.took, all[0].Used)
			assert.Equal(t, tt.mark, all[0].Mark)
			_, _, ok = a.SettleRun(ctx)
			assert.False(t, ok, "it is settled once")
		})
	}
	a := budget.NewAccount(lame{budget.NewMemory(nil), lost})
	_, err := a.Balances(ctx, budget.Chain{user})
	assert.ErrorIs(t, err, lost)
	_, err = a.Short(ctx, budget.Chain{user}, attempts(1))
	assert.ErrorIs(t, err, lost)
	_, err = a.Left(ctx, budget.Chain{user})
	assert.ErrorIs(t, err, lost)
}

// LED-006: the error has scope, window and the time until the end of the
// window.
func TestExceededError(t *testing.T) {
	now := time.Date(2026, 11, 23, 23, 59, 59, 999_500_000, time.UTC)
	exceeded := func(s budget.Scope) *contract.Error {
		s.Limits = limits(t, "{:max-attempts 2}")
		l := budget.NewMemory(func() time.Time { return now })
		var e *budget.ExceededError
		_, err := l.Reserve(context.Background(), []budget.Scope{s}, attempts(3))
		require.ErrorAs(t, err, &e)
		assert.Contains(t, e.Error(), s.String())
		return e.Contract("budget/exceeded", now)
	}
	caller := exceeded(budget.Scope{Kind: budget.User, ID: "ann", Per: budget.Day})
	assert.Equal(t, `{:asked 3 :dimension :attempts :left 2 :limit 2 :per :day :resets #inst "2026-11-24T00:00:00.000Z"`+
		` :retry-after-ms 1 :scope :user :user "ann"}`, caller.Details.String())
	whole := exceeded(budget.Scope{Kind: budget.Tenant})
	assert.Equal(t, "{:asked 3 :dimension :attempts :left 2 :limit 2 :per :total :scope :tenant}", whole.Details.String())
	assert.Contains(t, whole.Message, "does not begin anew")

	for want, s := range map[string]budget.Scope{
		"this host":       {Kind: budget.Tenant, ID: policy.HostTenant},
		"tenant lab":      {Kind: budget.Tenant, ID: "lab"},
		"user ann":        {Kind: budget.User, ID: "ann"},
		"session s1":      {Kind: budget.Session, ID: "s1"},
		"the run":         {Kind: budget.Run, ID: "r1"},
		"the plan at [0]": {Kind: budget.Plan, ID: "r1 [0]"},
		"node [0 1]":      {Kind: budget.Node, ID: "r1 [0 1]"},
	} {
		assert.Equal(t, want, s.String())
	}
	for v, want := range map[interface{ String() string }]string{
		budget.Kind(-1): "scope -1", budget.Kind(6): "scope 6", budget.Node: "node", budget.Tenant: "tenant",
		budget.Mark(-1): "mark -1", budget.Mark(4): "mark 4", budget.Unknown: "unknown", budget.Exact: "exact",
	} {
		assert.Equal(t, want, v.String())
	}
	for m := budget.Exact; m <= budget.Unknown; m++ {
		assert.Equal(t, m, budget.MarkOf(m.String()))
	}
	assert.Equal(t, budget.Unknown, budget.MarkOf("guessed"), "LLM-020: another name is no accuracy")
}

// LED-001: the counters of tenants and users outlive runs, the others end with a run
// or a session.
func TestLastingKinds(t *testing.T) {
	for k := budget.Tenant; k <= budget.Node; k++ {
		assert.Equal(t, k == budget.Tenant || k == budget.User, k.Lasts(), k.String())
	}
}

// LED-002: changes of a counter add up, and its mark is the worst of all.
func TestCounterPlus(t *testing.T) {
	c := budget.Counter{Window: budget.Window{Kind: budget.User, ID: "ann"}, Term: 7}
	change := budget.Counter{
		Used:     attempts(1),
		Reserved: attempts(2),
		Granted:  attempts(3),
		Released: attempts(4),
		Mark:     budget.AtLeast,
		Term:     8,
	}
	got := c.Plus(change).Plus(budget.Counter{Mark: budget.Estimated}).Plus(change)
	assert.Equal(t, budget.Counter{
		Window:   c.Window,
		Used:     attempts(2),
		Reserved: attempts(4),
		Granted:  attempts(6),
		Released: attempts(8),
		Mark:     budget.AtLeast,
		Term:     7,
	}, got)
}

// LED-004: a counter is kept for a day after its window, and while it has
// reservations; callers are listed in a stable order.
func TestKeptCounters(t *testing.T) {
	ctx := context.Background()
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	l := budget.NewMemory(func() time.Time { return now })
	scope := func(id string) []budget.Scope { return []budget.Scope{{Kind: budget.User, ID: id, Per: budget.Day}} }
	reserve := func(id string) budget.Reservation {
		r, err := l.Reserve(ctx, scope(id), attempts(1))
		require.NoError(t, err)
		return r
	}
	for _, id := range []string{"c", "a", "e", "b", "d"} {
		require.NoError(t, l.Settle(ctx, reserve(id), attempts(1), budget.Exact))
	}
	seen, err := l.Seen(ctx, budget.User, budget.Day)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c", "d", "e"}, seen)
	first, second := reserve("open"), reserve("open")

	now = begin.Add(48*time.Hour - time.Nanosecond)
	reserve("later")
	assert.Equal(t, 7, l.Len(), "a day behind the window is not over")
	now = begin.Add(48 * time.Hour)
	reserve("later still")
	assert.Equal(t, 3, l.Len(), "what has something reserved is kept")
	require.NoError(t, l.Settle(ctx, first, attempts(1), budget.Exact))
	assert.Equal(t, 3, l.Len())
	require.NoError(t, l.Settle(ctx, second, attempts(1), budget.Exact))
	assert.Equal(t, 2, l.Len(), "and goes with the last")
}

// LED-007: a reservation in a forgotten scope is settled in the others.
func TestForgotten(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	run, user := budget.Scope{Kind: budget.Run, ID: "r"}, budget.Scope{Kind: budget.User, ID: "u"}
	r, err := l.Reserve(ctx, []budget.Scope{run, user}, attempts(2))
	require.NoError(t, err)
	require.NoError(t, l.Forget(ctx, run))
	assert.Equal(t, 1, l.Len())
	require.NoError(t, l.Settle(ctx, r, attempts(1), budget.Exact))
	all, err := l.Balances(ctx, []budget.Scope{run, user})
	require.NoError(t, err)
	assert.True(t, all[0].Used.IsZero())
	assert.Equal(t, attempts(1), all[1].Used)
	assert.True(t, all[1].Reserved.IsZero())
}

// LED-005: an account that leaves its run keeps what it has reserved for it in the
// enclosing scopes, and nothing in those of the run. The account of the resumed run
// takes that over and settles it once, with the cost of the whole run.
func TestLeaveAndAdopt(t *testing.T) {
	ctx := context.Background()
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	l := budget.NewMemory(now)
	user := budget.Scope{Kind: budget.User, ID: "u", Per: budget.Day}
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	chain := budget.Chain{run}
	first := budget.NewAccount(l)
	first.Owns(run)
	wide, err := first.ReserveRun(ctx, budget.Chain{user}, attempts(9))
	require.NoError(t, err)
	assert.Equal(t, attempts(9), wide.Want())
	assert.Equal(t, map[string]time.Time{"user": time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}, wide.Begins())
	_, err = first.Reserve(ctx, chain, attempts(4))
	require.NoError(t, err)
	used := func() [2]policy.Amounts {
		all, err := l.Balances(ctx, []budget.Scope{user})
		require.NoError(t, err)
		return [2]policy.Amounts{all[0].Used, all[0].Reserved}
	}
	first.Leave(ctx)
	assert.Equal(t, 1, l.Len(), "the scope of the run is gone")
	_, err = first.Reserve(ctx, chain, attempts(1))
	require.ErrorIs(t, err, budget.ErrClosed)
	first.Close(ctx)
	_, _, ok := first.SettleRun(ctx)
	assert.False(t, ok, "it has nothing to settle any more")
	assert.Equal(t, [2]policy.Amounts{{}, attempts(9)}, used())

	second := budget.NewAccount(l)
	second.Owns(run)
	windows := budget.Windows([]budget.Scope{user}, now())
	require.NoError(t, second.AdoptRun(ctx, windows, attempts(9)))
	h, err := second.Reserve(ctx, chain, attempts(4))
	require.NoError(t, err)
	require.NoError(t, h.Settle(ctx, attempts(3), budget.Exact))
	assert.Equal(t, [2]policy.Amounts{{}, attempts(9)}, used(), "until the end of the run")
	second.Close(ctx)
	assert.Equal(t, [2]policy.Amounts{attempts(3), {}}, used())

	lost := errors.New("lost")
	third := budget.NewAccount(lame{l, lost})
	require.ErrorIs(t, third.AdoptRun(ctx, windows, attempts(1)), lost)
	_, _, ok = third.SettleRun(ctx)
	assert.False(t, ok, "what was not taken over is not settled")
}
