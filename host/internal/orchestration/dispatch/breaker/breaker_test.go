package breaker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clocked is a breaker with a manual clock.
type clocked struct {
	*breaker.Breaker
	t   *testing.T
	now time.Time
}

func newClocked(t *testing.T) *clocked {
	return &clocked{Breaker: breaker.New(breaker.Defaults(), start), t: t, now: start}
}

// Admit calls Allow and Acquire.
func (c *clocked) Admit(now time.Time) (breaker.Permit, bool) { return admit(c.Breaker, now) }

func (c *clocked) Admits(now time.Time) bool {
	return c.State(now) == breaker.Closed || c.State(now) == breaker.HalfOpen && c.Allow(now)
}

func admit(b *breaker.Breaker, now time.Time) (breaker.Permit, bool) {
	if !b.Allow(now) {
		return breaker.Permit{}, false
	}
	return b.Acquire(now)
}

func (c *clocked) pass(d time.Duration) { c.now = c.now.Add(d) }
func (c *clocked) state() breaker.State { return c.State(c.now) }

func (c *clocked) call(o breaker.Outcome) {
	c.t.Helper()
	permit, ok := c.Admit(c.now)
	require.True(c.t, ok, "admitted in state %s", c.state())
	c.Report(c.now, permit, o, 0, 0)
}

func (c *clocked) fail(n int) {
	c.t.Helper()
	for range n {
		c.call(breaker.Failure)
	}
}

// BRK-005: the rate counts from min_samples on; the pause grows with each
// consecutive opening and has up to 10 % jitter on top.
func TestOpens(t *testing.T) {
	c := newClocked(t)
	c.fail(4)
	assert.Equal(t, breaker.Closed, c.state(), "four outcomes are too few")
	c.fail(1)
	assert.Equal(t, breaker.Open, c.state())
	at, ok := c.Reopens(c.now)
	assert.True(t, ok)
	assert.Equal(t, c.now.Add(time.Second), at)
	_, ok = c.Admit(c.now)
	assert.False(t, ok)

	c = newClocked(t)
	for range 10 {
		c.call(breaker.Success)
	}
	c.fail(9)
	assert.Equal(t, breaker.Closed, c.state(), "9 of 19 is below the threshold")
	c.fail(1)
	assert.Equal(t, breaker.Open, c.state(), "10 of 20 is the threshold")
}

// BRK-005: the pause is base x 2^(n-1) x (1 + u/10), at most the ceiling and at
// least the Retry-After.
func TestPause(t *testing.T) {
	for _, tt := range []struct {
		opening int
		floor   time.Duration
		u       float64
		want    time.Duration
	}{
		{1, 0, 0, time.Second},
		{2, 0, 0, 2 * time.Second},
		{3, 0, 0.5, 4200 * time.Millisecond},
		{1, 30 * time.Second, 0, 30 * time.Second},
		{20, 0, 0, 5 * time.Minute},
	} {
		b := breaker.New(breaker.Defaults(), start)
		now := start
		for range 5 {
			permit, _ := admit(b, now)
			b.Report(now, permit, breaker.Failure, tt.floor, tt.u)
		}
		for range tt.opening - 1 {
			at, _ := b.Reopens(now)
			now = at
			permit, ok := admit(b, now)
			require.True(t, ok)
			b.Report(now, permit, breaker.Failure, tt.floor, tt.u)
		}
		at, ok := b.Reopens(now)
		require.True(t, ok)
		assert.Equal(t, tt.want, at.Sub(now), "opening %d", tt.opening)
	}
}

// BRK-001, 006: one probe, then the shares of the ramp, then closed.
func TestProbeAndRamp(t *testing.T) {
	c := newClocked(t)
	c.fail(5)
	c.pass(time.Second)
	assert.Equal(t, breaker.HalfOpen, c.state())
	probe, ok := c.Admit(c.now)
	require.True(t, ok)
	_, ok = c.Admit(c.now)
	assert.False(t, ok, "the probe is out")
	c.Report(c.now, probe, breaker.Success, 0, 0)
	assert.Equal(t, breaker.Ramping, c.state())

	admitted := []int{}
	for _, share := range []int{10, 25, 50, 100} {
		n := 0
		for n < breaker.StageSuccesses {
			if permit, ok := c.Admit(c.now); ok {
				c.Report(c.now, permit, breaker.Success, 0, 0)
				n++
			}
			admitted = append(admitted, share)
		}
	}
	count := map[int]int{}
	for _, share := range admitted {
		count[share]++
	}
	assert.Equal(t, map[int]int{10: 50, 25: 20, 50: 10, 100: 5}, count, "calls that asked in each stage")
	assert.Equal(t, breaker.Closed, c.state())
}

