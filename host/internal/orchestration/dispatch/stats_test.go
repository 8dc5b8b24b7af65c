package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func worldWithStats(t testing.TB, more ...string) *dispatchtest.World {
	w := world(t, more...)
	w.Dispatcher.Stats = &stats.Table{}
	return w
}

func (s served) resolved(t testing.TB) *journal.NodeResolved {
	t.Helper()
	n, ok := s.records[0].Body.(*journal.NodeResolved)
	require.True(t, ok)
	return n
}

// BRK-001, HTTP-008: an operator closes the breakers of a capability, for one intent or
// all, and the failures before no longer count. Others stay as they are.
func TestResetBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		down := true
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
			if down {
				return fails("provider/unavailable")
			}
			return out(`{:n 1}`)
		})
		w.On("t/b", out(`{:n 2}`))
		one := func() []string { return serve(t, w, order{layer: retries(0, 1)}).events() }
		for range 5 {
			one()
		}
		require.Equal(t, []string{"b ", "b ok"}, one(), "its breaker is open")
		down = false
		table := w.Dispatcher.Stats
		assert.Empty(t, table.Reset("t/c", "", time.Now()))
		assert.Empty(t, table.Reset("t/a", "t/other", time.Now()))
		require.Equal(t, []string{"b ", "b ok"}, one(), "that was another breaker")
		reset := table.Reset("t/a", "", time.Now())
		require.Len(t, reset, 1)
		assert.Equal(t, "ok", reset[0].State())
		assert.Equal(t, []string{"a ", "a ok"}, one(), "at once, without a ramp")
		down = true
		assert.Equal(t, []string{"a ", "a provider/unavailable", "b ", "b ok"}, one())
		assert.Equal(t, "a ", one()[0], "one failure does not open it: the earlier ones do not count")
	})
}

// BRK-001, BRK-004, BRK-005: a failing candidate is rejected for all calls, and
// comes back by one probe and the ramp.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		down := true
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
			if down {
				return fails("provider/unavailable")
			}
			return out(`{:n 1}`)
		})
		w.On("t/b", out(`{:n 2}`))
		one := func() served { return serve(t, w, order{layer: retries(0, 1)}) }
		for range 5 {
			assert.Equal(t, []string{"a ", "a provider/unavailable", "b ", "b ok"}, one().events())
		}
		r := one()
		assert.Equal(t, []string{"b ", "b ok"}, r.events())
		assert.Equal(t, []journal.Rejection{{CapID: "t/a", Reason: "breaker/open"}}, r.resolved(t).Rejected)

		time.Sleep(1200 * time.Millisecond) // a second and its jitter
		assert.Equal(t, []string{"a ", "a provider/unavailable", "b ", "b ok"}, one().events(), "the probe")
		assert.Equal(t, []string{"b ", "b ok"}, one().events())

		down = false
		time.Sleep(2400 * time.Millisecond)
		assert.Equal(t, []string{"a ", "a ok"}, one().events(), "the probe")
		asked := 0
		for range 20 {
			if one().CapID == "t/a" {
				asked++
			}
		}
		assert.Equal(t, 2, asked, "a tenth is let through")
		time.Sleep(time.Minute)
		assert.Equal(t, "t/a", one().CapID)
	})
}

// BRK-004, WS-148, WS-210: failures that the capability did not cause are ignored, also those of
// the requests that it made to the host.
func TestBreakerIgnores(t *testing.T) {
	model := contract.Errorf("provider/unavailable", "down")
	caused := func(cause *contract.Error) dispatchtest.Step {
		return dispatchtest.Step{Err: contract.Errorf("provider/error", "the call of the model failed").WithCause(cause)}
	}
	for name, step := range map[string]dispatchtest.Step{
		"its request":   caused(contract.Errorf("invalid-request", "refused")),
		"another model": caused(model.WithWhere("cap/id", edn.K("t/model"))),
		"the disk":      fails("store/io"),
		"gates":         wrong,
		"bad input":     fails("input/invalid"),
		"the request":   fails("invalid-request"),
	} {
		w := worldWithStats(t, "", "")
		w.On("t/a", step).On("t/b", out(`{:n 2}`))
		for range 30 {
			r := serve(t, w, order{layer: retries(0, 1)})
			assert.Equal(t, "a ", r.events()[0], name)
		}
	}
	for what, counts := range map[string]dispatchtest.Step{
		"a cause in its own backend": caused(model),
		"a cause of its own":         caused(model.WithWhere("cap/id", edn.K("t/a"))),
		"a call that hangs":          {Hang: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			own := worldWithStats(t, "", "")
			own.On("t/a", counts).On("t/b", out(`{:n 2}`))
			for range 5 {
				serve(t, own, order{layer: retries(0, 1), deadline: time.Second})
			}
			assert.Equal(t, "b ", serve(t, own, order{layer: retries(0, 1), deadline: time.Second}).events()[0], what)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", dispatchtest.Step{Hang: true}).On("t/b", in(ms, out(`{:n 2}`)))
		for range 30 {
			assert.Equal(t, []string{"a race", "b race", "b ok", "a race/lost"}, serve(t, w, order{layer: race(2, 0)}).events())
		}
		w = worldWithStats(t, "")
		w.On("t/a", dispatchtest.Step{Hang: true})
		for range 30 {
			assert.Equal(t, []string{"a ", "a timeout/hard"}, serve(t, w, order{deadline: ms}).events(), "the node had no time")
		}
	})
}

