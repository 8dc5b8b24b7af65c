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
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// keeping is a world whose intent has a floor of 0.6. Answers are judged by the
// schema: {:n 1} fits, {} does not.
type keeping struct {
	*dispatchtest.World
	t testing.TB

	mu      sync.Mutex
	notices []dispatch.Notice
	bad     map[string]bool // who answers badly
}

func keep(t testing.TB, q registry.Quality, candidates int) *keeping {
	return keepOf(t, q, candidates, true)
}

// keepOf is keep with plugins that have one capability each, or one that has
// all.
func keepOf(t testing.TB, q registry.Quality, candidates int, apart bool) *keeping {
	if !q.MinPassRate.Set {
		q.MinPassRate = registry.ShareOf(0.6)
	}
	more := make([]string, candidates)
	k := &keeping{t: t, bad: map[string]bool{}}
	k.World = dispatchtest.New(t, dispatchtest.Spec{
		Caps: caps(more...), Apart: apart,
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "test/n", Quality: q}},
		Schemas: map[string]string{"test/n": `[:map [:n :int]]`},
	})
	k.Dispatcher.Stats = &dispatch.StatsTable{Notice: func(n dispatch.Notice) {
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

func (k *keeping) set(bad bool, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		k.bad[id] = bad
	}
}

// ask makes so many calls, a second apart.
func (k *keeping) ask(n int) (last served) {
	k.t.Helper()
	for range n {
		last = serve(k.t, k.World, order{layer: retries(0, 3)})
		time.Sleep(time.Second)
	}
	return last
}

// told are the notices so far.
func (k *keeping) told() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, n := range k.notices {
		all = append(all, n.Event+" "+n.CapID[2:])
	}
	return all
}

// deeds are the events that the run recorded.
func (s served) deeds() []*journal.HostEvent {
	var all []*journal.HostEvent
	for _, rec := range s.records {
		if e, ok := rec.Body.(*journal.HostEvent); ok {
			all = append(all, e)
		}
	}
	return all
}

// BRK-002, BRK-009: a swap puts the next edition in the place of one whose
// answers fell below the floor, once per crossing, and calls go on meanwhile.
func TestSwapForQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{}, 2)
		var finish func(error)
		k.OnRenew(func(_ string, done func(error)) { finish = done })
		k.set(true, "t/a")
		assert.Empty(t, k.ask(9).deeds(), "nine verdicts are too few")
		r := k.ask(1)
		require.Len(t, r.deeds(), 1)
		assert.Equal(t, "quality/swap", r.deeds()[0].Event)
		assert.Equal(t, `{:action :swap :attempt 1 :min-pass-rate 0.6M :node "n" :passes 0 :path [0] :samples 10 :why "0 of the last 10 answers passed their gates, 0.6 of them should"}`, r.deeds()[0].Details.String())
		for range 200 { // far beyond the pause between two actions
			r = k.ask(1)
			assert.Nil(t, r.Err)
			assert.Empty(t, r.deeds(), "a swap is under way")
		}
		assert.Equal(t, []dispatchtest.Remediation{{Action: "swap", CapID: "t/a"}}, k.Remediations())

		// The new edition answers well.
		k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
		k.set(false, "t/a")
		finish(nil)
		assert.Empty(t, k.ask(300).deeds())
		assert.Equal(t, []string{"quality/swap a", "quality/swapped a"}, k.told())
		assert.Equal(t, "t/a", k.ask(1).CapID)
	})
}

// BRK-009: if the new edition is no better, the candidate is left out for five
// minutes and comes back through the ramp.
func TestSwapThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{}, 2)
		k.OnRenew(func(_ string, done func(error)) { done(contract.Errorf("runtime/not-ready", "the old one stays")) })
		k.set(true, "t/a")
		k.ask(10)
		assert.Equal(t, []string{"quality/swap a", "quality/failed a", "quality/eject a", "quality/quarantine a"}, k.told())
		r := k.ask(1)
		assert.Equal(t, []string{"b ", "b ok"}, r.told())
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

