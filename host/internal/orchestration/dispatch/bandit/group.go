package bandit

import (
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Arm is one arm of the bandit: a major version of a capability.
type Arm struct {
	CapID string
	Major int
}

// Outcome is the result of one call of an arm.
type Outcome struct {
	Arm
	Pass    bool // its answer was accepted; else its gates refused it
	At      time.Time
	Latency time.Duration
	// Cost in USD. It is unknown unless Priced is set.
	Cost   float64
	Priced bool
	// First: no other outcome of the same decision was counted. Among are the arms of
	// all candidates of the decision.
	First bool
	Among []Arm
}

// The limits of a cold group and of drift (LRN-005). RecentTrials is the number of last
// outcomes of an arm that are compared with the older ones.
const (
	warmOutcomes  = 5
	warmDecisions = 50
	RecentTrials  = 20
	olderTrials   = 40
)

// maxArms bounds a group. Beyond it, the arm with the oldest last outcome is dropped.
const maxArms = 256

// Group holds the outcomes of the arms of one intent and bucket. The zero value is
// empty and ready.
type Group struct {
	decisions int // with an outcome
	warm      bool
	arms      []*counts
}

// counts are the outcomes and measurements of one arm.
type counts struct {
	Arm
	outcomes      int // all, without decay
	older         trials
	recent        []trial // the last RecentTrials, oldest first
	cost, latency mean    // USD, milliseconds
}

// trial is one outcome.
type trial struct {
	pass bool
	at   time.Time
}

// trials are the sums of older outcomes, decayed to the time at.
type trials struct {
	passes, fails float64
	at            time.Time
}

// mean holds the number and the sum of measurements, decayed to the time at.
type mean struct {
	weight, total float64
	at            time.Time
}

// decay returns the weight of an outcome of the given age, from 0 to 1.
func decay(age, halfLife time.Duration) float64 {
	if age <= 0 {
		return 1
	}
	return math.Exp2(-float64(age) / float64(halfLife))
}

func (t *trials) add(one trial, halfLife time.Duration) {
	*t = t.until(one.at, halfLife)
	if one.pass {
		t.passes++
	} else {
		t.fails++
	}
}

// until returns the sums decayed to a time. For a time before t.at they are
// unchanged.
func (t trials) until(at time.Time, halfLife time.Duration) trials {
	if at.Before(t.at) {
		return t
	}
	share := decay(at.Sub(t.at), halfLife)
	return trials{t.passes * share, t.fails * share, at}
}

func (m *mean) add(v float64, at time.Time, halfLife time.Duration) {
	share := 1.0
	if at.After(m.at) {
		share = decay(at.Sub(m.at), halfLife)
		m.at = at
	}
	m.weight, m.total = m.weight*share+1, m.total*share+v
}

// of returns the mean together with a declared value, which counts as one
// measurement; ok is false if there is neither.
func (m mean) of(declared float64, has bool, at time.Time, halfLife time.Duration) (v float64, ok bool) {
	share := decay(at.Sub(m.at), halfLife)
	weight, total := m.weight*share, m.total*share
	if has {
		weight, total = weight+1, total+declared
	}
	if weight <= 0 {
		return 0, false
	}
	return total / weight, true
}

// tally returns the passes and fails, older and recent, decayed to a time.
func (c *counts) tally(at time.Time, halfLife time.Duration) trials {
	sum := c.older.until(at, halfLife)
	for _, t := range c.recent {
		share := decay(at.Sub(t.at), halfLife)
		if t.pass {
			sum.passes += share
		} else {
			sum.fails += share
		}
	}
	return sum
}

// recentPasses returns how many of the recent trials passed.
func (c *counts) recentPasses() (n int) {
	for _, t := range c.recent {
		if t.pass {
			n++
		}
	}
	return n
}

func (g *Group) find(a Arm) *counts {
	for _, c := range g.arms {
		if c.Arm == a {
			return c
		}
	}
	return nil
}

// Cold reports whether the group has too few outcomes to order the candidates among,
// which then keep their declared order: fewer than 50 decisions were counted, the group
// was never warm, and one of the arms has fewer than 5 outcomes.
func (g *Group) Cold(among []Arm) bool {
	if g.warm || g.decisions >= warmDecisions {
		return false
	}
	return slices.ContainsFunc(among, func(a Arm) bool {
		c := g.find(a)
		return c == nil || c.outcomes < warmOutcomes
	})
}

// Drift describes an arm whose older outcomes were dropped, because its recent ones
// deviate too much from them.
type Drift struct {
	Arm
	Passes int     // of the last RecentTrials
	Before float64 // mean pass rate of the older outcomes
}

// Add counts an outcome. It returns the drift of the arm, nil if there is none.
func (g *Group) Add(o Outcome, s *policy.Learned) *Drift {
	c := g.find(o.Arm)
	if c == nil {
		c = &counts{Arm: o.Arm}
		g.arms = append(g.arms, c)
		g.bound()
	}
	at := o.At
	if n := len(c.recent); n > 0 && at.Before(c.recent[n-1].at) {
		at = c.recent[n-1].at // clocks of hosts differ
	}
	c.outcomes++
	c.recent = append(c.recent, trial{o.Pass, at})
	if len(c.recent) > RecentTrials {
		c.older.add(c.recent[0], s.HalfLife)
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	if o.Priced {
		c.cost.add(o.Cost, at, s.HalfLife)
	}
	c.latency.add(float64(o.Latency)/float64(time.Millisecond), at, s.HalfLife)
	if o.First {
		g.decisions++
		g.warm = g.warm || len(o.Among) > 0 && !g.Cold(o.Among)
	}
	return c.drift(at, s)
}

// drift drops the older outcomes and returns the drift if the older outcomes do not
// predict the recent ones; else it returns nil.
func (c *counts) drift(at time.Time, s *policy.Learned) *Drift {
	older := c.older.until(at, s.HalfLife)
	if len(c.recent) < RecentTrials || older.passes+older.fails < olderTrials {
		return nil
	}
	prior, passes := s.Of(c.CapID), c.recentPasses()
	a, b := prior.Passes+older.passes, prior.Fails+older.fails
	if predicts(RecentTrials, passes, a, b) {
		return nil
	}
	c.older = trials{at: at}
	return &Drift{Arm: c.Arm, Passes: passes, Before: a / (a + b)}
}

// bound drops the arm with the oldest last outcome, except the newest arm, if there are
// too many.
func (g *Group) bound() {
	if len(g.arms) <= maxArms {
		return
	}
	newest := len(g.arms) - 1
	oldest := slices.MinFunc(g.arms[:newest], func(a, b *counts) int { return a.last().Compare(b.last()) })
	g.arms = slices.DeleteFunc(g.arms, func(c *counts) bool { return c == oldest })
}

func (c *counts) last() time.Time {
	if n := len(c.recent); n > 0 {
		return c.recent[n-1].at
	}
	return c.older.at
}
