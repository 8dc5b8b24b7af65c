package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Size of the simulations. The race detector makes each call ten times as
// expensive, so there are fewer runs with it.
func simSeeds(t testing.TB) int { return proof.Size(t, "simulated runs", usualSimSeeds, 200) }

const simCalls = 1000

// simClock advances when a call runs or waits.
type simClock struct{ now time.Time }

func (c *simClock) Now() time.Time { return c.now }

func (c *simClock) Wait(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(max(0, d))
	return ctx.Err()
}

// simulation is one run: candidates with known pass rates that are called
// sequentially, a second apart.
type simulation struct {
	clock      *simClock
	rand       *rand.Rand
	dispatcher dispatch.Dispatcher
	policy     *dispatch.CallPolicy
	run        dispatch.Run
	work       dispatch.Work

	rate     func(capID string, edition, call int) float64 // probability that a call passes its gates
	down     func(capID string, call int) bool             // whether the call fails instead
	editions map[string]int
	notices  []stats.Notice
	call     int            // number of the current call
	asked    map[string]int // calls per candidate
	judged   map[string]int // verdicts per candidate
	acted    map[string]int // verdicts before the first action
}

// Record implements dispatch.Recorder and drops the records.
func (s *simulation) Record(edn.Value, string, journal.Body) error { return nil }

// Sync implements dispatch.Recorder.
func (s *simulation) Sync() error { return nil }

var (
	simGood = edn.MustRead(`{:result {:type :value :out {:n 1}}}`)
	simBad  = edn.MustRead(`{:result {:type :value :out {}}}`)
)

// Invoke implements dispatch.Executor.
func (s *simulation) Invoke(_ context.Context, c dispatch.Call) (dispatch.Answer, error) {
	s.clock.now = s.clock.now.Add(20 * time.Millisecond)
	s.asked[c.CapID]++
	a := dispatch.Answer{Response: simBad, Plugin: c.CapID, Edition: s.editions[c.CapID]}
	if s.down != nil && s.down(c.CapID, s.call) {
		return a, contract.Errorf("provider/unavailable", "it is down")
	}
	s.judged[c.CapID]++
	if s.rand.Float64() < s.rate(c.CapID, a.Edition, s.call) {
		a.Response = simGood
	}
	return a, nil
}

// State implements dispatch.Executor.
func (s *simulation) State(capID string) dispatch.CapState {
	return dispatch.CapState{Ready: true, Edition: s.editions[capID]}
}

// Await implements dispatch.Executor.
func (s *simulation) Await(context.Context, string) error { return nil }

// Renew implements stats.Remediator.
func (s *simulation) Renew(capID string, done func(error)) { s.editions[capID]++; done(nil) }

// Restart implements stats.Remediator.
func (s *simulation) Restart(string) error { return nil }

// Quarantine implements stats.Remediator.
func (s *simulation) Quarantine(string, string, time.Time) error { return nil }

// simWorld makes runs of one configuration.
type simWorld struct {
	*dispatchtest.World
	policy policy.Policy
}

func newSimWorld(t testing.TB, candidates, fallback int, q registry.Quality) simWorld {
	w := dispatchtest.New(t, dispatchtest.Spec{
		Caps: caps(make([]string, candidates)...), Apart: true,
		Intents: []registry.Intent{{ID: "text/respond", In: "req/any", Out: "test/n", Quality: q}},
		Schemas: map[string]string{"test/n": `[:map [:n :int]]`},
	})
	l := retries(0, fallback)
	p, err := l.Resolve()
	require.NoError(t, err)
	return simWorld{w, p}
}

func (w simWorld) run(seed uint64) *simulation {
	s := &simulation{
		clock: &simClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, rand: rand.New(rand.NewPCG(seed, 74)),
		editions: map[string]int{}, asked: map[string]int{}, judged: map[string]int{}, acted: map[string]int{},
	}
	table := &stats.Table{Notice: func(n stats.Notice) {
		s.notices = append(s.notices, n)
		if _, before := s.acted[n.CapID]; n.IsQuality() && !before {
			s.acted[n.CapID] = s.judged[n.CapID]
		}
	}}
	s.dispatcher = dispatch.Dispatcher{Executor: s, Registry: w.Registry, Checks: w.Checks, Clock: s.clock, Stats: table, Observer: w.Dispatcher.Observer}
	s.policy = s.dispatcher.CallPolicy(w.policy, "text/respond", "")
	s.run = dispatch.Run{ID: "run_sim", Seed: int64(seed), Trace: edn.MustRead(`{:id "t"}`), Recorder: s, Base: context.Background()}
	s.work = dispatch.Work{Op: "call", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: "text/respond", Policy: s.policy, Input: edn.MustRead(`{:prompt "p"}`)}
	return s
}

// calls makes n calls and returns the number of accepted answers.
func (s *simulation) calls(n int, each func(r *dispatch.Result)) (accepted int) {
	for range n {
		s.clock.now = s.clock.now.Add(time.Second)
		r := s.dispatcher.Serve(context.Background(), &s.run, &s.work)
		s.call++
		if r.Err == nil {
			accepted++
		}
		if each != nil {
			each(r)
		}
	}
	return accepted
}

