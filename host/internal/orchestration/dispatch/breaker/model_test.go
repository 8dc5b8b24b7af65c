package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
)

// BRK-004, BRK-005, BRK-006: the defaults.
func TestDefaults(t *testing.T) {
	assert.Equal(t, registry.Breaker{
		Window: 20, MinSamples: 5, Threshold: 0.5,
		Base: time.Second, Factor: 2, Ceiling: 5 * time.Minute,
		Ramp: []int{10, 25, 50, 100},
	}, breaker.Defaults())
}

// BRK-004, BRK-005: the rate is that of the last outcomes, under settings that
// change from call to call. The model keeps a list.
func TestRateIsThatOfTheWindow(t *testing.T) {
	settings := rapid.Custom(func(t *rapid.T) registry.Breaker {
		s := breaker.Defaults()
		s.Window = rapid.IntRange(1, 8).Draw(t, "window")
		s.MinSamples = rapid.IntRange(1, s.Window).Draw(t, "min")
		s.Threshold = rapid.SampledFrom([]float64{0.5, 0.75, 1}).Draw(t, "threshold")
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		s := settings.Draw(t, "settings")
		b := breaker.New(s, start)
		room, seen := s.Window, []bool(nil)
		for i := range rapid.IntRange(1, 60).Draw(t, "calls") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				s = settings.Draw(t, "settings")
				room = max(room, s.Window)
				b.SetSettings(s)
			case 1:
				b.Replaced(start)
				seen = nil
			}
			o := rapid.SampledFrom([]breaker.Outcome{breaker.Ignored, breaker.Success, breaker.Failure}).Draw(t, "outcome")
			permit, ok := admit(b, start)
			if !ok {
				t.Fatalf("call %d: not admitted", i)
			}
			b.Report(start, permit, o, 0, 0)
			if o != breaker.Ignored {
				seen = append(seen, o == breaker.Failure)
				seen = seen[max(0, len(seen)-room):]
			}
			last := seen[max(0, len(seen)-s.Window):]
			failures := 0
			for _, failed := range last {
				if failed {
					failures++
				}
			}
			opens := o == breaker.Failure && len(last) >= s.MinSamples && float64(failures) >= s.Threshold*float64(len(last))
			if got := b.LastState() == breaker.Open; got != opens {
				t.Fatalf("call %d: open is %v with %v under %+v", i, got, seen, s)
			}
			if quiet := b.LastState() == breaker.Closed; quiet == opens {
				t.Fatalf("call %d: quiet is %v, open %v", i, quiet, opens)
			}
			if opens {
				b.Reset(start)
				seen = nil
			}
		}
	})
}

// BRK-004: a growing window keeps its outcomes, and the oldest is dropped
// first.
func TestWindowGrows(t *testing.T) {
	s := breaker.Defaults()
	s.Window, s.MinSamples, s.Threshold = 3, 3, 1
	c := &clocked{Breaker: breaker.New(s, start), t: t, now: start}
	c.fail(1)
	c.call(breaker.Success)
	c.fail(2) // the first failure is out of the window
	s.Window, s.MinSamples = 4, 4
	c.SetSettings(s)
	c.fail(1)
	assert.Equal(t, breaker.Closed, c.LastState(), "3 of 4")
	c.fail(1)
	assert.Equal(t, breaker.Open, c.LastState(), "the success was the oldest")
}

// opened and ramping return breakers in the states after an opening.
func opened(t *testing.T) *clocked {
	c := newClocked(t)
	c.fail(5)
	require.Equal(t, breaker.Open, c.LastState())
	return c
}

func ramping(t *testing.T) *clocked {
	c := opened(t)
	c.pass(time.Second)
	c.call(breaker.Success)
	require.Equal(t, breaker.Ramping, c.LastState())
	return c
}

func (c *clocked) pauseOf() time.Duration {
	c.t.Helper()
	at, ok := c.Reopens(c.now)
	require.True(c.t, ok)
	require.Equal(c.t, breaker.Open, c.LastState())
	return at.Sub(c.now)
}

