package registry

import (
	"slices"
	"time"
)

// Breaker holds the circuit breaker settings of a capability, or of the calls of a policy.
// Zero fields are unset. Window and MinSamples count outcomes; the breaker opens if the
// share of failures reaches Threshold. Base, Factor and Ceiling are the exponential backoff
// of the open state. Ramp is the percentage of calls admitted in each stage of recovery.
type Breaker struct {
	Window, MinSamples int
	Threshold          float64
	Base, Ceiling      time.Duration
	Factor             float64
	Ramp               []int
}

// Over returns b with unset fields taken from weak.
func (b Breaker) Over(weak Breaker) Breaker {
	if b.Window != 0 {
		weak.Window = b.Window
	}
	if b.MinSamples != 0 {
		weak.MinSamples = b.MinSamples
	}
	if b.Threshold != 0 {
		weak.Threshold = b.Threshold
	}
	if b.Base != 0 {
		weak.Base = b.Base
	}
	if b.Ceiling != 0 {
		weak.Ceiling = b.Ceiling
	}
	if b.Factor != 0 {
		weak.Factor = b.Factor
	}
	if b.Ramp != nil {
		weak.Ramp = b.Ramp
	}
	return weak
}

// Equal reports whether b and o have the same settings.
func (b Breaker) Equal(o Breaker) bool {
	return slices.Equal(b.Ramp, o.Ramp) && b.Window == o.Window && b.MinSamples == o.MinSamples &&
		b.Threshold == o.Threshold &&
		b.Base == o.Base && b.Ceiling == o.Ceiling && b.Factor == o.Factor
}