// events counts notices.
func (s *simulation) events(event, capID string) int {
	n := 0
	for _, x := range s.notices {
		if x.Event == event && x.CapID == capID {
			n++
		}
	}
	return n
}

func constant(rates map[string]float64) func(string, int, int) float64 {
	return func(capID string, _, _ int) float64 { return rates[capID] }
}

// EVAL-074, BRK-003: a candidate with a pass rate of 0.9 and a floor of 0.6 has
// an action in fewer than 1 % of runs of 1,000 calls.
func TestSimulatedFalseAlarms(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	for action, event := range map[string]string{registry.ActionQuarantine: stats.EventEject, registry.ActionSwap: stats.EventSwap} {
		w := newSimWorld(t, 2, 1, registry.Quality{MinPassRate: registry.ShareOf(0.6), Action: action})
		falsely := 0
		for seed := range uint64(runs) {
			s := w.run(seed)
			s.rate = constant(map[string]float64{"t/a": 0.9, "t/b": 0.9})
			s.calls(simCalls, nil)
			if s.events(event, "t/a")+s.events(event, "t/b") > 0 {
				falsely++
			}
		}
		t.Logf("%s: a 0.9 executor was acted on in %d of %d runs", action, falsely, runs)
		assert.Less(t, falsely*100, runs, action)
	}
}

// EVAL-074: a candidate with a pass rate of 0.3 has an action within 20 samples
// in at least 95 % of runs, and few calls afterwards.
func TestSimulatedTrueAlarms(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	w := newSimWorld(t, 2, 1, registry.Quality{MinPassRate: registry.ShareOf(0.6), Action: registry.ActionQuarantine})
	soon, asked := 0, 0
	for seed := range uint64(runs) {
		s := w.run(seed)
		s.rate = constant(map[string]float64{"t/a": 0.3, "t/b": 0.9})
		s.calls(simCalls, nil)
		if n, ok := s.acted["t/a"]; ok && n <= 20 {
			soon++
		}
		asked += s.asked["t/a"]
		assert.Zero(t, s.events(stats.EventCapReached, "t/a"))
	}
	t.Logf("a 0.3 executor was acted on within 20 samples in %d of %d runs, and asked %d times a run", soon, runs, asked/runs)
	assert.GreaterOrEqual(t, soon*100, runs*95)
	assert.Less(t, asked/runs, simCalls/2)
}

// EVAL-074: fallback after refused answers raises the accepted share to within
// 0.02 of the optimum.
func TestSimulatedFallback(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	w := newSimWorld(t, 3, 2, registry.Quality{})
	accepted := 0
	for seed := range uint64(runs) {
		s := w.run(seed)
		s.rate = constant(map[string]float64{"t/a": 0.3, "t/b": 0.6, "t/c": 0.9})
		accepted += s.calls(simCalls, nil)
	}
	share := float64(accepted) / float64(runs*simCalls)
	t.Logf("accepted %.4f of the calls, the rates allow %.4f", share, 1-0.7*0.4*0.1)
	assert.InDelta(t, 1-0.7*0.4*0.1, share, 0.02)
}

// EVAL-074, BRK-009: a degrading candidate is swapped once, recovers, and does
// not flap.
func TestSimulatedDrift(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	w := newSimWorld(t, 2, 0, registry.Quality{MinPassRate: registry.ShareOf(0.6)})
	once, lateExecutor, after := 0, 0, 0
	for seed := range uint64(runs) {
		s := w.run(seed)
		s.rate = func(capID string, edition, call int) float64 {
			if capID == "t/a" && edition == 0 && call >= simCalls/2 {
				return 0.2
			}
			return 0.9
		}
		s.calls(simCalls/2, nil)
		s.calls(100, nil)
		if s.editions["t/a"] == 0 {
			lateExecutor++
		}
		after += s.calls(simCalls/2-100, nil)
		if s.events(stats.EventSwap, "t/a") == 1 {
			once++
		}
	}
	share := float64(after) / float64(runs*(simCalls/2-100))
	t.Logf("swapped once in %d of %d runs, later than after 100 bad calls in %d; accepted %.3f afterwards", once, runs, lateExecutor, share)
	assert.Zero(t, lateExecutor)
	assert.GreaterOrEqual(t, once*100, runs*99)
	assert.InDelta(t, 0.9, share, 0.02)
}

// EVAL-074, BRK-005: in an outage each opening costs at most one probe, no call
// waits, and the candidate serves again afterwards.
func TestSimulatedOutage(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	w := newSimWorld(t, 2, 1, registry.Quality{})
	for seed := range uint64(runs) {
		s := w.run(seed)
		s.rate = constant(map[string]float64{"t/a": 1, "t/b": 1})
		s.down = func(capID string, call int) bool { return capID == "t/a" && call >= 200 && call < 500 }
		assert.Equal(t, 200, s.calls(200, nil))
		before := s.asked["t/a"]
		assert.Equal(t, 300, s.calls(300, nil), "the other one serves")
		openings, asked := s.events(stats.EventOpened, "t/a"), s.asked["t/a"]-before
		// The outcomes in the window before the first opening, and one probe per opening.
		window := breaker.Defaults().Window
		assert.LessOrEqual(t, asked, window+openings, "seed %d", seed)
		assert.Equal(t, 500, s.calls(500, nil))
		assert.Equal(t, 1, s.events(stats.EventClosed, "t/a"))
		before = s.asked["t/a"]
		s.calls(20, nil)
		assert.Equal(t, 20, s.asked["t/a"]-before, "it is in again")
	}
}