// Every method advances the time: each of these is the first call after the
// pause of a second.
func TestEveryMethodSeesTheTime(t *testing.T) {
	at := start.Add(time.Second)
	for name, look := range map[string]func(*testing.T, *breaker.Breaker){
		"Reopens": func(t *testing.T, b *breaker.Breaker) {
			when, ok := b.Reopens(at)
			assert.True(t, ok)
			assert.Zero(t, when)
		},
		"Allow": func(t *testing.T, b *breaker.Breaker) { assert.True(t, b.Allow(at)) },
		"Acquire": func(t *testing.T, b *breaker.Breaker) {
			_, ok := b.Acquire(at)
			assert.True(t, ok)
			_, ok = b.Acquire(at)
			assert.False(t, ok, "one probe")
		},
		"Admits": func(t *testing.T, b *breaker.Breaker) { assert.True(t, b.Admits(at)) },
		"RecordFailure": func(t *testing.T, b *breaker.Breaker) {
			b.RecordFailure(at)
			when, _ := b.Reopens(at)
			assert.Equal(t, at.Add(2*time.Second), when, "a failure of a half-open breaker")
		},
	} {
		t.Run(name, func(t *testing.T) {
			look(t, opened(t).Breaker)
		})
	}
	t.Run("Report", func(t *testing.T) {
		c := ramping(t)
		c.pass(3 * breaker.StageTime)
		permit, ok := c.Admit(c.now)
		require.True(t, ok)
		c.pass(breaker.StageTime)
		c.Report(c.now, permit, breaker.Failure, 0, 0)
		assert.Equal(t, breaker.Closed, c.LastState(), "the ramp was over; one failure opens nothing")
	})
	t.Run("Tripped", func(t *testing.T) {
		c := newClocked(t)
		c.Trip(start, at)
		assert.True(t, c.Tripped(start))
		assert.False(t, c.Ejected(start))
		assert.False(t, c.Tripped(at))
		assert.Equal(t, breaker.HalfOpen, c.LastState())
	})
	t.Run("Ejected", func(t *testing.T) {
		c := newClocked(t)
		until := c.Eject(start)
		assert.True(t, c.Ejected(start))
		assert.False(t, c.Tripped(start))
		assert.False(t, c.Ejected(until))
		assert.Equal(t, breaker.Ramping, c.LastState())
	})
	t.Run("Readmit", func(t *testing.T) {
		c := newClocked(t)
		c.Eject(start)
		c.pass(5*time.Minute + 4*breaker.StageTime)
		c.Readmit(c.now)
		assert.Equal(t, breaker.Closed, c.LastState(), "the way up was gone already")
	})
	t.Run("Replaced", func(t *testing.T) {
		c := newClocked(t)
		c.Trip(start, at)
		c.Replaced(at)
		assert.Equal(t, breaker.HalfOpen, c.LastState(), "no longer tripped")
	})
}

// RecordFailure counts like a failed call.
func TestRecordFailure(t *testing.T) {
	c := newClocked(t)
	for range 4 {
		c.RecordFailure(c.now)
	}
	assert.Equal(t, breaker.Closed, c.LastState())
	c.RecordFailure(c.now)
	assert.Equal(t, time.Second, c.pauseOf())
	c.RecordFailure(c.now)
	assert.Equal(t, time.Second, c.pauseOf(), "an open breaker stays as it is")

	c = ramping(t)
	c.RecordFailure(c.now)
	assert.Equal(t, 2*time.Second, c.pauseOf())
}

// BRK-006: Admits does not count: an open breaker and one whose probe runs
// admit no call.
func TestAdmits(t *testing.T) {
	c := newClocked(t)
	assert.True(t, c.Breaker.Admits(c.now))
	c = opened(t)
	assert.False(t, c.Breaker.Admits(c.now))
	c.pass(time.Second)
	assert.True(t, c.Breaker.Admits(c.now))
	_, ok := c.Admit(c.now)
	require.True(t, ok)
	assert.False(t, c.Breaker.Admits(c.now))
	assert.True(t, ramping(t).Breaker.Admits(start.Add(time.Second)))
}

