package breaker

import (
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Defaults returns the settings of an unconfigured breaker.
func Defaults() registry.Breaker {
	return registry.Breaker{
		Window: 20, MinSamples: 5, Threshold: 0.5,
		Base: time.Second, Factor: 2, Ceiling: 5 * time.Minute,
		Ramp: []int{10, 25, 50, 100},
	}
}

// Constants of recovery.
const (
	// A stage of the ramp ends after StageSuccesses successes, or after StageTime
	// without a failure.
	StageSuccesses = 5
	StageTime      = 5 * time.Second
	// After CalmTime in state Closed the next opening is counted as the first
	// again.
	CalmTime = 5 * time.Minute
)

// State is the state of a breaker.
type State string

// States of a breaker.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half-open"
	Ramping  State = "ramp"
)

// Outcome is the result of a call for the breaker.
type Outcome int

// Outcomes of a call.
const (
	// Ignored does not count: the call was canceled, invalid, or had no budget.
	Ignored Outcome = iota
	// Success is any answer, whatever the gates decide.
	Success
	// Failure is an error of the plugin or its backend with class retry or switch.
	Failure
)

// Permit is the admission of one call. Its outcome is ignored if the breaker has left
// the state of the admission since (except from Ramping to Closed), or if Reset or
// Replaced was called on it while it was closed.
type Permit struct{ epoch uint64 }

// Breaker is the circuit breaker of one capability for one intent. New makes
// one.
type Breaker struct {
	settings registry.Breaker

	state State
	// epoch changes with the state: outcomes of calls that were admitted in an
	// earlier epoch are ignored.
	epoch    uint64
	openings int       // consecutive openings
	until    time.Time // Open: end of the pause; zero: ends by Reset, Readmit or Replaced only
	ejected  bool      // Open, because of quality: no probe, straight to the ramp
	ejects   int       // ejections so far
	tripped  bool      // Open, because the capability is misconfigured
	since    time.Time // start of Closed or of the stage
	probing  bool      // HalfOpen: the probe is running

	// Closed: the last outcomes, true for a failure. The capacity is the largest
	// window that was ever set. The oldest is at next once the ring is full.
	ring     []bool
	capacity int
	next     int

	stage     int // Ramping: index into settings.Ramp
	requests  int // calls counted by Allow in this stage
	successes int
}

// New returns a closed breaker. All fields of s must be set.
func New(s registry.Breaker, now time.Time) *Breaker {
	return &Breaker{settings: s, state: Closed, since: now, capacity: s.Window}
}

// SetSettings changes the settings and keeps state and outcomes, because calls
// with different settings for the same capability may alternate. A running
// pause keeps its end.
func (b *Breaker) SetSettings(s registry.Breaker) {
	if s.Window > b.capacity { // unroll, so that the ring can grow
		b.ring = slices.Concat(b.ring[b.next:], b.ring[:b.next])
		b.capacity, b.next = s.Window, 0
	}
	b.settings = s
	b.stage = min(b.stage, len(s.Ramp)-1)
}

// State returns the state at the given time.
func (b *Breaker) State(now time.Time) State {
	b.advance(now)
	return b.state
}

// Reopens returns the time at which the pause of an open breaker ends; zero if it is not
// open. ok is false if the breaker is open and does not reopen by itself.
func (b *Breaker) Reopens(now time.Time) (at time.Time, ok bool) {
	b.advance(now)
	if b.state != Open {
		return time.Time{}, true
	}
	return b.until, !b.until.IsZero()
}

// Allow reports whether a call may be made. Ask once per call: in the ramp
// every call counts, and only a share of the calls is admitted.
func (b *Breaker) Allow(now time.Time) bool {
	b.advance(now)
	switch b.state {
	case Open:
		return false
	case HalfOpen:
		return !b.probing
	case Ramping:
		b.requests++
		return b.share(b.requests)
	}
	return true
}

// Acquire admits a call for which Allow was true. It fails if another call took
// the half-open probe since, or if the breaker opened. Each permit must be passed
// to Report exactly once.
func (b *Breaker) Acquire(now time.Time) (Permit, bool) {
	b.advance(now)
	switch b.state {
	case Open:
		return Permit{}, false
	case HalfOpen:
		if b.probing {
			return Permit{}, false
		}
		b.probing = true
	}
	return Permit{epoch: b.epoch}, true
}

// LastState returns the state after the last method call, without advancing the
// time.
func (b *Breaker) LastState() State { return b.state }

// share reports whether call k of a stage is in the admitted share.
func (b *Breaker) share(k int) bool {
	s := b.settings.Ramp[b.stage]
	return k*s/100 > (k-1)*s/100
}

// Report records the outcome of an admitted call. If it opens the breaker, floor
// is the minimum pause (Retry-After), and u, a random number in [0, 1), adds up to
// 10 % jitter to the pause.
func (b *Breaker) Report(now time.Time, t Permit, o Outcome, floor time.Duration, u float64) {
	b.advance(now)
	if t.epoch != b.epoch {
		return
	}
	switch b.state {
	case Closed:
		b.count(now, o, floor, u)
	case HalfOpen:
		b.finishProbe(now, o, floor, u)
	case Ramping:
		b.countRampCall(now, o, floor, u)
	}
}

// RecordFailure counts a failure outside of a call, such as the crash of a
// backend.
func (b *Breaker) RecordFailure(now time.Time) {
	b.advance(now)
	switch b.state {
	case Closed:
		b.count(now, Failure, 0, 0)
	case HalfOpen, Ramping:
		b.open(now, 0, 0)
	}
}

