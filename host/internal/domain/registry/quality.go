package registry

// What is done about a capability whose answers are not good enough.
const (
	ActionSwap       = "swap"       // another edition, or another capability, takes its place
	ActionRestart    = "restart"    // its processes are started anew
	ActionQuarantine = "quarantine" // it is left out
)

// Quality is what an operator wrote about the answers of a capability, or of
// those who serve an intent. Zero fields are not written.
type Quality struct {
	Window, MinSamples int
	// MinPassRate is the least share of answers that pass their gates; 0 asks
	// for nothing. The share has to be Hysteresis above it to be good again.
	MinPassRate, Hysteresis Share
	// Action is one of the actions.
	Action string
	// SwapTo is the capability that takes the place of one that is swapped;
	// empty: the next edition of its plugin.
	SwapTo string
	// MaxEjected is the most of the candidates of an intent that may be left out
	// at once.
	MaxEjected Share
}

// Share is a number from 0 to 1 that may not be written.
type Share struct {
	V   float64
	Set bool
}

// ShareOf is a share that is written.
func ShareOf(v float64) Share { return Share{V: v, Set: true} }

// Over lays what q says over what a weaker place says.
func (q Quality) Over(weak Quality) Quality {
	if q.Window != 0 {
		weak.Window = q.Window
	}
	if q.MinSamples != 0 {
		weak.MinSamples = q.MinSamples
	}
	for _, share := range []struct{ from, to *Share }{
		{&q.MinPassRate, &weak.MinPassRate}, {&q.Hysteresis, &weak.Hysteresis}, {&q.MaxEjected, &weak.MaxEjected},
	} {
		if share.from.Set {
			*share.to = *share.from
		}
	}
	if q.Action != "" {
		weak.Action = q.Action
	}
	if q.SwapTo != "" {
		weak.SwapTo = q.SwapTo
	}
	return weak
}
