package budget_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/sdk/edn"
)

func limits(t testing.TB, text string) policy.Limits {
	t.Helper()
	l, err := policy.LimitsOf(edn.MustRead(text))
	require.NoError(t, err)
	return l
}

func money(t testing.TB, text string) policy.Amounts {
	t.Helper()
	a, err := policy.Money(edn.MustRead(text))
	require.NoError(t, err)
	return a
}

// ENV-016, LED-001: valid and invalid limits.
func TestLimits(t *testing.T) {
	assert.Equal(t, "{:max-tokens-out 5 :max-usd 0.04M}", limits(t, "{:max-usd 0.04M :tokens-out 5 :max-tokens 7 :max-wall-ms 100 :temperature 1}").Value().String())
	assert.Equal(t, "{:max-usd 1M}", limits(t, "{:usd 2 :max-usd 1}").Value().String(), "two spellings: the tighter")
	for text, says := range map[string]string{
		"{:max-usd 0.1}":      "expected an integer or a decimal, found 0.1",
		"{:max-usd -1}":       "expected no negative amount, found -1",
		"{:max-attempts 1.5}": "expected an integer",
		"{:max-attempts -1}":  "not negative, found -1",
		"{:max-usd \"1\"}":    "found \"1\"",
	} {
		_, err := policy.LimitsOf(edn.MustRead(text))
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), says)
		assert.Contains(t, err.Error(), "budget :max-")
	}
}

// Sums of decimals are exact: ten times a tenth is one.
func TestExact(t *testing.T) {
	sum := policy.Amounts{}
	for range 10 {
		sum = sum.Plus(money(t, "0.1M"))
	}
	assert.Equal(t, "{:usd 1M}", sum.Value().String())
	assert.Equal(t, "{:usd 0.333333333333333333333333333333333M}", money(t, "0.333333333333333333333333333333333M").Value().String())
	assert.Equal(t, "{:tokens-in 9223372036854775807}", policy.Count(policy.TokensIn, 1<<62).Plus(policy.Count(policy.TokensIn, 1<<62)).Plus(policy.Count(policy.TokensIn, 1<<62)).Value().String())
	assert.True(t, sum.Minus(sum).IsZero())
}

// BUD-002, LED-007: concurrent callers with a budget for one call; one runs,
// the others receive the rest and the end of the window.
func TestOneOfManyCallers(t *testing.T) {
	for _, callers := range []int{8, 64} {
		for _, limit := range []string{"{:max-attempts 1}", "{:max-usd 0.01M}"} {
			l := budget.NewMemory(func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) })
			want := policy.Count(policy.Attempts, 1).Plus(money(t, "0.01M"))
			scopes := []budget.Scope{{Kind: budget.User, ID: "ann", Limits: limits(t, limit), Per: budget.Day}, {Kind: budget.Run, ID: "r"}}
			var begin, done sync.WaitGroup
			begin.Add(1)
			var got atomic.Int32
			for range callers {
				done.Go(func() {
					begin.Wait()
					_, err := l.Reserve(context.Background(), scopes, want)
					if err == nil {
						got.Add(1)
						return
					}
					var exceeded *budget.ExceededError
					if assert.ErrorAs(t, err, &exceeded) {
						assert.Equal(t, budget.User, exceeded.Scope.Kind)
						assert.Contains(t, err.Error(), "begins anew at 2026-11-22T00:00:00Z")
						assert.Equal(t, edn.Int(0).String(), exceeded.Left.Max(exceeded.Dimension).String()[:1])
					}
				})
			}
			begin.Done()
			done.Wait()
			assert.EqualValues(t, 1, got.Load(), "%d callers, %s", callers, limit)
			balances, err := l.Balances(context.Background(), scopes)
			require.NoError(t, err)
			assert.True(t, balances[1].Reserved.Equal(want), "nothing was left behind in the other scopes")
		}
	}
}

// LED-003: the actual cost counts, also above the reservation; the worst mark
// is kept.
func TestSettle(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	scopes := []budget.Scope{{Kind: budget.Run, ID: "r", Limits: limits(t, "{:max-tokens-out 100}")}}
	first, err := l.Reserve(ctx, scopes, policy.Count(policy.TokensOut, 50))
	require.NoError(t, err)
	second, err := l.Reserve(ctx, scopes, policy.Count(policy.TokensOut, 50))
	require.NoError(t, err)
	require.NoError(t, l.Settle(ctx, first, policy.Count(policy.TokensOut, 70), budget.AtLeast))
	require.NoError(t, l.Settle(ctx, second, policy.Count(policy.TokensOut, 10), budget.Exact))
	require.NoError(t, l.Settle(ctx, second, policy.Count(policy.TokensOut, 10), budget.Exact), "a second time")
	b, err := l.Balances(ctx, scopes)
	require.NoError(t, err)
	assert.Equal(t, "{:tokens-out 80}", b[0].Used.Value().String())
	assert.True(t, b[0].Reserved.IsZero())
	assert.Equal(t, budget.AtLeast, b[0].Mark)
	assert.Equal(t, "{:max-tokens-out 20}", budget.Left(b).Value().String())
	_, err = l.Reserve(ctx, scopes, policy.Count(policy.TokensIn, 1000))
	require.NoError(t, err, "another dimension is not limited")
}