// BRK-006: without a failure a stage ends by time; a failure opens the breaker.
func TestRampByTime(t *testing.T) {
	c := newClocked(t)
	c.fail(5)
	c.pass(time.Second)
	c.call(breaker.Success)
	c.pass(4 * breaker.StageTime)
	assert.Equal(t, breaker.Closed, c.state())

	c = newClocked(t)
	c.fail(5)
	c.pass(time.Second)
	c.call(breaker.Success)
	c.pass(3 * breaker.StageTime)
	require.Equal(t, breaker.Ramping, c.state())
	c.call(breaker.Failure)
	at, _ := c.Reopens(c.now)
	assert.Equal(t, 2*time.Second, at.Sub(c.now), "the second opening in a row")
}

// BRK-005: five minutes in state Closed reset the count of openings.
func TestCalm(t *testing.T) {
	c := newClocked(t)
	c.fail(5)
	c.pass(time.Second)
	c.call(breaker.Success)
	c.pass(4*breaker.StageTime + breaker.CalmTime)
	c.fail(5)
	at, _ := c.Reopens(c.now)
	assert.Equal(t, time.Second, at.Sub(c.now))
}

// The outcome of a call that was admitted before the breaker opened neither
// closes it nor ends its probe.
func TestLateOutcome(t *testing.T) {
	c := newClocked(t)
	late, ok := c.Admit(c.now)
	require.True(t, ok)
	c.fail(5)
	c.pass(time.Second)
	require.Equal(t, breaker.HalfOpen, c.state())
	c.Report(c.now, late, breaker.Success, 0, 0)
	assert.Equal(t, breaker.HalfOpen, c.state())
	c.Report(c.now, breaker.Permit{}, breaker.Failure, 0, 0)
	assert.Equal(t, breaker.HalfOpen, c.state(), "a call that was not admitted")
	probe, _ := c.Admit(c.now)
	c.Report(c.now, probe, breaker.Ignored, 0, 0)
	assert.True(t, c.Admits(c.now), "a canceled probe makes room for the next")
}

// BRK-005: errors that waiting cannot fix open the breaker at once, until a
// time or until the configuration changes.
func TestTrip(t *testing.T) {
	c := newClocked(t)
	c.Trip(c.now, c.now.Add(time.Hour))
	at, ok := c.Reopens(c.now)
	assert.True(t, ok)
	assert.Equal(t, c.now.Add(time.Hour), at)
	c.Trip(c.now, time.Time{})
	c.pass(24 * time.Hour)
	_, ok = c.Reopens(c.now)
	assert.False(t, ok, "it does not reopen by itself")
	c.Reset(c.now)
	assert.Equal(t, breaker.Closed, c.state())
}

// BRK-009: an ejected candidate comes back through the ramp, after 5, 10, 20
// minutes and at most an hour.
func TestEject(t *testing.T) {
	c := newClocked(t)
	for _, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
		until := c.Eject(c.now)
		assert.Equal(t, want, until.Sub(c.now))
		assert.True(t, c.Ejected(c.now))
		assert.False(t, c.Admits(c.now))
		c.pass(want)
		assert.Equal(t, breaker.Ramping, c.state(), "no probe: it answers, badly")
		assert.False(t, c.Ejected(c.now))
	}
}

// BRK-004: outcomes of another edition of the plugin are dropped.
func TestReplaced(t *testing.T) {
	c := newClocked(t)
	late, _ := c.Admit(c.now)
	c.fail(4)
	c.Replaced(c.now)
	c.Report(c.now, late, breaker.Failure, 0, 0)
	c.fail(4)
	assert.Equal(t, breaker.Closed, c.state())
}

// EVAL-073: in every order of calls, at most one probe runs, an open breaker
// admits no call, and only the probe closes a half-open one.
func TestBreakerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := breaker.New(breaker.Defaults(), start)
		now := start
		type call struct {
			permit breaker.Permit
			probe  bool
		}
		var out []call
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "ns")))
			},
			"call": func(t *rapid.T) {
				state := b.State(now)
				may := b.Allow(now)
				permit, ok := breaker.Permit{}, false
				if may {
					permit, ok = b.Acquire(now)
				}
				if ok != may {
					t.Fatalf("Allow returned %v and Acquire %v in state %s", may, ok, state)
				}
				if ok && state == breaker.Open {
					t.Fatal("an open breaker admitted a call")
				}
				if ok {
					out = append(out, call{permit, state == breaker.HalfOpen})
				}
				if state == breaker.HalfOpen && b.Allow(now) {
					t.Fatal("two probes")
				}
			},
			"end": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				c := out[i]
				out = append(out[:i], out[i+1:]...)
				before := b.State(now)
				o := rapid.SampledFrom([]breaker.Outcome{breaker.Ignored, breaker.Success, breaker.Failure}).Draw(t, "outcome")
				b.Report(now, c.permit, o, 0, rapid.Float64Range(0, 1).Draw(t, "u"))
				after := b.State(now)
				if before == breaker.HalfOpen && after != before && !c.probe {
					t.Fatalf("a call that is no probe made half-open %s", after)
				}
				if before == breaker.Open && after != before {
					t.Fatalf("an outcome ended the pause: %s", after)
				}
			},
			"eject":    func(*rapid.T) { b.Eject(now) },
			"replaced": func(*rapid.T) { b.Replaced(now) },
		})
	})
}

