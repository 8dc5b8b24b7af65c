package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// lasting are scopes that outlive runs, as a script's caller has them.
func lasting(per budget.Per) budget.Chain {
	return budget.Chain{{Kind: budget.Tenant, ID: act.Tenant, Per: budget.Total}, {Kind: budget.User, ID: "uid/7", Per: per}}
}

// keptLedger returns the ledger of a host that starts with a store.
func keptLedger(t require.TestingT, s *Store, at func() time.Time) budget.Ledger {
	if s.shared != nil {
		return settledLedger{budget.NewShared(s.Budgets(), at), s}
	}
	l, err := budget.NewKept(context.Background(), s, at)
	require.NoError(t, err)
	return l
}

// settledLedger is the ledger of one of several hosts. Its balances are those after
// everything that was settled before: else a cost counts as reserved until its record
// is durable.
type settledLedger struct {
	*budget.Shared
	s *Store
}

// Balances implements budget.Ledger.
func (l settledLedger) Balances(ctx context.Context, c []budget.Scope) ([]budget.Balance, error) {
	if err := l.s.queue.run(ctx, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}
	return l.Shared.Balances(ctx, c)
}

// attempt is a reservation of a script with its record.
type attempt struct {
	r      budget.Reservation
	record *journal.BudgetReserved
}

// reserve reserves an amount and returns the record of that.
func (s *script) reserve(t require.TestingT, l budget.Ledger, c budget.Chain, want policy.Amounts) (attempt, journal.Record) {
	r, err := l.Reserve(context.Background(), c, want)
	require.NoError(t, err)
	a := attempt{r, &journal.BudgetReserved{
		For:     "attempt",
		Scopes:  c.Kinds(),
		Amount:  want.Value(),
		Windows: r.Begins(),
		Attempt: 1,
	}}
	rec := s.record(a.record)
	a.record.SetSeq(rec.Seq)
	return a, rec
}

// settle settles a reservation and returns the record of that.
func (s *script) settle(t require.TestingT, l budget.Ledger, a attempt, spent policy.Amounts) journal.Record {
	require.NoError(t, l.Settle(context.Background(), a.r, spent, budget.Exact))
	return s.record(&journal.BudgetSettled{Of: a.record, Amount: spent.Value(), Mark: "exact"})
}

// spend are the records of a run that spends an amount.
func (s *script) spend(t require.TestingT, l budget.Ledger, c budget.Chain, amount policy.Amounts) []journal.Record {
	out := []journal.Record{s.accepted(nothing)}
	a, rec := s.reserve(t, l, c, amount)
	return append(out, rec, s.settle(t, l, a, amount), s.finished(nothing))
}

// figures are the figures of a chain that must outlive a host.
func figures(t require.TestingT, l budget.Ledger, c budget.Chain) (out []string) {
	all, err := l.Balances(context.Background(), c)
	require.NoError(t, err)
	for _, b := range all {
		out = append(out, fmt.Sprint(b.Scope, b.Scope.Per, " used ", b.Used.Value(), " reserved ", b.Reserved.Value(), " granted ", b.Granted.Value()))
	}
	return out
}

func usd(text string) policy.Amounts {
	a, _ := policy.Money(edn.MustRead(text + "M"))
	return a.Plus(policy.Count(policy.Attempts, 1))
}

// LED-001, LED-004: spent amounts, windows and grants outlive the host, and a day
// ends over a restart too.
func TestCountersOutliveTheHost(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir, ctx, clock := t.TempDir(), context.Background(), start
		at := func() time.Time { return clock }
		day := lasting(budget.Day)
		s := on.openAt(t, dir)
		l := keptLedger(t, s, at)
		appendAll(t, s, newScript("run_1").spend(t, l, day, usd("0.25"))...)
		require.NoError(t, l.Adjust(ctx, day[1], budget.Adjustment{Grant: usd("3"), Charge: usd("0.5")}))
		before := figures(t, l, day)
		assert.Equal(t, []string{
			"this hosttotal used {:attempts 1 :usd 0.25M} reserved {} granted {}",
			"user uid/7day used {:attempts 2 :usd 0.75M} reserved {} granted {:attempts 1 :usd 3M}",
		}, before)
		require.NoError(t, s.Close())

		s = on.openAt(t, dir)
		l = keptLedger(t, s, at)
		assert.Equal(t, before, figures(t, l, day))
		seen, err := l.Seen(ctx, budget.User, budget.Day)
		require.NoError(t, err)
		assert.Equal(t, []string{"uid/7"}, seen)
		require.NoError(t, s.Close())

		clock = clock.Add(24 * time.Hour)
		s = on.openAt(t, dir)
		l = keptLedger(t, s, at)
		assert.Equal(t, []string{before[0], "user uid/7day used {} reserved {} granted {}"}, figures(t, l, day), "the day is over, the total is not")
		clock = start.Add(time.Hour)
		assert.Equal(t, before, figures(t, l, day), "the clock was ahead")
	})
}