// ATT-005, BRK-004: every failed attempt counts, also in a race with another
// winner, a retry, and a repair round; canceled losers and candidates that were
// not called do not count.
func TestEveryFailedAttemptCounts(t *testing.T) {
	rejected := func(t *testing.T, w *dispatchtest.World, l policy.Layer) []journal.Rejection {
		t.Helper()
		return serve(t, w, order{layer: l}).resolved(t).Rejected
	}
	open := []journal.Rejection{{CapID: "t/b", Reason: "breaker/open"}}
	for name, tc := range map[string]struct {
		a, b  dispatchtest.Step
		layer policy.Layer
		acts  int
	}{
		"by itself in a race": {a: in(20*ms, out(`{:n 1}`)), b: in(10*ms, fails("provider/unavailable")), layer: race(2, 0), acts: 5},
		"in a tournament":     {a: in(20*ms, out(`{:n 1}`)), b: in(10*ms, fails("provider/unavailable")), layer: tournament(2, 0), acts: 5},
		"each of its tries":   {a: fails("input/invalid"), b: fails("provider/unavailable"), layer: only("t/b", retries(4, 0)), acts: 1},
		"canceled, never":     {a: in(10*ms, out(`{:n 1}`)), b: dispatchtest.Step{Hang: true}, layer: race(2, 0)},
		"not asked, never":    {a: in(10*ms, out(`{:n 1}`)), b: fails("provider/unavailable"), layer: retries(0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worldWithStats(t, "", "")
				w.On("t/a", tc.a).On("t/b", tc.b)
				acts := tc.acts
				if acts == 0 {
					acts = 30
				}
				for range acts {
					assert.Empty(t, rejected(t, w, tc.layer))
				}
				want := open
				if tc.acts == 0 {
					want = nil
				}
				assert.Equal(t, want, rejected(t, w, retries(0, 1)))
			})
		})
	}
}

// ATT-005: a failure that arrived together with the winner's answer counts.
// Both arrive while the judge grades a third answer, which it then refuses.
func TestFailureBesideTheWinnerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: append(caps("", "", ""), judge("t/judge", "")), Checks: []quality.Check{verified("verified")}})
		w.Dispatcher.Stats = &stats.Table{}
		w.On("t/a", in(10*ms, out(`{:n 1}`))).On("t/b", in(10*ms, fails("provider/unavailable"))).On("t/c", in(5*ms, out(`{:n 1}`)))
		layer := race(3, 0)
		layer.Must = policy.NamesOf(here, "verified")
		for range 5 {
			w.On("t/judge", in(20*ms, out(`{:ok? false}`)), in(20*ms, out(`{:ok? true}`)))
			r := serve(t, w, order{layer: layer})
			assert.Equal(t, "t/a", r.CapID)
			assert.Empty(t, r.resolved(t).Rejected)
		}
		last := retries(0, 1)
		last.Candidates = policy.Of([]string{"t/b", "t/a"}, here)
		assert.Equal(t, []journal.Rejection{{CapID: "t/b", Reason: "breaker/open"}}, serve(t, w, order{layer: last}).resolved(t).Rejected)
	})
}

// only returns a layer for one candidate.
func only(capID string, l policy.Layer) policy.Layer {
	l.Candidates = policy.Of([]string{capID}, here)
	return l
}

// BRK-004: a process crash is one failure, however many calls it ends; the
// supervisor counts crashes.
func TestCrashCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", in(10*ms, dispatchtest.Step{Crash: true}))
		w.On("t/b", out(`{:n 2}`))
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() { assert.Nil(t, serve(t, w, order{layer: retries(0, 1)}).Err) })
		}
		group.Wait()
		assert.Equal(t, "a ", serve(t, w, order{layer: retries(0, 1)}).events()[0], "the breaker is closed")
	})
}

