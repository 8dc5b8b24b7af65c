package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// remediationWorld is a world whose intent has a floor of 0.6. The schema
// decides: {:n 1} passes, {} does not.
type remediationWorld struct {
	*dispatchtest.World
	t testing.TB

	mu      sync.Mutex
	notices []stats.Notice
	bad     map[string]bool // capabilities with bad answers
}

func newRemediationWorld(t testing.TB, q registry.Quality, candidates int) *remediationWorld {
	return newRemediationWorldOf(t, q, candidates, true)
}

// newRemediationWorldOf is newRemediationWorld with one plugin per capability,
// or with one for all.
func newRemediationWorldOf(t testing.TB, q registry.Quality, candidates int, apart bool) *remediationWorld {
	if !q.MinPassRate.Set {
		q.MinPassRate = registry.ShareOf(0.6)
	}
	more := make([]string, candidates)
	k := &remediationWorld{t: t, bad: map[string]bool{}}
	k.World = dispatchtest.New(t, dispatchtest.Spec{
		Caps: caps(more...), Apart: apart,
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "test/n", Quality: q}},
		Schemas: map[string]string{"test/n": `[:map [:n :int]]`},
	})
	k.Dispatcher.Stats = &stats.Table{Notice: func(n stats.Notice) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.notices = append(k.notices, n)
	}}
	for i := range candidates {
		id := "t/" + string(rune('a'+i))
		k.SetState(id, dispatch.CapState{Ready: true, Edition: 1})
		k.Func(id, func(_ context.Context, c dispatch.Call) dispatchtest.Step {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.bad[c.CapID] {
				return out(`{}`)
			}
			return out(`{:n 1}`)
		})
	}
	return k
}

func (k *remediationWorld) set(bad bool, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		k.bad[id] = bad
	}
}

// ask makes n calls, a second apart.
func (k *remediationWorld) ask(n int) (last served) {
	k.t.Helper()
	for range n {
		last = serve(k.t, k.World, order{layer: retries(0, 3)})
		time.Sleep(time.Second)
	}
	return last
}

// events returns the notices so far, abbreviated.
func (k *remediationWorld) events() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, n := range k.notices {
		all = append(all, n.Event+" "+n.CapID[2:])
	}
	return all
}

// remediations returns the events that the run recorded.
func (s served) remediations() []*journal.HostEvent {
	var all []*journal.HostEvent
	for _, rec := range s.records {
		if e, ok := rec.Body.(*journal.HostEvent); ok {
			all = append(all, e)
		}
	}
	return all
}

// BRK-002, BRK-009: a swap replaces an edition whose pass rate fell below the
// floor, once per fall, without interrupting calls.
func TestSwapForQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{}, 2)
		var finish func(error)
		k.OnRenew(func(_ string, done func(error)) { finish = done })
		k.set(true, "t/a")
		assert.Empty(t, k.ask(9).remediations(), "nine verdicts are too few")
		r := k.ask(1)
		require.Len(t, r.remediations(), 1)
		assert.Equal(t, "quality/swap", r.remediations()[0].Event)
		assert.Equal(t, `{:action :swap :attempt 1 :min-pass-rate 0.6M :node "n" :passes 0 :path [0] :samples 10 :why "0 of the last 10 answers passed their gates, 0.6 of them should"}`, r.remediations()[0].Details.String())
		for range 200 { // far beyond the pause between two actions
			r = k.ask(1)
			assert.Nil(t, r.Err)
			assert.Empty(t, r.remediations(), "a swap is under way")
		}
		assert.Equal(t, []dispatchtest.Remediation{{Action: "swap", CapID: "t/a"}}, k.Remediations())

		// The new edition passes.
		k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
		k.set(false, "t/a")
		finish(nil)
		assert.Empty(t, k.ask(300).remediations())
		assert.Equal(t, []string{"quality/swap a", "quality/swapped a"}, k.events())
		assert.Equal(t, "t/a", k.ask(1).CapID)
	})
}