// LED-002: reserve and settle add no commit to that of the records.
func TestCountersHaveNoCommitOfTheirOwn(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		commits := func(c budget.Chain) int64 {
			s := on.openAt(t, t.TempDir())
			l := keptLedger(t, s, now)
			s.queue.mu.Lock()
			s.queue.delay = time.Hour // only callers that wait make a commit
			s.queue.mu.Unlock()
			require.NoError(t, s.Probe(t.Context())) // with what is left of the start
			for i := range 10 {
				run := fmt.Sprintf("run_%d", i)
				appendAll(t, s, newScript(run).spend(t, l, c, usd("0.1"))...)
				syncRun(t, s, run)
			}
			require.NoError(t, s.Close())
			return s.writer.commits
		}
		own := 0 // what several hosts decide must be durable before the call, with whatever else is then queued
		if on.files == 0 {
			own = 10
		}
		assert.EqualValues(t, own, commits(lasting(budget.Month))-commits(budget.Chain{{Kind: budget.Run, ID: "r"}}))
	})
}

// LED-002: the counter of a record that is not durable is not either: a failed
// commit loses both, and a change by hand fails closed.
func TestCountersAndRecordsAreOneTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		var fails atomic.Bool
		s := on.openAt(t, dir, func(o *Options) {
			o.Faults.Before = func(op string) error {
				if op == "commit" && fails.Load() {
					return os.ErrDeadlineExceeded
				}
				return nil
			}
		})
		l := keptLedger(t, s, now)
		appendAll(t, s, newScript("run_1").spend(t, l, lasting(budget.Day), usd("0.25"))...)
		syncRun(t, s, "run_1")
		before := figures(t, l, lasting(budget.Day))
		records := newScript("run_2").spend(t, l, lasting(budget.Day), usd("4"))
		fails.Store(true)
		appendAll(t, s, records...)
		require.Error(t, s.Sync(context.Background(), "run_2"))
		require.Error(t, l.Adjust(context.Background(), lasting(budget.Day)[0], budget.Adjustment{Grant: usd("1")}))
		require.NoError(t, s.Close())

		s = on.openAt(t, dir)
		assert.Equal(t, before, figures(t, keptLedger(t, s, now), lasting(budget.Day)))
	})
}

// LED-001: what was spent stays counted when runs are purged or removed; imported
// runs were spent elsewhere. Counters of past windows are deleted.
func TestCountersOutliveTheirRuns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir, ctx, clock := t.TempDir(), context.Background(), start
		at := func() time.Time { return clock }
		s := on.openAt(t, dir, func(o *Options) { o.Limits.Retain, o.Now = Retention{Age: time.Hour}, at })
		l := keptLedger(t, s, at)
		chain := lasting(budget.Day)
		for _, run := range []string{"run_1", "run_2"} {
			appendAll(t, s, newScript(run).spend(t, l, chain, usd("0.25"))...)
			syncRun(t, s, run)
			s.Drop(run)
		}
		want := figures(t, l, chain)
		require.NoError(t, s.Purge(ctx, "run_1"))
		var exported strings.Builder
		require.NoError(t, s.Export(ctx, "run_2", &exported))
		clock = clock.Add(2 * time.Hour)
		removed, err := s.Retain(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, removed.Runs)
		assert.Equal(t, want, figures(t, keptLedger(t, s, at), chain))

		other := on.openAt(t, t.TempDir())
		_, err = other.Import(ctx, strings.NewReader(exported.String()))
		require.NoError(t, err)
		none, err := other.Counters(ctx)
		require.NoError(t, err)
		assert.Empty(t, none)

		clock = clock.Add(40 * 24 * time.Hour)
		_, err = s.Retain(ctx)
		require.NoError(t, err)
		left, err := s.Counters(ctx)
		require.NoError(t, err)
		require.Len(t, left, 1)
		assert.Equal(t, budget.Window{Kind: budget.Tenant, ID: act.Tenant}, left[0].Window)
		assert.Equal(t, "{:attempts 2 :usd 0.5M}", left[0].Used.Value().String())
	})
}

