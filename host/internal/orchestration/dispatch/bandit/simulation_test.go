package bandit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// simulation is an intent with arms of given pass rates, as a cascade calls them: an
// answer that fails its gates leads to the next arm.
type simulation struct {
	rates  []float64
	arms   []bandit.Arm
	group  bandit.Group
	rules  *policy.Learned
	random *rand.Rand // of the arms
	seed   uint64
	calls  int
	drifts []bandit.Drift
	firsts []int
	alone  bool // no fallback
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func rules() *policy.Learned {
	return &policy.Learned{Prior: policy.Prior{Passes: 1, Fails: 1}, Explore: 0.05, HalfLife: 14 * 24 * time.Hour,
		CostWeight: 0.2, LatencyWeight: 0.1, Bucket: policy.BucketNone}
}

func simulate(seed uint64, rates ...float64) *simulation {
	s := &simulation{rates: rates, rules: rules(), random: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	for i := range rates {
		s.arms = append(s.arms, bandit.Arm{CapID: fmt.Sprintf("x/%d", i), Major: 1})
	}
	return s
}

func (s *simulation) beliefs(at time.Time) []bandit.Belief {
	var all []bandit.Belief
	for _, a := range s.arms {
		all = append(all, s.group.Belief(a, bandit.Declared{}, s.rules, at))
	}
	return all
}

// call makes one decision, and returns the first choice.
func (s *simulation) call() int {
	at := start.Add(time.Duration(s.calls) * time.Second)
	order := make([]int, len(s.arms))
	for i := range order {
		order[i] = i
	}
	if !s.group.Cold(s.arms) {
		var seed [32]byte
		for i := range 8 {
			seed[i], seed[8+i] = byte(s.seed>>(8*i)), byte(s.calls>>(8*i))
		}
		order = bandit.Draw(s.beliefs(at), s.rules, rand.New(rand.NewChaCha8(seed))).Order
	}
	s.calls++
	s.firsts = append(s.firsts, order[0])
	for n, i := range order {
		pass := s.random.Float64() < s.rates[i]
		d := s.group.Add(bandit.Outcome{Arm: s.arms[i], Pass: pass, At: at, First: n == 0, Among: s.arms}, s.rules)
		if d != nil {
			s.drifts = append(s.drifts, *d)
		}
		if pass || s.alone {
			break
		}
	}
	return order[0]
}

func (s *simulation) run(calls int) *simulation {
	for range calls {
		s.call()
	}
	return s
}

// regret is what the first choices passed less often than the best arm would have.
func (s *simulation) regret() (sum float64) {
	most := slices.Max(s.rates)
	for _, first := range s.firsts {
		sum += most - s.rates[first]
	}
	return sum
}

// atLeast fails unless a share of the seeds passes.
func atLeast(t *testing.T, share float64, what string, pass func(seed uint64) bool) {
	t.Helper()
	seeds, passed := proof.Size(t, "simulated runs", 24, 200), 0
	for seed := range uint64(seeds) {
		if pass(seed) {
			passed++
		}
	}
	t.Logf("%s: %d of %d seeds", what, passed, seeds)
	assert.GreaterOrEqual(t, float64(passed), share*float64(seeds), what)
}

// LRN-006: after 200 calls the first choices of arms that pass 0.9, 0.6 and 0.3 of the
// time have less than half the regret of uniform ones, and less than those of the
// worst order that an operator can declare, which is the one here.
func TestRegret(t *testing.T) {
	const calls, uniform, worstFirst = 200, calls200 * 0.3, calls200 * 0.6
	var all []float64
	atLeast(t, 0.95, "regret below half of uniform and below the worst order", func(seed uint64) bool {
		regret := simulate(seed, 0.3, 0.6, 0.9).run(calls).regret()
		all = append(all, regret)
		return regret < uniform/2 && regret < worstFirst
	})
	slices.Sort(all)
	t.Logf("regret: median %.1f, p95 %.1f; uniform %.0f, worst order %.0f", all[len(all)/2], all[len(all)*95/100],
		uniform, worstFirst)
}

const calls200 = 200.0

// LRN-006: an arm that was the best and falls to 0.2 at call 300 is no longer what is
// believed to be best 50 calls later.
func TestBestArmDrops(t *testing.T) {
	var left []int
	atLeast(t, 0.95, "left within 50 calls", func(seed uint64) bool {
		s := simulate(seed, 0.9, 0.6, 0.3).run(300)
		s.rates[0] = 0.2
		for n := range 50 {
			s.call()
			if bandit.ByMean(s.beliefs(start.Add(time.Hour)), s.rules).Order[0] != 0 {
				left = append(left, n+1)
				return true
			}
		}
		return false
	})
	slices.Sort(left)
	t.Logf("left after: median %d, p95 %d calls", left[len(left)/2], left[len(left)*95/100])
}

// LRN-006: in at most one of ten runs of 600 calls whose arms do not change an arm is
// reported to drift. The arms 0.9 and 0.6 both have enough outcomes for that.
func TestFalseAlarms(t *testing.T) {
	atLeast(t, 0.90, "no false drift", func(seed uint64) bool {
		return len(simulate(seed, 0.9, 0.6, 0.3).run(600).drifts) == 0
	})
}

// LRN-006: a drift is reported with what was observed, and its outcomes alone are left.
func TestDriftReplacesTheCounts(t *testing.T) {
	s := simulate(1, 1)
	s.run(80)
	s.rates[0] = 0
	s.run(20)
	if assert.NotEmpty(t, s.drifts) {
		assert.Less(t, s.drifts[0].Passes, 20)
		assert.InDelta(t, 0.98, s.drifts[0].Before, 0.02)
		b := s.beliefs(start)[0]
		assert.Less(t, b.Passes+b.Fails, 41.0)
		assert.Less(t, b.Mean(), 0.5)
	}
	s = simulate(1, 1)
	s.run(59) // 39 older outcomes
	s.rates[0] = 0
	s.run(1)
	assert.Empty(t, s.drifts)
	assert.True(t, math.Abs(s.beliefs(start)[0].Fails-1) < 1e-9)
}

// LRN-006, draw: no arm is starved, and none is chosen for ever. Arms that are equally
// good share the first place, also the one that a bad start has put behind.
func TestEqualArmsShare(t *testing.T) {
	atLeast(t, 0.95, "each arm is first now and then, and none always", func(seed uint64) bool {
		s := simulate(seed, 0.7, 0.7, 0.7)
		for range 5 {
			s.group.Add(bandit.Outcome{Arm: s.arms[2], At: start}, s.rules)
		}
		s.run(600)
		for i := range s.arms {
			n := 0
			for _, first := range s.firsts {
				if first == i {
					n++
				}
			}
			if n < 5 || n > 580 {
				return false
			}
		}
		return true
	})
}

// LRN-006: whatever the first outcomes are, all successes or all failures, every arm
// is tried, and the best one is found.
func TestFirstOutcomes(t *testing.T) {
	for _, pass := range []bool{true, false} {
		atLeast(t, 0.95, fmt.Sprintf("the best arm is found after first outcomes %t", pass), func(seed uint64) bool {
			s := simulate(seed, 0.3, 0.6, 0.9)
			for n := range 30 {
				s.group.Add(bandit.Outcome{Arm: s.arms[n%3], Pass: pass, At: start, First: true, Among: s.arms}, s.rules)
			}
			s.run(400)
			return bandit.ByMean(s.beliefs(start), s.rules).Order[0] == 2
		})
	}
}
