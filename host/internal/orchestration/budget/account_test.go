package budget_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// model is the expected state of an account: the reservations by scope.
type model struct {
	hold  *budget.Hold
	chain budget.Chain
	want  policy.Amounts
	run   int
}

// EVAL-072 as a state machine: runs with nested nodes reserve, settle with as
// much or less, lose reservations and end, in any order. Reserved plus used
// never exceeds a limit, a scope holds the sum of its parts, and when all runs
// are over nothing is reserved.
func TestAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		l := budget.NewMemory(nil)
		draw := func(label string, most int64) policy.Amounts {
			usd, _ := edn.ParseDecimal(fmt.Sprintf("0.%02d", rapid.Int64Range(0, most).Draw(t, label+" cents")))
			m, err := policy.Money(usd)
			if err != nil {
				t.Fatal(err)
			}
			return m.Plus(policy.Count(policy.Attempts, rapid.Int64Range(0, most).Draw(t, label)))
		}
		user := budget.Scope{Kind: budget.User, ID: "u", Limits: limitsOf(t, fmt.Sprintf("{:max-attempts %d :max-usd 0.%02dM}", rapid.IntRange(0, 60).Draw(t, "user"), rapid.IntRange(0, 99).Draw(t, "user cents"))), Per: budget.Day}
		const runs = 3
		accounts := make([]*budget.Account, runs)
		chains := make([][]budget.Chain, runs)
		over := make([]bool, runs)
		all := []budget.Scope{user}
		for r := range runs {
			accounts[r] = budget.NewAccount(l)
			run := budget.Scope{Kind: budget.Run, ID: fmt.Sprintf("r%d", r), Limits: limitsOf(t, fmt.Sprintf("{:max-attempts %d}", rapid.IntRange(0, 40).Draw(t, "run")))}
			accounts[r].Owns(run)
			outer := budget.Chain{user, run}
			node := budget.Scope{Kind: budget.Node, ID: run.ID + " [0]", Limits: limitsOf(t, fmt.Sprintf("{:max-attempts %d}", rapid.IntRange(0, 20).Draw(t, "node")))}
			accounts[r].Owns(node)
			chains[r] = []budget.Chain{outer, outer.In(node), outer.In(node).In(budget.Scope{Kind: budget.Plan, ID: run.ID + " [0 p]"})}
			accounts[r].Owns(chains[r][2][3])
			all = append(all, run, node, chains[r][2][3])
		}
		var open []model
		used := map[string]policy.Amounts{}
		check := func() {
			held := map[string]policy.Amounts{}
			for _, m := range open {
				for _, s := range m.chain {
					held[s.ID] = held[s.ID].Plus(m.want)
				}
			}
			balances, err := l.Balances(ctx, all)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range balances {
				ended := b.Scope.Kind != budget.User && over[b.Scope.ID[1]-'0']
				if !ended && (!b.Used.Equal(used[b.Scope.ID]) || !b.Reserved.Equal(held[b.Scope.ID])) {
					t.Fatalf("%s: used %s, reserved %s; want %s and %s", b.Scope.ID, b.Used.Value(), b.Reserved.Value(), used[b.Scope.ID].Value(), held[b.Scope.ID].Value())
				}
				for _, d := range policy.Dimensions() {
					if b.Scope.Limits.Bounds(d) && b.Used.Plus(b.Reserved).Exceeds(b.Scope.Limits.Amounts(), d) {
						t.Fatalf("%s: %s of %s is above the limit", b.Scope.ID, b.Used.Plus(b.Reserved).Value(), d)
					}
				}
			}
		}
		settle := func(m model, spent policy.Amounts) {
			for _, s := range m.chain {
				used[s.ID] = used[s.ID].Plus(spent)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				r := rapid.IntRange(0, runs-1).Draw(t, "run")
				chain := rapid.SampledFrom(chains[r]).Draw(t, "chain")
				want := draw("want", 12)
				short, err := accounts[r].Short(ctx, chain, want)
				if err != nil {
					t.Fatal(err)
				}
				h, err := accounts[r].Reserve(ctx, chain, want)
				var exceeded *budget.ExceededError
				switch {
				case over[r]:
					if !errors.Is(err, budget.ErrClosed) {
						t.Fatalf("an account that is closed: %v", err)
					}
				case (short != nil) != errors.As(err, &exceeded):
					t.Fatalf("short says %v, reserve %v", short, err)
				case err == nil:
					open = append(open, model{h, chain, want, r})
				}
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				m := open[i]
				spent := m.want.Minus(draw("saved", 12))
				if err := m.hold.Settle(ctx, spent, budget.Exact); err != nil {
					t.Fatal(err)
				}
				if err := m.hold.Settle(ctx, m.want, budget.Exact); err != nil { // a second time
					t.Fatal(err)
				}
				open = append(open[:i], open[i+1:]...)
				settle(m, spent)
			},
			"end": func(t *rapid.T) {
				r := rapid.IntRange(0, runs-1).Draw(t, "run")
				var kept []model
				for _, m := range open {
					if m.run == r {
						settle(m, m.want) // what is lost counts as spent
					} else {
						kept = append(kept, m)
					}
				}
				open, over[r] = kept, true
				accounts[r].Close(ctx)
				if accounts[r].Totals().Open != 0 {
					t.Fatal("a closed account holds something")
				}
			},
			"": func(t *rapid.T) { check() },
		})
		for r := range runs {
			accounts[r].Close(ctx)
		}
		b, _ := l.Balances(ctx, []budget.Scope{user})
		if !b[0].Reserved.IsZero() {
			t.Fatalf("reserved when all is over: %s", b[0].Reserved.Value())
		}
	})
}

