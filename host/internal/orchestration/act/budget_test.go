package act_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// priced is a world of capabilities with prices: :a/one costs a cent, :a/two a
// tenth of that.
func priced(t testing.TB, more ...string) *dispatchtest.World {
	caps := append([]string{dispatchtest.Cap("a/one", ":cap/cost {:usd 0.01M} :cap/repairs? true"), dispatchtest.Cap("a/two", ":cap/cost {:usd 0.001M}")}, more...)
	return dispatchtest.New(t, dispatchtest.Spec{
		Caps:    caps,
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/any", ResultTypes: []string{"value", "plan"}}, {ID: "text/verify", In: "req/any", Out: "res/any"}},
		Checks: []quality.Check{
			{Check: registry.Check{Name: "good", Kind: registry.CheckCondition}, Judge: func(s quality.Subject) quality.Outcome {
				if s.Result.Key("good").Truthy() {
					return quality.Passed()
				}
				return quality.Failed(quality.Finding{Message: "wants :good"})
			}},
			{Check: registry.Check{Name: "verified", Kind: registry.CheckCapability, Intent: "text/verify"}},
		},
	})
}

func limitsOf(t testing.TB, text string) policy.Limits {
	l, err := policy.LimitsOf(edn.MustRead(text))
	require.NoError(t, err)
	return l
}

// block returns a budget block as the configuration creates it.
func block(t testing.TB, limits string) policy.ScopeBudget {
	return policy.ScopeBudget{Written: true, Limits: limitsOf(t, limits), Per: "total", Soft: policy.DefaultSoft}
}

func budgets(b policy.Budgets) func(*act.Config) { return func(c *act.Config) { c.Budgets = &b } }

// LED-001, BUD-001: the callers of one tenant share its budget, and no other; the records
// of a run say which one, so that it is settled there after a crash.
func TestBudgetsOfTenants(t *testing.T) {
	w := priced(t)
	ledger := budget.NewMemory(time.Now)
	s := service(t, w, budgets(policy.Budgets{Tenant: block(t, "{:max-attempts 1}")}), func(c *act.Config) { c.Ledger = ledger })
	served := func(who, tenant string) bool {
		out, _ := s.Do(context.Background(), act.Act{Request: edn.MustRead(askOne), Principal: who, PrincipalType: "user", Tenant: tenant})
		if e := out.Key("error"); !e.IsNil() {
			assert.Equal(t, ":budget/exceeded :tenant", e.Key("type").String()+" "+e.Key("details").Key("scope").String())
			return false
		}
		return true
	}
	assert.True(t, served("ann", "lab"))
	assert.False(t, served("bob", "lab"), "they share one budget")
	assert.True(t, served("cat", "shop"))
	assert.True(t, served("root", ""), "callers without a tenant have that of the host")
	assert.False(t, served("oper", ""))
	for _, id := range []string{"lab", "shop", act.Tenant} {
		all, err := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.Tenant, ID: id, Per: budget.Total}})
		require.NoError(t, err)
		assert.Equal(t, "{:attempts 1 :roundtrips 1 :usd 0.01M}", all[0].Used.Value().String(), id)
	}
	for tenant, want := range map[string]string{"lab": "lab", "": act.Tenant} {
		windows := act.Windows(&journal.BudgetReserved{Scopes: []string{"tenant"}, Tenant: tenant}, "ann")
		require.Len(t, windows, 1)
		assert.Equal(t, want, windows[0].ID)
	}
}

// settled sums up budget records: the amounts settled for attempts, repairs
// and checks in a scope.
func settled(t testing.TB, records []journal.Record, scope string) (reserved, spent policy.Amounts, open int) {
	t.Helper()
	sum := func(v edn.Value) policy.Amounts {
		l, err := policy.LimitsOf(v)
		require.NoError(t, err, v)
		return l.Amounts()
	}
	for _, rec := range records {
		switch b := rec.Body.(type) {
		case *journal.BudgetReserved:
			if b.For != "plan" {
				reserved = reserved.Plus(sum(rec.Value().Key("amounts").Key(scope)))
				open++
			}
		case *journal.BudgetSettled:
			if b.Of.For != "plan" {
				spent = spent.Plus(sum(rec.Value().Key("amounts").Key(scope)))
				open--
			}
		}
	}
	return reserved, spent, open
}

// BUD-002, LED-007: concurrent callers with a budget for one call; one of them
// is served, the others receive the rest and the end of the window.
func TestOneOfManyCallers(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct{ name, limits string }{
		{"attempts", "{:max-attempts 1}"}, {"money", "{:max-usd 0.01M}"}, {"roundtrips", "{:max-roundtrips 1}"},
	} {
		for _, callers := range []int{8, 64} {
			t.Run(fmt.Sprintf("%s for %d", row.name, callers), func(t *testing.T) {
				w := priced(t)
				user := block(t, row.limits)
				user.Per = "day"
				ledger := budget.NewMemory(func() time.Time { return noon })
				s := service(t, w, budgets(policy.Budgets{User: user}), func(c *act.Config) { c.Ledger = ledger })
				var begin, done sync.WaitGroup
				begin.Add(1)
				results := make([]edn.Value, callers)
				for i := range callers {
					done.Go(func() {
						begin.Wait()
						results[i], _ = s.Do(context.Background(), act.Act{Request: edn.MustRead(askOne), Principal: "ann", PrincipalType: "user"})
					})
				}
				begin.Done()
				done.Wait()
				served := 0
				for _, r := range results {
					e := r.Key("error")
					if e.IsNil() {
						served++
						continue
					}
					d := e.Key("details")
					assert.Equal(t, `:budget/exceeded :user "ann" :day #inst "2026-11-22T00:00:00.000Z"`, fmt.Sprint(e.Key("type"), " ", d.Key("scope"), " ", d.Key("user"), " ", d.Key("per"), " ", d.Key("resets")), "%s", e)
					left, _ := d.Key("left").AsNumber()
					assert.Zero(t, left.Sign(), "%s", d)
					assert.Contains(t, e.Key("message").String(), "0 of ")
					assert.Contains(t, e.Key("message").String(), "begins anew at 2026-11-22T00:00:00Z")
				}
				assert.Equal(t, 1, served)
				assert.Len(t, w.Calls(), 1, "nobody else was asked for")
			})
		}
	}
}

const askOne = `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/one]}} :input {:prompt "p"}}`

