package calibration

import (
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Standing is how far a judge may be believed, in a word.
type Standing string

// The standings. A judge refuses answers by itself only if it is believed; one that
// has drifted is not asked, and the others count in the score (JDG-011).
const (
	Believed     Standing = "believed"
	Uncalibrated Standing = "uncalibrated" // nobody has measured it
	Expired      Standing = "expired"      // that was too long ago
	Weak         Standing = "weak"         // it agrees too little with the labels
	Drifted      Standing = "drifted"      // it agrees less than it did
)

// Standing is that of a judge with this record; the record may be nil. What a judge
// has drifted by does not expire.
func (r *Record) Standing(j *registry.Judge, now time.Time) Standing {
	switch {
	case r == nil, r.Other(j):
		return Uncalibrated
	case r.Drifted(j.Drift):
		return Drifted
	case now.Sub(r.At) > j.Recheck:
		return Expired
	case r.Kappa < j.MinKappa:
		return Weak
	}
	return Believed
}

// Other tells whether the record is of another capability than the one that the judge
// asks.
func (r *Record) Other(j *registry.Judge) bool {
	return j.Capability != "" && r.Capability != j.Capability
}

// Due is when a judge is to be measured again that holds so long: before the record
// is too old, so that there is always one, and that much earlier still, a share from 0
// to 1, so that not all judges are measured at once.
func (r *Record) Due(recheck time.Duration, early float64) time.Time {
	return r.At.Add(recheck*9/10 - time.Duration(early*float64(recheck)/20))
}

// EarliestDue is the first time that Due may give.
func (r *Record) EarliestDue(recheck time.Duration) time.Time { return r.Due(recheck, 1) }
