package breaker

import (
	"math"
	"slices"
	"time"
)

// Floor is the required pass rate of a capability.
type Floor struct {
	// Window is the number of verdicts that the rate is computed from; at least
	// MinSamples are needed.
	Window, MinSamples int
	// MinPassRate is the floor; 0 disables it.
	MinPassRate float64
	// Hysteresis is the amount by which the rate must exceed the floor to be healthy again.
	Hysteresis float64
}

// DefaultFloor returns a floor that only counts verdicts: MinPassRate is 0.
func DefaultFloor() Floor { return Floor{Window: 20, MinSamples: 10, Hysteresis: 0.1} }

// Times between actions.
const (
	// ActionPause is the minimum time between two actions on one capability.
	ActionPause = time.Minute
	// The third action within ActionSpan is always a quarantine.
	ActionSpan = 10 * time.Minute
)

// Crossing is the result of adding a verdict to a Window.
type Crossing int

// Crossings of the floor.
const (
	Steady Crossing = iota
	// Fell: the rate is below the floor and an action is due.
	Fell
	// Rose: the rate has recovered without an action.
	Rose
)

// Window holds the last verdicts on one capability for one intent.
type Window struct {
	floor Floor

	ring   []sample
	next   int
	passes int
	total  int         // sum of the scores of passes, in thousandths
	below  bool        // the rate fell and no action was recorded
	fresh  int         // verdicts since the fall
	acted  []time.Time // times of the last actions
}

type sample struct {
	pass  bool
	score int
}

// NewWindow returns an empty window.
func NewWindow(f Floor) *Window { return &Window{floor: f, ring: make([]sample, 0, f.Window)} }

// Add adds a verdict of the gates and reports whether the pass rate crossed the floor.
// Below the floor it returns Fell for every verdict until an action is recorded, except
// within ActionPause of the last action. score is in thousandths and ignored unless pass
// is set.
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

// signal returns Fell until an action is recorded, but not within ActionPause
// of the last one.
func (w *Window) signal(now time.Time) Crossing {
	if n := len(w.acted); n > 0 && now.Sub(w.acted[n-1]) < ActionPause {
		return Steady
	}
	return Fell
}

// slack is the deviation from the floor that chance alone explains.
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

// RecordAction records an action and empties the window. quarantine is true if
// this is the third action within ActionSpan.
func (w *Window) RecordAction(now time.Time) (quarantine bool) {
	quarantine = w.IsThirdAction(now)
	w.acted = append(w.acted, now)
	w.clear()
	return quarantine
}

// IsThirdAction reports whether an action now would be the third within
// ActionSpan.
func (w *Window) IsThirdAction(now time.Time) bool {
	w.acted = slices.DeleteFunc(w.acted, func(at time.Time) bool { return now.Sub(at) >= ActionSpan })
	return len(w.acted) >= 2
}

// WithFloor returns the window with another floor. It keeps the verdicts, up to
// the new size, and the times of actions; Below is false until the next verdict.
func (w *Window) WithFloor(f Floor) *Window {
	n := NewWindow(f)
	for i := range w.ring {
		n.push(w.ring[(w.next+i)%len(w.ring)]) // the oldest first
	}
	n.acted = w.acted
	return n
}

// Replaced empties the window: another edition or version serves.
func (w *Window) Replaced() { w.clear() }

func (w *Window) clear() {
	w.ring, w.next, w.passes, w.total = w.ring[:0], 0, 0, 0
	w.below = false
}

// Healthy reports whether the window has at least MinSamples verdicts, the pass rate is
// above the floor by the hysteresis, and Below is false.
func (w *Window) Healthy() bool {
	n := len(w.ring)
	return !w.below && n >= w.floor.MinSamples &&
		float64(w.passes) >= (w.floor.MinPassRate+w.floor.Hysteresis)*float64(n)
}

// Below reports whether the rate fell below the floor and has neither recovered nor
// led to an action yet.
func (w *Window) Below() bool { return w.below }

// Counts returns the number of passes and of verdicts in the window.
func (w *Window) Counts() (passes, samples int) { return w.passes, len(w.ring) }

// Quality returns the score by which candidates are sorted, in hundredths: the
// pass rate, drawn towards 0.8 while there are few verdicts, times the mean
// score of the passes.
func (w *Window) Quality() int {
	mean := 1.0
	if w.passes > 0 {
		mean = float64(w.total) / 1000 / float64(w.passes)
	}
	return int(math.Round(float64(w.passes+4) / float64(len(w.ring)+5) * mean * 100))
}
