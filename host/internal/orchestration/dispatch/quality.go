package dispatch

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/sdk/contract"
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

// remediationState is the state of remediation of a capability for an intent.
type remediationState struct {
	// since: verdicts on earlier calls are ignored.
	since      time.Time
	acting     bool   // a remediation is running
	degraded   bool   // a remediation is needed but not possible
	substitute string // serves in its place while it is ejected
	why        string // why it is ejected
}

// renewed is called when another edition or new processes serve.
func (s *remediationState) renewed(now time.Time) {
	s.since, s.degraded = now, false
}

// sample is a verdict that has not been added to the window.
type sample struct {
	stats   *candidateStats
	edition int       // edition that answered
	began   time.Time // start of the call
	attempt int
}

// add adds the verdict to the window; score counts for a pass. It reports
// whether the pass rate fell below its floor and a remediation must start.
// Verdicts on a trial edition or an earlier edition are ignored (BRK-007).
func (v sample) add(now time.Time, pass bool, score quality.Score) (fell bool) {
	cs := v.stats
	cs.mu.Lock()
	defer cs.unlock(now)
	if v.edition != cs.edition || v.began.Before(cs.remediation.since) {
		return false
	}
	crossing := cs.window.Add(now, pass, int(score))
	if cs.remediation.degraded && cs.window.Healthy() {
		cs.remediation.degraded = false
		cs.note(now, EventRecovered, cs.rate())
	}
	if crossing != breaker.Fell || cs.remediation.acting {
		return false
	}
	cs.remediation.acting = true
	return true
}

// recordVerdict adds a verdict and starts a remediation if the pass rate fell.
func (o *operation) recordVerdict(v sample, pass bool, score quality.Score) {
	if v.stats != nil && v.add(o.d.Clock.Now(), pass, score) {
		o.remediate(v)
	}
}

// rate returns the window as data. cs.mu must be held.
func (cs *candidateStats) rate() edn.Value {
	passes, samples := cs.window.Counts()
	floor, err := edn.ParseDecimal(formatShare(cs.rules.MinPassRate.V))
	if err != nil {
		floor = edn.Nil()
	}
	return edn.MustMap(
		edn.K("passes"), edn.Int(int64(passes)), edn.K("samples"), edn.Int(int64(samples)),
		edn.K("min-pass-rate"), floor,
	)
}

// outOfService returns why a candidate is ejected or tripped; nil if its
// breaker is open for failed calls.
func (cs *candidateStats) outOfService(now time.Time) *contract.Error {
	cs.mu.Lock()
	defer cs.unlock(now)
	switch {
	case cs.breaker.Tripped(now):
		return cs.tripped
	case !cs.breaker.Ejected(now):
		return nil
	}
	return contract.Errorf("eval/low-score", ":%s is left out for :%s: %s", cs.capID, cs.intent, cs.remediation.why)
}

// standIn returns the substitute of a swapped capability until its breaker is
// closed again.
func (o *operation) standIn(capID string) string {
	cs := o.stats(capID)
	if cs == nil || cs.closed.Load() {
		return ""
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.remediation.substitute
}

// refusal is the rejection of a call by the breaker, for binding.
func (cs *candidateStats) refusal(now time.Time) policy.Unavailable {
	return policy.Unavailable{Reason: policy.ReasonBreaker, Why: cs.outOfService(now)}
}