// LED-003, LED-007: a lost reservation is reported and counts in full: a
// failure between reserving and settling leaves nothing reserved.
func TestLost(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	a := budget.NewAccount(l)
	user := budget.Scope{Kind: budget.User, ID: "u"}
	h, err := a.Reserve(ctx, budget.Chain{user}, money(t, "0.01M"))
	require.NoError(t, err)
	told := ""
	h.OnLoss(func(spent policy.Amounts, mark budget.Mark) { told = spent.Value().String() + " " + mark.String() })
	a.Close(ctx)
	a.Close(ctx)
	assert.Equal(t, "{:usd 0.01M} at-least", told)
	b, err := l.Balances(ctx, []budget.Scope{user})
	require.NoError(t, err)
	assert.Equal(t, "{:usd 0.01M}", b[0].Used.Value().String())
	assert.True(t, b[0].Reserved.IsZero())
	require.NoError(t, h.Settle(ctx, policy.Amounts{}, budget.Exact), "too late, and without effect")
	b, _ = l.Balances(ctx, []budget.Scope{user})
	assert.Equal(t, "{:usd 0.01M}", b[0].Used.Value().String())
}

// BUD-005: a reservation for a whole run is settled with the cost of the run.
func TestReserveRun(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	a := budget.NewAccount(l)
	user := budget.Scope{Kind: budget.User, ID: "u", Limits: limits(t, "{:max-attempts 5}")}
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	a.Owns(run)
	_, err := a.ReserveRun(ctx, budget.Chain{user}, policy.Count(policy.Attempts, 4))
	require.NoError(t, err)
	_, err = budget.NewAccount(l).ReserveRun(ctx, budget.Chain{user}, policy.Count(policy.Attempts, 2))
	var exceeded *budget.ExceededError
	require.ErrorAs(t, err, &exceeded)
	e := exceeded.Contract("budget/would-exceed", time.Now())
	assert.Equal(t, "budget/would-exceed 1 5", fmt.Sprint(e.Type, " ", e.Details.Key("left"), " ", e.Details.Key("limit")))
	assert.Equal(t, contract.ClassFinal, e.Class)
	h, err := a.Reserve(ctx, budget.Chain{run}, policy.Count(policy.Attempts, 3))
	require.NoError(t, err)
	require.NoError(t, h.Settle(ctx, policy.Count(policy.Attempts, 2), budget.Exact))
	a.Close(ctx)
	b, err := l.Balances(ctx, []budget.Scope{user})
	require.NoError(t, err)
	assert.Equal(t, "{:attempts 2}", b[0].Used.Value().String())
	assert.True(t, b[0].Reserved.IsZero())
}