// BRK-002: swap_to names who serves in the place of a candidate, also if it is
// no candidate itself.
func TestSwapTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{SwapTo: "t/c"}, 3)
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
		require.Len(t, r.deeds(), 1)
		assert.Equal(t, ":t/c", r.deeds()[0].Details.Key("to").String())
		r = one()
		require.Nil(t, r.Err)
		assert.Equal(t, "t/c", r.CapID, "before the candidates behind it")
		assert.Empty(t, k.Remediations(), "the plugin is as it was")

		// Who is out of service cannot stand in.
		k = keep(t, registry.Quality{SwapTo: "t/c"}, 3)
		k.SetState("t/c", dispatch.CapState{Reason: "runtime/not-ready"})
		k.set(true, "t/a")
		k.ask(10)
		assert.Equal(t, []dispatchtest.Remediation{{Action: "swap", CapID: "t/a"}}, k.Remediations())
	})
}

// BRK-009: a restart, and the third action within ten minutes is a quarantine.
func TestRestartForQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{Action: registry.ActionRestart}, 2)
		k.set(true, "t/a")
		began := time.Now()
		var at []time.Duration
		for len(at) < 3 {
			if len(k.ask(1).deeds()) > 0 {
				at = append(at, time.Since(began))
			}
		}
		assert.Equal(t, []string{"quality/restart a", "quality/restart a", "quality/eject a", "quality/quarantine a"}, k.told())
		for i := 1; i < len(at); i++ {
			assert.GreaterOrEqual(t, at[i]-at[i-1], time.Minute, "a pause between two actions")
		}
		kept := k.Remediations()
		assert.Equal(t, "quarantine", kept[2].Action, "all that the plugin serves is out")
		assert.Equal(t, "t/b", k.ask(1).CapID)
		k.Dispatcher.Stats.Released("t/a", time.Now())
		assert.Contains(t, k.told(), "quality/released a")
	})
}

// BRK-010: never the last one, and no more than their share.
func TestEjectionCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quarantine := registry.Quality{Action: registry.ActionQuarantine}
		k := keep(t, quarantine, 1)
		k.set(true, "t/a")
		r := k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a"}, k.told(), "told once")
		assert.Equal(t, "schema/invalid", r.failure(), "it serves on")
		s := k.Dispatcher.Stats.Standings(time.Now())
		require.Len(t, s, 1)
		assert.Equal(t, "degraded", s[0].State())
		k.set(false, "t/a")
		k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a", "quality/recovered a"}, k.told())

		k = keep(t, quarantine, 4)
		k.set(true, "t/a", "t/b", "t/c", "t/d")
		k.ask(100)
		assert.Equal(t, []string{"quality/eject a", "quality/eject b", "quality/cap-reached c", "quality/cap-reached d"}, without(k.told(), "quality/quarantine"), "two of four")

		k = keep(t, quarantine, 3)
		k.SetState("t/b", dispatch.CapState{Reason: "runtime/not-ready"})
		k.SetState("t/c", dispatch.CapState{Reason: "runtime/quarantined"})
		k.set(true, "t/a")
		k.ask(30)
		assert.Equal(t, []string{"quality/cap-reached a"}, k.told(), "the others are not there")
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

// BRK-007: what says nothing about the edition that answers now is no sample.
func TestWhatIsNoSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{}, 1)
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails("provider/empty") })
		k.ask(30)
		assert.Empty(t, without(k.told(), "breaker/"), "errors are no answers")
		assert.Empty(t, k.Remediations())
	})
	synctest.Test(t, func(t *testing.T) { // calls that began before a restart
		k := keep(t, registry.Quality{Action: registry.ActionRestart, MinSamples: 5}, 1)
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

// LLM-030: what cannot work as it is set up is left alone at once, until it is
// another edition or the time that it named.
func TestTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, typ := range []string{"provider/auth-failed", "provider/quota-exhausted", "provider/model-not-found"} {
			k := keep(t, registry.Quality{}, 2)
			k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails(typ) })
			assert.Equal(t, []string{"a ", "a " + typ, "b ", "b ok"}, k.ask(1).told())
			time.Sleep(24 * time.Hour)
			assert.Equal(t, []string{"b ", "b ok"}, k.ask(1).told(), typ)
			k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
			assert.Equal(t, "a ", k.ask(1).told()[0], "it is set up anew")
		}
		k := keep(t, registry.Quality{}, 2)
		quota := contract.Errorf("provider/quota-exhausted", "no more").WithDetail("retry-after-ms", edn.Int(3_600_000))
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Err: quota} })
		k.ask(1)
		time.Sleep(59 * time.Minute)
		assert.Equal(t, "b ", k.ask(1).told()[0])
		time.Sleep(2 * time.Minute)
		assert.Equal(t, "a ", k.ask(1).told()[0])
	})
}