// BRK-009: if the swap fails, the candidate is ejected for five minutes and
// comes back through the ramp.
func TestSwapThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{}, 2)
		k.OnRenew(func(_ string, done func(error)) { done(contract.Errorf("runtime/not-ready", "the old one stays")) })
		k.set(true, "t/a")
		k.ask(10)
		assert.Equal(t, []string{"quality/swap a", "quality/failed a", "quality/eject a", "quality/quarantine a"}, k.events())
		r := k.ask(1)
		assert.Equal(t, []string{"b ", "b ok"}, r.events())
		assert.Equal(t, []journal.Rejection{{CapID: "t/a", Reason: "breaker/open", Why: "eval/low-score"}}, r.resolved(t).Rejected)
		require.Len(t, r.Degraded, 1)
		assert.Contains(t, r.Degraded[0].Why.Message, "0 of the last 10 answers passed")

		k.set(false, "t/a")
		k.ask(250)
		assert.Equal(t, "t/b", k.ask(1).CapID, "not yet")
		time.Sleep(50 * time.Second)
		served := 0
		for range 20 {
			if serve(t, k.World, order{layer: retries(0, 3)}).CapID == "t/a" {
				served++
			}
		}
		assert.Equal(t, 2, served, "a tenth is let through")
		k.ask(60)
		assert.Equal(t, "t/a", k.ask(1).CapID, "it is in again")
	})
}

// BRK-002: swap_to names the substitute of a candidate, which need not be a
// candidate itself.
func TestSwapTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{SwapTo: "t/c"}, 3)
		w := k.World
		only := policy.Layer{Candidates: policy.Of([]string{"t/a", "t/b"}, here)}
		one := func() served {
			time.Sleep(time.Second)
			return serve(t, w, order{layer: only})
		}
		k.set(true, "t/a")
		var r served
		for range 10 {
			r = one()
		}
		require.Len(t, r.remediations(), 1)
		assert.Equal(t, ":t/c", r.remediations()[0].Details.Key("to").String())
		r = one()
		require.Nil(t, r.Err)
		assert.Equal(t, "t/c", r.CapID, "before the candidates behind it")
		assert.Empty(t, k.Remediations(), "the plugin is as it was")

		// An unavailable substitute cannot serve.
		k = newRemediationWorld(t, registry.Quality{SwapTo: "t/c"}, 3)
		k.SetState("t/c", dispatch.CapState{Reason: "runtime/not-ready"})
		k.set(true, "t/a")
		k.ask(10)
		assert.Equal(t, []dispatchtest.Remediation{{Action: "swap", CapID: "t/a"}}, k.Remediations())
	})
}

// BRK-009: a restart; the third action within ten minutes is a quarantine.
func TestRestartForQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{Action: registry.ActionRestart}, 2)
		k.set(true, "t/a")
		began := time.Now()
		var at []time.Duration
		for len(at) < 3 {
			if len(k.ask(1).remediations()) > 0 {
				at = append(at, time.Since(began))
			}
		}
		assert.Equal(t, []string{"quality/restart a", "quality/restart a", "quality/eject a", "quality/quarantine a"}, k.events())
		for i := 1; i < len(at); i++ {
			assert.GreaterOrEqual(t, at[i]-at[i-1], time.Minute, "a pause between two actions")
		}
		kept := k.Remediations()
		assert.Equal(t, "quarantine", kept[2].Action, "all that the plugin serves is out")
		assert.Equal(t, "t/b", k.ask(1).CapID)
		k.Dispatcher.Stats.Released("t/a", time.Now())
		assert.Contains(t, k.events(), "quality/released a")
	})
}

// BRK-010: the last candidate is never ejected, nor more than the configured
// share.
func TestEjectionCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quarantine := registry.Quality{Action: registry.ActionQuarantine}
		k := newRemediationWorld(t, quarantine, 1)
		k.set(true, "t/a")
		r := k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a"}, k.events(), "told once")
		assert.Equal(t, "schema/invalid", r.failure(), "it serves on")
		s := k.Dispatcher.Stats.Standings(time.Now())
		require.Len(t, s, 1)
		assert.Equal(t, "degraded", s[0].State())
		k.set(false, "t/a")
		k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a", "quality/recovered a"}, k.events())

		k = newRemediationWorld(t, quarantine, 4)
		k.set(true, "t/a", "t/b", "t/c", "t/d")
		k.ask(100)
		assert.Equal(t, []string{"quality/eject a", "quality/eject b", "quality/cap-reached c", "quality/cap-reached d"}, without(k.events(), "quality/quarantine"), "two of four")

		k = newRemediationWorld(t, quarantine, 3)
		k.SetState("t/b", dispatch.CapState{Reason: "runtime/not-ready"})
		k.SetState("t/c", dispatch.CapState{Reason: "runtime/quarantined"})
		k.set(true, "t/a")
		k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a"}, k.events(), "the others are not there")
	})
}