// asking returns a request for :a/one with a budget and dispatch settings.
func asking(candidates, dispatch, budget, more string) string {
	return fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates %s %s}} :input {:prompt "p"} :deadline-ms 20000 :budget %s %s}`, candidates, dispatch, budget, more)
}

func usage(text string) dispatchtest.Step {
	return dispatchtest.Step{Value: edn.MustRead(`{:good true}`), Usage: edn.MustRead(text)}
}

// The reservation points of BUD-005 and their settlement (LED-003, LED-007);
// repairs and checks spend from the slice of their call (BUD-003).
func TestBudgetOfARun(t *testing.T) {
	bad := value(`{:good false}`)
	good := value(`{:good true}`)
	down := dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens").WithDetail("sent?", edn.Bool(false))}
	fails := dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
	for _, row := range []struct {
		name    string
		one     []dispatchtest.Step
		two     []dispatchtest.Step
		checker []dispatchtest.Step
		ask     string
		asked   string
		fails   string
		cause   string
		says    string
		settled string // by the run
		mark    string
	}{
		{
			name: "usage counts and the rest is given back", one: []dispatchtest.Step{usage(`{:cost-usd 0.004M}`)},
			ask: asking("[:a/one]", "", "{:max-usd 0.01M}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.004M}", mark: "exact",
		},
		{
			name: "no usage counts as reserved", one: []dispatchtest.Step{good},
			ask: asking("[:a/one]", "", "{:max-usd 0.01M}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "more than reserved counts as well", one: []dispatchtest.Step{usage(`{:cost-usd 0.03M :cost-mark :at-least}`)},
			ask: asking("[:a/one]", "", "{:max-usd 0.01M}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.03M}", mark: "at-least",
		},
		{
			name: "nonsense is no usage", one: []dispatchtest.Step{usage(`{:cost-usd -1M :tokens-in -5}`)},
			ask: asking("[:a/one]", "", "{:max-usd 0.01M}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a float is no amount", one: []dispatchtest.Step{usage(`{:cost-usd 0.0025}`)},
			ask: asking("[:a/one]", "", "{:max-usd 0.01M}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a retry that is too dear", one: []dispatchtest.Step{fails},
			ask: asking("[:a/one]", ":retry {:same-cap-max 3}", "{:max-usd 0.015M}", ""), asked: "one", fails: "budget/exceeded", cause: "provider/unavailable",
			says: "has 0.005 of 0.015 usd left, and 0.01 would be needed", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a cheaper candidate fits", one: []dispatchtest.Step{fails}, two: []dispatchtest.Step{good},
			ask: asking("[:a/one :a/two]", ":retry {:same-cap-max 3 :fallback-max 1}", "{:max-usd 0.015M}", ""), asked: "one two",
			settled: "{:attempts 2 :roundtrips 2 :usd 0.011M}", mark: "estimated",
		},
		{
			name: "the first one is too dear from the start", two: []dispatchtest.Step{good},
			ask: asking("[:a/one :a/two]", "", "{:max-usd 0.005M}", ""), asked: "two", settled: "{:attempts 1 :roundtrips 1 :usd 0.001M}", mark: "estimated",
		},
		{
			name: "nobody can be paid", ask: asking("[:a/one :a/two]", ":retry {:fallback-max 1}", "{:max-usd 0.0005M}", ""), fails: "budget/exceeded",
			says: "0.0005 of 0.0005 usd left", settled: "{}", mark: "exact",
		},
		{
			name: "nothing is allowed", ask: asking("[:a/one]", "", "{:max-attempts 0}", ""), fails: "budget/exceeded", says: "0 of 0 attempts left", settled: "{}", mark: "exact",
		},
		{
			name: "a repair counts", one: []dispatchtest.Step{bad, good}, ask: asking("[:a/one]", ":repair {:max 2}", "{:max-attempts 2}", ":done {:must #{:good}}"),
			asked: "one one", settled: "{:attempts 2 :roundtrips 2 :usd 0.02M}", mark: "estimated",
		},
		{
			name: "a repair that is too dear", one: []dispatchtest.Step{bad, good}, ask: asking("[:a/one]", ":repair {:max 2}", "{:max-attempts 1}", ":done {:must #{:good}}"),
			asked: "one", fails: "budget/exceeded", cause: "eval/must-failed", says: "0 of 1 attempts left", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a repair that is too dear moves on", one: []dispatchtest.Step{bad}, two: []dispatchtest.Step{good}, asked: "one two",
			ask: asking("[:a/one :a/two]", ":repair {:max 2} :retry {:fallback-max 1}", "{:max-usd 0.012M}", ":done {:must #{:good}}"), settled: "{:attempts 2 :roundtrips 2 :usd 0.011M}", mark: "estimated",
		},
		{
			name: "a retry leaves the last round trip to the next candidate", one: []dispatchtest.Step{down}, two: []dispatchtest.Step{good}, asked: "one two",
			ask: asking("[:a/one :a/two]", ":retry {:same-cap-max 1 :fallback-max 1}", "{:max-roundtrips 2}", ""), settled: "{:attempts 2 :roundtrips 2 :usd 0.001M}", mark: "estimated",
		},
		{
			name: "a repair leaves the last attempt to the next candidate", one: []dispatchtest.Step{bad}, two: []dispatchtest.Step{good}, asked: "one two",
			ask: asking("[:a/one :a/two]", ":repair {:max 2} :retry {:fallback-max 1}", "{:max-attempts 2}", ":done {:must #{:good}}"), settled: "{:attempts 2 :roundtrips 2 :usd 0.011M}", mark: "estimated",
		},
		{
			name: "there is a round trip for a retry", one: []dispatchtest.Step{down, down}, two: []dispatchtest.Step{good}, asked: "one one two",
			ask: asking("[:a/one :a/two]", ":retry {:same-cap-max 1 :fallback-max 1}", "{:max-roundtrips 3}", ""), settled: "{:attempts 3 :roundtrips 3 :usd 0.001M}", mark: "estimated",
		},
		{
			name: "a retry where nobody else may be asked", one: []dispatchtest.Step{down, good}, asked: "one one",
			ask: asking("[:a/one :a/two]", ":retry {:same-cap-max 1}", "{:max-roundtrips 2}", ""), settled: "{:attempts 2 :roundtrips 2 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a check is paid by its node", one: []dispatchtest.Step{good}, checker: []dispatchtest.Step{{Value: edn.MustRead(`{:ok? true}`), Usage: edn.MustRead(`{:cost-usd 0.0015M}`)}},
			ask: asking("[:a/one]", "", "{:max-usd 0.012M}", ":done {:must #{:verified}}"), asked: "one checker", settled: "{:attempts 1 :roundtrips 1 :usd 0.0115M}", mark: "estimated",
		},
		{
			name: "a check that cannot be paid", one: []dispatchtest.Step{good}, checker: []dispatchtest.Step{value(`{:ok? true}`)},
			ask: asking("[:a/one]", ":retry {:same-cap-max 2}", "{:max-usd 0.011M}", ":done {:must #{:verified}}"), asked: "one", fails: "budget/exceeded", says: "0.001 of 0.011 usd left",
			settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a lost answer counts as reserved", one: []dispatchtest.Step{{Crash: true}},
			ask: asking("[:a/one]", "", "{:max-usd 0.05M}", ""), asked: "one", fails: "runtime/crashed", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "at-least",
		},
		{
			name: "what was never sent costs nothing", one: []dispatchtest.Step{{Err: contract.Errorf("runtime/overloaded", "full")}},
			ask: asking("[:a/one]", "", "{:max-usd 0.05M}", ""), asked: "one", fails: "runtime/overloaded", settled: "{:attempts 1 :roundtrips 1}", mark: "exact",
		},
		{
			name: "what never left the machine costs nothing", one: []dispatchtest.Step{{Err: contract.Errorf("provider/unavailable", "nobody listens").WithDetail("sent?", edn.Bool(false))}},
			ask: asking("[:a/one]", "", "{:max-usd 0.05M}", ""), asked: "one", fails: "provider/unavailable", settled: "{:attempts 1 :roundtrips 1}", mark: "exact",
		},
		{
			name: "a race is one roundtrip, and its losers cost", one: []dispatchtest.Step{{Hang: true}}, two: []dispatchtest.Step{{Value: edn.MustRead(`{:good true}`), Delay: 50 * time.Millisecond}},
			ask: asking("[:a/one :a/two]", ":strategy :race", "{:max-usd 0.05M :max-roundtrips 1}", ""), asked: "one two", settled: "{:attempts 2 :roundtrips 1 :usd 0.011M}", mark: "at-least",
		},
		{
			name: "a race shrinks to what can be paid (ATT-011)", one: []dispatchtest.Step{good},
			ask: asking("[:a/one :a/two]", ":strategy :race", "{:max-attempts 1}", ""), asked: "one", settled: "{:attempts 1 :roundtrips 1 :usd 0.01M}", mark: "estimated",
		},
		{
			name: "a tournament pays everybody", one: []dispatchtest.Step{usage(`{:cost-usd 0.002M}`)}, two: []dispatchtest.Step{usage(`{:cost-usd 0.003M}`)},
			ask: asking("[:a/one :a/two]", ":strategy :tournament", "{:max-usd 0.05M}", ""), asked: "one two", settled: "{:attempts 2 :roundtrips 1 :usd 0.005M}", mark: "exact",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := priced(t, `{:cap/id :a/checker :cap/kind :checker :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any :cap/cost {:usd 0.002M}}`)
			w.On("a/one", row.one...).On("a/two", row.two...).On("a/checker", row.checker...)
			ledger := budget.NewMemory(nil)
			s := service(t, w, budgets(policy.Budgets{User: block(t, "{:max-attempts 1000}")}), func(c *act.Config) { c.Ledger = ledger })
			resp, err, records := do(t, s, row.ask)
			if row.fails == "" {
				require.Nil(t, err, "%v", err)
			} else if assert.NotNil(t, err) {
				assert.Equal(t, row.fails, err.Type, "%v", err)
				assert.Contains(t, err.Error(), row.says)
				if row.cause != "" {
					assert.ErrorIs(t, err, contract.OfType(row.cause))
				}
			}
			assert.Equal(t, row.asked, asked(w, strings.Contains(row.ask, ":strategy")))
			reserved, spent, open := settled(t, records, "run")
			assert.Zero(t, open, "every reservation is settled")
			assert.Equal(t, row.settled, spent.Value().String())
			assert.Equal(t, edn.MustRead(row.settled).Key("usd").String(), finished(t, records).Totals.Key("cost-usd").String(),
				"the attempts and checks of the run have what is settled")
			b := resp.Key("budget")
			assert.Equal(t, row.settled, b.Key("settled").String(), "the answer tells what the records tell")
			assert.Equal(t, reserved.Value().String(), b.Key("reserved").String())
			assert.Equal(t, row.mark, word(b.Key("mark")))
			var user, run edn.Value
			for x := range b.Key("scopes").Elems() {
				if word(x.Key("scope")) == "user" {
					user = x
				} else {
					run = x
				}
			}
			assert.Equal(t, row.settled, run.Key("used").String())
			assert.Equal(t, row.settled, user.Key("used").String(), "what a run spends its user has spent")
			assert.Zero(t, user.Key("reserved").Len(), "nothing is left reserved")
			all, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.Run, ID: records[0].Run}})
			require.NoError(t, lerr)
			assert.True(t, all[0].Used.IsZero(), "the counters of a run end with it")
		})
	}
}

// LED-003: without a budget a run has the cost of the prices of its attempts and checks,
// also those that report none; a replay of it has the same (JRN-051).
func TestCostWithoutABudget(t *testing.T) {
	checker := `{:cap/id :a/checker :cap/kind :checker :cap/intents #{:text/verify} :io/in-schema :req/any ` +
		`:io/out-schema :res/any :cap/cost {:usd 0.002M}}`
	fails := dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
	w := priced(t, checker)
	w.On("a/one", fails).On("a/two", value(`{:good true}`)).On("a/checker", value(`{:ok? true}`))
	resp, err, records := do(t, service(t, w), asking("[:a/one :a/two]", ":retry {:fallback-max 1}", "{}", ":done {:must #{:verified}}"))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, "0.013M :estimated", fmt.Sprint(resp.Key("usage").Key("cost-usd"), " ", resp.Key("usage").Key("cost-mark")))
	assert.Equal(t, "0.013M", finished(t, records).Totals.Key("cost-usd").String())

	again := filled(t, service(t, priced(t, checker)), decoded(t, records), dispatch.Fill{})
	assert.Equal(t, "0.013M", finished(t, again).Totals.Key("cost-usd").String())
	diff := journal.Compare(records, again)
	assert.True(t, diff.Equal(), "%s", diff.Value())
}