func (b *Breaker) count(now time.Time, o Outcome, floor time.Duration, u float64) {
	if o == Ignored {
		return
	}
	b.push(o == Failure)
	if o != Failure {
		return
	}
	samples, failures := b.rate()
	if samples >= b.settings.MinSamples && float64(failures) >= b.settings.Threshold*float64(samples) {
		b.open(now, floor, u)
	}
}

func (b *Breaker) push(failed bool) {
	if len(b.ring) < b.capacity {
		b.ring = append(b.ring, failed)
		return
	}
	b.ring[b.next] = failed
	b.next = (b.next + 1) % b.capacity
}

// rate counts the outcomes in the window.
func (b *Breaker) rate() (samples, failures int) {
	samples = min(len(b.ring), b.settings.Window)
	for i := range samples { // from the newest back
		if b.ring[(b.next-1-i+len(b.ring))%len(b.ring)] {
			failures++
		}
	}
	return samples, failures
}

// finishProbe ends the probe, the only call of its epoch.
func (b *Breaker) finishProbe(now time.Time, o Outcome, floor time.Duration, u float64) {
	b.probing = false
	switch o {
	case Success:
		b.startRamp(now)
	case Failure:
		b.open(now, floor, u)
	}
}

func (b *Breaker) countRampCall(now time.Time, o Outcome, floor time.Duration, u float64) {
	switch o {
	case Failure:
		b.open(now, floor, u)
	case Success:
		if b.successes++; b.successes >= StageSuccesses {
			b.nextStage(now)
		}
	}
}

// open opens the breaker; the pause grows with the consecutive openings.
func (b *Breaker) open(now time.Time, floor time.Duration, u float64) {
	n := b.opening(now)
	pause := min(float64(b.settings.Ceiling), float64(b.settings.Base)*math.Pow(b.settings.Factor, float64(n-1)))
	pause *= 1 + u/10
	b.until = now.Add(max(floor, time.Duration(pause)))
}

// opening opens the breaker and returns the number of consecutive openings.
func (b *Breaker) opening(now time.Time) int {
	if b.state == Closed && now.Sub(b.since) >= CalmTime {
		b.openings = 0
	}
	b.openings++
	b.setState(Open, now)
	return b.openings
}

// Trip opens the breaker at once because the capability cannot work: until the
// given time or, if it is zero, until Reset, Readmit or Replaced.
func (b *Breaker) Trip(now, until time.Time) {
	b.opening(now)
	b.tripped, b.until = true, until
}

// Tripped reports whether the breaker is open after Trip.
func (b *Breaker) Tripped(now time.Time) bool {
	b.advance(now)
	return b.tripped
}

// Pauses of ejections.
const (
	ejectFirst = 5 * time.Minute
	ejectMost  = time.Hour
)

// Eject opens the breaker because of quality and returns the end of the pause. The pause
// doubles with every ejection, up to an hour; after it the ramp starts.
func (b *Breaker) Eject(now time.Time) (until time.Time) {
	pause := min(ejectMost, ejectFirst<<min(b.ejects, 8))
	b.ejects++
	b.setState(Open, now)
	b.ejected = true
	b.until = now.Add(pause)
	return b.until
}

// Ejected reports whether the breaker is open because of quality.
func (b *Breaker) Ejected(now time.Time) bool {
	b.advance(now)
	return b.ejected
}

// Reset closes the breaker and clears its history, after a change of the
// configuration or by order of an operator. Calls that are running no longer count.
func (b *Breaker) Reset(now time.Time) {
	b.openings, b.ejects = 0, 0
	b.setState(Closed, now)
	b.epoch++
}

// Readmit starts the ramp of an open breaker, because an operator has fixed the
// cause.
func (b *Breaker) Readmit(now time.Time) {
	b.advance(now)
	if b.state == Open || b.state == HalfOpen {
		b.startRamp(now)
	}
}

// Admits reports whether a call could be admitted now, without counting one.
func (b *Breaker) Admits(now time.Time) bool {
	b.advance(now)
	return b.state != Open && (b.state != HalfOpen || !b.probing)
}

// Replaced adapts the breaker to another edition of the plugin: a tripped breaker
// closes, an ejected one starts its ramp, and one that admits calls drops the state of
// the old edition: outcomes, the probe, successes of the stage, and calls that are
// running. A pause after failures continues.
func (b *Breaker) Replaced(now time.Time) {
	b.advance(now)
	switch {
	case b.tripped:
		b.Reset(now)
	case b.ejected:
		b.startRamp(now)
	case b.state != Open:
		b.clear()
		b.probing, b.successes = false, 0
		b.epoch++
	}
}

func (b *Breaker) clear() {
	b.ring, b.next = b.ring[:0], 0
}

func (b *Breaker) setState(s State, now time.Time) {
	if b.state != Ramping || s != Closed { // calls admitted in the ramp still count
		b.epoch++
	}
	b.state, b.since, b.until = s, now, time.Time{}
	b.probing, b.ejected, b.tripped = false, false, false
	b.stage, b.requests, b.successes = 0, 0, 0
	b.clear()
}

func (b *Breaker) startRamp(now time.Time) {
	b.setState(Ramping, now)
}

// nextStage keeps the epoch: calls of the previous stage still count.
func (b *Breaker) nextStage(now time.Time) {
	if b.stage++; b.stage == len(b.settings.Ramp) {
		b.setState(Closed, now)
	} else {
		b.since, b.requests, b.successes = now, 0, 0
	}
}

// advance applies the transitions that depend on time alone.
func (b *Breaker) advance(now time.Time) {
	if b.state == Open && !b.until.IsZero() && !now.Before(b.until) {
		if b.ejected {
			b.startRamp(b.until)
		} else {
			b.setState(HalfOpen, b.until)
		}
	}
	for b.state == Ramping && now.Sub(b.since) >= StageTime {
		b.nextStage(b.since.Add(StageTime))
	}
}