// BRK-010: even if all candidates are bad, every call has a candidate, and at
// most half of them are ejected at once.
func TestSimulatedCap(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	for _, action := range []string{registry.ActionQuarantine, registry.ActionRestart, registry.ActionSwap} {
		w := newSimWorld(t, 4, 0, registry.Quality{MinPassRate: registry.ShareOf(0.6), Action: action})
		for seed := range uint64(runs / 4) {
			s := w.run(seed)
			s.rate = constant(map[string]float64{"t/a": 0.1, "t/b": 0.2, "t/c": 0.1, "t/d": 0.2})
			most := 0
			s.calls(simCalls, func(r *dispatch.Result) {
				if r.Err != nil && r.Err.Type != "schema/invalid" {
					require.Fail(t, "a call without an answer", "%s, seed %d: %v", action, seed, r.Err)
				}
				out := 0
				for _, st := range s.dispatcher.Stats.Standings(s.clock.now) {
					if st.Out {
						out++
					}
				}
				most = max(most, out)
			})
			assert.LessOrEqual(t, most, 2, action)
			s.calm(t)
		}
	}
}

// calm checks the quality notices against BRK-009: two remediations of one
// candidate are at least a minute apart.
func (s *simulation) calm(t assert.TestingT) {
	last := map[string]time.Time{}
	for _, n := range s.notices {
		switch n.Event {
		case stats.EventSwap, stats.EventRestart, stats.EventEject:
			if at, ok := last[n.CapID]; ok && n.At.Sub(at) < breaker.ActionPause {
				assert.Fail(t, "too soon", "%s %s after %s", n.Event, n.CapID, n.At.Sub(at))
			}
			last[n.CapID] = n.At
		}
	}
}

// EVAL-074: with occasionally slow answers a hedge cuts the p99, and its cost
// is in the attempts of the calls.
func TestSimulatedHedge(t *testing.T) {
	t.Parallel()
	runs := simSeeds(t)
	w := newSimWorld(t, 2, 0, registry.Quality{})
	seeds := max(2, runs/20)
	measure := func(l policy.Layer) (p99 time.Duration, perCall float64) {
		p, err := l.Resolve()
		require.NoError(t, err)
		var took []time.Duration
		attempts := 0
		for seed := range uint64(seeds) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 12))
				x := w.Again()
				x.Func("t/a", func(context.Context, dispatch.Call) dispatchtest.Step {
					if r.Float64() < 0.03 {
						return in(2*time.Second, out(`{:n 1}`))
					}
					return in(20*ms, out(`{:n 1}`))
				})
				x.On("t/b", in(40*ms, out(`{:n 2}`)))
				x.Dispatcher.Stats = &stats.Table{}
				s := w.run(seed)
				s.work.Policy = x.Dispatcher.CallPolicy(p, "text/respond", "")
				for range simCalls {
					began := time.Now()
					result := x.Dispatcher.Serve(context.Background(), &s.run, &s.work)
					require.Nil(t, result.Err)
					took = append(took, time.Since(began))
					attempts += len(result.Attempts)
				}
			})
		}
		slices.Sort(took)
		return took[len(took)*99/100], float64(attempts) / float64(len(took))
	}
	alone, one := measure(policy.Layer{})
	hedged, more := measure(hedge(60*ms, 1, 0, 0))
	t.Logf("the slowest hundredth: %s alone, %s hedged; %.3f and %.3f attempts a call", alone, hedged, one, more)
	assert.Equal(t, 2*time.Second, alone)
	assert.Less(t, hedged, 200*ms)
	assert.InDelta(t, 1.03, more, 0.02, "each hedge is an attempt in the account")
}

// Equal seeds repeat a run, including its notices (DET-001).
func TestSimulationsRepeat(t *testing.T) {
	t.Parallel()
	w := newSimWorld(t, 3, 1, registry.Quality{MinPassRate: registry.ShareOf(0.6), Action: registry.ActionQuarantine})
	tell := func(seed uint64) string {
		s := w.run(seed)
		s.rate = constant(map[string]float64{"t/a": 0.3, "t/b": 0.6, "t/c": 0.9})
		s.down = func(capID string, call int) bool { return capID == "t/c" && call%400 > 350 }
		accepted := s.calls(simCalls, nil)
		var b strings.Builder
		for _, n := range s.notices {
			fmt.Fprintf(&b, "%s %s %s %s\n", n.At, n.Event, n.CapID, n.Details)
		}
		return fmt.Sprintf("%d\n%s", accepted, b.String())
	}
	for seed := range uint64(5) {
		assert.Equal(t, tell(seed), tell(seed))
	}
}