// BRK-001: if all breakers are open, the call waits for the first to reopen if
// the deadline allows it; otherwise the failure has the time.
func TestAllOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "")
		n := 0
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
			if n++; n <= 5 {
				return fails("provider/unavailable")
			}
			return out(`{:n 1}`)
		})
		for range 5 {
			serve(t, w, order{})
		}
		r := serve(t, w, order{deadline: 100 * ms})
		assert.Equal(t, "breaker/open", r.failure())
		after, ok := r.Err.Details.Key("retry-after-ms").AsInt()
		assert.True(t, ok)
		assert.InDelta(t, 1050, after, 51)
		began := time.Now()
		r = serve(t, w, order{deadline: time.Minute})
		require.Nil(t, r.Err)
		took := time.Since(began)
		assert.LessOrEqual(t, took, time.Duration(after)*ms, "a caller that waits for retry-after is served")
		assert.Greater(t, took, time.Duration(after-1)*ms)
	})
}

// BRK-001: of concurrent calls one is the probe; the others try the next
// candidate at once.
func TestOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", fails("provider/unavailable"), fails("provider/unavailable"), fails("provider/unavailable"), fails("provider/unavailable"), fails("provider/unavailable"), in(time.Second, out(`{:n 1}`)))
		w.On("t/b", out(`{:n 2}`))
		for range 5 {
			serve(t, w, order{layer: retries(0, 1)})
		}
		time.Sleep(1200 * ms)
		var group sync.WaitGroup
		results := make([]served, 20)
		for i := range results {
			group.Go(func() { results[i] = serve(t, w, order{layer: retries(0, 1)}) })
		}
		group.Wait()
		probes := 0
		for _, r := range results {
			require.Nil(t, r.Err)
			if r.CapID == "t/a" {
				probes++
			}
		}
		assert.Equal(t, 1, probes)
	})
}

// BRK-001: a probe whose operation ends early, because its start or that of another
// attempt cannot be recorded, gives its permit back.
func TestProbeOfALostOperation(t *testing.T) {
	lost := contract.Errorf("journal/full", "no space left")
	priced := ":cap/cost {:usd 0.5M}"
	for name, layer := range map[string]policy.Layer{"alone": retries(0, 1), "parallel": hedge(ms, 2, 0, 0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worldWithStats(t, priced, priced)
				w.On("t/b", out(`{:n 2}`))
				answers := func(step dispatchtest.Step, then func()) {
					w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { then(); return step })
				}
				answers(fails("provider/unavailable"), func() {})
				for range 5 {
					serve(t, w, order{layer: retries(0, 1)})
				}
				time.Sleep(1200 * ms)
				records := dispatchtest.NewRecords(t)
				if name == "alone" {
					records.Break(lost)
				}
				answers(dispatchtest.Step{Hang: true}, func() { records.Break(lost) })
				r := serve(t, w, order{layer: layer, records: records})
				require.Equal(t, "journal/full", r.failure())
				require.Equal(t, "t/a", r.started()[0].CapID, "the probe")
				answers(out(`{:n 1}`), func() {})
				assert.Equal(t, "a ", serve(t, w, order{layer: retries(0, 1)}).events()[0], "the next probe")
			})
		})
	}
}

// BIND-003, BIND-007: the record has the order and its figures: actual costs
// take precedence, candidates without calls have the declared figures.
// TestSort covers each comparison of each policy; :learned belongs
// to a later part.
func TestOrderings(t *testing.T) {
	w := worldWithStats(t, "", "", ":cap/cost {:usd 0.5M :latency-ms 9000}")
	priced := func(n int, usd string) dispatchtest.Step {
		s := out(`{:n 1}`)
		s.Usage = edn.MustRead(`{:cost-usd ` + usd + `}`)
		return s
	}
	// a: 4 of 10 pass; b: 9 of 10 at a higher cost; c was never called.
	for i := range 10 {
		for id, passes := range map[string]int{"t/a": 4, "t/b": 9} {
			step := priced(1, map[string]string{"t/a": "0.01M", "t/b": "0.02M"}[id])
			if i >= passes {
				step = wrong
				step.Usage = edn.MustRead(`{:cost-usd 0.01M}`)
			}
			w.On(id, step)
			l := policy.Layer{Candidates: policy.Of([]string{id}, here)}
			serve(t, w, order{layer: l})
		}
	}
	w.On("t/c", out(`{:n 3}`))
	for ordering, want := range map[string][]string{
		"declared":      {"t/a", "t/b", "t/c"},
		"quality-aware": {"t/b", "t/c", "t/a"},
		"cost-first":    {"t/a", "t/b", "t/c"},
		"availability":  {"t/a", "t/b", "t/c"},
	} {
		l := policy.Layer{Ordering: policy.Of(ordering, here)}
		if ordering == "cost-first" { // otherwise the declared order is the same
			l.Candidates = policy.Of([]string{"t/c", "t/b", "t/a"}, here)
		}
		r := serve(t, w, order{layer: l})
		var got []string
		for _, c := range r.resolved(t).Candidates {
			got = append(got, c.CapID)
			assert.Equal(t, ordering != "declared", !c.Figures.IsNil(), ordering)
		}
		assert.Equal(t, want, got, ordering)
	}
	r := serve(t, w, order{layer: policy.Layer{Ordering: policy.Of("quality-aware", here)}})
	figures := r.resolved(t).Candidates[2].Figures
	assert.Equal(t, "t/a", r.resolved(t).Candidates[2].CapID)
	q, _ := figures.Key("quality").AsNumber()
	f, _ := q.Float64()
	assert.Less(t, f, 0.6)
	assert.Equal(t, "t/b", r.CapID, "the best is asked first")
}

