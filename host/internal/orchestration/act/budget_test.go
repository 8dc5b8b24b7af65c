package act_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
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

// block is a budget block as the configuration makes it.
func block(t testing.TB, limits string) policy.ScopeBudget {
	return policy.ScopeBudget{Written: true, Limits: limitsOf(t, limits), Per: "total", Soft: policy.DefaultSoft}
}

func budgets(b policy.Budgets) func(*act.Config) { return func(c *act.Config) { c.Budgets = &b } }

// money reads the sums of budget records: what was settled for attempts,
// repairs and checks in a scope.
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

// BUD-002: callers at a barrier on a budget for one; one of them is served, the
// others are told what is left and when that changes.
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

// asking is a request for :a/one with a budget and dispatch.
func asking(candidates, dispatch, budget, more string) string {
	return fmt.Sprintf(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond :dispatch {:candidates %s %s}} :input {:prompt "p"} :deadline-ms 20000 :budget %s %s}`, candidates, dispatch, budget, more)
}

func usage(text string) dispatchtest.Step {
	return dispatchtest.Step{Value: edn.MustRead(`{:good true}`), Usage: edn.MustRead(text)}
}

// The reservation points of BUD-005 and what becomes of them (LED-003).
func TestBudgetOfARun(t *testing.T) {
	bad := value(`{:good false}`)
	good := value(`{:good true}`)
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

// BUD-007: a price that is not known is never nothing.
func TestUnknownPrice(t *testing.T) {
	w := priced(t, dispatchtest.Cap("a/free", ":cap/cost {:usd 0}"), dispatchtest.Cap("a/some", ""))
	for _, row := range []struct {
		name, candidates string
		atLeast          bool
		asked, spent     string
		mark             string
	}{
		{"denied", "[:a/some]", false, "", "", ""},
		{"passed over", "[:a/some :a/two]", false, "two", "{:attempts 1 :roundtrips 1 :usd 0.001M}", "estimated"},
		{"free is a price", "[:a/free]", false, "free", "{:attempts 1 :roundtrips 1}", "exact"},
		{"at least the dearest", "[:a/some :a/one :a/two]", true, "some", "{:attempts 1 :roundtrips 1 :usd 0.01M}", "at-least"},
		{"nobody to take it from", "[:a/some]", true, "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := w.Again()
			run := block(t, "{:max-usd 1}")
			run.AtLeast = row.atLeast
			resp, err, _ := do(t, service(t, w, budgets(policy.Budgets{Run: run})), asking(row.candidates, "", "{}", ""))
			if row.asked == "" {
				require.NotNil(t, err)
				assert.Equal(t, "budget/exceeded", err.Type)
				assert.Contains(t, err.Error(), "limits money, and what a call to :a/some costs is unknown")
				assert.Equal(t, "1M", err.Details.Key("left").String())
				return
			}
			require.Nil(t, err)
			assert.Equal(t, row.asked, asked(w, false))
			assert.Equal(t, row.spent, resp.Key("budget").Key("settled").String())
			assert.Equal(t, row.mark, word(resp.Key("budget").Key("mark")))
		})
	}
	w.Again()
	resp, err, _ := do(t, service(t, w.Again()), asking("[:a/some]", "", "{:max-attempts 3}", ""))
	require.Nil(t, err, "a price is asked for where money is limited")
	assert.Equal(t, "exact", word(resp.Key("budget").Key("mark")))
}

// BUD-001: tokens are reserved by what is asked and by what the answer may have,
// and settled by what was used.
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
		{"no bound, no price", "open", "{:max-usd 1}", "", "", "", "nothing bounds its tokens"},
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
