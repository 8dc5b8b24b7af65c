package stats

import (
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/edn"
)

// qualitySettings fills q with the defaults. MinSamples is at most the window,
// because the window never holds more.
func qualitySettings(q registry.Quality) registry.Quality {
	f := breaker.DefaultFloor()
	q = q.Over(registry.Quality{
		Window:      f.Window,
		MinSamples:  f.MinSamples,
		MinPassRate: registry.ShareOf(0),
		Hysteresis:  registry.ShareOf(f.Hysteresis),
		Action:      registry.ActionSwap,
		MaxEjected:  registry.ShareOf(0.5),
	})
	q.MinSamples = min(q.MinSamples, q.Window)
	return q
}

func floorOf(q registry.Quality) breaker.Floor {
	return breaker.Floor{
		Window:      q.Window,
		MinSamples:  q.MinSamples,
		MinPassRate: q.MinPassRate.V,
		Hysteresis:  q.Hysteresis.V,
	}
}

// health is the quality of the answers of a candidate and the state of its
// remediation. Candidate.mu guards it.
type health struct {
	rules  registry.Quality
	window *breaker.Window
	// since: verdicts on earlier calls are ignored.
	since      time.Time
	acting     bool   // a remediation is running
	degraded   bool   // a remediation is needed but not possible
	substitute string // serves in its place while it is ejected
	why        string // why it is ejected
}

func (h *health) configure(rules registry.Quality) {
	if h.rules != rules {
		h.rules, h.window = rules, h.window.WithFloor(floorOf(rules))
	}
}

// renewed sets now as the earliest start of a call whose verdict counts. It is called
// when another edition or new processes serve, and after an ejection or readmission.
func (h *health) renewed(now time.Time) { h.since, h.degraded = now, false }

// recordAction empties the window at the start of an action.
func (h *health) recordAction(now time.Time) {
	h.window.RecordAction(now)
	h.degraded = false
}

// rate returns the window as data.
func (h *health) rate() edn.Value {
	passes, samples := h.window.Counts()
	floor, err := edn.ParseDecimal(formatShare(h.rules.MinPassRate.V))
	if err != nil {
		floor = edn.Nil()
	}
	return edn.MustMap(
		edn.K("passes"), edn.Int(int64(passes)), edn.K("samples"), edn.Int(int64(samples)),
		edn.K("min-pass-rate"), floor,
	)
}

// reason describes the pass rate.
func (h *health) reason() string {
	passes, samples := h.window.Counts()
	return fmt.Sprintf("%d of the last %d answers passed their gates, %s of them should", passes, samples,
		formatShare(h.rules.MinPassRate.V))
}

// Sample identifies an answer whose verdict is to be added to the quality window. Without
// a Candidate the verdict is not counted.
type Sample struct {
	Candidate *Candidate
	Edition   int       // edition that answered
	Began     time.Time // start of the call
}

// Add adds the verdict to the window; score counts for a pass. It reports whether the
// pass rate fell below its floor; then the caller must call Remediation.Start, and Add
// returns false until that remediation has ended. Verdicts on a trial edition or an
// earlier edition are ignored (BRK-007).
func (v Sample) Add(now time.Time, pass bool, score quality.Score) (fell bool) {
	cs := v.Candidate
	if cs == nil {
		return false
	}
	cs.mu.Lock()
	defer cs.unlock(now)
	h := &cs.health
	if v.Edition != cs.edition || v.Began.Before(h.since) {
		return false
	}
	crossing := h.window.Add(now, pass, int(score))
	if h.degraded && h.window.Healthy() {
		h.degraded = false
		cs.note(now, EventRecovered, h.rate())
	}
	if crossing != breaker.Fell || h.acting {
		return false
	}
	h.acting = true
	return true
}