// LED-004: a reservation is released in the window in which it was made.
func TestWindows(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	l := budget.NewMemory(func() time.Time { return now })
	scopes := []budget.Scope{{Kind: budget.Tenant, ID: "lab", Limits: limits(t, "{:max-attempts 2}"), Per: budget.Month}}
	one := policy.Count(policy.Attempts, 1)
	late, err := l.Reserve(ctx, scopes, one)
	require.NoError(t, err)
	now = now.Add(2 * time.Minute)
	for range 2 {
		_, err = l.Reserve(ctx, scopes, one)
		require.NoError(t, err, "the new month has a budget of its own")
	}
	require.NoError(t, l.Settle(ctx, late, one, budget.Exact))
	_, err = l.Reserve(ctx, scopes, one)
	var exceeded *budget.ExceededError
	require.ErrorAs(t, err, &exceeded)
	assert.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), exceeded.Resets)
}

// LED-002: a clock that is set beyond the end of a window and back does not
// give a caller the window's budget twice.
func TestClockSetBack(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC)
	l := budget.NewMemory(func() time.Time { return now })
	scopes := []budget.Scope{{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 2}"), Per: budget.Day}}
	one := policy.Count(policy.Attempts, 1)
	before, err := l.Reserve(ctx, scopes, one)
	require.NoError(t, err)
	require.NoError(t, l.Settle(ctx, before, one, budget.Exact))
	across, err := l.Reserve(ctx, scopes, one)
	require.NoError(t, err)
	now = now.Add(time.Hour)
	require.NoError(t, l.Settle(ctx, across, one, budget.Exact))
	next, err := l.Reserve(ctx, scopes, one) // the first of a day sweeps ended windows
	require.NoError(t, err)
	require.NoError(t, l.Settle(ctx, next, one, budget.Exact))
	now = now.Add(-time.Hour)
	b, err := l.Balances(ctx, scopes)
	require.NoError(t, err)
	assert.Equal(t, "{:attempts 2}", b[0].Used.Value().String())
	_, err = l.Reserve(ctx, scopes, one)
	var exceeded *budget.ExceededError
	assert.ErrorAs(t, err, &exceeded)
	now = now.Add(time.Hour)
	b, err = l.Balances(ctx, scopes)
	require.NoError(t, err)
	assert.Equal(t, "{:attempts 1}", b[0].Used.Value().String(), "and the next day has what was spent in it")
}

// LED-004, LED-006: grants and charges of an operator count immediately and
// exactly, in their scope and window only.
func TestAdjust(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := budget.NewMemory(func() time.Time { return now })
	user := func(id string) budget.Scope {
		return budget.Scope{Kind: budget.User, ID: id, Per: budget.Day, Limits: limits(t, "{:max-attempts 1 :max-usd 0.1M}")}
	}
	one := policy.Count(policy.Attempts, 1)
	_, err := l.Reserve(ctx, []budget.Scope{user("ann")}, one)
	require.NoError(t, err)
	_, err = l.Reserve(ctx, []budget.Scope{user("ann")}, one)
	require.Error(t, err)
	require.NoError(t, l.Adjust(ctx, user("ann"), budget.Adjustment{Grant: policy.Count(policy.Attempts, 2).Plus(money(t, "0.05M"))}))
	require.NoError(t, l.Adjust(ctx, user("ann"), budget.Adjustment{Grant: money(t, "0.05M"), Charge: money(t, "0.3M")}))
	all, err := l.Balances(ctx, []budget.Scope{user("ann"), user("bob")})
	require.NoError(t, err)
	assert.Equal(t, "{:max-attempts 3 :max-usd 0.2M} {:attempts 2 :usd 0.1M} {:usd 0.3M} {:max-attempts 2 :max-usd 0M}",
		fmt.Sprint(all[0].Scope.Limits.Value(), " ", all[0].Granted.Value(), " ", all[0].Used.Value(), " ", all[0].Left().Value()), "charged beyond the limit")
	assert.Equal(t, "{:max-attempts 1 :max-usd 0.1M}", all[1].Left().Value().String())
	_, err = l.Reserve(ctx, []budget.Scope{user("ann")}, one)
	require.NoError(t, err, "attempts are left")
	_, err = l.Reserve(ctx, []budget.Scope{user("ann")}, one.Plus(money(t, "0.01M")))
	var lack *budget.ExceededError
	require.ErrorAs(t, err, &lack)
	assert.Equal(t, "the budget of user ann has 0 of 0.2 usd left, and 0.01 would be needed; it begins anew at 2026-11-02T00:00:00Z", lack.Error())
	seen, err := l.Seen(ctx, budget.User, budget.Day)
	require.NoError(t, err)
	assert.Equal(t, []string{"ann"}, seen)

	now = now.AddDate(0, 0, 1)
	all, err = l.Balances(ctx, []budget.Scope{user("ann")})
	require.NoError(t, err)
	assert.Equal(t, "{:max-attempts 1 :max-usd 0.1M}", all[0].Left().Value().String(), "another day")
	seen, err = l.Seen(ctx, budget.User, budget.Day)
	require.NoError(t, err)
	assert.Empty(t, seen)
}

