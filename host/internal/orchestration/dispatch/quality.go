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

// qualitySettings are what was written over the defaults. More samples than the
// window holds would never be there.
func qualitySettings(q registry.Quality) registry.Quality {
	f := breaker.DefaultFloor()
	q = q.Over(registry.Quality{
		Window: f.Window, MinSamples: f.MinSamples, MinPassRate: registry.ShareOf(0), Hysteresis: registry.ShareOf(f.Hysteresis),
		Action: registry.ActionSwap, MaxEjected: registry.ShareOf(0.5),
	})
	q.MinSamples = min(q.MinSamples, q.Window)
	return q
}

func floorOf(q registry.Quality) breaker.Floor {
	return breaker.Floor{Window: q.Window, MinSamples: q.MinSamples, MinPassRate: q.MinPassRate.V, Hysteresis: q.Hysteresis.V}
}

// standing is what was done about a capability because of its answers.
type remediationState struct {
	// since: what began before says nothing about who answers now.
	since      time.Time
	acting     bool   // something is being done
	degraded   bool   // something should be, and cannot
	substitute string // who serves in its place while it is not in
	why        string // it is out
}

// renewed says that somebody else answers from now on.
func (s *remediationState) renewed(now time.Time) {
	s.since, s.degraded = now, false
}

// sample is a verdict that the book does not know of yet.
type sample struct {
	stats   *candidateStats
	edition int       // that answered
	began   time.Time // the call
	attempt int
}

// add keeps a verdict; score is that of a pass. It tells whether the answers
// fell below their floor and nobody does anything about it. Neither an edition
// that is only tried, nor one that is gone, says anything (BRK-007).
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

// judged tells the book of a verdict, and does what follows from it.
func (o *operation) recordVerdict(v sample, pass bool, score quality.Score) {
	if v.stats != nil && v.add(o.d.Clock.Now(), pass, score) {
		o.remediate(v)
	}
}

// rate is the window as data. It is called with the lock.
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

// outOfService is why a candidate is left out by its breaker: nil unless that
// is for its answers, or for something that somebody has to set right.
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

// standIn is who serves in the place of a capability that was swapped for
// another, as long as it is not wholly in again.
func (o *operation) standIn(capID string) string {
	cs := o.stats(capID)
	if cs == nil || cs.closed.Load() {
		return ""
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.remediation.substitute
}

// refusal is how binding names a breaker that admits nobody.
func (cs *candidateStats) refusal(now time.Time) policy.Unavailable {
	return policy.Unavailable{Reason: policy.ReasonBreaker, Why: cs.outOfService(now)}
}