// BIND-007: a pinned capability is tried first under every policy, whatever its
// figures; the fallbacks follow in the order of the policy.
func TestPinnedStaysFirst(t *testing.T) {
	for ordering, want := range map[string][]string{
		policy.Declared:     {"t/a", "t/b", "t/c"},
		policy.QualityAware: {"t/a", "t/c", "t/b"},
		policy.CostFirst:    {"t/a", "t/c", "t/b"},
		policy.LatencyFirst: {"t/a", "t/c", "t/b"},
		policy.Availability: {"t/a", "t/c", "t/b"},
	} {
		t.Run(ordering, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worldWithStats(t, ":cap/cost {:usd 9}",
					":cap/cost {:usd 2 :latency-ms 2000}", ":cap/cost {:usd 1 :latency-ms 1000}")
				w.SetCondition("t/a", stats.Condition{InFlight: 8, Places: 9})
				w.SetCondition("t/b", stats.Condition{InFlight: 2, Places: 9})
				w.On("t/a", in(9*time.Second, wrong), in(9*time.Second, out(`{:n 1}`)))
				l := retries(0, 2)
				l.Ordering = policy.Of(ordering, here)
				l.Candidates = policy.Of([]string{"t/a"}, here)
				serve(t, w, order{layer: l}) // makes it the worst and the slowest one
				l.Candidates = policy.Val[[]string]{}
				l.Fallbacks = policy.NamesOf(here, "t/b", "t/c")
				r := serve(t, w, order{layer: l, capID: "t/a"})
				assert.Equal(t, want, ordered(t, r))
				assert.Equal(t, "t/a", r.CapID)
			})
		})
	}
}

// BRK-007: a repaired answer counts once, by its final verdict.
func TestRepairCountsOnce(t *testing.T) {
	w := repairWorld(t, repairs)
	w.Dispatcher.Stats = &stats.Table{}
	w.On("t/a", out(`{:n 1}`), out(`{:good true}`), out(`{:good true :kind true}`))
	r := serve(t, w, order{layer: repair(3, 0, 0, policy.SourceNode)})
	require.Nil(t, r.Err)
	l := policy.Layer{Ordering: policy.Of("quality-aware", here)}
	figures := serve(t, w, order{layer: l}).resolved(t).Candidates[0].Figures
	assert.Equal(t, "1", figures.Key("samples").String())
	assert.Equal(t, "0.83M", figures.Key("quality").String(), "(1 + 4) / (1 + 5)")

	w = repairWorld(t, repairs)
	w.Dispatcher.Stats = &stats.Table{}
	w.On("t/a", out(`{:n 1}`))
	serve(t, w, order{layer: repair(3, 0, 0, policy.SourceNode)})
	figures = serve(t, w, order{layer: l}).resolved(t).Candidates[0].Figures
	assert.Equal(t, "1", figures.Key("samples").String())
	assert.Equal(t, "0.67M", figures.Key("quality").String(), "(0 + 4) / (1 + 5)")
}

// ATT-012: the p95 is known after twenty successes.
func TestHedgeLearnsItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldWithStats(t, "", "")
		w.On("t/a", in(40*ms, out(`{:n 1}`))).On("t/b", in(5*ms, out(`{:n 2}`)))
		for range 20 {
			assert.Equal(t, []string{"a ", "a ok"}, serve(t, w, order{layer: hedge(0, 1, 0, 0)}).events())
		}
		w.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return in(200*ms, out(`{:n 1}`)) })
		began := time.Now()
		r := serve(t, w, order{layer: hedge(0, 1, 0, 0)})
		assert.Equal(t, "t/b", r.CapID)
		assert.Equal(t, 45*ms, time.Since(began))
	})
}

// SUP-006, BRK-004: results of another edition are ignored.
func TestBreakerOfAnotherEdition(t *testing.T) {
	w := worldWithStats(t, "", "")
	w.On("t/a", fails("provider/unavailable")).On("t/b", out(`{:n 2}`))
	w.SetState("t/a", dispatch.CapState{Ready: true, Edition: 1})
	for range 4 {
		serve(t, w, order{layer: retries(0, 1)})
	}
	w.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
	for range 4 {
		assert.Equal(t, "a ", serve(t, w, order{layer: retries(0, 1)}).events()[0])
	}
}
