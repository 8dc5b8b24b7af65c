package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The buckets of learned dispatch: outcomes are learned separately for each bucket of the
// calls of an intent.
const (
	BucketNone     = "none"
	BucketSize     = "size"     // of the input
	BucketLanguage = "language" // of the text of the input
)

// Prior is the assumed pass rate of a capability before its first outcome: the parameters
// of a Beta distribution.
type Prior struct{ Passes, Fails float64 }

// LearnedLayer holds the written settings of learned dispatch (LRN-001).
type LearnedLayer struct {
	Prior  Val[Prior]
	Priors map[string]Prior // by capability, in place of Prior
	// Explore is the share of decisions, 0 to 1, that choose the first candidate uniformly at
	// random.
	Explore Val[float64]
	// HalfLife is the age at which an outcome counts half.
	HalfLife                  Val[time.Duration]
	CostWeight, LatencyWeight Val[float64]
	Bucket                    Val[string]
}

// Learned are the effective settings of learned dispatch.
type Learned struct {
	Prior                              Prior
	Priors                             map[string]Prior
	Explore, CostWeight, LatencyWeight float64
	HalfLife                           time.Duration
	Bucket                             string
}

// Of returns the prior of a capability: its entry in Priors, else Prior.
func (l *Learned) Of(capID string) Prior {
	if p, ok := l.Priors[capID]; ok {
		return p
	}
	return l.Prior
}

// over returns the settings of l where it has any, else those of weak. Both may be nil.
func (l *LearnedLayer) over(weak *LearnedLayer) *LearnedLayer {
	if l == nil || weak == nil {
		return cmp.Or(l, weak)
	}
	priors := weak.Priors
	if l.Prior.Set { // it applies to every capability
		priors = nil
	}
	out := &LearnedLayer{
		Prior:         nearest(weak.Prior, l.Prior),
		Priors:        priors,
		Explore:       nearest(weak.Explore, l.Explore),
		HalfLife:      nearest(weak.HalfLife, l.HalfLife),
		CostWeight:    nearest(weak.CostWeight, l.CostWeight),
		LatencyWeight: nearest(weak.LatencyWeight, l.LatencyWeight),
		Bucket:        nearest(weak.Bucket, l.Bucket),
	}
	if len(l.Priors) > 0 {
		out.Priors = maps.Clone(l.Priors)
		for id, p := range priors {
			if _, written := out.Priors[id]; !written {
				out.Priors[id] = p
			}
		}
	}
	return out
}

// resolve fills in the defaults. l may be nil.
func (l *LearnedLayer) resolve() *Learned {
	if l == nil {
		l = &LearnedLayer{}
	}
	return &Learned{
		Prior:         l.Prior.Or(Prior{1, 1}),
		Priors:        l.Priors,
		Explore:       l.Explore.Or(0.05),
		HalfLife:      l.HalfLife.Or(14 * 24 * time.Hour),
		CostWeight:    l.CostWeight.Or(0.2),
		LatencyWeight: l.LatencyWeight.Or(0.1),
		Bucket:        l.Bucket.Or(BucketNone),
	}
}

// HasMustBesides reports whether the layer has a must check other than the named one. A
// judge does not count.
func (l *Layer) HasMustBesides(check string) bool {
	must, _ := l.gates()
	return slices.ContainsFunc(must, func(name string) bool { return name != check })
}
