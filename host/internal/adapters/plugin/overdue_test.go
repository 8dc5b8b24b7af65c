package plugin

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const cancelGrace = 2 * time.Second

// gracedService is a service whose canceled calls have cancelGrace.
func gracedService(on Clock) *service {
	e := &edition{}
	e.rules.Store(&Settings{CancelGrace: cancelGrace})
	return &service{calls: map[string]*inFlight{}, instance: &instance{edition: e, unit: &unit{host: &shared{clock: on}}}}
}

// RUN-013: calls that are in flight, that end now, or that begin during a probe are not taken
// for calls that outlive their cancel, in any order; one that does is found by the third
// probe.
func TestLateCallsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := gracedService(nil)
		now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
		enter := func() { s.lastID++; s.calls[time.Duration(s.lastID).String()] = nil }
		leave := func() {
			for id := range s.calls {
				delete(s.calls, id)
				return
			}
		}
		stuck := rapid.IntRange(0, 3).Draw(t, "stuck")
		for range stuck + rapid.IntRange(0, 3).Draw(t, "canceled in time") {
			s.overdue.add(now, cutSpan(cancelGrace))
		}
		now = now.Add(cutSpan(cancelGrace) + cancelGrace)
		found := 0
		for probe := range 3 {
			for range rapid.IntRange(0, 5).Draw(t, "begin before") {
				enter()
			}
			cut := rapid.IntRange(0, 5).Draw(t, "canceled within the grace")
			for range cut {
				s.overdue.add(now.Add(-rapid.SampledFrom([]time.Duration{0, time.Millisecond, cancelGrace - 1}).Draw(t, "before")), cutSpan(cancelGrace))
			}
			begin := s.countCalls(now)
			for range rapid.IntRange(0, 5).Draw(t, "begin during") {
				enter()
			}
			// The plugin has at most those that the host knows of, those that have grace, and
			// those that are stuck.
			in := rapid.IntRange(0, len(s.calls)+cut).Draw(t, "at the plugin")
			for range rapid.IntRange(0, len(s.calls)).Draw(t, "end during") {
				leave()
			}
			late, again := s.compare(begin, in+stuck, now)
			now = now.Add(cutSpan(cancelGrace) + cancelGrace)
			assert.LessOrEqual(t, late, stuck)
			assert.False(t, late > 0 && (again || probe < 2), "the first probes only suspect")
			found = late
			for len(s.calls) > 0 {
				leave()
			}
		}
		if stuck == 0 {
			assert.Zero(t, found)
		}
	})
	s := gracedService(nil)
	s.overdue.cut = 2
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for probe, want := range []int{0, 0, 2} {
		now := at.Add(time.Duration(probe) * cancelGrace)
		late, again := s.compare(s.countCalls(now), 2, now)
		assert.Equal(t, want, late)
		assert.Equal(t, want == 0, again)
	}
}

// RUN-013: calls that begin during a probe hide one that outlives its cancel only until a
// probe without them; a probe that finds none for certain ends the suspicion.
func TestTrafficHidesNoLateCall(t *testing.T) {
	s := gracedService(nil)
	s.overdue.cut = 1
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	look := func(reported, begun int) (late int, again bool) {
		at = at.Add(cancelGrace)
		begin := s.countCalls(at)
		s.lastID += uint64(begun)
		return s.compare(begin, reported, at)
	}
	for range 2 {
		late, again := look(1, 0)
		assert.Zero(t, late)
		assert.True(t, again)
		late, again = look(1, 5)
		assert.Zero(t, late)
		assert.True(t, again)
	}
	late, _ := look(1, 0)
	assert.Equal(t, 1, late)

	s.overdue = overdue{cut: 1}
	look(1, 0)
	look(1, 0)
	look(0, 0)
	s.overdue.cut = 1
	late, again := look(1, 0)
	assert.Zero(t, late, "the suspicion begins anew")
	assert.True(t, again)
}

// simClock is a clock with one function to come, as probeLater needs it.
type simClock struct {
	now, due time.Time
	do       func()
}

func (c *simClock) Now() time.Time { return c.now }

func (c *simClock) AfterFunc(d time.Duration, f func()) func() {
	c.due, c.do = c.now.Add(d), f
	return func() { c.do = nil }
}

// pass lets time pass.
func (c *simClock) pass(d time.Duration) {
	c.now = c.now.Add(d)
	if do := c.do; do != nil && !c.now.Before(c.due) {
		c.do = nil
		do()
	}
}

// canceledPlugin is a plugin with canceled calls, which end some time after their cancel.
type canceledPlugin struct {
	s      *service
	clock  *simClock
	ends   []time.Time
	probes int
	late   int // what the last probe found
}

func newCanceledPlugin() *canceledPlugin {
	clock := &simClock{now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	p := &canceledPlugin{clock: clock}
	p.s = gracedService(clock)
	p.s.probe = func() {
		p.probes++
		p.ends = slices.DeleteFunc(p.ends, func(end time.Time) bool { return !end.After(clock.now) })
		late, again := p.s.compare(p.s.countCalls(clock.now), len(p.ends), clock.now)
		if p.late = late; again {
			p.s.probeLater()
		}
	}
	return p
}

// cancel makes and cancels a call that ends after a time.
func (p *canceledPlugin) cancel(after time.Duration) {
	p.s.lastID++
	p.ends = append(p.ends, p.clock.now.Add(after))
	p.s.cutShort()
}

// RUN-013: each canceled call has the grace of its own. A process that ends all of them in
// time is kept however many there always are; calls that go on are found beside them when
// they are more than those that have grace, else once the cancels become fewer.
func TestEachCanceledCallHasItsGrace(t *testing.T) {
	p := newCanceledPlugin()
	second := func(perSecond int) {
		for i := range 20 {
			if i < perSecond {
				p.cancel(time.Duration(100+i*10) * time.Millisecond)
			}
			p.clock.pass(50 * time.Millisecond)
		}
	}
	for range 60 {
		second(20)
		require.Zero(t, p.late, "all end within 300 ms")
	}
	assert.Greater(t, p.probes, 20)
	assert.LessOrEqual(t, len(p.s.overdue.recent), int(cancelGrace/cutSpan(cancelGrace))+2, "the memory is bounded")

	p.cancel(time.Hour)
	for range 30 {
		second(20)
		require.Zero(t, p.late, "one may be among those that have grace")
	}
	for range 10 {
		second(0)
		if p.late > 0 {
			break
		}
	}
	assert.Equal(t, 1, p.late)

	p = newCanceledPlugin()
	for range 60 {
		p.cancel(time.Hour)
	}
	for range 20 {
		second(20)
		if p.late > 0 {
			break
		}
	}
	assert.Positive(t, p.late, "more than those that have grace")
}