// Concurrent runs spend from one user: never above the limit, and the final
// sum is exact.
func TestManyRunsAtOnce(t *testing.T) {
	ctx := context.Background()
	l := budget.NewMemory(nil)
	user := budget.Scope{Kind: budget.User, ID: "u", Limits: limits(t, "{:max-attempts 100 :max-usd 1}")}
	one := policy.Count(policy.Attempts, 1).Plus(money(t, "0.01M"))
	var group sync.WaitGroup
	granted := make([]int, 16)
	for i := range granted {
		group.Go(func() {
			a := budget.NewAccount(l)
			defer a.Close(ctx)
			run := budget.Scope{Kind: budget.Run, ID: fmt.Sprint(i), Limits: limits(t, "{:max-attempts 20}")}
			a.Owns(run)
			for range 30 {
				h, err := a.Reserve(ctx, budget.Chain{user, run}, one)
				if err != nil {
					continue
				}
				granted[i]++
				if granted[i]%7 != 0 { // the others are lost
					assert.NoError(t, h.Settle(ctx, one, budget.Exact))
				}
			}
		})
	}
	group.Wait()
	total := int64(0)
	for _, n := range granted {
		assert.LessOrEqual(t, n, 20)
		total += int64(n)
	}
	assert.EqualValues(t, 100, total)
	b, err := l.Balances(ctx, []budget.Scope{user})
	require.NoError(t, err)
	assert.True(t, b[0].Used.Equal(one.Times(100)), "%s", b[0].Used.Value())
	assert.True(t, b[0].Reserved.IsZero())
}

// Counters of windows that ended a day ago, so that no clock is set back into
// them, are dropped, also for callers that do not return.
func TestWindowsAreSwept(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	l := budget.NewMemory(func() time.Time { return now })
	scope := func(id string) []budget.Scope { return []budget.Scope{{Kind: budget.User, ID: id, Per: budget.Day}} }
	for i := range 10 {
		r, err := l.Reserve(ctx, scope(fmt.Sprint(i)), policy.Count(policy.Attempts, 1))
		require.NoError(t, err)
		require.NoError(t, l.Settle(ctx, r, policy.Count(policy.Attempts, 1), budget.Exact))
	}
	assert.Equal(t, 10, l.Len())
	for _, left := range []int{10 + 1, 1 + 1} {
		now = now.AddDate(0, 0, 1)
		_, err := l.Reserve(ctx, scope("new"), policy.Count(policy.Attempts, 1))
		require.NoError(t, err)
		assert.Equal(t, left, l.Len())
	}
}

// A chain names the tenant that it counts for; the host is none.
func TestTenantOfAChain(t *testing.T) {
	for name, row := range map[string]struct {
		chain budget.Chain
		want  string
	}{
		"none":   {budget.Chain{{Kind: budget.Run, ID: "r"}}, ""},
		"host":   {budget.Chain{{Kind: budget.Tenant, ID: policy.HostTenant}, {Kind: budget.User, ID: "ann"}}, ""},
		"tenant": {budget.Chain{{Kind: budget.User, ID: "ann"}, {Kind: budget.Tenant, ID: "acme"}, {Kind: budget.Run, ID: "r"}}, "acme"},
	} {
		assert.Equal(t, row.want, row.chain.Tenant(), name)
	}
}