// LED-002, LED-005, LED-007: a ledger that is restarted at any moments counts like
// one that never is, and the sum over scopes is the sum over attempts.
func TestCountersFollowTheLedger(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		checks, tried := 0, 15 // each takes long
		if on.files > 0 {
			tried = proof.Size(t, "ledgers", 25, 100)
		}
		rapid.Check(t, func(r *rapid.T) {
			if checks++; checks > tried {
				return
			}
			dir, err := os.MkdirTemp("", "counters")
			require.NoError(r, err)
			defer func() { _ = os.RemoveAll(dir) }()
			ctx, clock := context.Background(), start
			at := func() time.Time { return clock }
			open := func() *Store {
				opts := on.options(t, dir)
				opts.NoSync, opts.Now = true, at
				s, err := Open(ctx, opts)
				require.NoError(r, err)
				return s
			}
			s := open()
			defer func() { assert.NoError(r, s.Close()) }()
			kept, always := keptLedger(r, s, at), budget.NewMemory(at)
			chain := lasting(rapid.SampledFrom([]budget.Per{budget.Total, budget.Day, budget.Month}).Draw(r, "per"))
			amount := rapid.Map(rapid.Int64Range(0, 50), func(n int64) policy.Amounts {
				return policy.Count(policy.Attempts, n).Plus(usd(fmt.Sprintf("0.%02d", n)))
			})

			type pair struct {
				kept   attempt
				always budget.Reservation
				want   policy.Amounts
			}
			run := newScript("run_1")
			var all policy.Amounts // of settled attempts
			var pairs []pair
			restarts := 0
			take := func() (p pair, ok bool) {
				if len(pairs) == 0 {
					return p, false
				}
				i := rapid.IntRange(0, len(pairs)-1).Draw(r, "which")
				p = pairs[i]
				pairs = slices.Delete(pairs, i, i+1)
				return p, true
			}
			appendAll(t, s, run.accepted(nothing))
			r.Repeat(map[string]func(*rapid.T){
				"reserve": func(r *rapid.T) {
					want := amount.Draw(r, "want")
					a, rec := run.reserve(r, kept, chain, want)
					appendAll(t, s, rec)
					other, err := always.Reserve(ctx, chain, want)
					require.NoError(r, err)
					pairs = append(pairs, pair{a, other, want})
				},
				"settle": func(r *rapid.T) {
					if p, ok := take(); ok {
						spent := amount.Draw(r, "spent")
						appendAll(t, s, run.settle(r, kept, p.kept, spent))
						require.NoError(r, always.Settle(ctx, p.always, spent, budget.Exact))
						all = all.Plus(spent)
					}
				},
				"unrecorded": func(r *rapid.T) {
					spent := amount.Draw(r, "spent")
					for _, l := range []budget.Ledger{kept, always} {
						hold, err := budget.NewAccount(l).Beside().Reserve(ctx, chain, spent)
						require.NoError(r, err)
						require.NoError(r, hold.Settle(ctx, spent, budget.Exact))
					}
					all = all.Plus(spent)
				},
				"adjust": func(r *rapid.T) {
					change := budget.Adjustment{Grant: amount.Draw(r, "grant")}
					for _, l := range []budget.Ledger{kept, always} {
						require.NoError(r, l.Adjust(ctx, chain[1], change))
					}
				},
				"later": func(r *rapid.T) { clock = clock.Add(time.Duration(rapid.IntRange(1, 30).Draw(r, "hours")) * time.Hour) },
				"retain": func(r *rapid.T) {
					_, err := s.Retain(ctx)
					require.NoError(r, err)
				},
				"restart": func(r *rapid.T) {
					if restarts++; restarts > 2 {
						return // each takes long
					}
					require.NoError(r, s.Close())
					s = open()
					kept = keptLedger(r, s, at)
					assert.Equal(r, figures(r, always, chain), figures(r, kept, chain))
					run.epoch++
					for i, p := range pairs { // as the resumed run does
						r2, err := kept.Adopt(ctx, act.Windows(p.kept.record, "uid/7"), p.want)
						require.NoError(r, err)
						pairs[i].kept.r = r2
					}
				},
				"": func(r *rapid.T) {
					assert.Equal(r, figures(r, always, chain), figures(r, kept, chain))
					total, err := kept.Balances(ctx, chain[:1])
					require.NoError(r, err)
					assert.True(r, all.Equal(total[0].Used), "%s of %s", total[0].Used.Value(), all.Value())
				},
			})
		})
	})
}