func word(v edn.Value) string {
	s, _ := v.AsKeyword()
	return s
}

func asked(w *dispatchtest.World, sideBySide bool) string {
	out := ""
	ids := w.Dispatched()
	if sideBySide {
		slices.Sort(ids)
	}
	for _, id := range ids {
		if out != "" {
			out += " "
		}
		out += id[2:]
	}
	return out
}

// ATT-005, ATT-013: the cost of a loser is charged: the usage that it reports
// within a quarter of a second of its cancellation, else its reservation.
// Budget, attempt record and response agree.
func TestLosersStayOnTheAccount(t *testing.T) {
	told := func(usage string) func(context.Context, dispatch.Call) dispatchtest.Step {
		return func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
			<-ctx.Done()
			return dispatchtest.Step{Value: edn.MustRead(`{:good true}`), Usage: edn.MustRead(usage)}
		}
	}
	reports := func(after time.Duration, s dispatchtest.Step) func(context.Context, dispatch.Call) dispatchtest.Step {
		s.Delay = after
		return func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Hang: true, OnStop: &s}
		}
	}
	for _, row := range []struct {
		name        string
		loser       func(context.Context, dispatch.Call) dispatchtest.Step
		spent, mark string
		outcome     string
		took        time.Duration
	}{
		{"reported in time", reports(249*time.Millisecond, dispatchtest.Step{Value: edn.MustRead(`{:good true}`), Usage: edn.MustRead(`{:cost-usd 0.002M :cost-mark :exact}`)}), "{:attempts 1 :usd 0.002M}", "exact", "race/lost", 299 * time.Millisecond},
		{"reported with the error that the cancel caused", reports(100*time.Millisecond, dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :error :error {:type :provider/unavailable} :usage {:cost-usd 0.002M}}}`)}), "{:attempts 1 :usd 0.002M}", "exact", "race/lost", 150 * time.Millisecond},
		{"failed because of the cancel", reports(100*time.Millisecond, dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}), "{:attempts 1 :usd 0.01M}", "at-least", "race/lost", 150 * time.Millisecond},
		{"reported too late", reports(251*time.Millisecond, dispatchtest.Step{Usage: edn.MustRead(`{:cost-usd 0.002M}`)}), "{:attempts 1 :usd 0.01M}", "at-least", "race/lost", 300 * time.Millisecond},
		{"silent", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Hang: true, Deaf: true}
		}, "{:attempts 1 :usd 0.01M}", "at-least", "race/lost", 300 * time.Millisecond},
		{"not sent", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step {
			<-ctx.Done()
			return dispatchtest.Step{Err: contract.Errorf("canceled", "still in the queue").WithDetail("sent?", edn.Bool(false))}
		}, "{:attempts 1}", "exact", "race/lost", 0},
		{"counted by whom it is bought from", told(`{:cost-usd 0.002M}`), "{:attempts 1 :usd 0.002M}", "exact", "race/lost", 0},
		{"computed", told(`{:cost-usd 0.003M :cost-mark :estimated}`), "{:attempts 1 :usd 0.003M}", "estimated", "race/lost", 0},
		{"perhaps more", told(`{:cost-usd 0.004M :cost-mark :at-least}`), "{:attempts 1 :usd 0.004M}", "at-least", "race/lost", 0},
		{"nobody knows", told(`{:cost-usd 0.005M :cost-mark :unknown}`), "{:attempts 1 :usd 0.005M}", "unknown", "race/lost", 0},
		{"told nothing of money", told(`{:latency-ms 3}`), "{:attempts 1 :usd 0.01M}", "estimated", "race/lost", 0},
		{"told nothing", func(ctx context.Context, _ dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Hang: true} }, "{:attempts 1 :usd 0.01M}", "at-least", "race/lost", 0},
		{"failed by itself", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
		}, "{:attempts 1 :usd 0.01M}", "estimated", "provider/unavailable", 0},
		{"failed by itself, as an answer", func(context.Context, dispatch.Call) dispatchtest.Step {
			return dispatchtest.Step{Raw: edn.MustRead(`{:result {:type :error :error {:type :provider/unavailable} :usage {:cost-usd 0.003M}}}`)}
		}, "{:attempts 1 :usd 0.003M}", "exact", "provider/unavailable", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := priced(t)
				w.Func("a/one", row.loser).On("a/two", dispatchtest.Step{Value: edn.MustRead(`{:good true}`), Delay: 50 * time.Millisecond, Usage: edn.MustRead(`{:cost-usd 0.001M}`)})
				began := time.Now()
				resp, err, records := do(t, service(t, w, budgets(policy.Budgets{User: block(t, "{:max-usd 1}")})), asking("[:a/one :a/two]", ":strategy :race", "{:max-usd 0.05M}", ""))
				require.Nil(t, err, "%v", err)
				assert.Equal(t, max(row.took, 50*time.Millisecond), time.Since(began))
				assert.Zero(t, w.Live(), "no call is left running")
				assert.Equal(t, ":a/two", resp.Key("invoke/meta").Key("cap/id").String())
				outcomes := map[int]string{}
				loser := 0
				for _, rec := range records {
					switch b := rec.Body.(type) {
					case *journal.AttemptStarted:
						if b.CapID == "a/one" {
							loser = b.Attempt
						}
					case *journal.AttemptFinished:
						if b.Err != nil {
							outcomes[b.Attempt] = b.Err.Type
						}
					case *journal.BudgetSettled:
						if b.Of.Attempt == loser {
							assert.Equal(t, row.spent+" "+row.mark, b.Amount.Dissoc(edn.K("roundtrips")).String()+" "+b.Mark)
						}
					}
				}
				assert.Equal(t, map[int]string{loser: row.outcome}, outcomes)
				_, sum, open := settled(t, records, "user")
				assert.Zero(t, open)
				assert.Equal(t, resp.Key("budget").Key("settled").String(), sum.Value().String())
				assert.Equal(t, "2", resp.Key("usage").Key("attempts").String())
			})
		})
	}
}

// BUD-003, BUD-007: an unknown price is never zero. Under at-least the highest
// price among the candidates is reserved, wherever it is in their order.
func TestUnknownPrice(t *testing.T) {
	w := priced(t,
		dispatchtest.Cap("a/free", ":cap/cost {:usd 0}"),
		dispatchtest.Cap("a/some", ""),
		dispatchtest.Cap("a/mid", ":cap/cost {:usd 0.005M}"))
	const dearest = "{:attempts 1 :roundtrips 1 :usd 0.01M}"
	for _, row := range []struct {
		name, candidates string
		atLeast          bool
		asked, spent     string
		mark             string
	}{
		{"denied", "[:a/some]", false, "", "", ""},
		{"passed over", "[:a/some :a/two]", false, "two", "{:attempts 1 :roundtrips 1 :usd 0.001M}", "estimated"},
		{"free is a price", "[:a/free]", false, "free", "{:attempts 1 :roundtrips 1}", "exact"},
		{"at least the dearest, first", "[:a/some :a/one :a/two]", true, "some", dearest, "at-least"},
		{"at least the dearest, between", "[:a/some :a/two :a/one :a/mid]", true, "some", dearest, "at-least"},
		{"at least the dearest, last", "[:a/some :a/two :a/mid :a/one]", true, "some", dearest, "at-least"},
		{"nobody to take it from", "[:a/some]", true, "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := w.Again()
			run := block(t, "{:max-usd 1}")
			run.AtLeast = row.atLeast
			s := service(t, w, budgets(policy.Budgets{Run: run}))
			resp, err, records := do(t, s, asking(row.candidates, "", "{}", ""))
			if row.asked == "" {
				require.NotNil(t, err)
				assert.Equal(t, "budget/exceeded", err.Type)
				assert.Contains(t, err.Error(), "limits money, but the cost of a call to :a/some is unknown")
				assert.Equal(t, "1M", err.Details.Key("left").String())
				return
			}
			require.Nil(t, err)
			assert.Equal(t, row.asked, asked(w, false))
			assert.Equal(t, row.spent, resp.Key("budget").Key("settled").String())
			assert.Equal(t, row.mark, word(resp.Key("budget").Key("mark")))
			reserved, _, open := settled(t, records, "run")
			assert.Equal(t, row.spent, reserved.Value().String(), "what was reserved before the call")
			assert.Zero(t, open)
		})
	}
	w.Again()
	resp, err, _ := do(t, service(t, w.Again()), asking("[:a/some]", "", "{:max-attempts 3}", ""))
	require.Nil(t, err, "a price is asked for where money is limited")
	assert.Equal(t, "exact", word(resp.Key("budget").Key("mark")))
}

// BUD-001: tokens are reserved by the size of the request and the limit of the
// answer, and settled by usage.
func TestTokens(t *testing.T) {
	w := priced(t, dispatchtest.Cap("a/model", ":cap/model \"m\" :cap/limits {:max-tokens 100} :cap/cost {:usd-in-per-mtok 1 :usd-out-per-mtok 10}"),
		dispatchtest.Cap("a/open", ":cap/model \"m\" :cap/cost {:usd-in-per-mtok 1 :usd-out-per-mtok 10}"))
	for _, row := range []struct {
		name, cap, budget, usage, reserved, settled, says string
	}{
		{"by the capability", "model", "{:max-tokens-out 150}", "{:tokens-in 5 :tokens-out 20}", "{:attempts 1 :roundtrips 1 :tokens-in 40 :tokens-out 100 :usd 0.00104M}", "{:attempts 1 :roundtrips 1 :tokens-in 5 :tokens-out 20 :usd 0.000205M}", ""},
		{"by the caller", "model", "{:max-tokens 10 :max-tokens-out 150 :max-usd 1M}", "{:tokens-in 5 :tokens-out 9}", "{:attempts 1 :roundtrips 1 :tokens-in 40 :tokens-out 10 :usd 0.00014M}", "{:attempts 1 :roundtrips 1 :tokens-in 5 :tokens-out 9 :usd 0.000095M}", ""},
		{"too many", "model", "{:max-tokens-out 99}", "", "", "", "99 of 99 tokens-out left, and 100 would be needed"},
		{"the question is too long", "model", "{:max-tokens-in 10}", "", "", "", "10 of 10 tokens-in left"},
		{"all that is left", "open", "{:max-tokens-out 7 :max-usd 1}", "{:tokens-in 1 :tokens-out 3}", "{:attempts 1 :roundtrips 1 :tokens-in 40 :tokens-out 7 :usd 0.00011M}", "{:attempts 1 :roundtrips 1 :tokens-in 1 :tokens-out 3 :usd 0.000031M}", ""},
		{"no bound, no price", "open", "{:max-usd 1}", "", "", "", "its tokens are unbounded"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := w.Again()
			if row.usage != "" {
				w.On("a/"+row.cap, usage(row.usage))
			}
			resp, err, _ := do(t, service(t, w), asking("[:a/"+row.cap+"]", "", row.budget, ""))
			if row.says != "" {
				require.NotNil(t, err)
				assert.Equal(t, "budget/exceeded", err.Type)
				assert.Contains(t, err.Error(), row.says)
				return
			}
			require.Nil(t, err, "%v", err)
			assert.Equal(t, row.reserved, resp.Key("budget").Key("reserved").String())
			assert.Equal(t, row.settled, resp.Key("budget").Key("settled").String())
			slice := w.Calls()[0].Budget
			if own := edn.MustRead(row.budget).Key("max-tokens-out"); !own.IsNil() {
				assert.Equal(t, own.String(), slice.Key("max-tokens-out").String(), "a call is told what it may spend")
			}
		})
	}
}

// A run that ends during an attempt leaves nothing reserved: cancellation,
// defect, deadline, or a loser that never answers.
func TestNothingIsLeftReserved(t *testing.T) {
	for _, row := range []struct {
		name    string
		step    dispatchtest.Step
		ask     string
		cancel  bool
		fails   string
		settled string
	}{
		{"canceled", dispatchtest.Step{Hang: true}, asking("[:a/one]", "", "{:max-usd 1}", ""), true, "canceled", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"panicked", dispatchtest.Step{Panic: "a defect"}, asking("[:a/one]", "", "{:max-usd 1}", ""), false, "runtime/internal", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"panicked beside another", dispatchtest.Step{Panic: "a defect"}, asking("[:a/one :a/two]", ":strategy :race", "{:max-usd 1}", ""), false, "runtime/internal", "{:attempts 2 :roundtrips 1 :usd 0.011M}"},
		{"out of time", dispatchtest.Step{Hang: true}, asking("[:a/one]", "", "{:max-usd 1 :max-wall-ms 50}", ""), false, "budget/exceeded", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"a hedge that is not needed", dispatchtest.Step{Hang: true}, asking("[:a/one :a/two]", ":strategy :hedge :hedge {:after-ms 10}", "{:max-usd 1}", ""), false, "", "{:attempts 2 :roundtrips 1 :usd 0.011M}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := priced(t)
			started := make(chan struct{}, 2)
			w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step { started <- struct{}{}; return row.step })
			if row.step.Panic != nil {
				w.On("a/two", dispatchtest.Step{Hang: true})
			}
			ledger := budget.NewMemory(nil)
			s := service(t, w, budgets(policy.Budgets{User: block(t, "{:max-attempts 100}")}), func(c *act.Config) { c.Ledger = ledger })
			r, refused := s.Start(context.Background(), request(row.ask))
			require.Nil(t, refused)
			<-started
			if row.cancel {
				r.Cancel("test", "")
			}
			resp, err := r.Wait()
			if row.fails == "" {
				require.Nil(t, err)
			} else if assert.NotNil(t, err) {
				assert.Equal(t, row.fails, err.Type, "%v", err)
			}
			_, spent, open := settled(t, r.Records(), "user")
			assert.Zero(t, open, "every reservation is settled in the records")
			assert.Equal(t, row.settled, spent.Value().String())
			assert.Equal(t, "at-least", word(resp.Key("budget").Key("mark")))
			all, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.User, ID: "local"}})
			require.NoError(t, lerr)
			assert.True(t, all[0].Reserved.IsZero(), "%s", all[0].Reserved.Value())
			assert.Equal(t, row.settled, all[0].Used.Value().String())
			assert.Equal(t, 1, ledger.Len(), "the counters of the run are gone")
		})
	}
}

// BUD-004, BUD-005: a budget with refuse_worst reserves the worst case for the
// run.
func TestWorstCaseIsSetAside(t *testing.T) {
	w := priced(t)
	block := block(t, "{:max-attempts 5}")
	block.RefuseWorst = true
	ledger := budget.NewMemory(nil)
	s := service(t, w, budgets(policy.Budgets{User: block}), func(c *act.Config) { c.Ledger = ledger })
	going, finish := make(chan struct{}), make(chan struct{})
	w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
		close(going)
		<-finish
		return value(`{:good true}`)
	})
	r, refused := s.Start(context.Background(), request(asking("[:a/one]", ":retry {:same-cap-max 2}", "{}", "")))
	require.Nil(t, refused)
	<-going
	_, refused = s.Start(context.Background(), request(asking("[:a/two]", ":retry {:same-cap-max 2}", "{}", "")))
	require.NotNil(t, refused, "three of five are set aside, three more do not fit")
	assert.Equal(t, "budget/would-exceed 402 2", fmt.Sprint(refused.Type, " ", refused.HTTPStatus(), " ", refused.Details.Key("left")))
	assert.Equal(t, "{:attempts 3 :roundtrips 3 :usd 0.003M}", refused.Details.Key("worst-case").String())
	close(finish)
	resp, err := r.Wait()
	require.Nil(t, err)
	assert.Equal(t, "{:attempts 1 :roundtrips 1 :usd 0.01M}", resp.Key("budget").Key("settled").String())
	scope, _ := resp.Key("budget").Key("scopes").Nth(0)
	assert.Equal(t, ":user {:attempts 1 :roundtrips 1 :usd 0.01M} {}", fmt.Sprint(scope.Key("scope"), " ", scope.Key("used"), " ", scope.Key("reserved")))
	var kinds []string
	for _, rec := range r.Records() {
		dispatchtest.Verify(t, rec)
		switch b := rec.Body.(type) {
		case *journal.BudgetReserved:
			kinds = append(kinds, "reserved for "+b.For+" "+b.Amount.String())
		case *journal.BudgetSettled:
			kinds = append(kinds, "settled for "+b.Of.For+" "+b.Amount.String())
		}
	}
	assert.Equal(t, []string{
		"reserved for run {:attempts 3 :roundtrips 3 :usd 0.03M}", "reserved for attempt {:attempts 1 :roundtrips 1 :usd 0.01M}",
		"settled for attempt {:attempts 1 :roundtrips 1 :usd 0.01M}", "settled for run {:attempts 1 :roundtrips 1 :usd 0.01M}",
	}, kinds)
	_, err, _ = do(t, s, asking("[:a/two]", ":retry {:same-cap-max 2}", "{}", ""))
	assert.Nil(t, err, "what the first run did not need is free again: %v", err)
	all, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.User, ID: "local"}})
	require.NoError(t, lerr)
	assert.Equal(t, "{:attempts 2 :roundtrips 2 :usd 0.011M} {}", all[0].Used.Value().String()+" "+all[0].Reserved.Value().String())
	_, err, _ = do(t, s, asking("[:a/one]", ":retry {:same-cap-max 9}", "{}", ""))
	require.NotNil(t, err)
	assert.Equal(t, "budget/would-exceed", err.Type, "it could never fit")
}

// BUD-004, LED-006: a grant of an operator applies to the worst case too.
func TestWorstCaseKnowsWhatWasGranted(t *testing.T) {
	w := priced(t)
	w.On("a/one", value(`{:good true}`))
	user := block(t, "{:max-attempts 2}")
	user.RefuseWorst = true
	ledger := budget.NewMemory(nil)
	s := service(t, w, budgets(policy.Budgets{User: user}), func(c *act.Config) { c.Ledger = ledger })
	ask := asking("[:a/one]", ":retry {:same-cap-max 2}", "{}", "")
	_, err, _ := do(t, s, ask)
	require.NotNil(t, err)
	assert.Equal(t, "budget/would-exceed", err.Type)
	scope := budget.Scope{Kind: budget.User, ID: "local", Limits: user.Limits, Per: budget.Total}
	require.NoError(t, ledger.Adjust(context.Background(), scope, budget.Adjustment{Grant: policy.Count(policy.Attempts, 1)}))
	resp, err, _ := do(t, s, ask)
	require.Nil(t, err, "%v", err)
	told, _ := resp.Key("budget").Key("scopes").Nth(0)
	assert.Equal(t, "{:attempts 3} {:attempts 1 :roundtrips 1 :usd 0.01M}", fmt.Sprint(told.Key("limit"), " ", told.Key("used")))
	assert.Zero(t, resp.Key("warnings").Len(), "a third is not nearly all: %s", resp.Key("warnings"))
}

// A ledger that cannot be written or read fails closed, at every stage of a
// run: limits, settlements, slices of plans, and worst cases (LED-002,
// ERR-002).
func TestLedgerThatFails(t *testing.T) {
	planner := dispatchtest.Cap("a/planner", ":cap/can-produce #{:value :plan} :cap/cost {:usd 0}")
	plans := dispatchtest.Step{Plan: edn.MustRead(`{:nodes [{:op :call :id "inner" :intent :text/respond :input {} :dispatch {:candidates [:a/one]} :as :x} {:op :emit :input :x}]}`)}
	planned := ownPlan(`{:nodes [{:op :call :id "outer" :intent :text/respond :input {} :dispatch {:candidates [:a/planner]} :as :y} {:op :emit :input :y}]}`, "", ":budget {:max-attempts 9}")
	for name, row := range map[string]struct {
		broken brokenLedger
		ask    string
		worst  bool
		says   string
		asked  int
	}{
		"before an attempt": {brokenLedger{reserve: true}, askOne, false, "node act: the budget reservation of node act could not be recorded: the disk is gone", 0},
		"after an attempt":  {brokenLedger{settle: true}, askOne, false, "the cost of node act could not be recorded: the disk is gone", 1},
		"before a run":      {brokenLedger{reserve: true}, askOne, true, "the budget reservation of the act could not be recorded: the disk is gone", 0},
		"before a plan":     {brokenLedger{balances: true}, planned, false, "the remaining budget for the plan of node outer cannot be read: the disk is gone", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := priced(t, planner)
			w.On("a/one", value(`{:good true}`))
			w.On("a/planner", plans)
			user := block(t, "{:max-attempts 50}")
			user.RefuseWorst = row.worst
			row.broken.Ledger, row.broken.calls = budget.NewMemory(nil), func() int { return len(w.Calls()) }
			_, err, _ := do(t, service(t, w, budgets(policy.Budgets{User: user}), func(c *act.Config) { c.Ledger = row.broken }), row.ask)
			require.NotNil(t, err)
			assert.Equal(t, "budget/unavailable 503 true", fmt.Sprint(err.Type, " ", err.HTTPStatus(), " ", err.Retryable))
			assert.Contains(t, "node act: "+err.Message, row.says)
			assert.Len(t, w.Calls(), row.asked)
		})
	}
}

// brokenLedger is a ledger with the named errors; balances fail after the
// first call.
type brokenLedger struct {
	budget.Ledger
	calls                     func() int
	reserve, settle, balances bool
}

func (l brokenLedger) Reserve(ctx context.Context, s []budget.Scope, want policy.Amounts) (budget.Reservation, error) {
	if l.reserve {
		return budget.Reservation{}, errBroken
	}
	return l.Ledger.Reserve(ctx, s, want)
}

func (l brokenLedger) Settle(ctx context.Context, r budget.Reservation, spent policy.Amounts, mark budget.Mark) error {
	if l.settle {
		return errBroken
	}
	return l.Ledger.Settle(ctx, r, spent, mark)
}

func (l brokenLedger) Balances(ctx context.Context, s []budget.Scope) ([]budget.Balance, error) {
	if l.balances && l.calls() > 0 {
		return nil, errBroken
	}
	return l.Ledger.Balances(ctx, s)
}

var errBroken = errors.New("the disk is gone")

// judgePanels are priced worlds whose intents have judges: :graded/three has
// one with three votes, :graded/all one that calls any grader, up to five
// times for each vote. One grader always gives the same grade, and one has
// failed before.
func judgePanels(t testing.TB) *dispatchtest.World {
	serving := func(id, more string) string {
		return `{:cap/id :` + id + ` :cap/kind :solver :cap/intents #{:text/respond :graded/three :graded/all} :io/in-schema :req/any :io/out-schema :res/any ` + more + `}`
	}
	grading := func(id, more string) string {
		return `{:cap/id :` + id + ` :cap/kind :judge :cap/intents #{:eval/grade} :io/in-schema :req/eval :io/out-schema :res/eval ` + more + `}`
	}
	w := priced(t)
	layer := func(judge, severity string) policy.Layer {
		return policy.Layer{Judge: policy.Of(judge, policy.Origin{Source: policy.SourceIntent}), JudgeSeverity: policy.Of(severity, policy.Origin{Source: policy.SourceIntent})}
	}
	var checks []quality.Check
	for _, name := range []string{"good", "verified"} {
		c, ok := w.Checks.Check(name)
		require.True(t, ok)
		checks = append(checks, *c)
	}
	return dispatchtest.New(t, dispatchtest.Spec{
		Caps: []string{
			serving("a/one", ":cap/cost {:usd 0.01M} :cap/repairs? true"), serving("a/two", ":cap/cost {:usd 0.001M}"),
			`{:cap/id :a/checker :cap/kind :checker :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any :cap/cost {:usd 0.002M}}`,
			grading("j/dear", ":cap/cost {:usd 0.003M}"), grading("j/cheap", ":cap/cost {:usd 0.0005M}"), grading("j/rules", ":cap/cost {:usd 0.0001M} :cap/deterministic? true"),
		},
		Intents: []registry.Intent{
			{ID: "text/respond", In: "req/any", Out: "res/any"}, {ID: "graded/three", In: "req/any", Out: "res/any"}, {ID: "graded/all", In: "req/any", Out: "res/any"},
			{ID: "text/verify", In: "req/any", Out: "res/any"}, {ID: registry.IntentGrade, In: "req/eval", Out: "res/eval", Candidates: []string{"j/cheap", "j/dear", "j/rules"}},
		},
		Checks: checks,
		Judges: []registry.Judge{
			{Name: "three", Intent: registry.IntentGrade, Capability: "j/dear", Enabled: true, Votes: 3, MaxAttempts: 1, ScorePath: []string{"score"}, Memo: true},
			{Name: "all", Intent: registry.IntentGrade, Enabled: true, Votes: 5, MaxAttempts: 2, ScorePath: []string{"score"}},
		},
		Policies: policy.Book{Intents: map[string]policy.Layer{"graded/three": layer("three", registry.JudgeMust), "graded/all": layer("all", "should")}},
	})
}

