package calibration

import (
	"slices"
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
	// Models are the models that answered during the calibration. Empty means unknown.
	Models []string
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
	w.Agrees, w.CapID, w.Key, w.Models = r.Kappa >= j.MinKappa, r.Capability, r.Key, r.answered()
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

// Grader identifies the source of a grade. The zero value of a field, and an empty model, is
// unknown and matches every calibration.
type Grader struct {
	CapID, Key string
	// Models gave the votes, as their servers name them.
	Models []string
}

// Covers reports whether the calibration is valid for a grade of g.
func (w Weight) Covers(g Grader) bool {
	switch w.Standing {
	case "", Uncalibrated, Expired:
		return false
	}
	return matches(w.CapID, g.CapID) && matches(w.Key, g.Key) && w.Unmeasured(g) == ""
}

// Unmeasured returns a model of g that did not answer during the calibration; empty if there is none.
func (w Weight) Unmeasured(g Grader) string {
	for _, model := range g.Models {
		if !measured(w.Models, model) {
			return model
		}
	}
	return ""
}

// Rejects reports whether a grade of g can reject an answer by itself. If not, it only counts in
// the score.
func (w Weight) Rejects(g Grader) bool {
	return w.Standing != Worthless && w.Agrees && w.Covers(g)
}

func matches(calibrated, given string) bool {
	return calibrated == "" || given == "" || calibrated == given
}

// measured reports whether a model is among those that answered. It is true if either is unknown.
func measured(answered []string, model string) bool {
	return len(answered) == 0 || model == "" || slices.Contains(answered, model)
}