// A readmitted capability comes back through the ramp from every state.
func TestReadmit(t *testing.T) {
	c := opened(t)
	c.Readmit(c.now)
	assert.Equal(t, breaker.Ramping, c.LastState())

	c = opened(t)
	c.pass(time.Second)
	require.Equal(t, breaker.HalfOpen, c.state())
	c.Readmit(c.now)
	assert.Equal(t, breaker.Ramping, c.LastState())

	c = newClocked(t)
	c.Readmit(c.now)
	assert.Equal(t, breaker.Closed, c.LastState())
}

// BRK-004, BRK-009: with a new edition of the plugin a tripped breaker closes
// and an ejected one ramps up.
func TestReplacedByState(t *testing.T) {
	c := newClocked(t)
	c.Trip(c.now, time.Time{})
	c.Replaced(c.now)
	assert.Equal(t, breaker.Closed, c.LastState())

	c = newClocked(t)
	c.Eject(c.now)
	c.Replaced(c.now)
	assert.Equal(t, breaker.Ramping, c.LastState())

	c = opened(t)
	c.Replaced(c.now)
	assert.Equal(t, breaker.Open, c.LastState(), "a pause goes on: it says that calls fail, not why")
}

// BRK-004: calls of the old edition count neither for the new one nor after a
// reset, whatever the state was.
func TestCallsOfTheOldEdition(t *testing.T) {
	halfOpen := func(t *testing.T) *clocked {
		c := opened(t)
		c.pass(time.Second)
		require.Equal(t, breaker.HalfOpen, c.state())
		return c
	}
	for name, in := range map[string]struct {
		state func(*testing.T) *clocked
		end   breaker.Outcome
	}{
		"probe fails": {halfOpen, breaker.Failure}, "probe succeeds": {halfOpen, breaker.Success},
		"call of the ramp fails": {ramping, breaker.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			c := in.state(t)
			permit, ok := c.Breaker.Acquire(c.now)
			require.True(t, ok)
			state := c.state()
			c.Replaced(c.now)
			assert.True(t, c.Breaker.Admits(c.now), "the new edition is tried at once")
			c.Report(c.now, permit, in.end, 0, 0)
			assert.Equal(t, state, c.LastState())
		})
	}

	c := ramping(t)
	succeed := func() {
		permit, ok := c.Breaker.Acquire(c.now)
		require.True(t, ok)
		c.Report(c.now, permit, breaker.Success, 0, 0)
	}
	for range breaker.StageSuccesses - 1 {
		succeed()
	}
	c.Replaced(c.now)
	succeed()
	admitted := 0
	for range 10 {
		if c.Allow(c.now) {
			admitted++
		}
	}
	assert.Equal(t, 1, admitted, "still in the stage of 10 %")

	c = ramping(t)
	permit, ok := c.Breaker.Acquire(c.now)
	require.True(t, ok)
	c.Reset(c.now)
	c.Report(c.now, permit, breaker.Failure, 0, 0)
	c.fail(4)
	assert.Equal(t, breaker.Closed, c.LastState(), "four failures since the reset")
}

// BRK-005: n counts consecutive openings. It restarts only after five minutes
// in state Closed; time in other states does not count.
func TestOpeningsInARow(t *testing.T) {
	after := func(closed time.Duration) time.Duration {
		c := ramping(t)
		c.pass(4*breaker.StageTime + closed)
		require.Equal(t, breaker.Closed, c.state())
		c.fail(5)
		return c.pauseOf()
	}
	assert.Equal(t, 2*time.Second, after(breaker.CalmTime-1))
	assert.Equal(t, time.Second, after(breaker.CalmTime))

	c := opened(t)
	c.pass(2 * breaker.CalmTime) // mostly half-open
	c.call(breaker.Failure)
	assert.Equal(t, 2*time.Second, c.pauseOf())

	c = newClocked(t)
	c.Trip(c.now, c.now.Add(time.Second))
	c.pass(time.Second)
	c.call(breaker.Failure)
	assert.Equal(t, 2*time.Second, c.pauseOf(), "to trip is an opening")

	c = opened(t)
	c.Reset(c.now)
	c.fail(5)
	assert.Equal(t, time.Second, c.pauseOf(), "a reset forgets the openings")

	c = newClocked(t)
	c.Eject(c.now)
	c.Reset(c.now)
	assert.Equal(t, c.now.Add(5*time.Minute), c.Eject(c.now), "and the ejections")
}

