package breaker

import (
	"math"
	"slices"
	"time"
)

// Floor is what the answers of a capability have to reach.
type Floor struct {
	// Window is how many verdicts the rate is taken over; MinSamples of them
	// have to be there.
	Window, MinSamples int
	// MinPassRate is the floor itself; 0 switches it off.
	MinPassRate float64
	// Hysteresis above the floor have to be reached to be well again.
	Hysteresis float64
}

// DefaultFloor counts and never complains.
func DefaultFloor() Floor { return Floor{Window: 20, MinSamples: 10, Hysteresis: 0.1} }

// Times between actions.
const (
	// ActionPause lies between two actions on one capability.
	ActionPause = time.Minute
	// Within ActionSpan the third action is a quarantine, whatever was asked for.
	ActionSpan = 10 * time.Minute
)

// Crossing is what a verdict made of a Window.
type Crossing int

// The crossings.
const (
	Steady Crossing = iota
	// Fell below the floor: something should be done about the capability.
	Fell
	// Rose says that it is well again without anything having been done.
	Rose
)

// Window holds the last verdicts about one capability for one intent.
type Window struct {
	floor Floor

	ring   []sample
	next   int
	passes int
	total  int         // of the scores of passes, in thousandths
	below  bool        // it fell and nothing was done
	fresh  int         // verdicts since it fell
	acted  []time.Time // the last actions
}

type sample struct {
	pass  bool
	score int
}

// NewWindow makes an empty window.
func NewWindow(f Floor) *Window { return &Window{floor: f, ring: make([]sample, 0, f.Window)} }

// Add takes a verdict of the gates; score is that of a pass in thousandths.
func (w *Window) Add(now time.Time, pass bool, score int) Crossing {
	w.push(sample{pass, score})
	if w.floor.MinPassRate == 0 {
		return Steady
	}
	rate := float64(w.passes) / float64(len(w.ring))
	if w.below {
		w.fresh++
		if w.fresh >= w.floor.MinSamples && rate >= w.floor.MinPassRate+w.floor.Hysteresis {
			w.below = false
			return Rose
		}
		return w.signal(now)
	}
	if len(w.ring) >= w.floor.MinSamples && rate < w.floor.MinPassRate-w.slack() {
		w.below, w.fresh = true, 0
		return w.signal(now)
	}
	return Steady
}

// remind tells of the fall until something was done about it, and not while an
// action before is still being waited for.
func (w *Window) signal(now time.Time) Crossing {
	if n := len(w.acted); n > 0 && now.Sub(w.acted[n-1]) < ActionPause {
		return Steady
	}
	return Fell
}

// slack is by how much chance alone may miss the floor.
func (w *Window) slack() float64 {
	f := w.floor.MinPassRate
	return min(math.Sqrt(f*(1-f)/float64(len(w.ring))), f/2)
}

func (w *Window) push(s sample) {
	if len(w.ring) < w.floor.Window {
		w.ring = append(w.ring, s)
	} else {
		old := w.ring[w.next]
		if old.pass {
			w.passes--
			w.total -= old.score
		}
		w.ring[w.next] = s
		w.next = (w.next + 1) % w.floor.Window
	}
	if s.pass {
		w.passes++
		w.total += s.score
	}
}

// Acted says that something is being done about a fall: the window begins anew.
// quarantine tells that it has to be a quarantine, because it is the third time
// in a short while.
func (w *Window) RecordAction(now time.Time) (quarantine bool) {
	quarantine = w.IsThirdAction(now)
	w.acted = append(w.acted, now)
	w.clear()
	return quarantine
}

// Third tells whether something that is done now is the third thing in a short
// while.
func (w *Window) IsThirdAction(now time.Time) bool {
	w.acted = slices.DeleteFunc(w.acted, func(at time.Time) bool { return now.Sub(at) >= ActionSpan })
	return len(w.acted) >= 2
}

// Under is the window with another floor: the verdicts are kept, as many as it
// holds, and so is when something was done.
func (w *Window) WithFloor(f Floor) *Window {
	n := NewWindow(f)
	for i := range w.ring {
		n.push(w.ring[(w.next+i)%len(w.ring)]) // the oldest first
	}
	n.acted = w.acted
	return n
}

// Replaced says that another generation or version answers from now on.
func (w *Window) Replaced() { w.clear() }

func (w *Window) clear() {
	w.ring, w.next, w.passes, w.total = w.ring[:0], 0, 0, 0
	w.below = false
}

// Well tells whether the answers are clearly above the floor.
func (w *Window) Healthy() bool {
	n := len(w.ring)
	return !w.below && n >= w.floor.MinSamples && float64(w.passes) >= (w.floor.MinPassRate+w.floor.Hysteresis)*float64(n)
}

// Below tells whether it fell and has not come back.
func (w *Window) Below() bool { return w.below }

// Floor is what the answers have to reach.
func (w *Window) Floor() Floor { return w.floor }

// Counts returns the passes and the verdicts in the window.
func (w *Window) Counts() (passes, samples int) { return w.passes, len(w.ring) }

// Quality is the figure by which candidates are ordered, in hundredths: the
// pass rate, drawn towards four fifths while there are few verdicts, times the
// mean score of the passes.
func (w *Window) Quality() int {
	mean := 1.0
	if w.passes > 0 {
		mean = float64(w.total) / 1000 / float64(w.passes)
	}
	return int(math.Round(float64(w.passes+4) / float64(len(w.ring)+5) * mean * 100))
}