func without(all []string, prefix string) []string {
	var out []string
	for _, s := range all {
		if len(s) < len(prefix) || s[:len(prefix)] != prefix {
			out = append(out, s)
		}
	}
	return out
}

// BRK-007: verdicts on other editions than the current one are not samples.
func TestWhatIsNoSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{}, 1)
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails("provider/empty") })
		k.ask(30)
		assert.Empty(t, without(k.events(), "breaker/"), "errors are no answers")
		assert.Empty(t, k.Remediations())
	})
	synctest.Test(t, func(t *testing.T) { // calls that started before a restart
		k := newRemediationWorld(t, registry.Quality{Action: registry.ActionRestart, MinSamples: 5}, 1)
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return in(time.Minute, out(`{}`)) })
		var group sync.WaitGroup
		for range 40 {
			time.Sleep(time.Second)
			group.Go(func() { serve(t, k.World, order{}) })
		}
		group.Wait()
		assert.Len(t, k.Remediations(), 1, "the others began under the processes that are gone")
		samples := k.Dispatcher.Stats.Standings(time.Now())[0].Samples
		assert.Zero(t, samples)
	})
}

// LLM-030: a misconfigured capability is tripped at once, until another edition
// serves or the named time.
func TestTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, typ := range []string{"provider/auth-failed", "provider/quota-exhausted", "provider/model-not-found"} {
			k := newRemediationWorld(t, registry.Quality{}, 2)
			k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails(typ) })
			assert.Equal(t, []string{"a ", "a " + typ, "b ", "b ok"}, k.ask(1).events())
			time.Sleep(24 * time.Hour)
			assert.Equal(t, []string{"b ", "b ok"}, k.ask(1).events(), typ)
			k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
			assert.Equal(t, "a ", k.ask(1).events()[0], "it is set up anew")
		}
		k := newRemediationWorld(t, registry.Quality{}, 2)
		quota := contract.Errorf("provider/quota-exhausted", "no more").WithDetail("retry-after-ms", edn.Int(3_600_000))
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Err: quota} })
		k.ask(1)
		time.Sleep(59 * time.Minute)
		assert.Equal(t, "b ", k.ask(1).events()[0])
		time.Sleep(2 * time.Minute)
		assert.Equal(t, "a ", k.ask(1).events()[0])
	})
}

// BRK-001, LLM-030: a probe that fails by the configuration of a former edition says
// nothing about the one that serves: the next call is the probe.
func TestProbeOfAFormerEdition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{}, 2)
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails("provider/unavailable") })
		one := func() served { return serve(t, k.World, order{layer: retries(0, 1)}) }
		for range 5 {
			one()
		}
		time.Sleep(1200 * time.Millisecond)
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
			assert.Equal(t, "b ", one().events()[0], "a probe is under way")
			k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
			return fails("provider/auth-failed")
		})
		require.Equal(t, "a ", one().events()[0], "the probe")
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return out(`{:n 1}`) })
		assert.Equal(t, "a ", one().events()[0], "the next probe")
	})
}

// LLM-030: while a breaker is tripped, failures of other calls name the cause;
// a result of a former edition is ignored.
func TestTripsAreReported(t *testing.T) {
	k := newRemediationWorld(t, registry.Quality{}, 2)
	release := make(chan struct{})
	asked := make(chan struct{})
	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
		close(asked)
		<-release
		return dispatchtest.Step{Err: contract.Errorf("provider/auth-failed", "the old key")}
	})
	lateExecutor := make(chan served, 1)
	go func() { lateExecutor <- serve(t, k.World, order{layer: retries(0, 1)}) }()
	<-asked
	k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return out(`{:n 1}`) })
	require.Equal(t, "t/a", serve(t, k.World, order{}).CapID, "the new key is good")
	close(release)
	require.Equal(t, "t/b", (<-lateExecutor).CapID)
	require.Equal(t, "t/a", serve(t, k.World, order{}).CapID, "and still is")

	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails("provider/model-not-found") })
	serve(t, k.World, order{layer: retries(0, 1)})
	r := serve(t, k.World, order{layer: retries(0, 1)})
	require.Len(t, r.Degraded, 1)
	assert.Equal(t, []string{"breaker/open", "provider/model-not-found"}, []string{r.Degraded[0].Reason, r.Degraded[0].Why.Type})
}