// paid is a service whose calls cost 0.01 USD, with budgets of tenant and user.
func paid(t testing.TB, s *Store, l budget.Ledger, aside bool) *act.Service {
	t.Helper()
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps:    []string{dispatchtest.Cap("a/pays", ":cap/cost {:usd 0.02M}")},
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/any", ResultTypes: []string{"value"}}},
	})
	w.Func("a/pays", func(context.Context, dispatch.Call) dispatchtest.Step {
		return dispatchtest.Step{Value: edn.MustRead(`{:n 1}`), Usage: edn.MustRead(`{:cost-usd 0.01M :cost-mark :exact}`)}
	})
	limits, err := policy.LimitsOf(edn.MustRead(`{:max-attempts 7 :max-usd 1M}`))
	require.NoError(t, err)
	block := policy.ScopeBudget{Written: true, Limits: limits, Per: "total", Soft: policy.DefaultSoft, RefuseWorst: aside}
	user := block
	user.Per, user.RefuseWorst = "day", false
	service, err := act.New(act.Config{
		Registry: w.Registry,
		Policies: w.Policies,
		Checks:   w.Checks,
		Executor: w,
		Journal:  s,
		Ledger:   l,
		Budgets:  &policy.Budgets{Tenant: block, User: user},
		Hash:     edn.Hash(edn.Nil()),
		Suspends: true,
	})
	require.NoError(t, err)
	return service
}

const twoCalls = `{:proto 1 :trace {:id "r"} :task {:intent :plan/run} :input {:plan {:nodes [
  {:op :call :intent :text/respond :input {:n 1} :as :x}
  {:op :call :intent :text/respond :input {:n {:slot/path [:x :out]}} :as :y}
  {:op :emit :input {:slot/path [:y :out]}}]}}}`

// LED-002, LED-005, LED-007: the host ends after any record of a run. What the run
// has reserved counts at once in the next host, the resumed run settles it, and in
// the end each scope has the sum of the attempts, in the ledger and in the store.
func TestResumedRunsCountOnce(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx := context.Background()
		for _, aside := range []bool{false, true} {
			first := on.openAt(t, t.TempDir())
			run, refused := paid(t, first, keptLedger(t, first, now), aside).Start(ctx, act.Act{Request: edn.MustRead(twoCalls), Principal: "ann", PrincipalType: "user"})
			require.Nil(t, refused)
			_, err := run.Wait()
			require.Nil(t, err, "%v", err)
			records := recordsOf(t, first, run.ID())
			for n := 1; n < len(records); n += proof.Of(3, 1) {
				t.Run(fmt.Sprintf("%d records, run reserved %t", n, aside), func(t *testing.T) {
					dir := t.TempDir()
					s := on.openAt(t, dir)
					appendAll(t, s, records[:n]...)
					require.NoError(t, s.Close())

					s = on.openAt(t, dir)
					l := keptLedger(t, s, now)
					scopes := budget.Chain{{Kind: budget.Tenant, ID: act.Tenant}, {Kind: budget.User, ID: "ann", Per: budget.Day}}
					past := recordsOf(t, s, run.ID())
					open := map[string]policy.Amounts{}
					for _, r := range journal.NewHistory(past).Reserved {
						for _, scope := range r.Scopes {
							open[scope] = open[scope].Plus(policy.AmountsOf(r.Amount))
						}
					}
					balances, failed := l.Balances(ctx, scopes)
					require.NoError(t, failed)
					for _, b := range balances {
						assert.Equal(t, open[b.Scope.Kind.String()].Value().String(), b.Reserved.Value().String(), "%s", b.Scope)
					}

					resumed, refused := paid(t, s, l, !aside).Resume(ctx, run.ID(), past, act.Resumption{Why: journal.ResumedCrash})
					require.Nil(t, refused)
					_, err := resumed.Wait()
					require.Nil(t, err, "%v", err)
					sums := map[string]policy.Amounts{}
					for _, rec := range recordsOf(t, s, run.ID()) {
						end, ok := rec.Body.(*journal.BudgetSettled)
						if ok && end.Of.For == "attempt" {
							sums["run"] = sums["run"].Plus(policy.AmountsOf(end.Amount))
						}
					}
					for range 2 {
						balances, failed = l.Balances(ctx, scopes)
						require.NoError(t, failed)
						for _, b := range balances {
							assert.Equal(t, sums["run"].Value().String(), b.Used.Value().String(), "%s", b.Scope)
							assert.True(t, b.Reserved.IsZero(), "%s has reserved %s", b.Scope, b.Reserved.Value())
						}
						require.NoError(t, s.Close())
						s = on.openAt(t, dir)
						l = keptLedger(t, s, now)
					}
				})
			}
		}
	})
}