// EVAL-074: during an outage every opening costs one probe.
func TestOutageCostsOneProbePerOpening(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := breaker.New(breaker.Defaults(), start)
		now, probes, openings := start, 0, 0
		for range 1000 {
			now = now.Add(time.Duration(r.IntN(400)) * time.Millisecond)
			probing := b.State(now) == breaker.HalfOpen
			permit, ok := admit(b, now)
			if !ok {
				continue
			}
			if probing {
				probes++
			}
			before := b.State(now)
			b.Report(now, permit, breaker.Failure, 0, r.Float64())
			if before != breaker.Open && b.State(now) == breaker.Open {
				openings++
			}
		}
		require.Equal(t, openings-1, probes, "seed %d: the first opening needs no probe", seed)
	}
}

// BRK-001, BRK-004: calls with different settings may alternate. Outcomes are
// kept, and each call is counted under its own settings, over the newest
// outcomes in its window.
func TestRulesInTurn(t *testing.T) {
	narrow, wide := breaker.Defaults(), breaker.Defaults()
	narrow.Window, narrow.MinSamples = 2, 2
	wide.Window, wide.MinSamples, wide.Threshold, wide.Ramp = 6, 6, 0.6, []int{100}
	c := newClocked(t)
	c.SetSettings(narrow)
	turns := 0
	call := func(under string, o breaker.Outcome) {
		t.Helper()
		turns++
		if under == "narrow" {
			c.SetSettings(narrow)
		} else {
			c.SetSettings(wide)
		}
		c.call(o)
	}
	for _, o := range []breaker.Outcome{breaker.Failure, breaker.Success, breaker.Failure, breaker.Success, breaker.Success} {
		call("wide", o)
		require.Equal(t, breaker.Closed, c.state(), "call %d", turns)
	}
	call("narrow", breaker.Success)
	require.Equal(t, breaker.Closed, c.state())
	call("wide", breaker.Failure) // F S F S S S F: two of the last six
	require.Equal(t, breaker.Closed, c.state())
	call("narrow", breaker.Failure) // two of the last two
	require.Equal(t, breaker.Open, c.state())
	c.SetSettings(wide)
	require.Equal(t, breaker.Open, c.state(), "other rules open nothing")
	c.pass(2 * time.Second)
	c.call(breaker.Success)
	require.Equal(t, breaker.Ramping, c.state())
	c.SetSettings(narrow)
	c.SetSettings(wide)
	require.Equal(t, breaker.Ramping, c.state())
	for range breaker.StageSuccesses {
		c.call(breaker.Success)
	}
	require.Equal(t, breaker.Closed, c.state())
}

// BRK-005: a success does not open the breaker, even as the outcome with which there are
// enough: the next failure does.
func TestSuccessDoesNotOpen(t *testing.T) {
	c := newClocked(t)
	c.fail(4)
	c.call(breaker.Success)
	assert.Equal(t, breaker.Closed, c.state(), "four of five have failed, and it serves again")
	c.fail(1)
	assert.Equal(t, breaker.Open, c.state())
}

// BRK-004: the rate counts the last outcomes of the window, none that is older.
func TestOldOutcomesLeaveTheWindow(t *testing.T) {
	s := breaker.Defaults()
	s.Window, s.MinSamples, s.Threshold = 4, 4, 0.5
	b := &clocked{Breaker: breaker.New(s, start), t: t, now: start}
	b.call(breaker.Failure)
	for range 3 {
		b.call(breaker.Success)
	}
	b.call(breaker.Success) // takes the place of the first failure
	b.call(breaker.Failure)
	assert.Equal(t, breaker.Closed, b.state(), "one failure of four")
	b.call(breaker.Failure)
	assert.Equal(t, breaker.Open, b.state(), "two failures of four")
}
