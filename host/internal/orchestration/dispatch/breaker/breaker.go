package breaker

import (
	"math"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Defaults are the settings of a breaker about which nothing was written.
func Defaults() registry.Breaker {
	return registry.Breaker{
		Window: 20, MinSamples: 5, Threshold: 0.5,
		Base: time.Second, Factor: 2, Ceiling: 5 * time.Minute,
		Ramp: []int{10, 25, 50, 100},
	}
}

// Figures of the way back.
const (
	// StageSuccesses end a stage of the ramp, and so does StageTime without a
	// failure.
	StageSuccesses = 5
	StageTime      = 5 * time.Second
	// CalmTime closed makes the next opening the first in a row again.
	CalmTime = 5 * time.Minute
)

// State is where a breaker stands.
type State string

// The states.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half-open"
	Ramping  State = "ramp"
)

// Outcome is how a call ended, as far as a breaker cares.
type Outcome int

// The outcomes.
const (
	// Ignored says nothing: the call was canceled, was at fault itself, or had
	// no budget.
	Ignored Outcome = iota
	// Success is any answer, whatever the gates say of it.
	Success
	// Failure is an error of the plugin or of what it stands on, of a class that
	// is retried or switched.
	Failure
)

// Ticket belongs to a call that has entered. Reporting the zero Ticket does
// nothing.
type Permit struct{ epoch uint64 }

// Breaker is that of one capability for one intent. It is made by New.
type Breaker struct {
	settings registry.Breaker

	state State
	// epoch changes with the state: an outcome of a call that was admitted
	// before says nothing about what the breaker is waiting for now.
	epoch    uint64
	openings int       // in a row
	until    time.Time // Open: when it ends; zero: not by itself
	ejected  bool      // Open, because of quality: no probe, straight to the ramp
	ejects   int       // ejections so far
	tripped  bool      // Open, because the capability cannot work as it is set up
	since    time.Time // of Closed, and of the stage
	probing  bool      // HalfOpen: the probe is out

	// Closed: the last outcomes, true for a failure, as many as the largest
	// window has that was ever set. The oldest is at next once all room is taken.
	ring     []bool
	capacity int
	next     int

	stage     int // Ramping: index into set.Ramp
	requests  int // calls that asked in this stage
	successes int
}

// New makes a closed breaker. Every field of its settings is written.
func New(s registry.Breaker, now time.Time) *Breaker {
	return &Breaker{settings: s, state: Closed, since: now, capacity: s.Window}
}

// Under changes the settings. What was seen and where the breaker stands are
// kept: calls under different settings may ask for the same capability in turn.
// A pause that has begun ends when it was to end.
func (b *Breaker) SetSettings(s registry.Breaker) {
	if s.Window > b.capacity { // in order again, so that it can grow
		b.ring = slices.Concat(b.ring[b.next:], b.ring[:b.next])
		b.capacity, b.next = s.Window, 0
	}
	b.settings = s
	b.stage = min(b.stage, len(s.Ramp)-1)
}

// State returns the state at that time.
func (b *Breaker) State(now time.Time) State {
	b.advance(now)
	return b.state
}

// Reopens is the earliest time at which a call may be admitted again; zero if
// one may be now. ok is false if that will not happen by itself.
func (b *Breaker) Reopens(now time.Time) (at time.Time, ok bool) {
	b.advance(now)
	if b.state != Open {
		return time.Time{}, true
	}
	return b.until, !b.until.IsZero()
}

// Ask tells whether a call may be made. It is asked once per call: in the ramp it
// counts, and only every so many calls are let through.
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

// Enter begins a call for which Ask was true. It fails if somebody else became
// the probe since, or if the breaker opened. A call that has entered is reported
// once.
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

// Standing is the state as it was when the breaker was last asked or told.
func (b *Breaker) LastState() State { return b.state }

// Quiet tells whether the breaker is closed, so that there is nothing to ask.
func (b *Breaker) IsClosed() bool { return b.state == Closed }

// share tells whether call k of a stage is one of its share.
func (b *Breaker) share(k int) bool {
	s := b.settings.Ramp[b.stage]
	return k*s/100 > (k-1)*s/100
}