// LLM-030: while a breaker is open because somebody has to set something right,
// answers of others say so; a refusal that a former edition gave comes too late.
func TestTripsAreTold(t *testing.T) {
	k := keep(t, registry.Quality{}, 2)
	release := make(chan struct{})
	asked := make(chan struct{})
	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
		close(asked)
		<-release
		return dispatchtest.Step{Err: contract.Errorf("provider/auth-failed", "the old key")}
	})
	late := make(chan served, 1)
	go func() { late <- serve(t, k.World, order{layer: retries(0, 1)}) }()
	<-asked
	k.SetState("t/a", dispatch.CapState{Ready: true, Edition: 2})
	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return out(`{:n 1}`) })
	require.Equal(t, "t/a", serve(t, k.World, order{}).CapID, "the new key is good")
	close(release)
	require.Equal(t, "t/b", (<-late).CapID)
	require.Equal(t, "t/a", serve(t, k.World, order{}).CapID, "and still is")

	k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return fails("provider/model-not-found") })
	serve(t, k.World, order{layer: retries(0, 1)})
	r := serve(t, k.World, order{layer: retries(0, 1)})
	require.Len(t, r.Degraded, 1)
	assert.Equal(t, []string{"breaker/open", "provider/model-not-found"}, []string{r.Degraded[0].Reason, r.Degraded[0].Why.Type})
}

// BRK-001: what a provider asks for is a floor of the pause.
func TestRetryAfterIsAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, registry.Quality{}, 2)
		limited := contract.Errorf("provider/rate-limited", "slower").WithDetail("retry-after-ms", edn.Int(90_000))
		k.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step { return dispatchtest.Step{Err: limited} })
		k.ask(5)
		assert.Equal(t, []string{"breaker/opened a"}, k.told())
		k.ask(80)
		assert.Equal(t, "b ", k.ask(1).told()[0], "85 seconds later")
		time.Sleep(10 * time.Second)
		assert.Equal(t, "a ", k.ask(1).told()[0], "the probe")
	})
}

// A plugin that answers badly twice is swapped once.
func TestOneDeedAtATimePerPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepOf(t, registry.Quality{}, 2, false)
		k.OnRenew(func(string, func(error)) {})
		k.set(true, "t/a", "t/b")
		k.ask(30)
		assert.Len(t, k.Remediations(), 1)
	})
}

// A log line says what is done and why.
func TestSentences(t *testing.T) {
	n := dispatch.Notice{Event: dispatch.EventSwap, CapID: "t/a", Intent: "x/y", Plugin: "p", Details: edn.MustRead(`{:to :t/b :why "4 of the last 10 answers passed"}`)}
	assert.Equal(t, ":t/a for :x/y (plugin p) is being swapped for :t/b: 4 of the last 10 answers passed", n.Sentence())
	n = dispatch.Notice{Event: dispatch.EventClosed, CapID: "t/a", Intent: "x/y", Details: edn.MustMap()}
	assert.Equal(t, ":t/a for :x/y is wholly in again", n.Sentence())
}

// EVAL-073: whatever the answers are and whatever is asked for, two deeds about
// one plugin lie a minute apart, no more than their share of the candidates is
// out, and somebody can be called.
func TestKeepingInvariants(t *testing.T) {
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
