//go:build external

package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// hostAt opens the database of a directory as a host with its own id. Its lease lapses
// only if a test says so.
func hostAt(t testing.TB, dir, id string) *Store {
	t.Helper()
	return onServer.openAt(t, dir, func(o *Options) { o.Postgres.Host, o.Postgres.Lease = id, time.Hour })
}

// lapse ends the lease of a host, as the clock of the database does.
func lapse(t testing.TB, dir, id string) {
	t.Helper()
	operate(t, dir, "UPDATE hosts SET until = clock_timestamp() - interval '1 s' WHERE id = '"+id+"'")
}

func idsOf(all []Unfinished) (ids []string) {
	for _, u := range all {
		ids = append(ids, u.Run.ID)
	}
	return ids
}

func resumed(sc *script) journal.Record {
	sc.epoch++
	return sc.record(&journal.RunResumed{Host: "h", Boot: "c", Config: someSum, Was: someSum, Why: journal.ResumedLease})
}

// JRN-007: a run belongs to the host that holds its lease. Once that has lapsed,
// another host takes the run over under a new epoch, and the appends of the old host
// are fenced, whether it has the run in memory or not. Its other runs go on.
func TestHostsTakeOver(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	sc, own := newScript("run_1"), newScript("run_2")
	appendAll(t, a, sc.accepted(nothing), sc.record(&journal.RunStarted{Host: "a", Boot: "b", Config: someSum}))
	require.NoError(t, a.Sync(ctx, "run_1"))
	old := *sc

	taken, err := b.Take(ctx)
	require.NoError(t, err)
	assert.Empty(t, taken, "the lease is valid")
	typed(t, b.Append(ctx, sc.record(&journal.CancelRequested{By: "b"})), "journal/fenced")
	open, err := b.Unfinished(ctx)
	require.NoError(t, err)
	assert.Empty(t, open)

	*sc = old
	lapse(t, dir, "a")
	taken, err = b.Take(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_1"}, idsOf(taken))
	assert.Equal(t, 2, taken[0].Last.Seq)
	open, err = a.Unfinished(ctx)
	require.NoError(t, err)
	assert.Empty(t, open)

	appendAll(t, a, old.record(&journal.CancelRequested{By: "a"}), own.accepted(nothing))
	typed(t, a.Sync(ctx, "run_1"), "journal/fenced")
	require.NoError(t, a.Sync(ctx, "run_2"))
	require.NoError(t, a.Err())
	typed(t, a.Append(ctx, old.record(&journal.CancelRequested{By: "a"})), "journal/fenced")
	a.Drop("run_1")
	old.seq = sc.seq
	typed(t, a.Append(ctx, old.record(&journal.CancelRequested{By: "a"})), "journal/fenced")

	appendAll(t, b, resumed(sc), sc.finished(nothing))
	require.NoError(t, b.Sync(ctx, "run_1"))
	again, err := a.Take(ctx)
	require.NoError(t, err)
	assert.Empty(t, again)
	for _, s := range []*Store{a, b} {
		require.NoError(t, s.Verify(ctx, "run_1"))
		run, err := s.Run(ctx, "run_1")
		require.NoError(t, err)
		assert.Equal(t, []any{2, 4, "completed"}, []any{run.Epoch, run.Records, run.State})
	}
	require.NoError(t, a.Close())
	taken, err = b.Take(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_2"}, idsOf(taken), "a host that ends leaves its runs at once")
}

// OPS-004, JRN-007, LED-005: a host that goes down hands over the runs that it does not
// execute, with what they have reserved, while it still executes others. The next host
// takes them at once; what the first one appends to them is fenced.
func TestHostsHandOver(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	la, lb := keptLedger(t, a, now), keptLedger(t, b, now)
	chain, two := limited(t, 9), policy.Count(policy.Attempts, 2)
	queued, live, ended := newScript("run_1"), newScript("run_2"), newScript("run_3")
	appendAll(t, a, queued.accepted(nothing), live.accepted(nothing), ended.accepted(nothing))
	held, reserved := queued.reserve(t, la, chain, two)
	appendAll(t, a, reserved)
	for _, run := range []string{"run_1", "run_2", "run_3"} {
		require.NoError(t, a.Sync(ctx, run))
	}
	n, err := a.HandOver(ctx)
	require.NoError(t, err)
	assert.Zero(t, n, "all are under way")

	owner := func(run string) string {
		id, mine, err := b.Owner(ctx, run)
		require.NoError(t, err)
		return fmt.Sprint(id, " ", mine)
	}
	assert.Equal(t, "a false", owner("run_1"))
	a.Drop("run_1")
	appendAll(t, a, ended.finished(nothing))
	a.Drop("run_3") // its end may not be in the database yet
	n, err = a.HandOver(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	both := "this hosttotal used {} reserved {:attempts 2} granted {}"
	assert.Equal(t, []string{both, both}, []string{figures(t, la, chain)[0], figures(t, lb, chain)[0]}, "between two hosts")

	assert.Equal(t, " false", owner("run_1"))
	taken, err := b.Take(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_1"}, idsOf(taken))
	assert.Equal(t, "b true", owner("run_1"))
	assert.True(t, taken[0].Left)
	stale := *queued
	typed(t, a.Append(ctx, stale.record(&journal.CancelRequested{By: "a"})), "journal/fenced")
	assert.Equal(t, []string{both, both}, []string{figures(t, la, chain)[0], figures(t, lb, chain)[0]})
	appendAll(t, b, resumed(queued))
	left, err := lb.Adopt(ctx, act.Windows(held.record, "uid/7"), two)
	require.NoError(t, err)
	appendAll(t, b, queued.settle(t, lb, attempt{left, held.record}, two), queued.finished(nothing))
	require.NoError(t, b.Sync(ctx, "run_1"))

	appendAll(t, a, live.finished(nothing))
	require.NoError(t, a.Sync(ctx, "run_2"), "the others go on")
	for id, host := range map[string]*Store{"run_1": a, "run_2": b, "run_3": b} {
		run, err := host.Run(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, "completed", run.State, id)
		require.NoError(t, host.Verify(ctx, id))
	}
	taken, err = b.Take(ctx)
	require.NoError(t, err)
	assert.Empty(t, taken)
}

// OPS-004, JRN-007: a host that hands over a run while it reads it back for an append has
// lost it: the run does not become live, where its appends would not be fenced.
func TestHostsHandOverWhatIsReadBack(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	sc := newScript("run_1")
	appendAll(t, a, sc.accepted(nothing))
	require.NoError(t, a.Sync(ctx, "run_1"))
	a.Drop("run_1")
	row, err := a.run(ctx, "run_1")
	require.NoError(t, err)
	records, err := a.Read(ctx, "run_1", 0, maxRecords)
	require.NoError(t, err)

	n, err := a.HandOver(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	_, err = a.enliven(ctx, row, records)
	typed(t, err, "journal/fenced")
	assert.Empty(t, a.lives())
	assert.False(t, a.memory.Has("run_1"))

	taken, err := b.Take(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_1"}, idsOf(taken))
	row, err = b.run(ctx, "run_1")
	require.NoError(t, err)
	_, err = b.enliven(ctx, row, records)
	require.NoError(t, err)
	appendAll(t, b, resumed(sc), sc.finished(nothing))
	require.NoError(t, b.Sync(ctx, "run_1"))
}

// JRN-007, JRN-044: a suspended run belongs to no host; of two hosts that resume it at
// once, one does.
func TestHostsResumeOnce(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	sc := newScript("run_1")
	appendAll(t, a, sc.accepted(nothing), sc.record(&journal.RunSuspended{Why: "effects/outcome-unknown"}))
	require.NoError(t, a.Sync(ctx, "run_1"))
	a.Drop("run_1")
	results := make([]error, 2)
	var both sync.WaitGroup
	for i, s := range []*Store{a, b} {
		mine := *sc
		both.Go(func() {
			if results[i] = s.Append(ctx, resumed(&mine)); results[i] == nil {
				results[i] = s.Sync(ctx, "run_1")
			}
		})
	}
	both.Wait()
	winner := map[bool]int{results[0] == nil: 0, results[1] == nil: 1}
	require.Len(t, winner, 2, "%v", results)
	typed(t, results[winner[false]], "journal/fenced")
	for _, s := range []*Store{a, b} {
		require.NoError(t, s.Err())
		require.NoError(t, s.Verify(ctx, "run_1"))
	}
}

// JRN-007, OPS-002: a Store that opens the database as a host fences an earlier one,
// whatever it does next.
func TestHostsHaveOneStore(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	first := hostAt(t, dir, "a")
	sc := newScript("run_1")
	appendAll(t, first, sc.accepted(nothing))
	require.NoError(t, first.Sync(ctx, "run_1"))
	second := hostAt(t, dir, "a")
	open, err := second.Unfinished(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_1"}, idsOf(open))
	appendAll(t, first, sc.record(&journal.CancelRequested{By: "a"}))
	typed(t, first.Sync(ctx, "run_1"), "journal/fenced")
	<-first.Failed()
	typed(t, first.Append(ctx, newScript("run_2").accepted(nothing)), "journal/fenced")
	sc.seq = 1
	appendAll(t, second, resumed(sc), sc.finished(nothing))
	require.NoError(t, second.Sync(ctx, "run_1"))
}

// RUN-040, RUN-041: a host follows the runs of another one to their end, from any
// record.
func TestHostsFollowEachOther(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	sc := newScript("run_1")
	records := []journal.Record{sc.accepted(nothing)}
	appendAll(t, a, records...)
	require.NoError(t, a.Sync(ctx, "run_1"))
	var followed, late []journal.Record
	var readers sync.WaitGroup
	readers.Go(func() { followed = readAll(t, b.Follow("run_1", 0)) })
	readers.Go(func() { late = readAll(t, b.Follow("run_1", 2)) })
	records = append(append(records, sc.step(textOf(1, 300), textOf(2, 300))...), sc.finished(nothing))
	appendAll(t, a, records[1:]...)
	require.NoError(t, a.Sync(ctx, "run_1"))
	readers.Wait()
	assert.Equal(t, texts(records), texts(followed))
	assert.Equal(t, texts(records[2:]), texts(late))
	assert.Equal(t, texts(records), texts(readAll(t, b.Follow("run_1", 0))))

	open := newScript("run_2")
	appendAll(t, a, open.accepted(nothing))
	require.NoError(t, a.Sync(ctx, "run_2"))
	cursor := b.Follow("run_2", 1)
	require.NoError(t, b.Close())
	_, ok, err := cursor.Next(ctx)
	assert.False(t, ok)
	typed(t, err, "journal/unavailable")
}

// RUN-022: 64 callers with one key on two hosts give one run, and all have its
// response.
func TestHostsShareKeys(t *testing.T) {
	const callers = 64
	dir, ctx := t.TempDir(), context.Background()
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps:    []string{dispatchtest.Cap("a/one", "")},
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "res/any", ResultTypes: []string{"value"}}},
	})
	var mu sync.Mutex
	calls := 0
	w.Func("a/one", func(context.Context, dispatch.Call) dispatchtest.Step {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return dispatchtest.Step{Value: edn.MustRead(fmt.Sprintf(`{:n %d}`, calls))}
	})
	var services []*act.Service
	for _, id := range []string{"a", "b"} {
		s, err := act.New(act.Config{
			Registry: w.Registry,
			Policies: w.Policies,
			Checks:   w.Checks,
			Executor: w,
			Journal:  hostAt(t, dir, id),
			Keys:     &act.Keys{},
			Hash:     someSum,
		})
		require.NoError(t, err)
		services = append(services, s)
	}
	request := edn.MustRead(`{:proto 1 :trace {:id "r"} :task {:intent :text/respond} :input {:prompt "p"} :idempotency/key "k-1"}`)
	var begin, done sync.WaitGroup
	begin.Add(1)
	runs, answers := map[string]int{}, map[string]int{}
	for i := range callers {
		done.Go(func() {
			begin.Wait()
			run, refused := services[i%2].Start(ctx, act.Act{Request: request, Principal: "ann", PrincipalType: "user"})
			if !assert.Nil(t, refused) {
				return
			}
			response, err := run.Wait()
			assert.Nil(t, err)
			mu.Lock()
			defer mu.Unlock()
			runs[run.ID()]++
			answers[response.Key("result").Key("out").String()]++
		})
	}
	begin.Done()
	done.Wait()
	assert.Equal(t, 1, calls)
	assert.Len(t, runs, 1)
	assert.Equal(t, map[string]int{"{:n 1}": callers}, answers)
}

// limited are lasting scopes with room for n attempts.
func limited(t testing.TB, n int) budget.Chain {
	t.Helper()
	l, err := policy.LimitsOf(edn.MustRead(fmt.Sprintf(`{:max-attempts %d}`, n)))
	require.NoError(t, err)
	chain := lasting(budget.Day)
	for i := range chain {
		chain[i].Limits = l
	}
	return chain
}

// LED-002, LED-007: of 64 callers at a barrier on two hosts, with a budget for one, one
// is served; what an operator grants on one host counts on the other.
func TestHostsShareBudgets(t *testing.T) {
	const callers = 64
	dir, ctx := t.TempDir(), context.Background()
	ledgers := []budget.Ledger{keptLedger(t, hostAt(t, dir, "a"), now), keptLedger(t, hostAt(t, dir, "b"), now)}
	chain := limited(t, 1)
	for round := range 3 {
		var begin, done sync.WaitGroup
		begin.Add(1)
		results := make([]error, callers)
		for i := range callers {
			done.Go(func() {
				begin.Wait()
				_, results[i] = ledgers[i%2].Reserve(ctx, chain, policy.Count(policy.Attempts, 1))
			})
		}
		begin.Done()
		done.Wait()
		served := 0
		for _, err := range results {
			var full *budget.ExceededError
			if err == nil {
				served++
			} else {
				require.ErrorAs(t, err, &full)
			}
		}
		assert.Equal(t, 1, served)
		for _, scope := range chain { // room for one more
			require.NoError(t, ledgers[round%2].Adjust(ctx, scope, budget.Adjustment{Grant: policy.Count(policy.Attempts, 1)}))
		}
	}
	for _, l := range ledgers {
		assert.Equal(t, []string{
			"this hosttotal used {} reserved {:attempts 3} granted {:attempts 3}",
			"user uid/7day used {} reserved {:attempts 3} granted {:attempts 3}",
		}, figures(t, l, chain))
		seen, err := l.Seen(ctx, budget.User, budget.Day)
		require.NoError(t, err)
		assert.Equal(t, []string{"uid/7"}, seen)
	}
}

// LED-005: what a run has reserved goes to the host that takes it over; what the old
// host settles afterwards counts nothing, and what it had reserved beside its runs is
// free again.
func TestHostsTakeReservationsOver(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	la, lb := keptLedger(t, a, now), keptLedger(t, b, now)
	chain, two := limited(t, 9), policy.Count(policy.Attempts, 2)
	sc := newScript("run_1")
	held, reserved := func() (attempt, journal.Record) {
		appendAll(t, a, sc.accepted(nothing))
		return sc.reserve(t, la, chain, two)
	}()
	appendAll(t, a, reserved)
	beside, err := la.Reserve(ctx, chain, policy.Count(policy.Attempts, 5))
	require.NoError(t, err)
	require.NoError(t, a.Sync(ctx, "run_1"))
	_, err = lb.Reserve(ctx, chain, policy.Count(policy.Attempts, 3))
	var full *budget.ExceededError
	require.ErrorAs(t, err, &full)

	lapse(t, dir, "a")
	taken, err := b.Take(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"run_1"}, idsOf(taken))
	free := "this hosttotal used {} reserved {:attempts 2} granted {}"
	assert.Equal(t, free, figures(t, lb, chain)[0])
	require.NoError(t, la.Settle(ctx, held.r, policy.Count(policy.Attempts, 1), budget.Exact))
	require.NoError(t, la.Settle(ctx, beside, policy.Amounts{}, budget.Exact))
	assert.Equal(t, free, figures(t, la, chain)[0])
	fresh, err := la.Reserve(ctx, chain, policy.Count(policy.Attempts, 7))
	require.NoError(t, err)
	require.NoError(t, la.Settle(ctx, fresh, policy.Amounts{}, budget.Exact))
	assert.Equal(t, free, figures(t, la, chain)[0])

	appendAll(t, b, resumed(sc))
	left, err := lb.Adopt(ctx, act.Windows(held.record, "uid/7"), two)
	require.NoError(t, err)
	appendAll(t, b, sc.settle(t, lb, attempt{left, held.record}, two), sc.finished(nothing))
	require.NoError(t, b.Sync(ctx, "run_1"))
	for _, l := range []budget.Ledger{la, lb} {
		assert.Equal(t, "this hosttotal used {:attempts 2} reserved {} granted {}", figures(t, l, chain)[0])
	}
}

// LED-005, JRN-044: a suspended run keeps what it has reserved, at the host that
// resumes it.
func TestHostsResumeWithReservations(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	a, b := hostAt(t, dir, "a"), hostAt(t, dir, "b")
	la, lb := keptLedger(t, a, now), keptLedger(t, b, now)
	chain, two := limited(t, 9), policy.Count(policy.Attempts, 2)
	sc := newScript("run_1")
	appendAll(t, a, sc.accepted(nothing))
	held, reserved := sc.reserve(t, la, chain, two)
	appendAll(t, a, reserved, sc.record(&journal.RunSuspended{Why: "effects/outcome-unknown"}))
	require.NoError(t, a.Sync(ctx, "run_1"))
	a.Drop("run_1")
	inFlight, err := la.Reserve(ctx, chain, two)
	require.NoError(t, err)
	appendAll(t, b, resumed(sc))
	require.NoError(t, b.Sync(ctx, "run_1"))
	assert.Equal(t, "this hosttotal used {} reserved {:attempts 4} granted {}", figures(t, lb, chain)[0])
	require.NoError(t, la.Settle(ctx, inFlight, policy.Amounts{}, budget.Exact))
	left, err := lb.Adopt(ctx, act.Windows(held.record, "uid/7"), two)
	require.NoError(t, err)
	appendAll(t, b, sc.settle(t, lb, attempt{left, held.record}, two), sc.finished(nothing))
	require.NoError(t, b.Sync(ctx, "run_1"))
	for _, l := range []budget.Ledger{la, lb} {
		assert.Equal(t, "this hosttotal used {:attempts 2} reserved {} granted {}", figures(t, l, chain)[0])
	}
}