// BRK-001: the Retry-After of a provider is the minimum pause.
func TestRetryAfterIsAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorld(t, registry.Quality{}, 2)
		limited := contract.Errorf("provider/rate-limited", "slower").WithDetail("retry-after-ms", edn.Int(90_000))
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Err: limited} })
		k.ask(5)
		assert.Equal(t, []string{"breaker/opened a"}, k.events())
		k.ask(80)
		assert.Equal(t, "b ", k.ask(1).events()[0], "85 seconds later")
		time.Sleep(10 * time.Second)
		assert.Equal(t, "a ", k.ask(1).events()[0], "the probe")
	})
}

// A plugin with bad answers for two intents is swapped once.
func TestOneRemediationAtATimePerPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newRemediationWorldOf(t, registry.Quality{}, 2, false)
		k.OnRenew(func(string, func(error)) {})
		k.set(true, "t/a", "t/b")
		k.ask(30)
		assert.Len(t, k.Remediations(), 1)
	})
}

// A log line names the action and the reason.
func TestSentences(t *testing.T) {
	n := stats.Notice{Event: stats.EventSwap, CapID: "t/a", Intent: "x/y", Plugin: "p", Details: edn.MustRead(`{:to :t/b :why "4 of the last 10 answers passed"}`)}
	assert.Equal(t, ":t/a for :x/y (plugin p) is being swapped for :t/b: 4 of the last 10 answers passed", n.Sentence())
	n = stats.Notice{Event: stats.EventClosed, CapID: "t/a", Intent: "x/y", Details: edn.MustMap()}
	assert.Equal(t, ":t/a for :x/y has a closed breaker again", n.Sentence())
}

// BRK-009, BRK-010: a remediation goes by the rules under which it started, whatever
// calls with other rules change meanwhile.
func TestRemediationKeepsItsRules(t *testing.T) {
	q := registry.Quality{Window: 6, MinSamples: 1, MinPassRate: registry.ShareOf(0.5), MaxEjected: registry.ShareOf(0.5),
		Action: registry.ActionQuarantine}
	w := newSimWorld(t, 2, 1, q)
	c, ok := w.Registry.Capability("t/a")
	require.True(t, ok)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	table, other := &stats.Table{}, q
	other.MaxEjected = registry.ShareOf(0)
	meanwhile := func(string) bool {
		table.For(c, "text/respond", registry.Breaker{}, other, now)
		return true
	}
	n, told := stats.Remediation{
		Registry: w.Registry, Now: func() time.Time { return now }, Available: meanwhile,
		Candidate: table.For(c, "text/respond", registry.Breaker{}, q, now), List: []string{"t/a", "t/b"},
	}.Start()
	require.True(t, told)
	assert.Equal(t, stats.EventEject, n.Event)
}

// EVAL-073: for all answers and settings, two remediations of one plugin are a
// minute apart, at most the configured share of candidates is ejected, and one
// candidate can be called.
func TestRemediationInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "candidates")
		q := registry.Quality{
			MinPassRate: registry.ShareOf(float64(rapid.IntRange(1, 10).Draw(rt, "floor")) / 10),
			MaxEjected:  registry.ShareOf(float64(rapid.IntRange(0, 10).Draw(rt, "max")) / 10),
			MinSamples:  rapid.IntRange(1, 6).Draw(rt, "samples"), Window: 6,
			Action: rapid.SampledFrom([]string{registry.ActionSwap, registry.ActionRestart, registry.ActionQuarantine}).Draw(rt, "action"),
		}
		w := newSimWorld(t, n, rapid.IntRange(0, 2).Draw(rt, "fallback"), q)
		s := w.run(rapid.Uint64().Draw(rt, "seed"))
		bad := map[string]float64{}
		s.rate = func(capID string, _, _ int) float64 { return bad[capID] }
		most := int(q.MaxEjected.V*float64(n) + 1e-9)
		for range rapid.IntRange(1, 30).Draw(rt, "stretches") {
			for i := range n {
				bad["t/"+string(rune('a'+i))] = rapid.Float64Range(0, 1).Draw(rt, "rate")
			}
			s.clock.now = s.clock.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "pause")) * time.Second)
			s.calls(10, func(r *dispatch.Result) {
				if r.Err != nil && r.Err.Type != "schema/invalid" {
					rt.Fatalf("a call without an answer: %v", r.Err)
				}
				out := 0
				for _, st := range s.dispatcher.Stats.Standings(s.clock.now) {
					if st.Out {
						out++
					}
				}
				if out > most || out >= n {
					rt.Fatalf("%d of %d are out, %d may be", out, n, most)
				}
			})
		}
		s.calm(rt)
	})
}
