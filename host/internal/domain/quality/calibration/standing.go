package calibration

import (
	"fmt"
	"math"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Standing is how far a judge may be believed, in a word.
type Standing string

// The standings. A judge refuses answers by itself only if it is believed; one that
// has drifted or is worthless is not asked, and the others count in the score
// (JDG-011).
const (
	Believed     Standing = "believed"
	Uncalibrated Standing = "uncalibrated" // nobody has measured it
	Expired      Standing = "expired"      // that was too long ago
	Weak         Standing = "weak"         // it agrees too little with the labels
	Drifted      Standing = "drifted"      // it agrees less than it did
	Worthless    Standing = "worthless"    // it agrees no better than chance or a rule about length
)

// Standing is that of a judge with this record; the record may be nil. That a judge
// has drifted or is worthless does not expire.
func (r *Record) Standing(j *registry.Judge, now time.Time) Standing {
	switch {
	case r == nil, r.Other(j):
		return Uncalibrated
	case r.Drifted(j.Drift):
		return Drifted
	case r.Worthless() != "":
		return Worthless
	case now.Sub(r.At) > j.Recheck:
		return Expired
	case r.Kappa < j.MinKappa:
		return Weak
	}
	return Believed
}

// Bounds of what tells a judge from a coin and from a rule about length.
const (
	// chanceSigmas is the one-sided 5 % bound of a normal distribution.
	chanceSigmas = 1.645
	// leastRule is the agreement with a rule about length from which on the rule
	// explains the verdicts. The best of the rules for 40 answers that are judged
	// without regard to their lengths stays below it in 99 of 100 cases.
	leastRule = 0.6
	// moreThanLabels is by how much a rule has to agree more than the labels: the
	// lengths of anchors agree with the labels too, more or less.
	moreThanLabels = 0.04
)

// Worthless says why verdicts of the judge tell nothing about an answer: its
// agreement with the labels is within what chance gives, or its verdicts agree more
// with the length of an answer than with the labels. Empty if neither is known.
func (r *Record) Worthless() string {
	kappa, n := r.Kappa, float64(r.Good+r.Bad)
	if n == 0 {
		return ""
	}
	if r.Retest.Known() {
		kappa = (kappa + r.Retest.Value) / 2
	}
	if bound := chanceSigmas * r.byChance(); kappa <= bound {
		return fmt.Sprintf("its agreement with labelled answers is no better than chance: "+
			"kappa %.2f, chance alone gives up to %.2f", kappa, bound)
	}
	if r.Rule.Known() && r.Rule.Value >= leastRule && r.Rule.Value > r.Kappa+moreThanLabels {
		return fmt.Sprintf("its verdicts follow the length of an answer, kappa %.2f, "+
			"more than the labels, kappa %.2f", r.Rule.Value, r.Kappa)
	}
	return ""
}

// byChance is the standard deviation of kappa of a judge that passes as many
// answers without looking at them.
func (r *Record) byChance() float64 {
	good, bad := float64(r.Good), float64(r.Bad)
	n := good + bad
	passed := r.Sensitivity*good + (1-r.Specificity)*bad
	chance := (good*passed + bad*(n-passed)) / (n * n)
	if chance >= 1 {
		return 0
	}
	return math.Sqrt(chance / (n * (1 - chance)))
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