// measured are the calibrations of judges that may refuse answers.
type measured struct{}

func (measured) Weight(string) calibration.Weight {
	return calibration.Weight{Standing: calibration.Believed, Agrees: true}
}

// EVAL-072, LED-007, JDG-008: for any plan over priced capabilities that
// respect their limits, with and without voting judges, the settled amount is
// within the worst case of BUD-008 and within every limit, and the sums of the
// records, of the response and of the user are equal.
func TestBudgetLaws(t *testing.T) {
	base := judgePanels(t)
	votes := int64(0)
	defer func() { assert.Positive(t, votes, "no plan had an answer graded") }()
	rapid.Check(t, func(t *rapid.T) {
		w := base.Again()
		for id, most := range map[string]int{"a/one": 100, "a/two": 10, "a/checker": 20, "j/dear": 30, "j/cheap": 5, "j/rules": 1} {
			price := most
			w.Func(id, func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
				// Its behaviour depends on the call only, so that runs can be
				// repeated.
				h := fnv.New32a()
				_, _ = fmt.Fprint(h, c.CapID, c.Path.String(), c.Attempt, c.Request.Key("context"), c.Request.Key("input").Key("judge").Key("sample"))
				n := int(h.Sum32() >> 3)
				step := dispatchtest.Step{Value: edn.MustRead(fmt.Sprintf(`{:good %v :ok? %v :score 0.%d}`, n%3 == 0, n%5 != 0, n/7%10))}
				switch n % 7 {
				case 0:
					step = dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no")}
				case 1:
					step = dispatchtest.Step{Crash: true}
				case 2, 3:
					step.Usage = edn.MustRead(fmt.Sprintf("{:cost-usd 0.%04dM}", n%(price+1)))
				}
				return step
			})
		}
		call := func(i int) string {
			return fmt.Sprintf(`{:op :call :id "c%d" :intent %s :input {:n %d} :as :x%d :dispatch {:candidates %s :strategy %s :retry {:same-cap-max %d :fallback-max %d} :repair {:max %d} :allow-failure? true} %s %s}`, i,
				rapid.SampledFrom([]string{":text/respond", ":graded/three", ":graded/all"}).Draw(t, "intent"), i, i,
				rapid.SampledFrom([]string{"[:a/one]", "[:a/one :a/two]", "[:a/two :a/one]"}).Draw(t, "candidates"),
				rapid.SampledFrom([]string{":cascade", ":race", ":tournament"}).Draw(t, "strategy"),
				rapid.IntRange(0, 2).Draw(t, "same"), rapid.IntRange(0, 2).Draw(t, "fallback"), rapid.IntRange(0, 2).Draw(t, "repair"),
				rapid.SampledFrom([]string{"", ":done {:must #{:good}}", ":done {:must #{:verified}}", ":done {:should #{:good :verified} :score-min 0.5}", ":done {:score-min 0.7}"}).Draw(t, "done"),
				rapid.SampledFrom([]string{"", ":budget {:max-attempts 2}", ":budget {:max-usd 0.015M}", ":budget {:max-roundtrips 1 :max-usd 0.02M}", ":budget {:max-judge-calls 2}"}).Draw(t, "budget"))
		}
		nodes := ""
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			if rapid.IntRange(0, 4).Draw(t, "map") == 0 {
				nodes += fmt.Sprintf(`{:op :map :over [1 2 3] :item :i :as :m%d :on-item-error :keep :body [%s]}`, i, call(10+i))
			} else {
				nodes += call(i)
			}
		}
		request := rapid.SampledFrom([]string{"{:max-usd 1}", "{:max-usd 0.02M}", "{:max-attempts 4}", "{:max-roundtrips 3 :max-usd 0.05M}", "{:max-judge-calls 4 :max-usd 1}"}).Draw(t, "request")
		ledger := budget.NewMemory(nil)
		c := act.Config{
			Registry: w.Registry, Policies: w.Policies, Checks: w.Checks, Executor: w, Journal: journal.NewMemory(), Hash: edn.Hash(edn.Nil()), Ledger: ledger, Calibrations: measured{},
			Budgets: &policy.Budgets{User: policy.ScopeBudget{Written: true, Per: "day", Soft: policy.DefaultSoft}},
		}
		s, err := act.New(c)
		if err != nil {
			t.Fatal(err)
		}
		r, refused := s.Start(context.Background(), act.Act{Request: edn.MustRead(fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :plan/run} :input {:plan {:nodes [%s {:op :emit :input 1}]}} :budget %s}`, nodes, request))})
		if refused != nil {
			t.Fatal(refused)
		}
		resp, failure := r.Wait()
		if failure != nil {
			t.Fatal(failure)
		}
		var sum, worst policy.Amounts
		open := 0
		amounts := func(v edn.Value) policy.Amounts {
			l, err := policy.LimitsOf(v)
			if err != nil {
				t.Fatal(err)
			}
			return l.Amounts()
		}
		for _, rec := range r.Records() {
			if err := rec.Check(); err != nil {
				t.Fatal(err)
			}
			switch b := rec.Body.(type) {
			case *journal.PlanResolved:
				if rec.Path.Len() == 0 {
					worst = amounts(b.WorstCase.Dissoc(edn.K("wall-ms"), edn.K("depth")))
				}
			case *journal.BudgetReserved:
				open++
			case *journal.BudgetSettled:
				open--
				sum = sum.Plus(amounts(rec.Value().Key("amounts").Key("user")))
			}
		}
		votes += sum.Count(policy.JudgeCalls)
		b := resp.Key("budget")
		users, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.User, ID: "local", Per: budget.Day}})
		if lerr != nil {
			t.Fatal(lerr)
		}
		if open != 0 || !users[0].Reserved.IsZero() || ledger.Len() > 1 {
			t.Fatalf("%d reservations are open, %s is reserved, %d counters", open, users[0].Reserved.Value(), ledger.Len())
		}
		if !users[0].Used.Equal(sum) || b.Key("settled").String() != sum.Value().String() {
			t.Fatalf("the user has spent %s, the answer says %s, the records %s", users[0].Used.Value(), b.Key("settled"), sum.Value())
		}
		limit := amounts(edn.MustRead(request))
		for _, d := range policy.Dimensions() {
			if sum.Exceeds(worst, d) {
				t.Fatalf("%s: %s is above the worst case %s", d, sum.Value(), worst.Value())
			}
			if limit.Has(d) && sum.Exceeds(limit, d) {
				t.Fatalf("%s: %s is above the limit %s", d, sum.Value(), request)
			}
		}
	})
}

// BUD-003, BUD-006: a plan answer has a slice: what its node has left, and its
// time.
func TestPlanAnswerHasTheTimeOfItsNode(t *testing.T) {
	w := priced(t, dispatchtest.Cap("a/planner", ":cap/can-produce #{:value :plan} :cap/cost {:usd 0}"))
	w.On("a/planner", dispatchtest.Step{Plan: edn.MustRead(`{:nodes [{:op :call :id "inner" :intent :text/respond :input {} :dispatch {:candidates [:a/one]} :as :x} {:op :emit :input :x}]}`)})
	w.On("a/one", dispatchtest.Step{Hang: true})
	_, err, records := do(t, service(t, w), ownPlan(`{:nodes [{:op :call :id "outer" :intent :text/respond :input {} :dispatch {:candidates [:a/planner]} :as :y :budget {:max-wall-ms 80}} {:op :emit :input :y}]}`, "", ":budget {:max-attempts 9}"))
	require.NotNil(t, err)
	assert.Equal(t, "budget/exceeded", err.Type, "%v", err)
	assert.Equal(t, "wall-ms", word(err.Details.Key("dimension")))
	slices := 0
	for _, rec := range records {
		if b, ok := rec.Body.(*journal.BudgetReserved); ok && b.For == "plan" {
			slices++
			assert.Equal(t, "{:plan {:attempts 8}}", rec.Value().Key("amounts").String(), "what the node has left")
		}
	}
	assert.Equal(t, 1, slices)
}

// BUD-006, CNV-014: a host call spends the budget of its parent call, on the
// account of the run.
func TestHostCallsSpendTheBudgetOfTheCall(t *testing.T) {
	for _, row := range []struct {
		name, budget, node, inner, fails, dimension, settled string
	}{
		{"enough", "{:max-attempts 2}", "", "", "", "", "{:attempts 2 :roundtrips 2 :usd 0.011M}"},
		{"the run has no more", "{:max-attempts 1}", "", "", "budget/exceeded", "attempts", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"the node has no more", "{:max-attempts 9}", ":budget {:max-usd 0.01M}", "", "budget/exceeded", "usd", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"it asks for less", "{:max-attempts 9}", "", ":budget {:max-usd 0.0005M}", "budget/exceeded", "usd", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"it cannot ask for more", "{:max-attempts 1}", "", ":budget {:max-attempts 5}", "budget/exceeded", "attempts", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
		{"it may not nest", "{:max-depth 0 :max-attempts 9}", "", "", "budget/exceeded", "depth", "{:attempts 1 :roundtrips 1 :usd 0.01M}"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := priced(t)
			ledger := budget.NewMemory(nil)
			s := service(t, w, budgets(policy.Budgets{User: block(t, "{:max-attempts 100}")}), func(c *act.Config) { c.Ledger = ledger })
			w.Func("a/one", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
				request := fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/two]}} :input {} %s}`, row.inner)
				_, err, known := s.Within(ctx, act.HostCall{N: 1, Parent: c, Act: act.Act{
					Request: edn.MustRead(request), Principal: "p", PrincipalType: "plugin", Stack: []string{"a/one"}, Within: c.Within, AtLeast: c.AtLeast, Deepest: c.Deepest,
				}})
				assert.True(t, known)
				if err != nil {
					return dispatchtest.Step{Err: err}
				}
				return value(`{:good true}`)
			})
			resp, err, records := do(t, s, ownPlan(`{:nodes [{:op :call :id "outer" :intent :text/respond :input {} :dispatch {:candidates [:a/one]} :as :y `+row.node+`} {:op :emit :input :y}]}`, "", ":budget "+row.budget))
			if row.fails == "" {
				require.Nil(t, err, "%v", err)
			} else if assert.NotNil(t, err) {
				assert.Equal(t, row.fails+" "+row.dimension, err.Type+" "+word(err.Details.Key("dimension")), "%v", err)
			}
			_, spent, open := settled(t, records, "user")
			assert.Zero(t, open)
			assert.Equal(t, row.settled, spent.Value().String())
			assert.Equal(t, row.settled, resp.Key("budget").Key("settled").String())
			all, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.User, ID: "local"}})
			require.NoError(t, lerr)
			assert.Equal(t, row.settled+" {}", all[0].Used.Value().String()+" "+all[0].Reserved.Value().String(), "the caller pays, not the plugin")
			assert.Equal(t, 1, ledger.Len())
		})
	}
}

