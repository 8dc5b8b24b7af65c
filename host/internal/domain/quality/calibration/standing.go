package calibration

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
)

// Standing is the degree of trust in a judge that follows from its calibration.
type Standing string

// The standings. Only a Believed judge rejects answers by itself. A Drifted or Worthless
// judge is not called; the others only affect the score (JDG-011).
const (
	Believed     Standing = "believed"
	Uncalibrated Standing = "uncalibrated" // never calibrated
	Expired      Standing = "expired"      // calibrated too long ago
	Weak         Standing = "weak"         // agrees too little with the labels
	Drifted      Standing = "drifted"      // agrees less than before
	Worthless    Standing = "worthless"    // agrees no better than chance or a rule about length
)

// Standing returns the standing of a judge with this record. A nil record, and a record of
// another capability, is Uncalibrated. Drifted and Worthless do not expire.
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

// Bounds that distinguish a judge from chance and from a rule about length.
const (
	// chanceSigmas is the one-sided 5 % bound of a normal distribution.
	chanceSigmas = 1.645
	// leastRule is the agreement with a length rule at which the rule explains
	// the verdicts. For 40 answers judged independently of their lengths, the
	// best rule stays below it in 99 of 100 cases.
	leastRule = 0.6
	// moreThanLabels is the amount by which a rule must agree more than the
	// labels: the lengths of anchors also correlate with the labels.
	moreThanLabels = 0.04
)

// Worthless returns the reason why verdicts of the judge contain no information: its
// agreement with the labels is within chance, or its verdicts agree more with the length of
// an answer than with the labels. It is empty if neither holds, or if nothing was measured.
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

// Decline describes the decrease in agreement since the baseline.
func (r *Record) Decline() string {
	return fmt.Sprintf("kappa was %s at first and is %s", plain(r.Baseline.Value), plain(r.Kappa))
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// byChance is the standard deviation of kappa of a judge that passes the same
// number of answers at random.
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

// Other reports whether the record belongs to another capability than the one that the judge names.
// It is false if the judge names none.
func (r *Record) Other(j *registry.Judge) bool {
	return j.Capability != "" && r.Capability != j.Capability
}

// Due returns the time of the next calibration of a judge whose records expire after
// recheck. It is before the record expires, so that there is always a valid one. early,
// from 0 to 1, moves it forward, so that judges are not all calibrated at once.
func (r *Record) Due(recheck time.Duration, early float64) time.Time {
	return r.At.Add(recheck*9/10 - time.Duration(early*float64(recheck)/20))
}

// EarliestDue returns the earliest time that Due may return.
func (r *Record) EarliestDue(recheck time.Duration) time.Time { return r.Due(recheck, 1) }