// Report says how an admitted call ended. floor is how long the capability asks
// to be left alone (Retry-After), u is random.
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

// Witness counts a failure that was seen outside of a call, such as the end of a
// process that answers for the capability.
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

// rate counts what lies within the window.
func (b *Breaker) rate() (samples, failures int) {
	samples = min(len(b.ring), b.settings.Window)
	for i := range samples { // from the newest one back
		if b.ring[(b.next-1-i+len(b.ring))%len(b.ring)] {
			failures++
		}
	}
	return samples, failures
}

// probed ends the probe, the only call of its epoch.
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

// open begins a pause that is the next in a row.
func (b *Breaker) open(now time.Time, floor time.Duration, u float64) {
	n := b.opening(now)
	pause := min(float64(b.settings.Ceiling), float64(b.settings.Base)*math.Pow(b.settings.Factor, float64(n-1)))
	pause *= 1 + u/10
	b.until = now.Add(max(floor, time.Duration(pause)))
}

// opening opens the breaker and returns the number of openings in a row.
func (b *Breaker) opening(now time.Time) int {
	if b.state == Closed && now.Sub(b.since) >= CalmTime {
		b.openings = 0
	}
	b.openings++
	b.setState(Open, now)
	return b.openings
}

// Trip opens the breaker at once and whatever the rate: the capability cannot
// work until that time, or until Reset if the time is zero.
func (b *Breaker) Trip(now, until time.Time) {
	b.opening(now)
	b.tripped, b.until = true, until
}

// Tripped tells whether the breaker is open because the capability cannot work.
func (b *Breaker) Tripped(now time.Time) bool {
	b.advance(now)
	return b.tripped
}

// Pauses of ejections.
const (
	ejectFirst = 5 * time.Minute
	ejectMost  = time.Hour
)

// Eject opens the breaker because of the quality of answers. The pause doubles
// with every ejection; after it calls come back through the ramp.
func (b *Breaker) Eject(now time.Time) (until time.Time) {
	pause := min(ejectMost, ejectFirst<<min(b.ejects, 8))
	b.ejects++
	b.setState(Open, now)
	b.ejected = true
	b.until = now.Add(pause)
	return b.until
}

// Ejected tells whether the breaker is open because of quality.
func (b *Breaker) Ejected(now time.Time) bool {
	b.advance(now)
	return b.ejected
}

// Reset closes the breaker and forgets what was: the configuration of the
// capability changed.
func (b *Breaker) Reset(now time.Time) {
	b.openings, b.ejects = 0, 0
	b.setState(Closed, now)
}

// Readmit lets calls come back through the ramp, whatever the breaker is open
// for: somebody knows that the cause is gone.
func (b *Breaker) Readmit(now time.Time) {
	b.advance(now)
	if b.state == Open || b.state == HalfOpen {
		b.startRamp(now)
	}
}

// Admits tells whether a call may be admitted now, without being one.
func (b *Breaker) Admits(now time.Time) bool {
	b.advance(now)
	return b.state != Open && (b.state != HalfOpen || !b.probing)
}

// Replaced says that another edition of the plugin serves from now on: the
// outcomes of the old one say nothing about it. What could not work as it was
// set up begins anew, what was not good enough comes back through the ramp.
func (b *Breaker) Replaced(now time.Time) {
	b.advance(now)
	switch {
	case b.tripped:
		b.Reset(now)
	case b.ejected:
		b.startRamp(now)
	case b.state == Closed: // only then are outcomes remembered
		b.clear()
		b.epoch++
	}
}

func (b *Breaker) clear() {
	b.ring, b.next = b.ring[:0], 0
}

func (b *Breaker) setState(s State, now time.Time) {
	if b.state != Ramping || s != Closed { // what was admitted on the way up still counts
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

// nextStage keeps the epoch: a call of the stage before still counts.
func (b *Breaker) nextStage(now time.Time) {
	if b.stage++; b.stage == len(b.settings.Ramp) {
		b.setState(Closed, now)
	} else {
		b.since, b.requests, b.successes = now, 0, 0
	}
}

// advance does what time alone does.
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