// BUD-003, SUP-006: the gates of a shadow call are charged to the budget of
// the host, even if the whole run was reserved there, and not to that of the
// caller.
func TestShadowOfAnAct(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		w := priced(t, dispatchtest.Cap("a/free", ":cap/cost {:usd 0}"), `{:cap/id :a/checker :cap/kind :checker :cap/intents #{:text/verify} :io/in-schema :req/any :io/out-schema :res/any :cap/cost {:usd 0.002M}}`)
		w.On("a/free", value(`{:n 1}`)).On("a/checker", value(`{:ok? true}`))
		x := &shadows{Executor: w}
		tenant, user := block(t, "{:max-usd 1}"), block(t, "{:max-usd 1}")
		tenant.RefuseWorst = refuse
		ledger := budget.NewMemory(nil)
		s := service(t, w, budgets(policy.Budgets{Tenant: tenant, User: user}), func(c *act.Config) { c.Ledger, c.Executor = ledger, x })
		_, err, _ := do(t, s, `{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates [:a/free]}} :done {:must #{:verified}} :input {:prompt "p"}}`)
		require.Nil(t, err, "%v", err)
		require.NotNil(t, x.judge)
		pass, counts := x.judge(context.Background(), dispatch.Answer{Response: edn.MustRead(`{:result {:type :value :out {:n 2}}}`)})
		assert.True(t, pass && counts)
		all, lerr := ledger.Balances(context.Background(), []budget.Scope{{Kind: budget.Tenant, ID: act.Tenant, Per: budget.Total}, {Kind: budget.User, ID: "local", Per: budget.Total}})
		require.NoError(t, lerr)
		assert.Equal(t, "0.004M 0.002M", fmt.Sprint(all[0].Used.Value().Key("usd"), " ", all[1].Used.Value().Key("usd")), "refuse_worst_case %v", refuse)
		assert.True(t, all[0].Reserved.IsZero() && all[1].Reserved.IsZero())
	}
}

// shadows delays the gates of a shadow call until the test releases them.
type shadows struct {
	dispatch.Executor
	judge dispatch.Judge
}

func (x *shadows) Judged(string, dispatch.Answer, bool)         {}
func (x *shadows) Shadowing(string) bool                        { return true }
func (x *shadows) Shadow(_ dispatch.Call, judge dispatch.Judge) { x.judge = judge }