// BRK-006: each state starts fresh, whatever the previous one left.
func TestStatesBeginAnew(t *testing.T) {
	c := opened(t)
	c.pass(time.Second)
	_, ok := c.Admit(c.now)
	require.True(t, ok)
	c.Trip(c.now, c.now.Add(time.Minute)) // while the probe runs
	c.pass(time.Minute)
	require.Equal(t, breaker.HalfOpen, c.state())
	assert.True(t, c.Allow(c.now), "the probe of another opening is not waited for")

	c = ramping(t)
	c.pass(2 * breaker.StageTime)
	for range 3 {
		if _, ok := c.Admit(c.now); ok {
			break
		}
	}
	c.RecordFailure(c.now)
	c.pass(2 * time.Second)
	c.call(breaker.Success)
	require.Equal(t, breaker.Ramping, c.state())
	for i := range 9 {
		require.False(t, c.Allow(c.now), "call %d of a stage of 10 %%", i+1)
	}
	assert.True(t, c.Allow(c.now))

	c.SetSettings(func() registry.Breaker {
		s := breaker.Defaults()
		s.Ramp = []int{100}
		return s
	}())
	assert.True(t, c.Allow(c.now), "a shorter ramp")
}

// With a ramp shorter than the current stage, the last stage applies.
func TestShorterRamp(t *testing.T) {
	c := ramping(t)
	c.pass(3 * breaker.StageTime)
	require.Equal(t, breaker.Ramping, c.state())
	s := breaker.Defaults()
	s.Ramp = []int{50, 100}
	c.SetSettings(s)
	assert.True(t, c.Allow(c.now))
	c.pass(breaker.StageTime)
	assert.Equal(t, breaker.Closed, c.state())
}

// An outcome counts for the state in which its call was admitted: after an
// opening earlier ones are ignored; those of the ramp count when the breaker
// has closed.
func TestOutcomeOfAnotherState(t *testing.T) {
	c := newClocked(t)
	before, ok := c.Admit(c.now)
	require.True(t, ok)
	c.fail(5)
	c.pass(time.Second)
	c.call(breaker.Success)
	c.Report(c.now, before, breaker.Failure, 0, 0)
	assert.Equal(t, breaker.Ramping, c.LastState())

	c.pass(3 * breaker.StageTime)
	late, ok := c.Admit(c.now)
	require.True(t, ok)
	c.pass(breaker.StageTime)
	c.fail(4)
	c.Report(c.now, late, breaker.Failure, 0, 0)
	assert.Equal(t, breaker.Open, c.LastState(), "the fifth failure")

	c = newClocked(t)
	before, _ = c.Admit(c.now)
	c.Reset(c.now)
	c.fail(4)
	c.Report(c.now, before, breaker.Failure, 0, 0)
	assert.Equal(t, breaker.Closed, c.LastState(), "admitted before the reset")
}