// LED-002, LED-007: of 64 callers at a barrier with a budget for one, which a
// restarted host has from its store, one is served.
func TestOneOfManyCallersAfterARestart(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		const callers = 64
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		l := keptLedger(t, s, now)
		for range 6 {
			_, err := paid(t, s, l, false).Do(ctx, act.Act{Request: edn.MustRead(oneCall), Principal: "ann", PrincipalType: "user"})
			require.Nil(t, err, "%v", err)
		}
		require.NoError(t, s.Close())
		s = on.openAt(t, dir)
		service := paid(t, s, keptLedger(t, s, now), false)
		var begin, done sync.WaitGroup
		begin.Add(1)
		types := make([]string, callers)
		for i := range callers {
			done.Go(func() {
				begin.Wait()
				if _, err := service.Do(ctx, act.Act{Request: edn.MustRead(oneCall), Principal: "ann", PrincipalType: "user"}); err != nil {
					types[i] = err.Type
				}
			})
		}
		begin.Done()
		done.Wait()
		slices.Sort(types)
		assert.Equal(t, append([]string{""}, slices.Repeat([]string{"budget/exceeded"}, callers-1)...), types)
	})
}

const oneCall = `{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "p"}}`

// OPS-007: a database of version 1 is migrated and its copy kept. It counts from
// then on.
func TestCountersOfAnOldDatabase(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	path := filepath.Join(dir, "ferment.db")
	s := openAt(t, dir)
	sc := newScript("run_1")
	records := sc.spend(t, budget.NewMemory(now), lasting(budget.Total), usd("0.25"))
	appendAll(t, s, records[:2]...)
	require.NoError(t, s.Close())
	migrate(t, Options{Path: path}, 1, true)

	_, err := tryOpen(t, dir, func(o *Options) { o.NoMigrate = true })
	var schema *SchemaError
	require.ErrorAs(t, err, &schema)
	assert.True(t, repair(t, dir, false).Sound(), "version 1 is not damage")
	s = openAt(t, dir)
	old := migratorAt(t, path+".v1", nil)
	var version int
	require.NoError(t, old.db.writer().QueryRowContext(ctx, "SELECT max(version) FROM migrations").Scan(&version))
	assert.Equal(t, 1, version)
	require.NoError(t, s.Verify(ctx, "run_1"))
	all, err := s.Counters(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, c := range all {
		assert.Equal(t, "{} {:attempts 1 :usd 0.25M}", c.Used.Value().String()+" "+c.Reserved.Value().String(), "%v", c.Window)
	}
	appendAll(t, s, records[2:]...)
	syncRun(t, s, "run_1")
	all, err = s.Counters(ctx)
	require.NoError(t, err)
	for _, c := range all {
		assert.Equal(t, "{:attempts 1 :usd 0.25M} {}", c.Used.Value().String()+" "+c.Reserved.Value().String(), "%v", c.Window)
	}
}

// JRN-030, LED-001: a repair keeps the counters. One that cannot be read has the
// costs in the records that are left, and a run that the repair ends is settled.
func TestRepairKeepsCounters(t *testing.T) {
	base, chain := t.TempDir(), lasting(budget.Day)
	s := openAt(t, base, func(o *Options) { o.Limits.Retain = Retention{Bytes: 1} })
	l := keptLedger(t, s, now)
	appendAll(t, s, newScript("run_1").spend(t, l, chain, usd("0.25"))...)
	syncRun(t, s, "run_1")
	s.Drop("run_1")
	_, err := s.Retain(context.Background())
	require.NoError(t, err)
	appendAll(t, s, newScript("run_2").spend(t, l, chain, usd("0.5"))...)
	open := newScript("run_3")
	_, rec := open.reserve(t, l, chain, usd("1"))
	rec.Seq = 2
	appendAll(t, s, newScript("run_3").accepted(edn.Text("lost")), rec)
	require.NoError(t, l.Adjust(context.Background(), chain[1], budget.Adjustment{Grant: usd("7")}))
	require.NoError(t, s.Close())

	whole := []string{
		"this hosttotal used {:attempts 2 :usd 0.75M} reserved {:attempts 1 :usd 1M} granted {}",
		"user uid/7day used {:attempts 2 :usd 0.75M} reserved {:attempts 1 :usd 1M} granted {:attempts 1 :usd 7M}",
	}
	lost := []string{whole[0], "user uid/7day used {:attempts 1 :usd 0.5M} reserved {:attempts 1 :usd 1M} granted {}"}
	for name, row := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   []string
		stops  bool // the daemon does not start
	}{
		"a record of another run": {func(t *testing.T, dir string) {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (2 << 32) | 4")
		}, whole, false},
		"the first page": {func(t *testing.T, dir string) { zeroPage(t, dir, 0) }, whole, true},
		"a counter": {func(t *testing.T, dir string) {
			tamper(t, dir, "UPDATE counters SET used = '{:usd' WHERE scope = 'user'")
		}, lost, true},
		"the page of the counters": {func(t *testing.T, dir string) { zeroPage(t, dir, pageOf(t, dir, "{:attempts 1 :usd 7M}")) }, []string{
			"this hosttotal used {:attempts 1 :usd 0.5M} reserved {:attempts 1 :usd 1M} granted {}", lost[1],
		}, true},
		"a value of the open run": {func(t *testing.T, dir string) {
			tamper(t, dir, "DELETE FROM content WHERE hash = x'"+strings.TrimPrefix(edn.Hash(edn.Text("lost")), "b3:")+"'")
		}, []string{
			"this hosttotal used {:attempts 3 :usd 1.75M} reserved {} granted {}",
			"user uid/7day used {:attempts 3 :usd 1.75M} reserved {} granted {:attempts 1 :usd 7M}",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			row.damage(t, dir)
			if row.stops {
				var d *Damage
				s, err := tryOpen(t, dir)
				if err == nil {
					_, err = s.Counters(context.Background())
					require.NoError(t, s.Close())
				}
				require.ErrorAs(t, err, &d)
			}
			assert.False(t, repair(t, dir, false).Sound())
			s := openAt(t, dir)
			assert.Equal(t, row.want, figures(t, keptLedger(t, s, now), chain))
			require.NoError(t, s.Close())
			assert.True(t, repair(t, dir, true).Sound())
		})
	}
}

