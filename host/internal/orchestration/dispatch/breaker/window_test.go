package breaker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
)

func floor(rate float64) breaker.Floor {
	f := breaker.DefaultFloor()
	f.MinPassRate = rate
	return f
}

// fill adds passes and then failures, and returns the last crossing.
func fill(w *breaker.Window, passes, failures int) breaker.Crossing {
	last := breaker.Steady
	for range passes {
		last = w.Add(start, true, 1000)
	}
	for range failures {
		last = w.Add(start, false, 0)
	}
	return last
}

// BRK-008: with a floor of 0.6, 4 of 10 and 9 of 20 are below it, 5 of 10 and
// 10 of 20 are not.
func TestFloor(t *testing.T) {
	for _, tt := range []struct {
		passes, failures int
		want             breaker.Crossing
	}{
		{4, 6, breaker.Fell},
		{5, 5, breaker.Steady},
		{10, 10, breaker.Steady},
		{3, 6, breaker.Steady}, // nine are too few
	} {
		assert.Equal(t, tt.want, fill(breaker.NewWindow(floor(0.6)), tt.passes, tt.failures), "%d of %d", tt.passes, tt.passes+tt.failures)
	}
	w := breaker.NewWindow(floor(0.6))
	assert.Equal(t, breaker.Fell, fill(w, 9, 11), "9 of 20")
	assert.Equal(t, breaker.Steady, fill(breaker.NewWindow(floor(0)), 0, 20), "a floor of 0 is off")
}

// BRK-008: without an action a candidate recovers above floor and hysteresis,
// over new verdicts.
func TestRises(t *testing.T) {
	w := breaker.NewWindow(floor(0.6))
	fill(w, 4, 6)
	assert.True(t, w.Below())
	last := breaker.Steady
	n := 0
	for w.Below() {
		last = w.Add(start, true, 1000)
		n++
	}
	assert.Equal(t, breaker.Rose, last)
	assert.Equal(t, 10, n, "10 new verdicts: 14 of 20")
}

// BRK-009: an action empties the window; the next one follows after a minute at
// the earliest, and the third within ten minutes is a quarantine.
func TestActions(t *testing.T) {
	w := breaker.NewWindow(floor(0.6))
	now := start
	fall := func() (at time.Time) {
		for {
			if w.Add(now, false, 0) == breaker.Fell {
				return now
			}
			now = now.Add(time.Second)
		}
	}
	first := fall()
	assert.False(t, w.RecordAction(first))
	_, samples := w.Counts()
	assert.Zero(t, samples)
	second := fall()
	assert.GreaterOrEqual(t, second.Sub(first), breaker.ActionPause)
	assert.False(t, w.RecordAction(second))
	assert.True(t, w.RecordAction(fall()), "the third within ten minutes")
	now = now.Add(breaker.ActionSpan)
	assert.False(t, w.RecordAction(fall()), "the others are long ago")
}

// BRK-007: the window holds verdicts on one edition only.
func TestWindowOfOneGeneration(t *testing.T) {
	w := breaker.NewWindow(floor(0.6))
	fill(w, 0, 9)
	w.Replaced()
	assert.Equal(t, breaker.Steady, fill(w, 0, 9))
}

// BIND-007: worked examples.
func TestQuality(t *testing.T) {
	w := breaker.NewWindow(breaker.DefaultFloor())
	assert.Equal(t, 80, w.Quality(), "nothing is known")
	for range 4 {
		w.Add(start, true, 900)
	}
	for range 6 {
		w.Add(start, false, 0)
	}
	assert.Equal(t, 48, w.Quality())
	w = breaker.NewWindow(breaker.DefaultFloor())
	for range 9 {
		w.Add(start, true, 900)
	}
	w.Add(start, false, 0)
	assert.Equal(t, 78, w.Quality())
}

// Counts covers the last verdicts only.
func TestWindowCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := breaker.NewWindow(breaker.DefaultFloor())
		all := rapid.SliceOfN(rapid.Bool(), 0, 100).Draw(t, "verdicts")
		want := 0
		for i, pass := range all {
			w.Add(start, pass, 500)
			if pass && i >= len(all)-20 {
				want++
			}
		}
		passes, samples := w.Counts()
		if passes != want || samples != min(20, len(all)) {
			t.Fatalf("%d of %d, want %d of %d", passes, samples, want, min(20, len(all)))
		}
	})
}

// EVAL-074: with a floor of 0.6, a candidate with a pass rate of 0.9 rarely has
// an action in 1,000 calls, and one with 0.3 nearly always within 20 verdicts.
func TestFalseAndTrueAlarms(t *testing.T) {
	const seeds, calls = 2000, 1000
	alarms := func(rate float64, calls int, seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 7))
		w := breaker.NewWindow(floor(0.6))
		for range calls {
			if w.Add(start, r.Float64() < rate, 1000) == breaker.Fell {
				return true
			}
		}
		return false
	}
	falsely, soon := 0, 0
	for seed := range uint64(seeds) {
		if alarms(0.9, calls, seed) {
			falsely++
		}
		if alarms(0.3, 20, seed) {
			soon++
		}
	}
	t.Logf("of %d: 0.9 acted on %d times in %d calls, 0.3 acted on %d times in 20", seeds, falsely, calls, soon)
	assert.Less(t, falsely, seeds/100)
	assert.GreaterOrEqual(t, soon, seeds*95/100)
}
