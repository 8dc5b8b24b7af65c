package calibration

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Weight holds what the calibration of a judge permits: whether it is called, and whether its
// grades can reject an answer (JDG-005, JDG-011). The zero value is that of a judge that was never
// calibrated.
type Weight struct {
	// Standing is empty or Uncalibrated without a calibration.
	Standing Standing
	// Agrees reports whether kappa reaches the minimum of the judge.
	Agrees bool
	// CapID is the calibrated capability. Key identifies everything else that
	// determines grades besides task and answer. Empty means unknown.
	CapID, Key string
	// Reason is the reason why a drifted or worthless judge is not called; empty for other
	// standings.
	Reason string
}

// Weight returns the weight of the grades of a judge with this record, which may
// be nil.
func (r *Record) Weight(j *registry.Judge, now time.Time) Weight {
	w := Weight{Standing: r.Standing(j, now)}
	if r == nil {
		return w
	}
	w.Agrees, w.CapID, w.Key = r.Kappa >= j.MinKappa, r.Capability, r.Key
	switch w.Standing {
	case Drifted:
		w.Reason = r.Decline()
	case Worthless:
		w.Reason = r.Worthless()
	}
	return w
}

// Drift returns the reason why the calibrated capability of a drifted judge must not be called;
// empty for any other judge.
func (w Weight) Drift() string { return w.reason(Drifted) }

// Worthless returns the reason why a worthless judge must not be called, whatever its capability;
// empty for any other judge.
func (w Weight) Worthless() string { return w.reason(Worthless) }

func (w Weight) reason(s Standing) string {
	if w.Standing != s {
		return ""
	}
	return w.Reason
}

// Covers reports whether the calibration is valid for grades of a capability
// with a key. An empty argument is unknown and matches every value.
func (w Weight) Covers(capID, key string) bool {
	switch w.Standing {
	case "", Uncalibrated, Expired:
		return false
	}
	return matches(w.CapID, capID) && matches(w.Key, key)
}

// Rejects reports whether a grade of a capability with a key can reject an answer
// by itself. If not, it only counts in the score.
func (w Weight) Rejects(capID, key string) bool {
	return w.Standing != Worthless && w.Agrees && w.Covers(capID, key)
}

func matches(calibrated, given string) bool {
	return calibrated == "" || given == "" || calibrated == given
}