// LED-005, RUN-010: what is reserved for a whole job stays reserved while the job
// waits for its turn, also in another host, and is settled once.
func TestWaitingJobsStayReserved(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx := context.Background()
		scope := budget.Chain{{Kind: budget.Tenant, ID: act.Tenant}}
		for name, restart := range map[string]bool{"one host": false, "another host": true} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				s := on.openAt(t, dir)
				l := keptLedger(t, s, now)
				asked := act.Act{Request: edn.MustRead(strings.TrimSuffix(oneCall, "}") + ` :response/type :accepted}`), Principal: "ann", PrincipalType: "user"}
				run, refused := paid(t, s, l, true).Submit(asked)
				require.Nil(t, refused, "%v", refused)
				waiting := figures(t, l, scope)
				assert.Contains(t, waiting[0], "used {} reserved {:attempts ")
				if restart {
					run.Abandon(contract.Errorf("runtime/draining", "the host ends"))
					require.NoError(t, s.Close())
					s = on.openAt(t, dir)
					l = keptLedger(t, s, now)
					assert.Equal(t, waiting, figures(t, l, scope))
				}
				service, records := paid(t, s, l, true), recordsOf(t, s, run.ID())
				if restart {
					run, refused = service.Recall(ctx, run.ID(), records[0].Body.(*journal.RunAccepted), nil)
					require.Nil(t, refused, "%v", refused)
				}
				require.Nil(t, service.Begin(run, records, ""))
				_, err := run.Wait()
				require.Nil(t, err, "%v", err)
				want := []string{"this host used {:attempts 1 :roundtrips 1 :usd 0.01M} reserved {} granted {}"}
				assert.Equal(t, want, figures(t, l, scope))
				assert.Equal(t, want, figures(t, keptLedger(t, s, now), scope))
			})
		}
	})
}