// EVAL-072, LED-007: for reservations and settlements in any order, used and
// reserved are the sums over the attempts in every scope, and no scope exceeds
// its limit at the time of a reservation.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		l := budget.NewMemory(nil)
		bound := rapid.Int64Range(0, 60).Draw(t, "bound")
		run := budget.Scope{Kind: budget.Run, ID: "r", Limits: limitsOf(t, fmt.Sprintf("{:max-tokens-out %d :max-usd 0.%02dM}", bound, rapid.IntRange(0, 99).Draw(t, "cents")))}
		type attempt struct {
			r     budget.Reservation
			scope budget.Scope
			want  policy.Amounts
		}
		var open []attempt
		used := map[string]policy.Amounts{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			amount := policy.Count(policy.TokensOut, rapid.Int64Range(0, 20).Draw(t, "tokens"))
			paid, err := policy.Money(edn.MustRead(fmt.Sprintf("0.%02dM", rapid.IntRange(0, 30).Draw(t, "paid"))))
			if err != nil {
				t.Fatal(err)
			}
			amount = amount.Plus(paid)
			if len(open) > 0 && rapid.Bool().Draw(t, "settle") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				a := open[i]
				open = append(open[:i], open[i+1:]...)
				if err := l.Settle(ctx, a.r, amount, budget.Exact); err != nil {
					t.Fatal(err)
				}
				used[a.scope.ID] = used[a.scope.ID].Plus(amount)
				used["r"] = used["r"].Plus(amount)
				continue
			}
			node := budget.Scope{Kind: budget.Node, ID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node")}
			before, _ := l.Balances(ctx, []budget.Scope{run})
			r, err := l.Reserve(ctx, []budget.Scope{run, node}, amount)
			if err == nil {
				open = append(open, attempt{r, node, amount})
				after, _ := l.Balances(ctx, []budget.Scope{run})
				total := after[0].Used.Plus(after[0].Reserved)
				for _, d := range policy.Dimensions() {
					limit := run.Limits.Max(d)
					if asked, _ := amount.Of(d).AsNumber(); asked.Sign() > 0 && !limit.IsNil() {
						have, _ := total.Of(d).AsNumber()
						most, _ := limit.AsNumber()
						if have.Cmp(most) > 0 {
							t.Fatalf("%s: %s of %s after a reservation", d, total.Of(d), limit)
						}
					}
				}
			} else if after, _ := l.Balances(ctx, []budget.Scope{run}); !after[0].Reserved.Equal(before[0].Reserved) {
				t.Fatal("a refused reservation left something")
			}
		}
		held := map[string]policy.Amounts{}
		for _, a := range open {
			held[a.scope.ID] = held[a.scope.ID].Plus(a.want)
			held["r"] = held["r"].Plus(a.want)
		}
		balances, _ := l.Balances(ctx, []budget.Scope{run, {Kind: budget.Node, ID: "a"}, {Kind: budget.Node, ID: "b"}})
		for _, b := range balances {
			if !b.Used.Equal(used[b.Scope.ID]) || !b.Reserved.Equal(held[b.Scope.ID]) {
				t.Fatalf("%s: used %s, reserved %s; want %s and %s", b.Scope.ID, b.Used.Value(), b.Reserved.Value(), used[b.Scope.ID].Value(), held[b.Scope.ID].Value())
			}
		}
	})
}

func limitsOf(t *rapid.T, text string) policy.Limits {
	l, err := policy.LimitsOf(edn.MustRead(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func BenchmarkReserveSettle(b *testing.B) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	lim := limits(b, "{:max-usd 1000000 :max-attempts 1000000000}")
	scopes := []budget.Scope{{Kind: budget.Tenant, ID: "t", Limits: lim}, {Kind: budget.User, ID: "u"}, {Kind: budget.Run, ID: "r", Limits: lim}, {Kind: budget.Node, ID: "n"}}
	want := policy.Count(policy.Attempts, 1).Plus(money(b, "0.001M"))
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		res, err := l.Reserve(ctx, scopes, want)
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Settle(ctx, res, want, budget.Mark(r.IntN(3)))
	}
}