// BIND-007, BRK-008: the figures of a window are those of the last verdicts
// since it was emptied, under changing floors. The model keeps a list.
func TestWindowIsThatOfTheModel(t *testing.T) {
	type verdict struct {
		pass  bool
		score int
	}
	floors := rapid.Custom(func(t *rapid.T) breaker.Floor {
		return breaker.Floor{
			Window:      rapid.IntRange(1, 8).Draw(t, "window"),
			MinSamples:  rapid.IntRange(1, 8).Draw(t, "min"),
			MinPassRate: rapid.SampledFrom([]float64{0, 0.5, 0.6}).Draw(t, "rate"),
			Hysteresis:  rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "hysteresis"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		f := floors.Draw(t, "floor")
		w := breaker.NewWindow(f)
		var seen []verdict
		below := false
		for range rapid.IntRange(1, 60).Draw(t, "verdicts") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				f = floors.Draw(t, "floor")
				w, below = w.WithFloor(f), false
			case 1:
				w.Replaced()
				seen, below = nil, false
			}
			v := verdict{rapid.Bool().Draw(t, "pass"), rapid.IntRange(1, 1000).Draw(t, "score")}
			c := w.Add(start, v.pass, v.score)
			seen = append(seen[max(0, min(len(seen), len(seen)-f.Window)):], v)
			seen = seen[max(0, len(seen)-f.Window):]
			passes, total := 0, 0
			for _, v := range seen {
				if v.pass {
					passes++
					total += v.score
				}
			}
			if gotPasses, samples := w.Counts(); gotPasses != passes || samples != len(seen) {
				t.Fatalf("counts %d of %d, want %v", gotPasses, samples, seen)
			}
			mean := 1.0
			if passes > 0 {
				mean = float64(total) / 1000 / float64(passes)
			}
			if got, want := w.Quality(), int(math.Round(float64(passes+4)/float64(len(seen)+5)*mean*100)); got != want {
				t.Fatalf("quality %d, want %d of %v", got, want, seen)
			}
			switch c {
			case breaker.Fell:
				below = true
			case breaker.Rose:
				below = false
			}
			if w.Below() != below {
				t.Fatalf("below is %v, crossings say %v", w.Below(), below)
			}
			n := float64(len(seen))
			well := !below && len(seen) >= f.MinSamples && float64(passes) >= (f.MinPassRate+f.Hysteresis)*n
			if w.Healthy() != well {
				t.Fatalf("well is %v with %v under %+v", w.Healthy(), seen, f)
			}
		}
	})
}

// BRK-008: a rate that misses the floor by chance is not below it; the edge is
// Steady.
func TestEdgeOfTheFloor(t *testing.T) {
	f := breaker.Floor{Window: 4, MinSamples: 4, MinPassRate: 0.5}
	assert.Equal(t, breaker.Steady, fill(breaker.NewWindow(f), 1, 3), "0.25 is 0.5 less one standard error of 0.25")
	assert.Equal(t, breaker.Fell, fill(breaker.NewWindow(f), 0, 4))
}

// BRK-008: recovery takes min_samples new verdicts, and a rate above the floor
// plus the hysteresis.
func TestWindowRecovers(t *testing.T) {
	after := func(f breaker.Floor, failures int) int {
		w := breaker.NewWindow(f)
		require.Equal(t, breaker.Fell, fill(w, 0, failures))
		for n := 1; ; n++ {
			if w.Add(start, true, 1000) == breaker.Rose {
				return n
			}
		}
	}
	f := breaker.Floor{Window: 20, MinSamples: 5, MinPassRate: 0.6, Hysteresis: 0.1}
	assert.Equal(t, 12, after(f, 5), "12 of 17 is the first above 0.7")
	f.Window, f.MinSamples = 10, 10
	assert.Equal(t, 10, after(f, 10), "new verdicts, though 7 of 10 pass before")
	f.MinPassRate, f.Hysteresis, f.Window, f.MinSamples = 0.5, 0.25, 20, 4
	assert.Equal(t, 12, after(f, 4), "12 of 16 reaches 0.75")
}

// BRK-009: the pause and the span of actions are exact to the nanosecond, and
// actions outlive a change of the floor.
func TestTimesOfActions(t *testing.T) {
	f := breaker.Floor{Window: 1, MinSamples: 1, MinPassRate: 0.6}
	w := breaker.NewWindow(f)
	require.Equal(t, breaker.Fell, w.Add(start, false, 0))
	assert.False(t, w.RecordAction(start))
	assert.False(t, w.Below(), "something was done about it")
	assert.Equal(t, breaker.Steady, w.Add(start.Add(breaker.ActionPause-1), false, 0))
	assert.Equal(t, breaker.Fell, w.Add(start.Add(breaker.ActionPause), false, 0))
	assert.False(t, w.RecordAction(start.Add(breaker.ActionPause)))

	w = w.WithFloor(f)
	assert.True(t, w.IsThirdAction(start.Add(breaker.ActionSpan-1)))
	assert.False(t, w.IsThirdAction(start.Add(breaker.ActionSpan)), "the first is long ago")
}
