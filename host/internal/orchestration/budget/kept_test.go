package budget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
)

// LED-001, LED-005: a host continues the counters of an earlier one, in their windows:
// with what was spent, granted and reserved, and the accuracy of that.
func TestKeptLedgerContinues(t *testing.T) {
	now := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	at := func() time.Time { return now }
	user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 9}"), Per: budget.Day}
	host := budget.Scope{Kind: budget.Tenant, ID: "lab"}
	windows := budget.Windows([]budget.Scope{user, host}, now)
	k := newBank().host()
	k.Add(
		budget.Counter{Window: windows[0], Used: attempts(3), Granted: attempts(1), Mark: budget.AtLeast, Reserved: attempts(4), Term: k.term},
		budget.Counter{Window: windows[1], Used: attempts(3)},
	)
	l, err := budget.NewKept(t.Context(), k, at)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"user ann used {:attempts 3} reserved {:attempts 4} left {:max-attempts 3} at-least 2026-11-22 00:00:00 +0000 UTC",
		"tenant lab used {:attempts 3} reserved {} left {} exact 0001-01-01 00:00:00 +0000 UTC",
	}, figures(t, l, user, host))

	// The resumed run settles what the earlier host has reserved.
	r, err := l.Adopt(t.Context(), windows, attempts(4))
	require.NoError(t, err)
	require.NoError(t, l.Settle(t.Context(), r, attempts(2), budget.Exact))
	assert.Equal(t, "user ann used {:attempts 5} reserved {} left {:max-attempts 5} at-least 2026-11-22 00:00:00 +0000 UTC", figures(t, l, user)[0])

	// Whether a window is a day or a month is not kept: it goes a day after its month.
	other := []budget.Scope{{Kind: budget.Run, ID: "r"}}
	end := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		now  time.Time
		left int
	}{{end.Add(-time.Nanosecond), 3}, {end, 2}, {end.AddDate(10, 0, 0), 2}} {
		now = step.now
		_, err = l.Reserve(t.Context(), other, attempts(1))
		require.NoError(t, err)
		assert.Equal(t, step.left, l.Len(), "%s", now)
	}

	k.err = errors.New("lost")
	_, err = budget.NewKept(t.Context(), k, at)
	assert.ErrorIs(t, err, k.err)
}

// LED-002: the keeper gets what no record of a run has: changes by hand, which are
// durable when Adjust returns, and the costs of work beside runs, once and in the
// scopes that outlive runs.
func TestKeptLedgerKeepsWhatHasNoRecord(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 9}"), Per: budget.Month}
	host := budget.Scope{Kind: budget.Tenant, ID: "lab"}
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	chain := budget.Chain{host, user, run}
	k := newBank().host()
	l, err := budget.NewKept(t.Context(), k, now)
	require.NoError(t, err)
	a := budget.NewAccount(l)
	kept := func() map[string]string {
		all, err := k.Counters(t.Context())
		require.NoError(t, err)
		out := map[string]string{}
		for _, c := range all {
			out[c.Kind.String()] = c.Used.Plus(c.Reserved).Plus(c.Granted).Value().String() + " " + c.Mark.String()
		}
		return out
	}
	h, err := a.Reserve(t.Context(), chain, attempts(2))
	require.NoError(t, err)
	require.NoError(t, h.Settle(t.Context(), attempts(2), budget.Exact))
	assert.Empty(t, kept(), "the record of the run has this cost")

	beside, err := a.Beside().Reserve(t.Context(), chain, attempts(3))
	require.NoError(t, err)
	assert.Empty(t, kept())
	require.NoError(t, beside.Settle(t.Context(), attempts(1), budget.Estimated))
	require.NoError(t, beside.Settle(t.Context(), attempts(1), budget.Estimated))
	want := map[string]string{"tenant": "{:attempts 1} estimated", "user": "{:attempts 1} estimated"}
	assert.Equal(t, want, kept(), "once, and not in the scope of the run")

	gone, leave := context.WithCancel(t.Context())
	leave()
	require.NoError(t, l.Adjust(gone, user, budget.Adjustment{Grant: attempts(7), Charge: attempts(4)}))
	require.NoError(t, l.Adjust(gone, run, budget.Adjustment{Grant: attempts(7)}))
	want["user"] = "{:attempts 12} estimated"
	assert.Equal(t, want, kept())
	assert.Equal(t, "user ann used {:attempts 7} reserved {} left {:max-attempts 9} estimated 2026-12-01 00:00:00 +0000 UTC", figures(t, l, user)[0])

	k.err = errors.New("lost")
	before := figures(t, l, user)
	require.ErrorIs(t, l.Adjust(t.Context(), user, budget.Adjustment{Grant: attempts(1)}), k.err)
	assert.Equal(t, before, figures(t, l, user), "a change that is not durable does not count")
	require.NoError(t, l.Adjust(t.Context(), run, budget.Adjustment{Grant: attempts(1)}), "that of a run is in memory")
}

// LED-002: a ledger without a keeper counts work beside runs too.
func TestPostWithoutKeeper(t *testing.T) {
	l := budget.NewMemory(nil)
	user := budget.Scope{Kind: budget.User, ID: "ann"}
	h, err := budget.NewAccount(l).Beside().Reserve(t.Context(), budget.Chain{user}, attempts(3))
	require.NoError(t, err)
	require.NoError(t, h.Settle(t.Context(), attempts(1), budget.Exact))
	all, err := l.Balances(t.Context(), []budget.Scope{user})
	require.NoError(t, err)
	assert.Equal(t, attempts(1), all[0].Used)
	assert.True(t, all[0].Reserved.IsZero())
	require.NoError(t, l.Post(t.Context(), budget.Reservation{}, attempts(1), budget.Exact), "no reservation")
	assert.Nil(t, budget.Reservation{}.Begins())
}
